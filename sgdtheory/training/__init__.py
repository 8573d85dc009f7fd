"""Training networks of any width in standard, maximal update and neural tangent parametrization."""

from sgdtheory._common.door import open_door

__getattr__, __dir__, __all__ = open_door(__name__, __file__)
