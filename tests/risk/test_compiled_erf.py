"""The error function of compiled steps against SciPy's."""

import numpy as np
from scipy import special

from sgdtheory.risk.mean_field.compiled_erf import LARGEST, erf_by_gaussian


def test_against_scipy():
    argument = np.concatenate([np.linspace(-9, 9, 100_001), [-LARGEST, LARGEST, 1e-300, -1e150, 1e150, 0.0]])
    found = erf_by_gaussian(argument, np.exp(-(argument**2)))
    np.testing.assert_allclose(found, special.erf(argument), rtol=0, atol=3e-14)
    assert (abs(found) <= 1).all()
    np.testing.assert_array_equal(erf_by_gaussian(-argument, np.exp(-(argument**2))), -found)
