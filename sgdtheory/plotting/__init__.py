"""Figures of results, one function each, in one style; `sgdtheory.plot` is another name of it."""

import lazy_loader

__getattr__, __dir__, __all__ = lazy_loader.attach_stub(__name__, __file__)
