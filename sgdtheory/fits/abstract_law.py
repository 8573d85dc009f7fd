"""Common part of laws of steps against batch size: measurements, residuals, a test, critical batch sizes, intervals.

With relative standard errors s_i of the steps, residuals of log steps have the variance s_i² + τ²: τ is the law's
misfit, what tuning, evaluation and the law's own shape add. `χ² = min Σ r_i²/s_i²` tests τ = 0. The estimate of τ²
solves `min Σ r_i²/(s_i² + τ²) = m − p` (Mandel and Paule 1970), 0 where χ² ≤ m − p already; both minima are over the
law's p parameters. With the weights 1/(s_i² + τ²) the confidence set is `RSS ≤ RSS_min + F_{1,m−p}` (THEORY.md T13).

`knee` and `HasSteps` are for any law of steps, a user's own included.
"""

from abc import ABC, abstractmethod
from collections.abc import Callable, Sequence
from typing import Any, NamedTuple, Protocol

import numpy as np
from scipy import optimize, special

from sgdtheory._common.array_like import ArrayLike
from sgdtheory._common.sheets import Quantity, Sheet, Table, number
from sgdtheory._common.shown import Shown
from sgdtheory.fits.conventions import SMALLEST, Convention, one_convention
from sgdtheory.fits.steps_measurement import StepsMeasurement


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


class Scatter(NamedTuple):
    """Variance of log steps around their laws, and with how many degrees of freedom it is known.

    Attributes:
        variance: s², in units of the residuals' own variances where these are known.
        freedom: f; inf of a variance that is known.
    """

    variance: float
    freedom: float

    def quantile(self, level: float) -> float:
        """Return the quantile of F with one degree of freedom above, of χ² if the variance is known."""
        if np.isinf(self.freedom):
            return float(special.chdtri(1, 1 - level))
        return float(special.fdtri(1, self.freedom, level))

    def p_value(self, statistic: float) -> float:
        """Return the p-value of a statistic: by F with one and f degrees of freedom, by χ² if the variance is known."""
        if np.isinf(self.freedom):
            return float(special.chdtrc(1, statistic))
        return float(special.fdtrc(1, self.freedom, statistic))


class AbstractStepsLaw(Shown, ABC):
    """A law of the steps to a target against batch size, fitted by least squares in logs.

    Attributes:
        a, b: steps of the largest batches, and what falls like 1/B, or a power of it.
        batch_sizes, steps: (m,) the measurements.
        standard_errors: (m,) of the steps, relative to them; None: not known.
        misfit: τ, standard deviation of log steps around the law beyond their standard errors; 0 without them.
        chi_square: of the law at its best for τ = 0; nan without standard errors.
    """

    figure = "steps_laws"

    # Annotations alone, no fields of a dataclass: these would come first in every constructor, before a law's α or c.
    a: float
    b: float
    batch_sizes: np.ndarray
    steps: np.ndarray
    standard_errors: np.ndarray | None
    misfit: float
    chi_square: float

    @property
    @abstractmethod
    def num_parameters(self) -> int:
        """p, numbers that were fitted."""

    @abstractmethod
    def predict(self, batch_size: ArrayLike) -> np.ndarray:
        """Steps at `batch_size`."""

    @property
    @abstractmethod
    def optimal_batch_size(self) -> float:
        """B_opt, at which the data B·Y are least."""

    @property
    def S_min(self) -> float:
        """McCandlish et al.'s S_min, the fewest steps that reach the target, however large the batch: a."""
        return self.a

    def critical_batch_size(
        self, reference: float | None = None, overhead: float = 0.2, *, convention: Convention | None = None
    ) -> float:
        """B*, the largest root of `B Y(B) = (1 + ω) R Y(R)`: there the target takes 1 + ω times the data.

        R is B_ref or, for a law with c, the larger one of B_ref and B_opt. For `a + b/B` the root is
        `B* = ω b/a + (1 + ω) B_ref` (THEORY.md T13). B* depends on both numbers of the convention: see `sensitivity`.

        Args:
            reference: B_ref, a batch size in the regime of linear scaling; None: the smallest that was measured, as
                `sgdtheory fit` and `plan` count. The paper's 256 is `st.fits.PAPER`.
            overhead: ω > 0, the fraction of extra data.
            convention: both at once, in place of the two numbers.

        Returns:
            B*, in the unit of the batch sizes; `inf` where no plateau was measured (a = 0, α ≥ 1).
        """
        return self._end(one_convention(convention, reference, overhead), largest=True)

    def smallest_batch_size(
        self, reference: float | None = None, overhead: float = 0.2, *, convention: Convention | None = None
    ) -> float:
        """The smallest root of the equation of `critical_batch_size`: smaller batch sizes take more data too.

        It is 0 for a + b/B^α with α ≤ 1 or b = 0, and for a + b/B + c/B² with c = 0.

        Args:
            reference, overhead, convention: as of `critical_batch_size`.
        """
        return self._end(one_convention(convention, reference, overhead), largest=False)

    @abstractmethod
    def _end(self, convention: Convention, *, largest: bool) -> float:
        """The largest or the smallest batch size with at most 1 + ω times the data of the reference."""

    @abstractmethod
    def interval(
        self, quantity: str = "critical_batch_size", level: float = 0.95, *, convention: Convention | None = None
    ) -> tuple[float, float]:
        """Confidence interval of a quantity."""

    @abstractmethod
    def steps_interval(self, batch_size: ArrayLike, level: float = 0.95) -> tuple[np.ndarray, np.ndarray]:
        """Confidence intervals of the law's steps."""

    @property
    def residuals(self) -> np.ndarray:
        """(m,) log(measured steps) − log(law)."""
        return np.log(self.steps) - np.log(self.predict(self.batch_sizes))

    @property
    def residual_std(self) -> float:
        """Estimated standard deviation of log steps around the law."""
        freedom = self.freedom
        return float(np.sqrt((self.residuals**2).sum() / freedom)) if freedom else float("nan")

    @property
    def freedom(self) -> int:
        """m − p, measurements less parameters."""
        return self.steps.size - self.num_parameters

    @property
    def lack_of_fit(self) -> LackOfFit:
        """χ² of the law with its p-value, from the standard errors.

        Raises:
            ValueError: the law was fitted without standard errors.
        """
        if self.standard_errors is None:
            raise ValueError("lack_of_fit needs standard errors: give fit_steps_law(…, standard_errors=…)")
        return LackOfFit.of(self.chi_square, self.freedom)

    @property
    def weights(self) -> np.ndarray:
        """(m,) of squared residuals."""
        return weights_of(self.standard_errors, self.misfit**2, self.steps)

    @property
    def scatter(self) -> Scatter:
        """Variance of the weighted residuals: by themselves, or 1 where standard errors and misfit say it.

        Standard errors that leave no misfit are known. A misfit was estimated from the residuals, so that m − p degrees
        of freedom stand behind the 1 too.

        Raises:
            ValueError: as many parameters as measurements.
        """
        if self.freedom < 1:
            raise ValueError(
                f"an interval needs more batch sizes than parameters, got {self.steps.size} batch sizes for "
                f"{self.num_parameters} parameters"
            )
        if self.standard_errors is None:
            return Scatter(float((self.residuals**2).sum() / self.freedom), self.freedom)
        return Scatter(1.0, self.freedom if self.misfit else float("inf"))

    def sheet(self) -> Sheet:
        """Return the law's numbers, and B* with its 95% interval; the overhead counts from the smallest batch size."""
        curved = hasattr(self, "c")
        shown = ("a", "b", "c" if curved else "alpha")[: self.num_parameters]
        quantities = [Quantity(name, name, getattr(self, name)) for name in shown]
        names = {"critical_batch_size": "B*"}
        if curved and self.optimal_batch_size:
            names |= {"optimal_batch_size": "best B", "smallest_batch_size": "smallest useful B"}
        for name, label in names.items():
            found = getattr(self, name)
            value = found(convention=SMALLEST) if callable(found) else found
            ends = self.interval(name, convention=SMALLEST) if self.freedom else (np.nan, np.nan)
            quantities.append(Quantity(name, label, value, ends))
        smallest = float(self.batch_sizes.min())
        best = curved and smallest < self.optimal_batch_size < np.inf
        # Overheads of a law with c count from B_opt if it lies above the smallest batch size.
        reference = "the best one" if best else f"batch size {number(smallest)}, the smallest measured"
        title = "steps to the target against batch size"
        return Sheet(title, [Table(quantities, legend=f"B*: 20% more data than {reference}")])

    def plot(self, **options: Any) -> Any:
        """Steps and law, B* marked by the convention of the table; of `st.plot.steps_laws`."""
        return super().plot(**{"convention": SMALLEST} | options)

    def _drawn(self) -> tuple[list[StepsMeasurement], list["AbstractStepsLaw"]]:
        measured = StepsMeasurement("", float("nan"), self.batch_sizes, self.steps, self.standard_errors)
        return [measured], [self]


def weights_of(standard_errors: np.ndarray | None, misfit_square: float, steps: np.ndarray) -> np.ndarray:
    """(m,) weights 1/(s² + τ²) of the squared residuals; 1 without standard errors."""
    return np.ones(steps.size) if standard_errors is None else 1 / (standard_errors**2 + misfit_square)


def pooled_scatter(laws: Sequence[AbstractStepsLaw]) -> Scatter:
    """One variance of log steps around all of these laws: `s² = Σ RSS/Σ (m − p)`, with Σ (m − p) degrees of freedom.

    >>> import sgdtheory as st
    >>> models = st.example_measurements()
    >>> laws = [st.fit_steps_law(each.batch_sizes, each.steps, optimal_batch_size=True) for each in models]
    >>> scatter = st.fits.pooled_scatter(laws)
    >>> f"{scatter.variance**0.5:.1%}", scatter.freedom
    ('4.7%', 30)

    Args:
        laws: without standard errors, with more measurements than parameters in all. That one variance is behind them
            all is the caller's to know.

    Raises:
        ValueError: a law with standard errors, or no degree of freedom.
    """
    if any(law.standard_errors is not None for law in laws):
        raise ValueError("laws must be fitted without standard_errors to have their scatter pooled: leave those out")
    freedom = sum(law.freedom for law in laws)
    if freedom < 1:
        raise ValueError("laws must have more batch sizes than parameters in all, got as many: measure more")
    return Scatter(float(sum((law.residuals**2).sum() for law in laws) / freedom), freedom)


class HasSteps(Protocol):
    """A law of steps to a target: a `StepsLaw`, or your own.

    If it has `batch_sizes`, these are what was measured; `steps_interval(batch_size, level)`: intervals of its steps;
    `critical_batch_size(convention=…)`: B*, and `interval(level=…, convention=…)` that of it;
    `smallest_batch_size(convention=…)` and `optimal_batch_size`: where the range begins in which a batch size pays, and
    which takes the least data.
    """

    def predict(self, batch_size: ArrayLike) -> np.ndarray:
        """Steps at `batch_size`."""
        ...


def knee(law: HasSteps, around: tuple[float, float]) -> float:
    """Return the knee: the batch size with the least S E = B S², at which 1% more batch saves ½% of the steps.

    1% more batch also takes ½% more data there. The knee is searched up to a factor of 10⁴ beyond the least and the
    largest batch size in `around`; the result is 0 or inf if there is none.
    """
    low = np.log(around[0] / 1e4)
    high = np.log(around[1] * 1e4)

    def product(log_batch: float) -> float:
        return log_batch + 2 * float(np.log(law.predict(np.exp(log_batch))))

    # With 400 points neighbours are less than 10% apart, so that the knee lies between those of the best one.
    grid = np.linspace(low, high, 400)
    best = int(np.argmin([product(point) for point in grid]))
    if best in (0, grid.size - 1):  # The product rises or falls all over the range, and there is no knee.
        return 0.0 if best == 0 else float("inf")
    fine: Any = optimize.minimize_scalar(product, bounds=(grid[best - 1], grid[best + 1]), options={"xatol": 1e-9})
    return float(np.exp(fine.x))
