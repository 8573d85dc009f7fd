"""Fits to measurements: the steps law, the critical batch size with an interval, and what it depends on."""

from sgdtheory._common.door import open_door

__getattr__, __dir__, __all__ = open_door(__name__, __file__)
