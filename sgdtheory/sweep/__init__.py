"""Sweeps of training runs: grids, a store that survives crashes, steps to a target, the critical batch size."""

import lazy_loader

__getattr__, __dir__, __all__ = lazy_loader.attach_stub(__name__, __file__)
