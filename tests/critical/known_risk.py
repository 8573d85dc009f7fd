"""Tuned risk with a formula in B and n, instead of `TunedRisk`, so that every answer can be listed."""

from collections.abc import Callable
from dataclasses import dataclass

import numpy as np

from sgdtheory.critical.least_risk import LeastRisk
from sgdtheory.critical.rate_search import Tuned


@dataclass
class KnownRisk:
    """A least risk that falls with B.

    Attributes:
        of: the risk, of arrays of B and n.
        first_steps, resonant, oscillating, pattern, plain, workers, initial_risk: as `TunedRisk` has them.
    """

    of: Callable[[np.ndarray, np.ndarray], np.ndarray]
    first_steps: float = 2.0
    resonant: float = 0.0
    oscillating: float = 0.0
    pattern: float = 0.0
    plain: bool = False
    workers: int = 1
    initial_risk: float = 10.0

    def least(self, batch, steps, goal=np.inf, window=None, settled=0.0):
        batch, steps = (np.asarray(values, dtype=float) for values in (batch, steps))
        return Tuned(1 / steps, self.of(batch, steps), 0.1 / steps, 10 / steps)

    def remembered(self):
        """Return it as the searches ask for it."""
        return LeastRisk(self)


def smooth(power, noise):
    """A bias n^−power and a variance noise/(nB)."""
    return KnownRisk(lambda b, n: n**-power + noise / (n * b), plain=True)


def alternating(power, noise):
    """Risk in which an odd n leaves more bias if n ≤ 4B."""

    def of(batch, steps):
        odd = np.where((steps % 2 == 1) & (steps <= 4 * batch), 1.5, 1.0)
        return odd * steps**-power + noise / (steps * batch)

    return KnownRisk(of, resonant=4.0, plain=True)


def oscillating(power, noise, until):
    """The bias oscillates with n, less and less, up to so many steps."""

    def of(batch, steps):
        wave = 1 + 0.8 * np.cos(0.7 * steps) * 1e-6 ** (steps / until)
        return wave * steps**-power + noise / (steps * batch)

    return KnownRisk(of, oscillating=until, first_steps=1.0)


def with_floor(level):
    """With B < 4 a floor is left for ever; one step is good for nothing."""
    return KnownRisk(lambda b, n: n**-1.5 + 1 / (n * b) + np.where(b < 4, level, 0.0), resonant=4.0)


def best_near(number, parity=0.0, depth=1.0):
    """Samples are worth most in n steps for n near a number; odd n may be worse where n ≤ 4B."""

    def of(batch, steps):
        away = (np.log(steps / number) / 2) ** 2
        odd = np.where((steps % 2 == 1) & (steps <= 4 * batch), parity, 0.0)
        return (1 + depth * away / (1 + away) + odd) / (steps * batch)

    return KnownRisk(of, resonant=4.0 if parity else 0.0)


def best_with_longer_tails(number):
    """Averages of half of the iterates: an odd n, whose tail is half an iterate longer, is worth more."""
    other = best_near(number, depth=0.5)
    return KnownRisk(lambda b, n: other.of(b, n) * np.where(n % 2 == 1, 1.0, 1.2), pattern=8.0)
