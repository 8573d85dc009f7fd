"""Training logs as other programs write them: recognized by their content, and read into loss curves."""

from sgdtheory._common.door import open_door

__getattr__, __dir__, __all__ = open_door(__name__, __file__)
