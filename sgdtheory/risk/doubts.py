"""How errors of a closure travel to the end of a run (THEORY.md T37).

A step multiplies a direction's mean a by e^−k and moves its variance r by −2kr and by a scatter. Where the pull k is
wrong by the relative error ε and the scatter by ε', to first order in both, the relative error ρ of a² and the error V
of r become

    ρ ← ρ + 2kε,    V ← e^{−2k} V + (1 − e^{−2k}) ε r + ε' scatter,    ε = closure's + ½ Σ_j (ρ_j a_j² + V_j)/T,

as the pull is ∝ T^{−½}: fast directions forget, slow ones carry what they were moved by while T was wrong. Errors of
all directions and steps are added up as if they had one sign.
"""

from typing import NamedTuple

import numpy as np

from sgdtheory.risk.lag import Lag

FEEDBACK = 0.5  # power of T in the pull
MOST_FEEDBACK = 2.5  # of T's relative error: beyond, all is lost, and numbers would overflow
LONGEST = 700.0  # exponent of a decay that has ended
LARGEST = 1e6  # relative error of a mean's square, likewise
DOUBT_OF_MEANS = 0.5  # of coupled coordinates, over that of variances, as measured by benchmarks/equivalents.py
TINY = np.finfo(float).tiny


class Look(NamedTuple):
    """What is asked of S runs before or after a number of steps, (S, K) each but T, (S,).

    Attributes:
        square: a².
        variance: r.
        decay: k.
        pull, scatter: ε and ε' of the closure alone.
        loss: T.
        fluctuation: q.
        rate: γ of the first run.
    """

    square: np.ndarray
    variance: np.ndarray
    decay: np.ndarray
    pull: np.ndarray
    scatter: np.ndarray
    loss: np.ndarray
    fluctuation: np.ndarray | float = 0.0
    rate: float = 0.0


class Carried(NamedTuple):
    """Errors of all directions, (S, K) each: ρ, V/r, and the largest of both in the steps that are averaged."""

    mean: np.ndarray
    variance: np.ndarray
    past_mean: np.ndarray
    past_variance: np.ndarray

    def moved(self, before: Look, after: Look, steps: float, weights: np.ndarray, averaged: bool) -> "Carried":
        """Return the errors some steps later, with how many directions each one stands for (K,)."""
        way = (before.decay + after.decay) / 2 * steps
        stays = np.exp(-np.minimum(2 * way, LONGEST))
        wrong = self.mean * before.square + self.variance * before.variance
        back = FEEDBACK * np.minimum(wrong @ weights / np.maximum(before.loss, TINY), MOST_FEEDBACK / FEEDBACK)
        pull = np.maximum(before.pull, after.pull) + back[:, None]
        added = np.maximum(after.variance - stays * before.variance, 0.0)
        error = stays * self.variance * before.variance + (1 - stays) * pull * after.variance
        error = error + np.maximum(before.scatter, after.scatter) * added
        mean = np.minimum(self.mean + 2 * way * pull, LARGEST)
        variance = error / np.maximum(after.variance, TINY)
        if not averaged:
            return Carried(mean, variance, self.past_mean, self.past_variance)
        return Carried(mean, variance, np.maximum(self.past_mean, mean), np.maximum(self.past_variance, variance))

    def of(self, means: np.ndarray, variances: np.ndarray, averages: bool) -> np.ndarray:
        """Return the error (S,) of a risk with these parts (S, K); an average has the largest errors on its way."""
        mean = np.maximum(self.mean, self.past_mean) if averages else self.mean
        variance = np.maximum(self.variance, self.past_variance) if averages else self.variance
        return (mean * means + variance * variances).sum(axis=-1)


class Doubts(NamedTuple):
    """Of directions: errors of the closure, and replicas that lag behind, with how many each one stands for (K,)."""

    carried: Carried
    lag: Lag
    weights: np.ndarray

    def moved(self, before: Look, after: Look, steps: float, kept: float | None) -> "Doubts":
        """Return what is in doubt some steps later; `kept` is 1 − forgetting of the average, None if there is none."""
        carried = self.carried.moved(before, after, steps, self.weights, kept is not None)
        spread = (np.sqrt(before.fluctuation) + np.sqrt(after.fluctuation)) / 2
        lag = self.lag.moved(after.square, spread, (before.rate + after.rate) / 2 * steps, steps, kept)
        return self._replace(carried=carried, lag=lag)

    def of(self, means: np.ndarray, variances: np.ndarray, averages: bool) -> np.ndarray:
        """Return the error (S,) of a risk with these parts (S, K)."""
        return self.carried.of(means, variances, averages) + self.lag.of(self.weights, averages)


class Lasting(NamedTuple):
    """Of coupled coordinates: relative errors (d,) of their variances, which what was in doubt once keeps for ever."""

    error: np.ndarray

    def of(self, means: np.ndarray, variances: np.ndarray, averages: bool) -> np.ndarray:
        """Return the error (1,) of a risk with these parts (d,)."""
        return np.atleast_1d((self.error * (variances + DOUBT_OF_MEANS * means)).sum())
