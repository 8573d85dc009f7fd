"""Profile likelihood of the steps law: the range of a quantity over all laws that fit about as well as the best.

The confidence set of `log Y = log(a + b/B^α) + noise` is `RSS ≤ RSS_min (1 + F_{1,m−p}/(m−p))`, and the interval
of a quantity is its range over that set. Why this method: there are nine batch sizes a model and no replicates,
so the noise has to be estimated from the residuals themselves, which the F quantile accounts for; the set
follows the curvature of the law, so an interval of B* is asymmetric and never negative, where a Wald interval on
so few points is neither; and it does not depend on the parametrisation: b/a and B* have the same interval. What
it cannot see is a misfit that all batch sizes share.

With weights, RSS is Σ w r². Where they are one over known variances the set is `RSS ≤ RSS_min + F_{1,m−p}`: F, not
χ²_1, since a part of these variances is scatter that was estimated from the residuals (`abstract_law.misfit_variance`).

An exponent that is known up to a range is a nuisance parameter: RSS_min and the set are over the laws with α in the
range, and p counts α. With four batch sizes F_{1,m−3} is 161, and this set excludes hardly anything. Every α of the
range then also has the limit that it would have if it were known (THEORY.md T13).
"""

import math
from collections.abc import Callable
from dataclasses import dataclass
from functools import cache, cached_property
from typing import Any

import numpy as np
from scipy import optimize, special

# A number or b/a whose logarithm lies this far beyond the measured batch sizes counts as 0 or infinite: a term that is
# e^−25 of the other changes log steps by 1e-11.
WIDEST = 25.0
# A term that is e^−18 times the other, at every batch size measured, counts as absent.
INVISIBLE = 18.0
EXACT_FIT = 1e-20  # Rounding alone can cause a sum of squares of this size.
# A search over log α goes no farther from the fit than this: beyond, the data do not limit α.
ALPHA_SPAN = 3.0
# A search for α ends at this error, relative to its bracket. The error of the quantity is of the order of its square.
FINE = 1e-6
# A given range of α has this many grid points. It is so short that RSS and ends have one extremum between neighbours.
RANGE_GRID = 11
# The range of log(b/a) has this many grid points, so that RSS has at most one minimum between neighbours.
RATIO_GRID = 400

Quantity = Callable[[float, float, float], float]  # of (log a, log b/a, α), nondecreasing in log a; itself a log


@dataclass(frozen=True, eq=False)
class Profile:
    """The confidence set `RSS ≤ RSS_min (1 + widening) + slack` around a least-squares fit.

    Attributes:
        log_batch, log_steps, weights: (m,) the measurements, and how much each counts.
        alpha: the fit's α.
        exponents: least and largest α of the set: both α if it is known, 0 and inf if it was fitted.
        widening: F quantile over degrees of freedom, where the residuals say how large the noise is.
        slack: F quantile, where the weights do; otherwise what rounding alone can cause.
        own_widening: the widening if α were known, relative to the least RSS at this α; inf: not used.
    """

    log_batch: np.ndarray
    log_steps: np.ndarray
    weights: np.ndarray
    alpha: float
    exponents: tuple[float, float]
    widening: float
    slack: float = EXACT_FIT
    own_widening: float = np.inf

    def extreme(self, quantity: Quantity, side: int, *, rises: bool = False) -> float:
        """exp of the smallest (side = −1) or largest (+1) `quantity` over the set.

        Args:
            quantity: a number of the law.
            side: of the set.
            rises: whether the quantity rises with b/a and does not depend on a, so that it is largest where b/a is.
        """

        def largest(alpha: float) -> float:
            return self._over_ratio(quantity, side, alpha, rises)

        low, high = self.exponents
        if low == high:
            return safe_exp(side * largest(low))
        number = 41 if np.isinf(high) else RANGE_GRID  # A fitted α has a wide range: points are then farther apart.
        grid = np.exp(np.linspace(*self._alpha_range, number)).tolist()
        values = [largest(point) for point in grid]
        k = int(np.argmax(values))
        if np.isinf(values[k]) or self._grows_without_end(values, k):
            return safe_exp(side * np.inf)
        around = grid[max(k - 1, 0)], grid[min(k + 1, len(grid) - 1)]

        def loss(point: float) -> float:
            return -np.clip(largest(point), -1e6, 1e6)  # The parabolas of the search need finite values.

        tolerance = FINE * (around[1] - around[0])
        fine: Any = optimize.minimize_scalar(loss, bounds=around, options={"xatol": tolerance})
        return safe_exp(side * max(values[k], -fine.fun))

    @cached_property
    def _best_alpha(self) -> float:
        """α of the least RSS in the set's range."""
        low, high = self.exponents
        if low == high or np.isinf(high):
            return self.alpha

        def squares(log_alpha: float) -> float:
            return self._least(float(np.exp(log_alpha)))

        grid = np.linspace(np.log(low), np.log(high), RANGE_GRID)
        values = [squares(point) for point in grid]
        k = int(np.argmin(values))
        around = grid[max(k - 1, 0)], grid[min(k + 1, RANGE_GRID - 1)]
        fine: Any = optimize.minimize_scalar(squares, bounds=around, options={"xatol": FINE})
        return float(np.exp(fine.x if fine.fun < values[k] else grid[k]))

    @cached_property
    def _limit(self) -> float:
        if np.isinf(self.widening):
            return np.inf
        return self._least(self._best_alpha) * (1 + self.widening) + self.slack

    @cached_property
    def _alpha_range(self) -> tuple[float, float]:
        """Ends of the set in log α, at most ALPHA_SPAN away from the fit."""
        # The first steps are 2% of α, and each further one is half as long again.
        return self._walk(-0.02), self._walk(0.02)

    def _residuals(self, log_ratio: float, alpha: float) -> tuple[float, float]:
        """Mean residual at log a = 0, and RSS at the best log a."""
        gap = self.log_steps - np.logaddexp(0.0, log_ratio - alpha * self.log_batch)
        mean = float(self._shares @ gap)
        rest = gap - mean
        return mean, float(self.weights @ (rest * rest))

    @cached_property
    def _total(self) -> float:
        return float(self.weights.sum())

    @cached_property
    def _shares(self) -> np.ndarray:
        """(m,) weights over their sum."""
        return self.weights / self._total

    # Both sides of an interval, and all quantities, need the same exponents again: their searches are kept.

    @cached_property
    def _lowest_at(self) -> Callable[[float], tuple[float, float]]:
        """Return the function of α with log(b/a) of the least RSS, and this RSS."""

        def lowest_at(alpha: float) -> tuple[float, float]:
            log_ratio = best_ratio(self.log_batch, self.log_steps, self.weights, alpha)
            return log_ratio, self._residuals(log_ratio, alpha)[1]

        return cache(lowest_at)

    @cached_property
    def _ratios_at(self) -> Callable[[float], tuple[float, float, float] | None]:
        """Return the function of α with the limit of RSS and the set's ends in log(b/a); None of α outside the set."""

        def ratios_at(alpha: float) -> tuple[float, float, float] | None:
            centre, least = self._lowest_at(alpha)
            limit = min(self._limit, least * (1 + self.own_widening) + self.slack)
            if least > limit:
                return None

            def room(log_ratio: float) -> float:
                return limit - self._residuals(log_ratio, alpha)[1]

            # Where the set reaches the bound, the measurements no longer determine b/a.
            bounds = ratio_range(self.log_batch, alpha)
            low, high = (bound if room(bound) >= 0 else root(room, centre, bound) for bound in bounds)
            return limit, low, high

        return cache(ratios_at)

    def _least(self, alpha: float) -> float:
        """Return the least RSS at one α."""
        return self._lowest_at(alpha)[1]

    def _over_ratio(self, quantity: Quantity, side: int, alpha: float, rises: bool) -> float:
        """Largest side·quantity at fixed α. Given b/a, log a ranges over `mean residual ± √(room/Σ w)`."""
        found = self._ratios_at(alpha)
        if found is None:
            return -np.inf
        limit, *ends = found

        def value(log_ratio: float) -> float:
            mean, squares = self._residuals(log_ratio, alpha)
            half = 0.0 if rises else math.sqrt(max(limit - squares, 0.0) / self._total)
            return side * quantity(0.0 if rises else mean + side * half, log_ratio, alpha)

        bounds = ratio_range(self.log_batch, alpha)
        for end, bound, inward in zip(ends, bounds, (1, -1), strict=True):
            if end == bound and value(end) - value(end + inward) > 0.5:
                return np.inf  # The quantity still grows at the bound, where the data no longer see b/a.
        if rises:
            return value(ends[side > 0])
        inner: Any = optimize.minimize_scalar(lambda ratio: -value(ratio), bounds=ends, options={"xatol": 1e-10})
        return max(-inner.fun, *map(value, ends))

    def _grows_without_end(self, values: list[float], k: int) -> bool:
        """Return whether the largest value lies, still rising, at an end of the α range that the data do not set."""
        rising = 1e-3  # A quantity whose log rises by less between the last two points of the grid has come to a limit.
        for end, inner, log_alpha in ((0, 1, self._alpha_range[0]), (-1, -2, self._alpha_range[1])):
            unlimited = abs(log_alpha - np.log(self._best_alpha)) >= ALPHA_SPAN
            if unlimited and k == end % len(values) and values[end] > values[inner] + rising:
                return True
        return False

    def _walk(self, step: float) -> float:
        """Return where the set ends in log α, in the direction of `step`."""

        def room(log_alpha: float) -> float:
            return self._limit - self._least(float(np.exp(log_alpha)))

        start = inner = float(np.log(self._best_alpha))
        with np.errstate(divide="ignore"):
            bounds = np.log(self.exponents)
        while abs(inner - start) < ALPHA_SPAN and inner != bounds[int(step > 0)]:
            outer = float(np.clip(inner + step, *bounds))
            if room(outer) < 0:
                return root(room, inner, outer) if room(inner) > 0 else inner
            inner, step = outer, 1.5 * step
        return inner


def ratio_range(log_batch: np.ndarray, alpha: float) -> tuple[float, float]:
    """Range of log(b/a) beyond which one of the two terms cannot be seen in the measurements."""
    return alpha * log_batch.min() - WIDEST, alpha * log_batch.max() + WIDEST


def mean_of(values: np.ndarray, weights: np.ndarray) -> np.ndarray:
    """Weighted mean over the last axis, which stays with length 1."""
    return (weights * values).sum(-1, keepdims=True) / weights.sum()


def best_ratio(log_batch: np.ndarray, log_steps: np.ndarray, weights: np.ndarray, alpha: float) -> float:
    """log(b/a) of weighted least squares at fixed α; log a drops out as the mean residual.

    From the best point of a grid the slope of RSS leads to the minimum, where it changes its sign. A search for least
    squares of several numbers takes eight times as long, which was most of the time of an interval.
    """
    scaled = alpha * log_batch
    shares = weights / weights.sum()

    def slope(log_ratio: float) -> float:
        """Half of the slope of RSS. Hundreds of thousands of calls are most of the time of intervals."""
        log_terms = log_ratio - scaled
        factor = special.expit(log_terms)  # The share of b/B^α in Y is the derivative of log Y.
        if factor.sum() > 0.5 * factor.size:
            # Residuals add up to 0, so that −(1 − share) may take the place of a share next to 1: it has more digits.
            factor = -special.expit(-log_terms)
        gap = log_steps - np.logaddexp(0.0, log_terms)
        return -float(weights @ ((gap - shares @ gap) * factor))

    grid = np.linspace(*ratio_range(log_batch, alpha), RATIO_GRID)
    gap = log_steps - np.logaddexp(0.0, grid[:, None] - scaled)
    best = int(((gap - mean_of(gap, weights)) ** 2 @ weights).argmin())
    # The next point in the direction in which RSS falls is nearly always the one with a slope of the other sign.
    step = -1 if slope(grid[best]) > 0 else 1
    last = best + step
    while 0 <= last < RATIO_GRID and step * slope(grid[last]) <= 0:
        last += step
    if not 0 <= last < RATIO_GRID:  # Measurements no longer see the ratio there.
        return float(grid[0 if step < 0 else -1])
    low, high = sorted((last - step, last))
    if slope(grid[low]) == 0:
        return float(grid[low])
    return root(slope, float(grid[low]), float(grid[high]))


def root(function: Callable[[float], float], low: float, high: float) -> float:
    """The root of `function` between two points of opposite sign."""
    # Next to an exponent that the set just excludes RSS is at its limit but for rounding: of 500 data sets one took 103
    # steps of Brent's method, which ends after 100 if nothing is said.
    return float(optimize.brentq(function, low, high, xtol=1e-12, maxiter=1000))  # pyright: ignore[reportArgumentType]


def safe_exp(value: float) -> float:
    """Exponential that overflows to infinity without a warning."""
    with np.errstate(over="ignore"):
        return float(np.exp(value))


# ------------------------------------------------------------------ the law at its best


def fit_numbers(
    log_batch: np.ndarray, log_steps: np.ndarray, weights: np.ndarray, alpha: float | None
) -> tuple[float, float, float, float]:
    """Return (log a, log b/a, α, RSS) of weighted least squares, at fixed α or with α fitted."""
    if alpha is None:
        log_ratio, alpha = _fit_with_alpha(log_batch, log_steps, weights)
    else:
        log_ratio = best_ratio(log_batch, log_steps, weights, alpha)
    gap = log_steps - np.logaddexp(0.0, log_ratio - alpha * log_batch)
    (log_a,) = mean_of(gap, weights)
    return float(log_a), log_ratio, alpha, float((weights * (gap - log_a) ** 2).sum())


def _fit_with_alpha(log_batch: np.ndarray, log_steps: np.ndarray, weights: np.ndarray) -> tuple[float, float]:
    """Return (log(b/a), α) of weighted least squares, from the best of a range of α."""
    root_weights = np.sqrt(weights)

    def gap(parameters: np.ndarray) -> np.ndarray:
        log_ratio, log_alpha = parameters
        rest = log_steps - np.logaddexp(0.0, log_ratio - np.exp(log_alpha) * log_batch)
        return root_weights * (rest - mean_of(rest, weights))

    starts = [(best_ratio(log_batch, log_steps, weights, alpha), np.log(alpha)) for alpha in np.geomspace(0.2, 5, 15)]
    start = min(starts, key=lambda point: (gap(np.array(point)) ** 2).sum())
    fit = optimize.least_squares(gap, start, xtol=1e-15, ftol=1e-15, gtol=1e-15, x_scale="jac")
    return float(fit.x[0]), float(np.exp(fit.x[1]))


def data_root(log_ratio: float, alpha: float, reference: float, overhead: float, *, largest: bool = True) -> float:
    """Return a root B of `(1 + ρ/B^α) B = (1 + ω)(1 + ρ/B_ref^α) B_ref`, whose sides are data over a.

    Args:
        log_ratio: log ρ, ρ = b/a.
        alpha, reference, overhead: α, B_ref and ω.
        largest: whether the root above B_ref is asked for; the one below exists for α > 1 alone.
    """
    if largest and alpha == 1.0:
        return overhead * float(np.exp(log_ratio)) + (1 + overhead) * reference
    log_reference = np.log(reference)
    target = np.log1p(overhead) + log_data(log_reference, log_ratio, alpha)
    # The data (1 + ρ/B^α) B have at most one minimum, so that they cross the target once on either side of B_ref. The
    # root above is bracketed by log B = target + 1, where B alone exceeds the target, and the one below by a B at which
    # ρ B^{1−α} alone does.
    ends = (log_reference, target + 1.0) if largest else ((log_ratio - target) / (alpha - 1) - 1.0, log_reference)
    return safe_exp(root(lambda log_batch: log_data(log_batch, log_ratio, alpha) - target, *ends))


def log_data(log_batch: float, log_ratio: float, alpha: float) -> float:
    """Return log(B + ρ B^{1−α})."""
    return float(log_batch + np.logaddexp(0.0, log_ratio - alpha * log_batch))
