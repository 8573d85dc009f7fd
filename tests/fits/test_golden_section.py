"""Minima of many functions at once, inside of their intervals and at the ends."""

import numpy as np
import pytest

from sgdtheory.fits.searches import golden_section


@pytest.mark.parametrize("power", [1, 2])
def test_the_least_of_each_is_found(power):
    """|x − c|^p between −1 and 3; c beyond an end has its least there. Of squares rounding hides the last digits."""
    centres = np.array([[-5.0, -0.999, 0.2], [1.7, 2.999, 8.0]])
    found = golden_section(lambda x: np.abs(x - centres) ** power, np.full((2, 3), -1.0), np.full((2, 3), 3.0))
    np.testing.assert_allclose(found, centres.clip(-1, 3), rtol=0, atol={1: 1e-8, 2: 1e-7}[power])


def test_each_has_an_interval_of_its_own_and_values_without_bound_are_left():
    """x − log(x − 1), least at 2, inf up to 1."""

    def function(x):
        return np.where(x > 1, x - np.log(np.maximum(x - 1, 1e-300)), np.inf)

    found = golden_section(function, np.array([0.5, 1.0, 3.0]), np.array([4.0, 2.5, 5.0]))
    np.testing.assert_allclose(found, [2.0, 2.0, 3.0], rtol=0, atol=1e-7)
