"""Advice on settings when the batch size changes, and batch ramps as trainers write them."""

from sgdtheory._common.door import open_door

__getattr__, __dir__, __all__ = open_door(__name__, __file__)
