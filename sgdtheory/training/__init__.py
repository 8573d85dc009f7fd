"""Training networks of any width in standard, maximal update and neural tangent parametrization."""

from sgdtheory.training.checkpoint import read_weights
from sgdtheory.training.config import TrainConfig
from sgdtheory.training.parametrization import MUP, NTK, PARAMETRIZATIONS, STANDARD, Exponents, Parametrization
from sgdtheory.training.result import TrainResult
from sgdtheory.training.trainer import resume, train, train_many

__all__ = [
    "MUP",
    "NTK",
    "PARAMETRIZATIONS",
    "STANDARD",
    "Exponents",
    "Parametrization",
    "TrainConfig",
    "TrainResult",
    "read_weights",
    "resume",
    "train",
    "train_many",
]
