"""The largest batch size that reaches a risk with the learning rate tuned."""

from functools import partial
from typing import NamedTuple

import numpy as np

from sgdtheory.critical.least_risk import LeastRisk
from sgdtheory.critical.patterns import whole_numbers
from sgdtheory.critical.step_search import PATTERN, ROUNDING, Enough, enough_before, fewest_enough


class LargestBatch(NamedTuple):
    """B, the same without its rounding, and of one larger than the least the fewest steps with which it can."""

    batch: float
    real: float
    enough: Enough | None = None


def largest_batch(
    tuned: LeastRisk,
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
    first = tuned.patterns.first_steps if first is None else first
    found = fewest_enough(tuned, lambda n: budget / n, target, (first, np.floor(budget / least)), guess)
    real = budget / found.steps
    steps = found.steps
    batch = np.floor(real)
    while batch > least:
        most = np.floor(budget / batch)
        last = whole_numbers(max(steps, most - PATTERN), most)
        possible = np.unique([most] if all_data else [steps, most, *last])
        size = partial(np.full_like, fill_value=batch)
        best = tuned.least(size(possible), possible)
        enough = np.flatnonzero(best.risk <= target * (1 + ROUNDING))
        if enough.size:
            return LargestBatch(batch, real, enough_before(tuned, size, possible, best, int(enough[0]), target))
        steps = most + 1
        batch = min(np.floor(budget / steps), batch - 1)  # above 2^53 steps one more is none
    return LargestBatch(least, real)
