"""The critical batch size of a problem: tuned risk, searches over steps and batches, its definition and exponents."""

from sgdtheory._common.door import open_door

__getattr__, __dir__, __all__ = open_door(__name__, __file__)
