"""Least-squares problems: power laws, finite spectra, models with fewer features, finite samples; and their modes."""

from sgdtheory._common.door import open_door

__getattr__, __dir__, __all__ = open_door(__name__, __file__)
