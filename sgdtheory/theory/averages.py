"""Averages of the iterates, and which of them a run returns (THEORY.md T19, T21, T22).

Each is a sum that is kept along the run, `S ← ρ S + ω w`, w the iterate before the step: with constant ρ and ω from the
step on at which it begins.
"""

import math
from dataclasses import dataclass
from typing import Protocol

from sgdtheory._common.arguments import single_number


class Average(Protocol):
    """Where the sum begins, how it is kept, and what it is divided by."""

    def first(self, num_steps: float) -> float:
        """The first step whose iterate counts; n if none does."""
        ...

    def forgetting(self, num_steps: float) -> float:
        """1 − ρ."""
        ...

    def weight(self, num_steps: float) -> float:
        """ω."""
        ...

    def starts_at_iterate(self) -> bool:
        """Whether S begins as w_0 and not as 0."""
        ...

    def norm(self, step: float, num_steps: float) -> float:
        """What S is divided by after so many steps."""
        ...


class _Sum:
    """A plain sum from some step on, divided by how many iterates it has."""

    def first(self, num_steps: float) -> float:
        """The first step whose iterate counts."""
        return 0.0

    def forgetting(self, num_steps: float) -> float:
        """1 − ρ = 0."""
        return 0.0

    def weight(self, num_steps: float) -> float:
        """ω = 1."""
        return 1.0

    def starts_at_iterate(self) -> bool:
        """S begins as 0."""
        return False

    def norm(self, step: float, num_steps: float) -> float:
        """The number of iterates in the sum."""
        return max(step - self.first(num_steps), 0.0)


@dataclass(frozen=True)
class UniformAverage(_Sum):
    """The mean of w_0 … w_{n−1}: the average of the theorems (THEORY.md T3).

    >>> import sgdtheory as st
    >>> st.Algorithm().average
    UniformAverage()
    """


@dataclass(frozen=True)
class TailAverage(_Sum):
    """The mean of the last ⌈φn⌉ of w_0 … w_{n−1}.

    >>> import sgdtheory as st
    >>> st.TailAverage(0.25).first(num_steps=10)
    7.0

    Args:
        fraction: φ, above 0 and at most 1.

    Raises:
        ValueError: φ out of range.
    """

    fraction: float = 0.5

    def __post_init__(self) -> None:
        value = single_number("fraction", self.fraction)
        if not 0 < value <= 1:
            raise ValueError(f"fraction of a tail average must be above 0 and at most 1, got {value:g}")
        object.__setattr__(self, "fraction", value)

    def first(self, num_steps: float) -> float:
        """n − ⌈φn⌉."""
        return float(num_steps - min(math.ceil(self.fraction * num_steps), num_steps))


@dataclass(frozen=True)
class ExponentialAverage:
    """`ξ_{t+1} = τ ξ_t + (1 − τ) w_t`, ξ_0 = w_0 (THEORY.md T19).

    >>> import sgdtheory as st
    >>> print(st.ExponentialAverage(window=0.1).forgetting(num_steps=1000))  # 1 − τ
    0.01

    Args:
        decay: τ, at least 0 and below 1; or
        window: 1/(1 − τ) as a fraction of the steps, so that it grows with them; never below one step.

    Raises:
        ValueError: an argument out of range, both or none.
    """

    decay: float | None = None
    window: float | None = None

    def __post_init__(self) -> None:
        if (self.decay is None) == (self.window is None):
            raise ValueError(f"decay or window must be given, and not both, got {self.decay} and {self.window}")
        if self.decay is not None:
            value = single_number("decay", self.decay)
            if not 0 <= value < 1:
                raise ValueError(f"decay of an average must be at least 0 and below 1, got {value:g}")
            object.__setattr__(self, "decay", value)
        else:
            value = single_number("window", self.window)
            if not (value > 0 and math.isfinite(value)):
                raise ValueError(f"window of an average must be positive and finite, got {value:g}")
            object.__setattr__(self, "window", value)

    def first(self, num_steps: float) -> float:
        """0."""
        return 0.0

    def forgetting(self, num_steps: float) -> float:
        """1 − τ."""
        if self.decay is not None:
            return 1 - self.decay
        return 1 / max((self.window or 0.0) * num_steps, 1.0)

    def weight(self, num_steps: float) -> float:
        """1 − τ."""
        return self.forgetting(num_steps)

    def starts_at_iterate(self) -> bool:
        """ξ_0 = w_0."""
        return True

    def norm(self, step: float, num_steps: float) -> float:
        """1."""
        return 1.0


@dataclass(frozen=True)
class LastIterate:
    """No average: w_n.

    >>> import sgdtheory as st
    >>> st.Algorithm(average=st.LastIterate()).average
    LastIterate()
    """
