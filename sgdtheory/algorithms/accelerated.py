"""Accelerated SGD of Jain et al. 2018."""

import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Annotated, Any, ClassVar

from sgdtheory._common.arguments import single_number
from sgdtheory.algorithms.linear_method import Coefficients, LinearMethod
from sgdtheory.algorithms.parameter import Parameter, Slider


@dataclass(frozen=True)
class AcceleratedSGD(LinearMethod):
    """Accelerated SGD: `y = αx + (1 − α)v, x ← y − δ g(y), v ← βy + (1 − β)v − γ g(y)`; the iterate is x.

    >>> import sgdtheory as st
    >>> st.AcceleratedSGD(coupling=0.9, forgetting=0.1, long_step=5.0)
    AcceleratedSGD(coupling=0.9, forgetting=0.1, long_step=5.0)

    Args:
        coupling: α between 0 and 1.
        forgetting: β between 0 and 1.
        long_step: γ/δ ≥ 0; the learning rate is the short step δ.

    Raises:
        ValueError: if an argument is out of range.

    Reference:
        Jain et al. 2018, Accelerating stochastic gradient descent for least squares regression, arXiv:1704.08227.
    """

    start: ClassVar[Sequence[float]] = (1.0, 0.0)

    coupling: Annotated[
        float,
        Parameter(
            "weight α of the short steps' iterate where gradients are taken.",
            Slider("α, weight of the short steps", 0.0, 1.0, 0.01, 0.5),
        ),
    ]
    forgetting: Annotated[
        float,
        Parameter(
            "share β of that point in the long steps' iterate.",
            Slider("β, share in the long steps", 0.0, 1.0, 0.01, 0.1),
        ),
    ]
    long_step: Annotated[
        float,
        Parameter(
            "long step over short step; the learning rate is the short one.",
            Slider("long step over short step", 0.0, 20.0, 0.1, 2.0),
        ),
    ]

    def __post_init__(self) -> None:
        for name in ("coupling", "forgetting", "long_step"):
            value, most = single_number(name, getattr(self, name)), math.inf if name == "long_step" else 1
            if not (0 <= value <= most and math.isfinite(value)):
                words = "at least 0 and finite" if name == "long_step" else "between 0 and 1"
                raise ValueError(f"{name} must be {words}, got {value:g}")
            object.__setattr__(self, name, value)

    def coefficients(self, rate: Any, step: Any) -> Coefficients:
        """Return A, b, c for the state (y, v − x), whose second entry decays by α(1 − β).

        In the state (x, v) slow directions would be small differences of large numbers, and lose digits.
        """
        rest, falls = 1 - self.coupling, self.coupling * (1 - self.forgetting)
        b = [rate * (self.coupling + rest * self.long_step), rate * (self.long_step - 1)]
        decay = [[0, -rest * falls], [0, rest + self.coupling * self.forgetting]]
        return Coefficients([[1, rest * falls], [0, falls]], b, [1, 0], decay)

    @property
    def output(self) -> tuple[float, ...]:  # pyright: ignore[reportIncompatibleVariableOverride]
        """Weights of the iterate x = y − (1 − α)(v − x)."""
        return 1.0, self.coupling - 1
