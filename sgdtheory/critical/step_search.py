"""The fewest steps with which a risk is reached."""

from collections.abc import Callable
from typing import NamedTuple

import numpy as np

from sgdtheory.critical.least_risk import LeastRisk, Tuned
from sgdtheory.critical.patterns import EVERY_FEW_STEPS, TAILS, whole_numbers

EVERY_RESONANT_STEPS = 64  # up to this many, where steps resonate, every n is tried: parity decides there
STEPS_AT_ONCE = 8  # of those: enough for most answers to be among the first
# where steps ripple: down to this share of steps that are enough, or so many fewer, all are tried
LOOK_BACK = 0.7
MOST_LOOKED_BACK = 64
PATTERN = 8  # numbers of steps in a row: overshooting steps tell odd from even, stages and tails longer patterns
ROUNDING = 1e-12  # relative: (1 + overhead) D is not lowered by a sample through rounding
STEPS_RESOLUTION = 1e-8  # relative: numbers of steps above 1e8 are found to this accuracy
GUESSED = np.log(1.1)  # of log n: how far from its guess a number of steps is looked for at first
LONGEST_JUMP = 10.0  # of log n in the search for enough steps: the risk may be flat at first
NEARER = 0.1  # of the square of the width of a bracket, in log n: how far from a line to look

BatchOf = Callable[[np.ndarray], np.ndarray]  # of numbers of steps
Margin = Callable[[np.ndarray, np.ndarray], np.ndarray]  # of n, and of which question


class Enough(NamedTuple):
    """The fewest steps that reach a risk, and their best γ."""

    steps: float
    rate: float

    @classmethod
    def at(cls, steps: np.ndarray, best: Tuned, k: int) -> "Enough":
        """The k-th of (K,) numbers of steps."""
        return cls(float(steps[k]), float(best.rate[k]))


def fewest_enough(tuned: LeastRisk, batch: BatchOf, target: float, ends: tuple[float, float], guess: float) -> Enough:
    """Fewest n between the ends that reach the target with batch size `batch(n)`; the larger does.

    Few steps are all tried: there the least risk may rise and fall with n, and one step be better than the next few.
    """
    first, high = ends
    low = tuned.out_of_reach.fewest(target, high)
    few = whole_numbers(max(low, first), min(high, EVERY_RESONANT_STEPS))
    few = few[(few <= EVERY_FEW_STEPS) | (few <= tuned.patterns.resonant * batch(few))]
    few = few[tuned.out_of_reach.possible(few, target)]
    for start in range(0, few.size, STEPS_AT_ONCE):
        some = few[start : start + STEPS_AT_ONCE]
        best = tuned.least(batch(some), some)
        enough = np.flatnonzero(best.risk <= target * (1 + ROUNDING))
        if enough.size:
            return Enough.at(some, best, int(enough[0]))
        low = max(low, float(some[-1]))
    if low >= high:
        best = tuned.least(batch(np.array([high])), np.array([high]))
        return Enough.at(np.array([high]), best, 0)
    within = bracket(_margin(tuned, batch, target), low, high, guess)
    return _crossed(tuned, batch, target, within, low)


def _margin(tuned: LeastRisk, batch: BatchOf, target: float) -> Margin:
    return lambda steps, _: np.log(tuned.least(batch(steps), steps).risk / target)


def _crossed(
    tuned: LeastRisk, batch: BatchOf, target: float, within: tuple[np.ndarray, np.ndarray], low: float
) -> Enough:
    """The fewest steps within a bracket, its ends and the margins there, or a few less, above `low`."""
    steps = fewest_steps(_margin(tuned, batch, target), *within)
    best = tuned.least(batch(steps), steps)
    return enough_in_ripples(tuned, batch, low, Enough.at(steps, best, 0), target)


def enough_before(tuned: LeastRisk, batch: BatchOf, steps: np.ndarray, best: Tuned, k: int, target: float) -> Enough:
    """The fewest steps that reach the target, where of (K,) numbers the k-th is the first and fewer than all do not."""
    found = Enough.at(steps, best, k)
    if steps[k] == steps[0] + k:
        return found  # every number has been looked at
    if steps[k] == steps[k - 1] + 1:
        return enough_in_ripples(tuned, batch, steps[0], found, target)
    margins = np.log(best.risk[k - 1 : k + 1, None] / target)
    return _crossed(tuned, batch, target, (steps[k - 1 : k + 1, None], margins), steps[0])


def enough_in_ripples(tuned: LeastRisk, batch: BatchOf, low: float, found: Enough, target: float) -> Enough:
    """The fewest steps above `low`, a little below those found, that are enough too.

    Momentum swings on for a while, tails of ⌈φn⌉ iterates are longer than φn by more or less, and so are stages.
    """
    patterns = tuned.patterns
    end = found.steps
    ever = 0.0 if patterns.plain else max(PATTERN, np.ceil(patterns.fraction and TAILS / patterns.fraction))
    while back := MOST_LOOKED_BACK if found.steps <= patterns.restless else ever:
        first = max(np.ceil(LOOK_BACK * found.steps), found.steps - back, low + 1, 2.0)
        steps = whole_numbers(first, end - 1)
        if not steps.size:
            break
        best = tuned.least(batch(steps), steps)
        enough = np.flatnonzero(best.risk <= target * (1 + ROUNDING))
        if not enough.size:
            break
        found = Enough.at(steps, best, int(enough[0]))
        end = first
    return found


def bracket(margin: Margin, low: float, high: float, guess: float) -> tuple[np.ndarray, np.ndarray]:
    """(2, 1) ends of a bracket for `fewest_steps` and the margins there: about a guess, all of low … high without one.

    Outwards from the guess by as much as a line through the two margins asks for and half as much again.
    """
    about = 2 * np.round(np.exp(np.log(guess) + GUESSED * np.array([-1, 1])) / 2)
    ends = np.clip(about, low, high) if np.isfinite(guess) else np.array([low, high])
    if ends[0] == ends[1]:
        ends = np.array([low, high])
    margins = margin(ends, np.zeros(2, dtype=int))
    while (down := margins[0] <= 0 and ends[0] > low) or (margins[1] > 0 and ends[1] < high):
        width = np.log(ends[1] / ends[0])
        slope = (margins[0] - margins[1]) / width
        distance = np.abs(margins).min()
        jump = width + min(1.5 * distance / slope if slope > 0 else LONGEST_JUMP, LONGEST_JUMP)
        if down:
            new = max(low, 2 * np.floor(ends[0] * np.exp(-jump) / 2))
            ends = np.array([new, ends[0]])
        else:
            new = min(high, 2 * np.ceil(ends[1] * np.exp(jump) / 2))
            ends = np.array([ends[1], new])
        value = margin(np.array([new]), np.zeros(1, dtype=int))[0]
        margins = np.array([value, margins[0]] if down else [margins[1], value])
    return ends[:, None], margins[:, None]


def fewest_steps(margin: Margin, ends: np.ndarray, margins: np.ndarray) -> np.ndarray:
    """For each of P questions the fewest n in (low, high] with `margin(n) ≤ 0`; low does not have it, high does.

    Even numbers of steps may be enough long before odd ones are, for steps that overshoot; odd ones never are more than
    one step before. So even numbers are searched, taking the margin to change sign once among them, and then one
    less is tried.

    Args:
        margin: called with (Q,) numbers of steps and the (Q,) indices of the questions that they belong to.
        ends: (2, P) low and high, whole numbers, low < high.
        margins: (2, P) the margins there.

    Returns:
        (P,) whole numbers.
    """
    halves = np.array([np.floor(ends[0] / 2), np.ceil(ends[1] / 2)])
    fewest = 2 * _crossing(lambda half, index: margin(2 * half, index), halves, margins)
    index = np.flatnonzero(fewest - 1 > ends[0])
    fewest[index] -= margin(fewest[index] - 1, index) <= 0
    return fewest


def _crossing(margin: Margin, ends: np.ndarray, margins: np.ndarray) -> np.ndarray:
    """`fewest_steps` for a margin that changes sign once among all numbers.

    In log n, two numbers at a time: on both sides of where a straight line between the ends crosses 0, the nearer the
    narrower the bracket, so that it narrows quadratically; a third of the bracket where that has failed.
    """
    ends = ends.copy()
    margins = margins.copy()
    stuck = np.zeros(ends.shape[1], dtype=bool)
    while (index := np.flatnonzero(ends[1] - ends[0] > np.maximum(1.0, STEPS_RESOLUTION * ends[1]))).size:
        low, high = np.log(np.maximum(ends[:, index], 0.5))
        width = high - low
        fall = margins[0, index] - margins[1, index]
        # Between the ends, even where rounding has both of them enough and the margin does not fall.
        line = low + width * np.clip(margins[0, index] / np.where(fall > 0, fall, np.inf), 0.0, 1.0)
        centre = np.where(stuck[index], (low + high) / 2, line)
        reach = np.where(stuck[index], width / 6, np.minimum(NEARER * width**2, width / 6))
        pair = np.array([np.floor(np.exp(centre - reach)), np.ceil(np.exp(centre + reach))])
        pair = np.clip(pair, ends[0, index] + 1, ends[1, index] - 1)
        values = margin(pair.ravel(), np.tile(index, 2)).reshape(pair.shape)
        for n, value in zip(pair, values, strict=True):
            enough = value <= 0
            side = enough.astype(int)
            # The smaller comes first: where it is enough the larger is outside, whatever its margin.
            better = (n > ends[0, index]) & (n < ends[1, index])
            ends[side[better], index[better]], margins[side[better], index[better]] = n[better], value[better]
        left, right = np.log(np.maximum(ends[:, index], 0.5))
        stuck[index] = ~stuck[index] & (right - left > width / 2)
    return ends[1]
