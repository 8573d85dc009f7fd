"""Spectra in ball arithmetic: what `SplitSpectrum` offers to bounds, enclosed."""

from abc import ABC, abstractmethod
from collections.abc import Sequence
from typing import Any

import numpy as np

from sgdtheory.bounds.balls import Ball, Undecided, boxed, flint
from sgdtheory.bounds.published import Asked
from sgdtheory.problems import AbstractProblem, LeastSquares, PowerLaw

MOST_LISTED = 20_000  # At most this many directions are listed; each sum over them takes about a second.


class BallSpectrum(ABC):
    """λ_i, s_i and their sums as balls, directions numbered from 1; the numbers of the problem are taken exactly.

    Attributes:
        noise_variance: σ².
        dim: d; None for infinitely many.
    """

    noise_variance: Ball
    dim: int | None

    @abstractmethod
    def direction(self, index: int) -> tuple[Any, Any]:
        """λ_i and s_i, raw."""

    @abstractmethod
    def sum(self, first: int, last: int | None, signal: bool, power: int) -> Any:
        """Σ_{first ≤ i ≤ last} λ_i^power, each times s_i with `signal`; raw. Up to d, or infinity, without `last`."""

    @abstractmethod
    def count_above(self, threshold: Any) -> int:
        """max{k : λ_k ≥ threshold}, if that is certain.

        Raises:
            Undecided: it is not.
        """

    @property
    def largest_eigenvalue(self) -> Ball:
        """λ_1."""
        return Ball(self.direction(1)[0])

    @property
    def trace(self) -> Ball:
        """tr H."""
        return Ball(self.sum(1, None, False, 1))

    @property
    def initial_risk(self) -> Ball:
        """Σ s_i."""
        return Ball(self.sum(1, None, True, 0))

    def head_signal(self, count: float, power: int) -> Ball:
        """Σ_{i≤count} s_i/λ_i^power."""
        return Ball(self.sum(1, None if np.isinf(count) else int(count), True, -power))

    def tail_signal(self, count: int) -> Ball:
        """Σ_{i>count} s_i."""
        return Ball(self.sum(count + 1, None, True, 0))

    def tail_squares(self, count: int) -> Ball:
        """Σ_{i>count} λ_i²."""
        return Ball(self.sum(count + 1, None, False, 2))

    def directions(self) -> tuple[np.ndarray, np.ndarray]:
        """(d,) eigenvalues and (d,) signal, arrays of balls."""
        if self.dim is None or self.dim > MOST_LISTED:
            raise ValueError(
                f"a certificate lists at most {MOST_LISTED} directions, got {self.dim or 'infinitely many'}"
            )
        pairs = [self.direction(index) for index in range(1, self.dim + 1)]
        return tuple(_balls([pair[place] for pair in pairs]) for place in (0, 1))  # pyright: ignore[reportReturnType]


class ListedBalls(BallSpectrum):
    """Finitely many directions."""

    def __init__(self, eigenvalues: Sequence[Any], signal: Sequence[Any], noise_variance: Any) -> None:
        pairs = [(Ball(value).value, Ball(part).value) for value, part in zip(eigenvalues, signal, strict=True)]
        self.pairs = pairs
        self.dim = len(pairs)
        self.noise_variance = Ball(noise_variance)

    def direction(self, index: int) -> tuple[Any, Any]:
        """λ_i and s_i, as given."""
        return self.pairs[index - 1]

    def sum(self, first: int, last: int | None, signal: bool, power: int) -> Any:
        """Term by term; directions without an eigenvalue belong to no head."""
        chosen = self.pairs[first - 1 : last]
        if power < 0:
            chosen = [pair for pair in chosen if not _zero(pair[0])]
        return sum((value**power * (part if signal else 1) for value, part in chosen), start=flint().arb(0))

    def count_above(self, threshold: Any) -> int:
        """By comparison."""
        return sum(Ball(value) >= threshold for value, _ in self.pairs)


class PowerLawBalls(BallSpectrum):
    """`λ_i = i^−a`, `s_i = i^−b`: sums are differences of Hurwitz's zeta function."""

    def __init__(self, problem: PowerLaw) -> None:
        self.capacity = flint().arb(problem.capacity)
        self.source = flint().arb(problem.source)
        self.dim = problem.dim
        self.noise_variance = Ball(problem.noise_variance)

    def direction(self, index: int) -> tuple[Any, Any]:
        """i^−a and i^−b."""
        number = flint().arb(index)
        return number**-self.capacity, number**-self.source

    def sum(self, first: int, last: int | None, signal: bool, power: int) -> Any:
        """ζ(e, first) − ζ(e, last + 1) with e = power · a, and b more with the signal."""
        last = self.dim if last is None else last
        if last is not None and last < first:
            return flint().arb(0)
        exponent = power * self.capacity + (self.source if signal else 0)
        ends = [flint().arb(first)] + ([] if last is None else [flint().arb(last + 1)])
        if last is None and not exponent > 1:
            return flint().arb.pos_inf()
        if exponent == 1:
            return ends[1].digamma() - ends[0].digamma()
        values = [exponent.zeta(end) for end in ends]
        return values[0] - values[1] if values[1:] else values[0]

    def count_above(self, threshold: Any) -> int:
        """⌊threshold^{−1/a}⌋, at most d."""
        edge = Ball(threshold).value ** (-1 / self.capacity)
        count = edge.floor().unique_fmpz()
        if self.dim is not None and edge >= self.dim:
            return self.dim
        if count is None:
            raise Undecided(f"it cannot be decided how many eigenvalues are at least {threshold.value}")
        return int(count)


def in_balls(problem: AbstractProblem) -> BallSpectrum:
    """The problem with its float64 numbers taken exactly; of a power law the exponents, not the rounded powers.

    Raises:
        ValueError: a problem with infinitely many directions that is no PowerLaw.
    """
    if isinstance(problem, PowerLaw):
        return PowerLawBalls(problem)
    try:
        listed = LeastSquares(*problem.directions())
    except ValueError:
        raise ValueError(
            f"certificates are for PowerLaw and for problems that list their directions, got {problem!r}"
        ) from None
    return ListedBalls(listed.eigenvalues, listed.signal, problem.noise_variance)


def asked_in_balls(spectrum: Any, batch: Any, rate: Any, steps: int) -> Asked:
    """Return the arguments of a statement with balls in 0-d arrays, which formulas index as they do floats."""
    return Asked(spectrum, *(boxed(Ball(value)) for value in (batch, rate, steps)))


def _zero(value: Any) -> bool:
    return isinstance(value, flint().arb) and bool(value == 0)


def _balls(values: Sequence[Any]) -> np.ndarray:
    array = np.empty(len(values), dtype=object)
    array[:] = [Ball(value) for value in values]
    return array
