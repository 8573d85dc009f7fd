"""Hypothesis strategies that shrink to what a person can check by hand: d = 1, λ = 1, B = 1, n = 2, round numbers."""

import functools
import itertools
import math
from itertools import product
from typing import Any, NamedTuple
from weakref import WeakKeyDictionary

import numpy as np

try:
    import hypothesis
    from hypothesis import strategies as draw
except ModuleNotFoundError as missing:
    raise ModuleNotFoundError(
        "sgdtheory.testing needs Hypothesis, which is not installed: pip install 'hypothesis>=6.130' (extra [testing])"
    ) from missing

from sgdtheory.algorithms import KINDS, Algorithm, LinearMethod, Slider, Stages, parameters
from sgdtheory.bounds import Setting
from sgdtheory.problems import AbstractProblem, LeastSquares, PowerLaw

SMALLEST_EXPONENT = -6  # Signal and noise variance have at least this power of ten.
LARGEST_EXPONENT = 6  # Noise variance has at most this power of ten.
MOST_DECADES = 4  # Round eigenvalues go down to this many decades below the largest.
NEAR_ONE = 0.99, 0.999, 1 - 1e-6  # These shares of an edge, and of the largest eigenvalue, are drawn too.
LARGEST_SCALE = 3  # The power of ten of λ_1 lies between ± this.
MOST_STAGES = 4
BEGINNINGS = [(0, *later) for count in range(MOST_STAGES) for later in itertools.combinations(range(1, 10), count)]
SHARES = 12  # Round learning rates go down to this many decades below the edge.
# A problem is tried with at most this many B, n and γ each, in all combinations at once: 64 of them take three times as
# long as one, and corners that need three numbers at a time are met where each of them is.
GRID = 7


# Strategies of single numbers are made once: that is what draws cost. Each draws a simple number, to which it shrinks,
# or any number of the range, so that a bound that is false at odd n or between two round γ alone fails too.
@functools.cache
def _amounts(low: int, high: int, *first: float) -> draw.SearchStrategy[float]:
    """k·10^e, k = 1 … 9 and e = low … high, and some others that are simpler; or (k + 0.37)·10^e, in one draw."""
    exponents = sorted(range(low, high + 1), key=abs)
    return draw.sampled_from(
        [*first, *(float(f"{k}{rest}e{e}") for rest in ("", ".37") for e in exponents for k in range(1, 10))]
    )


@functools.cache
def _shares(decades: int, *first: float) -> draw.SearchStrategy[float]:
    """k·10^−e, k = 1 … 9 and e = 1 … decades, and some others that are simpler, else 0.9; or any share, six digits."""
    found = [float(f"{k}e{-e}") for e in range(1, decades + 1) for k in range(9, 0, -1)]
    simple = draw.sampled_from([*(first or found[:1]), *found[not first :]])
    return draw.one_of(simple, draw.sampled_from(NEAR_ONE), draw.integers(1, 10**6 - 1).map(_millionths))


def _millionths(number: int) -> float:
    return number / 1e6


@functools.cache
def _whole_numbers(low: int, high: float) -> draw.SearchStrategy[int]:
    """Whole numbers from low to high, shrinking to the lowest: the first ten, round ones, or any of as many digits."""
    most = int(high)
    powers = [10**exponent for exponent in range(len(str(low)) - 1, len(str(most)))]
    round_ones = sorted({k * power for power in powers for k in range(1, 10) if low <= k * power <= most} | {low})
    groups = [(max(low, power), min(most, 10 * power - 1)) for power in powers]
    long = draw.sampled_from([(first, last) for first, last in groups if first < last] or [(low, low)])
    first_ones = draw.sampled_from(range(low, min(low + 9, most) + 1))
    return draw.one_of(first_ones, draw.sampled_from(round_ones), long.flatmap(_between))


@functools.cache
def _between(ends: tuple[int, int]) -> draw.SearchStrategy[int]:
    return draw.integers(*ends)


@functools.cache
def _dims(largest: int, infinite: bool) -> draw.SearchStrategy[int | None]:
    """One draw, so that a power law is not simpler for being drawn with fewer."""
    return draw.sampled_from([*range(1, largest + 1), *([None] * (largest // 2 + 1) if infinite else [])])


@functools.cache
def _lists(numbers: draw.SearchStrategy[Any], size: int) -> draw.SearchStrategy[list[Any]]:
    return draw.lists(numbers, min_size=size, max_size=size)


@functools.cache
def _grids(numbers: draw.SearchStrategy[Any]) -> draw.SearchStrategy[list[Any]]:
    """One to `GRID` numbers."""
    return draw.lists(numbers, min_size=1, max_size=GRID)


# One direction takes as many draws as a power law: Hypothesis prefers what takes fewer, and only then what is simpler.
@functools.cache
def _spectra(dim: int) -> draw.SearchStrategy[list[float]]:
    """λ_i/λ_1: any list; all within one percent of each other; a power of i."""
    if dim == 1:
        return draw.just([1.0])
    close = _lists(draw.sampled_from([1.0, *NEAR_ONE]), dim - 1)
    falling = draw.integers(5, 30).map(lambda tenths: [k ** (-tenths / 10) for k in range(2, dim + 1)])
    return draw.one_of(_lists(_shares(MOST_DECADES, 1.0), dim - 1), close, falling).map(lambda rest: [1.0, *rest])


@functools.cache
def _signals(dim: int) -> draw.SearchStrategy[list[float]]:
    """s_i: any list; all of it in one direction, the last one as often as the first."""
    every = _lists(_amounts(SMALLEST_EXPONENT, 0, 1.0, 0.0), dim)
    alone = draw.sampled_from([0, dim - 1, *range(dim)]).map(lambda place: [float(i == place) for i in range(dim)])
    return every if dim == 1 else draw.one_of(every, alone)


@draw.composite
def problems(
    pick: draw.DrawFn, *, largest_dim: int = 6, power_laws: bool = True, noise: bool = True
) -> AbstractProblem:
    """Draw a problem, shrinking to one direction with λ = 1, s = 1 and σ² = 0.

    Finite spectra have λ_1 = 1e-3 … 1e4 and other λ_i down to 1e-6 of it: any, all within one percent, or falling like
    a power of i; s_i = 0 or 1e-6 … 10, or all signal in one direction; σ² = 0 or 1e-6 … 1e7. Amounts are k·10^e and,
    as often, (k + 0.37)·10^e. Power laws have infinitely many directions and exponents in tenths, a = 1.1 … 4 and
    b = 1.1 … 8.

    Example:
        >>> import hypothesis, sgdtheory as st
        >>> @hypothesis.settings(max_examples=20, database=None)
        ... @hypothesis.given(st.testing.problems())
        ... def check(problem):
        ...     assert problem.trace >= problem.largest_eigenvalue
        >>> check()

    Args:
        largest_dim: of finite spectra.
        power_laws: whether there are any.
        noise: whether σ² may be above 0.
    """
    variance = pick(_amounts(SMALLEST_EXPONENT, LARGEST_EXPONENT, 0.0)) if noise else 0.0
    dim = pick(_dims(largest_dim, power_laws))
    if dim is None:
        capacity = pick(draw.integers(11, 40)) / 10
        source = pick(draw.integers(11, 80)) / 10
        return PowerLaw(capacity, source, noise_variance=variance)
    scale = pick(_amounts(-LARGEST_SCALE, LARGEST_SCALE))
    eigenvalues = [scale * share for share in pick(_spectra(dim))]
    return LeastSquares(eigenvalues, pick(_signals(dim)), variance)


@functools.cache
def _any_problem() -> draw.SearchStrategy[AbstractProblem]:
    return problems()


class Runs(NamedTuple):
    """Ranges from which B, γ and n are drawn.

    Attributes:
        batch: strategy of B.
        steps: of n.
        edge: above the largest γ, in units of 1/R².
    """

    batch: draw.SearchStrategy[int]
    steps: draw.SearchStrategy[int]
    edge: float


def settings(
    problem: draw.SearchStrategy[AbstractProblem] | None = None,
    *,
    largest_batch: int = 1000,
    most_steps: float = 1e9,
    least_steps: int = 1,
    edge: float = 1.0,
) -> draw.SearchStrategy[Setting]:
    """Draw a problem and B, γ, n, shrinking to B = 1, γ = 0.9 of the edge and n = 1.

    γ is a share of `edge · 1/R²`, `R² = λ_1 + (tr H + λ_1)/B`, below twice which averaged SGD is stable: 1e-12 … 0.9 in
    round numbers, 1e-6 … 1 − 1e-6 in others. B and n are small, round or any whole numbers, each number of digits as
    often as any other.

    `assert_bound` draws up to seven B, n and γ for each problem and asks about all combinations.

    Example:
        >>> import hypothesis, sgdtheory as st
        >>> @hypothesis.settings(max_examples=20, database=None)
        ... @hypothesis.given(st.testing.settings())
        ... def check(setting):
        ...     assert st.excess_risk(setting.problem, **setting.run).total >= 0
        >>> check()

    Args:
        problem: a strategy of problems; None: `problems()`.
        largest_batch: B, at most.
        most_steps: n, at most.
        least_steps: n, at least.
        edge: above the largest γ, in units of 1/R².
    """
    chosen = problem if problem is not None else _any_problem()
    runs = Runs(_whole_numbers(1, largest_batch), _whole_numbers(least_steps, most_steps), edge)
    found = _one(chosen, runs)
    _IN_GRIDS[found] = _grid(chosen, runs)
    return found


# Keys are strategies of `settings`, and values are strategies of the same draws in grids.
_IN_GRIDS: WeakKeyDictionary[Any, Any] = WeakKeyDictionary()


def in_grids(strategy: draw.SearchStrategy[Setting]) -> draw.SearchStrategy[Setting]:
    """A strategy of settings whose B, γ and D are arrays of one shape, within the same limits; another one as it is."""
    return _IN_GRIDS.get(strategy, strategy)


@draw.composite
def _one(pick: draw.DrawFn, problem: draw.SearchStrategy[AbstractProblem], runs: Runs) -> Setting:
    chosen = pick(problem)
    batch = pick(runs.batch)
    steps = pick(runs.steps)
    return Setting(chosen, batch, _rate(pick(_shares(SHARES)), _edge(chosen, batch, runs)), batch * steps)


@draw.composite
def _grid(pick: draw.DrawFn, problem: draw.SearchStrategy[AbstractProblem], runs: Runs) -> Setting:
    chosen = pick(problem)
    edges = [(batch, _edge(chosen, batch, runs)) for batch in pick(_grids(runs.batch))]
    drawn = product(edges, pick(_grids(runs.steps)), pick(_grids(_shares(SHARES))))
    rows = [(batch, _rate(share, edge), batch * steps) for (batch, edge), steps, share in drawn]
    return Setting(chosen, *np.array(rows, dtype=float).T)


def _edge(problem: AbstractProblem, batch: int, runs: Runs) -> float:
    return runs.edge / (problem.largest_eigenvalue + (problem.trace + problem.largest_eigenvalue) / batch)


def _rate(share: float, edge: float) -> float:
    """γ, rounded down to three digits where the share has one: what a counterexample shrinks to is short."""
    rate = share * edge
    if share != float(f"{share:.0e}"):
        return rate
    unit = 10.0 ** (math.floor(math.log10(rate)) - 2)
    return float(f"{math.floor(rate / unit * (1 + 1e-12)) * unit:.3g}")


@draw.composite
def algorithms(pick: draw.DrawFn, *, linear: bool = True) -> Algorithm:
    """Algorithms of all registered methods, schedules and averages, shrinking to averaged SGD.

    Numbers are those of the explorer's sliders.

    Example:
        >>> import hypothesis, sgdtheory as st
        >>> @hypothesis.settings(max_examples=20, database=None)
        ... @hypothesis.given(st.testing.algorithms())
        ... def check(algorithm):
        ...     assert algorithm.linear
        >>> check()

    Args:
        linear: only of methods whose risk is exact.
    """
    return Algorithm(**{part: pick(_part(part, linear)) for part in KINDS})


@functools.cache
def _part(part: str, linear: bool) -> draw.SearchStrategy[Any]:
    """Any kind of a method, schedule or average."""
    kinds = KINDS[part].values()
    able = [kind for kind in kinds if not linear or part != "method" or issubclass(kind, LinearMethod)]
    return draw.one_of([_made(kind, part) for kind in able])


def _made(kind: type, part: str) -> draw.SearchStrategy[Any]:
    """A kind with numbers of its sliders and words of its choices, or with stages of its own."""
    if kind is Stages:
        return draw.builds(_stages, draw.sampled_from(BEGINNINGS), _lists(draw.integers(1, 10), MOST_STAGES))
    drawn = {}
    for name, parameter in parameters(kind).items():
        slider = parameter.of_batch if part == "batch_schedule" and parameter.of_batch else parameter.slider
        if slider:
            drawn[name] = _stops(slider)
        elif parameter.choice:
            drawn[name] = draw.sampled_from(parameter.choice.words)
    return draw.builds(_or_rejected, draw.just(kind), draw.fixed_dictionaries(drawn))


def _stops(slider: Slider) -> draw.SearchStrategy[float]:
    """Return a strategy of the values of a slider, which shrinks to its initial value."""
    first = round((slider.first - slider.low) / slider.step)
    most = round((slider.high - slider.low) / slider.step)
    return draw.integers(-first, most - first).map(lambda k: round(slider.low + (first + k) * slider.step, 9))


def _or_rejected(kind: type, values: dict[str, Any]) -> Any:
    """Numbers that are right one by one need not be together."""
    try:
        return kind(**values)
    except ValueError:
        hypothesis.reject()


def _stages(beginnings: tuple[int, ...], factors: list[int]) -> Stages:
    """Return a strategy of stages: starts in tenths of the run, factors in tenths."""
    return Stages([tenth / 10 for tenth in beginnings], [factor / 10 for factor in factors[: len(beginnings)]])
