"""SGD with momentum: heavy ball and Nesterov."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Annotated, Any, ClassVar

from sgdtheory._common.arguments import single_number
from sgdtheory.algorithms.linear_method import Coefficients, LinearMethod
from sgdtheory.algorithms.parameter import Parameter, Slider


@dataclass(frozen=True)
class _Momentum(LinearMethod):
    """Base class of the methods with momentum."""

    start: ClassVar[Sequence[float]] = (1.0, 0.0)
    output: ClassVar[Sequence[float]] = (1.0, 0.0)

    momentum: Annotated[float, Parameter("momentum β.", Slider("β, momentum", 0.0, 0.99, 0.01, 0.9))]

    def __post_init__(self) -> None:
        object.__setattr__(self, "momentum", checked_momentum("momentum", self.momentum))


@dataclass(frozen=True)
class HeavyBall(_Momentum):
    """Heavy ball: `m ← βm + g, w ← w − γm`, m = 0 at the start (Polyak 1964).

    >>> import sgdtheory as st
    >>> st.HeavyBall(0.9)
    HeavyBall(momentum=0.9)

    Args:
        momentum: β, at least 0 and below 1.

    Raises:
        ValueError: if β is out of range.
    """

    def coefficients(self, rate: Any, step: Any) -> Coefficients:
        """Return A, b, c for the state (w, m)."""
        return Coefficients([[1, -rate * self.momentum], [0, self.momentum]], [rate, -1], [1, 0])


@dataclass(frozen=True)
class Nesterov(_Momentum):
    """Nesterov momentum: `m ← βm + g, w ← w − γ(g + βm)`, m = 0 at the start (Sutskever et al. 2013).

    >>> import sgdtheory as st
    >>> st.Nesterov(0.9)
    Nesterov(momentum=0.9)

    Args:
        momentum: β, at least 0 and below 1.

    Raises:
        ValueError: if β is out of range.
    """

    def coefficients(self, rate: Any, step: Any) -> Coefficients:
        """Return A, b, c for the state (w, m)."""
        beta = self.momentum
        return Coefficients([[1, -rate * beta**2], [0, beta]], [rate * (1 + beta), -1], [1, 0])


def checked_momentum(name: str, value: object) -> float:
    """Return β as one float, at least 0 and below 1."""
    number = single_number(name, value)
    if not 0 <= number < 1:
        raise ValueError(f"{name} must be at least 0 and below 1, got {number:g}")
    return number
