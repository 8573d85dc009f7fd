"""In the place of `TunedRisk`: a tuned risk that is a formula of B and n, so that every answer can be listed."""

from dataclasses import dataclass

import numpy as np

from sgdtheory.critical.least_risk import Tuned
from sgdtheory.critical.out_of_reach import OutOfReach
from sgdtheory.critical.patterns import StepPatterns


class KnownBound(OutOfReach):
    """A bound that is a formula of n."""

    def __init__(self, bound):
        self.plain = True
        self.bound = bound

    def of_any_rate(self, steps):
        return float(self.bound(steps))


@dataclass
class KnownRisk:
    """risk(B, n) falls with B.

    Attributes:
        of: the risk, of arrays of B and n.
        bound: what n steps leave at least, whatever B; falls with n.
        patterns, workers: as `TunedRisk` has them.
    """

    of: object
    bound: object
    patterns: StepPatterns = StepPatterns()
    workers: int = 1
    initial_risk: float = 10.0
    largest_eigenvalue: float = 1.0

    def least(self, batch, steps):
        batch, steps = (np.asarray(each, dtype=float) for each in (batch, steps))
        return Tuned(1 / steps, self.of(batch, steps), np.full(steps.shape, 0.3))

    def roughly(self, batch, steps, rate=None):
        return self.least(batch, steps)

    def risk(self, batch, rate, steps, tolerance=0.0):
        return self.of(batch, steps)

    @property
    def out_of_reach(self):
        return KnownBound(self.bound)


def smooth(power, noise):
    """A bias n^−power and a variance noise/(nB)."""
    return KnownRisk(lambda b, n: n**-power + noise / (n * b), lambda n: n**-power)


def alternating(power, noise):
    """Where n ≤ 4B an odd n leaves more bias."""
    odd = lambda b, n: np.where((n % 2 == 1) & (n <= 4 * b), 1.5, 1.0)  # noqa: E731
    return KnownRisk(
        lambda b, n: odd(b, n) * n**-power + noise / (n * b), lambda n: n**-power, StepPatterns(resonant=4.0)
    )


def swinging(power, noise, until):
    """The bias swings with n, less and less, up to so many steps."""
    wave = lambda n: 1 + 0.8 * np.cos(0.7 * n) * 1e-6 ** (n / until)  # noqa: E731
    return KnownRisk(
        lambda b, n: wave(n) * n**-power + noise / (n * b),
        lambda n: 0.2 * n**-power,
        StepPatterns(rippling=until, restless=until, first_steps=1.0),
    )


def with_floor(level):
    """With B < 4 something is left for ever; one step is good for nothing."""
    left = lambda b: np.where(b < 4, level, 0.0)  # noqa: E731
    return KnownRisk(lambda b, n: n**-1.5 + 1 / (n * b) + left(b), lambda n: n**-1.5, StepPatterns(resonant=4.0))
