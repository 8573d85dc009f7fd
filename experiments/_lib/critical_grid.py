"""B* from risks on a grid of batch sizes, learning rates and data sizes: the same for theory and for measurement."""

from typing import NamedTuple

import numpy as np
from scipy.optimize import isotonic_regression

import sgdtheory as st

RATIO = 2**0.25  # of data sizes that are read, one to the next
ROOM = 1.6  # the largest one over D: what B* may need, and more
BATCH_RATIO = 2**0.5  # of batch sizes
REACH = 0.25, 2.6  # the least and the largest batch size over the B* expected
RATE_REACH = 1.6  # the least learning rate is so far below the theory's best
EDGE = 0.98  # of the theory's stability edge: its best learning rates are not beyond
BENT = 0.4  # of log risk
BEYOND = 1.25, 1.5  # of the largest of those: the data may have an edge of their own


class Grid(NamedTuple):
    """(K,) batch sizes, (K, G) learning rates and (J,) data sizes; `samples` (K, J) whole batches of them."""

    batch: np.ndarray
    rate: np.ndarray
    data: np.ndarray

    @property
    def samples(self) -> np.ndarray:
        """B ⌊D/B⌋, at least one batch."""
        return self.batch[:, None] * np.maximum(np.floor(self.data / self.batch[:, None]), 1)

    @property
    def setting(self) -> dict[str, np.ndarray]:
        """Arguments of `excess_risk` and `simulate_data`, (K, G, J)."""
        rate, samples = self.rate[:, :, None], self.samples[:, None, :]
        return {"batch_size": self.batch[:, None, None], "learning_rate": rate, "num_samples": samples}


def grid_around(problem: st.LeastSquares, num_samples: np.ndarray, expected: np.ndarray, num_rates: int) -> Grid:
    """A grid that holds B* of every D, if it is near the expected one, and the best learning rates.

    Args:
        problem: of the theory.
        num_samples: (M,) D.
        expected: (M,) B* of the theory.
        num_rates: G.
    """
    low, high = np.log([expected.min() * REACH[0], expected.max() * REACH[1]]) / np.log(BATCH_RATIO)
    batch = np.unique(np.round(BATCH_RATIO ** np.arange(max(0, np.floor(low)), np.ceil(high) + 1)))
    reads = np.arange(1 + np.ceil(np.log(ROOM * num_samples.max() / num_samples.min()) / np.log(RATIO)))
    data = num_samples.min() * RATIO**reads
    ends = np.maximum(num_samples[[0, -1]], 4 * batch[:, None])
    best = np.asarray(st.optimal_learning_rate(problem, batch_size=batch[:, None], num_samples=ends).learning_rate)
    edge = EDGE * np.asarray(st.max_stable_learning_rate(problem, batch_size=batch))
    most = np.minimum(best.max(1), edge)
    rate = np.geomspace(best.min(1) / RATE_REACH, most, num_rates - len(BEYOND)).T
    return Grid(batch, np.concatenate([rate, most[:, None] * BEYOND], axis=1), data)


def gaussian_risk(problem: st.LeastSquares, grid: Grid) -> np.ndarray:
    """(K, G, J) exact risk of Gaussian rows; infinite beyond the stability edge, where the theory's B* does not go."""
    batch, rate, samples = grid.setting.values()
    risk = np.asarray(st.excess_risk(problem, batch_size=batch, learning_rate=rate, num_samples=samples).total)
    edge = st.max_stable_learning_rate(problem, batch_size=grid.batch)
    return np.where((grid.rate < np.asarray(edge)[:, None])[:, :, None], risk, np.inf)


def tuned(grid: Grid, risk: np.ndarray) -> np.ndarray:
    """(…, K, J) least risk over learning rates of (…, K, G, J): a parabola in logs through the best and its neighbours.

    The best stands where it is the first or last one, or where a neighbour is no parabola's: more than `BENT` above it.
    """
    log_risk = np.log(risk)
    place = np.clip(log_risk.argmin(-2), 1, risk.shape[-2] - 2)[..., None, :]
    log_rate = np.broadcast_to(np.log(grid.rate)[:, :, None], risk.shape)
    x, y = (
        [np.take_along_axis(each, place + shift, -2)[..., 0, :] for shift in (-1, 0, 1)]
        for each in (log_rate, log_risk)
    )
    with np.errstate(invalid="ignore"):
        before, after = (y[1] - y[0]) / (x[1] - x[0]), (y[2] - y[1]) / (x[2] - x[1])
        bend = (after - before) / (x[2] - x[0])
        slope = before + bend * (x[1] - x[0])  # in the middle
        least = y[1] - slope**2 / (4 * bend)
        fits = (bend > 0) & (before <= 0) & (after >= 0) & (np.maximum(y[0], y[2]) - y[1] < BENT)
    return np.exp(np.where(fits, least, log_risk.min(-2)))


def share_inside(grid: Grid, risk: np.ndarray) -> float:
    """Share of batch and data sizes at which the best learning rate of a (K, G, J) risk is neither first nor last."""
    place = risk.argmin(-2)
    steps = grid.samples / grid.batch[:, None] > 2
    return float(((place > 0) & (place < risk.shape[-2] - 1))[steps].mean())


def critical(grid: Grid, risk: np.ndarray, num_samples: np.ndarray, overhead: float) -> tuple[np.ndarray, np.ndarray]:
    """B* and R_opt, (…, M), of tuned risks (…, K, J).

    R_opt(D) is the least risk over batch sizes; a batch size reaches it with as much data as its risk, falling by
    powers between those read, takes to get there, at most all that are read; B* is the largest that gets there with
    (1 + overhead) D, between batch sizes by powers. Data that fall with B by noise are pooled (isotonic regression).
    """
    place = np.abs(np.log(grid.data[:, None] / num_samples)).argmin(0)
    optimal = risk[..., place].min(-2)
    found = np.empty(optimal.shape)
    for index in np.ndindex(optimal.shape):
        log_risk = np.log(risk[index[:-1]])
        needed = [
            _crossing(np.log(samples), values, np.log(optimal[index]))
            for samples, values in zip(grid.samples, log_risk, strict=True)
        ]
        excess = np.asarray(isotonic_regression(needed).x) - np.log((1 + overhead) * num_samples[index[-1]])
        found[index] = _largest(np.log(grid.batch), excess)
    return found, optimal


def _crossing(log_samples: np.ndarray, log_risk: np.ndarray, target: float) -> float:
    """Return where a risk first reaches the target; the end if it does not."""
    here = int((log_risk <= target).argmax())
    if log_risk[here] > target:
        return log_samples[-1]
    if here == 0:
        return log_samples[0]
    share = (log_risk[here - 1] - target) / (log_risk[here - 1] - log_risk[here])
    return log_samples[here - 1] + share * (log_samples[here] - log_samples[here - 1])


def _largest(log_batch: np.ndarray, excess: np.ndarray) -> float:
    """The largest batch size whose log data are at most those allowed; nan where it is not inside of the grid."""
    last = int(np.flatnonzero(excess <= 0).max(initial=-1))
    if last < 0 or last == len(excess) - 1:
        return np.nan
    share = -excess[last] / (excess[last + 1] - excess[last])
    return float(np.exp(log_batch[last] + share * (log_batch[last + 1] - log_batch[last])))
