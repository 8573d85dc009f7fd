"""Laws of loss curves: the loss along a run as a function of a few numbers."""

from abc import ABC, abstractmethod
from collections.abc import Mapping, Sequence
from typing import Any, NamedTuple

import numpy as np

from sgdtheory.curves.loss_curve import LossCurve


class Number(NamedTuple):
    """One that is fitted, above `least`, through its coordinate `log(number − least)` from low to high.

    Attributes:
        name: by which `values` and the fit's `numbers` have it.
        low, high: ends of the coordinate.
        least: what the number stays above, in its own unit.
    """

    name: str
    low: float
    high: float
    least: float = 0.0


class AbstractLaw(ABC):
    """The loss along runs, from their learning rates (and batch sizes): derive from it, and say which numbers and how.

    `fit_law` fits the numbers to loss curves, robustly, through coordinates: the logs of numbers, so that they stay
    positive and steps are relative.

    Example:
        Chinchilla's law at one model size, in place of data the number of steps:

        >>> import sgdtheory as st
        >>> class PowerOfSteps(st.curves.AbstractLaw):
        ...     numbers = [st.curves.Number(name, -20, 20) for name in ("floor", "size", "exponent")]
        ...     def starts(self, curves):
        ...         return [{"floor": 2.0, "size": 10.0, "exponent": 0.5}]
        ...     def losses(self, values, curves):
        ...         floor, size, exponent = (values[name][:, None] for name in ("floor", "size", "exponent"))
        ...         return [floor + size * curve.step**-exponent for curve in curves]
        >>> found = st.curves.fit_law(st.example_loss_curves("25M")["wsdcon_18"], PowerOfSteps())
        >>> print(f"{found.numbers['floor'].value:.1f}")
        3.2
    """

    numbers: Sequence[Number]

    @abstractmethod
    def starts(self, curves: Sequence[LossCurve]) -> list[dict[str, float]]:
        """Values of the numbers from which the fit starts."""

    @abstractmethod
    def losses(self, values: Mapping[str, np.ndarray], prepared: Any, /) -> list[np.ndarray]:
        """(Q, K) losses at the rows of each curve, for Q values (Q,) of each number; nan and inf are far off."""

    def prepared(self, curves: Sequence[LossCurve]) -> Any:
        """Compute once what does not depend on the numbers; by default these are the curves themselves."""
        return curves

    def prepared_beside(self, curves: Sequence[LossCurve], fitted: Any) -> Any:
        """Prepare curves to predict, in the units of the fitted curves, whose preparation is `fitted`."""
        return self.prepared(curves)

    # Final: what a fit moves.

    @property
    def names(self) -> tuple[str, ...]:
        """The names of the numbers."""
        return tuple(number.name for number in self.numbers)

    @property
    def bounds(self) -> tuple[np.ndarray, np.ndarray]:
        """(P,) ends of the coordinates' ranges."""
        low, high = np.array([(number.low, number.high) for number in self.numbers]).T
        return low, high

    def coordinates(self, values: Mapping[str, float]) -> np.ndarray:
        """(P,) logs of the numbers, of what they are above their least ones."""
        return np.log([values[number.name] - number.least for number in self.numbers])

    def values(self, coordinates: np.ndarray) -> dict[str, np.ndarray]:
        """The numbers, (Q,) each, of coordinates (Q, P)."""
        columns = zip(self.numbers, np.exp(coordinates).T, strict=True)
        return {number.name: number.least + column for number, column in columns}
