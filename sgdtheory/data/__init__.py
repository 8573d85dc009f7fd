"""A problem from features and targets: its spectrum, signal and noise, with intervals."""

from sgdtheory._common.door import open_door

__getattr__, __dir__, __all__ = open_door(__name__, __file__)
