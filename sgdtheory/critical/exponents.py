"""Exponents: Corollary 8's predictions, local slopes, and the limit of a power law that is approached slowly."""

from dataclasses import dataclass
from itertools import combinations
from typing import Any

import numpy as np

from sgdtheory._common.arguments import positive_array, single_number
from sgdtheory._common.array_like import ArrayLike
from sgdtheory._common.sheets import Quantity, Sheet, Table
from sgdtheory._common.shown import Shown

CORRECTIONS = 0.05 * 1.2 ** np.arange(21)  # Corrections x^−δ have these exponents δ, 0.05 … 1.9.
WINDOWS = 0.1, 0.2, 0.3  # Fits begin at these fractions of the range of log x.
SHIFTS = -1.5, 0.0, 1.5  # They are added to log x in a known power of it, because its unit is not known.
LEAST_POINTS = 12


def predicted_exponent(capacity: ArrayLike, source: ArrayLike) -> Any:
    """Exponent c of `B* ∝ D^c` by Corollary 8: `1 − a/min{b, 2a+1}` for b > a, 0 for b ≤ a (THEORY.md T10).

    Args:
        capacity: a > 1; scalar or array.
        source: b > 1; scalar or array.

    Returns:
        c, of the broadcast shape. At b = 2a+1 it belongs to `D^c (log D)^{−a/(2a+1)}`.

    Raises:
        ValueError: a or b not above 1.

    Example:
        >>> import sgdtheory as st
        >>> print(f"{st.predicted_exponent(2, 3):.4f}")
        0.3333

    Reference:
        Zhang et al., arXiv 2410.21676, Corollary 8.
    """
    capacity, source = _capacity_and_source(capacity, source)
    return np.maximum(1 - capacity / np.minimum(source, 2 * capacity + 1), 0.0)[()]


def predicted_risk_exponent(capacity: ArrayLike, source: ArrayLike) -> Any:
    """Exponent of the optimal risk `R_opt ∝ D^e` (THEORY.md T10).

    `e = −(m − 1)/m` with m = min{b, 2a+1} for b > a, and `−(b − 1)/a` for b ≤ a.

    Args:
        capacity: a > 1; scalar or array.
        source: b > 1; scalar or array.

    Returns:
        e < 0, of the broadcast shape. At b = 2a+1 it belongs to `D^e (log D)^{1/(2a+1)}`.

    Raises:
        ValueError: a or b not above 1.

    Example:
        >>> import sgdtheory as st
        >>> print(f"{st.critical.predicted_risk_exponent(2, 3):.4f}")
        -0.6667
    """
    capacity, source = _capacity_and_source(capacity, source)
    saturated = np.minimum(source, 2 * capacity + 1)
    return np.where(source > capacity, -(saturated - 1) / saturated, -(source - 1) / capacity)[()]


def _capacity_and_source(capacity: ArrayLike, source: ArrayLike) -> tuple[np.ndarray, np.ndarray]:
    capacity = positive_array("capacity", capacity)
    source = positive_array("source", source)
    for name, values in (("capacity", capacity), ("source", source)):
        if (values <= 1).any():
            raise ValueError(f"{name} must be greater than 1, got {values[values <= 1].flat[0].item()}")
    try:
        np.broadcast_shapes(capacity.shape, source.shape)
    except ValueError:
        raise ValueError(
            f"capacity and source must broadcast against each other, got shapes {capacity.shape} and {source.shape}"
        ) from None
    return capacity, source


def local_exponents(num_samples: ArrayLike, batch_sizes: ArrayLike) -> np.ndarray:
    """`d log B/d log D` at each D, by differences of second order.

    Args:
        num_samples: (m,) D > 0, increasing, at least three.
        batch_sizes: (m,) positive values at them: B*, a risk, a learning rate.

    Returns:
        (m,) slopes.

    Raises:
        ValueError: wrong shapes, numbers that are not positive, or D not increasing.

    Example:
        >>> import sgdtheory as st
        >>> print(st.critical.local_exponents([1e2, 1e4, 1e6], [3.0, 30.0, 300.0]).round(3))
        [0.5 0.5 0.5]
    """
    x, y = _logarithms(num_samples, batch_sizes, "num_samples", "batch_sizes", 3)
    return np.gradient(y, x, edge_order=2)


@dataclass(frozen=True)
class AsymptoticFit(Shown):
    """The exponent to which a power law with slowly vanishing corrections tends.

    Attributes:
        exponent: median of `estimates`.
        interval: their range, widened on both sides by its own width. It measures how far extrapolations disagree; it
            has no confidence level, and does not cover what corrections slower than about x^−0.05 hide.
        estimates: (6,) exponents by one and by two corrections, from three windows; (18,) with a power of log x.
    """

    exponent: float
    interval: tuple[float, float]
    estimates: np.ndarray

    def sheet(self) -> Sheet:
        """The exponent with its interval."""
        exponent = Quantity("exponent", "exponent for x → ∞", self.exponent, self.interval)
        note = f"the interval is how far {self.estimates.size} extrapolations disagree; it has no confidence level"
        return Sheet("", [Table([exponent], interval="interval", legend=note)])


def fit_asymptotic_exponent(x: ArrayLike, y: ArrayLike, *, log_power: float = 0.0) -> AsymptoticFit:
    """The limit of `d log y/d log x` for x → ∞, with corrections that die out like powers.

        log y = C + c log x + κ_1 x^−δ_1 (+ κ_2 x^−δ_2) + log_power · log log x

    by least squares, δ from 0.05 to 1.9, with one correction and with two, and from 10, 20 and 30% of the range of
    log x on. Meant for values computed without noise over many decades; for measurements `fit_power_law` has an
    interval with a confidence level.

    Args:
        x: (m,) positive, increasing, at least 12.
        y: (m,) positive.
        log_power: known power of log x in y, for example −a/(2a+1) for B* at b = 2a+1. The unit of x in it is varied.

    Returns:
        AsymptoticFit.

    Raises:
        ValueError: wrong shapes, numbers that are not positive, x not increasing, or too few.

    Example:
        >>> import numpy as np
        >>> import sgdtheory as st
        >>> x = np.geomspace(1e3, 1e9, 12)
        >>> print(f"{st.fit_asymptotic_exponent(x, x**0.4 * (1 + x**-0.2)).exponent:.2f}")
        0.40
    """
    log_x, log_y = _logarithms(x, y, "x", "y", LEAST_POINTS)
    log_power = single_number("log_power", log_power)
    if not np.isfinite(log_power):
        raise ValueError(f"log_power must be finite, got {log_power}")
    if log_power and log_x[0] + min(SHIFTS) <= 0:
        least = np.exp(-min(SHIFTS))
        raise ValueError(f"x must be above {least:.3g} to divide out a power of log x, got {np.exp(log_x[0]):g}")
    estimates = []
    for shift in SHIFTS if log_power else (0.0,):
        values = log_y - log_power * np.log(log_x + shift) if log_power else log_y
        for begin in WINDOWS:
            window = log_x >= log_x[0] + begin * (log_x[-1] - log_x[0])
            estimates += [_slope(log_x[window], values[window], number) for number in (1, 2)]
    low = min(estimates)
    high = max(estimates)
    return AsymptoticFit(float(np.median(estimates)), (2 * low - high, 2 * high - low), np.array(estimates))


def _slope(log_x: np.ndarray, log_y: np.ndarray, num_corrections: int) -> float:
    """Coefficient of log x in the best fit over all sets of correction exponents."""
    fits = []
    since = log_x - log_x[0]
    for exponents in combinations(CORRECTIONS, num_corrections):
        terms = np.stack([np.ones_like(since), since, *(np.exp(-delta * since) for delta in exponents)], axis=1)
        coefficients, *_ = np.linalg.lstsq(terms, log_y, rcond=None)
        fits.append((((log_y - terms @ coefficients) ** 2).sum(), float(coefficients[1])))
    return min(fits)[1]


def _logarithms(x: ArrayLike, y: ArrayLike, name_x: str, name_y: str, least: int) -> tuple[np.ndarray, np.ndarray]:
    x = positive_array(name_x, x)
    y = positive_array(name_y, y)
    if x.ndim != 1 or x.shape != y.shape or x.size < least:
        raise ValueError(
            f"{name_x} and {name_y} must be one-dimensional, of one length and at least {least} long, got shapes "
            f"{x.shape} and {y.shape}"
        )
    if (np.diff(x) <= 0).any():
        raise ValueError(
            f"{name_x} must increase, got {x[np.append(np.diff(x) <= 0, False)][0]:g} before a smaller one"
        )
    return np.log(x), np.log(y)
