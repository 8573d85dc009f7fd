"""A law whose measurements have known standard errors: whether it fits, and what scatter it leaves beyond them.

With relative standard errors s_i of the steps, residuals of log steps have the variance s_i² + τ²: τ is the law's
misfit, what tuning, evaluation and the law's own shape add. `χ² = min Σ r_i²/s_i²` tests τ = 0. The estimate of τ²
solves `min Σ r_i²/(s_i² + τ²) = m − p` (Mandel and Paule 1970), 0 where χ² ≤ m − p already; both minima are over the
law's p parameters. With the weights 1/(s_i² + τ²) the confidence set is `RSS ≤ RSS_min + F_{1,m−p}` (THEORY.md T13).
"""

from collections.abc import Callable
from typing import NamedTuple

import numpy as np
from scipy import optimize, special


class LackOfFit(NamedTuple):
    """The χ² test that a law is right and its measurements are off by their standard errors alone.

    >>> import sgdtheory as st
    >>> law = st.fit_steps_law([64, 256, 1024, 4096], [50000, 14000, 5000, 2800], standard_errors=0.02)
    >>> round(law.lack_of_fit.p_value, 2)
    0.93

    Attributes:
        chi_square: min Σ r²/s² over the law's parameters.
        freedom: m − p, batch sizes less parameters.
        p_value: probability of so large a χ² if the law is right; nan without a degree of freedom.
    """

    chi_square: float
    freedom: int
    p_value: float

    @classmethod
    def of(cls, chi_square: float, freedom: int) -> "LackOfFit":
        """Make the test with the p-value of χ² with so many degrees of freedom."""
        return cls(chi_square, freedom, float(special.chdtrc(freedom, chi_square)) if freedom else float("nan"))


def misfit_variance(least: Callable[[np.ndarray], float], standard_errors: np.ndarray, freedom: int) -> float:
    """Scatter of measurements beyond their standard errors: τ² with `least(1/(s² + τ²)) = m − p`; 0 if there is none.

    >>> import numpy as np
    >>> from sgdtheory.fits import misfit_variance
    >>> residuals = np.array([0.3, -0.1, -0.3, 0.1])  # about a line: two degrees of freedom are left
    >>> round(misfit_variance(lambda weights: weights @ residuals**2, np.full(4, 0.1), freedom=2), 4)
    0.09

    Args:
        least: weights → the least weighted sum of squared residuals, which falls as τ² grows.
        standard_errors: (m,) s, in units of the residuals.
        freedom: m − p, measurements less parameters; with none left τ² is 0.
    """

    def excess(square: float) -> float:
        return least(1 / (standard_errors**2 + square)) - freedom

    if freedom <= 0 or excess(0.0) <= 0:
        return 0.0
    largest = least(np.ones_like(standard_errors)) / freedom  # there the sum is below m − p, whatever s is
    return float(optimize.brentq(excess, 0.0, largest, xtol=1e-10 * largest, rtol=1e-10))  # pyright: ignore[reportArgumentType]


def misfit_and_chi_square(
    least: Callable[[np.ndarray], float], standard_errors: np.ndarray | None, freedom: int
) -> tuple[float, float]:
    """τ², as of `misfit_variance`, and χ² of the law at its best for τ = 0; 0 and nan without standard errors."""
    if standard_errors is None:
        return 0.0, float("nan")
    return misfit_variance(least, standard_errors, freedom), least(1 / standard_errors**2)
