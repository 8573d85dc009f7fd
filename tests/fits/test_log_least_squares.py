"""Many terms in logs at once, against local searches in the logarithms of the numbers from many starts."""

import numpy as np
import pytest
from scipy import optimize

from sgdtheory.fits.u_shaped_profile import below, log_least_squares


def terms_of(batch_sizes):
    return batch_sizes[:, None] ** -np.arange(3.0)


def problem(seed):
    """(B, log Y, w): three to nine batch sizes, any of the terms, scatter up to a factor of e²."""
    random = np.random.default_rng(seed)
    batch_sizes = np.sort(2.0 ** random.uniform(2, 14, 3 + seed % 7))
    numbers = 10 ** random.uniform(-3, 3, 3) * random.integers(0, 2, 3) + [0, 1e-9, 0]
    scale = np.exp(np.log(batch_sizes).mean()) ** np.arange(3)
    noise = (0.003, 0.03, 0.3, 1.0, 2.0)[seed % 5]
    log_steps = np.log(terms_of(batch_sizes) @ (scale * numbers)) + noise * random.standard_normal(batch_sizes.size)
    weights = np.ones(batch_sizes.size) if seed % 2 else random.uniform(0.1, 10, batch_sizes.size)
    return batch_sizes, log_steps, weights


def least_of_many_starts(log_steps, terms, weights, seed, starts=12):
    """Least squares over log θ, a term gone below e^−80 of what the steps allow it."""
    random, best = np.random.default_rng(seed), np.inf
    most = (log_steps[:, None] - np.log(terms)).min(0)

    def gap(log_theta):
        return np.sqrt(weights) * (log_steps - np.logaddexp.reduce(log_theta + np.log(terms), axis=1))

    for _ in range(starts):
        start = most + random.uniform(-8, 2, most.size)
        found = optimize.least_squares(gap, start, bounds=(most - 80, most + 80), xtol=1e-14, ftol=1e-14, gtol=1e-14)
        best = min(best, 2 * found.cost)
    return best


@pytest.mark.parametrize("seed", [*range(10), 14])
def test_nothing_fits_better_from_any_start(seed):
    """Three points too, edges with terms that are 0, and scatter that leaves the convex region.

    At 14 Newton's steps with a Hessian that is not kept positive end 30% too high.
    """
    batch_sizes, log_steps, weights = problem(seed)
    terms = terms_of(batch_sizes)
    found, (squares,) = log_least_squares(log_steps, terms, weights, below(log_steps, terms)[None])
    rest = log_steps - np.log(terms @ found[0])
    assert squares == pytest.approx((weights * rest**2).sum(), rel=1e-9, abs=1e-24)
    assert squares <= least_of_many_starts(log_steps, terms, weights, seed) * (1 + 1e-9) + 1e-20


def test_rows_are_problems_of_their_own_and_starts_do_not_matter():
    """Six data sets at once from a start below all steps, and from starts that are nearly one term alone."""
    random = np.random.default_rng(0)
    batch_sizes = 4.0 ** np.arange(1, 7)
    terms, weights = terms_of(batch_sizes), random.uniform(0.5, 2, 6)
    log_steps = np.log(1 + 300 / batch_sizes + 900 / batch_sizes**2) + 0.2 * random.standard_normal((6, 6))
    together = log_least_squares(log_steps, terms, weights, below(log_steps, terms[None]))
    for row, one in enumerate(log_steps):
        most = 3 * below(one, terms)
        starts = most * np.array([[0.98, 0.01, 0.01], [0.01, 0.98, 0.01], [0.01, 0.01, 0.98]])
        alone, squares = log_least_squares(one, terms, weights, starts)
        np.testing.assert_allclose(squares, together[1][row], rtol=1e-11)
        np.testing.assert_allclose(alone, np.tile(together[0][row], (3, 1)), rtol=1e-5, atol=1e-5 * most.min())


def test_a_linear_condition_is_kept_and_nothing_with_it_fits_better():
    """Steps at B = 50 given: SciPy's constrained search in the three numbers from the same start."""
    batch_sizes, log_steps, weights = problem(8)  # of nine batch sizes, off the law by 0.3 each
    terms = terms_of(batch_sizes)
    free, _ = log_least_squares(log_steps, terms, weights, below(log_steps, terms)[None])
    along = 50.0 ** -np.arange(3.0)
    for factor in (0.8, 1.0, 1.3):
        found, (squares,) = log_least_squares(log_steps, terms, weights, factor * free, along)
        assert found[0] @ along == pytest.approx(factor * (free[0] @ along), rel=1e-12)
        unit = 1 / along

        def loss(share, unit=unit):
            return (weights * (log_steps - np.log(terms @ (share * unit))) ** 2).sum()

        steps = float(found[0] @ along)
        shares = steps * np.random.default_rng(1).dirichlet([0.3, 0.3, 0.3], 20_000)
        assert squares <= min(loss(each) for each in shares) * (1 + 1e-9)
        polished = optimize.minimize(
            lambda logs, steps=steps: loss(steps * np.exp(logs) / np.exp(logs).sum()),
            np.log(found[0] / unit + 1e-9 * steps),
            method="Nelder-Mead",
            options={"xatol": 1e-10, "fatol": 1e-15},
        )
        assert squares <= polished.fun * (1 + 1e-9)


def test_a_condition_on_a_term_leaves_the_others_free():
    """c = 0.5: what is left is a fit of a and b to a curve with an offset."""
    batch_sizes = 4.0 ** np.arange(1, 6)
    log_steps = np.log(1 + 30 / batch_sizes + 40 / batch_sizes**2)
    terms = terms_of(batch_sizes)
    found, (squares,) = log_least_squares(log_steps, terms, np.ones(5), np.array([[1, 30, 0.5]]), np.eye(3)[2])
    assert found[0, 2] == pytest.approx(0.5, rel=1e-12)
    fit = optimize.least_squares(
        lambda x: log_steps - np.log(terms @ np.r_[np.exp(x), 0.5]), [0, 3], xtol=1e-15, ftol=1e-15, gtol=1e-15
    )
    assert squares == pytest.approx(2 * fit.cost, rel=1e-9)


@pytest.mark.parametrize("terms", [2, 3])
def test_the_start_is_below_all_steps_and_each_term_is_as_large_as_it_may_be(terms):
    batch_sizes, log_steps, _ = problem(8)
    shapes = terms_of(batch_sizes)[:, :terms]
    start = below(log_steps, shapes)
    over = shapes * start * np.exp(-log_steps)[:, None]
    np.testing.assert_allclose(over.max(0), 1 / terms, rtol=1e-12)
    np.testing.assert_allclose(below(np.stack([log_steps, log_steps + 1]), shapes[None])[1], np.e * start, rtol=1e-12)


def test_terms_that_cannot_be_told_apart_count_as_one():
    """Faces with both have no solution of their own; the others are as good."""
    batch_sizes = 4.0 ** np.arange(4)
    log_steps = np.log(1 + 30 / batch_sizes) + 0.1 * np.random.default_rng(0).standard_normal(4)
    one = np.ones((4, 1))
    twice = np.hstack([one, one, 1 / batch_sizes[:, None]])
    _, (expected,) = log_least_squares(log_steps, twice[:, 1:], np.ones(4), np.array([[0.5, 1.0]]))
    found, (squares,) = log_least_squares(log_steps, twice, np.ones(4), np.array([[0.0, 0.5, 1.0]]))
    assert squares == pytest.approx(expected, rel=1e-9)
    assert np.isfinite(found).all()
