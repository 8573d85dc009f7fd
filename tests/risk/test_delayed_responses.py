"""Generating functions of late gradients against sums of their series, and coefficients of known functions."""

import numpy as np
import pytest

import sgdtheory as st
from sgdtheory.risk.solvers.delayed_renewal import coefficients
from sgdtheory.risk.systems.delayed import (
    Points,
    gains,
    growth,
    largest_stable,
    products,
    settling,
    steady_response,
    summed,
    summed_squares,
)

LAWS = {"0": 0, "1": 1, "4": 4, "20": 20, "drawn": (0.5, 0.0, 0.3, 0.2)}


def answers(x, law, number):
    """φ(0) … φ(number − 1): what a unit of noise leaves, whose pull comes late by these shares."""
    found = [1.0]
    for j in range(number - 1):
        found.append(found[j] - x * sum(p * found[j - lag] for lag, p in enumerate(law) if lag <= j))
    return np.array(found)


@pytest.mark.parametrize("delay", [0, 1, 4, 16, 17, 40])
def test_series_of_lagged_products(delay):
    """At complex points within the circle; from 17 steps on sines take the place of multiples of the angle."""
    p = np.array([0.05 + 0j, 0.1 + 0.7j, 0.2 + 3.0j])
    points, z = Points.at(p), np.exp(-p)
    law = (*[0.0] * delay, 1.0)
    for x in (1e-6, 0.5 * largest_stable(delay), 0.95 * largest_stable(delay)):
        phi = answers(x, law, 1200)
        psi = np.append(0.0, np.cumsum(phi)[:-1])
        powers = z[:, None] ** np.arange(1200)
        found = products(np.array([[x]]), delay, points)
        np.testing.assert_allclose(found.square[0], powers @ phi**2, rtol=1e-9)
        np.testing.assert_allclose(summed(np.array([[x]]), delay, points)[0], powers @ psi, rtol=1e-9)
        squares = summed_squares(np.array([[x]]), delay, points, found)
        np.testing.assert_allclose(squares[0], powers @ psi**2, rtol=1e-9)


@pytest.mark.parametrize("name", LAWS)
def test_noise_that_answers_noise(name):
    """G/(1 − G + H) from sums over φ: a gradient sees noise of its own delay, and of delays that vary more."""
    method = st.DelayedSGD(LAWS[name])
    law = np.array(method.law)
    lags = np.arange(law.size)
    x = np.array([[0.01, 0.3, 0.8]]) * largest_stable(law.size - 1)
    found, steady = gains(x, method)
    assert steady.tolist() == [True]
    for value, own in zip(x[0], found[0]):
        phi = np.append(np.zeros(law.size), answers(value, law, 14_000))
        lagged = [phi @ np.append(np.zeros(lag), phi[: phi.size - lag]) for lag in lags]
        answer = value**2 * lagged[0]
        mixed = value**2 * sum(p * q * lagged[abs(j - k)] for j, p in enumerate(law) for k, q in enumerate(law))
        assert own == pytest.approx(answer / (1 - answer + mixed), rel=1e-7)
        if not method.random:
            assert steady_response(np.array([value]), law.size - 1)[0] == pytest.approx(answer, rel=1e-7)


@pytest.mark.parametrize("law", [(0.0, 1.0), (0.0, 0.0, 0.0, 1.0), (0.5, 0.0, 0.3, 0.2), (1.0,)])
def test_the_mean_comes_to_rest_below_the_edge_alone(law):
    """Roots of `μ^{τ+1} − μ^τ + x Σ p_j μ^{τ−j}` about the x at which the largest is 1."""
    method = st.DelayedSGD(law)

    def radius(x):
        return np.abs(np.roots(np.append([1.0, -1.0], np.zeros(len(law) - 1)) + x * np.append(0.0, law))).max()

    low, high = 0.0, 3.0
    for _ in range(60):
        middle = (low + high) / 2
        low, high = (middle, high) if radius(middle) < 1 else (low, middle)
    # Delays that vary add noise, which ends stability before the mean does.
    for share, stable in ((0.3 if method.random else 1 - 1e-6, True), (1 + 1e-6, False)):
        _, steady = gains(np.array([[share * low, 1e-3]]), method)
        assert bool(steady[0]) == stable
    if not method.random:
        assert largest_stable(len(law) - 1) == pytest.approx(low, rel=1e-9)
        modes = st.LeastSquares([1.0], [1.0], 0.0).modes(0.0)
        rates = np.array([0.5, 1.2]) * low
        found = growth(modes, method, rates, np.full(2, 1e15), np.full(2, np.inf))
        assert found == pytest.approx([2 * np.log(radius(rate)) for rate in rates], rel=1e-6)


def test_oscillations_last_as_long_as_the_slowest_that_turns():
    """Real directions up to x = τ^τ/(τ + 1)^{τ+1}; others by the largest root, twice as long in an average."""
    delay, x = 2, 0.3
    roots = np.roots([1.0, -1.0, 0.0, x])
    slowest = np.log(np.abs(roots[np.abs(roots.imag) > 1e-9]).max())
    alone, averaged = settling(x, delay, False), settling(x, delay, True)
    assert averaged == pytest.approx(1.5 * 45 / -slowest, rel=0.03)
    assert alone < averaged <= 2 * alone * (1 + 1e-12)
    assert settling(x, delay, False, 1e-5) == pytest.approx(alone * np.log(1e7) / 45, rel=0.03)
    assert settling(1.1 * largest_stable(delay), delay, False) == np.inf
    assert settling(0.5, 0, False) < 10


@pytest.mark.parametrize("number", [3.0, 40.0, 5000.0])
def test_coefficients_of_known_functions(number):
    """`1/(1 − 2rz cos θ + r²z²) = Σ r^n sin((n+1)θ)/sin θ z^n`, along the line; a real pole on the parabola."""
    for r, angle in ((0.98, 2.5), (1.0, 0.3), (1.01, 3.0)):

        def turning(p, r=r, angle=angle):
            z = np.exp(-p)
            return np.array([1 / (1 - 2 * r * z * np.cos(angle) + r**2 * z**2), 3 / (1 - r * z)])

        expected = np.array([r**number * np.sin((number + 1) * angle) / np.sin(angle), 3 * r**number])
        found = coefficients(turning, number, np.log(r), False)
        np.testing.assert_allclose(found, expected, rtol=1e-8, atol=1e-8 * r**number)
        if number > 3:
            settled = coefficients(lambda p, r=r: 3 / (1 - r * np.exp(-p)), number, np.log(r), True)
            assert settled == pytest.approx(3 * r**number, rel=1e-8)
    assert coefficients(turning, 1e6, np.log(1.01), False).tolist() == [np.inf, np.inf]
