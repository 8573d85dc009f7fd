"""Sums of powers Σ i^−e over ranges of integers, finite or infinite, for any real exponent."""

import math
from typing import Any

import numpy as np

from sgdtheory._common.array_like import ArrayLike

# The midpoint form of the Euler–Maclaurin formula has these coefficients B_2k(1/2) / (2k)!, k = 1 … 5.
MIDPOINT_COEFFICIENTS = (-1 / 24, 7 / 5760, -31 / 967680, 127 / 154828800, -73 / 3503554560)


def power_sum(exponent: ArrayLike, first: ArrayLike, last: ArrayLike, *, unit: Any = 1.0) -> Any:
    """Compute the sum of (i / unit)^−exponent over first ≤ i ≤ last; elementwise in every argument.

    The first J terms are added one by one, and the rest by the midpoint Euler–Maclaurin formula

        Σ_{i=m}^{M} f(i) = ∫_{m−½}^{M+½} f + Σ_k B_2k(½)/(2k)! [f^(2k−1)(M+½) − f^(2k−1)(m−½)],

    with m = first + J so large that five terms reach rounding error. The cost does not depend on `last`.

    Args:
        exponent: any real number; above 1 if `last` is infinite.
        first: the first index, at least 1.
        last: the last index, a whole number or ``inf``. If it is below `first` the sum is 0.
        unit: scale of the summed index; it keeps large exponents within the range of a float.

    Returns:
        float64, with the broadcast shape of the arguments.
    """
    exponent, first, last, unit = np.broadcast_arrays(
        *(np.asarray(v, dtype=float) for v in (exponent, first, last, unit))
    )
    num_leading = math.ceil(16 + 3 * np.abs(exponent).max(initial=0.0))
    leading = first[..., None] + np.arange(num_leading)
    terms = (leading / unit[..., None]) ** -exponent[..., None]
    total = np.where(leading <= last[..., None], terms, 0.0).sum(-1)

    start = first + num_leading
    low, high = start - 0.5, np.maximum(last, start - 1) + 0.5
    with np.errstate(over="ignore"):
        total = total + _integral(exponent, low, high, unit)
        for k, coefficient in enumerate(MIDPOINT_COEFFICIENTS, start=1):
            order = 2 * k - 1
            rising = math.prod(exponent + j for j in range(order))
            slope_low = -rising * (low / unit) ** -exponent / low**order
            slope_high = -rising * (high / unit) ** -exponent / high**order
            total = total + coefficient * (slope_high - slope_low)
    return total[()]


def _integral(exponent: np.ndarray, low: np.ndarray, high: np.ndarray, unit: np.ndarray) -> np.ndarray:
    """Compute ∫_low^high (x/unit)^−exponent dx, without cancellation at exponent = 1."""
    power = 1.0 - exponent
    span = np.log(high / low)
    nonzero = np.where(power == 0.0, 1.0, power)
    scaled = np.where(power == 0.0, span, np.expm1(nonzero * span) / nonzero)
    return low * (low / unit) ** -exponent * scaled
