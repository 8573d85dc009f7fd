"""Curves of loss against data, against SciPy's cubics solved one at a time and pooling by hand."""

import numpy as np
import pytest
from scipy import interpolate, optimize

from sgdtheory.fits.tuned_loss import LossCurves

SAMPLES = np.array([10.0, 15.0, 40.0, 100.0, 120.0, 500.0])


def pooled(values):
    """Neighbours that rise are replaced by their mean until none does."""
    blocks = []
    for value in values:
        blocks.append([value, 1])
        while len(blocks) > 1 and blocks[-2][0] < blocks[-1][0]:
            (first, m), (second, n) = blocks[-2:]
            blocks[-2:] = [[(m * first + n * second) / (m + n), m + n]]
    return [mean for mean, count in blocks for _ in range(count)]


@pytest.fixture(scope="module")
def rows():
    """Falling and noisy ones, and one that rises all along."""
    random = np.random.default_rng(0)
    falling = 3 - np.cumsum(random.exponential(0.3, (10, 6)), 1)
    return np.concatenate([falling, falling + 0.3 * random.standard_normal((10, 6)), [np.arange(6.0)]])


def test_knots_never_rise_and_are_means_of_neighbours(rows):
    curves = LossCurves(SAMPLES, rows)
    np.testing.assert_allclose(curves.knots, [pooled(row) for row in rows], rtol=1e-12)
    assert (np.diff(curves.knots[10:]) == 0).any()


@pytest.mark.parametrize("number", [2, 3, 6])
def test_data_to_a_loss_solve_the_cubic(rows, number):
    curves = LossCurves(SAMPLES[:number], rows[:, :number])
    x = np.log(SAMPLES[:number])
    for target in np.linspace(curves.knots.min() - 0.1, 3.1, 23):
        found = curves.samples_to(target)
        for knots, samples in zip(curves.knots, found, strict=True):
            if not knots[-1] <= target <= knots[0]:
                assert np.isnan(samples)
                continue
            cubic = interpolate.PchipInterpolator(x, knots)
            solution = optimize.brentq(lambda place, cubic=cubic, at=target: cubic(place) - at, x[0], x[-1])
            assert np.log(samples) == pytest.approx(solution, abs=1e-9)


def test_at_the_data_sizes_themselves_the_fewest_data_count():
    curves = LossCurves(SAMPLES, np.array([[3.0, 3.0, 2.0, 2.0, 1.0, 1.0]]))
    for target, samples in ((3.0, 10), (2.0, 40), (1.0, 120)):
        assert curves.samples_to(target)[0] == pytest.approx(samples, rel=1e-6)  # where the cubic is level
    assert np.isnan([curves.samples_to(target)[0] for target in (3.0001, 0.9999)]).all()


def test_one_data_size_is_reached_at_its_own_loss_alone():
    curves = LossCurves(np.array([70.0]), np.array([[1.5], [2.5]]))
    np.testing.assert_allclose(curves.samples_to(1.5), [70, np.nan])
    np.testing.assert_allclose(curves.log_loss_at(70.0), [1.5, 2.5])


def test_losses_at_a_data_size(rows):
    curves = LossCurves(SAMPLES, rows)
    for place, samples in enumerate(SAMPLES):
        np.testing.assert_array_equal(curves.log_loss_at(samples), curves.knots[:, place])
    for samples in (11.0, 50.0, 499.0):
        expected = [interpolate.PchipInterpolator(np.log(SAMPLES), knots)(np.log(samples)) for knots in curves.knots]
        np.testing.assert_allclose(curves.log_loss_at(samples), expected, rtol=1e-12)
    assert np.isnan([curves.log_loss_at(samples) for samples in (9.99, 501.0)]).all()
