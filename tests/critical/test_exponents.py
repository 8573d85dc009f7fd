import numpy as np
import pytest

import sgdtheory as st
from sgdtheory.critical.exponents import LEAST_POINTS

DATA = np.geomspace(1e3, 1e12, 37)


@pytest.mark.parametrize(
    ("capacity", "source", "exponent", "risk"),
    [
        (2, 1.5, 0, -1 / 4),  # b < a: (b − 1)/a
        (2, 2, 0, -1 / 2),  # b = a, where both formulas agree
        (2, 3, 1 / 3, -2 / 3),  # a < b < 2a+1: 1 − a/b and (b − 1)/b
        (1.5, 2, 1 / 4, -1 / 2),
        (2, 5, 3 / 5, -4 / 5),  # b = 2a+1
        (2, 8, 3 / 5, -4 / 5),  # saturated
        (3, 100, 4 / 7, -6 / 7),
        (1.25, 1.05, 0, -1 / 25),
        (4, 3, 0, -1 / 2),
    ],
)
def test_corollary_8(capacity, source, exponent, risk):
    assert st.predicted_exponent(capacity, source) == pytest.approx(exponent, abs=1e-15)
    assert st.critical.predicted_risk_exponent(capacity, source) == pytest.approx(risk, rel=1e-14)


@pytest.mark.parametrize(("capacity", "source"), [(2, 4), (1.5, 3.5), (3, 4.5)])
def test_the_best_learning_rate_approaches_the_threshold_as_t10_says(capacity, source):
    """`1 − γ*λ_1/2 ≍ D^{−min{a, m−a}/(2m)}`; the problems distinguish a from m − a, and both from 1."""
    problem, apart = st.PowerLaw(capacity, source), []
    for samples in (1e14, 1e16):
        found = st.critical_batch_size(problem, num_samples=samples, curve=False)
        used = found.batch_size * found.num_steps
        best = st.optimal_learning_rate(problem, batch_size=found.batch_size, num_samples=used)
        apart.append(1 - best.learning_rate / 2)
    slope = np.log(apart[1] / apart[0]) / np.log(100)
    least = min(source, 2 * capacity + 1)
    assert slope == pytest.approx(-min(capacity, least - capacity) / (2 * least), abs=3e-3)


def test_predictions_of_arrays_and_scalars():
    capacity, source = np.array([1.5, 2.0])[:, None], np.array([1.2, 3.0, 9.0])
    for function in (st.predicted_exponent, st.critical.predicted_risk_exponent):
        found = function(capacity, source)
        assert found.shape == (2, 3)
        assert found[1, 2] == function(2.0, 9.0)
        assert isinstance(function(2, 3), float)


@pytest.mark.parametrize(
    ("capacity", "source", "message"),
    [
        (1, 3, "capacity must be greater than 1, got 1"),
        (2, 1, "source must be greater than 1, got 1"),
        ([2, 3], [3, 4, 5], r"capacity and source must broadcast against each other, got shapes \(2,\) and \(3,\)"),
        ([2, 0.5], 3, "capacity must be greater than 1, got 0.5"),
        (-2, 3, "capacity must be positive and finite, got -2"),
        (2, "high", "source must be a number or an array of numbers, got 'high'"),
    ],
)
def test_bad_exponents(capacity, source, message):
    for function in (st.predicted_exponent, st.critical.predicted_risk_exponent):
        with pytest.raises(ValueError, match=message):
            function(capacity, source)


# ------------------------------------------------------------------ local exponents


@pytest.mark.parametrize("bend", [0.0, 0.2])
@pytest.mark.parametrize("log_x", [[0.3, 1.0, 2.5, 2.7, 6.0], [0.0, 1.0, 1.5], np.log(DATA)])
def test_local_exponents_of_a_quadratic_are_exact_at_uneven_points(log_x, bend):
    log_x = np.array(log_x)
    found = st.critical.local_exponents(np.exp(log_x), np.exp(bend * log_x**2 - log_x))
    np.testing.assert_allclose(found, 2 * bend * log_x - 1, atol=1e-9)


@pytest.mark.parametrize(
    ("samples", "sizes", "message"),
    [
        ([1, 2], [1, 2], r"num_samples and batch_sizes must be one-dimensional, of one length and at least 3 long"),
        ([1, 2, 3], [1, 2], r"got shapes \(3,\) and \(2,\)"),
        (np.ones((3, 3)), np.ones((3, 3)), "must be one-dimensional"),
        ([1, 3, 2], [1, 2, 3], "num_samples must increase, got 3 before a smaller one"),
        ([1, 2, 2], [1, 2, 3], "num_samples must increase, got 2"),
        ([0, 1, 2], [1, 2, 3], "num_samples must be positive and finite, got 0"),
        ([1, 2, 3], [1, -2, 3], "batch_sizes must be positive and finite, got -2"),
    ],
)
def test_bad_points(samples, sizes, message):
    with pytest.raises(ValueError, match=message):
        st.critical.local_exponents(samples, sizes)


# ------------------------------------------------------------------ the limit


@pytest.mark.parametrize("exponent", [1 / 3, -0.8])
@pytest.mark.parametrize(
    ("size", "decay"), [(0.5, 0.5), (3.0, 0.3), (-0.7, 0.25), (20.0, 0.7), (1.0, 0.137), (5.0, 1.3), (-0.9, 1.9)]
)
def test_the_limit_is_recovered_through_one_correction(exponent, size, decay):
    """y = C x^c (1 + κ x^−δ) from x = 1e3, δ between the values that are tried too."""
    found = st.fit_asymptotic_exponent(DATA, 4.2 * DATA**exponent * (1 + size * DATA**-decay))
    assert found.interval[0] <= exponent <= found.interval[1]
    assert found.exponent == pytest.approx(exponent, abs=2e-3)


@pytest.mark.parametrize(("first", "second"), [((2.0, 0.2), (-1.0, 0.6)), ((0.8, 0.33), (5.0, 0.9))])
def test_the_limit_is_recovered_through_two_corrections(first, second):
    y = DATA**0.4 * (1 + first[0] * DATA ** -first[1] + second[0] * DATA ** -second[1])
    found = st.fit_asymptotic_exponent(DATA, y)
    assert found.interval[0] <= 0.4 <= found.interval[1]
    assert found.exponent == pytest.approx(0.4, abs=3e-3)


def test_median_and_interval_of_the_estimates():
    found = st.fit_asymptotic_exponent(DATA, DATA**0.4 * (1 + DATA**-0.1))
    low, high = found.estimates.min(), found.estimates.max()
    assert found.estimates.shape == (6,)
    assert found.exponent == pytest.approx(np.median(found.estimates), rel=1e-14)
    assert found.interval == pytest.approx((2 * low - high, 2 * high - low), rel=1e-12)
    assert isinstance(found.exponent, float)


@pytest.mark.parametrize("power", [-0.4, 1.0])
def test_a_known_power_of_the_logarithm(power):
    """With it, and the right unit of x, the exponent is exact; other units disagree a little, and without it the
    exponent is off: log x is no power.
    """
    y = DATA**0.6 * np.log(DATA) ** power
    found = st.fit_asymptotic_exponent(DATA, y, log_power=power)
    assert found.estimates.shape == (18,)
    np.testing.assert_allclose(found.estimates[6:12], 0.6, atol=1e-9)
    np.testing.assert_allclose(found.estimates, 0.6, atol=5e-3)
    assert found.exponent == pytest.approx(0.6, abs=1e-6)
    assert found.interval[0] < 0.6 < found.interval[1]
    assert abs(st.fit_asymptotic_exponent(DATA, y).exponent - 0.6) > 1e-3


@pytest.mark.parametrize(("place", "changed"), [(0.05, 0), (0.11, 2), (0.19, 2), (0.22, 4), (0.28, 4), (0.31, 6)])
def test_the_fits_begin_at_ten_twenty_and_thirty_percent_of_the_range(place, changed):
    """A point that is off changes the estimates of the windows that hold it, two each, and no others."""
    y = DATA**0.5 * (1 + DATA**-0.4)
    off = y.copy()
    off[round(place * (DATA.size - 1))] *= 1.01
    same = st.fit_asymptotic_exponent(DATA, y).estimates == st.fit_asymptotic_exponent(DATA, off).estimates
    np.testing.assert_array_equal(same, np.arange(6) >= changed)


def test_units_of_x_under_a_logarithm():
    """e^−1.5, 1 and e^1.5: log x shifted by −1.5, 0 and 1.5, in this order."""
    for k, shift in enumerate((-1.5, 0.0, 1.5)):
        y = DATA**0.6 * (np.log(DATA) + shift) ** -0.7
        estimates = st.fit_asymptotic_exponent(DATA, y, log_power=-0.7).estimates.reshape(3, 6)
        exact = np.abs(estimates - 0.6).max(1) < 1e-9
        np.testing.assert_array_equal(exact, np.arange(3) == k)


@pytest.mark.parametrize("scale", [1e-3, 1e9])
def test_units_do_not_change_the_limit(scale):
    y = DATA**0.4 * (1 + DATA**-0.2)
    found, scaled = st.fit_asymptotic_exponent(DATA, y), st.fit_asymptotic_exponent(scale * DATA, scale * y)
    np.testing.assert_allclose(scaled.estimates, found.estimates, rtol=1e-6)


@pytest.mark.parametrize(
    ("x", "y", "arguments", "message"),
    [
        (DATA[:11], DATA[:11], {}, f"x and y must be one-dimensional, of one length and at least {LEAST_POINTS} long"),
        (DATA, DATA[:-1], {}, r"got shapes \(37,\) and \(36,\)"),
        (DATA[::-1], DATA, {}, "x must increase, got 1e.12 before a smaller one"),
        (DATA, -DATA, {}, "y must be positive and finite, got -1000"),
        (DATA, DATA, {"log_power": [1, 2]}, "log_power must be a single number"),
        (DATA, DATA, {"log_power": np.nan}, "log_power must be finite, got nan"),
        (DATA / 1e3, DATA, {"log_power": 1.0}, "x must be above 4.48 to divide out a power of log x, got 1"),
    ],
)
def test_bad_series(x, y, arguments, message):
    with pytest.raises(ValueError, match=message):
        st.fit_asymptotic_exponent(x, y, **arguments)


def test_x_of_one_is_fine_without_a_logarithm():
    x = np.geomspace(1e-2, 1e6, 12)  # and so are twelve points
    assert st.fit_asymptotic_exponent(x, x**0.5).exponent == pytest.approx(0.5)
