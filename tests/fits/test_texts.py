"""What results of fits print: the lines that a reader gets, with their digits, headings, marks and remarks."""

from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest

import sgdtheory as st
from sgdtheory._common.sheets import as_text
from sgdtheory.fits.grid_laws import grid_sheet
from sgdtheory.fits.noise_scale import NoiseScaleFit
from tests.fits.test_ramps import exact_law

FOUR = np.array([64.0, 256, 1024, 4096])
ROUGH = st.fit_steps_law(FOUR, [50000, 14000, 5000, 2800], alpha_range=(1, 1))


def has_lines(sheet, *expected):
    """Compare lines apart from the widths of columns."""
    printed = [" ".join(line.split()) for line in as_text(sheet).splitlines()]
    assert [line for line in expected if line not in printed] == [], as_text(sheet)


def test_a_plan():
    plan = st.plan(ROUGH, throughput=12, micro_batch=8, price=2.5, deadline=3.5)
    has_lines(
        plan.sheet(),
        "Batch size 184 = 23 devices × micro batch 8 × accumulation 1: 3.46 h (3.41 … 3.51, may miss the deadline), "
        "199 USD, 8% more data than at batch size 64",
        "B* 376.3 (363.4 … 389.8), 20% more data than at batch size 64; knee 1,497 (1,433 … 1,565), beyond it 1% more "
        "batch saves less than ½% of the steps",
        "184 23 18,675 8% 3.46 3.41 … 3.51 199 196 … 202 choice",
        "376 47 10,182 20% 1.89 1.86 … 1.91 222 219 … 224 B*",
        "1,496 187 4,089 92% 0.757 0.747 … 0.768 354 349 … 359 knee",
    )
    assert plan.notes[0].startswith("the interval of the time reaches 3.51 h, past the deadline of 3.5 h")
    assert plan.notes[0].endswith("plan for 3.45 h")  # 3.5 · 3.458/3.51
    rates = [44.44, 86.49, 145.45, 164.10]
    points = st.fits.MeasuredThroughput([8] * 4, [1, 4, 4, 8], [2, 1, 4, 2], rates, [14, 20, 20, 28])
    has_lines(
        st.plan(ROUGH, points).sheet(),
        "Batch size 256 = 8 devices × micro batch 8 × accumulation 4: 5.29 h (5.21 … 5.36), 42.3 device-hours, 12% "
        "more data than at batch size 64",
        "a step of the choice: 4 × 0.29 s + 0.2 s; the fit is off by 0.0% at most",
        "memory: 12 GB + 2 GB a sample, 28 GB for micro batch 8",
        "384 8 8 6 10,013 20% 5.4 5.33 … 5.47 43.17 B*",
    )
    sizes = 2.0 ** np.arange(6, 13)
    bent = st.fits.UShapedLaw(500.0, 4e5, 8e7, sizes, (500 + 4e5 / sizes + 8e7 / sizes**2) * [1, 1.01, 1, 1, 1, 1, 1])
    marks = [line.split("  ")[-1] for line in str(st.plan(bent, 20, devices=16)).splitlines()]
    assert marks.count("below the useful range") == 2
    assert {"smallest useful", "choice, B_opt", "B*", "knee"} <= set(marks)


def test_a_law_with_an_optimal_batch_size():
    """Overheads count from B_opt if it lies above the smallest batch size, below infinity."""
    steps = 500 + 4e5 / FOUR + 8e7 / FOUR**2
    for numbers, counted, more in (
        ((500.0, 4e5, 8e7), "the best one", True),
        ((500.0, 4e5, 2e5), "batch size 64, the smallest measured", True),
        ((0.0, 4e5, 8e7), "batch size 64, the smallest measured", True),
        ((500.0, 4e5, 0.0), "batch size 64, the smallest measured", False),
    ):
        (table,) = st.fits.UShapedLaw(*numbers, np.append(FOUR, 8192.0), np.append(steps, 560.0)).sheet().tables
        assert table.legend == f"B*: 20% more data than {counted}"
        labels = ["a", "b", "c", "B*", *(["best B", "smallest useful B"] if more else [])]
        assert [each.label for each in table.quantities] == labels
    bare = st.fits.UShapedLaw(500.0, 4e5, 8e7, FOUR[:3], steps[:3]).sheet()
    assert np.isnan(bare.tables[0].quantities[3].interval).all()
    assert np.isnan(st.fits.LackOfFit.of(1.0, 0).p_value)


def test_a_ramp():
    laws = [exact_law(*each) for each in ((500.0, 1e5), (1500.0, 9e5), (4000.0, 6e6))]
    ramp = st.batch_ramp(laws, multiple=64)
    has_lines(
        ramp.sheet(),
        "388,000 1,088 800",
        "7,861 steps, 4.3% fewer than at a constant batch size with the same samples. Megatron-LM (since April 2026; "
        "starts in samples):",
        "The nearest linear ramp, for older versions, always in samples; 7,901 steps, 3.8% fewer than at a constant "
        "batch size with the same samples.",
        "--rampup-batch-size 576 64 2774638 --global-batch-size 1728",
    )
    # 9,000/8,213.48 − 1
    assert ramp.saving(9000) == "9,000 steps, 9.6% more than at a constant batch size with the same samples."
    assert ramp.saving(8213).startswith("8,213 steps, 0.0% fewer")
    assert st.batch_ramp(laws[:1]).saving(1021) == "1,021 steps."
    assert st.batch_ramp(laws[:1]).verdict(laws[:1]) == ""
    assert "in multiples of 4096 the best" in st.batch_ramp(laws, multiple=4096).verdict(laws)
    known = [SimpleNamespace(freedom=2, interval=lambda name, level, ends=ends: ends) for ends in ((1, 7), (7, 9))]
    every: Any = [*known, SimpleNamespace(freedom=0)]
    expected = "No ramp is worth it by these measurements: one noise scale, 7 … 7, lies in the 90% intervals of all"
    assert ramp.verdict(every, 0.9).startswith(expected)
    assert "the 4.3% of the steps that they save may be noise. The constant batch size 1,408 takes 8,213 steps." in (
        ramp.verdict(every)
    )
    assert ramp.verdict(every[1:]) == ""  # of one target alone the interval is known
    every[0].interval = lambda name, level: (7.5, 8)
    every[1].interval = lambda name, level: (1, 7)
    assert ramp.verdict(every) == ""


@pytest.mark.parametrize(("rows", "windows"), [(31, 1), (100, 3), (1000, 8)])
def test_windows_of_a_noise_scale(rows, windows):
    """Of 32 rows or more, eight at most, with their mean steps."""
    found = NoiseScaleFit(10.0 * np.arange(rows), np.tile([1.9, 2.1], rows)[:rows], np.full(rows, 30.0), left_out=1)
    steps = [np.round(each.mean()) for each in np.array_split(found.steps, windows)]
    assert found.sheet().tables[0].quantities[0].value.tolist() == steps
    assert found.sheet(0.9).json()["interval"] == found.interval(0.9)
    assert found.sheet().notes == ["1 row has a norm that is missing or not finite: left out"]


def test_laws_of_groups_with_errors():
    (bert,) = st.example_measurements("mlperf")[:1]
    errors = bert.standard_errors
    law = st.fit_steps_law(bert.batch_sizes, bert.steps, standard_errors=errors, optimal_batch_size=True)
    has_lines(
        st.fits.LawsOfGroups((bert,), (law,), st.Convention(), level=0.9).sheet(),
        "bert 200.4 2.168e+06 8.529e+07 117.8 0 … 234.5 652.4 0 … 952.7 3612 2573 … 4249 0.092 810 / 10 2e-167 6.5%",
        "bert: c is not needed (p = 0.092): no optimal batch size is seen, a + b/B does as well",
    )


def test_remarks_on_laws_of_groups():
    """One degree of freedom in a law and in the power law; steps that scatter by more than half, and steps computed."""
    steps = 1000 * (1 + 300 / FOUR[:3]) * [1, 1.02, 1]
    each_steps = steps, steps * [1, 2.5, 1], steps
    groups = [
        st.fits.StepsMeasurement(name, size, FOUR[:3], own, computed=name == "c")
        for name, size, own in zip("abc", (1.0, 2.0, 4.0), each_steps, strict=True)
    ]
    laws = tuple(st.fit_steps_law(each.batch_sizes, each.steps) for each in groups)
    remarks = st.fits.LawsOfGroups(tuple(groups), laws, st.Convention(), level=0.9).sheet().notes
    left = "leave one degree of freedom (t = 6.3 at 90%): the intervals are as wide as the one residual happens to be"
    assert f"a: 3 batch sizes for 2 parameters {left}; measure two more" in remarks
    assert f"three sizes for the exponent and its coefficient {left}; measure two more" in remarks
    off = f"b: the steps scatter about the law by {laws[1].residual_std:.0%}, so that it does not describe them"
    assert [each.startswith(off) for each in remarks].count(True) == 1
    assert sum("does not describe them" in each for each in remarks) == 1
    assert "c: computed steps do not scatter: the intervals only say how far they are off the law" in remarks
    two = st.fits.LawsOfGroups(tuple(groups[::2]), laws[::2], st.Convention()).sheet().notes
    assert "two sizes show no scatter: the exponent's interval is unlimited; measure five or more" in two


def test_a_grid():
    fit = SimpleNamespace(
        coefficient=1.23456, exponents={"samples": 0.123456}, interval=lambda name, level: (level / 9, 0.2345678)
    )
    worse = {"group": "", "samples": 1e4, "batch_sizes": np.array([4.0, 8]), "ratios": [1, 1.02]}
    worse |= {"intervals": [[1, 2]] * 2, "share": 0.015, "interval": (5.0, np.inf)}
    grid = SimpleNamespace(
        level=0.9,
        groups=(),
        convention=st.Convention(),
        targets=(),
        degradations=[
            SimpleNamespace(**worse, batch_size=6.54321, best_batch_size=np.nan),
            SimpleNamespace(**worse, batch_size=np.inf, best_batch_size=4.56789),
        ],
        laws=[SimpleNamespace(quantity="learning rate", group="", fit=fit)],
        remarks=(),
    )
    sheet = grid_sheet(grid)
    has_lines(
        sheet,
        "at fixed data: the largest batch size whose loss is within 1.5% of the best one's",
        "all 10,000 6.543 5 … ∞ at an end",
        "all 10,000 > 8 5 … ∞ 4.568",
        "learning rate all 1.235 — — 0.123 0.1 … 0.235 — —",
    )
    assert sheet.json()["laws"][0]["intervals"] == {"samples": (0.1, 0.2345678)}
