"""Algorithms: methods, schedules and averages, their short text form, and the steps of a run."""

from sgdtheory._common.door import open_door

__getattr__, __dir__, __all__ = open_door(__name__, __file__)
