"""Batch sizes that a data size allows where small batches waste data too: the ends of a range (THEORY.md T12, T37).

All numbers of steps are tried up to `EVERY_FEW_STEPS`, and up to `EVERY_SETTING` samples all of them. Beyond, the tuned
risk of D samples is scanned over log n, with B = D/n, and every minimum that may be the least one is refined. Whole
batch sizes are looked at last, beside the best of those that need not be whole.
"""

from collections.abc import Callable, Iterable
from typing import NamedTuple

import numpy as np

from sgdtheory.critical.data_sizes import require_learnt, require_several_steps
from sgdtheory.critical.minima import SETTLED, minimum
from sgdtheory.critical.step_lines import STEPS_APART, Interpolant, Line, crossing, whole
from sgdtheory.critical.step_search import ROUNDING
from sgdtheory.critical.tuned_equivalent import Tuned, TunedEquivalent

EVERY_SETTING = 400.0  # Up to this many samples every n = ⌊D/B⌋ is tried, which takes no longer than a search.
EVERY_FEW_STEPS = 16.0  # Up to this many steps every n is tried: one more can leave more, and one can leave least.
SCAN_APART = 4.0  # Further n in a scan have this ratio: a smaller one finds narrower valleys in more time.
MAY_BE_LEAST = 0.2  # Minima of a scan are refined if their log risk is no higher above the least one.
LITTLE_APART = 1.1  # Where the line oscillates, further n in this ratio are tried beyond a crossing.
# Further n are tried as long as log risk exceeds the level by at most this. Lion with constant γ (a = 2.5, b = 3.25, D
# = 1e6) exceeds twice the least risk from 950 to 935 steps, and by 18% from 760 steps down.
LITTLE_ABOVE = 0.1
ABOUT = 1.5  # Whole settings are ranked whose n is within this factor of the best n.
MOST_WHOLE = 6  # At most this many whole settings are tuned, the most promising first: 2 as a rule.
FARTHEST = 1e4  # If a batch size needs more than this times the steps of D samples, it never reaches the risk.
SMALL_BATCHES = 4.0  # The search for the smallest useful batch size tries every one from 1 up to this.


class Setting(NamedTuple):
    """A whole batch size, a number of steps, the best γ for both, and its risk."""

    batch: float
    steps: float
    tuned: Tuned


class Useful(NamedTuple):
    """Batch sizes of D samples, and what is best.

    Attributes:
        best: the batch size that is best with D samples, with all ⌊D/B⌋ steps.
        largest: the largest one that reaches its risk with (1 + ω) D samples in two steps or more, with the fewest n.
        real: the same without its rounding.
        smallest: the smallest batch size that reaches it with all ⌊(1 + ω) D/B⌋ steps.
        keeping: the largest one that reaches `risk_factor` times that risk with all ⌊D/B⌋ steps.
        one_step: whether one step with (1 + ω) D samples reaches it as well.
        line: the tuned risk of (1 + ω) D samples against n.
    """

    best: Setting
    largest: Setting
    real: float
    smallest: float
    keeping: float
    one_step: bool
    line: Line


def useful_batch_sizes(tuned: TunedEquivalent, samples: float, overhead: float, risk_factor: float) -> Useful:
    """Return the batch sizes that D and (1 + ω) D samples allow.

    Raises:
        ValueError: nothing is learnt, or one step with all samples is best.
    """
    line = Line(tuned, samples)
    more = Line(tuned, (1 + overhead) * samples * (1 + ROUNDING))
    best = _best(line, more, risk_factor)
    require_learnt(tuned, samples, best.tuned.risk)
    require_several_steps(samples, best.steps)
    level = float(np.log(best.tuned.risk)) + ROUNDING
    more.needed = level
    largest, real = _largest(more, level, best, 2.0)
    keeping, _ = _largest(line, level + float(np.log(risk_factor)), best, 1.0)
    smallest = _smallest(more, level, best)
    return Useful(best, largest, real, smallest, keeping.batch, more(0.0) <= level, more)


def steps_to(tuned: TunedEquivalent, batch: float, steps: float, risk: float) -> tuple[float, float]:
    """The fewest n with which B reaches a risk, looked for from `steps` on, and γ; inf and nan where none do."""
    of_batch = Line(tuned, batch=batch)
    enough = max(steps, 1.0)
    while of_batch(np.log(enough)) > np.log(risk):
        enough *= 2
        if enough > FARTHEST * steps:
            return np.inf, np.nan
    found = crossing(of_batch, np.log(risk), float(np.log(enough)), 0.0)
    return found, tuned.least(batch, found).rate


def _best(line: Line, more: Line, risk_factor: float) -> Setting:
    """The batch size that leaves the least risk with all steps that it is given."""
    most = float(np.floor(line.samples))
    if most <= EVERY_SETTING:
        steps = np.unique(np.floor(most / np.arange(1.0, most + 1)))
        return _least(_whole(line, each) for each in steps[::-1].tolist())
    steps = _scanned(1.0, most)
    # Each search begins beside what is known, and the first one where a grid of learning rates takes little time.
    outwards = steps[np.argsort(np.abs(np.log(steps) - np.log(most) / 2 - 2))]
    for each in [EVERY_FEW_STEPS, *outwards.tolist()]:
        line(float(np.log(each)))
        line.needed = min(line.seen.values()) + float(np.log(risk_factor))
    values = np.array([line(float(np.log(each))) for each in steps])
    low = [k for k in _minima(values) if values[k] <= values.min() + MAY_BE_LEAST]
    return _least(_about(line, more, _refined(line, each)) for each in steps[low].tolist())


def _least(settings: Iterable[Setting]) -> Setting:
    """Return the setting of least risk, of equal ones that with the smallest batch size."""
    return min(settings, key=lambda setting: (setting.tuned.risk, setting.batch))


def _scanned(first: float, last: float) -> np.ndarray:
    """Whole numbers of steps from first to last: all few, others evenly in logs."""
    few = np.arange(first, min(EVERY_FEW_STEPS, last) + 1)
    begin = max(first, EVERY_FEW_STEPS)
    if begin >= last:
        return few
    number = int(np.ceil(np.log(last / begin) / np.log(SCAN_APART))) + 1
    return np.union1d(few, np.round(np.geomspace(begin, last, number)))


def _refined(line: Line, steps: float) -> float:
    """The number of steps at a minimum of the line about one of the scan."""
    if steps < EVERY_FEW_STEPS:
        return steps
    end = np.log(np.floor(line.samples))

    def all_of(places: np.ndarray) -> np.ndarray:
        return np.array([line(_of_whole(line, place)) if 0 <= place <= end else np.inf for place in places.tolist()])

    place, _ = minimum(all_of, float(np.log(steps)), STEPS_APART, SETTLED)
    return max(float(np.round(np.exp(place))), 1.0)


def _of_whole(line: Line, place: float) -> float:
    """Return log n nearest to a place whose batch size is whole too, where these are fewer than numbers of steps."""
    steps = whole(place)
    batch = max(np.round(line.samples / steps), 1.0)
    return float(np.log(np.floor(line.samples / batch) if batch < steps else steps))


def _about(line: Line, more: Line, steps: float) -> Setting:
    """The best setting of whole batch sizes about a number of steps.

    They are ranked by the line, and by what the samples are worth that are left over: with n fixed, those of B.
    """
    samples = float(np.floor(line.samples))
    place = float(np.log(steps))
    worth = max(line(place) - more(place), 0.0) / np.log(more.samples / line.samples)
    fewest, most = max(steps / ABOUT, 1.0), min(steps * ABOUT, samples)
    if steps < np.sqrt(samples):
        batch = np.unique(np.floor(samples / np.arange(np.ceil(fewest), np.floor(most) + 1)))
    else:
        batch = np.arange(np.floor(samples / most), np.ceil(samples / fewest) + 1)
    batch = np.clip(batch, 1.0, samples)
    number = np.floor(samples / batch)
    estimate = Interpolant(line)(np.log(number)) + worth * np.log(line.samples / (batch * number))
    found: list[Setting] = []
    for k in np.argsort(estimate)[:MOST_WHOLE].tolist():
        if found and estimate[k] > np.log(_least(found).tuned.risk):
            break
        found.append(_whole(line, float(number[k]), float(batch[k])))
    return _least(found)


def _whole(line: Line, steps: float, batch: float | None = None) -> Setting:
    """The setting of n steps with the largest whole batch size that they allow."""
    batch = float(np.floor(line.samples / steps)) if batch is None else batch
    return Setting(batch, steps, line.tuned.least(batch, steps))


def _largest(line: Line, level: float, best: Setting, first: float) -> tuple[Setting, float]:
    """The largest B that is at most at the level, with the fewest steps, from `first` on; and B not rounded.

    With n fixed the tuned risk falls with B: first the fewest n for which a B that need not be whole can, then the
    first whole one below it that can with all its steps.
    """
    steps = _farthest(line, level, best, first)
    real = line.samples / steps
    batch = float(np.floor(real))
    while batch > best.batch:
        most = float(np.floor(line.samples / batch))
        if min(Line(line.tuned, batch=batch)(float(np.log(each))) for each in {steps, most}) <= level:
            return _with_fewest(line, batch, (steps, most), level), real
        steps = most + 1
        batch = min(float(np.floor(line.samples / steps)), batch - 1)
    return _with_fewest(line, best.batch, (first, best.steps), level), max(real, best.batch)


def _farthest(line: Line, level: float, best: Setting, end: float) -> float:
    """The number of steps nearest to `end` that is at most at the level, no farther from it than the best one's.

    Useful numbers of steps need not be an interval: dips of the scan before the first one at the level are refined.
    """
    every = np.floor(line.samples) <= 2 * EVERY_SETTING
    low, high = sorted((end, best.steps))
    scanned = np.arange(low, high + 1) if every else _scanned(low, high)
    if end > best.steps:
        scanned = scanned[::-1]
    values: list[float] = []
    for each in scanned.tolist():
        values.append(level if each == best.steps else line(float(np.log(each))))
        if values[-1] <= level:
            break
    scanned = scanned[: len(values)]
    low = _minima(np.array(values))[:-1]  # the last one is at the level
    dips = [_refined(line, each) for each in scanned[low].tolist() if each > EVERY_FEW_STEPS and not every]
    useful = [float(scanned[-1]), *(each for each in dips if line(float(np.log(each))) <= level)]
    steps = min(useful, key=lambda each: abs(each - end))
    before = scanned[np.abs(scanned - end) < abs(steps - end)]
    if not before.size or abs(steps - before[-1]) <= 1:
        return steps
    steps = crossing(line, level, float(np.log(steps)), float(np.log(before[-1])))
    oscillates = line.tuned.oscillates(line.samples / steps, steps)
    return _beyond_oscillation(line, level, steps, end) if end < steps and oscillates else steps


def _beyond_oscillation(line: Line, level: float, steps: float, end: float) -> float:
    """The fewest steps that are at most at the level, where all between them and those given are little above it."""
    last = max(end, EVERY_FEW_STEPS)
    place = steps
    while (place := np.floor(place / LITTLE_APART)) > last:
        value = line(float(np.log(place)))
        if value > level + LITTLE_ABOVE:
            break
        if value <= level:
            steps = place = crossing(line, level, float(np.log(place)), float(np.log(last)))
    return steps


def _minima(values: np.ndarray) -> np.ndarray:
    """Indices of values below those beside them, the ends among them."""
    beside = np.concatenate([[np.inf], values, [np.inf]])
    return np.flatnonzero((values <= beside[:-2]) & (values <= beside[2:]))


def _with_fewest(line: Line, batch: float, ends: tuple[float, float], level: float) -> Setting:
    """The fewest steps between the ends with which B is at most at the level; the more are."""
    fewest, most = ends
    of_batch = Line(line.tuned, batch=batch)
    steps = fewest if of_batch(float(np.log(fewest))) <= level else most
    if steps - fewest > 1:
        steps = crossing(of_batch, level, float(np.log(most)), float(np.log(fewest)))
    return _whole(line, steps, batch)


def _smallest(line: Line, level: float, best: Setting) -> float:
    """The smallest B that is at most at the level with all its steps, up to the best one, which is."""
    every = np.floor(line.samples) <= 2 * EVERY_SETTING
    last = best.batch - 1 if every else min(best.batch - 1, SMALL_BATCHES)
    for batch in np.arange(1.0, last + 1).tolist():
        if line.tuned.reaches(batch, float(np.floor(line.samples / batch)), level):
            return batch
    if last == best.batch - 1:
        return best.batch
    most = _farthest(line, level, best, float(np.floor(line.samples / last)))
    batch = float(np.floor(line.samples / (most + 1))) + 1  # ⌊samples/B⌋ ≤ most
    while batch < best.batch:
        steps = float(np.floor(line.samples / batch))
        largest = float(np.floor(line.samples / steps))  # with as many steps, with which risk falls with B

        def enough(size: float, steps: float = steps) -> bool:
            return line.tuned.reaches(size, steps, level)

        if enough(largest):
            return _bisected(enough, batch, largest)
        batch = largest + 1
    return best.batch


def _bisected(enough: Callable[[float], bool], low: float, high: float) -> float:
    """Return the smallest whole number from `low` on that is enough, as `high` and all between it and that one are."""
    while low < high:
        middle = float(np.floor((low + high) / 2))
        low, high = (low, middle) if enough(middle) else (middle + 1, high)
    return high
