"""Which batch sizes reach a risk with the learning rate tuned, and with how many steps."""

from collections.abc import Callable
from functools import partial
from typing import Any, NamedTuple

import numpy as np

from sgdtheory.critical.optimal_batch import SAME_RISK
from sgdtheory.critical.relaxed_risk import EVERY_FEW_STEPS, TAILS
from sgdtheory.critical.step_search import LONGEST_JUMP, Margin, bracket, fewest_steps, whole_numbers
from sgdtheory.critical.tuned_risk import Tuned, TunedRisk

FOLLOWED = np.log(4)  # of n: within this factor of where the best γ was looked for, its basin is followed
FOLLOWED_RESONANT = 0.03  # of log n, where steps resonate and n is as even or odd: basins change places more slowly
EVERY_RESONANT_STEPS = 64  # up to this many, where steps resonate, every n is tried: parity decides there
# where steps ripple: down to this share of steps that are enough, or so many fewer, all are tried
LOOK_BACK = 0.7
MOST_LOOKED_BACK = 64
PATTERN = 8  # numbers of steps in a row: overshooting steps tell odd from even, stages and tails longer patterns
STEPS_AT_ONCE = 8  # of those: enough for most answers to be among the first
# a risk that falls by less of log Δ on the way to so many times the steps falls no more
FAR = 20.0
NO_FALL = 1e-4
ROUNDING = 1e-12  # relative: (1 + overhead) D is not lowered by a sample through rounding


def largest_batch(
    tuned: TunedRisk,
    budget: float,
    target: float,
    least: float,
    *,
    all_data: bool,
    first: float | None = None,
    guess: float = np.nan,
) -> tuple[float, float]:
    """Largest whole B with which `budget/B` steps or fewer reach the target, and the largest B; B = `least` does.

    With n and γ fixed every term of the risk (E1) falls with B, and more γ are stable. So n steps can do iff
    B = budget/n can: first the fewest steps for which a B that need not be whole can, then the first whole one below it
    that can. With `all_data` a B counts only if it can with all ⌊budget/B⌋ steps. Fewer steps than `first` are not
    looked at: by default those that teach nothing. A good `guess` of the fewest steps makes the search short.
    """
    tracked = TrackedRate(tuned, 1)

    def margin(steps: np.ndarray, index: np.ndarray) -> np.ndarray:
        return np.log(tracked(budget / steps, steps, index).risk / target)

    if target >= tuned.initial_risk:
        return np.floor(budget), budget  # a single step, which changes nothing, is enough
    first = tuned.first_steps if first is None else first
    steps = _fewest(tuned, margin, target, (first, np.floor(budget / least)), lambda n: budget / n, guess)
    real = budget / steps
    batch = np.floor(budget / steps)
    while batch > least:
        most = np.floor(budget / batch)
        last = whole_numbers(max(steps, most - PATTERN), most)
        possible = np.unique([most] if all_data else [steps, most, *last])
        if tuned.least(np.full(possible.size, batch), possible).risk.min() <= target * (1 + ROUNDING):
            break
        steps = most + 1
        batch = min(np.floor(budget / steps), batch - 1)  # above 2^53 steps one more is none
    return max(batch, least), real


def _fewest(
    tuned: TunedRisk, margin: Margin, target: float, ends: tuple[float, float], batch: Callable, guess: float
) -> float:
    """Fewest n between the ends with `margin(n) ≤ 0`, where n steps go with batch size `batch(n)`; the larger has it.

    Few steps are all tried: there the least risk may rise and fall with n, and one step be better than the next few.
    """
    first, high = ends
    low = tuned.out_of_reach.fewest(target, high)
    few = whole_numbers(max(low, first), min(high, EVERY_RESONANT_STEPS))
    few = few[(few <= EVERY_FEW_STEPS) | (few <= tuned.resonant * batch(few))]
    few = few[tuned.out_of_reach.possible(few, target)]
    for start in range(0, few.size, STEPS_AT_ONCE):
        some = few[start : start + STEPS_AT_ONCE]
        enough = some[tuned.least(batch(some), some).risk <= target * (1 + ROUNDING)]
        if enough.size:
            return float(enough[0])
        low = max(low, float(some[-1]))
    if low >= high:
        return high
    found = _Enough(float(fewest_steps(margin, *bracket(margin, low, high, guess))[0]), np.nan)
    return _where_it_ripples(tuned, batch, low, found, target).steps


class _Enough(NamedTuple):
    """Steps that reach a risk, and γ."""

    steps: float
    rate: float


def _where_it_ripples(tuned: TunedRisk, batch: Callable, low: float, found: _Enough, target: float) -> _Enough:
    """The fewest steps above `low`, a little below those found, that are enough too.

    Momentum swings on for a while, tails of ⌈φn⌉ iterates are longer than φn by more or less, and so are stages.
    """
    end = found.steps
    ever = 0.0 if tuned.plain else max(PATTERN, np.ceil(tuned.fraction and TAILS / tuned.fraction))
    while back := MOST_LOOKED_BACK if found.steps <= tuned.restless else ever:
        first = max(np.ceil(LOOK_BACK * found.steps), found.steps - back, low + 1, 2.0)
        steps = whole_numbers(first, end - 1)
        if not steps.size:
            break
        best = tuned.least(batch(steps), steps)
        enough = np.flatnonzero(best.risk <= target * (1 + ROUNDING))
        if not enough.size:
            break
        found = _Enough(float(steps[enough[0]]), float(best.rate[enough[0]]))
        end = first
    return found


def steps_needed(
    tuned: TunedRisk, batch: np.ndarray, steps: np.ndarray, start: Tuned, target: float
) -> tuple[np.ndarray, np.ndarray]:
    """(K,) fewest steps at each B with which the tuned risk reaches `target`, and γ there; inf and nan where none do.

    None may where an average keeps a share of w_0 (`ExponentialAverage`): few large steps of another B cancel that.
    Fewer than ⌊D/B⌋ cannot: what n steps attain at B, they attain at ⌊D/n⌋ ≥ B.

    Args:
        steps: (K,) ⌊D/B⌋, which reach the target at one B, or at none.
        start: what is best with them: the search sets out from there.
    """
    needed = steps.copy()
    rate = start.rate.copy()
    open_ = start.risk > target * (1 + SAME_RISK)
    few = np.arange(2.0, EVERY_RESONANT_STEPS + 1)
    possible = tuned.out_of_reach.possible(few, target)
    all_tried = (few <= EVERY_FEW_STEPS) | (few <= tuned.resonant * batch[:, None])
    left = open_[:, None] & possible & (few > steps[:, None]) & all_tried
    while left.any():
        row, column = np.nonzero(left & (left.cumsum(1) <= STEPS_AT_ONCE))
        found = tuned.least(batch[row], few[column])
        for k in np.flatnonzero(found.risk <= target * (1 + ROUNDING))[::-1]:  # the fewest last
            needed[row[k]], rate[row[k]], open_[row[k]] = few[column[k]], found.rate[k], False
        left[row, column] = False
        left &= open_[:, None]
    some = np.flatnonzero(open_)
    from_here = Tuned(*(values[some] for values in start))
    needed[some], rate[some] = _searched(tuned, batch[some], steps[some], from_here, target)
    return needed, rate


def _searched(
    tuned: TunedRisk, batch: np.ndarray, steps: np.ndarray, start: Tuned, target: float
) -> tuple[np.ndarray, np.ndarray]:
    """`steps_needed` above `steps`, which do not reach the target: a bracket by extrapolation, then its crossing."""
    tracked = TrackedRate(tuned, batch.size, steps, start.share)
    everything = np.arange(batch.size)

    def margin(number: np.ndarray, some: np.ndarray) -> np.ndarray:
        return np.log(tracked(batch[some], number, some).risk / target)

    low = steps.copy()
    above = np.log(start.risk / target)
    high = _even(1.01 * low * np.exp(above))
    value = margin(high, everything)
    lost = np.zeros(batch.size, dtype=bool)
    while (short := np.flatnonzero((value > 0) & ~lost)).size:
        slope = (above[short] - value[short]) / np.log(high[short] / low[short])
        low[short], above[short] = high[short], value[short]
        growth = np.where(slope > 0, value[short] / np.where(slope > 0, slope, 1.0), LONGEST_JUMP)
        high[short] = _even(1.01 * high[short] * np.exp(np.minimum(growth, LONGEST_JUMP)))
        value[short] = margin(high[short], short)
        lost[short] = (high[short] > FAR * low[short]) & (above[short] - value[short] < NO_FALL)
    needed = np.full(batch.size, np.inf)
    rate = np.full(batch.size, np.nan)
    kept = np.flatnonzero(~lost)
    ends = np.array([low, high])[:, kept], np.array([above, value])[:, kept]
    needed[kept] = fewest_steps(lambda number, some: margin(number, kept[some]), *ends)
    rate[kept] = tracked(batch[kept], needed[kept], kept).rate
    for k in kept:
        size = partial(np.full_like, fill_value=batch[k])
        found = _Enough(float(needed[k]), float(rate[k]))
        needed[k], rate[k] = _where_it_ripples(tuned, size, float(steps[k]), found, target)
    return needed, rate


def _even(steps: np.ndarray) -> np.ndarray:
    """The next even number: if that is not enough, no smaller one is, even where even numbers resonate."""
    return 2 * np.ceil(steps / 2)


class TrackedRate:
    """The best γ for P questions whose number of steps changes from call to call.

    The basin that holds the least risk is followed, and looked for anew where n has moved far from where it was found:
    not far at all where steps may resonate, since there another basin may be the best from one n to the next.
    """

    def __init__(self, tuned: TunedRisk, number: int, steps: Any = np.nan, share: Any = np.nan) -> None:
        self.tuned = tuned
        self.found_at = np.full(number, steps)
        self.steps = np.full(number, steps)
        self.share = np.full(number, share)

    def __call__(self, batch: np.ndarray, steps: np.ndarray, index: np.ndarray) -> Tuned:
        """The best for the questions `index`, with B and n of each."""
        before = self.found_at[index]
        moved = np.abs(np.log(steps / before))
        likewise = (moved < FOLLOWED_RESONANT) & ((steps - before) % 2 == 0)
        near = np.where(steps > self.tuned.resonant * batch, moved < FOLLOWED, likewise) & (steps > self.tuned.rippling)
        best = np.empty((3, index.size))
        if near.any():
            here = index[near]
            best[:, near] = self.tuned.least_near(batch[near], steps[near], self.share[here], self.steps[here])
        if not near.all():
            best[:, ~near] = self.tuned.least(batch[~near], steps[~near])
            self.found_at[index[~near]] = steps[~near]
        self.share[index], self.steps[index] = best[2], steps
        return Tuned(*best)
