"""SGD whose gradients come late: by a fixed number of steps, or by a random one."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Annotated, Any

import numpy as np

from sgdtheory._common.arguments import real_array, whole_number
from sgdtheory.algorithms.linear_method import Coefficients, LinearMethod
from sgdtheory.algorithms.parameter import Parameter, Slider

LONGEST = 256  # steps: an edge, and every step, take as many numbers of each direction squared
ONE = 1e-9  # what shares of a law may miss of 1


@dataclass(frozen=True)
class DelayedSGD(LinearMethod):
    """`w_{t+1} = w_t − γ_t g_t(w_{t−τ})`, w_0 before the start: gradients are τ steps late (THEORY.md T41).

    With several shares p_0, p_1, … in the place of τ the delay is drawn anew in every step, τ_t = j with probability
    p_j, alike for a whole batch.

    >>> import sgdtheory as st
    >>> st.DelayedSGD(4).longest
    4
    >>> st.DelayedSGD((0.5, 0.25, 0.25)).law
    (0.5, 0.25, 0.25)

    Args:
        delay: τ, a whole number from 0 to 256, or shares (p_0, p_1, …) that add up to 1.

    Raises:
        ValueError: τ out of range, or shares that are no law.
    """

    delay: Annotated[
        int | tuple[float, ...],
        Parameter("steps τ by which gradients are late.", Slider("τ, delay in steps", 0, 32, 1, 4)),
    ]

    def __post_init__(self) -> None:
        delay: Any = self.delay
        if np.ndim(delay):
            object.__setattr__(self, "delay", _checked_law(delay))
            return
        steps = whole_number("delay", delay, 0)
        if steps > LONGEST:
            raise ValueError(f"delay must be at most {LONGEST} steps, got {steps}; count in rounds of several steps")
        object.__setattr__(self, "delay", steps)

    @property
    def random(self) -> bool:
        """Whether the delay is given as a law."""
        return isinstance(self.delay, tuple)

    @property
    def law(self) -> tuple[float, ...]:
        """(p_0 … p_τ), τ the longest delay."""
        return self.delay if isinstance(self.delay, tuple) else (*[0.0] * self.delay, 1.0)

    @property
    def delays(self) -> tuple[float, ...]:  # pyright: ignore[reportIncompatibleVariableOverride]
        """(p_0 … p_τ)."""
        return self.law

    @property
    def longest(self) -> int:
        """The longest delay τ."""
        return len(self.law) - 1

    @property
    def vectors(self) -> int:
        """The last τ + 1 iterates."""
        return self.longest + 1

    @property
    def start(self) -> tuple[float, ...]:  # pyright: ignore[reportIncompatibleVariableOverride]
        """w_0 throughout."""
        return (1.0,) * self.vectors

    @property
    def output(self) -> tuple[float, ...]:  # pyright: ignore[reportIncompatibleVariableOverride]
        """The newest."""
        return (1.0, *[0.0] * self.longest)

    def coefficients(self, rate: Any, step: Any) -> Coefficients:
        """A, b, c of (w_t, …, w_{t−τ}); of a random delay those of the mean path."""
        k = self.vectors
        decay = np.zeros((k, k))
        for j in range(1, k):
            decay[j, j] = 1.0
            decay[j, j - 1] = -1.0
        A = np.eye(k) - decay
        return Coefficients(A.tolist(), [rate, *[0] * (k - 1)], list(self.law), decay.tolist())


def _checked_law(shares: Sequence[float]) -> tuple[float, ...]:
    """Shares of delays 0, 1, …, without those of 0 at the end."""
    values = real_array("delay", shares)
    law = values.ndim == 1 and values.size > 0 and (values >= 0).all() and abs(values.sum() - 1) < ONE
    if not law:
        raise ValueError(f"delay must be a whole number or shares ≥ 0 that add up to 1, got {shares!r}")
    values = values[: np.flatnonzero(values)[-1] + 1]
    if values.size > LONGEST + 1:
        raise ValueError(f"delay must be at most {LONGEST} steps, got {values.size - 1}; count in rounds of several")
    return tuple((values / values.sum()).tolist())
