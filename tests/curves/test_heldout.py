"""Last losses of held-out schedules, of laws that are not the theory's and know no batch size."""

import numpy as np
import pytest
from scipy import stats

from tests.curves.heldout_coverage import coverage, held, rows_of


@pytest.mark.parametrize("law", ["momentum", "multi-power"])
def test_a_fit_to_three_schedules_predicts_the_others(law):
    """The errors are below a third of those of a power of the sum of learning rates, and the bands hold."""
    rows = rows_of((law, 300), ["3"])
    error, rival = (np.median(np.abs([getattr(row, name) for row in rows])) for name in ("error", "power"))
    assert error < rival / 3
    assert held(rows).sum() >= 4
    assert len(rows) == 5


@pytest.mark.slow
def test_bands_hold_and_without_the_error_of_the_theory_they_do_not():
    """If bands hold 95%, this fails once in 10,000 draws, even if all five ends of a data set fall together."""
    seeds = range(300, 324)
    rows = [row for seed in seeds for row in rows_of(("momentum", seed), ["3"])]
    bound = stats.binom.ppf(1e-4, len(seeds), 0.95) / len(seeds)
    assert coverage(rows)[0] >= bound
    assert coverage(rows, control=True)[0] < bound  # the control
