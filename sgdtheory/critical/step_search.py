"""The fewest steps with which something is possible."""

from collections.abc import Callable

import numpy as np

STEPS_RESOLUTION = 1e-8  # relative: numbers of steps above 1e8 are found to this accuracy
GUESSED = np.log(1.1)  # of log n: how far from its guess a number of steps is looked for at first
LONGEST_JUMP = 10.0  # of log n in the search for enough steps: the risk may be flat at first

NEARER = 0.1  # of the square of the width of a bracket, in log n: how far from a line to look
Margin = Callable[[np.ndarray, np.ndarray], np.ndarray]


def whole_numbers(low: float, high: float) -> np.ndarray:
    """Whole numbers from `low`, a whole number, to `high`; none if it is above."""
    return np.arange(low, np.floor(high) + 1) if low <= high else np.empty(0)


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
