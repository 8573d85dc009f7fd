"""Best learning rates of settings as the law takes them: known ones with their errors, and bounds."""

from types import SimpleNamespace

import numpy as np
import pytest
from scipy import stats

from sgdtheory.fits.loss_rows import loss_rows
from sgdtheory.fits.rate_intervals import RateIntervals, hull
from sgdtheory.fits.rate_law import Likelihood, best_rates
from sgdtheory.fits.tuned_loss import lowest, tuned_losses

LOSSES = {  # B: losses at the rates 1, 2, 8 and 16
    1: [2.0, 1.4, 2.2, 3.0],  # between others
    2: [1.0, 2.0, 3.0, 4.0],  # the lowest
    4: [4.0, 3.0, 2.0, 1.0],  # the highest
    8: [4.0, 3.0, 1.5, np.nan],  # beside a rate that diverged
}


def test_known_rates_and_bounds():
    """Runs are repeated at the best rate of B = 1 and above: errors of three runs there, and of one at the others."""
    x = np.log([1.0, 2.0, 8.0, 16.0])
    rows = [(batch, 100.0, *pair) for batch, each in LOSSES.items() for pair in zip(np.exp(x), each, strict=True)]
    rows += [(1, 100.0, 2.0, 1.4 * factor) for factor in (0.98, 1.02)]
    columns = dict(zip(("batch_size", "samples", "learning_rate", "loss"), zip(*rows, strict=True), strict=True))
    groups = [tuned_losses(loss_rows({**columns, "size": [size] * len(rows)})[0]) for size in (2.0, 8.0)]
    found = best_rates(groups)
    assert found.side.tolist() == [0, -1, 1, 0] * 2
    assert found.group.tolist() == [0] * 4 + [1] * 4
    np.testing.assert_allclose(found.log_size, np.repeat([-np.log(2), np.log(2)], 4))
    np.testing.assert_allclose(np.exp([found.log_batch, found.log_samples]), [[1, 2, 4, 8] * 2, [100.0] * 8])
    y = np.log(LOSSES[1])
    vertex = lowest(x, y[None]).log_rate[0]
    expected = [vertex, (x[0] + x[1]) / 2, (x[2] + x[3]) / 2, (x[2] + x[3]) / 2]
    np.testing.assert_allclose(found.log_rate[:4], expected, rtol=1e-9)
    moves = [(lowest(x, (y + 1e-5 * unit)[None]).log_rate[0] - vertex) / 1e-5 for unit in np.eye(4)]
    error = np.sqrt(0.02**2 * (np.square(moves) / [1, 3, 1, 1]).sum())
    assert found.error[0] == pytest.approx(error, rel=1e-3)
    assert found.error[[1, 2]].tolist() == [0, 0]
    assert found.error[3] == pytest.approx((x[3] - x[2]) / 2 / np.sqrt(3))
    likelihood = Likelihood(found, 0.0)
    assert likelihood.clusters.tolist() == [0, 0, 1, 1]
    assert (likelihood.several_durations, likelihood.several_sizes, likelihood.number_fitted) == (False, False, 4)


def test_a_hull_contains_the_closed_intervals():
    def laws(*ends):
        return [type("Known", (), {"of": lambda self, _, pair=pair: pair})() for pair in ends]

    assert hull(laws((1.0, 3.0), (2.0, 5.0)), np.zeros(1)) == (1.0, 5.0)
    assert hull(laws((-np.inf, 3.0), (0.0, np.inf), (2.0, 2.5)), np.zeros(1)) == (2.0, 2.5)
    assert hull(laws((2.0, 2.5), (-np.inf, 2.0)), np.zeros(1)) == (-np.inf, 2.5)


@pytest.mark.parametrize(
    ("clusters", "clustered", "inflated", "pairs"),
    [(8, 3.0, 3.0, 5), (8, 0.5, 1.0, 5), (40, 2.0, 2.0, 14), (7, 3.0, 1.0, 14)],
)
def test_limits_of_profiles(clusters, clustered, inflated, pairs):
    """Twenty known rates and six numbers. Eight pairs or more widen the limit; the levels and c use three of them."""
    rates = SimpleNamespace(side=np.array(20 * [0] + [1, -1]))
    likelihood = SimpleNamespace(
        rates=rates, number_fitted=6, clusters=np.arange(clusters), in_group=np.ones((22, 2)), several_durations=True
    )
    found = RateIntervals(likelihood, 0.0, np.zeros(4), 1.0, 0.9, True)
    found.__dict__["_variances"] = np.eye(2), clustered * np.eye(2)
    limit = inflated * 10 * np.log1p(stats.f.ppf(0.9, 1, pairs) / 14)
    assert found._limit(np.array([1.0, 0.0, 0.0])) == pytest.approx(limit)
    likelihood.number_fitted = 20
    assert found._limit(np.array([1.0, 0.0, 0.0])) == np.inf
