"""The steps law: steps to a target loss against batch size, and the critical batch size on it.

Confidence intervals are profile-likelihood intervals with an F quantile (`profile_likelihood` says why).
"""

from dataclasses import dataclass
from typing import Literal, overload

import numpy as np
from numpy.typing import ArrayLike
from scipy import optimize, special

from sgdtheory._common.arguments import positive_array, positive_number, share_between_0_and_1
from sgdtheory.fits.abstract_law import AbstractStepsLaw, weights_of
from sgdtheory.fits.conventions import Convention, one_convention
from sgdtheory.fits.known_noise import misfit_and_chi_square
from sgdtheory.fits.profile_likelihood import EXACT_FIT, Profile, Quantity, best_ratio, mean_of, root, safe_exp
from sgdtheory.fits.u_shaped_law import MIN_POINTS as MIN_POINTS_WITH_OPTIMUM
from sgdtheory.fits.u_shaped_law import UShapedLaw, fit_u_shaped_law

MIN_POINTS = 3
INVISIBLE = 18.0  # a term e^−18 times the other, at every batch size measured, counts as absent


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
        """Where data B·Y are least: 0 for α ≤ 1, as far as the law goes; for α > 1 `(α − 1)^{1/α} (b/a)^{1/α}`."""
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
        return _critical(np.log(self.b / self.a) if self.b else -np.inf, self.alpha, reference, overhead)

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
        return _smallest(np.log(self.b / self.a), self.alpha, reference, overhead)

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
        of the residuals.

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
            "critical_batch_size": lambda _, ratio, alpha: np.log(_critical(ratio, alpha, reference, overhead)),
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

    def _range(self, quantity: Quantity, level: float) -> tuple[float, float]:
        """exp of the least and the largest `quantity` over the confidence set."""
        freedom = self.scatter.freedom  # refuses as many parameters as measurements
        quantile = special.fdtri(1, freedom, share_between_0_and_1("level", level))
        known = self.standard_errors is not None
        width = (0.0, float(quantile) + EXACT_FIT) if known else (quantile / freedom, EXACT_FIT)
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
        return _fit(log_batch, log_steps, weights, fixed)[-1]

    square, chi_square = misfit_and_chi_square(least, errors, steps.size - (2 if fixed else 3))
    log_a, log_ratio, exponent, _ = _fit(log_batch, log_steps, weights_of(errors, square, steps), fixed)
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


def _fit(
    log_batch: np.ndarray, log_steps: np.ndarray, weights: np.ndarray, alpha: float | None
) -> tuple[float, float, float, float]:
    """(log a, log b/a, α, RSS) of least squares, at fixed α or with it."""
    if alpha is None:
        log_ratio, alpha = _fit_with_alpha(log_batch, log_steps, weights)
    else:
        log_ratio = best_ratio(log_batch, log_steps, weights, alpha)
    gap = log_steps - np.logaddexp(0.0, log_ratio - alpha * log_batch)
    (log_a,) = mean_of(gap, weights)
    return float(log_a), log_ratio, alpha, float((weights * (gap - log_a) ** 2).sum())


def _fit_with_alpha(log_batch: np.ndarray, log_steps: np.ndarray, weights: np.ndarray) -> tuple[float, float]:
    """(log(b/a), α) of least squares, from the best of a range of α."""
    root_weights = np.sqrt(weights)

    def gap(parameters: np.ndarray) -> np.ndarray:
        log_ratio, log_alpha = parameters
        rest = log_steps - np.logaddexp(0.0, log_ratio - np.exp(log_alpha) * log_batch)
        return root_weights * (rest - mean_of(rest, weights))

    starts = [(best_ratio(log_batch, log_steps, weights, alpha), np.log(alpha)) for alpha in np.geomspace(0.2, 5, 15)]
    start = min(starts, key=lambda point: (gap(np.array(point)) ** 2).sum())
    fit = optimize.least_squares(gap, start, xtol=1e-15, ftol=1e-15, gtol=1e-15, x_scale="jac")
    return float(fit.x[0]), float(np.exp(fit.x[1]))


def _critical(log_ratio: float, alpha: float, reference: float, overhead: float) -> float:
    """Largest root B of `(1 + ρ/B^α) B = (1 + ω)(1 + ρ/B_ref^α) B_ref` with ρ = b/a = e^log_ratio."""
    if alpha == 1.0:
        return overhead * float(np.exp(log_ratio)) + (1 + overhead) * reference
    log_reference = np.log(reference)
    target = np.log1p(overhead) + _log_data(log_reference, log_ratio, alpha)
    # the data needed have one minimum at most, so beyond the reference they cross the target once
    return safe_exp(
        root(lambda log_batch: _log_data(log_batch, log_ratio, alpha) - target, log_reference, target + 1.0)
    )


def _smallest(log_ratio: float, alpha: float, reference: float, overhead: float) -> float:
    """Smallest root of the same, for α > 1."""
    log_reference = np.log(reference)
    target = np.log1p(overhead) + _log_data(log_reference, log_ratio, alpha)
    least = (log_ratio - target) / (alpha - 1) - 1.0  # below the root of `ρ B^{1−α}` alone there is too much of it
    return safe_exp(root(lambda log_batch: _log_data(log_batch, log_ratio, alpha) - target, least, log_reference))


def _log_data(log_batch: float, log_ratio: float, alpha: float) -> float:
    """log of B + ρ B^{1−α}."""
    return float(log_batch + np.logaddexp(0.0, log_ratio - alpha * log_batch))
