"""A steps law whose data are U-shaped in the batch size: an optimal batch size, and a useful range around it."""

from dataclasses import dataclass
from typing import NamedTuple

import numpy as np

from sgdtheory._common.arguments import positive_array, share_between_0_and_1
from sgdtheory._common.array_like import ArrayLike
from sgdtheory.fits.abstract_law import AbstractStepsLaw, Scatter
from sgdtheory.fits.conventions import SMALLEST, Convention, one_convention
from sgdtheory.fits.profile_likelihood import EXACT_FIT, INVISIBLE
from sgdtheory.fits.u_shaped_profile import QUANTITIES, ConfidenceSet, below, log_least_squares, terms_at


class UsefulRange(NamedTuple):
    """B_opt and the ends of the useful range of laws, (…,) each, named as a `UShapedLaw` has them."""

    optimal_batch_size: np.ndarray
    smallest_batch_size: np.ndarray
    critical_batch_size: np.ndarray


def useful_range(terms: np.ndarray, reference: np.ndarray | float, overhead: float) -> UsefulRange:
    """B_opt, the smallest and the largest useful batch size of laws, in closed form (THEORY.md T43).

    With B_opt = √(c/a), u = log(B/B_opt) and ρ = b/(2√(ac)) the data are `B Y = 2√(ac) (cosh u + ρ)`: symmetric about
    B_opt on a logarithmic axis. Overheads count from R = max{B_opt, B_ref}, where data are least among batch sizes from
    the convention's reference on; both ends are `B_opt e^{±u}`, `cosh u = (1 + ω)(cosh log(R/B_opt) + ρ) − ρ`.

    >>> import numpy as np
    >>> from sgdtheory.fits.u_shaped_law import useful_range
    >>> [round(float(each), 1) for each in useful_range(np.array([1.0, 300.0, 400.0]), 1.0, 0.2)]
    [20.0, 3.8, 104.2]

    Args:
        terms: (…, 3) a, b, c ≥ 0, not all 0.
        reference: B_ref, as far as B_opt does not exceed it.
        overhead: ω.

    Returns:
        UsefulRange. Without a the largest is inf, without c the smallest is 0.
    """
    a, b, c = np.moveaxis(np.asarray(terms, dtype=float), -1, 0)
    with np.errstate(divide="ignore", invalid="ignore", over="ignore"):
        best = np.where(c > 0, np.sqrt(c) / np.sqrt(a), 0.0)
        start = np.maximum(best, reference)
        # Data B Y at R, less b: without a they fall for ever, towards b.
        at_start = np.where(a > 0, a * start, 0.0) + np.where(np.isfinite(start), c / start, 0.0)
        excess = (1 + overhead) * at_start + overhead * b  # aB + c/B at both ends
        root = np.sqrt(np.maximum(excess**2 - 4 * a * c, 0.0))
        largest = np.where(a > 0, (excess + root) / (2 * a), np.inf)
        smallest = np.where(c > 0, np.where(excess > 0, 2 * c / (excess + root), np.inf), 0.0)
    return UsefulRange(best, smallest, largest)


class CurvatureTest(NamedTuple):
    """The test that c = 0: data B·Y never rise towards small batch sizes.

    Attributes:
        statistic: F = (RSS without c − RSS)/s², of weighted residuals.
        freedom: of s²; inf where it is known.
        p_value: probability of so large an F if c = 0: half of that of F_{1,f}, since c ≥ 0 leaves F = 0 every other
            time; 1 for F = 0.
    """

    statistic: float
    freedom: float
    p_value: float


@dataclass(frozen=True, eq=False)
class UShapedLaw(AbstractStepsLaw):
    """Steps to a target loss against batch size, `Y = a + b/B + c/B²`, fitted in logs (THEORY.md T43).

    Made by `fit_steps_law(…, optimal_batch_size=True)`. Data `B Y = aB + b + c/B` are least at B_opt = √(c/a), and
    overheads count from there, or from the convention's reference where B_opt lies below it: so B* tends to that of
    a + b/B as c → 0.

    >>> import sgdtheory as st
    >>> law = st.fit_steps_law([16, 32, 64, 256, 1024], [29000, 10100, 4100, 1310, 720], optimal_batch_size=True)
    >>> for quantity in ("smallest_batch_size", "optimal_batch_size", "critical_batch_size"):
    ...     print(quantity, [round(end) for end in law.interval(quantity)])
    smallest_batch_size [26, 42]
    optimal_batch_size [78, 102]
    critical_batch_size [207, 281]

    Attributes:
        a, b, c: ≥ 0.
        batch_sizes, steps, standard_errors, misfit, chi_square: as of an `AbstractStepsLaw`.
    """

    a: float
    b: float
    c: float
    batch_sizes: np.ndarray
    steps: np.ndarray
    standard_errors: np.ndarray | None = None
    misfit: float = 0.0
    chi_square: float = float("nan")

    @property
    def num_parameters(self) -> int:
        """Three: a, b and c."""
        return 3

    def predict(self, batch_size: ArrayLike) -> np.ndarray:
        """Steps at `batch_size`: a + b/B + c/B²."""
        batch_size = positive_array("batch_size", batch_size)
        return self.a + (self.b + self.c / batch_size) / batch_size

    @property
    def E_min(self) -> float:
        """The fewest samples that reach the target: `b + 2√(ac)`, at B_opt."""
        return self.b + 2 * float(np.sqrt(self.a) * np.sqrt(self.c))

    @property
    def optimal_batch_size(self) -> float:
        """B_opt = √(c/a), at which the data are least; 0 where c = 0, inf where a = 0 alone."""
        return float(self._range(SMALLEST).optimal_batch_size)

    def _end(self, convention: Convention, *, largest: bool) -> float:
        """Return an end: inf where a = 0, since data never rise again, and 0 for the smallest where c = 0."""
        found = self._range(convention)
        return float(found.critical_batch_size if largest else found.smallest_batch_size)

    def _range(self, convention: Convention) -> UsefulRange:
        reference = convention.reference_among(self.batch_sizes)
        return useful_range(np.array([self.a, self.b, self.c]), reference, convention.overhead)

    def curvature_test(self, scatter: Scatter | None = None) -> CurvatureTest:
        """Test whether the data need the term with c (THEORY.md T43).

        Args:
            scatter: of log steps, as `pooled_scatter` has it of many laws; None: by this law's own residuals or, with
                standard errors, by these and the misfit.

        Raises:
            ValueError: no scatter is given, and there are as many parameters as points.
        """
        # A bound at 0 makes χ² of known errors raise up to 9% false alarms at 5% (T43): F has fewer.
        scatter = Scatter(self.scatter.variance, self.freedom) if scatter is None else scatter
        log_steps = np.log(self.steps)
        terms = terms_at(self.batch_sizes)
        without = _least(log_steps, terms[:, :2], self.weights)[1]
        with_c = float((self.weights * self.residuals**2).sum())
        gain = without - with_c if self.c else 0.0
        if gain <= EXACT_FIT:
            return CurvatureTest(0.0, scatter.freedom, 1.0)
        statistic = gain / scatter.variance if scatter.variance else float("inf")
        return CurvatureTest(float(statistic), scatter.freedom, scatter.p_value(statistic) / 2)

    def interval(
        self,
        quantity: str = "critical_batch_size",
        level: float = 0.95,
        *,
        reference: float | None = None,
        overhead: float = 0.2,
        convention: Convention | None = None,
        scatter: Scatter | None = None,
    ) -> tuple[float, float]:
        """Profile-likelihood confidence interval: the range over all laws that fit about as well.

        Args:
            quantity: "critical_batch_size", "smallest_batch_size", "optimal_batch_size", "a", "b" or "c".
            level: confidence level in (0, 1).
            reference, overhead, convention: as of `critical_batch_size`.
            scatter: as of `curvature_test`.

        Returns:
            (low, high); an end is 0 or `inf` where the measurements do not limit it.

        Raises:
            ValueError: an unknown quantity, a level outside (0, 1), or no scatter and as many parameters as points.
        """
        if quantity not in QUANTITIES:
            raise ValueError(f"quantity must be one of {', '.join(map(repr, QUANTITIES))}, got {quantity!r}")
        convention = one_convention(convention, reference, overhead)
        estimates = self._range(convention)._asdict() | {"a": self.a, "b": self.b, "c": self.c}
        return self._set(level, scatter).range_of(quantity, float(estimates[quantity]), convention)

    def steps_interval(
        self, batch_size: ArrayLike, level: float = 0.95, *, scatter: Scatter | None = None
    ) -> tuple[np.ndarray, np.ndarray]:
        """Confidence interval of the law's steps at `batch_size`: the range over the laws that fit as well.

        Args:
            batch_size: B > 0, of any shape.
            level: confidence level in (0, 1).
            scatter: as of `curvature_test`.

        Returns:
            (low, high), arrays of the shape of `batch_size`.
        """
        batch = positive_array("batch_size", batch_size)
        confidence = self._set(level, scatter)
        ends = np.array([confidence.range_of_steps(each) for each in batch.ravel().tolist()])
        return ends[:, 0].reshape(batch.shape), ends[:, 1].reshape(batch.shape)

    def _set(self, level: float, scatter: Scatter | None) -> ConfidenceSet:
        level = share_between_0_and_1("level", level)
        scatter = self.scatter if scatter is None else scatter
        reach = scatter.quantile(level) * scatter.variance
        least = float((self.weights * self.residuals**2).sum())
        theta = np.array([self.a, self.b, self.c])
        return ConfidenceSet(self.batch_sizes, np.log(self.steps), self.weights, theta, least + reach)


def u_shaped_numbers(
    batch_sizes: np.ndarray, steps: np.ndarray, weights: np.ndarray
) -> tuple[tuple[float, float, float], float]:
    """Return a, b and c of weighted least squares, those that no batch size shows as 0, and the sum of squares."""
    terms = terms_at(batch_sizes)
    theta, squares = _least(np.log(steps), terms, weights)
    a, b, c = visible(theta, terms, steps).tolist()
    return (a, b, c), squares


def visible(theta: np.ndarray, terms: np.ndarray, steps: np.ndarray) -> np.ndarray:
    """(…, 3) the numbers of the law, those that no batch size shows as 0."""
    return np.where((terms * theta[..., None, :] / steps[..., None]).max(-2) > np.exp(-INVISIBLE), theta, 0.0)


def _least(log_steps: np.ndarray, terms: np.ndarray, weights: np.ndarray) -> tuple[np.ndarray, float]:
    """The best numbers ≥ 0 and their sum of squares."""
    theta, squares = log_least_squares(log_steps, terms, weights, below(log_steps, terms)[None])
    return theta[0], float(squares[0])
