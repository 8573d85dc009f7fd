"""The closed form of the useful range against roots of the data by mpmath, and its limits."""

import mpmath
import numpy as np
import pytest

from sgdtheory.fits.u_shaped_law import useful_range


def ends(a, b, c, reference, overhead):
    """Roots of `aB + b + c/B = (1 + ω)(aR + b + c/R)` as a polynomial in B."""
    best = mpmath.sqrt(mpmath.mpf(c) / a)
    start = max(best, reference)
    level = (1 + overhead) * (a * start + b + c / start)
    roots = sorted(mpmath.polyroots([c, b - level, a], asc=True, maxsteps=200, extraprec=200))
    return [float(best), *map(float, roots)]


@pytest.mark.parametrize("seed", range(20))
def test_ends_are_the_roots(seed):
    """In some laws b = 0, and B_ref lies below B_opt or above it."""
    random = np.random.default_rng(seed)
    a, b, c, reference = 10.0 ** random.uniform(-3, 4, 4)
    b *= seed % 3 > 0
    overhead = float(random.uniform(0.05, 2))
    found = [float(each) for each in useful_range(np.array([a, b, c]), reference, overhead)]
    assert found == pytest.approx(ends(a, b, c, reference, overhead), rel=1e-9)


@pytest.mark.parametrize(
    ("terms", "expected"),
    [
        ((2.0, 300.0, 0.0), (0.0, 0.0, 0.2 * 150 + 1.2 * 16)),  # a + b/B
        ((2.0, 0.0, 0.0), (0.0, 0.0, 1.2 * 16)),
        ((0.0, 300.0, 0.0), (0.0, 0.0, np.inf)),
        ((0.0, 300.0, 600.0), (np.inf, 600 / (0.2 * 300), np.inf)),  # data fall towards b: c/B = ωb
        ((0.0, 0.0, 600.0), (np.inf, np.inf, np.inf)),
    ],
)
def test_absent_terms(terms, expected):
    assert tuple(map(float, useful_range(np.array(terms), 16.0, 0.2))) == pytest.approx(expected, rel=1e-12)


def test_it_tends_to_the_range_without_c_and_is_symmetric_about_the_optimum():
    tiny = [float(each) for each in useful_range(np.array([2.0, 300.0, 1e-9]), 16.0, 0.2)]
    assert tiny[1] == pytest.approx(0, abs=1e-9)
    assert tiny[2] == pytest.approx(0.2 * 150 + 1.2 * 16, rel=1e-9)
    best, low, high = useful_range(np.array([[1.0, 300.0, 4000.0], [1.0, 0.0, 4000.0]]), 1.0, 0.2)
    np.testing.assert_allclose(low * high, best**2, rtol=1e-12)
    np.testing.assert_allclose(np.arccosh(1.2), np.log(high / best)[1], rtol=1e-12)  # without b: cosh u = 1 + ω
