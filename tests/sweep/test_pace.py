"""The time that a sweep still takes, against sweeps whose times are known, by a clock that the test moves."""

import heapq
import itertools

import numpy as np
import pytest

from sgdtheory.sweep.pace import Countdown, Pace, Taken, kind
from tests.runs import run_of

BATCHES = {16: 400, 50: 200, 160: 120, 500: 80}
WIDTHS = 32, 64, 128, 256


def unit(width, batch, seeds):
    return tuple(
        run_of(width=width, batch_size=batch, max_steps=BATCHES[batch], eval_every=10, seed=seed) for seed in seeds
    )


def sweep_of(parts):
    """Units in the order of a grid, every kind in so many parts."""
    return [
        unit(width, batch, range(10 * part, 10 * part + 10))
        for width, batch, part in itertools.product(WIDTHS, BATCHES, range(parts))
    ]


def truth_of(units, rng):
    """Return each unit's time: a compilation, and steps whose time hardly depends on a small network's size."""
    found, seen = {}, set()
    for each in units:
        work = sum(config.operations for config in each)
        step = (4e-3 + 2e-11 * work) * rng.uniform(0.9, 1.1)
        setup = 0.1 if kind(each) in seen else 3.0
        seen.add(kind(each))
        found[each] = Taken(each[0].max_steps, setup * rng.uniform(0.8, 1.2), each[0].max_steps * step)
    return found


def played(units, truth, workers):
    """(share of units that have ended, seconds left in truth, what is said, what 0.1.0 would have said) each second."""
    now = [0.0]
    countdown = Countdown(list(units), workers, clock=lambda: now[0])
    queue, running, ended, said = list(units), [], {}, []
    start = dict.fromkeys(range(workers), 0.0)
    busy = [(0.0, worker) for worker in start]
    heapq.heapify(busy)
    for each in queue:  # when every unit begins and ends
        free, worker = heapq.heappop(busy)
        end = free + truth[each].setup + truth[each].stepping
        running.append((free, end, each))
        heapq.heappush(busy, (end, worker))
    last = max(end for _, end, _ in running)
    cost = {each: sum(config.operations * config.max_steps for config in each) for each in units}
    for now[0] in np.arange(0.0, last, 1.0):
        for begin, end, each in running:
            if begin <= now[0]:
                countdown.began(each)
            if end <= now[0] and each not in ended:
                ended[each] = end
                countdown.ended(each, truth[each])
        spent = sum(cost[each] for each in ended)
        before = now[0] * (sum(cost.values()) - spent) / spent if spent else np.nan
        said.append((len(ended) / len(units), last - now[0], countdown.seconds_left, before))
    return np.array(said)


@pytest.mark.parametrize("parts", [1, 3])
@pytest.mark.parametrize("workers", [1, 2, 5])
def test_the_time_left_is_about_right(parts, workers):
    units = sweep_of(parts)
    ended, left, said, before = played(units, truth_of(units, np.random.default_rng(1)), workers).T
    assert np.isnan(said[0])
    later = ended >= 1 / 3
    off = np.abs(said - left)[later]
    assert (off <= 5 + 0.3 * left[later]).all()
    near = (left < 26) & (left > 15) & later
    assert (np.abs(said - left)[near] <= 8).all()
    if parts == 1:  # the control: operations and steps at most, whatever a step takes, say several times as much
        assert np.nanmax((before / left)[later]) > 2.5


def test_runs_that_reach_their_target_early():
    """Half of the steps in what has ended: half of them are expected of the rest."""
    units = sweep_of(1)
    countdown = Countdown(list(units), clock=lambda: 0.0)
    for each in units[:8]:
        countdown.ended(each, Taken(each[0].max_steps // 2, 0.0, 0.01 * (each[0].max_steps // 2)))
    left = sum(each[0].max_steps / 2 * 0.01 for each in units[8:])
    assert countdown.seconds_left == pytest.approx(left, rel=1e-6)


def test_what_another_process_has_is_still_left():
    units = sweep_of(1)[:4]
    countdown = Countdown(list(units), clock=lambda: 0.0)
    countdown.ended(units[0], Taken(400, 1.0, 4.0))
    assert np.isnan(countdown.seconds_left)  # one kind says little of the others
    countdown.ended(units[1], Taken(200, 1.0, 2.0))
    countdown.began(units[2])
    before = countdown.seconds_left
    countdown.ended(units[2], None)
    assert countdown.left == units[2:]
    assert countdown.seconds_left == pytest.approx(before)
    for each in units[2:]:
        countdown.ended(each, Taken(0, 0.0, 0.1))  # all of its runs had ended
    assert countdown.seconds_left == 0.0


def test_a_unit_that_should_have_ended_is_not_over():
    now = [0.0]
    first, second = sweep_of(2)[:2]
    countdown = Countdown([first, second], clock=lambda: now[0])
    countdown.ended(first, Taken(400, 1.0, 4.0))
    countdown.began(second)
    now[0] = 50.0
    assert countdown.seconds_left == pytest.approx(5.0)  # a tenth of its age


def test_workers_that_are_seen_count():
    units = sweep_of(3)
    countdown = Countdown(list(units), clock=lambda: 0.0)
    countdown.ended(units[0], Taken(400, 0.0, 4.0, "a"))
    countdown.ended(units[3], Taken(200, 0.0, 2.0, "a"))
    alone = countdown.seconds_left
    countdown.ended(units[1], Taken(400, 0.0, 4.0, "b"))
    assert countdown.seconds_left < 0.6 * alone


def test_steps_of_kinds_that_were_not_measured():
    pace, alpha, beta = Pace(), 2e-3, 3e-11
    for width, batch in ((32, 16), (64, 500), (128, 50)):
        each = unit(width, batch, range(10))
        step = alpha + beta * sum(config.operations for config in each)
        pace.learn(each, Taken(100, 2.0, 100 * step), whole=False)
    other = unit(64, 160, range(10))
    expected = alpha + beta * sum(config.operations for config in other)
    assert pace.step_seconds(other) == pytest.approx(expected, rel=1e-6)
    assert pace.seconds_of(other) == pytest.approx(2.0 + 120 * expected, rel=1e-6)
    largest = pace.step_seconds(unit(64, 500, range(10)))
    assert largest < pace.step_seconds(unit(256, 500, range(10))) < 4 * largest  # 13 times the operations


def test_the_time_left_of_a_few_units_by_hand():
    """Units of two kinds take 1 s and 4 s besides their set-up, which is less where a kind was compiled before."""
    now = [0.0]
    a, b = ([unit(width, batch, [seed]) for seed in range(4)] for width, batch in ((32, 160), (64, 500)))
    countdown = Countdown([*a, *b], 2, clock=lambda: now[0])
    countdown.ended(a[0], Taken(120, 6.0, 1.0, "one"))
    assert np.isnan(countdown.seconds_left)
    countdown.ended(b[0], Taken(80, 8.0, 4.0, "one"))
    # Two workers: each unit has its steps alone, as nothing is known of a second set-up.
    assert countdown.seconds_left == pytest.approx(1 + 4 + 4)  # a, a, a, b, b, b to the first that is free
    countdown.ended(a[1], Taken(120, 0.5, 1.0, "two"))
    countdown.ended(b[1], Taken(80, 0.25, 4.0, "two"))
    countdown.began(a[2])
    countdown.began(b[2])
    now[0] = 1.25
    left = {"a": 1.5 - 1.25, "b": 4.25 - 1.25}
    assert countdown.seconds_left == pytest.approx(left["a"] + 1.5 + 4.25)
    now[0] = 100.0
    assert countdown.seconds_left == pytest.approx(10 + 4.25)  # a tenth of their age is left of both
    three = [Taken(120, 0.0, 1.0, name) for name in ("one", "two", "three")]
    countdown.ended(a[2], three[2])
    assert countdown.seconds_left == pytest.approx(10)


def test_the_first_unit_of_an_unknown_kind_waits_for_the_mean_compilation():
    pace = Pace()
    small, large, other = (unit(32, 16, [0]), unit(32, 50, [0]), unit(32, 160, [0]))
    assert not pace.knows([small])
    pace.learn(small, Taken(400, 3.0, 4.0))
    assert pace.knows([small])
    assert not pace.knows([small, large])
    pace.learn(large, Taken(100, 5.0, 1.0))  # half of its steps
    assert pace.knows([other])
    assert pace.steps_of(large) == 100
    assert pace.steps_of(other) == 120 * 0.75
    assert pace.seconds_of(other) - pace.seconds_of(other, again=True) == pytest.approx(4.0)
    assert pace.seconds_of(other, again=True) == pytest.approx(0.01 * 90)
    ratio = sum(each.operations for each in unit(256, 500, [0])) / sum(each.operations for each in large)
    pace.learn(large, Taken(100, 5.0, 3.0))
    assert pace.step_seconds(unit(256, 500, [0])) == pytest.approx(0.02 * ratio**0.5)
