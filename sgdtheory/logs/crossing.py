"""The step at which a noisy loss reaches a target."""

from typing import NamedTuple

import numpy as np

REACH = 0.1  # of log steps to each side, over which a loss curve is a line: ±10% of the steps
FAR = 0.3  # at most, where rows are rare
ENOUGH = 20  # rows in the window
FLAT = 1e-3  # least |d log L / d log t| of a line that a crossing can be read off


class Crossing(NamedTuple):
    """Where a loss reaches a target.

    Attributes:
        step: t*; inf where it is not reached, nan where the first row is below already.
        error: standard error of log t* by the scatter of the rows about the line; 0 between two rows.
        rows: how many it is read off.
    """

    step: float
    error: float
    rows: int


def crossing(step: np.ndarray, loss: np.ndarray, target: float, *, noisy: bool) -> Crossing:
    """The step at which a loss reaches a target.

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
    """Where the least-squares line is 0; between the ends of its rows, which a flat one could leave."""
    centre = x.mean()
    spread = ((x - centre) ** 2).sum()
    slope = ((x - centre) * above).sum() / spread
    slope = min(slope, -FLAT)
    root = centre - above.mean() / slope
    rest = above - above.mean() - slope * (x - centre)
    variance = (rest**2).sum() / (x.size - 2) if x.size > 2 else 0.0
    error = np.sqrt(variance * (1 / x.size + (root - centre) ** 2 / spread)) / -slope
    return Crossing(float(np.exp(np.clip(root, x[0], x[-1]))), float(error), x.size)
