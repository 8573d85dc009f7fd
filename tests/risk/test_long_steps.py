"""Stabilized steps of a flow: second order, stable up to their longest length, and their own estimate of the error."""

import numpy as np
import pytest

from sgdtheory.risk.mean_field.long_steps import LARGEST_NUMBER_OF_STAGES, longest, scheme, stages_for, stepped


def flow(t, y):
    return np.array([np.cos(t) - y[0], -2 * t * y[1] ** 2, y[0] - y[2]])


def run(number, stages, end=1.0):
    """Equal steps from y(0) = (½, 1, 0), each of which begins with the slope that the last one ended with."""
    state, now = np.array([0.5, 1.0, 0.0]), 0.0
    slope, errors = flow(now, state), []
    for _ in range(number):
        after = stepped(flow, now, state, slope, end / number, stages)
        state, slope, now = after.state, after.slope, now + end / number
        np.testing.assert_allclose(slope, flow(now, state), rtol=1e-12)
        errors.append(after.error)
    return state, errors


@pytest.mark.parametrize("stages", [2, 3, 7, 40])
def test_steps_are_of_second_order(stages):
    """y₀ = (sin t + cos t)/2, y₁ = 1/(1 + t²): half the length leaves a quarter of the error, and an eighth a step."""
    exact = np.array([(np.sin(1) + np.cos(1)) / 2, 1 / 2, np.sin(1) / 2])
    off = [np.abs(run(number, stages)[0] - exact).max() for number in (20, 40, 80)]
    assert off[0] < 1e-3
    assert off[0] / off[1] == pytest.approx(4, rel=0.1)
    assert off[1] / off[2] == pytest.approx(4, rel=0.1)
    first = [np.abs(run(number, stages)[1][-1]).max() for number in (20, 40)]
    assert first[0] / first[1] == pytest.approx(8, rel=0.2)


def test_the_estimate_compares_the_step_with_the_slopes_at_its_ends():
    """0.8 (y − y') + 0.4 h (f + f'), as the paper has it."""
    state = np.array([0.5, 1.0, 0.0])
    after = stepped(flow, 0.3, state, flow(0.3, state), 0.1, 4)
    slopes = flow(0.3, state) + flow(0.4, after.state)
    np.testing.assert_allclose(after.error, 0.8 * (state - after.state) + 0.04 * slopes, rtol=1e-12)


@pytest.mark.parametrize("decay", [0.3, 20.0])
def test_the_fastest_decay_stays_bounded_with_the_stages_that_are_chosen(decay):
    """Damped: at every length up to that of all stages less than all is left, and a stage less is not enough."""
    most = longest(decay)
    assert stages_for(most, decay) == LARGEST_NUMBER_OF_STAGES
    assert stages_for(most * 1.001, decay) == LARGEST_NUMBER_OF_STAGES + 1
    assert stages_for(1e-9, decay) == 2
    for share in (0.01, 0.1, 0.5, 1.0):
        length = share * most
        stages = stages_for(length, decay)
        after = stepped(lambda t, y: -decay * y, 0.0, np.ones(1), -decay * np.ones(1), length, stages)
        assert abs(after.state[0]) < 0.97
        if stages > 6:
            fewer = stepped(lambda t, y: -decay * y, 0.0, np.ones(1), -decay * np.ones(1), length, stages - 2)
            assert abs(fewer.state[0]) > 1


def test_times_of_stages_rise_to_the_end():
    for stages in (2, 5, 40):
        time = scheme(stages).time
        assert (np.diff(time) > 0).all()
        assert time[-1] == pytest.approx(1, rel=1e-12)
