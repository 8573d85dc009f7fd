"""The best schedule of learning rates and batch sizes, by the gradient of the exact risk."""

from sgdtheory._common.door import open_door

__getattr__, __dir__, __all__ = open_door(__name__, __file__)
