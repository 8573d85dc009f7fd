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

from sgdtheory.critical.step_search import steps_bound, whole_numbers
from sgdtheory.critical.thresholds import (
    EVERY_BATCH,
    EVERY_STEPS_OF_OPTIMUM,
    LESS_DATA,
    MOST_LISTED,
    MOST_TRIED,
    RELAXED_NEAR,
    RELAXED_PER_DECADE,
    RELAXED_ROUNDS,
    RESONANT,
    RESONANT_PER_DECADE,
    SAME_RISK,
    SMALLEST_BATCHES,
)
from sgdtheory.critical.tuned_risk import TunedRisk


def optimal_batch_size(tuned: TunedRisk, samples: float) -> tuple[float, float, float]:
    """B_opt, its best γ, and `R_opt(D) = min_B min_γ Δ(B, γ, D)` (THEORY.md T12).

    Every B for D ≤ 400; otherwise the smallest, those of at most 40 steps, and of those that ρ leaves a chance the
    64 most promising.
    """
    tried = _Tried(tuned, samples)
    if samples <= EVERY_BATCH:
        tried.add(np.arange(1.0, np.floor(samples) + 1))
    else:
        tried.add(SMALLEST_BATCHES)
        fewest = max(steps_bound(tuned, tried.risk[0], np.floor(samples)), 2.0)
        tried.add(np.floor(samples / whole_numbers(fewest, EVERY_STEPS_OF_OPTIMUM)))
        most = tried.rate[0] * samples * tuned.largest_eigenvalue  # for B with γ = 2/λ_1 it is half of them
        tried.add(_promising(_Relaxed(tuned, samples, fewest, most), tried.risk.min()))
    return tried.best()


class _Tried:
    """Whole batch sizes, with the best γ and its risk for each. Arrays (K,), B = 1 first."""

    def __init__(self, tuned: TunedRisk, samples: float) -> None:
        self.tuned, self.samples = tuned, samples
        self.batch, self.rate, self.risk = np.empty((3, 0))

    def add(self, batch: np.ndarray) -> None:
        """Tune these batch sizes too."""
        batch = np.setdiff1d(batch, self.batch)
        if batch.size:
            best = self.tuned.least(batch, np.floor(self.samples / batch))
            self.batch, self.rate = np.append(self.batch, batch), np.append(self.rate, best.rate)
            self.risk = np.append(self.risk, best.risk)

    def best(self) -> tuple[float, float, float]:
        """B, γ and risk of the least one."""
        k = int(np.argmin(self.risk)) if self.risk.min() < self.risk[0] * (1 - SAME_RISK) else 0
        return float(self.batch[k]), float(self.rate[k]), float(self.risk[k])


class _Relaxed:
    """ρ(n) at increasing n, (K,) each: beyond those that are all tried, and even where steps may resonate."""

    def __init__(self, tuned: TunedRisk, samples: float, fewest: float, most: float) -> None:
        self.tuned, self.samples = tuned, samples
        first = max(fewest, EVERY_STEPS_OF_OPTIMUM + 1.0)
        self.resonant = np.sqrt(RESONANT * samples)  # n ≤ 4B
        smooth = _spaced(first, np.floor(samples), RELAXED_PER_DECADE)
        self.steps = self._allowed(np.append(smooth, _spaced(first, min(most, self.resonant), RESONANT_PER_DECADE)))
        self.risk = self._at(self.steps)

    def _allowed(self, steps: np.ndarray) -> np.ndarray:
        """Whole numbers near these, even where steps may resonate."""
        even = 2 * np.round(steps / 2)
        return np.unique(np.where(even <= self.resonant, even, np.minimum(np.round(steps), np.floor(self.samples))))

    def _at(self, steps: np.ndarray, share: float = 1.0) -> np.ndarray:
        return self.tuned.least(share * self.samples / steps, steps).risk

    def refine(self, attained: float) -> None:
        """Halve the intervals about every minimum that may be below what is attained."""
        risk, low = self.risk, attained * (1 + RELAXED_NEAR)
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
    for _ in range(RELAXED_ROUNDS):
        relaxed.refine(attained)
    chance = relaxed.risk < attained * (1 - SAME_RISK)
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
