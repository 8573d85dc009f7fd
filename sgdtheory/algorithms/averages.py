"""Averages of the iterates, and which of them a run returns (THEORY.md T19, T21, T22)."""

import math
from abc import ABC, abstractmethod
from dataclasses import dataclass
from typing import Annotated, NamedTuple

from sgdtheory._common.arguments import single_number
from sgdtheory.algorithms.parameter import Parameter, Slider


class Returned(NamedTuple):
    """The weights of w_t and of S_t in what is returned after t steps.

    Attributes:
        iterate: a, the weight of w_t.
        total: c, the weight of S_t.
    """

    iterate: float
    total: float


class AbstractAverage(ABC):
    """What a run of n steps returns: derive from it, and say which sum is kept and what is returned of it.

    From the step f on a sum is kept, `S ← ρ S + ω w`, with w the iterate before the step. After t steps
    `a w_t + c S_t` is returned. ρ and ω are constant along a run, and may depend on n.
    """

    @abstractmethod
    def first(self, num_steps: float) -> float:
        """f, the first step whose iterate counts; n if none does."""

    @abstractmethod
    def forgetting(self, num_steps: float) -> float:
        """1 − ρ."""

    @abstractmethod
    def weight(self, num_steps: float) -> float:
        """ω."""

    @abstractmethod
    def returned(self, step: float, num_steps: float) -> Returned:
        """a and c after t steps; nan where there is nothing to return yet."""

    # Simulated and tuned runs keep S from step 0 on: only a sum that counts from there may begin as the iterate.
    def starts_at_iterate(self) -> bool:
        """Whether S begins as w_0 and not as 0; f is 0 then."""
        return False

    @property
    def any_length(self) -> bool:
        """Whether f, ρ and ω are the same for every n, so that a long run passes by the results of shorter ones."""
        return False


class _Sum(AbstractAverage):
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

    def returned(self, step: float, num_steps: float) -> Returned:
        """S over the number of iterates in it."""
        number = step - self.first(num_steps)
        # an empty sum has no mean: nan, which a path shows as nothing, and not 0, which would be a risk of 0
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
        """The same sum for every n."""
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
        ValueError: φ out of range.
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
        """n − ⌈φn⌉."""
        return float(num_steps - min(math.ceil(self.fraction * num_steps), num_steps))


@dataclass(frozen=True)
class ExponentialAverage(AbstractAverage):
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

    def returned(self, step: float, num_steps: float) -> Returned:
        """S itself."""
        return Returned(0.0, 1.0)

    @property
    def any_length(self) -> bool:
        """τ itself is given, and not a share of the steps."""
        return self.decay is not None


@dataclass(frozen=True)
class LastIterate(AbstractAverage):
    """No average: w_n, and no sum that would be kept.

    >>> import sgdtheory as st
    >>> st.Algorithm(average=st.LastIterate()).average
    LastIterate()
    """

    def first(self, num_steps: float) -> float:
        """n: no iterate counts."""
        return num_steps

    def forgetting(self, num_steps: float) -> float:
        """0."""
        return 0.0

    def weight(self, num_steps: float) -> float:
        """0."""
        return 0.0

    def returned(self, step: float, num_steps: float) -> Returned:
        """w_t."""
        return Returned(1.0, 0.0)

    @property
    def any_length(self) -> bool:
        """Nothing is kept."""
        return True
