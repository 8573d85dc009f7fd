"""Powers of one number, and products of powers, against textbook regression."""

from typing import Any

import numpy as np
import pytest
from scipy import stats

import sgdtheory as st
from sgdtheory.fits import fit_power_product


def powers(seed, number=5, noise=0.1):
    rng = np.random.default_rng(seed)
    size = np.sort(10 ** rng.uniform(1, 4, number))
    return size, 93 * size**0.47 * np.exp(noise * rng.standard_normal(number))


@pytest.mark.parametrize("number", [3, 5, 12])
def test_power_law_is_linear_regression_of_logs(number):
    size, value = powers(number, number)
    law = st.fit_power_law(size, value)
    line: Any = stats.linregress(np.log(size), np.log(value))
    slope, intercept = np.polyfit(np.log(size), np.log(value), 1)
    assert (law.exponent, np.log(law.coefficient)) == pytest.approx((slope, intercept), rel=1e-9)
    residuals = np.log(value) - intercept - slope * np.log(size)
    assert law.residual_std == pytest.approx(np.sqrt((residuals**2).sum() / (number - 2)), rel=1e-9)
    for level in (0.5, 0.95, 0.999):
        half = stats.t.ppf(0.5 + level / 2, number - 2) * line.stderr
        assert law.interval(level) == pytest.approx((slope - half, slope + half), rel=1e-9)
    assert law.interval() == law.interval(0.95)
    np.testing.assert_allclose(law.predict(size), np.exp(intercept) * size**slope, rtol=1e-9)


@pytest.mark.parametrize("new", [True, False])
@pytest.mark.parametrize("level", [0.8, 0.95])
def test_prediction_interval_of_the_textbook(level, new):
    """The normal equations give se² = s² (1 + x₀ᵀ(XᵀX)⁻¹x₀) for a measurement, without the 1 for the mean."""
    size, value = powers(7, 6)
    design = np.stack([np.ones(6), np.log(size)], axis=1)
    beta, (rss,), *_ = np.linalg.lstsq(design, np.log(value))
    at = np.array([[1.0, 300.0], [5e3, 1e6]])
    rows = np.stack([np.ones_like(at), np.log(at)], axis=-1)
    leverage = np.einsum("...i,ij,...j", rows, np.linalg.inv(design.T @ design), rows)
    half = stats.t.ppf(0.5 + level / 2, 4) * np.sqrt(rss / 4 * (new + leverage))
    low, high = st.fit_power_law(size, value).prediction_interval(at, level, new_measurement=new)
    np.testing.assert_allclose(np.log(low), rows @ beta - half, rtol=1e-9)
    np.testing.assert_allclose(np.log(high), rows @ beta + half, rtol=1e-9)
    if new and level == 0.95:
        np.testing.assert_array_equal(st.fit_power_law(size, value).prediction_interval(at), (low, high))


def test_two_points_leave_the_exponent_unlimited():
    law = st.fit_power_law([10, 1000], [2, 20])
    assert law.exponent == pytest.approx(0.5, rel=1e-14)
    assert np.isnan(law.residual_std)
    assert law.interval() == (-np.inf, np.inf)
    low, high = law.prediction_interval(np.array([1.0, 10.0, 1e4]))
    np.testing.assert_array_equal(low, np.zeros(3))
    np.testing.assert_array_equal(high, np.full(3, np.inf))


@pytest.mark.parametrize(
    ("x", "y", "message"),
    [
        ([1, 2], [1, 2, 3], r"one-dimensional and of one length, got shapes \(2,\) and \(3,\)"),
        ([[1, 2]], [[1, 2]], "one-dimensional and of one length"),
        ([2, 2, 2], [1, 2, 3], "x must hold at least 2 different values, got 1"),
        ([], [], "x must hold at least 2 different values, got 0"),
        ([1, 0], [1, 2], "x must be positive and finite, got 0.0"),
        ([1, 2], [1, -2], "y must be positive and finite, got -2.0"),
        ([1, 2], [1, np.inf], "y must be positive and finite, got inf"),
        (["a", 2], [1, 2], "x must be a number or an array of numbers"),
    ],
)
def test_bad_power_law_data(x, y, message):
    with pytest.raises(ValueError, match=message):
        st.fit_power_law(x, y)


@pytest.mark.parametrize(
    ("call", "message"),
    [
        (lambda law: law.interval(1), "level must lie between 0 and 1, got"),
        (lambda law: law.prediction_interval(10.0, 0), "level must lie between 0 and 1, got"),
        (lambda law: law.predict(-1), "x must be positive and finite, got -1"),
        (lambda _: fit_power_product({"B": [1, 2, 4]}, [1, 3, 4]).interval("B", 1.5), "level must lie between 0 and 1"),
    ],
)
def test_bad_questions(call, message):
    with pytest.raises(ValueError, match=message):
        call(st.fit_power_law(*powers(0)))


# ------------------------------------------------------------------ products of powers


@pytest.fixture(scope="module")
def points():
    random = np.random.default_rng(4)
    x = {"B": 10 ** random.uniform(0, 2, 9), "D": 10 ** random.uniform(3, 5, 9)}
    return x, 7 * x["B"] ** 0.5 * x["D"] ** -0.3 * np.exp(0.1 * random.standard_normal(9))


def rest_of(y, x):
    """Residuals of a line."""
    return y - np.polyval(np.polyfit(x, y, 1), x)


def test_exponents_and_their_errors(points):
    """Frisch, Waugh and Lovell: p_B is the slope of what D leaves of y against what D leaves of B."""
    x, y = points
    fit = fit_power_product(x, y)
    for name, other in (("B", "D"), ("D", "B")):
        left, right = rest_of(np.log(y), np.log(x[other])), rest_of(np.log(x[name]), np.log(x[other]))
        slope = left @ right / (right @ right)
        residuals = left - slope * right
        std = np.sqrt((residuals**2).sum() / (9 - 3))
        error = std / np.sqrt(right @ right)
        assert fit.exponents[name] == pytest.approx(slope, rel=1e-9)
        assert fit.standard_errors[name] == pytest.approx(error, rel=1e-9)
        assert fit.residual_std == pytest.approx(std, rel=1e-9)
        for level in (0.5, 0.95):
            half = stats.t.ppf(0.5 + level / 2, 6) * error
            assert fit.interval(name, level) == pytest.approx((slope - half, slope + half), rel=1e-9)
        assert fit.interval(name) == fit.interval(name, 0.95)
    at_mean = np.exp([np.log(each).mean() for each in x.values()])
    assert fit.predict(B=at_mean[0], D=at_mean[1]) == pytest.approx(np.exp(np.log(y).mean()), rel=1e-9)


def test_predictions_broadcast(points):
    fit = fit_power_product(*points)
    found = fit.predict(B=[1.0, 10.0, 100.0], D=[[1e3], [1e4]])
    p, q = fit.exponents.values()
    expected = [[fit.coefficient * batch**p * data**q for batch in (1, 10, 100)] for data in (1e3, 1e4)]
    np.testing.assert_allclose(found, expected, rtol=1e-12)


def test_one_point_to_spare_makes_an_interval_and_none_does_not():
    x = {"B": [1.0, 2.0, 4.0, 4.0], "D": [10.0, 10.0, 20.0, 10.0]}
    spare = fit_power_product(x, [3.0, 6.5, 12.0, 6.0])
    half = stats.t.ppf(0.975, 1) * spare.standard_errors["B"]
    assert spare.interval("B") == pytest.approx((spare.exponents["B"] - half, spare.exponents["B"] + half))
    exact = fit_power_product({name: each[:3] for name, each in x.items()}, [3.0, 6.5, 12.0])
    assert np.isnan(exact.residual_std)
    assert exact.interval("B") == (-np.inf, np.inf)
    assert exact.predict(B=4, D=20) == pytest.approx(12)


@pytest.mark.parametrize(
    ("x", "y", "message"),
    [
        ({"B": [1, 2, 3], "D": [1, 3]}, [1, 2, 3], "y and B, D must be one-dimensional and of one length, got y of"),
        ({"B": [[1, 2, 3]]}, [[1, 2, 4]], "must be one-dimensional and of one length"),
        ({"B": [1, 2, 4], "D": [3, 6, 12]}, [1, 2, 4], "B and D must vary, each by itself, in enough points, got 3"),
        ({"B": [1, 2], "D": [3, 1]}, [1, 2], "B and D must vary"),
        ({"B": [5, 5, 5]}, [1, 2, 4], "B must vary"),
        ({"B": [1, -2, 4]}, [1, 2, 4], "B must be positive and finite, got -2"),
        ({"B": [1, 2, 4]}, [1, 0, 4], "y must be positive and finite, got 0"),
    ],
)
def test_bad_points(x, y, message):
    with pytest.raises(ValueError, match=message):
        fit_power_product(x, y)
