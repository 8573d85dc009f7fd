"""A problem, the exact risk of mini-batch SGD on it, its stability edge, and bounds to hold against them."""

import lazy_loader

__getattr__, __dir__, __all__ = lazy_loader.attach_stub(__name__, __file__)
