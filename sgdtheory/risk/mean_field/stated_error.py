"""Propagation of a closure's errors to the end of a run (THEORY.md T37).

A step multiplies a direction's mean a by e^−k and moves its variance r by −2kr and by a scatter. Where the pull k is
wrong by the relative error ε and the scatter by ε', to first order in both, the relative error ρ of a² and the error V
of r become

    ρ ← ρ + 2kε,    V ← e^{−2k} V + (1 − e^{−2k}) ε r + ε' scatter,    ε = closure's + ½ Σ_j (ρ_j a_j² + V_j)/T + own,

as the pull is ∝ T^{−½}: fast directions forget, slow ones carry what they were moved by while T was wrong. `own` is
how the pull follows the direction's own a² and r. Errors of all directions and steps are added up as if they had one
sign. An average of iterates has the mean error of their means and, weighed by r, the mean of V/r.

T also differs from one replica to another, and a closure has one T for all, so that some replicas lag behind (`Lag`). A
replica with a larger T is pulled less, so that its T stays larger. Until it catches up it is where others have been:
its a_i is that of an earlier value of the clock τ = Σ γ_t. The pull is ∝ T^{−½}, and so the clock of a direction that
sees relative fluctuations of T with the standard deviation √q_i is late by

    Δ_i ξ,    Δ_i = ½ Σ_t γ_t √q_i(t),    ξ ~ N(0, 1),

if they last. Where a_i² falls slowly this changes E a_i² little, to second order in Δ_i; where it falls by several
orders of magnitude within Δ_i, the mean is that of few replicas, and the closure's a_i² says nothing about it.
"""

from typing import NamedTuple

import numpy as np
from numpy.polynomial.legendre import leggauss

from sgdtheory.risk.mean_field.closure import Closure
from sgdtheory.risk.mean_field.ensemble import TINY

FARTHEST = 5.0  # The mean over replicas takes ξ up to this: one replica in a million is farther.
LAG_NODES = 12  # The Gauss–Legendre rule for ξ from 0 to `FARTHEST` has this many nodes.
SMALLEST_SQUARE = 1e-300  # A smaller a² counts as this in logarithms.
# Exponents are cut at this value: e^700 is within the range of a float.
LARGEST_EXPONENT = 700.0


def _rule() -> tuple[np.ndarray, np.ndarray]:
    nodes, weights = leggauss(LAG_NODES)
    nodes = FARTHEST * (nodes + 1) / 2
    return nodes, FARTHEST / 2 * weights * np.exp(-(nodes**2) / 2) / np.sqrt(2 * np.pi)


NODES, WEIGHTS = _rule()


class Lag(NamedTuple):
    """History of S runs of K directions, from which the excess of lagging replicas is computed.

    Attributes:
        clock: (L,) τ at the L updates so far, in units of the first run's γ.
        square: (L, S, K) log a² at these updates.
        delay: (S, K) Δ in the same units.
        past: (S, K) mean of `excess` over the averaged steps.
        count: weight of the averaged steps.
    """

    clock: np.ndarray
    square: np.ndarray
    delay: np.ndarray
    past: np.ndarray
    count: float

    @classmethod
    def at_start(cls, square: np.ndarray) -> "Lag":
        """Return the history at the start, where no replica lags, from a² (S, K)."""
        log = np.log(np.maximum(square, SMALLEST_SQUARE))
        return cls(np.zeros(1), log[None], np.zeros_like(square), np.zeros_like(square), 0.0)

    def moved(self, square: np.ndarray, spread: np.ndarray, advance: float, steps: float, kept: float | None) -> "Lag":
        """Return the history after more steps.

        Args:
            square: (S, K) a² after them.
            spread: (S, K) √q during these steps.
            advance: increase of the clock.
            steps: number of steps.
            kept: 1 − forgetting of the average in a step, None where nothing is averaged.
        """
        log = np.log(np.maximum(square, SMALLEST_SQUARE))
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
        """Return E a² − a², (S, K), where replicas that are ahead have the log a² of an equal fall from now on."""
        now = self.square[-1]
        if self.clock.size == 1:
            return np.zeros_like(now)
        earlier = np.maximum(self.clock[-1] - NODES[:, None, None] * self.delay, 0.0)
        above = np.clip(np.searchsorted(self.clock, earlier), 1, self.clock.size - 1)
        low, high = (np.take_along_axis(self.square, index, axis=0) for index in (above - 1, above))
        width = np.maximum(self.clock[above] - self.clock[above - 1], np.finfo(float).tiny)
        share = np.clip((earlier - self.clock[above - 1]) / width, 0.0, 1.0)
        behind = np.clip((1 - share) * low + share * high - now, 0.0, LARGEST_EXPONENT)
        grown = np.exp(now + behind) * -np.expm1(-behind)  # a² (e^x − 1)
        less = np.exp(now) * -np.expm1(-behind)
        return np.tensordot(WEIGHTS, np.maximum(grown - less, 0.0), axes=1)

    def of(self, weights: np.ndarray, averages: bool) -> np.ndarray:
        """Return the largest underestimate of the risk, (S,); weights are multiplicities of directions."""
        return (self.past if averages else self.excess()) @ weights


FEEDBACK = 0.5  # The pull of signs and of normalized steps is ∝ T to minus this power.
# The effect of T's relative error on the pull is at most this: nothing is known beyond it, and numbers would overflow.
MOST_FEEDBACK = 2.5
# A mean that has decayed has this error over ε√r. With 2 in its place, 10% more of signs with momentum state inf; with
# 0, averages of signs without noise are up to 14 times farther off than is stated (3 of 891 settings).
LATTICE = 0.6
LARGEST = 1e6  # The relative error of a mean's square is at most this, because numbers would overflow.
# The means of coupled coordinates have this error over that of their variances (measured by benchmarks/equivalents.py).
ERROR_OF_MEANS = 0.5


class ErrorTerms(NamedTuple):
    """The terms of S runs on which errors depend, before or after steps: (S, K) each but T (S,).

    Attributes:
        square: a².
        variance: r.
        decay: k.
        closure: ε and ε' of a step, and the derivatives of ε by a² and r.
        loss: T.
        fluctuation: q.
        rate: γ of the first run.
        pulled: share of the pull by gradients in k, where weight decay has the rest; None without weight decay.
    """

    square: np.ndarray
    variance: np.ndarray
    decay: np.ndarray
    closure: Closure
    loss: np.ndarray
    fluctuation: np.ndarray | float = 0.0
    rate: float = 0.0
    pulled: np.ndarray | None = None


class Past(NamedTuple):
    """Sums over the averaged steps with the weights of the average, (S, K) each.

    Attributes:
        mean: sum of |a|ρ.
        variance, spread: sums of V and of r.
        count: sum of the weights.
    """

    mean: np.ndarray
    variance: np.ndarray
    spread: np.ndarray
    count: float = 0.0


class Carried(NamedTuple):
    """Errors of all directions that are carried on: ρ and V/r, (S, K) each, and their sums over averaged steps."""

    mean: np.ndarray
    variance: np.ndarray
    past: Past

    @classmethod
    def at_start(cls, shape: tuple[int, ...]) -> "Carried":
        """Return the errors at the start of S runs of K directions, which are 0."""
        nothing = np.zeros(shape)
        return cls(nothing, nothing, Past(nothing, nothing, nothing))

    def moved(
        self, before: ErrorTerms, after: ErrorTerms, steps: float, weights: np.ndarray, kept: float | None
    ) -> "Carried":
        """Return the errors after more steps.

        The closure of a single step is that of the state before it. The larger closure of the two ends counts for
        several steps.

        Args:
            before: terms before the first step.
            after: terms after the last one.
            steps: number of steps.
            weights: (K,) multiplicities of the directions.
            kept: 1 − forgetting of the average in a step, None where nothing is averaged.
        """
        closure = before.closure
        decay = before.decay
        if steps > 1:
            closure = Closure(*map(np.maximum, closure, after.closure))
            decay = (decay + after.decay) / 2
        way = decay * steps
        stays = np.exp(-np.minimum(2 * way, LARGEST_EXPONENT))
        wrong = self.mean * before.square + self.variance * before.variance
        back = FEEDBACK * np.minimum(wrong @ weights / np.maximum(before.loss, TINY), MOST_FEEDBACK / FEEDBACK)
        own = before.closure.by_mean * self.mean + before.closure.by_variance * self.variance
        pull = closure.pull + back[:, None] + np.minimum(own, MOST_FEEDBACK)
        if before.pulled is not None:
            pull = before.pulled * pull
        added = np.maximum(after.variance - stays * before.variance, 0.0)
        error = stays * self.variance * before.variance + (1 - stays) * pull * after.variance
        error = error + closure.scatter * added
        mean = self.mean + 2 * way * pull
        if before.pulled is not None:
            # The mean is what is left of the mean before, and what weight decay has restored, as an integral (T55).
            left = np.minimum(np.sqrt(stays * before.square / np.maximum(after.square, TINY)), 1.0)
            bounded = np.clip(way, TINY, LARGEST_EXPONENT)
            mean = left * mean + 2 * (1 - left) * (1 - bounded / np.expm1(bounded)) * pull
        mean = np.minimum(mean, LARGEST)
        later = Carried(mean, error / np.maximum(after.variance, TINY), self.past)
        if kept is None:
            return later
        return later._replace(past=self._averaged(later, before, after, closure.pull, steps, kept))

    def _averaged(
        self, later: "Carried", before: ErrorTerms, after: ErrorTerms, pull: np.ndarray, steps: float, kept: float
    ) -> Past:
        """Return the sums with those of these steps added, by the trapezoidal rule.

        A mean that has decayed stays wrong by a share of √r where the pull is wrong, since u stays on the lattice of
        its steps.
        """
        left = kept**steps
        new = steps if kept == 1 else (1 - left) / (1 - kept)

        def joined(old: np.ndarray, first: np.ndarray, last: np.ndarray) -> np.ndarray:
            return left * old + new * (first + last) / 2

        def wrong(look: ErrorTerms, mean: np.ndarray) -> np.ndarray:
            return np.sqrt(look.square) * mean + LATTICE * pull * np.sqrt(look.variance)

        return Past(
            joined(self.past.mean, wrong(before, self.mean), wrong(after, later.mean)),
            joined(self.past.variance, before.variance * self.variance, after.variance * later.variance),
            joined(self.past.spread, before.variance, after.variance),
            left * self.past.count + new,
        )

    def of(self, means: np.ndarray, variances: np.ndarray, weights: np.ndarray, averages: bool) -> np.ndarray:
        """Return the error (S,) of a risk with these parts (S, K).

        Oscillating means cancel in an average S, but their errors may not: S² is wrong by `|S| mean(|a|ρ)`.
        """
        past = self.past
        if not averages or past.count == 0:
            return (self.mean * means + self.variance * variances).sum(axis=-1)
        wrong = np.sqrt(weights * means) * past.mean / past.count
        variance = np.divide(past.variance, past.spread, out=self.variance.copy(), where=past.spread > 0)
        return (wrong + variance * variances).sum(axis=-1)


class FieldErrors(NamedTuple):
    """Errors of the closure and of lagging replicas; `weights` (K,) are the multiplicities of the directions."""

    carried: Carried
    lag: Lag
    weights: np.ndarray

    def moved(self, before: ErrorTerms, after: ErrorTerms, steps: float, kept: float | None) -> "FieldErrors":
        """Return the errors after more steps; `kept` is 1 − forgetting of the average, None if there is none."""
        carried = self.carried.moved(before, after, steps, self.weights, kept)
        spread = np.sqrt(before.fluctuation)
        advance = before.rate
        if steps > 1:
            spread = (spread + np.sqrt(after.fluctuation)) / 2
            advance = (advance + after.rate) / 2 * steps
        lag = self.lag.moved(after.square, spread, advance, steps, kept)
        return self._replace(carried=carried, lag=lag)

    def of(self, means: np.ndarray, variances: np.ndarray, averages: bool) -> np.ndarray:
        """Return the error (S,) of a risk with these parts (S, K)."""
        return self.carried.of(means, variances, self.weights, averages) + self.lag.of(self.weights, averages)


class LargestErrors(NamedTuple):
    """Relative errors (d,) of the variances of coupled coordinates: each keeps its largest error of the run."""

    error: np.ndarray

    def of(self, means: np.ndarray, variances: np.ndarray, averages: bool) -> np.ndarray:
        """Return the error (1,) of a risk with these parts (d,)."""
        return np.atleast_1d((self.error * (variances + ERROR_OF_MEANS * means)).sum())
