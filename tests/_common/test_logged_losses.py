"""Losses of a log that are not numbers or not positive: what is refused, and what is said of the rest."""

import numpy as np
import pytest

from sgdtheory._common.logged_losses import check_positive_losses, gap_remark


def checked(losses):
    check_positive_losses(np.arange(len(losses)), np.array(losses), "loss", "run a", "take another column")


def test_losses_are_positive_until_a_run_is_lost():
    checked([3.0, 2.0, np.nan, 1.0])
    checked([3.0, 2.0, 0.0, 0.0])  # a lost run is logged as 0
    for wrong, first in (([3.0, -1.0], "1 of 2 rows, first at step 1, -1"), ([3.0, 0.0, 2.0], "1 of 3 rows, first")):
        with pytest.raises(ValueError, match=f"^run a: losses must be positive, and 'loss' is 0 or less in {first}"):
            checked(wrong)


def test_gaps_are_counted_and_placed():
    assert gap_remark(np.array([7.0]), "loss") == (
        "'loss' is nan or inf in 1 row at step 7, and finite later: 1 row is taken as not logged"
    )
    assert gap_remark(np.array([7.0, 7.0]), "loss").startswith("'loss' is nan or inf in 2 rows at step 7, and")
    assert "in 2 rows between steps 7 and 9, and finite later: 2 rows are taken" in gap_remark(
        np.array([7.0, 9.0]), "x"
    )
