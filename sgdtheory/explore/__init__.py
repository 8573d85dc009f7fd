"""The explorer: a local page on which a problem and an algorithm are moved by sliders, and their figures follow."""

from sgdtheory._common.door import open_door

__getattr__, __dir__, __all__ = open_door(__name__, __file__)
