"""A power of the sum of learning rates."""

from collections.abc import Mapping, Sequence

import numpy as np

from sgdtheory.curves.laws.law import AbstractLaw, Number
from sgdtheory.curves.loss_curve import LossCurve
from sgdtheory.curves.panels import jumps


def sums_of_rates(curve: LossCurve) -> np.ndarray:
    """(K,) `Σ_{s<t} γ_s` at the rows of a curve: warm-up, trapezoids between rows; a rate is held until it jumps."""
    first = curve.learning_rate[0] * (curve.step[0] - curve.warmup / 2)
    here = curve.learning_rate[:-1]
    next_ = curve.learning_rate[1:]
    means = np.where(jumps(curve.learning_rate), here, (here + next_) / 2)
    return first + np.append(0, np.cumsum(means * np.diff(curve.step)))


class PowerOfSum(AbstractLaw):
    """`L0 + A S^−α`, S the sum of learning rates: what is left of Chinchilla's law at one model size."""

    numbers = Number("floor", -30, 30), Number("size", -40, 40), Number("exponent", -10, 3)

    def starts(self, curves: Sequence[LossCurve]) -> list[dict[str, float]]:
        """A square root that falls to nine tenths of the least loss."""
        low = min(curve.loss.min() for curve in curves)
        return [{"floor": 0.9 * low, "size": 0.5, "exponent": 0.5}]

    def prepared(self, curves: Sequence[LossCurve]) -> list[np.ndarray]:
        """S of each."""
        return [sums_of_rates(curve) for curve in curves]

    def losses(self, values: Mapping[str, np.ndarray], prepared: list[np.ndarray]) -> list[np.ndarray]:
        """L0 + A S^−α."""
        floor, size, exponent = (values[name][:, None] for name in self.names)
        return [floor + size * sums**-exponent for sums in prepared]
