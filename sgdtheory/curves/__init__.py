"""Fits of the theory's problem to loss curves: exponents, noise, predictions, the critical batch size."""

from sgdtheory._common.door import open_door

__getattr__, __dir__, __all__ = open_door(__name__, __file__)
