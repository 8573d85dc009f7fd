"""Replicas that lag behind: T differs from one to another, and a closure has one T for all (THEORY.md T37).

A replica with a larger T is pulled less, so that its T stays larger. Until it catches up it is where others have been:
its a_i is that of an earlier value of the clock τ = Σ γ_t. The pull is ∝ T^{−½}, and so the clock of a direction that
sees relative fluctuations of T with the standard deviation √q_i is late by

    Δ_i ξ,    Δ_i = ½ Σ_t γ_t √q_i(t),    ξ ~ N(0, 1),

if they last. Where a_i² falls slowly this changes E a_i² little, to second order in Δ_i; where it falls by several
orders of magnitude within Δ_i, the mean is that of few replicas, and the closure's a_i² says nothing about it.
"""

from typing import NamedTuple

import numpy as np
from numpy.polynomial.legendre import leggauss

FARTHEST = 5.0  # standard deviations: a replica in a million is farther
PLACES = 12  # of ξ: a Gauss–Legendre rule for 0 … FARTHEST
LEAST = 1e-300  # of a²
LONGEST = 700.0  # log of a ratio


def _rule() -> tuple[np.ndarray, np.ndarray]:
    nodes, weights = leggauss(PLACES)
    nodes = FARTHEST * (nodes + 1) / 2
    return nodes, FARTHEST / 2 * weights * np.exp(-(nodes**2) / 2) / np.sqrt(2 * np.pi)


NODES, WEIGHTS = _rule()


class Lag(NamedTuple):
    """History of S runs of K directions, from which the excess of late replicas is computed.

    Attributes:
        clock: (L,) τ at the L looks so far, in units of the first run's γ.
        square: (L, S, K) log a² there.
        delay: (S, K) Δ in the same units.
        past: (S, K) mean, over the steps that are averaged, of `excess`.
        count: how many those are.
    """

    clock: np.ndarray
    square: np.ndarray
    delay: np.ndarray
    past: np.ndarray
    count: float

    @classmethod
    def at_start(cls, square: np.ndarray) -> "Lag":
        """Return the start, at which no replica is late, from a² (S, K)."""
        log = np.log(np.maximum(square, LEAST))
        return cls(np.zeros(1), log[None], np.zeros_like(square), np.zeros_like(square), 0.0)

    def moved(self, square: np.ndarray, spread: np.ndarray, advance: float, steps: float, kept: float | None) -> "Lag":
        """Return the history some steps later.

        Args:
            square: (S, K) a².
            spread: (S, K) √q on the way.
            advance: of the clock.
            steps: how many.
            kept: 1 − forgetting of the average in a step, None where nothing is averaged.
        """
        log = np.log(np.maximum(square, LEAST))
        clock = np.append(self.clock, self.clock[-1] + advance)
        later = self._replace(
            clock=clock, square=np.append(self.square, log[None], axis=0), delay=self.delay + advance * spread / 2
        )
        if kept is None:
            return later
        old = self.count * kept**steps
        new = steps if kept == 1 else (1 - kept**steps) / (1 - kept)
        return later._replace(past=(old * self.past + new * later.excess()) / (old + new), count=old + new)

    def excess(self) -> np.ndarray:
        """Return E a² − a², (S, K): replicas that are ahead are where log a² will be if it falls as it did."""
        now = self.square[-1]
        if self.clock.size == 1:
            return np.zeros_like(now)
        asked = np.maximum(self.clock[-1] - NODES[:, None, None] * self.delay, 0.0)
        above = np.clip(np.searchsorted(self.clock, asked), 1, self.clock.size - 1)
        low, high = (np.take_along_axis(self.square, each, axis=0) for each in (above - 1, above))
        width = np.maximum(self.clock[above] - self.clock[above - 1], np.finfo(float).tiny)
        share = np.clip((asked - self.clock[above - 1]) / width, 0.0, 1.0)
        behind = np.clip((1 - share) * low + share * high - now, 0.0, LONGEST)
        grown = np.exp(now + behind) * -np.expm1(-behind)  # a² (e^x − 1)
        less = np.exp(now) * -np.expm1(-behind)
        return np.tensordot(WEIGHTS, np.maximum(grown - less, 0.0), axes=1)

    def of(self, weights: np.ndarray, averages: bool) -> np.ndarray:
        """Return by how much a risk may be too low, (S,); weights are multiplicities of directions."""
        return (self.past if averages else self.excess()) @ weights
