"""Critical batch size from the samples that runs at different batch sizes need for the same loss (THEORY.md T34)."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import NamedTuple

import numpy as np
from scipy import stats
from scipy.interpolate import CubicSpline

from sgdtheory.curves.equal_loss_rows import AT_END, TUNED, ComparedRows, compared_rows
from sgdtheory.curves.loss_curve import LossCurve

FEWEST_SIZES = 3  # Two batch sizes fix n = a + b/B and leave nothing that tests its form.
UNKNOWN_FROM = 3.0  # An end this factor away from B*, or more, is open: it would change no decision.
INTERVALS = 8  # All runs share a cubic spline in log samples with this many intervals, so that it follows a kink.
GRID = 40  # The fit is computed at this many candidates of log B*.
REFINED = 10  # A cubic spline divides each interval between candidates into this many parts.
BELOW = 30.0  # The smallest candidate of B* is ω times the smallest batch size over this.
ABOVE = 20.0  # The largest candidate of B* is this many times the largest batch size.
# The fit tries these exponents, in standard deviations from 1. A coarser grid has gaps where data are informative: with
# five exponents and four drifts the intervals held only 60% on a law with a sum of two powers.
EXPONENTS = np.linspace(-2.0, 2.0, 9)
# The fit tries these drifts, in standard deviations from their mean. The drift is rarely negative.
DRIFTS = np.linspace(-1.5, 3.0, 7)
ROUNDS = 4  # The fit is repeated this often, each time with row errors from the residuals of the fit before.
LAGS = 4  # Residuals of a run count as correlated over up to this many cells (Bartlett's weights).
# A learning rate may add this fraction of the loss to all runs alike (standard deviation), which does not affect B*.
SHARED_LEVEL = 0.05


class Allowances(NamedTuple):
    """Standard deviations of what separates real runs from `samples to a loss ∝ 1 + B/b`.

    They were chosen on saturating laws: with noise from the learning rate, a kink, a best learning rate that follows B,
    a drift, or another exponent of B. They were tested on other laws (`python -m benchmarks.curve_critical`).

    Attributes:
        exponent: of q − 1 in `1 + (B/b)^q`.
        drift: of δ in `b ∝ samples^δ` along a run, which is also its mean.
        tuned: of log samples at a batch size whose learning rate was chosen among several.
        untuned: of log samples at a batch size at which one learning rate was tried.
        run: of log samples of a single run.
        level: of the loss that the largest learning rate adds to a run, over the loss.
        misfit: of a cell about the spline, over the loss, before residuals are known.
        inflation: factor of the variances that residuals show, since the spline absorbs a part of slow errors. With 2.5
            all of 216 closed intervals held; the laws above would have taken less.
    """

    exponent: float = 0.13
    drift: float = 0.08
    tuned: float = 0.03
    untuned: float = 0.06
    run: float = 0.02
    level: float = 0.003
    misfit: float = 0.002
    inflation: float = 1.25


@dataclass(frozen=True)
class EqualLoss:
    """Critical batch size by comparing runs at equal loss.

    Attributes:
        loss: expected with D samples at vanishing batch sizes, when the learning rate has decayed.
        batch_size: B*, counted from vanishing batch sizes.
        interval: its ends; 0 or inf where the runs do not determine one.
        smallest: the smallest batch size of the runs.
        from_smallest: B* counted from the smallest batch size, as `fit_steps_law` counts.
        from_smallest_interval: its ends.
        half: b, the batch size that needs twice the samples.
        exponent: q.
        compared: the batch sizes.
        tuned: whether several learning rates were tried at every batch size.
        at_end: batch sizes at which a learning rate beyond those tried is better; the interval is then 0 to inf.
    """

    loss: float
    batch_size: float
    interval: tuple[float, float]
    smallest: float
    from_smallest: float
    from_smallest_interval: tuple[float, float]
    half: float
    exponent: float
    compared: tuple[float, ...]
    tuned: bool
    at_end: tuple[float, ...] = ()

    def samples(self, batch_size: np.ndarray) -> np.ndarray:
        """Return the samples that batch sizes need, relative to vanishing ones."""
        return 1 + (batch_size / self.half) ** self.exponent


def compare_at_equal_loss(
    curves: Sequence[LossCurve],
    samples: float,
    overhead: float,
    level: float,
    *,
    max_learning_rate: float = np.inf,
    allowances: Allowances = Allowances(),  # noqa: B008 (immutable)
) -> EqualLoss | None:
    """Return B* at D samples from runs at three or more batch sizes; None where there are fewer.

        loss = f(log u) + c_run γ/γ_max,   u [1 + (B/b(u))^q] = samples e^(ε_B + ε_run),
        b(u) = b (u/D)^δ,   B* = b ω^(1/q)

    f is a cubic spline that all runs share, so nothing is assumed about the shape of the curves. c, ε, q and δ have
    priors, `Allowances`, and the interval is where the profile of −2 log posterior rises by the quantile of χ².
    The variance of a cell is that of its rows plus the misfit that residuals show, times their correlation along a run.

    Args:
        curves: runs with batch sizes.
        samples: D.
        overhead: ω.
        level: of the intervals.
        max_learning_rate: runs with larger learning rates are left out.
        allowances: standard deviations of the priors.
    """
    rows = compared_rows(curves, max_learning_rate)
    if rows is None or rows.batch_sizes.size < FEWEST_SIZES:
        return None
    grid = _Grid.about(rows.batch_sizes, overhead, allowances)
    deviance, loss = _deviance(rows, grid, np.log(samples), allowances)
    return _result(rows, grid, deviance, loss, overhead, level)


class _Grid(NamedTuple):
    """Candidates: (T,) log B*, and (C,) exponents q, drifts δ and their −2 log prior; (T, C) log b."""

    log_size: np.ndarray
    exponent: np.ndarray
    drift: np.ndarray
    penalty: np.ndarray
    log_half: np.ndarray

    @classmethod
    def about(cls, batch_sizes: np.ndarray, overhead: float, allowances: Allowances) -> "_Grid":
        """Return the grid for these batch sizes."""
        low, high = overhead * batch_sizes[0] / BELOW, ABOVE * batch_sizes[-1]
        log_size = np.linspace(np.log(low), np.log(high), GRID)
        away, adrift = (each.ravel() for each in np.meshgrid(EXPONENTS, DRIFTS))
        exponent = 1 + allowances.exponent * away
        drift = allowances.drift * (1 + adrift)
        log_half = log_size[:, None] - np.log(overhead) / exponent
        return cls(log_size, exponent, drift, away**2 + adrift**2, log_half)


def _deviance(rows: ComparedRows, grid: _Grid, log_samples: float, allowances: Allowances) -> tuple[np.ndarray, float]:
    """(T, C) −2 log posterior of the candidates, at the best of all that enters linearly, and f(log D) of the best."""
    count = grid.log_half.size
    log_half = grid.log_half.ravel()[:, None]
    exponent, drift = (np.tile(each, len(grid.log_size))[:, None] for each in (grid.exponent, grid.drift))
    place: np.ndarray = np.broadcast_to(rows.log_samples, (count, rows.loss.size))
    for _ in range(8):  # A fixed point: u depends on b(u), and each round shrinks the error by the small drift.
        half = log_half + drift * (place - log_samples)
        place = rows.log_samples - np.logaddexp(0.0, exponent * (rows.log_batch - half))
    low = place.min(1, keepdims=True)
    width = np.ptp(place, axis=1, keepdims=True) / INTERVALS
    curve, slope = _cubic_spline((place - low) / width)
    of_run = np.eye(rows.run.max() + 1)[rows.run]
    of_size = np.eye(rows.batch_sizes.size)[rows.size]
    scale = rows.loss.mean()
    added = scale * np.column_stack([rows.learning_rate, of_run * rows.learning_rate[:, None]])
    free = np.full(curve.shape[-1], 1e-8)
    prior = [free, [SHARED_LEVEL**-2], np.full(of_run.shape[1], allowances.level**-2)]
    mistuned: np.ndarray = np.where(rows.tuning == TUNED, allowances.tuned, allowances.untuned)
    freedom = rows.batch_sizes.size - 2
    variance: np.ndarray = rows.variance / rows.count + (allowances.misfit * rows.loss) ** 2
    columns: np.ndarray = added
    weights: np.ndarray = np.concatenate(prior)
    for number in range(ROUNDS):
        design: np.ndarray = np.concatenate([curve, np.broadcast_to(columns, (count, *columns.shape))], axis=2)
        weighted: np.ndarray = (design / variance[:, None]).transpose(0, 2, 1)
        right = weighted @ rows.loss
        found: np.ndarray = np.linalg.solve(weighted @ design + np.diag(weights), right[..., None])[..., 0]
        deviance = (rows.loss**2 / variance).sum() - (found * right).sum(1) + np.tile(grid.penalty, len(grid.log_size))
        best = int(deviance.argmin())
        if number > 0:  # Shifts that are larger than their prior say that `1 + (B/b)^q` does not fit: it is widened.
            shifts = found[best, curve.shape[-1] + added.shape[1] :][: mistuned.size]
            mistuned = mistuned * max(1.0, float(((shifts / mistuned) ** 2).sum() / freedom)) ** 0.5
        # Learning rates that are off, and runs of their own, shift a curve along log samples: first order in the shift.
        fall = slope[best] @ found[best, : curve.shape[-1]] / width[best]
        columns = np.concatenate([added, fall[:, None] * of_size, fall[:, None] * of_run], axis=1)
        weights = np.concatenate([*prior, mistuned**-2.0, np.full(of_run.shape[1], allowances.run**-2.0)])
        used = curve.shape[-1] + rows.batch_sizes.size
        variance = _variances(rows, rows.loss - design[best] @ found[best], used, allowances)
    asked = (log_samples - low[best, 0]) / width[best, 0]
    inside = np.clip(asked, 0.0, INTERVALS)
    at_end, rise = (float(each @ found[best, : curve.shape[-1]]) for each in _cubic_spline(inside))
    return deviance.reshape(grid.log_half.shape), at_end + rise * (float(asked) - float(inside))


def _variances(rows: ComparedRows, residuals: np.ndarray, used: int, allowances: Allowances) -> np.ndarray:
    """(N,) variances of the cells: those of rows and of the misfit, times the correlation along each run."""
    freedom = max(1 - used / residuals.size, 0.3)
    variance = np.empty_like(residuals)
    for run in range(rows.run.max() + 1):
        own = rows.run == run
        scatter = rows.variance[own] / rows.count[own]
        misfit = max(float((residuals[own] ** 2).mean() / freedom - scatter.mean()), 0.0)
        total = scatter + misfit + (1e-4 * rows.loss[own]) ** 2
        unit = residuals[own] / np.sqrt(total)
        lags = range(1, min(LAGS, unit.size - 1) + 1)
        together = sum(2 * (1 - lag / (LAGS + 2)) * float((unit[:-lag] * unit[lag:]).mean()) for lag in lags)
        correlation = max(1.0, (float((unit**2).mean()) + together) / freedom)
        variance[own] = total * correlation * allowances.inflation
    return variance


def _cubic_spline(place: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """(…, INTERVALS + 3) values and slopes of uniform cubic B-splines at places from 0 to INTERVALS."""
    first = np.clip(np.floor(place), 0, INTERVALS - 1)
    t = place - first
    values = (1 - t) ** 3 / 6, (3 * t**3 - 6 * t**2 + 4) / 6, (-3 * t**3 + 3 * t**2 + 3 * t + 1) / 6, t**3 / 6
    slopes = -((1 - t) ** 2) / 2, (3 * t**2 - 4 * t) / 2, (-3 * t**2 + 2 * t + 1) / 2, t**2 / 2
    found = np.zeros((2, *place.shape, INTERVALS + 3))
    for shift, pair in enumerate(zip(values, slopes, strict=True)):
        index = (first.astype(int) + shift)[..., None]
        for which, value in enumerate(pair):
            np.put_along_axis(found[which], index, value[..., None], -1)
    return found[0], found[1]


def _result(
    rows: ComparedRows, grid: _Grid, deviance: np.ndarray, loss: float, overhead: float, level: float
) -> EqualLoss:
    """Return the profile's least place and ends, counted from vanishing and from the smallest batch sizes."""
    fine = np.linspace(grid.log_size[0], grid.log_size[-1], REFINED * (GRID - 1) + 1)
    # Beside a steep rise the cubic undershoots, and the interval would shrink to a point: no more than 1 is believed.
    refined = np.maximum(np.asarray(CubicSpline(grid.log_size, deviance)(fine)), deviance.min() - 1)
    inside = refined <= refined.min() + stats.chi2.ppf(level, 1)
    best = np.unravel_index(refined.argmin(), refined.shape)
    exponent = grid.exponent[best[1]]
    smallest = float(rows.batch_sizes[0])
    with np.errstate(over="ignore"):
        half = np.exp(fine[:, None] - np.log(overhead) / grid.exponent)
        more = (1 + overhead) * (1 + (smallest / half) ** grid.exponent) - 1
        counted = half * more ** (1 / grid.exponent)
    sizes = np.broadcast_to(np.exp(fine)[:, None], refined.shape)
    untried = bool((rows.tuning == AT_END).any())  # A better rate there would change the samples by nobody knows what.
    is_open = bool(inside[0].any()) or untried, bool(inside[-1].any()) or untried
    ends = [_ends(each[inside], float(each[best]), is_open) for each in (sizes, counted)]
    return EqualLoss(
        loss=loss,
        batch_size=float(sizes[best]),
        interval=ends[0],
        smallest=smallest,
        from_smallest=float(counted[best]),
        from_smallest_interval=ends[1],
        half=float(half[best]),
        exponent=float(exponent),
        compared=tuple(rows.batch_sizes.tolist()),
        tuned=bool((rows.tuning == TUNED).all()),
        at_end=tuple(rows.batch_sizes[rows.tuning == AT_END].tolist()),
    )


def _ends(inside: np.ndarray, best: float, is_open: tuple[bool, bool]) -> tuple[float, float]:
    """Return the ends of an interval, open where the candidates end or where an end is far from the best."""
    low, high = float(inside.min()), float(inside.max())
    low = 0.0 if is_open[0] or low * UNKNOWN_FROM < best else low
    high = np.inf if is_open[1] or high > best * UNKNOWN_FROM else high
    return low, high
