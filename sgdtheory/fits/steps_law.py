"""The steps law: steps to a target loss against batch size, and the critical batch size on it.

Confidence intervals are profile-likelihood intervals with an F quantile (`profile_likelihood` says why).
"""

from dataclasses import dataclass, replace
from functools import cached_property
from typing import Literal, NamedTuple, overload

import numpy as np
from numpy.typing import ArrayLike
from scipy import special

from sgdtheory._common.arguments import positive_array, positive_number, share_between_0_and_1
from sgdtheory.fits.abstract_law import AbstractStepsLaw, weights_of
from sgdtheory.fits.conventions import Convention, one_convention
from sgdtheory.fits.known_noise import misfit_and_chi_square
from sgdtheory.fits.power_steps import fit_numbers, largest_root, smallest_root
from sgdtheory.fits.profile_likelihood import EXACT_FIT, Profile, Quantity, safe_exp
from sgdtheory.fits.u_shaped_law import MIN_POINTS as MIN_POINTS_WITH_OPTIMUM
from sgdtheory.fits.u_shaped_law import UShapedLaw, fit_u_shaped_law

MIN_POINTS = 3
INVISIBLE = 18.0  # A term that is e^−18 times the other, at every batch size measured, counts as absent.
# Intervals admit another exponent from this p-value of α = 1 on: python -m benchmarks.measured_intervals.
REJECTED = 0.05
SAME_UNIT = "critical_batch_size", "a"  # Quantities that mean the same whatever the exponent is.


class ShapeTest(NamedTuple):
    """F test that the exponent is the one of the law, against an exponent that is fitted.

    Attributes:
        p_value: probability of so large an improvement if the exponent is right; 1 if there is none.
        law: the law with the fitted exponent.
    """

    p_value: float
    law: "StepsLaw"


@dataclass(frozen=True, eq=False)
class StepsLaw(AbstractStepsLaw):
    """Steps to a target loss against batch size, `Y = a + b/B^α`, fitted in logs (THEORY.md T13).

    Made by `fit_steps_law`. With α = 1 it is McCandlish et al.'s `(S/S_min − 1)(E/E_min − 1) = 1` of steps S = Y and
    samples E = BY.

    Attributes:
        a: fewest steps, however large the batch; S_min.
        b: for α = 1, fewest samples, however small the batch; E_min.
        alpha: exponent α, 1 unless it was fitted.
        alpha_fitted: whether α was fitted.
        batch_sizes, steps, standard_errors, misfit, chi_square: as of an `AbstractStepsLaw`.
    """

    a: float
    b: float
    alpha: float
    alpha_fitted: bool
    batch_sizes: np.ndarray
    steps: np.ndarray
    standard_errors: np.ndarray | None = None
    misfit: float = 0.0
    chi_square: float = float("nan")

    def predict(self, batch_size: ArrayLike) -> np.ndarray:
        """Steps at `batch_size`: a + b/B^α."""
        return self.a + self.b / positive_array("batch_size", batch_size) ** self.alpha

    @property
    def S_min(self) -> float:
        """McCandlish et al.'s S_min, the fewest steps that reach the target: a."""
        return self.a

    @property
    def E_min(self) -> float:
        """McCandlish et al.'s E_min, the fewest samples that reach the target: the infimum of `B Y(B)`, b for α = 1.

        With α < 1 it is 0, as B → 0 (and without a b); with α > 1 it is attained, where `a B^α = (α − 1) b`.
        """
        if self.alpha == 1:
            return self.b
        if self.alpha < 1 or not (self.a and self.b):
            return 0.0
        best = ((self.alpha - 1) * self.b / self.a) ** (1 / self.alpha)
        return float(best * self.predict(best))

    @property
    def optimal_batch_size(self) -> float:
        """Batch size at which the data B·Y are least: 0 for α ≤ 1; for α > 1 `(α − 1)^{1/α} (b/a)^{1/α}`."""
        if self.alpha <= 1 or not self.b:
            return 0.0
        return ((self.alpha - 1) * self.b / self.a) ** (1 / self.alpha) if self.a else float("inf")

    def critical_batch_size(
        self, reference: float | None = None, overhead: float = 0.2, *, convention: Convention | None = None
    ) -> float:
        """B* at which reaching the target takes (1 + overhead) times the data that `reference` takes.

        The largest root of `(a + b/B_ref^α) (1 + ω) B_ref = (a + b/B^α) B`; for α = 1 it is
        `B* = ω b/a + (1 + ω) B_ref` (THEORY.md T13). It depends on both conventions: see `sensitivity`.

        Args:
            reference: B_ref, a batch size in the regime of linear scaling; None: the smallest that was measured, as
                `sgdtheory fit` and `plan` count. The paper's 256 is `st.fits.PAPER`.
            overhead: ω > 0, the fraction of extra data.
            convention: both at once, in place of the two numbers.

        Returns:
            B*, in the unit of the batch sizes; `inf` where no plateau was measured (a = 0, α ≥ 1).
        """
        convention = one_convention(convention, reference, overhead)
        reference = convention.reference_among(self.batch_sizes)
        overhead = convention.overhead
        if self.a == 0:  # data needed grows like B^(1−α) for ever
            return reference * safe_exp(np.log1p(overhead) / (1 - self.alpha)) if self.alpha < 1 else float("inf")
        return largest_root(np.log(self.b / self.a) if self.b else -np.inf, self.alpha, reference, overhead)

    def smallest_batch_size(
        self, reference: float | None = None, overhead: float = 0.2, *, convention: Convention | None = None
    ) -> float:
        """The smallest batch size with at most (1 + overhead) times the data of `reference`: 0 for α ≤ 1.

        Args:
            reference, overhead, convention: as of `critical_batch_size`.
        """
        convention = one_convention(convention, reference, overhead)
        if self.alpha <= 1 or not self.b:
            return 0.0
        reference = convention.reference_among(self.batch_sizes)
        overhead = convention.overhead
        if self.a == 0:
            return reference * safe_exp(-np.log1p(overhead) / (self.alpha - 1))
        return smallest_root(np.log(self.b / self.a), self.alpha, reference, overhead)

    def interval(
        self,
        quantity: str = "critical_batch_size",
        level: float = 0.95,
        *,
        reference: float | None = None,
        overhead: float = 0.2,
        convention: Convention | None = None,
    ) -> tuple[float, float]:
        """Profile-likelihood confidence interval (see the module's head for the method and why).

        With one batch size more than parameters its width is mostly chance, as that of a power law through three
        points (`PowerFit.interval`). Standard errors and the misfit beyond them, where they are known, take the place
        of the residuals. Where residuals reject the exponent of the law at 5% (`shape_test`), the intervals of B*
        and a include those of the law with a fitted exponent. b has another unit there.

        Args:
            quantity: "critical_batch_size", "a", "b", "alpha" or "b/a".
            level: confidence level in (0, 1).
            reference, overhead, convention: of B*, as in `critical_batch_size`.

        Returns:
            (low, high); an end is 0 or `inf` where the measurements do not limit it.

        Raises:
            ValueError: an unknown quantity, a level outside (0, 1), or as many parameters as points.
        """
        convention = one_convention(convention, reference, overhead)
        reference = convention.reference_among(self.batch_sizes)
        overhead = convention.overhead
        quantities: dict[str, Quantity] = {
            "critical_batch_size": lambda _, ratio, alpha: np.log(largest_root(ratio, alpha, reference, overhead)),
            "a": lambda log_a, ratio, alpha: log_a,
            "b": lambda log_a, ratio, alpha: log_a + ratio,
            "alpha": lambda log_a, ratio, alpha: np.log(alpha),
            "b/a": lambda log_a, ratio, alpha: ratio,
        }
        if quantity not in quantities:
            raise ValueError(f"quantity must be one of {', '.join(map(repr, quantities))}, got {quantity!r}")
        if quantity == "alpha" and not self.alpha_fitted:
            return self.alpha, self.alpha
        low, high = self._range(quantities[quantity], level)
        shape = self.shape_test
        # b has the unit of steps · B^α: its values under two exponents cannot be joined.
        if quantity in SAME_UNIT and shape is not None and shape.p_value < REJECTED:
            other = shape.law.interval(quantity, level, convention=convention)
            low, high = min(low, other[0]), max(high, other[1])
        if quantity == "critical_batch_size":
            estimate = self.critical_batch_size(convention=convention)
        elif quantity == "b/a":
            estimate = self.b / self.a if self.a else float("inf")
        else:
            estimate = getattr(self, quantity)
        return min(low, estimate), max(high, estimate)  # a term fitted as absent lies at the end of the set

    def steps_interval(self, batch_size: ArrayLike, level: float = 0.95) -> tuple[np.ndarray, np.ndarray]:
        """Confidence interval of the law's steps a + b/B^α at `batch_size`: the range over the laws that fit as well.

        >>> import sgdtheory as st
        >>> law = st.fit_steps_law([64, 256, 1024, 4096], [50000, 14000, 5000, 2800])
        >>> [round(float(end)) for end in law.steps_interval(512)]
        [7923, 8119]

        Args:
            batch_size: B > 0, of any shape.
            level: confidence level in (0, 1).

        Returns:
            (low, high), arrays of the shape of `batch_size`.

        Raises:
            ValueError: a level outside (0, 1), or as many parameters as points.
        """
        batch = positive_array("batch_size", batch_size)
        ends = np.empty((2, batch.size))
        for k, log_batch in enumerate(np.log(batch).ravel()):
            ends[:, k] = self._range(_log_steps_at(log_batch), level)
        steps = self.predict(batch)
        return np.minimum(ends[0].reshape(batch.shape), steps), np.maximum(ends[1].reshape(batch.shape), steps)

    @cached_property
    def shape_test(self) -> ShapeTest | None:
        """F test of the law's exponent by the residuals; None if the exponent was fitted, or nothing tests it.

        At least four batch sizes are needed, and steps that scatter. With standard errors `lack_of_fit` tests the law.

        >>> import sgdtheory as st
        >>> batch_sizes = [32, 64, 128, 256, 512, 1024]
        >>> steps = [1000 + 144500 / size**0.8 * factor for size, factor in zip(batch_sizes, [1, 1.01, 1, 0.99, 1, 1])]
        >>> test = st.fit_steps_law(batch_sizes, steps).shape_test
        >>> round(test.p_value, 3), round(test.law.alpha, 1)
        (0.0, 0.8)
        """
        freedom = self.freedom - 1
        if self.alpha_fitted or self.standard_errors is not None:
            return None
        if freedom < 1 or np.unique(self.batch_sizes).size < MIN_POINTS + 1:
            return None
        log_batch = np.log(self.batch_sizes)
        log_a, log_ratio, alpha, least = fit_numbers(log_batch, np.log(self.steps), self.weights, None)
        gain = float((self.weights * self.residuals**2).sum()) - least
        if least <= EXACT_FIT * self.weights.sum():
            return None
        a, b = np.exp(log_a), np.exp(log_a + log_ratio)
        law = replace(self, a=float(a), b=float(b), alpha=alpha, alpha_fitted=True)
        return ShapeTest(float(special.fdtrc(1, freedom, max(gain, 0.0) / least * freedom)), law)

    def _range(self, quantity: Quantity, level: float) -> tuple[float, float]:
        """exp of the least and the largest `quantity` over the confidence set."""
        scatter = self.scatter  # refuses as many parameters as measurements
        quantile = scatter.quantile(share_between_0_and_1("level", level))
        known = self.standard_errors is not None
        width = (0.0, quantile + EXACT_FIT) if known else (quantile / scatter.freedom, EXACT_FIT)
        measured = np.log(self.batch_sizes), np.log(self.steps), self.weights
        profile = Profile(*measured, self.alpha, self.alpha_fitted, *width)
        return profile.extreme(quantity, -1), profile.extreme(quantity, 1)

    @property
    def num_parameters(self) -> int:
        """Two, or three with α."""
        return 3 if self.alpha_fitted else 2


@overload
def fit_steps_law(
    batch_sizes: ArrayLike,
    steps: ArrayLike,
    *,
    alpha: float | None = 1.0,
    standard_errors: ArrayLike | None = None,
    optimal_batch_size: Literal[False] = False,
) -> StepsLaw: ...


@overload
def fit_steps_law(
    batch_sizes: ArrayLike,
    steps: ArrayLike,
    *,
    alpha: float | None = 1.0,
    standard_errors: ArrayLike | None = None,
    optimal_batch_size: Literal[True],
) -> UShapedLaw: ...


def fit_steps_law(
    batch_sizes: ArrayLike,
    steps: ArrayLike,
    *,
    alpha: float | None = 1.0,
    standard_errors: ArrayLike | None = None,
    optimal_batch_size: bool = False,
) -> StepsLaw | UShapedLaw:
    """Least squares of `log Y = log(a + b/B^α)` with a, b ≥ 0 (THEORY.md T13).

    >>> import sgdtheory as st
    >>> law = st.fit_steps_law([64, 256, 1024, 4096], [50000, 14000, 5000, 2800])
    >>> round(law.S_min), round(law.E_min), round(law.critical_batch_size())
    (2044, 3060136, 376)
    >>> [round(end) for end in law.interval("critical_batch_size", level=0.95)]
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
        standard_errors: (m,) of the steps, relative to them, or one for all; None: residuals alone say how large the
            noise is, and all batch sizes count alike.
        optimal_batch_size: fit c as well, with α = 1 (then at least four batch sizes).

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
    fixed = None if alpha is None else positive_number("alpha", alpha)
    _check_measurements(batch_sizes, steps, fixed is None, optimal_batch_size)
    errors = _relative_errors(standard_errors, steps)
    if optimal_batch_size:
        return fit_u_shaped_law(batch_sizes, steps, errors)
    log_batch = np.log(batch_sizes)
    log_steps = np.log(steps)

    def least(weights: np.ndarray) -> float:
        return fit_numbers(log_batch, log_steps, weights, fixed)[-1]

    square, chi_square = misfit_and_chi_square(least, errors, steps.size - (2 if fixed else 3))
    log_a, log_ratio, exponent, _ = fit_numbers(log_batch, log_steps, weights_of(errors, square, steps), fixed)
    a = np.exp(log_a)
    b = np.exp(log_a + log_ratio)
    if log_ratio - exponent * log_batch.max() > INVISIBLE:
        a = 0.0
    if log_ratio - exponent * log_batch.min() < -INVISIBLE:
        b = 0.0
    known = errors, float(np.sqrt(square)), chi_square
    return StepsLaw(float(a), float(b), exponent, alpha is None, batch_sizes, steps, *known)


def _check_measurements(batch_sizes: np.ndarray, steps: np.ndarray, fit_alpha: bool, optimum: bool) -> None:
    if batch_sizes.ndim != 1 or batch_sizes.shape != steps.shape:
        raise ValueError(
            "batch_sizes and steps must be one-dimensional and of one length, got shapes "
            f"{batch_sizes.shape} and {steps.shape}"
        )
    needed = MIN_POINTS
    what = ""
    if fit_alpha:
        needed = MIN_POINTS + 1
        what = " to fit alpha too"
    elif optimum:
        needed = MIN_POINTS_WITH_OPTIMUM
        what = " to fit an optimal batch size"
    different = np.unique(batch_sizes).size
    if different < needed:
        raise ValueError(f"batch_sizes must hold at least {needed} different batch sizes{what}, got {different}")


def _log_steps_at(log_batch: float) -> Quantity:
    """log(a + b/B^α) at one B."""
    return lambda log_a, ratio, alpha: log_a + np.logaddexp(0.0, ratio - alpha * log_batch)


def _relative_errors(standard_errors: ArrayLike | None, steps: np.ndarray) -> np.ndarray | None:
    if standard_errors is None:
        return None
    errors = positive_array("standard_errors", standard_errors)
    if errors.shape not in ((), steps.shape):
        raise ValueError(
            f"standard_errors must be one number or as many as steps, got shapes {errors.shape} and {steps.shape}"
        )
    return np.broadcast_to(errors, steps.shape)
