"""Scatter of a loss between runs, and L*(B, D) as it would have been with other runs."""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from scipy import stats

from sgdtheory.fits.loss_rows import loss_rows
from sgdtheory.fits.tuned_loss import Cell, TunedLosses, divided_difference, lowest, tuned_losses


@dataclass(frozen=True, eq=False)
class LossNoise:
    """Variance of the log loss of a single run, at each batch size.

    From runs that were repeated: the variance between them, at the best rate and the better of its neighbours. Without
    any from the residual of a parabola through four neighbouring rates: its square is the variance of a loss, and of
    what is no parabola. The median of the squares is taken, since beside a cliff a residual is no noise.

    Attributes:
        source: "runs", "rates", or "" where there is neither.
        variances, freedom: (m,) of each batch size, and its degrees of freedom; 0 without a source.
    """

    source: str
    variances: np.ndarray
    freedom: np.ndarray


def cliff_margins(tuned: TunedLosses) -> np.ndarray:
    """Return (m,) errors of a run's log loss that scatter explains, at each batch size; 0 where nothing says.

    One in 10⁴ is larger: one false cliff in a hundred grids of 8 × 8 cells, which have two sides each. Without repeated
    runs scatter is that of the quarter of all cells with the least residuals of a parabola, since the cliffs that are
    looked for are in the residuals of the others.
    """
    noise = loss_noise(tuned)
    if noise.source == "rates":
        squares = [square for cell in tuned.cells for square in _of_rates(cell)]
        # The lower quartile of χ² with one degree of freedom is 0.1015, and such a square counts as 0.156 of one.
        variances, freedom = np.quantile(squares, 0.25) / 0.1015, 0.156 * len(squares)
    else:
        variances, freedom = noise.variances, noise.freedom
    bound = stats.t.isf(1e-4, np.maximum(freedom, 1.0)) * np.sqrt(variances)
    return np.broadcast_to(bound, noise.variances.shape)


def tuned_groups(table: Mapping[str, Any] | Sequence[Any]) -> list[tuple[TunedLosses, np.ndarray]]:
    """Return L*(B, D) of every group of a table, and the `cliff_margins` with which its cliffs were found."""
    found = []
    for rows in loss_rows(table):
        margins = cliff_margins(tuned_losses(rows))
        found.append((tuned_losses(rows, margins), margins))
    return found


def loss_noise(tuned: TunedLosses) -> LossNoise:
    """The noise of a group."""
    number = tuned.batch_sizes.size
    pairs = [[pair for cell in tuned.cells if cell.batch == b for pair in _of_runs(cell)] for b in range(number)]
    if any(pairs):
        return LossNoise("runs", *_pooled([np.array(each).reshape(-1, 2) for each in pairs]))
    squares = [[x for cell in tuned.cells if cell.batch == b for x in _of_rates(cell)] for b in range(number)]
    if any(squares):
        # The median of χ² with one degree of freedom is 0.4549, and a square counts as 0.37 degrees of freedom.
        medians = [[(np.median(each) / 0.4549, 0.37 * len(each))] if each else [] for each in squares]
        return LossNoise("rates", *_pooled([np.array(each).reshape(-1, 2) for each in medians]))
    return LossNoise("", np.zeros(number), np.zeros(number))


def _of_runs(cell: Cell) -> Iterator[tuple[float, float]]:
    """(variance, degrees of freedom) of the best rate and of the better of its neighbours, where they are repeated."""
    best = int(cell.log_losses.argmin())
    beside = [place for place in (best - 1, best + 1) if 0 <= place < cell.counts.size]
    for place in (best, *sorted(beside, key=lambda place: cell.log_losses[place])[:1]):
        if cell.counts[place] > 1 and np.isfinite(cell.log_losses[place]):
            yield float(cell.variances[place]), float(cell.counts[place] - 1)


def _of_rates(cell: Cell) -> Iterator[float]:
    """The squared residual of a parabola through four neighbouring rates, the best among them, of the least loss."""
    best = int(cell.log_losses.argmin())
    starts = range(max(best - 3, 0), min(best, cell.counts.size - 4) + 1)
    if starts:
        start = min(starts, key=lambda start: cell.log_losses[start : start + 4].max())
        x, y = cell.log_rates[start : start + 4], cell.log_losses[start : start + 4]
        weights = divided_difference(x)
        if np.isfinite(y).all():
            yield float(weights @ y) ** 2 / float(weights @ weights)


def _pooled(batches: list[np.ndarray]) -> tuple[np.ndarray, np.ndarray]:
    """Variance and degrees of freedom of each batch size, from rows of both; of all where one has fewer than five."""
    everything = np.concatenate(batches)
    found = [each if each[:, 1].sum() >= 5 else everything for each in batches]
    freedom = np.array([each[:, 1].sum() for each in found])
    return np.array([(each[:, 0] * each[:, 1]).sum() for each in found]) / freedom, freedom


def resampled(
    tuned: TunedLosses, noise: LossNoise, number: int, seed: int, margins: np.ndarray | None = None
) -> np.ndarray:
    """(number, m, k) log L* with other runs; nan where there are none.

    Each draws the variance of every batch size from what its estimate leaves open, ν s²/χ²_ν, and normal errors of the
    log losses from it, over the square root of the number of runs: one error for all data sizes of a run where runs
    have seeds, else one for each.
    """
    random = np.random.default_rng(seed)
    freedom = np.where(noise.freedom > 0, noise.freedom, 1.0)
    spread = np.sqrt(noise.variances * freedom / random.chisquare(freedom, (number, freedom.size)))
    rates = 1 + max(int(cell.places[-1]) for cell in tuned.cells)
    shared = random.standard_normal((number, tuned.batch_sizes.size, rates)) if tuned.seeds else None
    found = np.full((number, *tuned.loss.shape), np.nan)
    for cell in tuned.cells:
        z = random.standard_normal((number, cell.counts.size)) if shared is None else shared[:, cell.batch, cell.places]
        errors = spread[:, cell.batch, None] * z / np.sqrt(cell.counts)
        margin = 0.0 if margins is None else cell.margin(margins)
        found[:, cell.batch, cell.data] = lowest(cell.log_rates, cell.log_losses + errors, margin).value
    return found


def other_edges(tuned: TunedLosses, level: float) -> np.ndarray:
    """(2, m, k) log L* if runs diverge late or early after the last rate that does not.

    How far the loss goes on to fall is open evenly between nothing and all of the fall, and alike for the whole group,
    since it is one edge that all of them run into: the two ends leave out 1 − `level` of that.
    """
    with np.errstate(divide="ignore"):
        middle = np.log(tuned.loss)
    return np.stack([middle + sign * level * tuned.slack for sign in (1, -1)])


def widened(estimate: float, intervals: Sequence[tuple[float, float]], edges: np.ndarray) -> tuple[float, float]:
    """The widest of intervals of a number that is not negative, and what the edges do to it, added in squares of logs.

    Args:
        estimate: the number; inf has no upper end, 0 no lower one.
        intervals: (low, high) each; nan of one that there is not.
        edges: (2,) the number at both ends of `other_edges`.
    """
    if not np.isfinite(estimate):
        return float(np.nanmin([*edges, *(low for low, _ in intervals)])), float("inf")
    if not estimate:
        return 0.0, float(np.nanmax([*edges, *(high for _, high in intervals)]))
    with np.errstate(divide="ignore"):
        lows, highs = np.log(np.array(intervals)).T - np.log(estimate)
        at_edges = np.log(edges) - np.log(estimate)
    low, high = np.fmin.reduce(np.r_[lows, 0.0]), np.fmax.reduce(np.r_[highs, 0.0])
    low = -np.hypot(low, min(at_edges.min(), 0.0))
    high = np.hypot(high, max(at_edges.max(), 0.0))
    return float(estimate * np.exp(low)), float(estimate * np.exp(high))
