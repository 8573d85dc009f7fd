"""The optimizers of a run, and what only one of them can be told; a run's learning rate is the config's."""

from dataclasses import dataclass
from typing import ClassVar

from sgdtheory.training.fields import check_fields
from sgdtheory.training.parametrization import Family


@dataclass(frozen=True, kw_only=True)
class SGD:
    """SGD with momentum.

    >>> from sgdtheory.training import SGD
    >>> SGD(momentum=0.9).momentum
    0.9

    Raises:
        ValueError: a field that is out of range.
    """

    momentum: float = 0.0
    """Decay rate of the sum of past gradients."""

    family: ClassVar[Family] = "sgd"

    def __post_init__(self) -> None:
        """Check every field."""
        check_fields(self)


@dataclass(frozen=True, kw_only=True)
class Adam:
    """Adam without weight decay.

    >>> from sgdtheory.training import Adam
    >>> Adam(beta2=0.95).beta1
    0.9

    Raises:
        ValueError: a field that is out of range.
    """

    beta1: float = 0.9
    """Decay rate β₁ of the gradient's mean."""
    beta2: float = 0.99
    """Decay rate β₂ of the gradient's second moment."""
    epsilon: float = 1e-8
    """ε at the base width."""

    family: ClassVar[Family] = "adam"

    def __post_init__(self) -> None:
        """Check every field."""
        check_fields(self)


Optimizer = SGD | Adam
