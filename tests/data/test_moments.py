"""Sums over groups of rows, row by row."""

import numpy as np
import pytest

from sgdtheory._common.rows import Rows
from sgdtheory.data.moments import GROUPS, Moments, grouped_moments

ROWS = Rows(np.random.default_rng(0).normal(1, 1, (70, 3)), np.random.default_rng(1).normal(2, 1, (70, 2)))


def test_each_row_lies_in_one_of_sixteen_groups(monkeypatch):
    """Whatever the pieces in which rows are read; groups differ in size by at most one row."""
    monkeypatch.setattr("sgdtheory._common.rows.PIECE", 55)  # 11 rows
    found = grouped_moments(ROWS, seed=4)
    group = np.random.default_rng(4).permutation(70) % 16
    assert len(found.count) == 16
    assert set(found.count) == {4, 5}
    for g in range(16):
        x, y = ROWS.features[group == g], ROWS.targets[group == g]
        assert found.count[g] == len(x)
        np.testing.assert_allclose(found.covariance[g], sum(np.outer(row, row) for row in x), rtol=1e-12)
        pairs = zip(x, y, strict=True)
        np.testing.assert_allclose(found.correlation[g], sum(np.outer(*pair) for pair in pairs), rtol=1e-12)
        assert found.square[g] == pytest.approx(sum(float(row @ row) for row in y))
    assert found.constant == ()


def test_means_are_those_of_the_rows_of_some_groups():
    found, group = grouped_moments(ROWS, seed=4), np.random.default_rng(4).permutation(70) % 16
    for keep in (np.ones(GROUPS, dtype=bool), np.arange(GROUPS) % 3 == 0):
        x, y = ROWS.features[keep[group]], ROWS.targets[keep[group]]
        covariance, correlation, square = found.mean(keep)
        np.testing.assert_allclose(covariance, x.T @ x / len(x), rtol=1e-12)
        np.testing.assert_allclose(correlation, x.T @ y / len(x), rtol=1e-12)
        assert square == pytest.approx((y**2).sum() / len(y))


def test_columns_of_one_value_are_found_across_pieces(monkeypatch):
    """One that is constant within each piece is none, nor is one of the same two values in all pieces."""
    monkeypatch.setattr("sgdtheory._common.rows.PIECE", 50)  # 10 rows
    features = ROWS.features.copy()
    features[:, 1] = -3.0
    features = np.column_stack([features, np.repeat([5.0, 6, 4, 5, 5, 5, 5], 10), np.tile([5.0, 4.0], 35)])
    assert grouped_moments(Rows(features, ROWS.targets), seed=0).constant == (1,)


def test_the_uncertainty_of_mean_squares_is_the_standard_error_of_group_means():
    """Groups of 2, 4 and 5 rows have mean squares 3, 1, 2 and 10, 10, 40."""
    count = np.array([2.0, 4.0, 5.0])
    covariance = np.array([np.diag([share, 1 - share]) for share in (0.3, 0.5, 0.1)]) * [[[6.0]], [[4.0]], [[10.0]]]
    found = Moments(count, covariance, np.zeros((3, 2, 1)), np.array([20.0, 40.0, 200.0]), ())
    errors = 1 / np.sqrt(3) / 2, np.sqrt((100 + 100 + 400) / 2 / 3) / 20
    assert found.uncertainty() == pytest.approx(errors)


def test_where_one_group_has_all_it_is_uncertain_by_itself():
    covariance = np.zeros((16, 1, 1))
    covariance[3] = 7.0
    found = Moments(np.ones(16), covariance, np.zeros((16, 1, 1)), np.ones(16), ())
    assert found.uncertainty() == pytest.approx((1.0, 0.0))
