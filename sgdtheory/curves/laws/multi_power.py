"""The multi-power law of loss curves (Luo et al. 2025)."""

from collections.abc import Mapping, Sequence
from typing import NamedTuple

import numpy as np

from sgdtheory.curves.laws.law import AbstractLaw, Number
from sgdtheory.curves.laws.power_of_sum import sums_of_rates
from sgdtheory.curves.loss_curve import LossCurve
from sgdtheory.curves.panels import jumps


class Drops(NamedTuple):
    """Falls of a curve's γ: S (K,), by how much γ falls to each of M rows (M,), γ there, and the sums since, (M, K)."""

    sums: np.ndarray
    falls: np.ndarray
    rate: np.ndarray
    since: np.ndarray


class MultiPowerLaw(AbstractLaw):
    """`L0 + A S^−α − B Σ_k (γ_{k−1} − γ_k) [1 − (1 + C γ_k^−ζ S_k)^−β]`, seven numbers.

    S is the sum of learning rates, S_k that since the rate has fallen to γ_k: each fall gains what a power law of the
    sum after it lets it gain. Rows stand for steps here: what falls between two of
    them falls in the middle, and a jump at the later one.

    Reference:
        Luo et al. 2025 (arXiv 2503.12811), equation 1; the warm-up's sum is part of S.
    """

    numbers = (
        Number("floor", -30, 30),
        Number("size", -40, 40),
        Number("exponent", -10, 3),
        Number("gain", -20, 30),
        Number("speed", -20, 30),
        Number("gain_exponent", -10, 3),
        Number("rate_exponent", -10, 3),
    )

    def starts(self, curves: Sequence[LossCurve]) -> list[dict[str, float]]:
        """About what the paper finds, and with slower gains."""
        low = min(curve.loss.min() for curve in curves)
        begin = {"floor": 0.9 * low, "size": 0.6, "exponent": 0.45, "gain": 500.0}
        both = (0.2, 0.9, 0.55), (2.0, 0.4, 0.5), (0.02, 0.5, 1.0)
        names = "speed", "gain_exponent", "rate_exponent"
        return [begin | dict(zip(names, each, strict=True)) for each in both]

    def prepared(self, curves: Sequence[LossCurve]) -> list[Drops]:
        """Falls of the learning rate between rows, and the sums since them."""
        return [_drops(curve) for curve in curves]

    def losses(self, values: Mapping[str, np.ndarray], prepared: list[Drops]) -> list[np.ndarray]:
        """The law."""
        floor, size, exponent, gain, speed, beta, zeta = (values[name][:, None] for name in self.names)
        found = []
        for sums, falls, rate, since in prepared:
            scaled = (speed * rate**-zeta)[..., None] * since  # (Q, M, K)
            gained = falls @ -np.expm1(-beta[..., None] * np.log1p(scaled))
            found.append(floor + size * sums**-exponent - gain * gained)
        return found


def _drops(curve: LossCurve) -> Drops:
    sums = sums_of_rates(curve)
    rate = curve.learning_rate
    falls = rate[:-1] - rate[1:]
    at = np.flatnonzero(falls != 0)
    where = np.where(jumps(rate)[at], sums[at + 1], (sums[at] + sums[at + 1]) / 2)
    since = np.maximum(sums - where[:, None], 0.0)
    # γ counts as at least 1e-300, since γ^−ζ is infinite where γ falls to 0.
    return Drops(sums, falls[at], np.maximum(rate[at + 1], 1e-300), since)
