"""Mini-batch SGD, with decoupled weight decay."""

import math
from dataclasses import dataclass
from typing import Annotated, Any

from sgdtheory._common.arguments import single_number
from sgdtheory.algorithms.linear_method import Coefficients, LinearMethod
from sgdtheory.algorithms.parameter import Parameter, Slider


@dataclass(frozen=True)
class SGD(LinearMethod):
    """Mini-batch SGD with decoupled weight decay κ: `w ← (1 − γκ) w − γ g`.

    With κ > 0 runs start at w_0 = 0, so that the signal is that of w* itself.

    >>> import sgdtheory as st
    >>> st.SGD(weight_decay=0.01)
    SGD(weight_decay=0.01)

    Args:
        weight_decay: κ ≥ 0, in units of λ.

    Raises:
        ValueError: if κ is out of range.
    """

    weight_decay: Annotated[
        float,
        Parameter("decoupled weight decay κ, in units of 1/γ.", Slider("κ, weight decay", 0.0, 0.1, 0.001, 0.0)),
    ] = 0.0

    def __post_init__(self) -> None:
        value = single_number("weight_decay", self.weight_decay)
        if not 0 <= value < math.inf:
            raise ValueError(f"weight_decay must be at least 0 and finite, got {value:g}")
        object.__setattr__(self, "weight_decay", value)

    @property
    def start(self) -> tuple[float, ...]:  # pyright: ignore[reportIncompatibleVariableOverride]
        """Initial state: the error w_0 − w*, and with weight decay also the fixed vector w*."""
        return (1.0, -1.0) if self.weight_decay else (1.0,)

    @property
    def output(self) -> tuple[float, ...]:  # pyright: ignore[reportIncompatibleVariableOverride]
        """Weights of the iterate w in the state."""
        return (1.0, 0.0) if self.weight_decay else (1.0,)

    def coefficients(self, rate: Any, step: Any) -> Coefficients:
        """Return A, b, c; with weight decay for the state (w − w*, w*)."""
        if not self.weight_decay:
            return Coefficients([[1]], [rate], [1])
        shrink = rate * self.weight_decay
        A = [[1 - shrink, -shrink], [0, 1]]
        return Coefficients(A, [rate, 0], [1, 0], decay=[[shrink, shrink], [0, 0]])
