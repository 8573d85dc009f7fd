"""B* of a fit in the cells of a file: what is written is read, and half of it is refused."""

import csv

import numpy as np
import pytest

import sgdtheory as st
from sgdtheory._common.files import csv_text
from sgdtheory.fits.steps_measurement import COLUMNS, fitted_in

PLAIN = st.fits.FittedCriticalBatchSize(277.0, 140.0, 548.0, st.Convention(64, 0.2), 0.95)
OPEN = st.fits.FittedCriticalBatchSize(277.0, 0.0, np.inf, st.fits.SMALLEST, 0.9, u_shaped=True)


def row_of(found):
    (row,) = csv.DictReader(csv_text(COLUMNS, [found.cells]).splitlines())
    return row


@pytest.mark.parametrize("found", [PLAIN, OPEN])
def test_what_is_written_is_read(found):
    assert fitted_in(row_of(found), "line 2") == found


def test_only_its_own_convention_is_answered():
    sizes = [64, 256]
    asked = {st.Convention(64, 0.2): True, st.fits.SMALLEST: True, st.Convention(256, 0.2): False}
    for convention, expected in (asked | {st.Convention(64, 0.3): False}).items():
        assert PLAIN.answers(convention, sizes) == expected


@pytest.mark.parametrize(
    ("changed", "message"),
    [
        ({"critical_low": "300"}, "line 2: critical_batch_size must lie from critical_low to critical_high"),
        ({"level": "1"}, "and level below 1, got 277, 140, 548 and 1"),
        ({"critical_high": "many"}, "line 2: critical_high must be a number, got 'many'"),
    ],
)
def test_cells_that_do_not_fit_are_refused(changed, message):
    with pytest.raises(ValueError, match=message):
        fitted_in(row_of(PLAIN) | changed, "line 2")


def test_a_part_of_the_columns_is_refused_and_none_is_none():
    assert fitted_in({"steps": "10"}, "line 2") is None
    with pytest.raises(ValueError, match=r"critical_batch_size needs critical_low, .*, u_shaped too: leave it out"):
        fitted_in({"critical_batch_size": "277"}, "line 2")
