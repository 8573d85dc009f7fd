"""Fourth moments of data, row by row."""

import numpy as np
import pytest

from sgdtheory._common.rows import Rows
from sgdtheory.data.shape import kurtosis_of


@pytest.mark.parametrize(("most", "every"), [(60, 1), (59, 2), (20, 3), (17, 4)])
def test_by_its_definition_on_rows_evenly_spaced(monkeypatch, most, every):
    """`χ = Σ_{i≠j} E x_i² x_j² / Σ_{i≠j} λ_i λ_j`, `χ + δ = Σ E x_i⁴ / Σ λ_i²` in the eigenbasis.

    At most so many rows: each of 60, each second, each third …, whatever the pieces in which they are read.
    """
    monkeypatch.setattr("sgdtheory._common.rows.PIECE", 28)  # 7 rows
    monkeypatch.setattr("sgdtheory.data.shape.MOST_ROWS", most)
    x = np.random.default_rng(0).standard_t(8, (60, 3)) * [1.5, 0.8, 0.5]
    eigenvalues, vectors = np.linalg.eigh(x.T @ x / 60)
    same = pairs = 0.0
    for row in x[::every] @ vectors:
        for i in range(3):
            for j in range(3):
                term = row[i] ** 2 * row[j] ** 2 / len(x[::every])
                same, pairs = (same + term, pairs) if i == j else (same, pairs + term)
    others = sum(eigenvalues[i] * eigenvalues[j] for i in range(3) for j in range(3) if i != j)
    spread = pairs / others
    found = kurtosis_of(Rows(x, x), eigenvalues, vectors)
    assert found == pytest.approx((spread, same / (eigenvalues**2).sum() - spread), rel=1e-10)


@pytest.mark.parametrize("unit", [1.0, 1e-3, 1e3])
def test_of_one_direction_in_any_unit(unit):
    """κ/3 and 2κ/3, also where rounding makes a second direction."""
    x = unit * np.array([[1.0], [-1.0], [3.0], [0.0]])
    kurtosis = (1 + 1 + 81) / 4 / (11 / 4) ** 2
    shared = kurtosis / 3, 2 * kurtosis / 3
    assert kurtosis_of(Rows(x, x), np.array([unit**2 * 11 / 4]), np.eye(1)) == pytest.approx(shared)
    two = np.column_stack([x, np.zeros(4)])
    eigenvalues = unit**2 * np.array([11 / 4, 1e-12])
    assert kurtosis_of(Rows(two, x), eigenvalues, np.eye(2)) == pytest.approx(shared)


@pytest.mark.parametrize("unit", [1e-3, 1e3])
def test_of_many_directions_in_any_unit(unit):
    """Rows ±1 in each of two directions: χ = 1, δ = 0."""
    x = unit * np.array([[1.0, 1.0], [1.0, -1.0], [-1.0, 1.0], [-1.0, -1.0]])
    assert kurtosis_of(Rows(x, x), np.full(2, unit**2), np.eye(2)) == pytest.approx((1.0, 0.0))
