"""Verdicts on three measures of the critical batch size: their growth, their ratios, and what changes them."""

from collections.abc import Sequence
from typing import NamedTuple

import numpy as np
from scipy import stats

from experiments._lib.branching_measures import BRANCHED, Row, Slope, curve, slope_of
from experiments._lib.results import Verdict, VerdictName

NAMES = {
    "branching": "branching",
    "fixed": "branching with a fixed catch-up",
    "noise": "the gradient noise scale",
}
EXACT = "branching", "noise"  # on regression
# What each is to tell: branching B* itself, the noise scale b/a, where steps and data are twice their least.
TARGETS = {"branching": ("definition", "B*"), "fixed": ("definition", "B*"), "noise": ("balance", "b/a")}
BEYOND = 1.25  # the ends of the checkpoints that a target's D may lie, as a factor


class Limits(NamedTuple):
    """Limits of agreement: a difference of exponents, a ratio of batch sizes, and the level of intervals."""

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
        curves = {name: curve(rows, problem, name, *_tolerance(name, tolerance), rate=own) for name in EXACT}
        if own is not None:
            curves = {name: [each for each in part if each.samples >= late] for name, part in curves.items()}
        slopes = {name: slope_of(part) for name, part in curves.items()}
        exponents = {name: slope.exponent if slope else np.nan for name, slope in slopes.items()}
        predicted = 0.0 if own is not None else definition.exponent
        apart = np.array([exponent - predicted for exponent in exponents.values()])
        answer: VerdictName = "holds" if (np.abs(apart) <= limits.margin / 4).all() else "fails"
        what = "do not change with D" if own is not None else "grow like B*"
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
    """Judge whether a measure grows with D like the quantity that it estimates, by the difference of exponents."""
    target, word = TARGETS[measure]
    place = "along one run" if rate is not None else "at each D's best γ"
    claim, predicted = (
        f"{_capital(NAMES[measure])} grows like {word} {place} ({problem})",
        f"0 within {limits.margin:g}",
    )
    first = slope_of(curve(rows, problem, measure, *_tolerance(measure, tolerance), rate=rate))
    second = slope_of(curve(rows, problem, target))
    if first is None or second is None:
        return Verdict(claim, "fewer than three values of D", predicted, "—", None, "inconclusive")
    apart, error = first.exponent - second.exponent, float(np.hypot(first.error, second.error))
    low, high = _interval(apart, error, min(first.freedom, second.freedom), limits.level)
    answer = _answer(apart, error, min(first.freedom, second.freedom), limits.margin, limits.level)
    statement = (
        f"exponent of D: {_words(first, limits.level)} by {NAMES[measure]}, {_words(second, limits.level)} of {word}; "
        f"their difference has the {limits.level:.0%} interval {low:.2f} … {high:.2f}"
    )
    return Verdict(claim, statement, predicted, apart, (low, high), answer)


def ratio_verdict(
    rows: Sequence[Row], problem: str, measure: str, rate: float, tolerances: Sequence[float], limits: Limits
) -> Verdict:
    """Judge whether a measure along a run stays within a factor of the quantity that it estimates at the same D."""
    target, word = TARGETS[measure]
    claim = f"{_capital(NAMES[measure])} along one run is {word} within a factor ({problem})"
    predicted = f"1 within a factor of {limits.ratio:g}"
    ratios = [_ratios(rows, problem, measure, rate, tolerance, target) for tolerance in tolerances]
    first = ratios[0]
    if not first.size:
        return Verdict(claim, "no D in common", predicted, "—", None, "inconclusive")
    low, high = float(first.min()), float(first.max())
    inside = 1 / limits.ratio <= low and high <= limits.ratio
    outside = high < 1 / limits.ratio or low > limits.ratio
    answer: VerdictName = "holds" if inside else "fails" if outside else "inconclusive"
    middle = [_middle(each) for each in ratios]
    statement = f"over {word}, {first.size} values of D: {low:.2f} … {high:.2f}, geometric mean {middle[0]:.2f}"
    if measure in BRANCHED:
        pairs = zip(tolerances, middle, strict=True)
        statement += "".join(f"; {value:.2f} at ε = {tolerance:.1%}" for tolerance, value in pairs)
        statement += f"; {_middle(_ratios(rows, problem, measure, rate, tolerances[0], 'balance')):.2f} over b/a"
    else:
        statement += f"; {_middle(_ratios(rows, problem, measure, rate, tolerances[0], 'definition')):.2f} over B*"
    return Verdict(claim, statement, predicted, middle[0], (low, high), answer)


def rate_verdict(
    rows: Sequence[Row], problem: str, measure: str, power: float, tolerance: float, limits: Limits
) -> Verdict:
    """The power of the run's γ in a measure at fixed D: −1 for SGD that has come to its noise (T15)."""
    own = [each for each in rows if (each.problem, each.measure) == (problem, measure) and np.isfinite(each.batch_size)]
    if measure == "branching":
        own = [each for each in own if np.isclose(each.tolerance, tolerance)]
    claim = f"{_capital(NAMES[measure])} scales like γ^{power:g} of its run ({problem})"
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
    answer = _answer(slope - power, error, freedom, 2 * limits.margin, limits.level)
    rates = sorted({each.learning_rate for each in own})
    statement = (
        f"γ = {rates[0]:.3g} … {rates[-1]:.3g}, {len(own)} values at {len(places)} checkpoints: exponent {slope:.2f}"
    )
    return Verdict(claim, statement, predicted, slope, (low, high), answer)


def _ratios(rows: Sequence[Row], problem: str, measure: str, rate: float, tolerance: float, target: str) -> np.ndarray:
    """The measure, on lines in logs between checkpoints, over the target where both are known, or nearly."""
    own = curve(rows, problem, measure, *_tolerance(measure, tolerance), rate=rate)
    if not own:
        return np.array([])
    inside = [
        each
        for each in curve(rows, problem, target)
        if own[0].samples / BEYOND <= each.samples <= BEYOND * own[-1].samples
    ]
    places, values = np.log([[each.samples, each.batch_size] for each in own]).T
    return np.array([np.exp(np.interp(np.log(each.samples), places, values)) / each.batch_size for each in inside])


def _middle(ratios: np.ndarray) -> float:
    return float(np.exp(np.log(ratios).mean())) if ratios.size else np.nan


def _capital(words: str) -> str:
    return words[0].upper() + words[1:]


def _tolerance(measure: str, tolerance: float) -> tuple[float | None]:
    return (tolerance if measure in BRANCHED else None,)


def _answer(value: float, error: float, freedom: int, margin: float, level: float) -> VerdictName:
    """Judge "value = 0": "holds" if two one-sided tests at 1 − level reject |value| ≥ margin, else "fails" if 0 is."""
    inner, outer = (_interval(value, error, freedom, each) for each in (2 * level - 1, level))
    if -margin < inner[0] and inner[1] < margin:
        return "holds"
    return "fails" if outer[0] > 0 or outer[1] < 0 else "inconclusive"


def _interval(value: float, error: float, freedom: int, level: float) -> tuple[float, float]:
    half = stats.t.isf((1 - level) / 2, freedom) * error
    return float(value - half), float(value + half)


def _words(slope: Slope, level: float) -> str:
    low, high = _interval(*slope, level)
    return f"{slope.exponent:.2f} ({low:.2f} … {high:.2f})"
