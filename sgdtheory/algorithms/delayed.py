"""SGD with delayed (stale) gradients: by a fixed or a random number of steps."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Annotated, Any

import numpy as np

from sgdtheory._common.arguments import real_array, whole_number
from sgdtheory.algorithms.linear_method import Coefficients, LinearMethod
from sgdtheory.algorithms.parameter import Parameter, Slider

LONGEST = 256  # A delay τ is at most this many steps: each direction has a matrix of (τ + 1)² numbers.
ONE = 1e-9  # The sum of a law's probabilities may deviate from 1 by this much.


@dataclass(frozen=True)
class DelayedSGD(LinearMethod):
    """SGD with gradients delayed by τ steps, `w_{t+1} = w_t − γ_t g_t(w_{t−τ})`, w_0 before the start (THEORY.md T41).

    With probabilities p_0, p_1, … in the place of τ the delay is random: in every step τ_t = j with probability p_j,
    the same for the whole batch.

    >>> import sgdtheory as st
    >>> st.DelayedSGD(4).longest
    4
    >>> st.DelayedSGD((0.5, 0.25, 0.25)).law
    (0.5, 0.25, 0.25)

    Args:
        delay: τ, a whole number from 0 to 256, or probabilities (p_0, p_1, …) that add up to 1.

    Raises:
        ValueError: if τ is out of range, or the probabilities are negative or do not add up to 1.
    """

    delay: Annotated[
        int | tuple[float, ...],
        Parameter("delay τ of gradients, in steps.", Slider("τ, delay in steps", 0, 32, 1, 4)),
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
        """Return whether the delay is given by probabilities."""
        return isinstance(self.delay, tuple)

    @property
    def law(self) -> tuple[float, ...]:
        """Probabilities (p_0 … p_τ) of the delays, with τ the longest one."""
        return self.delay if isinstance(self.delay, tuple) else (*[0.0] * self.delay, 1.0)

    @property
    def delays(self) -> tuple[float, ...]:  # pyright: ignore[reportIncompatibleVariableOverride]
        """Probabilities (p_0 … p_τ) of the delays."""
        return self.law

    @property
    def longest(self) -> int:
        """The longest delay τ."""
        return len(self.law) - 1

    @property
    def vectors(self) -> int:
        """Number τ + 1 of iterates in the state."""
        return self.longest + 1

    @property
    def start(self) -> tuple[float, ...]:  # pyright: ignore[reportIncompatibleVariableOverride]
        """Initial state, in which all iterates are w_0."""
        return (1.0,) * self.vectors

    @property
    def output(self) -> tuple[float, ...]:  # pyright: ignore[reportIncompatibleVariableOverride]
        """Weights of the newest iterate in the state."""
        return (1.0, *[0.0] * self.longest)

    def coefficients(self, rate: Any, step: Any) -> Coefficients:
        """Return A, b, c for the state (w_t, …, w_{t−τ}); for a random delay those of the mean path."""
        k = self.vectors
        decay = np.zeros((k, k))
        for j in range(1, k):
            decay[j, j] = 1.0
            decay[j, j - 1] = -1.0
        A = np.eye(k) - decay
        return Coefficients(A.tolist(), [rate, *[0] * (k - 1)], list(self.law), decay.tolist())


def _checked_law(shares: Sequence[float]) -> tuple[float, ...]:
    """Return the probabilities of delays 0, 1, … after checking them, without zeros at the end."""
    values = real_array("delay", shares)
    law = values.ndim == 1 and values.size > 0 and (values >= 0).all() and abs(values.sum() - 1) < ONE
    if not law:
        raise ValueError(f"delay must be a whole number or shares ≥ 0 that add up to 1, got {shares!r}")
    values = values[: np.flatnonzero(values)[-1] + 1]
    if values.size > LONGEST + 1:
        raise ValueError(f"delay must be at most {LONGEST} steps, got {values.size - 1}; count in rounds of several")
    return tuple((values / values.sum()).tolist())
