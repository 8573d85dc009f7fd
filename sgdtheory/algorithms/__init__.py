"""What is run: methods, schedules, averages, an algorithm in words, and the course that its steps take."""

from sgdtheory._common.door import open_door

__getattr__, __dir__, __all__ = open_door(__name__, __file__)
