"""Learning rate schedules of a run: the shapes of the theory (THEORY.md T21), and schedule-free."""

from dataclasses import dataclass

from sgdtheory.algorithms import KINDS, Shape
from sgdtheory.algorithms import WSD as WSD
from sgdtheory.algorithms import Constant as Constant
from sgdtheory.algorithms import Cosine as Cosine
from sgdtheory.algorithms import Linear as Linear
from sgdtheory.algorithms import PowerDecay as PowerDecay
from sgdtheory.algorithms import Stages as Stages
from sgdtheory.training.fields import check_fields


@dataclass(frozen=True, kw_only=True)
class ScheduleFree:
    """Schedule-free (Defazio et al. 2024): gradients at an interpolation between the iterate and a running average.

    y = (1 − β) z + β x,  z ← z − γ_t g(y),  x ← (1 − c) x + c z,  c = γ_t² / (γ_0² + … + γ_t²)

    for SGD; the iterate is x. The interpolation β replaces β₁ and momentum; its flat name is `beta1`.

    >>> from sgdtheory.training import ScheduleFree
    >>> ScheduleFree(interpolation=0.95).interpolation
    0.95

    Raises:
        ValueError: if a field is out of range.
    """

    warmup: float = 0.0
    """Fraction of schedule_steps in which the learning rate grows linearly from 0."""
    interpolation: float = 0.9
    """Weight β of the running average in the point where gradients are taken."""

    def __post_init__(self) -> None:
        """Check every field."""
        check_fields(self)


SHAPES = KINDS["schedule"]
Schedule = Shape | ScheduleFree
ENDING = tuple(kind for kind in SHAPES.values() if kind not in (Constant, Stages))  # These end at schedule_steps.
