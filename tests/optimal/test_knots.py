"""Knots of a run lie evenly in log((t + 1)/(n − t)), and between them values are linear in it."""

import numpy as np
import pytest

from sgdtheory.optimal.knots import cut, interpolation, place, spread_knots

SIZES = 2.0, 3.0, 5.0, 30.0, 501.0, 1e6, 1e12


def test_places_of_steps():
    """They rise by 2 log n over a run, and the middle of a run is at 0."""
    for number in SIZES:
        low, high = place(np.array([0.0, number - 1]), number)
        assert (low, high) == pytest.approx((-np.log(number), np.log(number)))
    assert place(np.array([15.0]), 31.0) == pytest.approx(0.0)


@pytest.mark.parametrize("spacing", [0.1, 0.35, 1.4, 2.8, 50.0])
@pytest.mark.parametrize("number", SIZES)
def test_knots_lie_evenly(number, spacing):
    """Both ends, and the whole steps nearest to places at most `spacing` apart; each step once."""
    knots = spread_knots(number, spacing)
    assert (knots[0], knots[-1]) == (0, number - 1)
    assert (np.diff(knots) >= 1).all()
    np.testing.assert_array_equal(knots, np.round(knots))
    length = 2 * np.log(number)
    intervals = max(1, np.ceil(length / spacing))
    wanted = -np.log(number) + length * np.arange(intervals + 1) / intervals
    steps = (number * np.exp(wanted) - 1) / (1 + np.exp(wanted))
    close = np.abs(knots[:, None] - steps) <= 0.5 + 1e-6 * np.minimum(steps, number - steps)
    assert close.any(axis=0).all()
    assert close.any(axis=1).all()


@pytest.mark.parametrize("widest", [0.2, 0.7, 3.0])
@pytest.mark.parametrize("number", [30.0, 501.0, 1e6])
def test_segments_between_knots(number, widest):
    """They keep the knots, are alike between two of them, and little wider than allowed, but for whole steps."""
    knots = spread_knots(number, 1.4)
    found = cut(knots, number, widest)
    assert set(knots) <= set(found)
    assert (np.diff(found) >= 0).all()
    np.testing.assert_array_equal(found, np.round(found))
    for low, high in zip(knots[:-1], knots[1:], strict=True):
        inside = found[(found >= low) & (found <= high)]
        parts = np.ceil((place(high, number) - place(low, number)) / widest - 0.1)
        assert np.unique(inside).size <= max(parts, 1) + 1
        wide = place(inside[1:] - 0.5, number) - place(inside[:-1] + 0.5, number)
        assert (wide <= 1.1 * widest + 1e-9).all()


def test_between_knots_values_are_linear_in_the_place():
    number, knots = 100.0, np.array([0.0, 3.0, 40.0, 99.0])
    steps = np.array([0.0, 1.0, 3.0, 20.0, 40.0, 77.5, 99.0])
    values = np.array([2.0, -1.0, 0.5, 3.0])
    matrix = interpolation(steps, steps, knots, number)
    assert matrix.shape == (4, 7)
    np.testing.assert_allclose(matrix.sum(0), 1.0)
    np.testing.assert_allclose(values @ matrix, np.interp(place(steps, number), place(knots, number), values))
    before = interpolation(np.array([2.9]), np.array([3.0]), knots, number)  # outside its interval, straight on
    slope = (values[2] - values[1]) / (place(40.0, number) - place(3.0, number))
    expected = values[1] + slope * (place(2.9, number) - place(3.0, number))
    np.testing.assert_allclose(values @ before, [expected])
