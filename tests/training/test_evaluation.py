"""Steps at which a run is evaluated, against brute force."""

import numpy as np
import pytest

from sgdtheory.training import TrainConfig
from sgdtheory.training.evaluation import is_scheduled, next_evaluation, steps_to_target


def by_hand(duration, every, last):
    steps = {0} | {2**power for power in range(last.bit_length())} | set(range(0, last + 1, every))
    for percent in range(70, 100 * last // duration + 6, 5):
        steps.add((percent * duration + 99) // 100)
    return {step for step in steps if step <= last}


@pytest.mark.parametrize("duration", [1, 2, 3, 7, 10, 19, 20, 21, 64, 100, 137, 333])
@pytest.mark.parametrize("every", [1, 3, 10, 1000])
def test_schedule_is_powers_multiples_and_a_dense_end(duration, every):
    longest = 2 * duration + 5
    config = TrainConfig(max_steps=longest, schedule_steps=duration, eval_every=every)
    expected = by_hand(duration, every, longest)
    assert {step for step in range(longest + 1) if is_scheduled(config, step)} == expected
    for step in range(longest):
        assert next_evaluation(config, step) == min((each for each in expected if each > step), default=longest)


def test_schedule_by_hand():
    config = TrainConfig(max_steps=100, eval_every=30)
    found = [step for step in range(101) if is_scheduled(config, step)]
    assert found == [0, 1, 2, 4, 8, 16, 30, 32, 60, 64, 70, 75, 80, 85, 90, 95, 100]


def test_steps_to_target_against_a_scan():
    rng = np.random.default_rng(0)
    for _ in range(200):
        steps = np.cumsum(rng.integers(1, 5, 12))
        losses = rng.standard_normal(12).round(1)
        losses[rng.random(12) < 0.1] = np.nan
        target = round(rng.standard_normal(), 1)
        expected = np.nan
        for step, loss in zip(steps, losses, strict=True):
            if loss <= target:
                expected = step
                break
        np.testing.assert_equal(steps_to_target(steps, losses, target), float(expected))
