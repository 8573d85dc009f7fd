"""The batch size that attains the least risk with D samples: 1, one that resonates, or one of a few steps.

With small steps only γ/B matters, and B = 1 is best or so close to it that little is gained. But a large batch can use
what a small one cannot: near the stability edge of gradient descent the leading direction overshoots, q ≈ −1, and after
an even number of steps its bias `s_1 [(1 − q^n)/(nγλ_1)]²` cancels. Where that direction holds most of the bias
(b > 2a+1, or one strong direction before many weak ones) the least risk may be attained there, at B ≫ 1. And where
noise outweighs the signal, so that γλ_1 ≪ 1, the variance of n steps is less by 1/(2n) than that of many.

n steps do best with the largest B that they allow. So `ρ(n) = min_γ Δ(D/n, γ, n)`, B not rounded, is a lower bound for
every whole B with n steps, and smooth in n but for resonance: batch sizes are looked at only where it is below what is
attained already.
"""

import numpy as np
from scipy.interpolate import PchipInterpolator

from sgdtheory.critical.learning_rate import RESONANT, tune
from sgdtheory.critical.step_search import steps_bound, whole_numbers
from sgdtheory.theory import Problem

EVERY_BATCH = 400  # up to this many samples every batch size is looked at
EVERY_STEPS = 40  # as is every number of steps up to this one
SMALLEST = np.arange(1.0, 6.0)  # batch sizes that are always looked at
PER_DECADE = 1.5, 5.0  # numbers of steps at which ρ is computed first: in general, and where they may resonate
ROUNDS = 5  # of halving about minima of ρ
NEAR = 0.02  # relative: a minimum of ρ this little above what is attained is looked into
MOST_LISTED = 1e5  # batch sizes that are ranked
MOST_TRIED = 64  # batch sizes that are tuned, the most promising of them
LESS_DATA = 0.9  # of the samples, to see what samples are worth
SAME = 1e-8  # relative: a batch size that gains less than this over B = 1 is not preferred


def optimal_batch_size(problem: Problem, samples: float) -> tuple[float, float, float]:
    """B_opt, its best γ, and `R_opt(D) = min_B min_γ Δ(B, γ, D)` (THEORY.md T12).

    Every B for D ≤ 400; otherwise the smallest, those of at most 40 steps, and of those that ρ leaves a chance the
    64 most promising.
    """
    tried = _Tried(problem, samples)
    if samples <= EVERY_BATCH:
        tried.add(np.arange(1.0, np.floor(samples) + 1))
    else:
        tried.add(SMALLEST)
        fewest = max(steps_bound(problem, tried.risk[0], np.floor(samples)), 2.0)
        tried.add(np.floor(samples / whole_numbers(fewest, EVERY_STEPS)))
        most = tried.rate[0] * samples * problem.largest_eigenvalue  # for B with γ = 2/λ_1 it is half of them
        tried.add(_promising(_Relaxed(problem, samples, fewest, most), tried.risk.min()))
    return tried.best()


class _Tried:
    """Whole batch sizes, with the best γ and its risk for each. Arrays (K,), B = 1 first."""

    def __init__(self, problem: Problem, samples: float) -> None:
        self.problem, self.samples = problem, samples
        self.batch, self.rate, self.risk = np.empty((3, 0))

    def add(self, batch: np.ndarray) -> None:
        """Tune these batch sizes too."""
        batch = np.setdiff1d(batch, self.batch)
        if batch.size:
            tuned = tune(self.problem, batch, np.floor(self.samples / batch))
            self.batch, self.rate = np.append(self.batch, batch), np.append(self.rate, tuned.rate)
            self.risk = np.append(self.risk, tuned.risk)

    def best(self) -> tuple[float, float, float]:
        """B, γ and risk of the least one."""
        k = int(np.argmin(self.risk)) if self.risk.min() < self.risk[0] * (1 - SAME) else 0
        return float(self.batch[k]), float(self.rate[k]), float(self.risk[k])


class _Relaxed:
    """ρ(n) at increasing numbers of steps n, (K,) each: above `EVERY_STEPS`, and even where steps may resonate."""

    def __init__(self, problem: Problem, samples: float, fewest: float, most: float) -> None:
        self.problem, self.samples = problem, samples
        first = max(fewest, EVERY_STEPS + 1.0)
        self.resonant = np.sqrt(RESONANT * samples)  # n ≤ 4B
        smooth = _spaced(first, np.floor(samples), PER_DECADE[0])
        self.steps = self._allowed(np.append(smooth, _spaced(first, min(most, self.resonant), PER_DECADE[1])))
        self.risk = self._at(self.steps)

    def _allowed(self, steps: np.ndarray) -> np.ndarray:
        """Whole numbers near these, even where steps may resonate."""
        even = 2 * np.round(steps / 2)
        return np.unique(np.where(even <= self.resonant, even, np.minimum(np.round(steps), np.floor(self.samples))))

    def _at(self, steps: np.ndarray, share: float = 1.0) -> np.ndarray:
        return tune(self.problem, share * self.samples / steps, steps).risk

    def refine(self, attained: float) -> None:
        """Halve the intervals about every minimum that may be below what is attained."""
        risk, low = self.risk, attained * (1 + NEAR)
        k = 1 + np.flatnonzero((risk[1:-1] <= risk[:-2]) & (risk[1:-1] <= risk[2:]) & (risk[1:-1] < low))
        middle = np.sqrt(np.append(self.steps[k - 1] * self.steps[k], self.steps[k] * self.steps[k + 1]))
        new = np.setdiff1d(self._allowed(middle), self.steps)
        if new.size:
            order = np.argsort(steps := np.append(self.steps, new))
            self.steps, self.risk = steps[order], np.append(risk, self._at(new))[order]

    def worth_of_samples(self) -> float:
        """−d log ρ/d log D at the least ρ."""
        k = int(np.argmin(self.risk))
        return float(np.log(self._at(self.steps[[k]], LESS_DATA)[0] / self.risk[k]) / -np.log(LESS_DATA))

    def estimate(self, batch: np.ndarray) -> np.ndarray:
        """(K,) the risk that whole batch sizes will attain: ρ between the numbers of steps, and samples left over."""
        steps = np.floor(self.samples / batch)
        within = np.clip(steps, self.steps[0], self.steps[-1])
        log_risk = PchipInterpolator(np.log(self.steps), np.log(self.risk))(np.log(within))
        return np.exp(log_risk + self.worth_of_samples() * np.log(self.samples / (steps * batch)))


def _promising(relaxed: _Relaxed, attained: float) -> np.ndarray:
    """Whole batch sizes that may attain less than what is attained, the most promising first."""
    if relaxed.steps.size < 2:
        return np.floor(relaxed.samples / relaxed.steps)
    for _ in range(ROUNDS):
        relaxed.refine(attained)
    chance = relaxed.risk < attained * (1 - SAME)
    between = np.flatnonzero(chance[:-1] | chance[1:])
    if not between.size:
        return np.empty(0)
    ends = zip(relaxed.steps[between], relaxed.steps[between + 1], strict=True)
    batch = np.unique(np.concatenate([_batches(relaxed, *pair) for pair in ends]))
    return batch[np.argsort(relaxed.estimate(batch))[:MOST_TRIED]]


def _batches(relaxed: _Relaxed, low: float, high: float) -> np.ndarray:
    """Whole batch sizes with `low` to `high` steps, that waste as few samples as can be: at most `MOST_LISTED`."""
    samples = relaxed.samples
    if high - low <= samples / low - samples / high:  # fewer numbers of steps than batch sizes
        steps = np.unique(np.round(np.linspace(low, high, int(min(high - low + 1, MOST_LISTED)))))
        return np.floor(samples / (steps if low > relaxed.resonant else 2 * np.unique(np.round(steps / 2))))
    first, last = np.floor(samples / high), np.floor(samples / low)
    return np.unique(np.round(np.linspace(first, last, int(min(last - first + 1, MOST_LISTED)))))


def _spaced(low: float, high: float, per_decade: float) -> np.ndarray:
    """Numbers from low to high, evenly in logs; none if low is above high."""
    return np.geomspace(low, high, int(np.log10(high / low) * per_decade) + 2) if low <= high else np.empty(0)
