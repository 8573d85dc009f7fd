"""Averages of the iterates that a run can return (THEORY.md T19, T21, T22)."""

import math
from abc import ABC, abstractmethod
from dataclasses import dataclass
from typing import Annotated, NamedTuple

from sgdtheory._common.arguments import single_number
from sgdtheory.algorithms.parameter import Parameter, Slider


class Returned(NamedTuple):
    """The weights of w_t and S_t in the average that is returned after t steps.

    Attributes:
        iterate: a, the weight of w_t.
        total: c, the weight of S_t.
    """

    iterate: float
    total: float


class AbstractAverage(ABC):
    """Base class of averages, which a run of n steps accumulates and returns.

    From step f on the run accumulates a sum, `S ← ρ S + ω w`, with w the iterate before the step. After t steps it
    returns `a w_t + c S_t`. ρ and ω are constant along a run, and may depend on n.
    """

    @abstractmethod
    def first(self, num_steps: float) -> float:
        """Return f, the first step whose iterate enters the sum; n if none does."""

    @abstractmethod
    def forgetting(self, num_steps: float) -> float:
        """Return 1 − ρ."""

    @abstractmethod
    def weight(self, num_steps: float) -> float:
        """Return ω."""

    @abstractmethod
    def returned(self, step: float, num_steps: float) -> Returned:
        """Return a and c after t steps; nan if no iterate has entered the sum yet."""

    # Simulated and tuned runs keep S from step 0 on: only a sum with f = 0 may start at the iterate.
    def starts_at_iterate(self) -> bool:
        """Return whether S starts at w_0 instead of 0; f must be 0 then."""
        return False

    @property
    def any_length(self) -> bool:
        """Return whether f, ρ and ω do not depend on n, so that a long run contains the results of shorter ones."""
        return False


class _Sum(AbstractAverage):
    """The mean of all iterates from some step on."""

    def first(self, num_steps: float) -> float:
        """Return 0, the first step whose iterate enters the sum."""
        return 0.0

    def forgetting(self, num_steps: float) -> float:
        """Return 1 − ρ = 0."""
        return 0.0

    def weight(self, num_steps: float) -> float:
        """Return ω = 1."""
        return 1.0

    def returned(self, step: float, num_steps: float) -> Returned:
        """Return the weights of S divided by its number of iterates."""
        number = step - self.first(num_steps)
        # The mean of an empty sum is nan: with 0 the risk would be 0, while a path does not plot nan.
        return Returned(0.0, 1 / number if number > 0 else math.nan)


@dataclass(frozen=True)
class UniformAverage(_Sum):
    """The mean of w_0 … w_{n−1}: the average of the theorems (THEORY.md T3).

    >>> import sgdtheory as st
    >>> st.Algorithm().average
    UniformAverage()
    """

    @property
    def any_length(self) -> bool:
        """Return True, as the sum is the same for every n."""
        return True


@dataclass(frozen=True)
class TailAverage(_Sum):
    """The mean of the last ⌈φn⌉ of w_0 … w_{n−1}.

    >>> import sgdtheory as st
    >>> st.TailAverage(0.25).first(num_steps=10)
    7.0

    Args:
        fraction: φ, above 0 and at most 1.

    Raises:
        ValueError: if φ is out of range.
    """

    fraction: Annotated[
        float,
        Parameter(
            "last fraction of the steps, whose iterates are averaged.",
            Slider("last share of the steps", 0.01, 1.0, 0.01, 0.5),
            setting="tail_fraction",
        ),
    ] = 0.5

    def __post_init__(self) -> None:
        value = single_number("fraction", self.fraction)
        if not 0 < value <= 1:
            raise ValueError(f"fraction of a tail average must be above 0 and at most 1, got {value:g}")
        object.__setattr__(self, "fraction", value)

    def first(self, num_steps: float) -> float:
        """Return n − ⌈φn⌉, the first step whose iterate enters the sum."""
        return float(num_steps - min(math.ceil(self.fraction * num_steps), num_steps))


@dataclass(frozen=True)
class ExponentialAverage(AbstractAverage):
    """Exponential moving average, `ξ_{t+1} = τ ξ_t + (1 − τ) w_t` with ξ_0 = w_0 (THEORY.md T19).

    >>> import sgdtheory as st
    >>> print(st.ExponentialAverage(window=0.1).forgetting(num_steps=1000))  # 1 − τ
    0.01

    Args:
        decay: τ, at least 0 and below 1; or
        window: 1/(1 − τ) as a fraction of the steps, so that it grows with them; never below one step.

    Raises:
        ValueError: if an argument is out of range, or both or none are given.
    """

    decay: Annotated[float | None, Parameter("decay rate τ of the average; or", setting="average_decay")] = None
    window: Annotated[
        float | None,
        Parameter(
            "1/(1 − τ), as a fraction of the steps.",
            Slider("window 1/(1 − τ), of the steps", 0.01, 1.0, 0.01, 0.2),
            setting="average_window",
        ),
    ] = None

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
        """Return 0, the first step whose iterate enters the average."""
        return 0.0

    def forgetting(self, num_steps: float) -> float:
        """Return 1 − τ."""
        if self.decay is not None:
            return 1 - self.decay
        return 1 / max((self.window or 0.0) * num_steps, 1.0)

    def weight(self, num_steps: float) -> float:
        """Return ω = 1 − τ."""
        return self.forgetting(num_steps)

    def starts_at_iterate(self) -> bool:
        """Return True, as ξ_0 = w_0."""
        return True

    def returned(self, step: float, num_steps: float) -> Returned:
        """Return the weights of S itself."""
        return Returned(0.0, 1.0)

    @property
    def any_length(self) -> bool:
        """Return whether τ itself is given, instead of a fraction of the steps."""
        return self.decay is not None


@dataclass(frozen=True)
class LastIterate(AbstractAverage):
    """The last iterate w_n, without an average.

    >>> import sgdtheory as st
    >>> st.Algorithm(average=st.LastIterate()).average
    LastIterate()
    """

    def first(self, num_steps: float) -> float:
        """Return n, as no iterate enters a sum."""
        return num_steps

    def forgetting(self, num_steps: float) -> float:
        """Return 1 − ρ = 0."""
        return 0.0

    def weight(self, num_steps: float) -> float:
        """Return ω = 0."""
        return 0.0

    def returned(self, step: float, num_steps: float) -> Returned:
        """Return the weights of w_t itself."""
        return Returned(1.0, 0.0)

    @property
    def any_length(self) -> bool:
        """Return True, as there is no sum that could depend on n."""
        return True
