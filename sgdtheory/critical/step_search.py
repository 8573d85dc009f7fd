"""The fewest steps with which something is possible: a bound for all batch sizes, and a search."""

from collections.abc import Callable

import numpy as np

from sgdtheory.theory import Problem, one_minus_power

Margin = Callable[[np.ndarray, np.ndarray], np.ndarray]

RESOLVED = 1e-3  # nγλ below which the sum here is a polynomial in λ to rounding error
RESOLUTION = 1e-8  # relative: numbers of steps above 1e8 are found to this accuracy


def steps_bound(problem: Problem, risk: float, most: float) -> float:
    """A number of steps below which no batch size and no stable γ reach the risk; at most `most`.

    The mean of w̄ alone leaves `Σ s_i [(1 − (1 − x_i)^n)/(n x_i)]²`, x_i = γλ_i < 2λ_i/λ_1. For directions with
    2λ_i ≤ λ_1 that falls with x_i: their bias at x_i = 2λ_i/λ_1 is out of reach of any B, and it falls with n.
    """

    def out_of_reach(n: float) -> float:
        modes = problem.modes(RESOLVED * problem.largest_eigenvalue / n)
        x = 2 * modes.eigenvalue / problem.largest_eigenvalue
        x, signal = x[x <= 1], modes.signal[x <= 1]
        with np.errstate(all="ignore"):  # (1 − x)^n underflows, log 0 is meant
            mean = np.where(n * x > 0, one_minus_power(x, n) / np.where(n * x > 0, n * x, 1.0), 1.0)
        return float(signal @ mean**2)

    low, high = 1.0, most
    while high > 1.01 * low + 1:
        middle = max(low + 1, float(np.floor(np.sqrt(low * high))))
        low, high = (middle, high) if out_of_reach(middle) > risk else (low, middle)
    return low


def whole_numbers(low: float, high: float) -> np.ndarray:
    """Whole numbers from `low`, a whole number, to `high`; none if it is above."""
    return np.arange(low, high + 1) if low <= high else np.empty(0)


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

    False position in log n with the Illinois rule, and every third time a bisection.
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
