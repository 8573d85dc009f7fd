"""All published bounds, and the best of them at a setting."""

import functools
import importlib
import pkgutil
from dataclasses import dataclass
from typing import Any, Generic, overload

import numpy as np

from sgdtheory._common.arguments import Values, settings_arrays
from sgdtheory._common.array_like import ArrayLike
from sgdtheory._common.sheets import Quantity, Sheet, Table
from sgdtheory._common.shown import Shown
from sgdtheory.algorithms import DEFAULT, Algorithm
from sgdtheory.bounds import papers
from sgdtheory.bounds.published import PublishedBound
from sgdtheory.bounds.theorem_7 import zhang_2024
from sgdtheory.problems import AbstractProblem


class Catalogue(tuple[PublishedBound, ...], Shown):
    """Published bounds, which print as a table."""

    def sheet(self) -> Sheet:
        """A row a bound: what it is on, how far its statement could be read, and where it stands."""
        quantities = [
            Quantity("name", "name", [each.name for each in self]),
            Quantity("side", "side", [each.side for each in self]),
            Quantity("iterate", "on the risk of the", [each.iterate for each in self]),
            Quantity("standing", "constants", [each.standing for each in self]),
            Quantity("source", "source", [each.source for each in self]),
        ]
        return Sheet("published bounds", [Table(quantities, "bounds")])


@functools.cache
def catalogue() -> Catalogue:
    """Every published bound, in the order of their names: one for each theorem, a file for each paper.

    Example:
        >>> import sgdtheory as st
        >>> for bound in st.bounds.catalogue()[:1]:
        ...     print(bound.name, "|", bound.source, "|", bound.read)
        bach_moulines_2013 | Bach & Moulines, NeurIPS 2013 (arXiv 1306.2119), Theorem 1 | in full
    """
    found = {zhang_2024.name: zhang_2024}
    for module in pkgutil.iter_modules(papers.__path__):
        named = vars(importlib.import_module(f"{papers.__name__}.{module.name}"))
        found |= {bound.name: bound for bound in named.values() if isinstance(bound, PublishedBound)}
    return Catalogue(found[name] for name in sorted(found))


@dataclass(frozen=True)
class Best(Shown, Generic[Values]):
    """The tightest published bounds at settings, arrays of their broadcast shape.

    Attributes:
        lower: the largest of the lower bounds that apply; 0 where none does.
        lower_name: whose, "" where none does.
        upper: the smallest of the upper bounds that apply; inf where none does.
        upper_name: whose, "" where none does.
    """

    lower: Values
    lower_name: Any
    upper: Values
    upper_name: Any

    def sheet(self) -> Sheet:
        """Both bounds and whose they are."""
        quantities = [
            Quantity("lower", "lower", self.lower),
            Quantity("lower_name", "whose", self.lower_name),
            Quantity("upper", "upper", self.upper),
            Quantity("upper_name", "whose", self.upper_name),
        ]
        return Sheet("tightest published bounds on the excess risk, units of y²", [Table(quantities)])


@overload
def best(
    problem: AbstractProblem,
    *,
    batch_size: float,
    learning_rate: float,
    num_samples: float,
    algorithm: Algorithm = DEFAULT,
    unverified: bool = False,
) -> Best[float]: ...
@overload
def best(
    problem: AbstractProblem,
    *,
    batch_size: ArrayLike,
    learning_rate: ArrayLike,
    num_samples: ArrayLike,
    algorithm: Algorithm = DEFAULT,
    unverified: bool = False,
) -> Best[np.ndarray]: ...
def best(
    problem: AbstractProblem,
    *,
    batch_size: ArrayLike,
    learning_rate: ArrayLike,
    num_samples: ArrayLike,
    algorithm: Algorithm = DEFAULT,
    unverified: bool = False,
) -> Best:
    """Return the tightest published lower and upper bound on the mean excess risk at each setting.

    The bounds are those with explicit constants for this algorithm whose conditions hold at the setting.

    Example:
        >>> import sgdtheory as st
        >>> problem = st.LeastSquares([1.0, 0.5], [1.0, 1.0], noise_variance=1.0)
        >>> setting = {"batch_size": 1, "learning_rate": 0.1, "num_samples": 1e4}
        >>> found = st.bounds.best(problem, **setting)
        >>> print(found.lower <= st.excess_risk(problem, **setting).total <= found.upper)
        True

    Args:
        problem: PowerLaw, LeastSquares or your own AbstractProblem.
        batch_size: B, whole numbers ≥ 1; scalar or array.
        learning_rate: γ > 0, in units of 1/λ; scalar or array.
        num_samples: D ≥ B; scalar or array. The three broadcast like NumPy arrays.
        algorithm: whose risk; theorems with constants are about averaged SGD and the mean of the last half of iterates.
        unverified: whether to take bounds whose constants are not verified against the paper; the lower ones are not.

    Returns:
        Best.

    Raises:
        ValueError: an argument outside its range.
    """
    standings = {"verified", "unverified"} if unverified else {"verified"}
    shape = settings_arrays(batch_size, learning_rate, num_samples)[0].shape
    extremes = {"lower": np.zeros(shape), "upper": np.full(shape, np.inf)}
    names = {side: np.full(shape, "", dtype=object) for side in extremes}
    for bound in catalogue():
        if bound.algorithm != algorithm or bound.standing not in standings:
            continue
        value = bound(problem, batch_size=batch_size, learning_rate=learning_rate, num_samples=num_samples)
        tighter = {"lower": np.greater, "upper": np.less}[bound.side](value.total, extremes[bound.side])
        chosen = value.applies & tighter
        extremes[bound.side] = np.where(chosen, value.total, extremes[bound.side])
        names[bound.side] = np.where(chosen, bound.name, names[bound.side])
    return Best(extremes["lower"][()], names["lower"][()], extremes["upper"][()], names["upper"][()])
