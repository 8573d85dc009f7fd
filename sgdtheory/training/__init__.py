"""Training networks of any width in standard, maximal update and neural tangent parametrization."""

from typing import TYPE_CHECKING

from sgdtheory.lazy import lazy_names
from sgdtheory.training.config import TrainConfig
from sgdtheory.training.parametrization import MUP, NTK, PARAMETRIZATIONS, STANDARD, Exponents, Parametrization
from sgdtheory.training.presets import PRESETS, preset

if TYPE_CHECKING:
    from sgdtheory.training.checkpoint import read_weights
    from sgdtheory.training.coordinates import CoordinateCheck, coordinate_check
    from sgdtheory.training.result import TrainResult
    from sgdtheory.training.trainer import resume, train, train_many

__all__ = [
    "MUP",
    "NTK",
    "PARAMETRIZATIONS",
    "PRESETS",
    "STANDARD",
    "CoordinateCheck",
    "Exponents",
    "Parametrization",
    "TrainConfig",
    "TrainResult",
    "coordinate_check",
    "preset",
    "read_weights",
    "resume",
    "train",
    "train_many",
]

__getattr__ = lazy_names(
    __name__,
    {
        "CoordinateCheck": "coordinates",
        "TrainResult": "result",
        "coordinate_check": "coordinates",
        "read_weights": "checkpoint",
        "resume": "trainer",
        "train": "trainer",
        "train_many": "trainer",
    },
)
