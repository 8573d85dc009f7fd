"""Averages by their definitions: weights of the iterates from the contract's numbers, against sums in words."""

import math

import numpy as np
import pytest

import sgdtheory as st


def weights(average, step, num_steps):
    """Weights of w_0 … w_t in what is returned after t of n steps, from the contract alone."""
    first = average.first(num_steps)
    total = np.zeros(step + 1)
    total[0] = float(average.starts_at_iterate())
    for t in range(step):
        if t >= first:
            total *= 1 - average.forgetting(num_steps)
            total[t] += average.weight(num_steps)
    iterate, share = average.returned(step, num_steps)
    total = total * share
    total[step] += iterate
    return total


def exponential(tau, step):
    """ξ_{t+1} = τ ξ_t + (1 − τ) w_t, ξ_0 = w_0, written out."""
    found = np.zeros(step + 1)
    found[:step] = (1 - tau) * tau ** (step - 1.0 - np.arange(step))
    found[0] += tau**step
    return found


@pytest.mark.parametrize("step", [1, 4, 10])
def test_every_iterate_has_its_weight(step):
    uniform = np.append(np.full(step, 1 / step), 0.0)
    last = np.append(np.zeros(step), 1.0)
    np.testing.assert_allclose(weights(st.UniformAverage(), step, 10), uniform)
    np.testing.assert_allclose(weights(st.LastIterate(), step, 10), last)
    np.testing.assert_allclose(weights(st.ExponentialAverage(0.7), step, 10), exponential(0.7, step))
    np.testing.assert_allclose(weights(st.ExponentialAverage(window=0.4), step, 10), exponential(0.75, step))


def test_a_tail_begins_late_and_is_nothing_before():
    tail = st.TailAverage(0.25)  # of ten steps the last three
    np.testing.assert_allclose(weights(tail, 10, 10), [0, 0, 0, 0, 0, 0, 0, 1 / 3, 1 / 3, 1 / 3, 0])
    np.testing.assert_allclose(weights(tail, 8, 10)[7], 1.0)
    assert math.isnan(tail.returned(7, 10).total)
    assert tail.returned(7, 10).iterate == 0


def test_a_window_is_never_shorter_than_a_step():
    assert st.ExponentialAverage(window=0.1).forgetting(1000) == 0.01
    assert st.ExponentialAverage(window=0.1).forgetting(5) == 1.0


def test_which_are_the_same_for_runs_of_any_length():
    same = st.UniformAverage(), st.LastIterate(), st.ExponentialAverage(0.9)
    assert all(average.any_length for average in same)
    assert not any(average.any_length for average in (st.TailAverage(0.5), st.ExponentialAverage(window=0.1)))
