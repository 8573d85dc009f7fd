"""Least squares along valleys against scipy's, with what is held eliminated by hand."""

from typing import NamedTuple

import numpy as np
import pytest
from scipy.optimize import least_squares

from sgdtheory.curves.valley import Held, Rows, least, repeated

TIMES = np.linspace(0.1, 3, 25)
TARGET = np.exp(-0.7 * TIMES) + np.exp(-1.3 * TIMES) + 1e-3 * np.cos(40 * TIMES)


def decays(points):
    """Two exponentials: a sloppy law, whose rates all but trade places."""
    return np.exp(-np.exp(points[:, :1]) * TIMES) + np.exp(-np.exp(points[:, 1:2]) * TIMES) + points[:, 2:] * TIMES


def rows(low=-4.0, high=3.0):
    return Rows(decays, TARGET, np.full(3, low), np.full(3, high), 1e-14)


def squares(point):
    return float(((TARGET - decays(np.array(point)[None])[0]) ** 2).sum())


NORMALS = np.array([[0.0, 0, 0], [1, 0, 0], [1, 2, 0], [0.5, -1, 1]])
VALUES = np.array([0.0, -1.0, 0.3, 0.2])


def test_least_squares_with_what_is_held_eliminated():
    start = np.tile([-0.2, 0.2, 0.0], (4, 1))
    found = least(rows(), start, Held(NORMALS, VALUES))
    for k in range(4):
        basis = np.linalg.svd(NORMALS[k][None])[2][1 if k else 0 :].T
        origin = NORMALS[k] * VALUES[k] / max(NORMALS[k] @ NORMALS[k], 1.0)
        free = least_squares(
            lambda x, origin=origin, basis=basis: TARGET - decays((origin + basis @ x)[None])[0],
            basis.T @ (start[k] - origin), xtol=1e-15, ftol=1e-15, gtol=1e-15,
        )  # fmt: skip
        assert NORMALS[k] @ found.points[k] == pytest.approx(VALUES[k], abs=1e-9)
        assert found.squares[k] == pytest.approx(2 * free.cost, rel=1e-6)
        np.testing.assert_allclose(found.points[k], origin + basis @ free.x, atol=2e-3)
        np.testing.assert_allclose(found.residuals[k], TARGET - decays(found.points[k][None])[0])


def test_coordinates_stay_in_their_ranges():
    """The best ones are at −0.36 and 0.26: an end at 0.1 holds the second."""
    found = least(rows(high=0.1), np.array([[-0.2, 0.05, 0.0]]), Held(NORMALS[:1], VALUES[:1]))
    bounded = least_squares(
        lambda x: TARGET - decays(x[None])[0], [-0.2, 0.05, 0.0], bounds=([-4] * 3, [0.1] * 3), xtol=1e-14, ftol=1e-14
    )
    assert found.points.max() == 0.1
    assert found.squares[0] == pytest.approx(2 * bounded.cost, rel=1e-4)


def test_what_cannot_be_held_is_missed():
    """A value beyond the box: the point stays in it."""
    found = least(rows(), np.zeros((1, 3)), Held(np.array([[1.0, 0, 0]]), np.array([7.0])))
    assert found.points[0, 0] == 3
    assert Held(np.array([[1.0, 0, 0]]), np.array([7.0])).missing(found.points)[0] == 4


def test_what_cannot_be_computed_is_left():
    """Predictions that are not finite beyond 1: the search turns back before them."""

    def broken(points):
        return np.where(points[:, :1] > 1, np.nan, decays(points))

    found = least(rows()._replace(predicted=broken), np.array([[0.9, 0.2, 0.0]]), Held(NORMALS[:1], VALUES[:1]))
    whole = least(rows(), np.full((1, 3), 0.1), Held(NORMALS[:1], VALUES[:1]))
    assert found.squares[0] == pytest.approx(whole.squares[0], rel=0.05)


def test_second_order_follows_a_bend(monkeypatch):
    """Along the valley of a parabola, whose end steps of first order have not come near when second order is there."""

    def banana(points):
        return np.stack([3 * (points[:, 1] - points[:, 0] ** 2), 0.1 * points[:, 0]], axis=-1)

    def left():
        valley = Rows(banana, np.array([0.0, 0.5]), np.full(2, -50.0), np.full(2, 50.0), 1e-16)
        return float(least(valley, np.ones((1, 2)), Held(np.zeros((1, 2)), np.zeros(1))).squares[0])

    assert left() < 1e-12
    monkeypatch.setattr("sgdtheory.curves.valley.BENT", -1.0)
    assert left() > 0.01


def test_steps_are_repeated_for_those_that_are_not_done():
    class Count(NamedTuple):
        left: np.ndarray
        done: np.ndarray

    seen = []

    def step(part, active):
        seen.append(active.tolist())
        return Count(part.left - 1, part.left <= 1)

    found = repeated(step, Count(np.array([1, 3, 2]), np.zeros(3, dtype=bool)), 5)
    assert seen == [[0, 1, 2], [1, 2], [1]]
    assert found.left.tolist() == [0, 0, 0]
    assert len(repeated(step, Count(np.array([9]), np.zeros(1, dtype=bool)), 2)) == 2
