"""The critical batch size of a problem: tuned risk, searches over steps and batches, its definition and exponents."""

import lazy_loader

__getattr__, __dir__, __all__ = lazy_loader.attach_stub(__name__, __file__)
