"""The covariance of rows along curves against its matrix, written out."""

import numpy as np
import pytest

from sgdtheory.curves.correlated_residuals import correlation
from sgdtheory.curves.row_covariance import RowCovariance, largest_eigenvalue, recursion

CASES = [(0.02, 0.0), (0.3, 0.25), (1.5, 0.95)]


def rows_of(seed):
    """Curves of 1 … 30 rows, the first two of which may be at one step, and columns."""
    random = np.random.default_rng(seed)
    log_steps = [np.sort(random.uniform(0, 9, number)) for number in (1, 30, 7)]
    log_steps[1][1] = log_steps[1][0]
    return log_steps, random.normal(size=(38, 3))


@pytest.mark.parametrize(("length", "alone"), CASES)
def test_products_factors_and_sums_are_those_of_the_matrix(length, alone):
    log_steps, columns = rows_of(1)
    matrix = 1.7**2 * correlation(log_steps, length, alone)
    found = RowCovariance(log_steps, length, alone, 1.7)
    np.testing.assert_allclose(found @ columns, matrix @ columns, atol=1e-13)
    whitened = np.linalg.solve(np.linalg.cholesky(matrix), columns)
    np.testing.assert_allclose(found.whitened(columns), whitened, rtol=1e-5, atol=1e-5)  # two rows are one but for 1e-9
    assert found.log_determinant == pytest.approx(np.linalg.slogdet(matrix)[1], rel=1e-7)
    assert found.effective_rows == pytest.approx(np.trace(matrix) ** 2 / (matrix**2).sum(), rel=1e-12)
    assert largest_eigenvalue(found, 38) == pytest.approx(np.linalg.norm(matrix, 2), rel=0.02)


def test_curves_that_remember_each_other_are_noticed():
    """Control: all rows as those of one curve."""
    log_steps, columns = rows_of(2)
    joined = RowCovariance([np.sort(np.concatenate(log_steps))], 0.3, 0.25)
    matrix = correlation(log_steps, 0.3, 0.25)
    assert np.abs(joined @ columns - matrix @ columns).max() > 0.1


@pytest.mark.parametrize("number", [1, 2, 3, 64, 65])
def test_a_recursion_is_that_row_by_row(number):
    random = np.random.default_rng(number)
    factor, drive = random.uniform(0, 1, number), random.normal(size=(number, 2))
    found = [drive[0]]
    for row in range(1, number):
        found.append(factor[row] * found[-1] + drive[row])
    np.testing.assert_allclose(recursion(factor, drive), found, atol=1e-13)
