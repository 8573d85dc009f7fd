"""Robust least squares of a law to loss curves, and how far its numbers are known from correlated residuals."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from scipy import stats
from scipy.optimize import least_squares

from sgdtheory.curves.correlated_residuals import scatter_of
from sgdtheory.curves.laws.law import AbstractLaw
from sgdtheory.curves.loss_curve import LossCurve
from sgdtheory.curves.row_covariance import RowCovariance
from sgdtheory.curves.valley import GAIN, Held, Rows, least

DIFFERENCE = 1e-5  # Central differences for slopes move each coordinate by this much.
TUNING = 3.0  # Huber's loss is linear in residuals beyond this many robust standard deviations.
SMALLEST_SCALE = 1e-7
ROUGH = 12  # Each start is refined by at most this many evaluations before the best one is chosen.
ROUNDS = 3, 8  # Fit and scale are estimated in turn at least 3 and at most 8 times, since valleys are flat.
SETTLED = 0.8  # A scale that stays above this fraction of the one before has converged.
POLISHED = 2  # Least squares of the clipped residuals are repeated this often, each time clipped anew.
GROSS = 10.0  # A row that is more than this many robust standard deviations off is a spike, and is not fitted.
MOST_GROSS = 0.15  # If more than this fraction of the rows are that far off, none of them counts as a spike.
# Independent scatter passes for an informative curve with this probability. With correlation lengths of 0.1 to 1.5 in
# log t laws linear in 3 and 6 parameters took scatter for a curve in 3 to 31 of 100 replicas: the law has removed the
# slow part of the residuals there, and the ν estimated from them is too large.
CHANCE = 1e-3
# A curve that changes by more than this times the residuals of its law is informative, however these are correlated.
# Laws that are linear in 3 to 7 parameters left residuals of at least 1/21 of scatter whose correlation lengths were up
# to 0.5 in log t (4·10⁵ replicas of 9 to 171 rows).
PLAIN = 30.0


@dataclass(frozen=True, eq=False)
class Observed:
    """Rows of the curves that are fitted, each once.

    Attributes:
        law: that is fitted.
        curves: as given.
        kept: of each curve, which rows count: what it shares with a curve before it is the same measurement.
        prepared: what the law has prepared of the curves.
    """

    law: AbstractLaw
    curves: tuple[LossCurve, ...]
    kept: tuple[np.ndarray, ...]
    prepared: Any

    @property
    def log_loss(self) -> np.ndarray:
        """(N,) of all rows that are kept."""
        return np.concatenate([np.log(c.loss)[keep] for c, keep in zip(self.curves, self.kept, strict=True)])

    def predicted(self, coordinates: np.ndarray) -> np.ndarray:
        """(Q, N) log loss, for coordinates (Q, P)."""
        with np.errstate(all="ignore"):
            found = self.law.losses(self.law.values(coordinates), self.prepared)
            return np.log(np.concatenate([each[:, keep] for each, keep in zip(found, self.kept, strict=True)], axis=1))

    @property
    def log_steps(self) -> list[np.ndarray]:
        """Return log t of the kept rows of each curve."""
        pairs = zip(self.curves, self.kept, strict=True)
        return [np.log(np.maximum(curve.step[keep], 1.0)) for curve, keep in pairs if keep.any()]


def observed(curves: Sequence[LossCurve], law: AbstractLaw) -> Observed:
    """The curves as a law sees them, and which rows are not there twice."""
    kept = []
    for j, curve in enumerate(curves):
        keep = np.ones(curve.step.size, dtype=bool)
        for before in curves[:j]:
            same = min(curve.step.size, before.step.size)
            rows = (curve.step, curve.loss, curve.learning_rate), (before.step, before.loss, before.learning_rate)
            alike = np.all([x[:same] == y[:same] for x, y in zip(*rows, strict=True)], axis=0)
            keep[: int(np.argmin(np.append(alike, False)))] = False
        kept.append(keep)
    return Observed(law, tuple(curves), tuple(kept), law.prepared(curves))


@dataclass(frozen=True, eq=False)
class RobustFit:
    """Coordinates found, and their scatter.

    Attributes:
        law: whose coordinates they are.
        coordinates: (P,).
        covariance: (P, P), for correlated residuals.
        identified: (P,) whether the rows identify a number.
        scale: robust standard deviation of the residuals, in log loss.
        residuals: (N,) log of measured over fitted loss.
        freedom: degrees of freedom of the covariance.
        used: (N,) rows that were fitted; the others are spikes.
        held: (n,) residuals of these, what is far off brought near: least squares of the fit plus these find the fit.
        row_covariance: of these; None: the law is taken as linear.
    """

    law: AbstractLaw
    coordinates: np.ndarray
    covariance: np.ndarray
    identified: np.ndarray
    scale: float
    residuals: np.ndarray
    freedom: float
    used: np.ndarray
    held: np.ndarray | None = None
    row_covariance: RowCovariance | None = None

    def quantile(self, level: float) -> float:
        """Return the quantile of Student's t for an interval of that level."""
        return float(stats.t.ppf((1 + level) / 2, self.freedom))


def fit(data: Observed, starts: Sequence[dict[str, float]], progress: Callable[[str], None]) -> RobustFit:
    """Huber's M-estimate of log losses, its scale from the residuals themselves; rows far off are left out.

    Args:
        data: rows, and the law.
        starts: values to start from.
        progress: called with a sentence on each part of the work.
    """
    law = data.law
    target = data.log_loss
    low, high = law.bounds

    def gap(point: np.ndarray) -> np.ndarray:
        return np.nan_to_num(data.predicted(point[None])[0] - target, nan=9.0, posinf=9.0, neginf=-9.0)

    def slopes(point: np.ndarray) -> np.ndarray:
        return slopes_at(data.predicted, point, law.bounds, DIFFERENCE)

    def rough(point: np.ndarray) -> np.ndarray:
        point = np.clip(point, low + 1e-6, high - 1e-6)
        jacobian: Any = slopes
        return least_squares(gap, point, jac=jacobian, bounds=(low, high), x_scale="jac", max_nfev=ROUGH).x

    def settled(point: np.ndarray, used: np.ndarray) -> tuple[np.ndarray, float]:
        """Outliers blow up the first scales, and what is held at these is still far off: until the scale stays."""
        scale = robust_scale(gap(point)[used])
        for number in range(1, ROUNDS[1] + 1):
            progress(f"robust fit, residuals {scale:.2%}")
            point = polished(data, point, scale, used)
            before = scale
            scale = robust_scale(gap(point)[used])
            if number >= ROUNDS[0] and scale > SETTLED * before:
                break
        return point, scale

    begun = []
    for number, start in enumerate(starts, 1):
        progress(f"start {number} of {len(starts)}")
        begun.append(rough(law.coordinates(start)))
    best, scale = settled(min(begun, key=lambda point: float(np.abs(gap(point)).sum())), np.ones(target.size, bool))
    used = not_gross(gap(best), scale)
    if not used.all():
        best, scale = settled(best, used)
    best = polished(data, best, scale, used)
    residuals = -gap(best)
    scale = robust_scale(residuals[used])
    held = held_near(residuals[used], scale)
    log_steps = _used_rows(data.log_steps, used)
    scatter = scatter_of(slopes(best)[used], held, log_steps)
    plain = spread(target[used]) > PLAIN * scale
    identified = scatter.identified & (
        plain or changes(target[used], residuals[used], scale, scatter.freedom, low.size)
    )
    rows = RowCovariance(log_steps, scatter.length, scatter.alone, scatter.deviation)
    return RobustFit(law, best, scatter.covariance, identified, scale, residuals, scatter.freedom, used, held, rows)


def slopes_at(
    function: Callable[[np.ndarray], np.ndarray],
    point: np.ndarray,
    bounds: tuple[np.ndarray, np.ndarray],
    difference: float,
) -> np.ndarray:
    """(K, P) derivatives of a function (Q, P) → (Q, K) by coordinates, from both sides as far as the bounds let."""
    count = point.size
    change = np.concatenate([np.eye(count), -np.eye(count)]) * difference
    ends = np.clip(point + change, *bounds)
    found = function(ends)
    width = (ends[:count] - ends[count:]).sum(1)
    return np.nan_to_num(((found[:count] - found[count:]) / width[:, None]).T)


def held_near(residuals: np.ndarray, scale: float) -> np.ndarray:
    """Residuals as Huber's loss takes them, over the share that has a slope: what is held has none."""
    near = np.abs(residuals) < TUNING * scale
    return np.clip(residuals, -TUNING * scale, TUNING * scale) / near.mean()


def polished(data: Observed, point: np.ndarray, scale: float, used: np.ndarray) -> np.ndarray:
    """To the end of the valley that a search leaves it in: least squares of what the fit takes rows to be, repeated."""
    for _ in range(POLISHED):
        middle = data.predicted(point[None])[0][used]
        residuals = data.log_loss[used] - middle
        rows = rows_of(data, used, middle + np.clip(residuals, -TUNING * scale, TUNING * scale), GAIN[1] * scale**2)
        found = least(rows, point[None], Held(np.zeros((1, point.size)), np.zeros(1)))
        point = found.points[0]
    return point


def rows_of(data: Observed, used: np.ndarray, target: np.ndarray, gain: float) -> Rows:
    """The rows that are used, for least squares in which a step that gains less has converged."""
    return Rows(lambda points: data.predicted(points)[:, used], target, *data.law.bounds, gain)


def not_gross(gap: np.ndarray, scale: float) -> np.ndarray:
    """(N,) rows that are fitted: all but spikes. Where many are far off they are no spikes, but what theory lacks."""
    gross = np.abs(gap) > GROSS * scale
    return ~gross if gross.mean() <= MOST_GROSS else np.ones(gap.size, dtype=bool)


def _used_rows(log_steps: Sequence[np.ndarray], used: np.ndarray) -> list[np.ndarray]:
    """Return log t of the used rows of each curve."""
    parts = np.split(used, np.cumsum([each.size for each in log_steps])[:-1])
    return [each[part] for each, part in zip(log_steps, parts, strict=True) if part.any()]


def changes(log_loss: np.ndarray, residuals: np.ndarray, scale: float, freedom: float, count: int) -> bool:
    """Return whether the theory leaves less of the losses than a constant does, by more than scatter explains.

        F = [(Σρ(constant) − Σρ(theory))/(P − 1)] / (s²/2) · (ν + P)/N,   ρ Huber's

    against the quantile of F with P − 1 and ν degrees of freedom. Where residuals are correlated N rows count as
    ν + P: slow directions, those of the numbers, then hold N/(ν + P) times the variance of a row by itself.

    Where they drift along the whole curve ν falls to 1, and the quantile for six numbers is 6·10⁵: a loss that falls by
    170 times what the theory leaves of it does not reach that. So `fit` takes what is PLAIN, too.
    """
    constant = log_loss - np.median(log_loss)
    gained = _huber(constant, scale).sum() - _huber(residuals, scale).sum()
    rows = min(freedom + count, log_loss.size)
    ratio = 2 * gained / (count - 1) / scale**2 * rows / log_loss.size
    return bool(ratio > stats.f.isf(CHANCE, count - 1, freedom))


def spread(log_loss: np.ndarray) -> float:
    """By how much losses change: their robust scale about a constant."""
    return robust_scale(log_loss - np.median(log_loss))


def _huber(residuals: np.ndarray, scale: float) -> np.ndarray:
    size = np.abs(residuals)
    bend = TUNING * scale
    return np.where(size <= bend, size**2 / 2, bend * (size - bend / 2))


def robust_scale(residuals: np.ndarray) -> float:
    """1.483 times the median of absolute residuals."""
    return max(float(1.4826 * np.median(np.abs(residuals))), SMALLEST_SCALE)
