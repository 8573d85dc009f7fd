"""The exact risk of any algorithm on any problem, at the end and along the run, and the stability edge."""

from sgdtheory._common.door import open_door

__getattr__, __dir__, __all__ = open_door(__name__, __file__)
