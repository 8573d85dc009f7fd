import functools
from functools import partial

import jax
import numpy as np
import pytest
from scipy import stats

import sgdtheory as st
from sgdtheory.simulation.dynamics import Spectrum
from sgdtheory.simulation.laws import EllipticalT, Gaussian, Rademacher, StudentT
from tests.marks import slow
from tests.simulation.explicit_runs import EIGENVALUES, PROBLEM, expected, simulated, uniform
from tests.simulation.statistical import FALSE_ALARM, normal_limit, one_sample_p, standard_score, two_sample_p

LAWS = [Gaussian(), Rademacher(), StudentT(12.0), EllipticalT(12.0)]
NAMES = ["gaussian", "rademacher", "student_t", "elliptical_t"]
EACH_LAW = pytest.mark.parametrize("law", LAWS, ids=NAMES)
SPECTRUM = Spectrum(*(np.asarray(a, np.float32) for a in ([1.0, 0.3, 0.1], [1.0, 1.0, 1.0], 0.5)))


@functools.cache
def samples(law, dtype=np.float32):
    spectrum = Spectrum(*(a.astype(dtype) for a in SPECTRUM[:3]))
    with jax.enable_x64(dtype == np.float64):
        values = np.asarray(law.sample(jax.random.key(0), 200_000, spectrum))
    assert values.shape == (200_000, 3)
    assert values.dtype == dtype
    return values.astype(float)


@pytest.mark.parametrize(
    ("law", "dtype"),
    [*((law, np.float32) for law in LAWS), *(slow(law, np.float64) for law in LAWS)],
)
def test_samples_are_white(law, dtype):
    z = samples(law, dtype)
    products = np.column_stack([z, z[:, 0] * z[:, 1], z[:, 1] * z[:, 2], z**2 - 1])
    if law == Rademacher():
        np.testing.assert_array_equal(z**2, 1)
        products = products[:, :5]
    assert np.abs(standard_score(products, 0.0)).max() < normal_limit(products.shape[1])


@EACH_LAW
def test_fourth_moments_are_those_that_the_law_states(law):
    """E z_i² (zᵀu)² = spread ‖u‖² + own u_i², at two u."""
    z = samples(law)
    spread, own = law.fourth_moment
    for u in (np.array([1.0, 0.0, 0.0]), np.array([0.5, -1.0, 2.0])):
        values = z**2 * ((z @ u) ** 2)[:, None]
        exact = spread * (u @ u) + own * u**2
        if law == Rademacher() and not u[1]:
            np.testing.assert_array_equal(values, np.broadcast_to(exact, values.shape))
        else:
            assert np.abs(standard_score(values, exact)).max() < normal_limit(6)
            assert np.abs(standard_score(values, 1.1 * exact)).max() > 6  # negative control


@pytest.mark.parametrize(("law", "kurtosis"), [(StudentT(12.0), 3.75), (EllipticalT(12.0), 3.75), (StudentT(5.0), 9.0)])
def test_kurtosis_of_a_coordinate(law, kurtosis):
    assert sum(law.fourth_moment) == pytest.approx(kurtosis)


@pytest.mark.parametrize("law", [StudentT(6.0), slow(StudentT(4.5)), EllipticalT(6.0)])
def test_student_coordinates_have_the_law_of_scipy(law):
    freedom = law.degrees_of_freedom
    exact = stats.t(freedom, scale=np.sqrt((freedom - 2) / freedom))
    z = samples(law)[:50_000]
    assert one_sample_p(z[:, 1], exact) > FALSE_ALARM
    assert one_sample_p(z[:, 1], stats.norm) < 1e-10  # negative control


@pytest.mark.slow
def test_projections_of_the_elliptical_law_have_its_tails():
    direction = np.array([0.6, 0.48, 0.64])
    freedom, z = 6.0, samples(EllipticalT(6.0))[:50_000]
    assert one_sample_p(z @ direction, stats.t(freedom, scale=np.sqrt(4 / 6))) > FALSE_ALARM
    independent = samples(StudentT(6.0))[:50_000] @ direction
    assert two_sample_p(np.abs(independent)[:, None], np.abs(z @ direction)[:, None]) < FALSE_ALARM


@pytest.mark.parametrize("law", [slow(StudentT(12.0)), slow(EllipticalT(12.0)), Rademacher()])
def test_gaussian_fourth_moments_are_rejected_for_other_laws(law):
    """Without label noise, which hides them."""
    problem = st.LeastSquares(EIGENVALUES, [1.0, 0.5, 2.0], 0.0)
    found = simulated(law, problem)
    assert abs(found.z_score(expected(law.fourth_moment, problem))) < normal_limit(1)
    assert abs(found.z_score(expected(Gaussian().fourth_moment, problem))) > 6


def of_gaussian_data(law):
    settings = {"batch_size": 1, "learning_rate": 0.1, "num_samples": 1, "num_replicas": 2}
    return lambda: st.simulate(jax.random.key(0), PROBLEM, **settings, law=law)


ABOVE_4 = r"degrees_of_freedom must be greater than 4 \(finite fourth moment\) .* got"


@pytest.mark.parametrize(
    ("make", "message"),
    [
        *((partial(law, value), ABOVE_4) for law in (StudentT, EllipticalT) for value in (4, -1, np.inf, np.nan)),
        (partial(StudentT, [5.0, 6.0]), "degrees_of_freedom must be a single number"),
        (partial(simulated, "cauchy"), "law must be one of 'gaussian', .* or a function, got 'cauchy'"),
        (partial(simulated, StudentT), r"law must be one of .* got <class"),
        (partial(simulated, None), "law must be one of .* got None"),
        *(
            (of_gaussian_data(law), "needs sampler='explicit': the sufficient sampler is for Gaussian data")
            for law in ("rademacher", EllipticalT(), uniform)
        ),
    ],
)
def test_bad_laws(make, message):
    with pytest.raises(ValueError, match=message):
        make()
