"""Simulation of averaged mini-batch SGD on linear regression, in JAX."""

from sgdtheory._common.door import open_door

__getattr__, __dir__, __all__ = open_door(__name__, __file__)
