"""Many laws at once against `fit_steps_law` one by one."""

import numpy as np
import pytest

import sgdtheory as st
from sgdtheory.fits.loss_targets import critical_batch_sizes_of


@pytest.mark.parametrize("ratio", [3.0, 300.0, 3e4])
@pytest.mark.parametrize("noise", [0.01, 0.3])
def test_they_are_the_laws_one_by_one(ratio, noise):
    """The ratio b/a lies among the batch sizes, below and above them; some laws have no plateau, or no slope."""
    random = np.random.default_rng(int(ratio))
    batch_sizes = np.array([20.0, 30.0, 100.0, 400.0, 2000.0])
    steps = (1 + ratio / batch_sizes) * np.exp(noise * random.standard_normal((8, 5)))
    for convention in (st.Convention(50, 0.3), st.Convention(None, 2.0)):
        found = critical_batch_sizes_of(batch_sizes, steps, convention)
        one_by_one = [st.fit_steps_law(batch_sizes, each).critical_batch_size(convention=convention) for each in steps]
        told = np.isfinite(found)
        np.testing.assert_array_equal(told, np.isfinite(one_by_one))
        np.testing.assert_allclose(found[told], np.array(one_by_one)[told], rtol=1e-6)


@pytest.mark.parametrize("ratio", [10.0, 1e9])
def test_a_plateau_is_absent_only_where_no_batch_size_shows_it(ratio):
    """b/a between the batch sizes 1 and 1e10."""
    batch_sizes = np.geomspace(1, 1e10, 9)
    found = critical_batch_sizes_of(batch_sizes, 1 + ratio / batch_sizes[None], st.Convention(1, 0.2))
    np.testing.assert_allclose(found, 0.2 * ratio + 1.2, rtol=1e-6)
    assert critical_batch_sizes_of(batch_sizes, 5 / batch_sizes[None], st.Convention(1, 0.2)) == np.inf
