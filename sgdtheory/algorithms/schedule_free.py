"""Schedule-free SGD (Defazio et al. 2024)."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Annotated, Any, ClassVar, Literal

from sgdtheory._common.arguments import single_number
from sgdtheory.algorithms.linear_method import Coefficients, LinearMethod
from sgdtheory.algorithms.parameter import Parameter, Slider


@dataclass(frozen=True)
class ScheduleFree(LinearMethod):
    """Schedule-free SGD: `y = (1 − β)z + βx, z ← z − γ g(y), x ← (1 − c_t)x + c_t z`, c_t = 1/(t + 1).

    The iterate is x (Defazio et al. 2024). With β = 0 it is the mean of SGD's w_1 … w_n.

    >>> import sgdtheory as st
    >>> st.ScheduleFree().interpolation
    0.9

    Args:
        interpolation: β between 0 and 1.

    Raises:
        ValueError: if β is out of range.
    """

    start: ClassVar[Sequence[float]] = (1.0, 1.0)
    output: ClassVar[Sequence[float]] = (0.0, 1.0)
    step_dependence: ClassVar[Literal["none", "smooth", "any"]] = "smooth"

    interpolation: Annotated[
        float,
        Parameter(
            "weight β of the average where gradients are taken.",
            Slider("β, weight of the average", 0.0, 0.99, 0.01, 0.9),
        ),
    ] = 0.9

    def __post_init__(self) -> None:
        value = single_number("interpolation", self.interpolation)
        if not 0 <= value <= 1:
            raise ValueError(f"interpolation must be between 0 and 1, got {value:g}")
        object.__setattr__(self, "interpolation", value)

    def coefficients(self, rate: Any, step: Any) -> Coefficients:
        """Return A, b, c for the state (z, x)."""
        share, beta = 1 / (step + 1), self.interpolation
        A = [[1, 0], [share, 1 - share]]
        return Coefficients(A, [rate, share * rate], [1 - beta, beta], decay=[[0, 0], [-share, share]])
