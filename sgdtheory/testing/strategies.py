"""Hypothesis strategies that shrink to what a person can check by hand: d = 1, λ = 1, B = 1, n = 2, round numbers."""

import functools
import itertools
import math
from typing import Any

try:
    from hypothesis import reject
    from hypothesis import strategies as draw
except ModuleNotFoundError as missing:
    raise ModuleNotFoundError(
        "sgdtheory.testing needs Hypothesis, which is not installed: pip install 'sgdtheory[testing]'"
    ) from missing

from sgdtheory.algorithms import KINDS, Algorithm, LinearMethod, Slider, Stages, parameters
from sgdtheory.bounds import Setting
from sgdtheory.problems import AbstractProblem, LeastSquares, PowerLaw

SMALLEST_EXPONENT = -6  # of amounts of risk: signal and noise
LARGEST_EXPONENT = 6
MOST_DECADES = 4  # of eigenvalues below the largest
NEAR_ONE = 0.99, 0.999  # shares: of an edge, of the largest eigenvalue
LARGEST_SCALE = 3  # decades of λ_1 about 1
MOST_STAGES = 4
BEGINNINGS = [(0, *later) for count in range(MOST_STAGES) for later in itertools.combinations(range(1, 10), count)]
SHARES = 12  # decades below the edge down to which learning rates go


# Strategies of single numbers are drawn from lists, the simplest first, and are made once: that is what draws cost.
@functools.cache
def _amounts(low: int, high: int, *first: float) -> draw.SearchStrategy[float]:
    """k·10^e, k = 1 … 9 and e = low … high, and some others that are simpler, to which they shrink."""
    exponents = sorted(range(low, high + 1), key=abs)
    return draw.sampled_from([*first, *(float(f"{k}e{e}") for e in exponents for k in range(1, 10))])


@functools.cache
def _shares(decades: int, *first: float) -> draw.SearchStrategy[float]:
    """k·10^−e, k = 1 … 9 and e = 1 … decades, and some others that are simpler, to which they shrink; else to 0.9."""
    found = [float(f"{k}e{-e}") for e in range(1, decades + 1) for k in range(9, 0, -1)]
    return draw.sampled_from([*(first or found[:1]), *NEAR_ONE, *found[not first :]])


@functools.cache
def _whole_numbers(low: int, high: float) -> draw.SearchStrategy[int]:
    """Round whole numbers from low to high, shrinking to the lowest."""
    round_ones = {k * 10**e for k in range(1, 10) for e in range(int(math.log10(high)) + 1)}
    first = range(low, min(low + 9, int(high)) + 1)
    values = set(first)
    return draw.sampled_from(sorted(values | {value for value in round_ones if low <= value <= high}))


@functools.cache
def _dims(largest: int, infinite: bool) -> draw.SearchStrategy[int | None]:
    """One draw, so that a power law is not simpler for being drawn with fewer."""
    return draw.sampled_from([*range(1, largest + 1), *([None] * (largest // 2 + 1) if infinite else [])])


@functools.cache
def _lists(numbers: draw.SearchStrategy[Any], size: int) -> draw.SearchStrategy[list[Any]]:
    return draw.lists(numbers, min_size=size, max_size=size)


@draw.composite
def problems(
    pick: draw.DrawFn, *, largest_dim: int = 6, power_laws: bool = True, noise: bool = True
) -> AbstractProblem:
    """Problems, shrinking to one direction with λ = 1, s = 1 and σ² = 0.

    Finite spectra of round numbers, λ_1 from 1e-3 to 1e3 and the others down to 1e-4 of it, equal and close ones among
    them, and power laws with exponents in tenths, a = 1.1 … 4, b = 1.1 … 8, in infinitely many directions.

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
        capacity = pick(_whole_numbers(11, 40)) / 10
        source = pick(_whole_numbers(11, 80)) / 10
        return PowerLaw(capacity, source, noise_variance=variance)
    scale = pick(_amounts(-LARGEST_SCALE, LARGEST_SCALE))
    eigenvalues = [scale, *(scale * share for share in pick(_lists(_shares(MOST_DECADES, 1.0), dim - 1)))]
    signal = pick(_lists(_amounts(SMALLEST_EXPONENT, 0, 1.0, 0.0), dim))
    return LeastSquares(eigenvalues, signal, variance)


@functools.cache
def _any_problem() -> draw.SearchStrategy[AbstractProblem]:
    return problems()


@draw.composite
def settings(
    pick: draw.DrawFn,
    problem: draw.SearchStrategy[AbstractProblem] | None = None,
    *,
    largest_batch: int = 1000,
    most_steps: float = 1e9,
    least_steps: int = 1,
    edge: float = 1.0,
) -> Setting:
    """A problem and B, γ, n, shrinking to B = 1, γ = 0.9 of the edge and n = 1.

    γ is a round share, 0.999 down to 1e-12, of `edge · 1/R²`, `R² = λ_1 + (tr H + λ_1)/B`, below twice which averaged
    SGD is stable; B and n are round numbers.

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
    chosen = pick(problem if problem is not None else _any_problem())
    batch = pick(_whole_numbers(1, largest_batch))
    steps = pick(_whole_numbers(least_steps, most_steps))
    fourth = chosen.largest_eigenvalue + (chosen.trace + chosen.largest_eigenvalue) / batch
    rate = pick(_shares(SHARES)) * edge / fourth
    return Setting(chosen, batch, _short(rate), batch * steps)


def _short(rate: float) -> float:
    """Rounded down to three digits."""
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
    """Where a slider may stand, shrinking to where it stands at first."""
    first = round((slider.first - slider.low) / slider.step)
    most = round((slider.high - slider.low) / slider.step)
    return draw.integers(-first, most - first).map(lambda k: round(slider.low + (first + k) * slider.step, 9))


def _or_rejected(kind: type, values: dict[str, Any]) -> Any:
    """Numbers that are right one by one need not be together."""
    try:
        return kind(**values)
    except ValueError:
        reject()


def _stages(beginnings: tuple[int, ...], factors: list[int]) -> Stages:
    """From tenths of the run on, factors in tenths."""
    return Stages([tenth / 10 for tenth in beginnings], [factor / 10 for factor in factors[: len(beginnings)]])
