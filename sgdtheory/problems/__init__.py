"""What is learnt: power laws, finite spectra, features of a model; and the directions that stand for all of them."""

from sgdtheory._common.door import open_door

__getattr__, __dir__, __all__ = open_door(__name__, __file__)
