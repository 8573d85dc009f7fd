"""Figures of results, one function each, in one style; `sgdtheory.plot` is another name of it."""

from sgdtheory._common.door import open_door

__getattr__, __dir__, __all__ = open_door(__name__, __file__)
