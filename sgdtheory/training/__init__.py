"""Training networks of any width in standard, maximal update and neural tangent parametrization."""

import lazy_loader

__getattr__, __dir__, __all__ = lazy_loader.attach_stub(__name__, __file__)
