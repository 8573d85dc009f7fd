"""Signal that is pooled until noise does not make it, by hand."""

import numpy as np
import pytest

from sgdtheory.data.cross_fit import Spectrum, pooled_signal


def pooled(*signal):
    """With noise of 10/100 = 0.1: sums of 1, 2, 3 directions must exceed 0.2, 0.283, 0.346."""
    values = np.array(signal)
    return pooled_signal(Spectrum(np.ones_like(values), values, 10.0, 100.0))


def test_a_direction_that_exceeds_its_noise_stands_alone():
    np.testing.assert_allclose(pooled(0.25, 0.21), [0.25, 0.21])


def test_neighbours_are_pooled_until_their_sum_exceeds_its_noise():
    """0.15 and 0.25 do not, 0.40 of three does."""
    np.testing.assert_allclose(pooled(0.15, 0.1, 0.15, 0.3), [0.4 / 3, 0.4 / 3, 0.4 / 3, 0.3])


def test_what_is_left_at_the_end_is_spread_and_not_negative():
    np.testing.assert_allclose(pooled(0.25, 0.04, -0.02), [0.25, 0.01, 0.01])
    np.testing.assert_allclose(pooled(0.25, -0.04, 0.02), [0.25, 0.0, 0.0])
    assert pooled(0.3, -0.1, 0.25, 0.01).sum() == pytest.approx(0.46)
