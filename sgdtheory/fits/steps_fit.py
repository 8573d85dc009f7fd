"""Least squares of the law of steps against batch size, with or without an optimal batch size."""

from typing import Literal, overload

import numpy as np

from sgdtheory._common.arguments import positive_array, positive_number
from sgdtheory._common.array_like import ArrayLike
from sgdtheory.fits.abstract_law import misfit_and_chi_square, weights_of
from sgdtheory.fits.profile_likelihood import INVISIBLE, fit_numbers
from sgdtheory.fits.steps_law import StepsLaw
from sgdtheory.fits.steps_measurement import points_needed
from sgdtheory.fits.u_shaped_law import UShapedLaw, u_shaped_numbers


@overload
def fit_steps_law(
    batch_sizes: ArrayLike,
    steps: ArrayLike,
    *,
    alpha: float | None = 1.0,
    alpha_range: tuple[float, float] | None = None,
    standard_errors: ArrayLike | None = None,
    optimal_batch_size: Literal[False] = False,
) -> StepsLaw: ...


@overload
def fit_steps_law(
    batch_sizes: ArrayLike,
    steps: ArrayLike,
    *,
    alpha: float | None = 1.0,
    alpha_range: tuple[float, float] | None = None,
    standard_errors: ArrayLike | None = None,
    optimal_batch_size: Literal[True],
) -> UShapedLaw: ...


def fit_steps_law(
    batch_sizes: ArrayLike,
    steps: ArrayLike,
    *,
    alpha: float | None = 1.0,
    alpha_range: tuple[float, float] | None = None,
    standard_errors: ArrayLike | None = None,
    optimal_batch_size: bool = False,
) -> StepsLaw | UShapedLaw:
    """Least squares of `log Y = log(a + b/B^α)` with a, b ≥ 0 (THEORY.md T13).

    >>> import sgdtheory as st
    >>> law = st.fit_steps_law([64, 256, 1024, 4096], [50000, 14000, 5000, 2800])
    >>> round(law.S_min), round(law.E_min), round(law.critical_batch_size())
    (2044, 3060136, 376)
    >>> [round(end) for end in law.interval("critical_batch_size", level=0.95)]
    [280, 536]
    >>> known = st.fit_steps_law([64, 256, 1024, 4096], [50000, 14000, 5000, 2800], alpha_range=(1, 1))
    >>> [round(end) for end in known.interval()]  # narrower, if α = 1 is known
    [363, 390]
    >>> round(law.critical_batch_size(convention=st.fits.PAPER))  # over batch size 256, not over the smallest one
    607

    With standard errors, residuals r count as `r²/(s² + τ²)`; τ is the scatter around the law beyond them:

    >>> law = st.fit_steps_law([64, 256, 1024, 4096], [50000, 15000, 5000, 2800], standard_errors=0.01)
    >>> round(law.misfit, 3), law.lack_of_fit.p_value < 1e-3
    (0.038, True)

    Where small batches waste data too, `a + b/B + c/B²` has an optimal batch size and a useful range around it (T43):

    >>> law = st.fit_steps_law([16, 32, 64, 256, 1024], [29000, 10100, 4100, 1310, 720], optimal_batch_size=True)
    >>> round(law.smallest_batch_size()), round(law.optimal_batch_size), round(law.critical_batch_size())
    (34, 90, 239)
    >>> round(law.curvature_test().p_value, 4)
    0.0022

    Args:
        batch_sizes: (m,) B > 0, at least three different ones.
        steps: (m,) Y > 0, optimisation steps to the target at each.
        alpha: the exponent, or None to fit it as well (then at least four batch sizes).
        alpha_range: least and largest α that intervals of B* and a admit beside the fitted law; 1 and 1 if α = 1 is
            known; None: α/1.25 and 1.25 α.
        standard_errors: (m,) of the steps, relative to them, or one for all; None: residuals alone say how large the
            noise is, and all batch sizes count alike.
        optimal_batch_size: fit steps = a + b/B + c/B²: an optimal batch size, the useful range around it, and a test
            whether c is needed; α is then 1, also in intervals, and at least four batch sizes are needed.

    Returns:
        StepsLaw, or UShapedLaw with an optimal batch size. Measurements without a plateau give a = 0 and an infinite
        critical batch size.

    Raises:
        ValueError: wrong shapes, numbers that are not positive, too few batch sizes, or both exponents at once.
    """
    batch_sizes = positive_array("batch_sizes", batch_sizes)
    steps = positive_array("steps", steps)
    if optimal_batch_size and alpha != 1:
        raise ValueError(f"alpha must be 1 with optimal_batch_size, got {alpha}: fit the one or the other")
    if optimal_batch_size and alpha_range not in (None, (1, 1)):
        raise ValueError(f"alpha_range must be (1, 1) with optimal_batch_size, got {alpha_range}: its law has α = 1")
    fixed = None if alpha is None else positive_number("alpha", alpha)
    _check_measurements(batch_sizes, steps, fixed is None, optimal_batch_size)
    admitted = None if alpha_range is None else _exponents(alpha_range, fixed)
    errors = _relative_errors(standard_errors, steps)

    def solved(weights: np.ndarray) -> tuple[tuple[float, float, float], float]:
        """Return a, b and c or α, and the sum of squares, of weighted least squares."""
        if optimal_batch_size:
            return u_shaped_numbers(batch_sizes, steps, weights)
        return _straight_numbers(np.log(batch_sizes), np.log(steps), weights, fixed)

    # The misfit is found first: weights of the fit that counts depend on it.
    freedom = steps.size - (3 if optimal_batch_size or fixed is None else 2)
    square, chi_square = misfit_and_chi_square(lambda weights: solved(weights)[1], errors, freedom)
    (a, b, third), _ = solved(weights_of(errors, square, steps))
    known = batch_sizes, steps, errors, float(np.sqrt(square)), chi_square
    if optimal_batch_size:
        return UShapedLaw(a, b, third, *known)
    return StepsLaw(a, b, third, alpha is None, *known, admitted)


def _straight_numbers(
    log_batch: np.ndarray, log_steps: np.ndarray, weights: np.ndarray, alpha: float | None
) -> tuple[tuple[float, float, float], float]:
    """Return a, b and α, with a term that no batch size shows as 0, and the sum of squares."""
    log_a, log_ratio, exponent, squares = fit_numbers(log_batch, log_steps, weights, alpha)
    a = 0.0 if log_ratio - exponent * log_batch.max() > INVISIBLE else float(np.exp(log_a))
    b = 0.0 if log_ratio - exponent * log_batch.min() < -INVISIBLE else float(np.exp(log_a + log_ratio))
    return (a, b, exponent), squares


def _exponents(alpha_range: tuple[float, float], alpha: float | None) -> tuple[float, float]:
    """Return the range of exponents, which must hold the one that is given."""
    low, high = (positive_number("alpha_range", end) for end in alpha_range)
    if alpha is None or not low <= alpha <= high:
        raise ValueError(
            f"alpha_range must go from a least to a largest exponent, with alpha between, got {low:g}, {high:g} and "
            f"alpha={alpha}"
        )
    return low, high


def _check_measurements(batch_sizes: np.ndarray, steps: np.ndarray, fit_alpha: bool, optimum: bool) -> None:
    if batch_sizes.ndim != 1 or batch_sizes.shape != steps.shape:
        raise ValueError(
            "batch_sizes and steps must be one-dimensional and of one length, got shapes "
            f"{batch_sizes.shape} and {steps.shape}"
        )
    what = " to fit alpha too" if fit_alpha else " to fit an optimal batch size" if optimum else ""
    needed = points_needed(fit_alpha or optimum)
    different = np.unique(batch_sizes).size
    if different < needed:
        raise ValueError(f"batch_sizes must hold at least {needed} different batch sizes{what}, got {different}")


def _relative_errors(standard_errors: ArrayLike | None, steps: np.ndarray) -> np.ndarray | None:
    if standard_errors is None:
        return None
    errors = positive_array("standard_errors", standard_errors)
    if errors.shape not in ((), steps.shape):
        raise ValueError(
            f"standard_errors must be one number or as many as steps, got shapes {errors.shape} and {steps.shape}"
        )
    return np.broadcast_to(errors, steps.shape)
