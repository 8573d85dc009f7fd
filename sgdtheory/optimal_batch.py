"""The batch size that attains the least risk with D samples: 1, or one that resonates.

With small steps only γ/B matters, and B = 1 is best or so close to it that little is gained. But a large batch can use
what a small one cannot: near the stability edge of gradient descent the leading direction overshoots, q ≈ −1, and after
an even number of steps its bias `s_1 [(1 − q^n)/(nγλ_1)]²` cancels. Where that direction holds most of the bias
(b > 2a+1, or one strong direction before many weak ones) the least risk may be attained there, at B ≫ 1.
"""

import numpy as np

from sgdtheory.learning_rate import RESONANT, tune
from sgdtheory.problem import Problem
from sgdtheory.step_search import steps_bound

EVERY_BATCH = 400  # up to this many samples every batch size is looked at
EVERY_STEPS = 40  # as is every number of steps up to this one
PER_DECADE = 1, 5  # batch sizes that are looked at: in general, and where they may resonate
POINTS = 9  # in a round of the refinement
ROUNDS = 5
SAME = 1e-8  # relative: a batch size that gains less than this over B = 1 is not preferred


def optimal_batch_size(problem: Problem, samples: float) -> tuple[float, float, float]:
    """B_opt, its best γ, and `R_opt(D) = min_B min_γ Δ(B, γ, D)` (THEORY.md T12).

    Every B for D ≤ 400; otherwise every B with at most 40 steps that has a chance and a grid, refined about the best.
    """
    batch = np.ones(1)
    tuned = np.array(tune(problem, batch, np.floor(samples / batch)))
    others = _first(problem, samples, *tuned[:2, 0])
    for _ in range(ROUNDS):
        others = np.setdiff1d(others, batch)
        if others.size:
            tuned = np.append(tuned, tune(problem, others, np.floor(samples / others)), axis=1)
            batch = np.append(batch, others)
            order = np.argsort(batch)
            batch, tuned = batch[order], tuned[:, order]
        best = int(np.argmin(tuned[1]))
        if best == 0 or not others.size:
            break
        others = _between(samples, batch[best - 1], batch[min(best + 1, batch.size - 1)])
    best = int(np.argmin(tuned[1])) if tuned[1].min() < tuned[1, 0] * (1 - SAME) else 0
    return float(batch[best]), float(tuned[0, best]), float(tuned[1, best])


def _first(problem: Problem, samples: float, rate: float, risk: float) -> np.ndarray:
    """Batch sizes to begin with; γ and its risk are the best at B = 1."""
    if samples <= EVERY_BATCH:
        return np.arange(1.0, np.floor(samples) + 1)
    fewest = max(steps_bound(problem, risk, np.floor(samples)), 2.0)
    smooth = np.geomspace(1.0, samples / fewest, int(np.log10(samples / fewest) * PER_DECADE[0]) + 2)
    most = np.clip(rate * samples * problem.largest_eigenvalue, fewest, samples)  # γ = 2/λ_1 takes half of them
    even = 2 * np.round(np.geomspace(fewest, most, int(np.log10(most / fewest) * PER_DECADE[1]) + 2) / 2)
    few = np.arange(fewest, min(EVERY_STEPS, samples) + 1)
    steps = np.append(even[even**2 <= RESONANT * samples], few)
    return np.unique(np.floor([*smooth, *(samples / steps)]))


def _between(samples: float, low: float, high: float) -> np.ndarray:
    """Batch sizes between two, that waste as few samples as can be; with even numbers of steps where that matters."""
    steps = np.round(np.geomspace(np.floor(samples / high), np.floor(samples / low), POINTS))
    if steps[0] <= RESONANT * high:
        return np.floor(samples / np.maximum([*(2 * np.round(steps / 2)), *steps], 1.0))
    return np.round(np.geomspace(low, high, POINTS))
