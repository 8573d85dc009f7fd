"""All published bounds at one setting, beside the exact risks of what they bound."""

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any, ClassVar

import numpy as np

from sgdtheory._common.sheets import Quantity, Sheet, Table
from sgdtheory._common.shown import Shown
from sgdtheory.bounds.listing import catalogue
from sgdtheory.bounds.published import BoundValue, PublishedBound
from sgdtheory.problems import AbstractProblem
from sgdtheory.risk import excess_risk

SIGNS = {"upper": "≤", "lower": "≥", "both": "≍"}
CONSTANTS = {"verified": "verified", "unverified": "not verified against the paper", "order": "none stated"}


@dataclass(frozen=True)
class BoundsAtSetting(Shown):
    """The M published bounds at one setting, in the order of the catalogue.

    Attributes:
        bounds: (M,) the bounds.
        values: (M,) their values there, with the conditions of their theorems.
        exact: (M,) exact mean excess risks of the algorithms that they are about, in units of y².
        setting: batch_size, learning_rate and num_samples.
        title: of the table and the figure: the problem.
    """

    figure: ClassVar[str] = "published_bounds"

    bounds: tuple[PublishedBound, ...] = field(repr=False)
    values: tuple[BoundValue[float], ...]
    exact: np.ndarray
    setting: Mapping[str, float]
    title: str = "published bounds, units of y²"

    @property
    def total(self) -> np.ndarray:
        """(M,) values of the bounds, in units of y²; inf or nan is possible where a bound does not apply."""
        return np.array([value.total for value in self.values])

    @property
    def applies(self) -> np.ndarray:
        """(M,) whether all conditions of each theorem hold."""
        return np.array([bool(value.applies) for value in self.values])

    @property
    def ratio(self) -> np.ndarray:
        """(M,) exact / bound: at most 1 for an upper bound that holds, at least 1 for a lower one."""
        with np.errstate(all="ignore"):
            return self.exact / self.total

    def sheet(self) -> Sheet:
        """Return a row for each bound: whose risk it bounds, the exact risk, the bound or the condition that fails."""
        stated = [
            f"{SIGNS[bound.side]} {value.total:.4g}" if value.applies else f"needs {value.reasons[0]}"
            for bound, value in zip(self.bounds, self.values, strict=True)
        ]
        # One bound of the catalogue is on another schedule than a constant one, that of Wu et al. 2022.
        schedules = ["" if bound.algorithm.schedule.flat else ", γ halved ten times" for bound in self.bounds]
        iterates = [bound.iterate + schedule for bound, schedule in zip(self.bounds, schedules, strict=True)]
        quantities = [
            Quantity("name", "bound", [bound.name for bound in self.bounds]),
            Quantity("iterate", "of the", iterates),
            Quantity("risk", "exact risk", self.exact),
            Quantity("bound", "bound", self.total),
            Quantity("", "bound on it", stated),
            Quantity("ratio", "ratio", self.ratio),
            Quantity("", "exact/bound", np.where(self.applies, self.ratio, np.nan)),
            Quantity("standing", "standing", [bound.standing for bound in self.bounds]),
            Quantity("", "constants", [CONSTANTS[bound.standing] for bound in self.bounds]),
            Quantity("side", "side", [bound.side for bound in self.bounds]),
            Quantity("source", "source", [bound.source for bound in self.bounds]),
            Quantity("applies", "applies", self.applies),
            Quantity("broken", "broken", [list(value.reasons) for value in self.values]),
        ]
        hidden = "bound", "ratio", "standing", "side", "source", "applies", "broken"
        return Sheet(self.title, [Table(quantities, "bounds", hidden=hidden)], settings=self.setting)


def at_setting(
    problem: AbstractProblem, *, batch_size: float, learning_rate: float, num_samples: float
) -> BoundsAtSetting:
    """Return every published bound at one setting, beside the exact risk of the algorithm that it is about.

    Example:
        >>> import sgdtheory as st
        >>> problem = st.LeastSquares([1.0, 0.5], [1.0, 1.0], noise_variance=1.0)
        >>> found = st.bounds.at_setting(problem, batch_size=1, learning_rate=0.1, num_samples=1e4)
        >>> for bound, value, ratio in zip(found.bounds[:2], found.values, found.ratio):
        ...     print(f"{bound.name}: {value.total:.4f}, exact/bound {ratio:.3f}")
        bach_2024: 0.1530, exact/bound 0.002
        bach_moulines_2013: 0.0080, exact/bound 0.029

    Args:
        problem: PowerLaw, LeastSquares or your own AbstractProblem.
        batch_size: B, a whole number ≥ 1.
        learning_rate: γ > 0, in units of 1/λ.
        num_samples: D ≥ B.

    Returns:
        BoundsAtSetting, whose `plot()` draws each bound relative to the exact risk.

    Raises:
        ValueError: an argument outside its range, or several values of one.
    """
    setting: dict[str, Any] = {"batch_size": batch_size, "learning_rate": learning_rate, "num_samples": num_samples}
    for name, value in setting.items():
        if np.ndim(value):
            raise ValueError(f"{name} must be one value for a table of bounds, got {np.size(value)}; call it for each")
    bounds = tuple(catalogue())
    algorithms = {bound.algorithm for bound in bounds}
    risks = {each: excess_risk(problem, **setting, algorithm=each).total for each in algorithms}
    values = tuple(bound(problem, **setting) for bound in bounds)
    return BoundsAtSetting(bounds, values, np.array([risks[bound.algorithm] for bound in bounds]), setting)
