"""The batch size that attains the least risk with D samples: 1, one that resonates, or one of a few steps.

With small steps only γ/B matters, and B = 1 is best or so close to it that little is gained. But a large batch can use
what a small one cannot: near the stability edge of gradient descent the leading direction overshoots, q ≈ −1, and after
an even number of steps its bias `s_1 [(1 − q^n)/(nγλ_1)]²` cancels. Where that direction holds most of the bias
(b > 2a+1, or one strong direction before many weak ones) the least risk may be attained there, at B ≫ 1. And where
noise outweighs the signal, so that γλ_1 ≪ 1, the variance of n steps is less by 1/(2n) than that of many.

n steps do best with the largest B that they allow. So `ρ(n) = min_γ Δ(D/n, γ, n)`, B not rounded, is a lower bound for
every whole B with n steps: batch sizes are looked at only where it is below what is attained already.
"""

from typing import NamedTuple

import numpy as np

from sgdtheory.critical.least_risk import LeastRisk
from sgdtheory.critical.patterns import EVERY_FEW_STEPS, whole_numbers
from sgdtheory.critical.relaxed_risk import RelaxedRisk

EVERY_BATCH = 400  # up to this many samples every number of steps is tried: as fast as a search
SMALLEST_BATCHES = np.arange(1.0, 6.0)  # always tried for R_opt
RELAXED_ROUNDS = 5  # of halving about minima of ρ
MOST_LISTED = 1e5  # batch sizes that are ranked
MOST_TRIED = 64  # batch sizes that are tuned, the most promising of them,
TRIED_AT_ONCE = 8  # so many at a time,
ESTIMATED = 1e-7  # as long as their log Δ, estimated to so much, or what it has been off by,
MARGIN = 10.0  # times that, may be the least
BESIDE = 1.2  # times the best number of steps, or less: beside it where momentum swings on
SAME_RISK = 1e-8  # relative: risks closer than this are not told apart, and no B is preferred to 1 for less


class Optimum(NamedTuple):
    """B_opt, its best γ, `R_opt(D) = min_B min_γ Δ(B, γ, D)`, and ρ where it was computed."""

    batch: float
    rate: float
    risk: float
    relaxed: RelaxedRisk | None


def optimal_batch_size(tuned: LeastRisk, samples: float) -> Optimum:
    """The least risk with D samples (THEORY.md T12).

    For D ≤ 400 the largest B of every number of steps; otherwise the smallest, those of at most 40 steps, one step
    included where it teaches something, and up to 64 of those that ρ leaves a chance, the most promising first.
    """
    tried = _Tried(tuned, samples)
    relaxed = None
    if samples <= EVERY_BATCH:
        steps = np.floor(samples / np.arange(1.0, np.floor(samples) + 1))
        tried.add(np.floor(samples / steps))  # the largest B with as many steps: the others do worse
    else:
        tried.add(SMALLEST_BATCHES)
        fewest = max(tuned.out_of_reach.fewest(tried.risk[0], np.floor(samples)), tuned.patterns.first_steps)
        few = whole_numbers(fewest, EVERY_FEW_STEPS)
        tried.add(np.floor(samples / few[tuned.out_of_reach.possible(few, tried.risk[0])]))
        most = tried.rate[0] * samples * tuned.largest_eigenvalue  # for B with γ = 2/λ_1 it is half of them
        relaxed = RelaxedRisk(tuned, samples, fewest, most)
        curves = [relaxed]
        if tuned.patterns.fraction:
            curves.append(RelaxedRisk(tuned, samples, fewest, most, longer=True))
        _try_promising(tried, *_promising(curves, tried.risk.min()))
        _try_beside_ripples(tried)
    return Optimum(*tried.best(), relaxed)


def remark_on_optimum(tuned: LeastRisk, best: float, budget: float, risk: float) -> str:
    """Return the caveats of B*, given that (1 + ω) D samples may be used."""
    remarks = []
    if tuned.problem.noise_variance == 0:
        remarks.append("without label noise the critical batch size is limited by the stability edge alone")
    elif best > 1:
        remarks.append(
            "the optimal risk is attained at a batch size above 1 (optimal_batch_size); smaller ones need more data"
        )
    one = np.ones(1)
    may = tuned.patterns.first_steps == 1 and tuned.out_of_reach.possible(one, risk)[0]
    if may and tuned.least(np.array([budget]), one).risk[0] <= risk:
        remarks.append(remark_on_one_step(budget * tuned.workers))
    return "; ".join(remarks)


def remark_on_one_step(budget: float) -> str:
    """Return the remark that one step with (1 + ω) D samples reaches the optimal risk as well."""
    return (
        f"one step with {budget:g} samples reaches the optimal risk as well; B* is the largest of at most num_samples, "
        "and takes two steps or more"
    )


class _Tried:
    """Whole batch sizes, with the best γ and its risk for each. Arrays (K,), B = 1 first."""

    def __init__(self, tuned: LeastRisk, samples: float) -> None:
        self.tuned = tuned
        self.samples = samples
        self.batch, self.rate, self.risk = np.empty((3, 0))

    def add(self, batch: np.ndarray) -> None:
        """Tune these batch sizes too."""
        batch = np.setdiff1d(batch, self.batch)
        if batch.size:
            best = self.tuned.least(batch, np.floor(self.samples / batch))
            self.batch, self.rate = np.append(self.batch, batch), np.append(self.rate, best.rate)
            self.risk = np.append(self.risk, best.risk)

    def risks(self, batch: np.ndarray) -> np.ndarray:
        """(K,) of batch sizes that have been tuned."""
        order = np.argsort(self.batch)
        return self.risk[order[np.searchsorted(self.batch, batch, sorter=order)]]

    def best(self) -> tuple[float, float, float]:
        """B, γ and risk of the least one."""
        k = int(np.argmin(self.risk)) if self.risk.min() < self.risk[0] * (1 - SAME_RISK) else 0
        return float(self.batch[k]), float(self.rate[k]), float(self.risk[k])


def _try_promising(tried: _Tried, batch: np.ndarray, estimate: np.ndarray) -> None:
    """Batch sizes, the most promising first, as long as estimates of log Δ leave them a chance."""
    off = ESTIMATED
    for first in range(0, batch.size, TRIED_AT_ONCE):
        if estimate[first] - MARGIN * off > np.log(tried.risk.min()):
            break
        some = slice(first, first + TRIED_AT_ONCE)
        tried.add(batch[some])
        off = max(off, float(np.abs(np.log(tried.risks(batch[some])) - estimate[some]).max()))


def _try_beside_ripples(tried: _Tried) -> None:
    """Numbers of steps beside the best one, while momentum swings on: there the next may leave less than ρ lets expect.

    Until none of them is better.
    """
    best = np.inf
    while tried.risk.min() < best:
        best = tried.risk.min()
        steps = np.floor(tried.samples / tried.best()[0])
        if not EVERY_FEW_STEPS < steps <= tried.tuned.patterns.memory:
            break
        tried.add(np.floor(tried.samples / whole_numbers(np.ceil(steps / BESIDE), BESIDE * steps)))


def _promising(curves: list[RelaxedRisk], attained: float) -> tuple[np.ndarray, np.ndarray]:
    """Whole batch sizes that may attain less than is attained, the most promising first, and estimates of log Δ."""
    batch = np.unique(np.concatenate([_listed(relaxed, attained) for relaxed in curves]))
    if not batch.size:
        return batch, batch
    estimate = np.log(_estimate(curves, batch))
    order = np.argsort(estimate)[:MOST_TRIED]
    return batch[order], estimate[order]


def _listed(relaxed: RelaxedRisk, attained: float) -> np.ndarray:
    """Whole batch sizes in intervals of ρ of which an end is below what is attained."""
    if relaxed.steps.size < 2:
        return np.floor(relaxed.samples / relaxed.steps)
    for _ in range(RELAXED_ROUNDS):
        relaxed.refine(attained)
    chance = relaxed.risk < attained * (1 - SAME_RISK)
    between = np.flatnonzero(chance[:-1] | chance[1:])
    ends = zip(relaxed.steps[between], relaxed.steps[between + 1], strict=True)
    return np.unique(np.concatenate([np.empty(0), *(_batches(relaxed, *pair) for pair in ends)]))


def _estimate(curves: list[RelaxedRisk], batch: np.ndarray) -> np.ndarray:
    """(K,) the risk that batch sizes will attain: between those of the tails that are least and most above φn."""
    tried = [relaxed.estimate(batch) for relaxed in curves if relaxed.steps.size > 1]
    if len(tried) < 2:
        return tried[0] if tried else np.ones(batch.size)
    fraction = curves[0].patterns.fraction

    def above(steps: np.ndarray) -> np.ndarray:
        return np.ceil(fraction * steps) - fraction * steps

    least, most = (above(relaxed.steps).mean() for relaxed in curves)
    share = (above(np.floor(curves[0].samples / batch)) - least) / (most - least)
    return tried[0] ** (1 - share) * tried[1] ** share


def _batches(relaxed: RelaxedRisk, low: float, high: float) -> np.ndarray:
    """Whole batch sizes with `low` to `high` steps, that waste as few samples as can be: at most `MOST_LISTED`."""
    samples = relaxed.samples
    if high - low <= samples / low - samples / high:  # fewer numbers of steps than batch sizes
        steps = np.unique(np.round(np.linspace(low, high, int(min(high - low + 1, MOST_LISTED)))))
        even = low <= relaxed.resonant and relaxed.patterns.plain
        return np.floor(samples / (2 * np.unique(np.round(steps / 2)) if even else steps))
    first = np.floor(samples / high)
    last = np.floor(samples / low)
    return np.unique(np.round(np.linspace(first, last, int(min(last - first + 1, MOST_LISTED)))))
