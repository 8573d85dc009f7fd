"""The batch size that attains the least risk with D samples, and the largest one that reaches a risk.

With n and γ fixed every term of the risk (E1) falls with B. So n steps of at most D samples do best with B = ⌊D/n⌋, and
a pair (B, n) is worth looking at only if neither can grow: some 2 √D pairs in all.
"""

from typing import NamedTuple

import numpy as np
from scipy.interpolate import Akima1DInterpolator

from sgdtheory.critical.least_risk import LeastRisk
from sgdtheory.critical.step_search import EVERY_FEW_STEPS, PATTERN, ROUNDING, fewest_enough

# Up to this many samples every pair is tried, which is as fast as a search.
EVERY_PAIR = 400.0
# These batch sizes are always tried for the least risk: what is attained by others is compared with them.
SMALLEST_BATCHES = np.arange(1.0, 6.0)
# This many numbers of steps per decade are tried first; oscillations of ρ(n) need more than smooth problems do.
PER_DECADE = 3.0
# Where runs may resonate near the edge, this many are tried first: the minimum that this makes is 1.2% deep where n is
# off by a fifth, and gone at half or twice n (a = 2, b = 4.8, σ² = 100). With 3, R_opt of such a problem was 1.2% too
# high.
RESONANT_PER_DECADE = 10.0
ESTIMATED = 20000  # The risk is estimated at this many batch sizes between those tried.
TRIED_AT_ONCE = 8  # A round tries this many of the most promising batch sizes.
ROUNDS = 8  # There are at most this many rounds, each with better estimates.
# Numbers of steps that differ from the three best by at most this and the length of a pattern are tried as well.
BESIDE = 4.0
# The middles between minima over B and the pairs around them are tried until these are within the square of this
# factor: risks that rise by a factor of ten on one side of a minimum mislead the estimates.
AROUND = 1.1
OTHER_MINIMA = 0.05  # Middles are also tried about minima that are higher than the lowest by less than this in log Δ.
# Risks that differ by less than this share, to which R_opt is promised, make no minimum.
FLAT = 1e-4
# The rounds end where one of them lowers the least risk by less than this share, a hundredth of `FLAT`: with
# schedule-free SGD the risk is flat to 2e-5 over two decades of B, and eight rounds took half of the time.
NO_GAIN = 1e-6
# Estimates of log risk are taken to be off by this much at first, then by what they have been off by.
ESTIMATE_OFF = 0.01
# A pair is tried while its estimate is above the least risk by less than this many times the error of estimates.
MARGIN = 10.0
# While the risk oscillates, everything within this factor of the best number of steps is tried.
OSCILLATING = 1.2
SAME_RISK = 1e-8  # Risks are the same up to this relative difference: no B is preferred to 1 for less.


class Optimum(NamedTuple):
    """B_opt, its best γ, and `R_opt(D) = min_B min_γ Δ(B, γ, D)`."""

    batch: float
    rate: float
    risk: float


class LargestBatch(NamedTuple):
    """B, the same without its rounding, the fewest steps with which it reaches the risk, and γ."""

    batch: float
    real: float
    steps: float
    rate: float


def pairs(samples: float, batch: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Return the (B, n) of at most so many samples in which neither can grow, next above the given B ≥ 1."""
    steps = np.maximum(np.floor(samples / np.clip(batch, 1.0, samples) * (1 + ROUNDING)), 1.0)
    # The largest B with these n, and then the most steps with that B: now neither can grow.
    found = np.unique(np.floor(samples / steps * (1 + ROUNDING)))
    return found, np.floor(samples / found * (1 + ROUNDING))


class _Tried:
    """Pairs whose least risk is known, (K,), by B increasing; others are known roughly to be worse."""

    def __init__(self, least_risk: LeastRisk, samples: float) -> None:
        self.least_risk = least_risk
        self.samples = samples
        self.batch, self.steps, self.rate, self.risk = np.empty((4, 0))

    def add(self, batch: np.ndarray) -> None:
        """Try the pairs next above these batch sizes, those that are new."""
        batch, steps = pairs(self.samples, batch)
        new = ~np.isin(batch, self.batch) & (steps >= self.least_risk.tuned.first_steps)
        if new.any():
            # What is far above the least risk so far is known roughly, in a fraction of the time.
            goal = float(self.risk.min()) if self.risk.size else np.inf
            found = self.least_risk(batch[new], steps[new], goal)
            more = np.array([batch[new], steps[new], found.rate, found.risk])
            columns = np.hstack([np.array([self.batch, self.steps, self.rate, self.risk]), more])
            self.batch, self.steps, self.rate, self.risk = columns[:, np.argsort(columns[0])]

    def estimate(self, batch: np.ndarray, steps: np.ndarray) -> np.ndarray:
        """Return log risks that are expected of (K,) pairs; inf of those that are known.

        The risk is smooth in n but for the samples that nB leaves unused, each of which is worth what it costs: 1/D;
        and for what tells n from n + 1, as parity or the length of a tail does.
        """
        unused = np.log(self.samples / (self.batch * self.steps))
        values = np.log(self.risk) - unused
        kind = self._kind(batch, steps)
        known_kind = self._kind(self.batch, self.steps)
        near = np.abs(self.steps - self.steps[self.risk.argmin()]) <= BESIDE
        offset = np.zeros(int(max(kind.max(), known_kind.max())) + 1)
        for one in np.unique(known_kind[near]):
            offset[one] = values[near & (known_kind == one)].mean() - values[near].mean()
        alike = self._alike()
        curve = Akima1DInterpolator(np.log(self.batch[alike]), (values - offset[known_kind])[alike])
        smooth = curve(np.clip(np.log(batch), *np.log(self.batch[alike][[0, -1]]))) + offset[kind]
        return np.where(np.isin(batch, self.batch), np.inf, smooth + np.log(self.samples / (batch * steps)))

    def _kind(self, batch: np.ndarray, steps: np.ndarray) -> np.ndarray:
        """Return n modulo the length of what repeats with n; 0 where n steps are like n + 1."""
        tuned = self.least_risk.tuned
        period = np.where(steps <= tuned.resonant * batch, max(2.0, tuned.pattern), max(1.0, tuned.pattern))
        return (steps % period).astype(int)

    def try_promising(self, batch: np.ndarray, steps: np.ndarray) -> None:
        """Try the pairs of least estimates, as long as these leave a chance, and numbers of steps beside the best."""
        off = ESTIMATE_OFF
        for _ in range(ROUNDS):
            estimate = self.estimate(batch, steps)
            least = np.argsort(estimate)[:TRIED_AT_ONCE]
            # A pair is passed over if errors as in the last round cannot bring it below the least risk.
            least = least[estimate[least] - MARGIN * off < np.log(self.risk.min())]
            near = BESIDE + self.least_risk.tuned.pattern
            beside = np.add.outer(self.steps[np.argsort(self.risk)[:3]], np.arange(-near, near + 1)).ravel()
            beside = self.samples / np.maximum(beside, self.least_risk.tuned.first_steps)
            middles = self._middles()
            before = self.risk.min()
            self.add(np.concatenate([batch[least], beside, middles]))
            if least.size:
                found = self.risk[np.searchsorted(self.batch, batch[least])]
                off = float(np.abs(np.log(found) - estimate[least]).max()) + SAME_RISK
            if not middles.size and self.risk.min() > before * (1 - NO_GAIN):
                break

    def _middles(self) -> np.ndarray:
        """Return batch sizes between low minima over B and the pairs around them, of even numbers of steps."""
        value = np.log(self.risk) - np.log(self.samples / (self.batch * self.steps))
        value = np.where(self._alike(), value, np.inf)
        ends = np.pad(value, 1, mode="edge")
        beside = np.array([ends[:-2], ends[2:]])
        lowest = (value <= beside.min(0)) & (value < beside.max(0) - FLAT)
        found = [np.empty(0)]
        for batch in self.batch[lowest & (value < value.min() + OTHER_MINIMA)]:
            about = self.batch[(self.batch * AROUND < batch) | (self.batch > AROUND * batch)]
            place = int(np.searchsorted(about, batch))
            around = about[max(place - 1, 0) : place + 1]
            found.append(np.sqrt(batch * around[(around > batch * AROUND**2) | (around < batch / AROUND**2)]))
        middles, _ = pairs(self.samples, self.samples / (2 * np.ceil(self.samples / np.concatenate(found) / 2)))
        return middles[~np.isin(middles, self.batch)]

    def _alike(self) -> np.ndarray:
        """Return the pairs on one curve with the best: where runs resonate, odd numbers of steps lie on another."""
        best = self.steps[self.risk.argmin()]
        return (self.steps % 2 == best % 2) | (self.steps > self.least_risk.tuned.resonant * self.batch)

    def best(self) -> Optimum:
        """Return the least one, known to all digits, as is every other that comes near it."""
        before = np.inf
        while self.risk.min() < before:
            before = float(self.risk.min())
            found = self.least_risk(self.batch, self.steps, before)
            self.rate, self.risk = found.rate, found.risk
        k = int(np.argmin(self.risk)) if self.risk.min() < self.risk[0] * (1 - SAME_RISK) else 0
        return Optimum(float(self.batch[k]), float(self.rate[k]), float(self.risk[k]))


def optimal_batch_size(least_risk: LeastRisk, samples: float, budget: float = 0.0) -> Optimum:
    """Return the least risk with D samples (THEORY.md T12).

    Args:
        least_risk: the least risk of B and n.
        samples: D.
        budget: a larger number of samples with which that risk is going to be looked for.
    """
    tried = _Tried(least_risk, samples)
    if samples <= EVERY_PAIR:
        tried.add(np.arange(1.0, np.floor(samples) + 1))
        return tried.best()
    few = np.arange(least_risk.tuned.first_steps, EVERY_FEW_STEPS + 1)
    tried.add(SMALLEST_BATCHES)
    largest = samples / EVERY_FEW_STEPS
    number = int(PER_DECADE * np.log10(largest)) + 2
    steps = np.floor(samples / np.geomspace(SMALLEST_BATCHES[-1], max(largest, SMALLEST_BATCHES[-1]), number))
    tried.add(samples / np.append(_even(steps), _resonant_steps(least_risk, samples)))
    if budget:  # first: few steps that do not reach the least risk with more samples do not with D
        least_risk(budget / few, few, float(tried.risk.min()))
    tried.add(samples / few)
    every, n = pairs(samples, np.append(np.arange(1.0, ESTIMATED), np.geomspace(1.0, samples, ESTIMATED)))
    many = n > EVERY_FEW_STEPS
    tried.try_promising(every[many], n[many])
    before = np.inf
    while tried.risk.min() < before:
        before = tried.risk.min()
        best = tried.steps[int(tried.risk.argmin())]
        if not EVERY_FEW_STEPS < best <= least_risk.tuned.oscillating:
            break
        tried.add(samples / np.arange(np.ceil(best / OSCILLATING), OSCILLATING * best))
    return tried.best()


def _even(steps: np.ndarray) -> np.ndarray:
    """Return even numbers: the mean of an even number of iterates that oscillate near the edge is 0, which odd miss."""
    return np.maximum(2 * np.floor(steps / 2), 1.0)


def _resonant_steps(least_risk: LeastRisk, samples: float) -> np.ndarray:
    """Return numbers of steps with which a run may resonate near the edge: a dense grid, with all of the pattern."""
    most = np.sqrt(least_risk.tuned.resonant * samples)
    if most <= EVERY_FEW_STEPS:
        return np.empty(0)
    number = int(RESONANT_PER_DECADE * np.log10(most / EVERY_FEW_STEPS)) + 2
    steps = _even(np.geomspace(EVERY_FEW_STEPS, most, number))
    return np.add.outer(steps, np.arange(max(least_risk.tuned.pattern, 1.0))).ravel()


def largest_batch(
    least_risk: LeastRisk, budget: float, target: float, least: Optimum, *, all_data: bool, first: float
) -> LargestBatch:
    """Return the largest whole B with which budget/B steps or fewer reach the target; the least one does.

    First the fewest steps with which a B that need not be whole can, then the first whole one below it that can.

    Args:
        least_risk: the least risk of B and n.
        budget: samples.
        target: the risk to reach.
        least: what is known to reach it.
        all_data: whether a B counts only if it can with all ⌊budget/B⌋ steps.
        first: fewer steps are not tried.
    """
    if target >= least_risk.tuned.initial_risk:
        return LargestBatch(
            np.floor(budget), budget, 1.0, least.rate
        )  # a single step, which changes nothing, is enough
    most = np.floor(budget / least.batch)
    guess = _expected_steps(least_risk, budget, target)
    ends = np.array([first - 1]), np.array([most])
    fewest, rate = fewest_enough(least_risk, lambda n, _: budget / n, target, *ends, guess)
    real = budget / fewest[0]
    steps = fewest[0]
    batch = np.floor(real)
    while batch > least.batch:
        most = np.floor(budget / batch)
        if all_data:
            found = least_risk(np.array([batch]), np.array([most]), target)
            enough = most if found.risk[0] <= target * (1 + ROUNDING) else np.inf
            rate = found.rate
        else:
            enough, rate = _with_steps(least_risk, batch, steps, most, target)
        if np.isfinite(enough):
            return LargestBatch(float(batch), float(real), float(enough), float(rate[0]))
        # This B fails with all the steps that the budget allows: the next one has a step more.
        steps = most + 1
        batch = min(np.floor(budget / steps), batch - 1)  # above 2^53 steps one more is none
    return LargestBatch(least.batch, float(max(real, least.batch)), np.nan, np.nan)


def _expected_steps(least_risk: LeastRisk, budget: float, target: float) -> float:
    """Return about how many steps reach a target with so many samples, if the known risks fall like 1/samples."""
    batch, steps, risk = least_risk.known()
    order = np.argsort(steps)
    margin = np.log((risk * batch * steps)[order] / (target * budget))
    steps = np.log(steps[order])
    k = int(np.argmax(margin <= 0))
    if k == 0:
        return np.nan
    return float(np.exp(np.interp(0.0, margin[[k, k - 1]], steps[[k, k - 1]])))


def _with_steps(
    least_risk: LeastRisk, batch: float, low: float, high: float, target: float
) -> tuple[float, np.ndarray]:
    """Return the fewest steps from low to high with which B reaches the target, and γ; inf where none do.

    The risk may rise with n, so that not only the most are tried.
    """
    possible = np.unique([low, high, *np.arange(max(low, high - PATTERN), high + 1)])
    found = least_risk(np.full(possible.shape, batch), possible, target)
    enough = np.flatnonzero(found.risk <= target * (1 + ROUNDING))
    if not enough.size:
        return np.inf, found.rate
    k = int(enough[0])
    if possible[k] == low:
        return low, found.rate[[k]]
    steps, rate = fewest_enough(
        least_risk, lambda n, _: np.full_like(n, batch), target, np.array([low - 1]), possible[[k]]
    )
    return float(steps[0]), rate
