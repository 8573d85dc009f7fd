"""The process of residuals against its definition, with matrices that are inverted one by one."""

import numpy as np
import pytest

from sgdtheory.curves.correlated_residuals import ALONE, LENGTHS, correlation, scatter_of

LOG_STEPS = [np.sort(np.random.default_rng(k).uniform(2, 8, size)) for k, size in enumerate((30, 22))]


def covariance_of_rows(length, alone):
    """`(1 − ν) exp(−|log t − log t'|/ℓ) + ν δ`, row by row; 0 between curves."""
    places = [(j, each) for j, log_step in enumerate(LOG_STEPS) for each in log_step]
    found = np.zeros((len(places), len(places)))
    for k, (j, one) in enumerate(places):
        for m, (i, other) in enumerate(places):
            if i == j:
                found[k, m] = (1 - alone) * np.exp(-abs(one - other) / length) + (alone + 1e-9) * (k == m)
    return found


def restricted(slopes, residuals, shape):
    """−2 log L and s², as in the docstring of `scatter_of`."""
    inverse = np.linalg.inv(shape)
    inner = slopes.T @ inverse @ slopes
    taken = inverse - inverse @ slopes @ np.linalg.inv(inner) @ slopes.T @ inverse
    freedom = residuals.size - slopes.shape[1]
    square = residuals @ taken @ residuals
    return np.linalg.slogdet(shape)[1] + np.linalg.slogdet(inner)[1] + freedom * np.log(square), square / freedom


def test_correlation():
    np.testing.assert_allclose(correlation(LOG_STEPS, 0.3, 0.25), covariance_of_rows(0.3, 0.25), atol=1e-12)


@pytest.mark.parametrize(("length", "alone"), [(0.02, 0.0), (0.4, 0.25), (1.5, 0.5)])
def test_scatter_is_that_of_largest_restricted_likelihood(length, alone):
    random = np.random.default_rng(3)
    rows = np.concatenate(LOG_STEPS)
    slopes = np.column_stack([np.ones(rows.size), 40 * rows, np.zeros(rows.size), 1e-3 * np.cos(rows)])
    used = slopes[:, [0, 1, 3]]
    drawn = np.linalg.cholesky(covariance_of_rows(length, alone)) @ random.standard_normal(rows.size)
    residuals = 0.1 * drawn
    residuals = residuals - used @ np.linalg.lstsq(used, residuals, rcond=None)[0]
    found = scatter_of(used, residuals, LOG_STEPS)
    values = {(ell, nu): restricted(used, residuals, covariance_of_rows(ell, nu)) for ell in LENGTHS for nu in ALONE}
    best = min(values, key=lambda pair: values[pair][0])
    assert (found.length, found.alone) == best
    square = values[best][1]
    assert found.deviation == pytest.approx(np.sqrt(square), rel=1e-6)
    shape = covariance_of_rows(*best)
    bread = np.linalg.inv(used.T @ used)
    np.testing.assert_allclose(found.covariance, square * bread @ used.T @ shape @ used @ bread, rtol=1e-5)
    effective = np.trace(shape) ** 2 / np.trace(shape @ shape)
    assert found.freedom == pytest.approx(max(effective - 3, 1.0), rel=1e-6)
    assert found.identified.all()


def test_a_number_that_no_row_tells_is_not_told_and_changes_nothing_else():
    random = np.random.default_rng(4)
    rows = np.concatenate(LOG_STEPS)
    slopes = np.column_stack([np.ones(rows.size), np.zeros(rows.size), rows])
    residuals = 0.1 * random.standard_normal(rows.size)
    found, without = scatter_of(slopes, residuals, LOG_STEPS), scatter_of(slopes[:, [0, 2]], residuals, LOG_STEPS)
    assert found.identified.tolist() == [True, False, True]
    assert not found.covariance[1].any()
    assert not found.covariance[:, 1].any()
    np.testing.assert_allclose(found.covariance[np.ix_([0, 2], [0, 2])], without.covariance, rtol=1e-12)
    assert found[2:] == pytest.approx(without[2:], rel=1e-12)


def test_where_no_row_tells_anything_the_process_is_still_found():
    random = np.random.default_rng(5)
    residuals = np.linalg.cholesky(covariance_of_rows(0.4, 0.0)) @ random.standard_normal(52)
    found = scatter_of(np.zeros((52, 2)), residuals, LOG_STEPS)
    values = {(ell, nu): restricted(np.zeros((52, 0)), residuals, covariance_of_rows(ell, nu))
              for ell in LENGTHS for nu in ALONE}  # fmt: skip
    best = min(values, key=lambda pair: values[pair][0])
    assert (found.length, found.alone) == best
    assert found.deviation == pytest.approx(np.sqrt(values[best][1]), rel=1e-6)
    assert not found.identified.any()
    assert not found.covariance.any()


def test_one_number_of_four_rows_leaves_one_degree_of_freedom():
    """Rows a hundredth apart in log t count as one, less one number: none, and no less than one is taken."""
    rows = 0.01 * np.arange(4)
    found = scatter_of(np.ones((4, 1)), np.array([1.0, 1.01, 1.02, 1.03]) - 1.015, [rows])
    assert found.freedom == 1
