"""Spectra, the probability of noise and pooled signal, each from its definition."""

import numpy as np
import pytest

from sgdtheory._common.rows import checked_rows
from sgdtheory.data.cross_fit import Spectrum, cross_fitted_spectrum, noise_probability, pooled_signal, sample_spectrum
from sgdtheory.data.moments import GROUPS, Moments, grouped_moments

EVERY = np.ones(GROUPS, dtype=bool)
FIRST = np.arange(GROUPS) % 2 == 0  # groups of the first half
GROUP = np.random.default_rng(3).permutation(200) % GROUPS  # of each row, with a seed of 3


def rows_of_four_features(signal=0.4):
    random = np.random.default_rng(15)
    x = random.standard_normal((200, 4)) * [1.0, 0.8, 0.6, 0.5]
    return x, signal * x[:, :2] + random.standard_normal((200, 2))


def diagonal_moments(first, second, random):
    """One row a group, with features along the axes that have these variances in either half, and two targets."""
    covariance = np.array([np.diag(first if half else second) for half in FIRST], dtype=float)
    correlation = random.standard_normal((GROUPS, len(first), 2))
    return Moments(np.ones(GROUPS), covariance, correlation, np.full(GROUPS, 2.0), ())


@pytest.mark.parametrize("left_out", [None, 5])
@pytest.mark.parametrize("unit", [1.0, 1e-5])
def test_the_cross_fitted_spectrum_from_rows(left_out, unit):
    """Eigenvectors and least squares of one half, second moments along them of the other, in any unit of features."""
    x, y = rows_of_four_features()
    eigenvalues, signal = np.zeros(4), np.zeros(4)
    for half in (FIRST, ~FIRST):
        one, other = ((each & (np.arange(GROUPS) != left_out))[GROUP] for each in (half, ~half))
        _, _, vectors = np.linalg.svd(x[one])
        best = np.linalg.lstsq(x[one], y[one], rcond=None)[0]
        for i, v in enumerate(vectors):
            eigenvalues[i] += ((x[other] @ v) ** 2).mean() / 2
            signal[i] += (v @ best) @ (v @ (x[other].T @ y[other]) / len(x[other])) / 2
    groups = np.arange(GROUPS) != left_out
    found = cross_fitted_spectrum(grouped_moments(checked_rows(unit * x, y), seed=3), groups)
    np.testing.assert_allclose(found.eigenvalues, unit**2 * eigenvalues, rtol=1e-9)
    np.testing.assert_allclose(found.signal, signal, rtol=1e-9)
    used = groups[GROUP]
    assert found.square == pytest.approx((y[used] ** 2).sum(1).mean())
    assert found.rows == used.sum() / 2


@pytest.mark.parametrize("unit", [1.0, 1e-5])
def test_the_spectrum_of_the_rows_themselves(unit):
    x, y = rows_of_four_features()
    _, sizes, vectors = np.linalg.svd(x)
    best = np.linalg.lstsq(x, y, rcond=None)[0]
    found = sample_spectrum(grouped_moments(checked_rows(unit * x, y), seed=3), EVERY)
    np.testing.assert_allclose(found.eigenvalues, unit**2 * sizes**2 / 200, rtol=1e-9)
    np.testing.assert_allclose(found.signal, sizes**2 / 200 * ((vectors @ best) ** 2).sum(1), rtol=1e-9)
    assert found.square == pytest.approx((y**2).sum(1).mean())
    assert found.rows == 200


@pytest.mark.parametrize("estimate", [sample_spectrum, cross_fitted_spectrum])
def test_what_lies_below_rounding_of_the_largest_eigenvalue_is_nothing(estimate):
    """1e-14 of it: neither variance nor signal. 1e-3 of it is kept."""
    moments = diagonal_moments([1.0, 1e-3, 1e-14], [1.0, 1e-3, 1e-14], np.random.default_rng(0))
    found = estimate(moments, EVERY)
    np.testing.assert_allclose(found.eigenvalues, [1.0, 1e-3, 0.0])
    assert found.signal[2] == 0
    assert found.signal[:2].all()


def test_a_half_that_shows_an_eighth_of_a_direction_does_not_resolve_it():
    """Variances of 0.13 and 0.12 where the other half has 1 and 0.99: what is along the last is known one way only."""
    moments = diagonal_moments([4.0, 0.13, 0.12], [4.0, 1.0, 0.99], np.random.default_rng(1))
    products = (moments.correlation[FIRST].mean(0) * moments.correlation[~FIRST].mean(0)).sum(1)
    expected = products * [1 / 4, (1 / 0.13 + 1) / 2, (0 + 1 / 0.99) / 2]
    np.testing.assert_allclose(cross_fitted_spectrum(moments, EVERY).signal, expected)


def turned(moments, turns):
    """Return how often sums of signal are as large with turned signs, one turn and one direction at a time."""
    signs = np.random.default_rng([3, turns]).choice([-1.0, 1.0], (1 + turns, GROUPS))
    signs[0] = 1
    largest = []
    for turn in signs:
        signal, known = np.zeros(moments.covariance.shape[1]), np.zeros(moments.covariance.shape[1])
        for half in (FIRST, ~FIRST):
            own, vectors = np.linalg.eigh(moments.covariance[half].mean(0))
            one, other = ((turn[part, None, None] * moments.correlation[part]).sum(0) for part in (half, ~half))
            for rank, i in enumerate(reversed(range(own.size))):
                v = vectors[:, i]
                if own[i] > v @ moments.covariance[~half].mean(0) @ v / 8:
                    signal[rank] += (v @ one) @ (v @ other) / own[i]
                    known[rank] += 1
        largest.append(max(signal[: k + 1].sum() / np.sqrt(max(known[: k + 1].sum(), 1)) for k in range(known.size)))
    return np.mean(np.array(largest) >= largest[0])


@pytest.mark.parametrize(
    ("first", "second"),
    [
        ([9.0, 0.5, 0.4, 0.1], [9.0, 6.0, 0.3, 0.2]),  # the second is resolved by one half alone
        ([100.0, 90.0, 80.0, 70.0], [900.0, 800.0, 700.0, 650.0]),  # all of them
    ],
)
@pytest.mark.parametrize("seed", [1, 4])
def test_the_probability_of_noise_with_directions_that_a_half_does_not_resolve(monkeypatch, first, second, seed):
    monkeypatch.setattr("sgdtheory.data.cross_fit.TURNS", 99)
    monkeypatch.setattr("sgdtheory.data.cross_fit.NUMBERS", 50)
    moments = diagonal_moments(first, second, np.random.default_rng(seed))
    expected = turned(moments, 99)
    assert 0.05 < expected < 0.95  # neither end, where a wrong one would do
    assert noise_probability(moments, 3) == pytest.approx(expected, abs=1e-12)


def test_the_probability_of_noise_is_no_less_than_one_of_five_thousand():
    moments = grouped_moments(checked_rows(*rows_of_four_features(signal=3.0)), seed=3)
    assert noise_probability(moments, 0) == pytest.approx(1 / 5000, rel=1e-9)


@pytest.mark.parametrize(
    ("signal", "expected"),
    [
        ((0.25, 0.21, 0.3), (0.25, 0.21, 0.3)),  # each exceeds its noise
        ((0.15, 0.1, 0.15, 0.3), (0.4 / 3, 0.4 / 3, 0.4 / 3, 0.3)),  # 0.25 of two does not, 0.4 of three does
        ((0.25, 0.04, -0.02), (0.25, 0.01, 0.01)),  # what is left at the end is spread
        ((0.25, -0.04, 0.02), (0.25, 0.0, 0.0)),  # and not negative
        ((0.3, -0.1, 0.25, 0.01), (0.3, 0.16 / 3, 0.16 / 3, 0.16 / 3)),
    ],
)
def test_neighbours_are_pooled_until_their_sum_exceeds_its_noise(signal, expected):
    """With noise of 10/100 = 0.1: sums of 1, 2, 3 directions must exceed 0.2, 0.283, 0.346."""
    found = pooled_signal(Spectrum(np.ones(len(signal)), np.array(signal), 10.0, 100.0))
    np.testing.assert_allclose(found, expected)


def test_a_direction_at_two_standard_errors_of_its_noise_does_not_stand_alone():
    signal = np.array([0.5, 0.25, 0.5])
    np.testing.assert_allclose(pooled_signal(Spectrum(signal, signal, 16.0, 64.0)), [0.375, 0.375, 0.5])
