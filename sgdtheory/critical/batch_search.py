"""Which batch sizes reach a risk with the learning rate tuned, and with how many steps."""

from collections.abc import Callable
from functools import partial
from typing import NamedTuple

import numpy as np

from sgdtheory.critical.basins import Looked, TrackedRate
from sgdtheory.critical.optimal_batch import SAME_RISK
from sgdtheory.critical.relaxed_risk import EVERY_FEW_STEPS, TAILS
from sgdtheory.critical.step_search import LONGEST_JUMP, Margin, bracket, fewest_steps, whole_numbers
from sgdtheory.critical.tuned_risk import Tuned, TunedRisk

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


class Enough(NamedTuple):
    """The fewest steps that reach a risk, their best γ, and γ over the end of the range searched."""

    steps: float
    rate: float
    share: float = np.nan


class LargestBatch(NamedTuple):
    """B, the same without its rounding, and of one larger than the least the fewest steps with which it can."""

    batch: float
    real: float
    enough: Enough | None = None


def largest_batch(
    tuned: TunedRisk,
    budget: float,
    target: float,
    least: float,
    *,
    all_data: bool,
    first: float | None = None,
    guess: float = np.nan,
) -> LargestBatch:
    """Largest whole B with which `budget/B` steps or fewer reach the target; B = `least` does.

    With n and γ fixed every term of the risk (E1) falls with B, and more γ are stable. So n steps can do iff
    B = budget/n can: first the fewest steps for which a B that need not be whole can, then the first whole one below it
    that can. With `all_data` a B counts only if it can with all ⌊budget/B⌋ steps. Fewer steps than `first` are not
    looked at: by default those that teach nothing. A good `guess` of the fewest steps makes the search short.
    """
    if target >= tuned.initial_risk:
        return LargestBatch(np.floor(budget), budget)  # a single step, which changes nothing, is enough
    first = tuned.first_steps if first is None else first
    looked = Looked(tuned)
    found = _fewest(looked, lambda n: budget / n, target, (first, np.floor(budget / least)), guess)
    real = budget / found.steps
    steps = found.steps
    batch = np.floor(real)
    while batch > least:
        most = np.floor(budget / batch)
        last = whole_numbers(max(steps, most - PATTERN), most)
        possible = np.unique([most] if all_data else [steps, most, *last])
        size = partial(np.full_like, fill_value=batch)
        best = _of_neighbours(looked, size, possible, found)
        enough = np.flatnonzero(best.risk <= target * (1 + ROUNDING))
        if enough.size:
            return LargestBatch(batch, real, _before(looked, size, possible, best, int(enough[0]), target))
        steps = most + 1
        batch = min(np.floor(budget / steps), batch - 1)  # above 2^53 steps one more is none
    return LargestBatch(least, real)


def _before(looked: Looked, batch: Callable, steps: np.ndarray, best: Tuned, k: int, target: float) -> Enough:
    """The fewest steps that reach the target, where of (K,) numbers the k-th is the first and fewer than all do not."""
    found = _enough(steps, best, k)
    if steps[k] == steps[0] + k:
        return found  # every number has been looked at
    if steps[k] == steps[k - 1] + 1:
        return _where_it_ripples(looked, batch, steps[0], found, target)
    margins = np.log(best.risk[k - 1 : k + 1, None] / target)
    tracked = TrackedRate(looked.tuned, 1, found.steps, found.share, looked)
    return _crossed(tracked, batch, target, (steps[k - 1 : k + 1, None], margins), steps[0])


def _fewest(looked: Looked, batch: Callable, target: float, ends: tuple[float, float], guess: float) -> Enough:
    """Fewest n between the ends that reach the target with batch size `batch(n)`; the larger does.

    Few steps are all tried: there the least risk may rise and fall with n, and one step be better than the next few.
    """
    tuned = looked.tuned
    first, high = ends
    low = tuned.out_of_reach.fewest(target, high)
    few = whole_numbers(max(low, first), min(high, EVERY_RESONANT_STEPS))
    few = few[(few <= EVERY_FEW_STEPS) | (few <= tuned.resonant * batch(few))]
    few = few[tuned.out_of_reach.possible(few, target)]
    for start in range(0, few.size, STEPS_AT_ONCE):
        some = few[start : start + STEPS_AT_ONCE]
        best = tuned.least(batch(some), some)
        enough = np.flatnonzero(best.risk <= target * (1 + ROUNDING))
        if enough.size:
            return _enough(some, best, int(enough[0]))
        low = max(low, float(some[-1]))
    if low >= high:
        best = tuned.least(batch(np.array([high])), np.array([high]))
        return _enough(np.array([high]), best, 0)
    tracked = TrackedRate(tuned, 1, looked=looked)
    within = bracket(_margin(tracked, batch, target), low, high, guess)
    return _crossed(tracked, batch, target, within, low)


def _margin(tracked: TrackedRate, batch: Callable, target: float) -> Margin:
    return lambda steps, index: np.log(tracked(batch(steps), steps, index).risk / target)


def _crossed(
    tracked: TrackedRate, batch: Callable, target: float, within: tuple[np.ndarray, np.ndarray], low: float
) -> Enough:
    """The fewest steps within a bracket, its ends and the margins there, or a few less, above `low`."""
    steps = fewest_steps(_margin(tracked, batch, target), *within)
    best = tracked(batch(steps), steps, np.zeros(1, dtype=int))
    return _where_it_ripples(tracked.looked, batch, low, _enough(steps, best, 0), target)


def _enough(steps: np.ndarray, best: Tuned, k: int) -> Enough:
    return Enough(float(steps[k]), float(best.rate[k]), float(best.share[k]))


def _where_it_ripples(looked: Looked, batch: Callable, low: float, found: Enough, target: float) -> Enough:
    """The fewest steps above `low`, a little below those found, that are enough too.

    Momentum swings on for a while, tails of ⌈φn⌉ iterates are longer than φn by more or less, and so are stages.
    """
    tuned = looked.tuned
    end = found.steps
    ever = 0.0 if tuned.plain else max(PATTERN, np.ceil(tuned.fraction and TAILS / tuned.fraction))
    while back := MOST_LOOKED_BACK if found.steps <= tuned.restless else ever:
        first = max(np.ceil(LOOK_BACK * found.steps), found.steps - back, low + 1, 2.0)
        steps = whole_numbers(first, end - 1)
        if not steps.size:
            break
        best = _of_neighbours(looked, batch, steps, found)
        enough = np.flatnonzero(best.risk <= target * (1 + ROUNDING))
        if not enough.size:
            break
        found = _enough(steps, best, int(enough[0]))
        end = first
    return found


def _of_neighbours(looked: Looked, batch: Callable, steps: np.ndarray, found: Enough) -> Tuned:
    """The least risks with (K,) numbers of steps near one that is known: the basin is looked for once for each kind."""
    tuned = looked.tuned
    sizes = batch(steps)
    kind = tuned.kind(sizes, steps)
    looked.add(batch(np.array([found.steps])), np.array([found.steps]), np.array([found.share]))
    best = np.empty((3, steps.size))
    _, first = np.unique(kind, return_index=True, equal_nan=False)
    new = first[looked.nearest(found.steps, steps, kind)[first] < 0]
    if new.size:
        best[:, new] = tuned.least(sizes[new], steps[new])
        looked.add(sizes[new], steps[new], best[2, new])
    if (like := np.setdiff1d(np.arange(steps.size), new)).size:
        origin = looked.nearest(found.steps, steps, kind)[like]
        best[:, like] = tuned.least_near(sizes[like], steps[like], looked.share[origin], looked.steps[origin])
    return Tuned(*best)


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
    best = tracked(batch[kept], needed[kept], kept)
    for place, k in enumerate(kept):
        size = partial(np.full_like, fill_value=batch[k])
        found = _enough(needed[kept], best, place)
        needed[k], rate[k], _ = _where_it_ripples(Looked(tuned), size, float(steps[k]), found, target)
    return needed, rate


def _even(steps: np.ndarray) -> np.ndarray:
    """The next even number: if that is not enough, no smaller one is, even where even numbers resonate."""
    return 2 * np.ceil(steps / 2)
