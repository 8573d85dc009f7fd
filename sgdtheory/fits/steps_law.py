"""The steps law: steps to a target loss against batch size, and the critical batch size on it.

Confidence intervals are profile-likelihood intervals with an F quantile (`profile_likelihood` says why).
"""

from dataclasses import dataclass, replace
from functools import cached_property
from typing import NamedTuple

import numpy as np

from sgdtheory._common.arguments import positive_array, share_between_0_and_1
from sgdtheory._common.array_like import ArrayLike
from sgdtheory.fits.abstract_law import AbstractStepsLaw, Scatter
from sgdtheory.fits.conventions import Convention, one_convention
from sgdtheory.fits.profile_likelihood import (
    EXACT_FIT,
    Profile,
    Quantity,
    data_root,
    fit_numbers,
    log_data,
    safe_exp,
)
from sgdtheory.fits.steps_measurement import points_needed

SAME_UNIT = "critical_batch_size", "knee", "a"  # These quantities mean the same whatever the exponent is.
RISING = "critical_batch_size", "knee", "b/a"  # These quantities rise with b/a and do not depend on a.


class ShapeTest(NamedTuple):
    """F test that the exponent is the one of the law, against an exponent that is fitted.

    Attributes:
        p_value: probability of so large an improvement if the exponent is right; 1 if there is none.
        law: the law with the fitted exponent.
        p_value_of_range: the same of the best exponent in the law's `exponents`.
    """

    p_value: float
    law: "StepsLaw"
    p_value_of_range: float


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
        alpha_range: least and largest exponent that intervals admit; None: see `exponents`.
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
    alpha_range: tuple[float, float] | None = None

    @property
    def exponents(self) -> tuple[float, float]:
        """Least and largest exponent that intervals of B*, the knee, a and the steps admit.

        They are `alpha_range` if it was given, and all if α was fitted. Otherwise α is known within a factor of 1.25.
        With a single measurement more than a and b nothing says how well another exponent fits, and α counts as known.
        Where residuals reject these exponents, intervals also include those of a `wider_law`.
        """
        if self.alpha_fitted:
            return 0.0, float("inf")
        if self.alpha_range is not None:
            return self.alpha_range
        # In the package's 17 tables of steps the exponents have the mean 1.03, and their logs the standard deviation
        # 0.09: `python -m benchmarks.measured_intervals --exponents`.
        factor = 1.25 if self.freedom > 1 else 1.0
        return self.alpha / factor, self.alpha * factor

    @cached_property
    def wider_law(self) -> "StepsLaw | None":
        """The law with more exponents that intervals include too; None unless residuals reject `exponents` at 5%.

        A given `alpha_range` is extended to the range that applies without one, and this range to all exponents.
        """
        test = self.shape_test
        # The coverage of intervals with this level of the test is measured in benchmarks.measured_intervals.
        if test is None or test.p_value_of_range >= 0.05:
            return None
        (low, high), default = self.exponents, replace(self, alpha_range=None)
        least, largest = default.exponents
        return default if least <= low and high <= largest and (low, high) != (least, largest) else test.law

    @property
    def admitted_exponents(self) -> tuple[float, float]:
        """Least and largest exponent that intervals admit, those of a `wider_law` included."""
        return self.exponents if self.wider_law is None else self.wider_law.admitted_exponents

    def predict(self, batch_size: ArrayLike) -> np.ndarray:
        """Steps at `batch_size`: a + b/B^α."""
        return self.a + self.b / positive_array("batch_size", batch_size) ** self.alpha

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

    @property
    def knee(self) -> float:
        """Batch size of the least `E S = B Y²`, `((2α − 1) b/a)^{1/α}`: 0 for α ≤ ½ or b = 0, inf for a = 0."""
        if self.alpha <= 0.5 or not self.b:
            return 0.0
        return float(((2 * self.alpha - 1) * self.b / self.a) ** (1 / self.alpha)) if self.a else float("inf")

    def _end(self, convention: Convention, *, largest: bool) -> float:
        """Return an end of the useful range: in closed form for α = 1 or a = 0, else the root of the data (T13)."""
        if not largest and (self.alpha <= 1 or not self.b):
            return 0.0  # Data rise with the batch size everywhere.
        reference = convention.reference_among(self.batch_sizes)
        if self.a == 0:  # Data B^(1−α) rise or fall for ever, and have one end.
            if largest and self.alpha >= 1:
                return float("inf")
            return reference * safe_exp(np.log1p(convention.overhead) / (1 - self.alpha))
        log_ratio = np.log(self.b / self.a) if self.b else -np.inf
        return data_root(log_ratio, self.alpha, reference, convention.overhead, largest=largest)

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
        of the residuals. Intervals of B*, the knee and a admit all `exponents`, and those of a `wider_law`. They
        include the interval at the law's own α. The units of b and b/a depend on the exponent, so that these have
        intervals at the law's own α alone.

        Args:
            quantity: "critical_batch_size", "knee" (the batch size of the least `E S = B Y²`), "a", "b", "alpha" or
                "b/a".
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
            "critical_batch_size": lambda _, ratio, alpha: np.log(data_root(ratio, alpha, reference, overhead)),
            "knee": lambda _, ratio, alpha: _log_knee(ratio, alpha),
            "a": lambda log_a, ratio, alpha: log_a,
            "b": lambda log_a, ratio, alpha: log_a + ratio,
            "alpha": lambda log_a, ratio, alpha: np.log(alpha),
            "b/a": lambda log_a, ratio, alpha: ratio,
        }
        if quantity not in quantities:
            raise ValueError(f"quantity must be one of {', '.join(map(repr, quantities))}, got {quantity!r}")
        if quantity == "alpha" and not self.alpha_fitted:
            return self.alpha, self.alpha
        profiles = self._profiles(level, quantity in SAME_UNIT)
        low, high = _range(quantities[quantity], profiles, rises=quantity in RISING)
        if quantity == "critical_batch_size":
            estimate = self.critical_batch_size(convention=convention)
        elif quantity == "b/a":
            estimate = self.b / self.a if self.a else float("inf")
        else:
            estimate = getattr(self, quantity)
        return min(low, estimate), max(high, estimate)  # a term fitted as absent lies at the end of the set

    def steps_interval(self, batch_size: ArrayLike, level: float = 0.95) -> tuple[np.ndarray, np.ndarray]:
        """Confidence interval of the law's steps a + b/B^α at `batch_size`: the range over the laws that fit as well.

        It admits the same exponents as the interval of B*.

        >>> import sgdtheory as st
        >>> law = st.fit_steps_law([64, 256, 1024, 4096], [50000, 14000, 5000, 2800])
        >>> [round(float(end)) for end in law.steps_interval(512)]
        [7631, 8357]

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
        profiles = self._profiles(level, admits=True)
        for k, log_batch in enumerate(np.log(batch).ravel()):
            ends[:, k] = _range(_log_steps_at(log_batch), profiles)
        steps = self.predict(batch)
        return np.minimum(ends[0].reshape(batch.shape), steps), np.maximum(ends[1].reshape(batch.shape), steps)

    def extra_data_interval(self, batch_size: float, new_batch_size: float, level: float = 0.95) -> tuple[float, float]:
        """Confidence interval of the extra data at another batch size B': `B' Y(B')/(B Y(B)) − 1`.

        It admits the same exponents as the interval of B*.

        >>> import sgdtheory as st
        >>> law = st.fit_steps_law([64, 256, 1024, 4096], [50000, 14000, 5000, 2800])
        >>> [round(end, 2) for end in law.extra_data_interval(64, 256)]
        [0.05, 0.18]

        Args:
            batch_size, new_batch_size: B and B' > 0.
            level: confidence level in (0, 1).

        Returns:
            (low, high), shares of the data at B.

        Raises:
            ValueError: as of `steps_interval`.
        """
        old, new = np.log(positive_array("batch_size", [batch_size, new_batch_size])).tolist()

        def log_share(_: float, ratio: float, alpha: float) -> float:
            return log_data(new, ratio, alpha) - log_data(old, ratio, alpha)

        low, high = _range(log_share, self._profiles(level, admits=True))
        share = new_batch_size * float(self.predict(new_batch_size)) / (batch_size * float(self.predict(batch_size)))
        return min(low, share) - 1, max(high, share) - 1

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
        # A law with α through all batch sizes leaves no residual to compare an improvement with.
        if freedom < 1 or np.unique(self.batch_sizes).size < points_needed(three_numbers=True):
            return None
        measured = np.log(self.batch_sizes), np.log(self.steps), self.weights
        log_a, log_ratio, alpha, least = fit_numbers(*measured, None)
        if least <= EXACT_FIT * self.weights.sum():
            return None

        def p_value(squares: float) -> float:
            return Scatter(1.0, freedom).p_value(max(squares - least, 0.0) / least * freedom)

        nearest = float(np.clip(alpha, *self.exponents))
        of_range = 1.0 if nearest == alpha else p_value(fit_numbers(*measured, nearest)[-1])
        a, b = np.exp(log_a), np.exp(log_a + log_ratio)
        law = replace(self, a=float(a), b=float(b), alpha=alpha, alpha_fitted=True)
        return ShapeTest(p_value(float((self.weights * self.residuals**2).sum())), law, of_range)

    def _profiles(self, level: float, admits: bool) -> list[Profile]:
        """Return the confidence sets whose union an interval is: at α and, where it admits others, of all of these."""
        own = self.alpha, self.alpha
        profiles = [] if self.alpha_fitted else [self._profile(level, own)]
        law: StepsLaw | None = self if admits or self.alpha_fitted else None
        while law is not None:
            if law.exponents != own:
                profiles.append(law._profile(level, law.exponents))
            law = law.wider_law
        return profiles

    def _profile(self, level: float, exponents: tuple[float, float]) -> Profile:
        """Return the confidence set of the laws with these exponents; a range of them counts as a parameter."""
        scatter = self.scatter  # refuses as many parameters as measurements
        quantile = scatter.quantile(share_between_0_and_1("level", level))
        limits = {"widening": 0.0, "slack": quantile + EXACT_FIT}
        if self.standard_errors is None:
            limits = {"widening": quantile / scatter.freedom, "slack": EXACT_FIT}
            if not self.alpha_fitted and exponents[0] < exponents[1]:
                left = scatter.freedom - 1  # degrees of freedom of a law with α
                if left <= 1:  # F_{1,1} is 161, and without a degree of freedom nothing is excluded.
                    limits["own_widening"] = limits["widening"]
                limits["widening"] = Scatter(1.0, left).quantile(level) / left if left else np.inf
        measured = np.log(self.batch_sizes), np.log(self.steps), self.weights
        return Profile(*measured, self.alpha, exponents, **limits)

    @property
    def num_parameters(self) -> int:
        """Two, or three with α."""
        return 3 if self.alpha_fitted else 2


def _range(quantity: Quantity, profiles: list[Profile], *, rises: bool = False) -> tuple[float, float]:
    """exp of the least and the largest `quantity` over the union of confidence sets."""
    lows, highs = ([each.extreme(quantity, side, rises=rises) for each in profiles] for side in (-1, 1))
    return min(lows), max(highs)


def _log_steps_at(log_batch: float) -> Quantity:
    """log(a + b/B^α) at one B."""
    return lambda log_a, ratio, alpha: log_a + np.logaddexp(0.0, ratio - alpha * log_batch)


def _log_knee(log_ratio: float, alpha: float) -> float:
    """Return the logarithm of the knee, from log(b/a)."""
    return (log_ratio + float(np.log(2 * alpha - 1))) / alpha if alpha > 0.5 else -np.inf
