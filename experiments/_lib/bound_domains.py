"""Settings at which a published bound is evaluated: problems, B, n, σ², and γ up to the limits of its conditions."""

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from functools import cached_property
from typing import NamedTuple

import numpy as np

import sgdtheory as st
from experiments._lib.extremes import log_range

NUM_COORDINATES = 7  # of the unit cube: three of the spectrum, σ², B, n, γ
SHARED = 4  # of one problem: those of the spectrum and σ²
LOWEST_RATIO = 1e-6  # of two eigenvalues
ODDS = 1e6  # of the two shares of signal: 1e-6 … 1e6, and at the faces all of it is in one
LARGEST_DIM = 50  # of the power law that is cut off
MOST_BATCH = 1e4
MOST_STEPS = 1e9
NOISE = 1e-6, 1e6  # σ² in units of Σ s_i; at the lower face none, at the upper one `NOISE_ALONE`
# σ² in units of Σ s_i that leaves noise alone: at the smallest of `RATES` a step adds some γ²σ² to a risk of Σ s_i.
NOISE_ALONE = 1e30
LEAST = 1e-200  # of a bound: below it floats lose digits on the way
RATES = 1e-9, 1.0  # γ in units of the largest one at which the bound applies
MOST_EQUAL = 1000.0  # equal eigenvalues: some constants are attained as their number grows
BRACKET = 1e-6, 4.0  # of that largest γ, in units of 1/λ_1
SECTIONS = 64  # of that bracket in a round
ROUNDS = 6  # they leave a relative 2e-10
FEW_STEPS = np.arange(1.0, 2050.0)  # among which every theorem begins to apply, and some end
SMALL_RATE = 1e-5  # at which no condition on γ is in the way, in units of 1/λ_1


class Row(NamedTuple):
    """One bound at one setting.

    Attributes:
        bound: its name in the catalogue.
        found: "sample"; "search" for the ends that climbs reached; "limit" on the way to a limit.
        problem: a kind, of `KINDS`.
        first, second, third: what `Kind.problem` takes; 0 where it takes fewer.
        noise_variance: σ².
        batch_size, num_steps, learning_rate: B, n, γ.
        rate_share: γ over the largest one at which the bound applies there.
        exact: mean excess risk of the bound's own algorithm.
        value: of the bound; nan where it does not apply.
    """

    bound: str
    found: str
    problem: str
    first: float
    second: float
    third: float
    noise_variance: float
    batch_size: float
    num_steps: float
    learning_rate: float
    rate_share: float
    exact: float
    value: float

    @property
    def ratio(self) -> float:
        """exact/bound; nan where the bound does not apply, says nothing, or is too small for floats."""
        return self.exact / self.value if LEAST < self.value < np.inf else np.nan


UNITS = {
    "bound": "name in sgdtheory.bounds.catalogue()",
    "found": "sample: a random setting; search: the extreme that climbs reached; limit: on the way to one",
    "problem": "kind of spectrum",
    "first": "λ_d/λ_1 of finite spectra, d of equal eigenvalues, capacity a of power laws",
    "second": "share of the signal in the small eigenvalues, or q of s_i ∝ λ_i^q if spread; equal eigenvalues 0: all "
    "in one direction, 1: the same in each; source b of power laws",
    "third": "number of large eigenvalues, if clustered",
    "noise_variance": "σ², units of y²; finite spectra have Σ s_i = 1",
    "batch_size": "B, samples",
    "num_steps": "n, steps",
    "learning_rate": "γ, units of 1/λ_1",
    "rate_share": "γ over the largest one at which the bound applies",
    "exact": "exact mean excess risk of the bound's algorithm, units of y²",
    "value": "the bound, units of y²",
}


def _clusters(dim: int, ratio: float, share: float, large: float) -> tuple[np.ndarray, np.ndarray]:
    """`large` eigenvalues of 1 and d − `large` of `ratio`, with that share of the signal in the latter."""
    first = np.arange(dim) < large
    signal = np.where(first, (1 - share) / large, share / (dim - large))
    return np.where(first, 1.0, ratio), signal


def _spread(dim: int, ratio: float, power: float, _: float) -> tuple[np.ndarray, np.ndarray]:
    """Eigenvalues from 1 to `ratio`, in equal ratios, and `s_i ∝ λ_i^power`."""
    eigenvalues = ratio ** (np.arange(dim) / (dim - 1))
    return eigenvalues, eigenvalues**power / np.sum(eigenvalues**power)


def _cut_off(dim: int, capacity: float, source: float, _: float) -> tuple[np.ndarray, np.ndarray]:
    """The first d directions of a power law; Σ s_i = 1."""
    index = np.arange(1.0, dim + 1)
    return index**-capacity, index**-source / np.sum(index**-source)


def _equal(_: int, dim: float, place: float, __: float) -> tuple[np.ndarray, np.ndarray]:
    """d equal eigenvalues; all signal in one direction, or the same in each."""
    count = int(dim)
    return np.ones(count), np.eye(1, count)[0] if place < 0.5 else np.full(count, 1 / count)


@dataclass(frozen=True)
class Kind:
    """Problems with up to three numbers, λ_1 = 1.

    Attributes:
        dim: d; 0 where it is the first of the numbers; None: infinitely many directions.
        spectrum: d and the three numbers → eigenvalues and signal; of no use without d.
        ends: of the three numbers.
        words: for a setting, with {first}, {second}, {third}.
    """

    dim: int | None
    spectrum: Callable[..., tuple[np.ndarray, np.ndarray]] | None
    ends: str
    words: str

    def numbers(self, unit: np.ndarray) -> tuple[float, float, float]:
        """The three numbers at coordinates between 0 and 1."""
        first, second, third = (float(each) for each in unit)
        if self.ends == "one":
            return 0.0, 0.0, 0.0
        if self.ends == "equal":
            return float(np.floor(log_range((1.0, MOST_EQUAL), first) * (1 + 1e-12))), float(np.round(second)), 0.0
        if self.ends == "power":
            return 1.1 + 2.9 * first, 1.1 + 6.9 * second, 0.0
        ratio = float(log_range((LOWEST_RATIO, 1.0), first))
        if self.ends == "spread":
            return ratio, 4 * second - 1, 0.0
        assert self.dim is not None
        odds = float(log_range((1 / ODDS, ODDS), second))
        share = second if second in (0.0, 1.0) else odds / (1 + odds)
        return ratio, share, 1 + np.floor(third * (self.dim - 1.001))

    def problem(self, numbers: tuple[float, float, float], noise_to_signal: float) -> st.problems.AbstractProblem:
        """Return the problem, with σ² in units of Σ s_i."""
        if self.dim is None:
            signal = st.PowerLaw(*numbers[:2]).initial_risk
            return st.PowerLaw(*numbers[:2], noise_variance=noise_to_signal * signal)
        assert self.spectrum is not None
        return st.LeastSquares(*self.spectrum(self.dim, *numbers), noise_variance=noise_to_signal)


KINDS = {
    "d = 1": Kind(1, lambda *_: (np.ones(1), np.ones(1)), "one", "d = 1"),
    "equal": Kind(0, _equal, "equal", "d = {first:.0f}, all λ = 1"),
    "d = 2": Kind(2, _clusters, "clusters", "d = 2, λ₂ = {first:.2g}, s₂ = {second:.2g}"),
    "d = 3, spread": Kind(3, _spread, "spread", "d = 3, λ₃ = {first:.2g}, s ∝ λ^{second:.2g}"),
    "d = 10, clustered": Kind(
        10, _clusters, "clusters", "d = 10, λ = 1 ({third:.0f}×) and {first:.2g} (with signal {second:.2g})"
    ),
    "d = 10, spread": Kind(10, _spread, "spread", "d = 10, λ₁₀ = {first:.2g}, s ∝ λ^{second:.2g}"),
    "power law, d = 50": Kind(LARGEST_DIM, _cut_off, "power", "d = 50, a = {first:.2g}, b = {second:.2g}"),
    "power law": Kind(None, None, "power", "d = ∞, a = {first:.2g}, b = {second:.2g}"),
}


@dataclass(frozen=True)
class Domain:
    """Domain in which a bound applies, found by asking it at one problem and small γ.

    Attributes:
        bound: the bound.
        largest_batch: B is asked for up to this.
    """

    bound: st.bounds.PublishedBound
    largest_batch: float = MOST_BATCH

    def applies(self, noise: float, batch: float = 1.0, steps: np.ndarray = FEW_STEPS) -> np.ndarray:
        """Return whether the bound applies at these numbers of steps, for two directions."""
        problem = st.LeastSquares([1.0, 0.5], [0.5, 0.5], noise_variance=noise)
        found = self.bound(problem, batch_size=batch, learning_rate=SMALL_RATE, num_samples=batch * steps)
        return np.asarray(found.applies)

    @cached_property
    def noise(self) -> tuple[float, float]:
        """Ends of σ² in units of Σ s_i: from 0 or from where the theorem begins to apply; (0, 0) without noise."""
        low, high = NOISE
        if self.applies(0.0).any():
            return (0.0, high) if self.applies(low).any() else (0.0, 0.0)
        while high > low * (1 + 1e-15) and (middle := np.sqrt(low * high)) not in (low, high):
            low, high = (low, middle) if self.applies(middle).any() else (middle, high)
        return high, NOISE[1]

    @cached_property
    def steps(self) -> tuple[float, float]:
        """Fewest and most steps."""
        few = FEW_STEPS[self.applies(self.noise[1])]
        without_end = self.applies(self.noise[1], steps=np.array([MOST_STEPS])).all()
        return float(few[0]), MOST_STEPS if without_end else float(few[-1])

    @cached_property
    def most_batch(self) -> float:
        """Largest B."""
        return self.largest_batch if self.applies(self.noise[1], MOST_BATCH).any() else 1.0

    def edge(self, problem: st.problems.AbstractProblem, batch: np.ndarray, steps: np.ndarray) -> np.ndarray:
        """The largest γ at which the bound applies, at (S,) B and n: its bracket is cut again and again."""
        low = np.full(batch.shape, BRACKET[0])
        high = np.full(batch.shape, BRACKET[1])
        for _ in range(ROUNDS):
            rates = low * (high / low) ** np.linspace(0, 1, SECTIONS + 1)[:, None]
            value = self.bound(problem, batch_size=batch, learning_rate=rates, num_samples=batch * steps)
            inside = np.logical_and.accumulate(np.asarray(value.applies), axis=0).sum(axis=0)
            last = np.clip(inside - 1, 0, SECTIONS - 1)
            low = rates[last, np.arange(batch.size)]
            high = rates[last + 1, np.arange(batch.size)]
        return low

    def rows(self, kind: str, unit: np.ndarray, found: str) -> list[Row]:
        """The bound at points of the unit cube, (S, 7), on the problem of the first."""
        numbers = KINDS[kind].numbers(unit[0, :3])
        low, high = self.noise
        noise = low if unit[0, 3] == 0 or high == 0 else float(log_range((low or NOISE[0], high), unit[0, 3]))
        noise = NOISE_ALONE if unit[0, 3] == 1 and high > 0 else noise
        problem = KINDS[kind].problem(numbers, noise)
        batch = np.floor(log_range((1.0, self.most_batch), unit[:, 4]) * (1 + 1e-12))
        steps = np.floor(log_range(self.steps, unit[:, 5]) * (1 + 1e-12))
        edge = self.edge(problem, batch, steps)
        share = log_range(RATES, unit[:, 6])
        settings = batch, steps, edge * share, share
        return list(self.compared(kind, numbers, problem, settings, found))

    def compared(
        self,
        kind: str,
        numbers: tuple[float, float, float],
        problem: st.problems.AbstractProblem,
        settings: tuple[np.ndarray, ...],
        found: str,
    ) -> Iterator[Row]:
        """The bound and the exact risk at (S,) B, n, γ and γ over its edge."""
        batch, steps, rate, share = settings
        run = {"batch_size": batch, "learning_rate": rate, "num_samples": batch * steps}
        value = self.bound(problem, **run)
        exact = np.asarray(st.excess_risk(problem, **run, algorithm=self.bound.algorithm).total)
        total = np.where(value.applies, value.total, np.nan)
        for place in range(batch.size):
            yield Row(
                self.bound.name,
                found,
                kind,
                *numbers,
                problem.noise_variance,
                float(batch[place]),
                float(steps[place]),
                float(rate[place]),
                float(share[place]),
                float(exact[place]),
                float(total[place]),
            )


def words(row: Row) -> str:
    """A setting in words."""
    kind = KINDS[row.problem]
    equal = kind.ends in ("clusters", "spread") and row.first > 0.995
    pattern = f"d = {kind.dim}, all λ = 1" if equal else kind.words
    shape = pattern.format(first=row.first, second=row.second, third=row.third).replace("^-", "^−")
    rate = "γ at its limit" if row.rate_share > 0.995 else f"γ = {row.rate_share:.2g} of its limit"
    noise = "noise alone" if row.noise_variance >= NOISE_ALONE / 10 else f"σ² = {number(row.noise_variance)}"
    return f"{shape}; {noise}, B = {number(row.batch_size)}, n = {number(row.num_steps)}, {rate}"


def number(value: float) -> str:
    """40, or 1e6."""
    return f"{value:.0f}" if value < 1e4 and value % 1 == 0 else f"{value:.2g}".replace("e+0", "e").replace("e-0", "e-")
