"""Evaluations of a run, of one that goes on, and of one that is read off another: as if each had been made alone."""

import numpy as np
import pytest

from sgdtheory.training.evaluation import is_scheduled
from sgdtheory.training.history import History
from sgdtheory.training.reuse import observed
from tests.runs import changed, run_of

LAST = 120
OF_STEPS = np.random.default_rng(0).uniform(1, 2, (LAST, 3))  # training loss and estimates of every step
TOTAL = np.concatenate([np.zeros((1, 3)), np.cumsum(OF_STEPS, axis=0)])
# Losses fall by 0.01 a step; the second average is the best, and the uniform one the worst.
LOSSES = 3 - 0.01 * np.arange(LAST + 1)[:, None] + np.array([0.05, 0.02, 0.0, 0.4])
NAMES = "iterate", "0.5", "0.9", "uniform"
WIDE = run_of(averages=(0.5, 0.9), uniform_average=True, eval_every=5, max_steps=43, schedule_steps=60)


def alone(config, last, failed=LAST + 1):
    """The history of a run up to a step, and its sums since they were set to 0; from `failed` on no loss is finite."""
    history, begin = History(config), 0
    columns = [NAMES.index(name) for name in config.average_names]
    for step in range(last + 1):
        if is_scheduled(config, step) or step == config.max_steps:
            history.add(step, LOSSES[step, columns], TOTAL[step] - TOTAL[begin], failed if failed <= step else -1)
            begin = step if is_scheduled(config, step) else begin
        if history.outcome:
            return history, TOTAL[step] - TOTAL[begin]
    return history, TOTAL[last] - TOTAL[begin]


def same(found, expected):
    assert (found.config, found.outcome) == (expected.config, expected.outcome)
    assert (found.steps, found.since) == (expected.steps, expected.since)
    np.testing.assert_array_equal(found.losses, expected.losses)
    np.testing.assert_allclose(found.sums, expected.sums, rtol=1e-12)


def test_means_are_those_of_the_steps_since_the_last_scheduled_evaluation():
    history, _ = alone(WIDE, 43)
    assert (history.steps[-3:], history.since, history.outcome, history.step) == ([40, 42, 43], 42, "steps", 43)
    assert np.isnan(history.sums[0]).all()
    for place in range(1, len(history.steps)):
        first, end = history.steps[place - 1 : place + 1]
        np.testing.assert_allclose(history.sums[place], OF_STEPS[first:end].mean(0), rtol=1e-12)
    assert History(WIDE).step == -1


@pytest.mark.parametrize(
    ("losses", "failed", "step", "outcome"),
    [
        ((1.0 + 1e-9, 2.0), -1, 5, None),
        ((2.0, 1.0), -1, 5, "target"),
        ((2.0, np.nan), -1, 9, None),
        ((1.1, np.nan), -1, 10, "steps"),
        ((0.5, 2.0), -1, 10, "target"),
        ((2.0, 2.0), 0, 10, "diverged"),
        ((np.inf, 0.5), -1, 5, "diverged"),
    ],
)
def test_what_ends_a_run(losses, failed, step, outcome):
    """A run of ten steps to a loss of 1."""
    history = History(run_of(averages=(0.5,), max_steps=10, target_loss=1))
    history.add(step, np.array(losses), np.ones(3), failed)
    assert history.outcome == outcome


@pytest.mark.parametrize(
    "changes",
    [{"max_steps": 90}, {"max_steps": 45}, {"target_loss": 2.0}, {"max_steps": 90, "target_loss": 2.0}, {}]
    + [{"target_loss": LOSSES[43, 2]}],
)
def test_a_run_that_goes_on_has_the_history_of_one_that_never_stopped(changes):
    config = changed(WIDE, **changes)
    same(alone(WIDE, 43)[0].continued(config), alone(config, 43)[0])


def test_a_target_that_the_last_evaluation_reaches_ends_a_run_that_would_go_on():
    found = alone(WIDE, 43)[0].continued(changed(WIDE, max_steps=90, target_loss=LOSSES[43, 2]))
    assert (found.outcome, found.step) == ("target", 43)


def test_runs_that_diverged_or_have_not_begun_go_on_as_they_are():
    wild, _ = alone(WIDE, 43, failed=10)
    assert (wild.outcome, wild.step) == ("diverged", 10)
    assert wild.continued(changed(WIDE, max_steps=90)).outcome == "diverged"
    assert History(WIDE).continued(changed(WIDE, max_steps=90)) == History(changed(WIDE, max_steps=90))


@pytest.mark.parametrize("averages", [{}, {"averages": (0.9,), "uniform_average": False}, {"averages": ()}])
@pytest.mark.parametrize(
    "changes",
    [
        *({"eval_every": every, "max_steps": steps} for every in (5, 10, 20, 1000) for steps in (40, 42, 43, 90)),
        *({"target_loss": target, "max_steps": 90} for target in (LOSSES[20, 2], 2.9, LOSSES[40, 2], 0.1)),
        *({"max_steps": 120, "eval_every": every} for every in (40, 43)),
    ],
)
def test_a_run_that_is_read_off_another_has_its_own_history(changes, averages):
    """Its sums are those of the other's state and what is to be added to them."""
    source, left = alone(WIDE, 43)
    source.seconds, source.steps_per_second = 86.0, 7.0
    config = changed(WIDE, **changes, **averages)
    found, rest = observed(source, config, [NAMES.index(name) for name in config.average_names], 43)
    expected, own = alone(config, 43)
    assert found is not None
    same(found, expected)
    assert (found.seconds, found.steps_per_second) == (2.0 * found.step, 7.0)
    if found.outcome is None:
        np.testing.assert_allclose(left + rest, own, rtol=1e-12)


@pytest.mark.parametrize("changes", [{"eval_every": 3}, {"max_steps": 37}, {"schedule_steps": 50, "max_steps": 50}])
def test_a_run_that_is_evaluated_elsewhere_is_not_read_off(changes):
    assert observed(alone(WIDE, 43)[0], changed(WIDE, **changes), [0, 1, 2, 3], 43)[0] is None
    begun, config = alone(changed(WIDE, max_steps=60), 41)[0], changed(WIDE, eval_every=41, max_steps=60)
    assert observed(begun, config, [0, 1, 2, 3], 40)[0] is not None
    assert observed(begun, config, [0, 1, 2, 3], 41)[0] is None


def test_divergence_is_read_off():
    source, _ = alone(WIDE, 43, failed=10)
    config = changed(WIDE, averages=(0.9,), uniform_average=False, max_steps=90)
    found, _ = observed(source, config, [0, 2], 10)
    assert found is not None
    same(found, alone(config, 43, failed=10)[0])
