"""What each batch size attains with D samples, and the fewest steps with which it attains the best."""

from functools import partial

import numpy as np

from sgdtheory.critical.batch_size_curve import BatchSizeCurve
from sgdtheory.critical.least_risk import LeastRisk, Tuned
from sgdtheory.critical.optimal_batch import SAME_RISK
from sgdtheory.critical.patterns import EVERY_FEW_STEPS
from sgdtheory.critical.step_search import (
    EVERY_RESONANT_STEPS,
    LONGEST_JUMP,
    ROUNDING,
    STEPS_AT_ONCE,
    Enough,
    enough_in_ripples,
    fewest_steps,
)

POINTS_PER_DECADE = 4
REACH = 10.0  # the curve goes on to this many times the critical batch size
# a risk that falls by less of log Δ on the way to so many times the steps falls no more
FAR = 20.0
NO_FALL = 1e-4


def batch_size_curve(tuned: LeastRisk, samples: float, risk: float, included: tuple[float, ...]) -> BatchSizeCurve:
    """What batch sizes attain with D samples, and what they need to attain a risk."""
    sizes = _curve_sizes(samples, included)
    best = tuned.least(sizes, np.floor(samples / sizes))
    needed, rate = steps_needed(tuned, sizes, np.floor(samples / sizes), best, risk)
    return BatchSizeCurve(sizes, best.rate, best.risk, needed, rate, sizes * needed, sizes * needed / samples - 1)


def _curve_sizes(samples: float, included: tuple[float, ...]) -> np.ndarray:
    """Whole batch sizes from 1 to `REACH` times the largest included one, that waste as few samples as can be."""
    end = max(min(samples / 2, REACH * max(included)), 1.0)
    grid = np.floor(np.geomspace(1.0, end, int(POINTS_PER_DECADE * np.log10(end)) + 2))
    return np.unique([*np.floor(samples / np.floor(samples / grid)), *included])


def steps_needed(
    tuned: LeastRisk, batch: np.ndarray, steps: np.ndarray, start: Tuned, target: float
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
    all_tried = (few <= EVERY_FEW_STEPS) | (few <= tuned.patterns.resonant * batch[:, None])
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
    tuned: LeastRisk, batch: np.ndarray, steps: np.ndarray, start: Tuned, target: float
) -> tuple[np.ndarray, np.ndarray]:
    """`steps_needed` above `steps`, which do not reach the target: a bracket by extrapolation, then its crossing."""
    everything = np.arange(batch.size)

    def margin(number: np.ndarray, some: np.ndarray) -> np.ndarray:
        return np.log(tuned.least(batch[some], number).risk / target)

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
    best = tuned.least(batch[kept], needed[kept])
    for place, k in enumerate(kept):
        size = partial(np.full_like, fill_value=batch[k])
        found = Enough.at(needed[kept], best, place)
        needed[k], rate[k] = enough_in_ripples(tuned, size, float(steps[k]), found, target)
    return needed, rate


def _even(steps: np.ndarray) -> np.ndarray:
    """The next even number: if that is not enough, no smaller one is, even where even numbers resonate."""
    return 2 * np.ceil(steps / 2)
