from dataclasses import replace
from typing import Any

import numpy as np
import pytest
from scipy import stats

import sgdtheory as st
from sgdtheory.fits.conventions import SMALLEST, common_convention, one_convention
from tests.fits.test_steps_law import BATCHES, law_of, steps_of

SIZES = np.array([85.0, 151, 302, 604, 1200])


# ------------------------------------------------------------------ a convention


def test_the_smallest_batch_size_is_the_default_and_the_paper_s_has_a_name():
    assert st.Convention() == SMALLEST == st.Convention(None, 0.2)
    assert st.fits.PAPER == st.Convention(256, 0.2) == st.Convention(reference=256.0, overhead=0.2)
    assert replace(st.fits.PAPER, overhead=0.5) == st.Convention(256, 0.5)
    assert isinstance(st.Convention(np.int64(64)).reference, float)


def test_the_reference_is_the_conventions_or_the_smallest():
    assert st.Convention(100).reference_among([64, 32, 128]) == 100
    assert st.Convention(None).reference_among([64, 32, 128]) == 32


@pytest.mark.parametrize(
    ("numbers", "message"),
    [
        ((0,), "reference must be positive and finite, got 0.0"),
        ((np.nan,), "reference must be positive and finite, got nan"),
        (("big",), "reference must be a number"),
        (([64, 128],), "reference must be a single number"),
        ((256, 0), "overhead must be positive and finite, got 0.0"),
        ((256, np.inf), "overhead must be positive and finite, got inf"),
        ((256, None), "overhead must be a number"),
    ],
)
def test_a_bad_convention(numbers, message):
    with pytest.raises(ValueError, match=message):
        st.Convention(*numbers)


def test_one_convention_of_both_ways_to_say_it():
    assert one_convention(None, 256.0, 0.2) == st.fits.PAPER
    assert one_convention(None, None, 0.2) == st.Convention()
    assert one_convention(None, 64, 0.5) == st.Convention(64, 0.5)
    assert one_convention(st.Convention(64, 0.5), None, 0.2) == st.Convention(64, 0.5)
    assert one_convention(st.Convention(64, 0.5), 64, 0.5) == st.Convention(64, 0.5)
    with pytest.raises(ValueError, match="leave these two out"):
        one_convention(st.Convention(64, 0.5), 64, 0.4)


# ------------------------------------------------------------------ sensitivity


def test_sensitivity_equals_fitting_by_hand():
    scales = np.array([(1300, 2.8e6), (1750, 5.7e6), (2100, 1.1e7), (2500, 1.9e7), (3900, 4.3e7)])
    laws = [st.fit_steps_law(BATCHES, steps_of(a, b, noise=0.05, seed=k)) for k, (a, b) in enumerate(scales)]
    references, overheads = (100, 300), (0.1, 0.4, 2.0)
    rows = st.sensitivity(laws, SIZES, references=references, overheads=overheads)
    assert [(row.overhead, row.reference) for row in rows] == [(o, r) for o in overheads for r in references]
    for row in rows:
        critical = [row.overhead * law.b / law.a + (1 + row.overhead) * row.reference for law in laws]
        line: Any = stats.linregress(np.log(SIZES), np.log(critical))
        half = stats.t.ppf(0.975, 3) * line.stderr
        assert row.critical_batch_sizes == pytest.approx(critical, rel=1e-12)
        assert row.exponent == pytest.approx(line.slope, rel=1e-9)
        assert row.interval == pytest.approx((line.slope - half, line.slope + half), rel=1e-9)


def test_default_conventions_of_sensitivity():
    rows = st.sensitivity([law_of(1300.0, 2.8e6), law_of(1750.0, 5.7e6)], SIZES[:2])
    conventions = [(row.overhead, row.reference) for row in rows]
    assert conventions == [(o, r) for o in (0.1, 0.2, 0.5, 1.0) for r in (64, 128, 256, 512, 1024)]
    assert rows[0].interval == (-np.inf, np.inf)


def test_sensitivity_of_a_law_of_your_own():
    class Law:
        def critical_batch_size(self, *, convention):
            return convention.reference * convention.overhead

    (row,) = st.sensitivity([Law(), Law()], [1, 2], references=64, overheads=0.5)
    assert row.critical_batch_sizes == (32, 32)


# ------------------------------------------------------------------ one for all groups


@pytest.mark.parametrize(
    ("groups", "given", "expected"),
    [
        ([[16, 64, 256], [64, 256, 1024]], None, 64.0),
        ([[16, 64, 256], [64, 256, 1024]], 100, 100.0),
        ([[64, 16]], None, 16.0),
        ([[16, 64], [32, 128]], None, None),
        ([], None, None),
    ],
)
def test_several_groups_have_one_reference(groups, given, expected):
    found = common_convention([np.array(each, float) for each in groups], given, 0.3)
    assert found == st.Convention(expected, 0.3)
    assert found.reference_text == ("each group's smallest B" if expected is None else f"B = {expected:g}")
