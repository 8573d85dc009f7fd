"""The fewest steps with which a risk is reached."""

from collections.abc import Callable

import numpy as np

from sgdtheory.critical.least_risk import LeastRisk
from sgdtheory.critical.tuned_risk import TunedRisk

# Up to this many steps every n is tried: the least risk is no smooth function of n there, and one step may be better
# than the next few.
EVERY_FEW_STEPS = 40.0
EVERY_RESONANT_STEPS = 64.0  # Up to this many steps every n is tried where so many may resonate.
STEPS_AT_ONCE = 8  # This many numbers of steps of a question are tried together; most answers are among the first.
PATTERN = 8.0  # This many numbers of steps below the one found are tried: stages, tails and rounds have a pattern in n.
# Where the risk oscillates, numbers of steps at these distances below the one found are tried too.
LOOK_BACK = np.array([12.0, 16, 24, 32, 48, 64])
LOOK_BACK_SHARE = 0.7  # No number of steps below this share of the one found is tried.
ROUNDING = 1e-12  # Rounding may exceed (1 + ω) D samples, or a target, by this share.
# Numbers of steps above 1e8 are found to this relative accuracy.
STEPS_RESOLUTION = 1e-8
LONGEST_JUMP = np.log(100.0)  # A search goes up by at most this in log n at once. The risk may be flat at first.
FAR = 20.0  # A risk that falls by less than e^−NO_FALL on the way to this many times the steps falls no more.
NO_FALL = 1e-4  # A smaller fall of log risk counts as none.
# Numbers of steps are tried at this times the squared width of the bracket, in log n, from where a line crosses the
# target.
NEARER = 0.1

GUESS_OFF = 0.05  # A search first looks this far in log n on both sides of a guess.

BatchOf = Callable[[np.ndarray, np.ndarray], np.ndarray]  # of n, and of the question that it belongs to
Margin = Callable[[np.ndarray, np.ndarray], np.ndarray]


def fewest_enough(
    least_risk: LeastRisk, batch: BatchOf, target: float, low: np.ndarray, high: np.ndarray, guess: float = np.nan
) -> tuple[np.ndarray, np.ndarray]:
    """Return for each of Q questions the fewest n in (low, high] that reach a target, and a γ; else inf and nan.

    Few steps are all tried. Then n grows until it is enough, the crossing is searched as if there were one, and numbers
    below it are tried where they may be enough as well.

    Args:
        least_risk: the least risk of B and n.
        batch: B of n and the index of a question.
        target: the risk to reach.
        low, high: (Q,) whole numbers; high may be inf.
        guess: about where the answer is expected, if it is known.
    """
    tuned = least_risk.tuned
    steps = np.full(low.shape, np.inf)
    rate = np.full(low.shape, np.nan)
    resonant = tuned.resonant * batch(low + 1, np.arange(low.size)) >= EVERY_RESONANT_STEPS
    tops = np.minimum(high, np.where(resonant, EVERY_RESONANT_STEPS, EVERY_FEW_STEPS))
    done = low.copy()

    def margin(number: np.ndarray, question: np.ndarray) -> np.ndarray:
        return np.log(least_risk(batch(number, question), number, target).risk / target)

    def tried(number: np.ndarray, question: np.ndarray) -> np.ndarray:
        """Try (K,) numbers of steps, sorted for each question; return their margins and keep the fewest enough."""
        if not number.size:
            return number
        found = least_risk(batch(number, question), number, target)
        for k in np.flatnonzero(found.risk <= target * (1 + ROUNDING))[::-1]:  # the fewest last
            if number[k] < steps[question[k]]:
                steps[question[k]], rate[question[k]] = number[k], found.rate[k]
        return np.log(found.risk / target)

    at_once = STEPS_AT_ONCE
    while (unanswered := np.flatnonzero(np.isinf(steps) & (done < tops))).size:
        last = np.minimum(done[unanswered] + at_once, tops[unanswered])
        tried(*_ranges(done[unanswered] + 1, last, unanswered))
        done[unanswered] = last
        # An early answer costs few risks this way, and a late one few rounds.
        at_once *= 2
    unanswered = np.flatnonzero(np.isinf(steps) & (done < high))
    if unanswered.size:
        ends, margins, reached = _bracket(margin, done[unanswered], high[unanswered], unanswered, guess)
        unanswered = unanswered[reached]
        found = fewest_steps(lambda n, q: margin(n, unanswered[q]), ends[:, reached], margins[:, reached])
        steps[unanswered] = found
        rate[unanswered] = least_risk(batch(found, unanswered), found, target).rate
        _look_back(tuned, tried, steps, done, unanswered)
    return steps, rate


def _ranges(first: np.ndarray, last: np.ndarray, question: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Return all numbers from first to last of each question, and the questions that they belong to."""
    counts = np.maximum(last + 1 - first, 0).astype(int)
    numbers = [low + np.arange(float(count)) for low, count in zip(first, counts, strict=True)]
    return np.concatenate(numbers), np.repeat(question, counts)


def _look_back(
    tuned: TunedRisk, tried: Callable[..., np.ndarray], steps: np.ndarray, low: np.ndarray, questions: np.ndarray
) -> None:
    """Try numbers a little below those found, as long as some of them are enough.

    Where the risk oscillates with n all of many are tried, unless their margins fall with n at all distances.
    """
    if tuned.plain:
        return  # odd numbers are never enough long before even ones are, and both have been tried
    near = max(PATTERN, tuned.pattern)
    for question in questions.tolist():
        while True:
            found = steps[question]
            first = max(np.ceil(LOOK_BACK_SHARE * found), low[question] + 1)
            back = np.arange(1.0, near + 1)
            if found <= tuned.oscillating:
                back = np.union1d(back, LOOK_BACK)
            number = np.maximum(found - back, first)
            number = np.unique(number[number < found])
            margins = tried(number, np.full(number.size, question))
            if found <= tuned.oscillating and (np.diff(margins) > 0).any():
                tried(*_ranges(number[:1], np.array([found - 1]), np.array([question])))
            if steps[question] == found:
                break


def _bracket(
    margin: Margin, low: np.ndarray, high: np.ndarray, question: np.ndarray, guess: float
) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Return (2, Q) numbers of steps of which the larger is enough, their margins, and (Q,) whether there is one.

    Upwards from just below the guess, or from `low`, which is not enough, by what a line through the last two margins
    asks for and a little more.
    """
    low = np.maximum(low, 1.0)
    below, beyond = (np.clip(_even(guess * np.exp(side * GUESS_OFF)), low, high) for side in (-1, 1))
    # A guess is right as a rule: then the two numbers around it are the bracket.
    if (low < below).all():
        pair = margin(np.append(below, beyond), np.tile(question, 2)).reshape(2, -1)
        if (pair[0] <= 0).any():
            return _bracket(margin, low, below, question, np.nan)
        low, above, new, value = below, pair[0], beyond, pair[1]
    else:
        above = np.maximum(margin(low, question), 1e-9)
        new = np.minimum(_even(1.01 * low * np.exp(np.minimum(above, LONGEST_JUMP))), high)
        value = margin(new, question)
    lost = np.zeros(low.size, dtype=bool)
    while (short := np.flatnonzero((value > 0) & (new < high) & ~lost)).size:
        slope = (above[short] - value[short]) / np.log(new[short] / low[short])
        low[short], above[short] = new[short], value[short]
        jump = np.where(slope > 0, value[short] / np.where(slope > 0, slope, 1.0), LONGEST_JUMP)
        new[short] = np.minimum(_even(1.01 * new[short] * np.exp(np.minimum(jump, LONGEST_JUMP))), high[short])
        value[short] = margin(new[short], question[short])
        lost[short] = (new[short] > FAR * low[short]) & (above[short] - value[short] < NO_FALL) & np.isinf(high[short])
    reached = (value <= 0) | np.isfinite(high)  # the last one is enough, but for rounding
    return np.array([low, new]), np.array([above, np.minimum(value, 0.0)]), reached


def _even(steps: np.ndarray) -> np.ndarray:
    """Return the next even number: if that is not enough, no smaller one is, even where even numbers resonate."""
    return 2 * np.ceil(steps / 2)


def fewest_steps(margin: Margin, ends: np.ndarray, margins: np.ndarray) -> np.ndarray:
    """For each of P questions the fewest n in (low, high] with `margin(n) ≤ 0`; low does not have it, high does.

    Even numbers of steps may be enough long before odd ones are, for steps that overshoot; odd ones never are more than
    one step before. So even numbers are searched, taking the margin to change sign once among them, and then one
    less is tried.

    Args:
        margin: called with (Q,) numbers of steps and the (Q,) indices of the questions that they belong to.
        ends: (2, P) low and high, whole numbers, low < high.
        margins: (2, P) the margins there.

    Returns:
        (P,) whole numbers.
    """
    halves = np.array([np.floor(ends[0] / 2), np.ceil(ends[1] / 2)])
    fewest = 2 * _crossing(lambda half, index: margin(2 * half, index), halves, margins)
    index = np.flatnonzero(fewest - 1 > ends[0])
    fewest[index] -= margin(fewest[index] - 1, index) <= 0
    return fewest


def _crossing(margin: Margin, ends: np.ndarray, margins: np.ndarray) -> np.ndarray:
    """`fewest_steps` for a margin that changes sign once among all numbers.

    In log n, two numbers at a time: on both sides of where a straight line between the ends crosses 0, the nearer the
    narrower the bracket, so that it narrows quadratically; a third of the bracket where that has failed.
    """
    ends = ends.copy()
    margins = margins.copy()
    stuck = np.zeros(ends.shape[1], dtype=bool)
    while (index := np.flatnonzero(ends[1] - ends[0] > np.maximum(1.0, STEPS_RESOLUTION * ends[1]))).size:
        low, high = np.log(np.maximum(ends[:, index], 0.5))
        width = high - low
        fall = margins[0, index] - margins[1, index]
        # Between the ends, even where rounding has both of them enough and the margin does not fall.
        line = low + width * np.clip(margins[0, index] / np.where(fall > 0, fall, np.inf), 0.0, 1.0)
        centre = np.where(stuck[index], (low + high) / 2, line)
        reach = np.where(stuck[index], width / 6, np.minimum(NEARER * width**2, width / 6))
        pair = np.array([np.floor(np.exp(centre - reach)), np.ceil(np.exp(centre + reach))])
        pair = np.clip(pair, ends[0, index] + 1, ends[1, index] - 1)
        values = margin(pair.ravel(), np.tile(index, 2)).reshape(pair.shape)
        for n, value in zip(pair, values, strict=True):
            enough = value <= 0
            side = enough.astype(int)
            # The smaller comes first: where it is enough the larger is outside, whatever its margin.
            better = (n > ends[0, index]) & (n < ends[1, index])
            ends[side[better], index[better]], margins[side[better], index[better]] = n[better], value[better]
        left, right = np.log(np.maximum(ends[:, index], 0.5))
        # Beside a steep fall a straight line misleads: what has not halved is cut in thirds next time.
        stuck[index] = ~stuck[index] & (right - left > width / 2)
    return ends[1]
