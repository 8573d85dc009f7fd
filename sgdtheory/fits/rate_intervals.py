"""Intervals of the law of the best learning rate, and a test of its kink (THEORY.md T47)."""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from functools import cached_property

import numpy as np
from scipy import linalg, optimize, special

from sgdtheory.fits.rate_law import KINK, KINK_POWER, SHARPNESS, SIZE_POWER, Likelihood, RateLaw

# With fewer pairs of group and duration the correlation of the residuals within each is not estimated.
FEWEST_CLUSTERS = 8


@dataclass(frozen=True, eq=False)
class RateIntervals:
    """Confidence intervals of combinations of the parameters, by profile likelihood.

    With n known rates, q fitted parameters of ln γ* and F the quantile of F_{1,n−q}, the set is
    `2 Δloss ≤ n ln(1 + F/(n − q))`, which is exact for least squares of a linear law. Residuals within a pair of group
    and duration may be alike, since all laws are approximations. Where there are enough pairs the limit is multiplied
    by the ratio of the sandwich variance over such pairs to that of independent residuals, if that is above 1, and F
    has at most as many degrees of freedom as pairs are left after the levels and c.

    Attributes:
        likelihood: the likelihood of the law.
        least: the least loss.
        parameters, sharpness: where it is attained.
        level: the level of the intervals.
        kink_is_sure: whether a power law without a kink is refuted.
    """

    likelihood: Likelihood
    least: float
    parameters: np.ndarray
    sharpness: float
    level: float
    kink_is_sure: bool

    @cached_property
    def _between(self) -> int:
        """Return how many differences between clusters are left after the levels and c."""
        used = self.likelihood.in_group.shape[1] + 1 if self.likelihood.several_durations else 1
        return max(int(self.likelihood.clusters.max()) + 1 - used, 1)

    @cached_property
    def _variances(self) -> tuple[np.ndarray, np.ndarray]:
        """Return the covariances of all parameters but the last: of independent residuals, and of clusters."""
        rates = self.likelihood.rates
        known = rates.side == 0
        law = self.likelihood.law(self.parameters, self.sharpness)
        weights = 1 / self.likelihood.deviations(law)[known]
        slopes = self.likelihood.slopes(law)[known] * weights[:, None]
        off = (rates.log_rate - law.log_rate(rates.group, rates.log_batch, rates.log_samples, rates.log_size))[
            known
        ] * weights
        inverse = np.linalg.pinv(slopes.T @ slopes)
        count = int(self.likelihood.clusters.max()) + 1
        scores = np.zeros((count, slopes.shape[1]))
        np.add.at(scores, self.likelihood.clusters, slopes * off[:, None])
        freedom = max(off.size - self.likelihood.number_fitted, 1)
        # The usual factors of sandwich variances, which are too small with few clusters or rates.
        corrected = (off.size - 1) / freedom * count / self._between
        return off @ off / freedom * inverse, corrected * inverse @ scores.T @ scores @ inverse

    def _limit(self, weights: np.ndarray) -> float:
        """Return by how much the loss may exceed the least one."""
        alone, clustered = (float(weights[:-1] @ each @ weights[:-1]) for each in self._variances)
        number = int((self.likelihood.rates.side == 0).sum())
        freedom = number - self.likelihood.number_fitted
        if freedom < 1:
            return np.inf
        inflated = 1.0
        pairs = freedom
        if self.likelihood.clusters.max() + 1 >= FEWEST_CLUSTERS:
            inflated = max(1.0, clustered / alone)
            pairs = min(freedom, self._between)
        quantile = special.fdtri(1, pairs, self.level)
        return inflated * number / 2 * np.log1p(quantile / freedom)

    def of(self, weights: np.ndarray) -> tuple[float, float]:
        """Return the interval of `weights · parameters`; that of a kink is open where there need not be one."""
        limit = self._limit(weights)
        if np.isinf(limit):
            return -np.inf, np.inf
        below = self.likelihood.plateau[0] - self.least <= limit
        above = not self.kink_is_sure or self.likelihood.power_law[0] - self.least <= limit
        if (weights[KINK_POWER] or weights[SIZE_POWER]) and not weights[KINK] and (below or above):
            return -np.inf, np.inf
        low = -np.inf if weights[KINK] and below else self._end(weights, -1, limit)
        high = np.inf if weights[KINK] and above else self._end(weights, 1, limit)
        return low, high

    def _end(self, weights: np.ndarray, side: int, limit: float) -> float:
        """Return the end of the interval on a side, where the loss with the combination kept reaches the limit."""
        begin = float(weights @ self.parameters)
        scale = max(float(np.sqrt(weights[:-1] @ self._variances[0] @ weights[:-1])), 1e-6)
        solved = {k: {begin: self.parameters} for k in SHARPNESS}  # by the value of the combination

        def excess(value: float) -> float:
            losses = []
            for k, known in solved.items():
                nearest = known[min(known, key=lambda each: abs(each - value))]
                start = nearest + weights * (value - weights @ nearest) / (weights @ weights)
                loss, known[value] = self.likelihood.climbed(start, k, weights[None])
                losses.append(loss)
            return min(losses) - self.least - limit

        if excess(begin) >= 0:  # nearly exact rates: the limit is below the accuracy of a climb
            return begin
        inner, outer = begin, begin + 2 * side * scale
        while excess(outer) < 0:
            if abs(outer - begin) > 30:  # in logs or powers: no data are so far apart
                return side * np.inf
            inner, outer = outer, begin + 2 * (outer - begin)
        return float(optimize.brentq(excess, inner, outer, xtol=1e-3 * abs(outer - begin)))  # pyright: ignore[reportArgumentType]


def hull(laws: Sequence[RateIntervals], weights: np.ndarray) -> tuple[float, float]:
    """Return the smallest interval that contains that of the last law and those of the others.

    An interval of the others that is open is left out. With a kink that happens if all batch sizes may lie beyond the
    kink: p below it may then be anything.
    """
    *others, last = (each.of(weights) for each in laws)
    low, high = zip(last, *(each for each in others if np.isfinite(each).all()), strict=True)
    return min(low), max(high)


def chance_without_kink(likelihood: Likelihood, law: RateLaw, seed: int) -> float:
    """Return the p-value of a power law without a kink, against the law with one.

    The statistic is by what factor the sum of squared residuals of the known rates, over their standard deviations by
    the fitted law, falls over the grid of a first search. Its law without a kink is found by resampling: residuals of
    the law with a kink, enlarged to the variance that they are an estimate of, change their signs at random, those of a
    pair of group and duration together where there are enough pairs.
    """
    known = likelihood.rates.side == 0
    weights = 1 / likelihood.deviations(law)[known][:, None]
    log_rate = likelihood.rates.log_rate[known][:, None] * weights

    def with_kinks() -> Iterator[np.ndarray]:
        return (weights * design for *_, design in likelihood.designs(SHARPNESS[-1]))

    rest = min((_residuals(each, log_rate) for each in with_kinks()), key=lambda each: float((each**2).sum()))
    number = 999  # of resampled sets of residuals: p is known to a third at 0.01
    clusters = likelihood.clusters
    if clusters.max() + 1 < FEWEST_CLUSTERS:
        clusters = np.arange(known.sum())
    signs = np.random.default_rng(seed).choice([-1.0, 1.0], size=(clusters.max() + 1, number))[clusters]
    enlarged = rest * np.sqrt(rest.size / max(rest.size - likelihood.number_fitted, 1))
    power_law = (
        np.column_stack([likelihood.in_group, -likelihood.duration, likelihood.rates.log_batch])[known] * weights
    )
    drawn = _residuals(power_law, np.column_stack([log_rate, enlarged * signs]))
    squares = (drawn**2).sum(0)
    least = squares
    for each in with_kinks():  # one after the other: all of them may not fit into memory
        least = np.minimum(least, (_residuals(each, drawn) ** 2).sum(0))
    gain = squares / np.maximum(least, 1e-300)
    return float((gain[1:] >= gain[0]).sum() + 1) / (number + 1)


def _residuals(design: np.ndarray, columns: np.ndarray) -> np.ndarray:
    """Return the residuals of columns after least squares."""
    basis = linalg.orth(design)
    return columns - basis @ (basis.T @ columns)
