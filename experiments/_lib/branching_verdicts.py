"""What three critical batch sizes say of each other: how they grow, how large they are, what moves them."""

from collections.abc import Sequence
from typing import NamedTuple

import numpy as np
from scipy import stats

from experiments._lib.branching_measures import Row, Slope, curve, slope_of
from experiments._lib.results import Verdict, VerdictName

NAMES = {"branching": "branching", "noise": "the gradient noise scale"}


class Limits(NamedTuple):
    """What counts as agreement: a difference of exponents, a ratio of batch sizes, and the level of intervals."""

    margin: float
    ratio: float
    level: float


def theory_verdicts(
    rows: Sequence[Row], problem: str, rate: float, late: float, tolerance: float, limits: Limits
) -> list[Verdict]:
    """On regression: at one γ branching and noise scale stand still late in the run; at each D's best they grow."""
    found = []
    definition, averaged = (slope_of(curve(rows, problem, name)) for name in ("definition", "averaged"))
    assert definition, problem
    assert averaged, problem
    for own, words in (rate, f"at one γ, D ≥ {late:g}"), (None, "at each D's best γ"):
        curves = {name: curve(rows, problem, name, *_tolerance(name, tolerance), rate=own) for name in NAMES}
        if own is not None:
            curves = {name: [each for each in part if each.samples >= late] for name, part in curves.items()}
        slopes = {name: slope_of(part) for name, part in curves.items()}
        exponents = {name: slope.exponent if slope else np.nan for name, slope in slopes.items()}
        predicted = 0.0 if own is not None else definition.exponent
        apart = np.array([exponent - predicted for exponent in exponents.values()])
        answer: VerdictName = "holds" if (np.abs(apart) <= limits.margin / 4).all() else "fails"
        what = "stand still" if own is not None else "grow like B*"
        statement = (
            f"exponents of D: branching {exponents['branching']:.3f}, noise scale {exponents['noise']:.3f}, B* of "
            f"the last iterate {definition.exponent:.3f}, of the uniform average {averaged.exponent:.3f}; expected: "
            f"{predicted:.2f} within {limits.margin / 4:g}"
        )
        claim = f"Branching and noise scale {what} {words} (regression, {problem})"
        measured = ", ".join(f"{exponent:.3f}" for exponent in exponents.values())
        ends = min(exponents.values()), max(exponents.values())
        found.append(Verdict(claim, statement, predicted, measured, ends, answer))
    return found


def growth_verdict(
    rows: Sequence[Row], problem: str, measure: str, rate: float | None, tolerance: float, limits: Limits
) -> Verdict:
    """Whether a measure grows with D as B* by definition does: by the difference of exponents."""
    place = "along one run" if rate is not None else "at each D's best γ"
    claim = f"B* grows as {NAMES[measure]} says, {place} ({problem})"
    own = curve(rows, problem, measure, *_tolerance(measure, tolerance), rate=rate)
    slopes, predicted = (slope_of(own), slope_of(curve(rows, problem, "definition"))), f"0 within {limits.margin:g}"
    if not all(slopes):
        return Verdict(claim, "fewer than three values of D", predicted, "—", None, "inconclusive")
    first, second = (each for each in slopes if each)
    apart = first.exponent - second.exponent
    low, high = _interval(
        apart, float(np.hypot(first.error, second.error)), min(first.freedom, second.freedom), limits.level
    )
    answer: VerdictName = "holds" if max(-low, high) <= limits.margin else "inconclusive"
    if low > limits.margin or high < -limits.margin:
        answer = "fails"
    balance = slope_of(curve(rows, problem, "balance"))
    statement = (
        f"exponent of D: {_words(first, limits.level)} by {NAMES[measure]}, {_words(second, limits.level)} by "
        f"definition{f' ({balance.exponent:.2f} of b/a)' if balance else ''}; their difference has the "
        f"{limits.level:.0%} interval {low:.2f} … {high:.2f}"
    )
    return Verdict(claim, statement, predicted, apart, (low, high), answer)


def ratio_verdict(
    rows: Sequence[Row], problem: str, measure: str, rate: float, tolerances: Sequence[float], limits: Limits
) -> Verdict:
    """How large a measure is along one run, over B* by definition at the same D: its range within a factor or not."""
    claim = f"{NAMES[measure][0].upper()}{NAMES[measure][1:]} along one run is B* within a factor ({problem})"
    predicted = f"1 within a factor of {limits.ratio:g}"
    ratios = [
        _ratios(rows, problem, measure, rate, tolerance)
        for tolerance in (tolerances if measure == "branching" else tolerances[:1])
    ]
    first = ratios[0]
    if not first.size:
        return Verdict(claim, "no D in common", predicted, "—", None, "inconclusive")
    low, high = float(first.min()), float(first.max())
    inside = 1 / limits.ratio <= low and high <= limits.ratio
    outside = high < 1 / limits.ratio or low > limits.ratio
    answer: VerdictName = "holds" if inside else "fails" if outside else "inconclusive"
    middle = [float(np.exp(np.log(each).mean())) for each in ratios if each.size]
    statement = (
        f"over B* by definition, {first.size} values of D: {low:.2f} … {high:.2f}, geometric mean {middle[0]:.2f}"
    )
    if measure == "branching":
        statement += f" at ε = {tolerances[0]:.1%}" + "".join(
            f", {value:.2f} at {tolerance:.1%}" for value, tolerance in zip(middle[1:], tolerances[1:], strict=False)
        )
    return Verdict(claim, statement, predicted, middle[0], (low, high), answer)


def rate_verdict(rows: Sequence[Row], problem: str, power: float, tolerance: float, limits: Limits) -> Verdict:
    """The power of the run's γ in B* by branching, at fixed D: −1 for SGD, where edge/γ decides (p = 1)."""
    own = [each for each in rows if (each.problem, each.measure) == (problem, "branching")]
    own = [each for each in own if np.isclose(each.tolerance, tolerance) and np.isfinite(each.batch_size)]
    claim = f"Branching measures the run's γ, B ∝ γ^{power:g} at fixed D ({problem})"
    predicted = f"{power:g} within {2 * limits.margin:g}"
    places = sorted({each.samples for each in own})
    x, y = (np.log([getattr(each, name) for each in own]) for name in ("learning_rate", "batch_size"))
    group = np.array([places.index(each.samples) for each in own], int)
    for values in x, y:  # what differs between D goes
        for place in range(len(places)):
            values[group == place] -= values[group == place].mean()
    freedom = len(own) - len(places) - 1
    if freedom < 1 or not x.any():
        return Verdict(claim, "too few values of γ", predicted, "—", None, "inconclusive")
    slope = float(x @ y / (x @ x))
    error = float(np.sqrt(((y - slope * x) ** 2).sum() / freedom / (x @ x)))
    low, high = _interval(slope, error, freedom, limits.level)
    near = max(abs(low - power), abs(high - power)) <= 2 * limits.margin
    far = low > power + 2 * limits.margin or high < power - 2 * limits.margin
    answer: VerdictName = "holds" if near else "fails" if far else "inconclusive"
    rates = sorted({each.learning_rate for each in own})
    statement = (
        f"γ = {rates[0]:.3g} … {rates[-1]:.3g}, {len(own)} values at {len(places)} checkpoints: exponent {slope:.2f}"
    )
    return Verdict(claim, statement, predicted, slope, (low, high), answer)


def _ratios(rows: Sequence[Row], problem: str, measure: str, rate: float, tolerance: float) -> np.ndarray:
    """The measure, on lines in logs between checkpoints, over B* by definition, where both are known."""
    own = curve(rows, problem, measure, *_tolerance(measure, tolerance), rate=rate)
    definition = curve(rows, problem, "definition")
    if not own:
        return np.array([])
    inside = [each for each in definition if own[0].samples / 1.5 <= each.samples <= 1.5 * own[-1].samples]
    places, values = np.log([[each.samples, each.batch_size] for each in own]).T
    return np.array([np.exp(np.interp(np.log(each.samples), places, values)) / each.batch_size for each in inside])


def _tolerance(measure: str, tolerance: float) -> tuple[float | None]:
    return (tolerance if measure == "branching" else None,)


def _interval(value: float, error: float, freedom: int, level: float) -> tuple[float, float]:
    half = stats.t.isf((1 - level) / 2, freedom) * error
    return float(value - half), float(value + half)


def _words(slope: Slope, level: float) -> str:
    low, high = _interval(*slope, level)
    return f"{slope.exponent:.2f} ({low:.2f} … {high:.2f})"
