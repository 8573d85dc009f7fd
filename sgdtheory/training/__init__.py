"""Training networks of any width in standard, maximal update and neural tangent parametrization."""

import importlib
from typing import TYPE_CHECKING, Any

from sgdtheory.training.config import TrainConfig
from sgdtheory.training.parametrization import MUP, NTK, PARAMETRIZATIONS, STANDARD, Exponents, Parametrization
from sgdtheory.training.presets import PRESETS, preset

if TYPE_CHECKING:
    from sgdtheory.training.checkpoint import read_weights
    from sgdtheory.training.coordinates import CoordinateCheck, coordinate_check
    from sgdtheory.training.result import TrainResult
    from sgdtheory.training.trainer import resume, train, train_many

_LATER = {  # what needs JAX is imported when it is asked for
    "CoordinateCheck": "coordinates",
    "TrainResult": "result",
    "coordinate_check": "coordinates",
    "read_weights": "checkpoint",
    "resume": "trainer",
    "train": "trainer",
    "train_many": "trainer",
}

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


def __getattr__(name: str) -> Any:
    """The public names that need JAX."""
    if name not in _LATER:
        raise AttributeError(f"module {__name__} has no attribute {name}")
    return getattr(importlib.import_module(f"{__name__}.{_LATER[name]}"), name)
