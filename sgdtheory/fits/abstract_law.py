"""Common part of laws of steps against batch size: measurements, residuals, a test, critical batch sizes, intervals."""

from abc import ABC, abstractmethod
from collections.abc import Sequence
from typing import Any, NamedTuple

import numpy as np
from scipy import special

from sgdtheory._common.array_like import ArrayLike
from sgdtheory._common.sheets import Quantity, Sheet, Table, number
from sgdtheory._common.shown import Shown
from sgdtheory.fits.conventions import SMALLEST, Convention
from sgdtheory.fits.known_noise import LackOfFit
from sgdtheory.fits.steps_measurement import StepsMeasurement


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

    # annotations alone, no fields of a dataclass: these would come first in every constructor, before a law's α or c
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

    @abstractmethod
    def critical_batch_size(self, *, convention: Convention | None = None) -> float:
        """B*, the largest batch size that takes at most 1 + ω times the data that the reference takes."""

    @abstractmethod
    def smallest_batch_size(self, *, convention: Convention | None = None) -> float:
        """The smallest batch size that takes at most 1 + ω times the data that the reference takes."""

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
        third = "c" if hasattr(self, "c") else "alpha"
        shown = ("a", "b", third)[: self.num_parameters]
        quantities = [Quantity(name, name, getattr(self, name)) for name in shown]
        names = {"critical_batch_size": "B*"}
        if self.optimal_batch_size:
            names |= {"optimal_batch_size": "best B", "smallest_batch_size": "smallest useful B"}
        for name, label in names.items():
            found = getattr(self, name)
            value = found(convention=SMALLEST) if callable(found) else found
            ends = self.interval(name, convention=SMALLEST) if self.freedom else (np.nan, np.nan)
            quantities.append(Quantity(name, label, value, ends))
        smallest = float(self.batch_sizes.min())
        best = smallest < self.optimal_batch_size < np.inf
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
