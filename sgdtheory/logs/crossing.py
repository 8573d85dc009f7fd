"""The step at which a noisy loss reaches a target."""

from typing import NamedTuple

import numpy as np
from numpy.lib.stride_tricks import sliding_window_view

REACH = 0.1  # The line is fitted over at least this much of log steps to each side of its crossing: ±10% of the steps.
FAR = 0.3  # Where rows are rare, the line is fitted over at most this much of log steps to each side.
ENOUGH = 20  # The range of the fit grows from `REACH` to `FAR` until it holds this many rows.
# A spike's log loss is this many robust standard deviations from the running median; Gaussian noise reaches as far once
# in 5·10⁸ rows.
GROSS = 6.0
LEAST = 0.01  # A spike's log loss is at least this far from the running median.
MOST_GROSS = 0.15  # If a larger share of the rows is that far off, the run itself behaves so and has no spikes.
WINDOW = 5  # The running median takes this many rows to each side: spikes of up to this many rows do not move it.
FLAT = 1e-3  # The slope |d log L / d log t| of the line counts as this much at least, so that it has a crossing.


class Crossing(NamedTuple):
    """Crossing of a target by a loss.

    Attributes:
        step: t*; inf where it is not reached, nan where the first row is below already.
        error: standard error of log t* by the scatter of the rows about the line; 0 between two rows.
        rows: how many it is read off.
    """

    step: float
    error: float
    rows: int


def spikes(loss: np.ndarray) -> np.ndarray:
    """(K,) which rows are spikes: alone, or up to five together, far from the running median of the rows around them.

    The median of a loss that falls is its middle row, so neither steep falls nor drops of the learning rate are spikes.
    """
    found = np.zeros(loss.shape, bool)
    finite = np.flatnonzero(np.isfinite(loss) & (loss > 0))
    x = np.log(loss[finite])
    if x.size < 2 * WINDOW + 1:
        return found
    median = np.empty(x.size)
    median[WINDOW:-WINDOW] = np.median(sliding_window_view(x, 2 * WINDOW + 1), axis=1)
    for place in range(WINDOW):  # the fall at the start is steep: windows that stay within the rows, and symmetric
        median[place] = np.median(x[: 2 * place + 1])
    # The last rows have none after them: they are expected on a line, up to what the loss falls within a window.
    slope = (median[-1 - WINDOW] - median[max(-1 - 3 * WINDOW, -x.size)]) / (2 * WINDOW)
    line = median[-1 - WINDOW] + slope * np.arange(1, WINDOW + 1)
    fall = 2 * WINDOW * abs(slope)
    median[-WINDOW:] = np.clip(x[-WINDOW:], line - fall, line + fall)
    away = np.abs(x - median)
    far = away > max(GROSS * 1.4826 * np.median(away), LEAST)
    if far.mean() <= MOST_GROSS:
        found[finite[far]] = True
    return found


def crossing(step: np.ndarray, loss: np.ndarray, target: float, *, noisy: bool) -> Crossing:
    """Return the step at which a loss reaches a target.

    The first row at or below the target comes too early by what the noise of one row is worth, the more the more
    often it is logged. Instead the row is taken after which the loss is below, before which it is above, rather than
    elsewhere: the maximum over k of Σ_{i≤k} (log L_i − log target), where a curve that never rises, fitted by least
    squares (isotonic regression), crosses the target. Then t* is where a straight line of log L in log t crosses it:
    through the rows within ±10% of that step where the loss is noisy (±30% where these are fewer than 20), through the
    two rows next to it otherwise.

    Args:
        step: (K,) increasing.
        loss: (K,), inf where the run had diverged.
        target: loss.
        noisy: whether rows scatter, as those of batches do and evaluations hardly.
    """
    after = step > 0
    x = np.log(step[after])
    above = np.log(loss[after] / target)
    end = np.flatnonzero(~np.isfinite(above))
    x, above = (each[: end[0] if end.size else None] for each in (x, above))
    if x.size < 2:
        return Crossing(np.inf, np.nan, 0)
    sums = np.cumsum(above)
    last = int(np.argmax(sums))
    if sums[last] <= 0:
        return Crossing(np.nan, np.nan, 0)
    if last == x.size - 1:
        return Crossing(np.inf, np.nan, 0)
    middle = (x[last] + x[last + 1]) / 2
    near = _near(x, middle) if noisy else np.zeros(x.size, bool)
    near[last : last + 2] = True
    return _on_line(x[near], above[near])


def _near(x: np.ndarray, middle: float) -> np.ndarray:
    """(K,) which rows are near enough for a line."""
    away = np.abs(x - middle)
    widest = np.sort(away)[min(ENOUGH, away.size) - 1]
    return away <= np.clip(widest, REACH, FAR)


def _on_line(x: np.ndarray, above: np.ndarray) -> Crossing:
    """Return the root of the least-squares line, kept between the ends of its rows, which a flat line could leave."""
    centre = x.mean()
    spread = ((x - centre) ** 2).sum()
    slope = ((x - centre) * above).sum() / spread
    slope = min(slope, -FLAT)
    root = centre - above.mean() / slope
    rest = above - above.mean() - slope * (x - centre)
    variance = (rest**2).sum() / (x.size - 2) if x.size > 2 else 0.0
    error = np.sqrt(variance * (1 / x.size + (root - centre) ** 2 / spread)) / -slope
    return Crossing(float(np.exp(np.clip(root, x[0], x[-1]))), float(error), x.size)
