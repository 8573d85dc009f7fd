"""Cost of a batch size at fixed data, by hand: its data sizes, amount and intervals."""

from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest

from sgdtheory.fits.degradation import degradations
from sgdtheory.fits.loss_noise import widened
from sgdtheory.fits.searches import last_crossing

# ------------------------------------------------------------------ data sizes


def tuned_of(samples, covered, batch_sizes=None) -> Any:
    """Return, for each batch size, the places of D at which it has a loss."""
    usable = np.zeros((len(covered), len(samples)), bool)
    for row, places in zip(usable, covered, strict=True):
        row[places] = True
    batch_sizes = 2.0 ** np.arange(len(covered)) if batch_sizes is None else np.array(batch_sizes)
    return SimpleNamespace(
        group="a", size=3.0, samples=np.array(samples, float), batch_sizes=batch_sizes, usable=lambda edges: usable
    )


def found_at(samples, covered):
    """Data sizes at which degradations are told."""
    tuned = tuned_of(samples, covered)
    log_losses = np.broadcast_to(-0.1 * np.log(tuned.samples), (1, len(covered), len(samples)))
    others = np.tile(log_losses, (7, 1, 1))
    found = degradations(tuned, log_losses, others, False, share=0.01, level=0.9, noisy=False)
    assert all((each.group, each.size, each.share) == ("a", 3.0, 0.01) for each in found)
    return [each.samples for each in found]


@pytest.mark.parametrize(
    ("covered", "expected"),
    [
        ([slice(0, 4), slice(1, 5), slice(2, 6)], [40, 80]),  # from the largest least to the smallest most
        ([slice(0, 2), slice(0, 6), slice(0, 6), slice(0, 6)], [10, 20]),  # where the smallest has none there is none
        ([slice(0, 6), slice(0, 6), slice(0, 0)], []),
        ([slice(0, 0), slice(2, 6), slice(0, 6), slice(0, 4)], [40, 80]),  # the first is not measured at all
        ([[0, 3], [0, 3], [0, 3]], [10, 20, 40, 80]),  # between two data sizes it is interpolated
    ],
)
def test_data_sizes_that_three_cover_the_smallest_among_them(covered, expected):
    assert found_at(10 * 2.0 ** np.arange(6), covered) == expected


def test_data_sizes_within_five_percent_are_one():
    assert found_at([100, 103, 104.9, 106, 111, 150, 157.4, 157.6], [slice(8)] * 3) == [100, 106, 150, 157.6]


@pytest.mark.parametrize("number", [12, 13, 23, 34])
def test_of_many_data_sizes_twelve_are_told_evenly(number):
    samples = np.exp(np.arange(number))
    found = np.log(found_at(samples, [slice(number)] * 3))
    assert len(found) == 12
    wanted = np.linspace(0, number - 1, 12)
    np.testing.assert_allclose(found, wanted, atol=0.5 + 1e-9)
    assert len(set(found)) == 12


# ------------------------------------------------------------------ one data size


@pytest.mark.parametrize("best", [6.0, 1.0])
def test_ratios_and_intervals_by_hand(best):
    """A parabola of log L in log B, with other runs and other edges."""
    random = np.random.default_rng(0)
    batch_sizes = np.array([1.0, 2.0, 5.0, 11.0, 30.0])
    here = 0.5 + 0.02 * np.log(batch_sizes / best) ** 2
    drawn, edges = here + 0.01 * random.standard_normal((41, 5)), here + 0.003 * random.standard_normal((2, 5))
    tuned = tuned_of([7.0], [[0]] * 5, batch_sizes)
    tables = here[None, :, None], np.concatenate([drawn, edges])[:, :, None]
    (found,) = degradations(tuned, *tables, False, share=0.05, level=0.8, noisy=True)
    np.testing.assert_allclose(found.ratios, np.exp(here) / np.exp(here).min())
    assert found.batch_size == last_crossing(batch_sizes, found.ratios - 1.05)
    assert found.best_batch_size == pytest.approx(6.0) if best > 1 else np.isnan(found.best_batch_size)
    ratios, at_edges = (np.exp(each) / np.exp(each).min(1)[:, None] for each in (drawn, edges))
    for place in range(5):
        ordered = np.sort(ratios[:, place])
        expected = widened(found.ratios[place], [(ordered[3], ordered[36])], at_edges[:, place])  # 4 beyond each
        np.testing.assert_allclose(found.intervals[place], np.maximum(expected, 1.0))
    ordered = np.sort([last_crossing(batch_sizes, each - 1.05) for each in ratios])
    others = np.array([last_crossing(batch_sizes, each - 1.05) for each in at_edges])
    assert found.interval == pytest.approx(widened(found.batch_size, [(ordered[3], ordered[36])], others))
    (silent,) = degradations(tuned, *tables, False, share=0.05, level=0.8, noisy=False)
    assert np.isnan([*silent.interval, *silent.intervals.ravel()]).all()
    assert silent.intervals.shape == (5, 2)
    assert silent.ratios.tolist() == found.ratios.tolist()


def test_only_batch_sizes_that_cover_the_data_size_count():
    tuned = tuned_of([10, 20, 40], [slice(3), slice(0, 2), slice(3), slice(3)])
    losses = np.log([[3, 2, 1], [2, 1.5, 0.1], [3.3, 2.2, 1.1], [6, 4, 2]])[None]
    found = degradations(tuned, losses, losses[[0, 0, 0]], False, share=0.2, level=0.9, noisy=False)
    assert [each.batch_sizes.tolist() for each in found] == [[1, 2, 4, 8], [1, 2, 4, 8], [1, 4, 8]]
    np.testing.assert_allclose(found[2].ratios, [1, 1.1, 2])
