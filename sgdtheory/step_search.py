"""The fewest steps with which something is possible, for many questions at once."""

from collections.abc import Callable

import numpy as np

Margin = Callable[[np.ndarray, np.ndarray], np.ndarray]

RESOLUTION = 1e-8  # relative: numbers of steps above 1e8 are found to this accuracy
FEW_STEPS = 1000  # up to here even and odd numbers are looked at separately


def fewest_steps(margin: Margin, ends: np.ndarray, margins: np.ndarray) -> np.ndarray:
    """For each of P questions the fewest n in (low, high] with `margin(n) ≤ 0`; low does not have it, high does.

    The margin may alternate between even and odd n, as few steps that overshoot make it do: it is taken to change sign
    once among the even and once among the odd.

    Args:
        margin: called with (Q,) numbers of steps and the (Q,) indices of the questions that they belong to.
        ends: (2, P) low and high, whole numbers, low < high.
        margins: (2, P) the margins there.

    Returns:
        (P,) whole numbers.
    """
    fewest = _crossing(margin, ends, margins)
    index = np.flatnonzero((fewest - 2 > ends[0]) & (fewest <= FEW_STEPS))
    value = margin(fewest[index] - 2, index)
    index, value = index[value <= 0], value[value <= 0]
    if index.size:  # one fewer is not enough, but two fewer are
        parity = fewest[index] % 2
        halves = np.array([np.ceil((ends[0, index] - 1 - parity) / 2), (fewest[index] - 2 - parity) / 2])
        values = np.array([margins[0, index], value])
        fewest[index] = 2 * _crossing(lambda half, some: margin(2 * half + parity[some], index[some]), halves, values)
        fewest[index] += parity
    return fewest


def _crossing(margin: Margin, ends: np.ndarray, margins: np.ndarray) -> np.ndarray:
    """`fewest_steps` for margins that change sign once: false position in log n with the Illinois rule, and every
    third time a bisection.
    """
    ends, weights = ends.copy(), margins.copy()
    last, trial = np.full(ends.shape[1], -1), 0
    while (index := np.flatnonzero(ends[1] - ends[0] > np.maximum(1.0, RESOLUTION * ends[1]))).size:
        trial += 1
        (left, right), (above, below) = np.log(np.maximum(ends[:, index], 0.5)), weights[:, index]
        share = above / (above - below) if trial % 3 else 0.5
        n = np.clip(np.round(np.exp(left + (right - left) * share)), ends[0, index] + 1, ends[1, index] - 1)
        value = margin(n, index)
        side = (value <= 0).astype(int)
        weights[1 - side, index] *= np.where(side == last[index], 0.5, 1.0)
        ends[side, index], weights[side, index], last[index] = n, value, side
    return ends[1]
