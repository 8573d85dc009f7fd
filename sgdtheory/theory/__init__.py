"""A problem, the exact risk of mini-batch SGD on it, its stability edge, and bounds to hold against them."""

from sgdtheory._common.door import open_door

__getattr__, __dir__, __all__ = open_door(__name__, __file__)
