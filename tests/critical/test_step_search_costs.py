"""Searches for the fewest steps of random margins and risks: exact, and how much they ask for.

As in `test_minima`, a search that asks for more on purpose changes the numbers, and its commit says what for.
"""

import numpy as np
import pytest

from sgdtheory.critical.step_search import fewest_enough, fewest_steps
from tests.costs import MORE_VALUES
from tests.critical.test_searches import alternating, oscillating, smooth

NUMBER = 24  # targets of a formula


def power(rate, threshold):
    return lambda n, i: rate[i] * np.log(threshold[i] / n)


def kinked(rate, threshold):
    return lambda n, i: np.where(n < threshold[i], 0.01, 1.0) * rate[i] * np.log(threshold[i] / n)


def steep_then_flat(rate, threshold):
    return lambda n, i: np.where(n < threshold[i], 1.0, 0.01) * rate[i] * np.log(threshold[i] / n)


def bent(rate, threshold):
    """The slope changes by a factor of three."""
    return lambda n, i: (lambda x: rate[i] * x * (1 + 0.5 * np.tanh(x)))(np.log(threshold[i] / n))


def even(rate, threshold):
    """Even numbers of steps are enough sooner than odd ones."""
    return lambda n, i: rate[i] * np.log(threshold[i] * np.where(n % 2 == 1, 1.2, 1.0) / n)


def asked_for(shape):
    """Numbers of margins and of calls for 200 questions, each of which has its own threshold up to 1e7."""
    rng = np.random.default_rng(0)
    rate, threshold = 10.0 ** rng.uniform(-1, 1, 200), 10.0 ** rng.uniform(0.5, 7, 200)
    margin = shape(rate, threshold)
    low, high = np.floor(threshold / 10.0 ** rng.uniform(0.2, 2, 200)), np.ceil(threshold * 10.0 ** rng.uniform(0.2, 2))
    low = np.maximum(low, 1.0)
    numbers = np.zeros(2, dtype=int)

    def counted(n, i):
        numbers[:] += n.size, 1
        return margin(n, i)

    everything = np.arange(200)
    found = fewest_steps(counted, np.array([low, high]), np.array([margin(low, everything), margin(high, everything)]))
    assert (margin(found, everything) <= 0).all()
    assert ((margin(found - 1, everything) > 0) | (found - 1 <= low)).all()
    return numbers.tolist()


MARGINS = {power: (1798, 6), kinked: (6112, 30), steep_then_flat: (5660, 29), bent: (1924, 8), even: (1784, 6)}


@pytest.mark.parametrize("shape", MARGINS, ids=lambda shape: shape.__name__)
def test_the_fewest_steps_cost_no_more(shape):
    margins, calls = asked_for(shape)
    most, most_calls = MARGINS[shape]
    assert margins <= MORE_VALUES * most
    assert calls <= most_calls


def pairs_for(known, guess):
    """Number of pairs that are tuned for the fewest steps of batch sizes, from where they are not enough."""
    rng = np.random.default_rng(1)
    number = 0
    for _ in range(NUMBER):
        batch = np.unique(np.floor(10.0 ** rng.uniform(0, 3, 6)))
        low = np.full(batch.size, float(rng.integers(1, 50)))
        every = np.arange(2.0, 30_000)
        target = known.of(batch.min(), 10.0 ** rng.uniform(1.0, 3.5))
        inside = [every[(every > low[0]) & (known.of(size, every) <= target)][0] for size in batch]
        least_risk = known.remembered()
        about = inside[0] * guess if guess else np.nan
        chosen = batch[:1] if guess else batch
        highs = np.full(chosen.size, 29_000.0 if guess else np.inf)
        steps, rate = fewest_enough(least_risk, lambda _, q, b=chosen: b[q], target, low[: chosen.size], highs, about)
        np.testing.assert_array_equal(steps, inside[: chosen.size])
        np.testing.assert_allclose(rate, 1 / steps)
        number += least_risk.goals.size
    return number


TUNED = {  # formulas, and the share of the answer that is guessed if any: pairs that are tuned
    ("smooth", None): 3303,
    ("smooth", 1.0): 628,
    ("smooth", 1.2): 705,
    ("smooth", 0.8): 650,
    ("alternating", None): 4864,
    ("alternating", 1.0): 628,
    ("oscillating", None): 4536,
    ("oscillating", 1.0): 776,
}


@pytest.mark.parametrize(("name", "guess"), TUNED)
def test_steps_that_are_enough_cost_no_more(name, guess):
    known = {
        "smooth": smooth(1.3, 2.0),
        "alternating": alternating(1.3, 1.0),
        "oscillating": oscillating(1.5, 0.3, 300),
    }
    assert pairs_for(known[name], guess) <= MORE_VALUES * TUNED[name, guess]
