"""Grids of exact risks with noise: how far off B* is, and how often its intervals hold."""

import numpy as np
import pytest
from scipy import stats

from tests.fits.exact_grids import PLACES, ExactGrid, biases
from tests.fits.test_loss_grid import table as lawful_table
from tests.marks import slow

REPLICAS = 304  # whole rounds of the places of the rates
MISSES = int(stats.binom.isf(1e-4, REPLICAS, 0.05))  # more have a probability below 1e-4 at a true level of 95%


@pytest.mark.parametrize(
    ("spacing", "most"), [slow(2**0.25, 0.1), slow(2**0.5, 0.2), slow(2.0, 0.5)], ids=["2^¼", "√2", "2"]
)
def test_coarse_rates_bias_the_critical_batch_size(spacing, most):
    """The finer the rates the smaller the error, at every place of theirs about the edge."""
    errors = np.abs(np.log(biases(ExactGrid(2, 3, 0.0, spacing))))
    assert errors.max() < most
    assert errors.max() > most / 10  # the bound is no wider than it has to be


@pytest.mark.slow
@pytest.mark.parametrize(
    ("capacity", "source", "spacing", "most"),
    [(1.5, 2.5, 2**0.5, 0.25), (1.5, 2.5, 2.0, 0.6), (2, 4, 2**0.25, 0.2), (2, 4, 2**0.5, 0.45), (2, 4, 2.0, 2.5)],
)
def test_the_bias_depends_on_the_problem_and_the_interval_knows(capacity, source, spacing, most):
    """For a = 2, b = 4, B* lies next to the largest batch size, and a factor of 2 is off ninefold; intervals hold."""
    grid = ExactGrid(capacity, source, 0.0, spacing)
    found = [grid.fit(grid.table(place)) for place in range(PLACES)]
    truth = [grid.truth(each.batch_sizes) for each in found]
    errors = [abs(np.log(each.critical_batch_size / true)) for each, true in zip(found, truth, strict=True)]
    assert most / 2 < max(errors) < most
    assert all(each.interval[0] <= true <= each.interval[1] for each, true in zip(found, truth, strict=True))


def covers(intervals, truth):
    return np.array([low <= truth <= high for low, high in intervals])


@pytest.mark.slow
@pytest.mark.parametrize(("spacing", "runs"), [(2**0.5, 3), (2**0.5, 1), (2.0, 3)])
def test_intervals_hold_their_level_on_exact_risks(spacing, runs):
    """Noise of 1%, a constant as large as the excess risk; each side of the interval alone misses too often."""
    grid, random = ExactGrid(2, 3, 0.002, spacing), np.random.default_rng(0)
    inside = []
    for replica in range(REPLICAS):
        found = grid.fit(grid.table(replica % PLACES, runs, 0.01, random))
        sides = found.interval, found.scatter_interval, found.resampled_interval, found.edge_interval
        inside.append(covers(sides, grid.truth(found.batch_sizes)))
    misses = (~np.array(inside)).sum(0)
    print(f"spacing {spacing:.3g}, {runs} runs: {1 - misses / REPLICAS}")
    assert misses[0] <= MISSES
    assert misses[2] > MISSES  # negative controls: noise alone, and the scatter alone where rates are coarse
    assert spacing < 2 or misses[1] > MISSES


@pytest.mark.slow
@pytest.mark.parametrize("runs", [3, 1])
def test_intervals_hold_their_level_where_noise_is_all(runs):
    """A grid that follows the law, with noise: no wider than needed, 95% at the least and not all."""
    from tests.fits.test_loss_grid import BALANCE, joined, st

    random, truth, inside, widths = np.random.default_rng(1), 0.2 * BALANCE + 1.2 * 16, [], []
    rows = joined(*[lawful_table(samples=4.0 ** np.arange(7, 12), rates=2.0 ** np.arange(-5, 3))] * runs)
    for _ in range(REPLICAS):
        noisy = dict(rows, loss=rows["loss"] * np.exp(0.003 * random.standard_normal(rows["loss"].size)))
        (found,) = st.fit_loss_grid(noisy, targets=2.1, convention=st.Convention(16)).targets
        third = tuple(
            found.critical_batch_size * (end / found.critical_batch_size) ** (1 / 3) for end in found.interval
        )
        sides = found.interval, found.scatter_interval, third
        inside.append(covers(sides, truth))
        widths.append([np.log(high / low) for low, high in sides])
    misses = (~np.array(inside)).sum(0)
    print(f"{runs} runs: {1 - misses / REPLICAS}, widths {np.median(widths, axis=0)}")
    assert misses[0] <= MISSES
    assert np.median(widths, axis=0)[0] < 1.3 * np.median(widths, axis=0)[1]
    assert misses[2] > MISSES  # negative control: a third as wide
