"""Bounds as tests: strategies of problems, algorithms and settings, and `assert_bound` (extra `[testing]`)."""

from sgdtheory._common.door import open_door

__getattr__, __dir__, __all__ = open_door(__name__, __file__)
