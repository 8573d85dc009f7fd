"""A table of steps against the numbers it is made of, and against a law whose B* is known in closed form."""

import numpy as np
import pytest
from scipy import stats

import sgdtheory as st
from tests.cli.text import strict_json

A, B = 1500.0, 9e5


@pytest.fixture
def table():
    """Return a table of steps a + b/B that is fine enough to make the interpolation between rows exact."""
    sizes = np.geomspace(1, 1e5, 400)
    return st.fits.StepsTable(sizes, A + B / sizes)


def test_steps_between_and_beyond_the_rows(table):
    inside = np.geomspace(1.5, 9e4, 50)
    np.testing.assert_allclose(table.predict(inside), A + B / inside, rtol=1e-5)
    assert table.predict(0.1) == pytest.approx(10 * (A + B))  # as many samples as at the first row
    assert table.predict(1e7) == pytest.approx(A + B / 1e5)  # as many steps as at the last


@pytest.mark.parametrize("overhead", [0.1, 0.2, 1.0])
def test_critical_batch_size_in_closed_form(table, overhead):
    """`(a + b) (1 + ω) = (a + b/B) B` at B_ref = 1."""
    found = table.critical_batch_size(convention=st.Convention(None, overhead))
    assert found == pytest.approx(((1 + overhead) * (A + B) - B) / A, rel=1e-4)
    other = table.critical_batch_size(convention=st.Convention(100.0, overhead))
    assert other == pytest.approx(((1 + overhead) * (100 * A + B) - B) / A, rel=1e-4)


@pytest.mark.parametrize(
    "samples",
    [
        [100, 110, 150, 115, 200],
        [100, 110, 150, 115, 200, 300],
        [100, 105, 110, 200],
        [100, 150, 120, 150],  # a row that takes just as many samples as it may
        [100, 100, 100],  # all rows are fine
    ],
)
def test_critical_batch_size_is_the_last_that_is_fine(samples):
    """By looking at many batch sizes, where some in between take too many samples too."""
    sizes = 2.0 ** np.arange(len(samples))
    bumpy = st.fits.StepsTable(sizes, np.array(samples) / sizes)
    fine = np.sort(np.append(np.geomspace(1, sizes[-1], 20001), sizes))
    expected = fine[fine * bumpy.predict(fine) <= 120 * (1 + 1e-12)][-1]
    assert bumpy.critical_batch_size(convention=st.Convention(None, 0.2)) == pytest.approx(expected, rel=1e-3)


def test_two_rows_are_a_power_law():
    assert st.fits.StepsTable([1, 4], [9, 4]).predict(2) == pytest.approx(6)


def known(low=300.0, high=1500.0, overhead=0.2):
    """Samples 1 + B/S of those at B = 0, whose B* at an overhead ω is ω S: S = 3000 lies between 1500 and 7500."""
    sizes = np.geomspace(0.01, 1e6, 2000)
    fitted = st.fits.FittedCriticalBatchSize(600.0, low, high, st.Convention(None, overhead), 0.95)
    return st.fits.StepsTable(sizes, 1e7 * (1 + sizes / 3000) / sizes, critical=fitted)


@pytest.mark.parametrize("batch", [1.0, 100.0, 600.0, 5000.0])
def test_steps_lie_between_those_of_the_curves_at_both_ends_of_the_critical_batch_size(batch):
    low, high = known().steps_interval(batch)
    assert low == pytest.approx(1e7 * (1 / batch + 1 / 7500), rel=1e-4)
    assert high == pytest.approx(1e7 * (1 / batch + 1 / 1500), rel=1e-4)


def test_the_interval_of_the_critical_batch_size_is_the_fits_and_at_other_overheads_in_proportion():
    assert known().interval() == (300.0, 1500.0)
    np.testing.assert_allclose(known().interval(convention=st.Convention(None, 0.5)), [750, 3750], rtol=1e-3)


def test_at_another_reference_it_is_the_tables_and_as_far_off_by_the_same_factors():
    """`B* = ω S + (1 + ω) B_ref`; the fit's own reference may be named."""
    other = st.Convention(1000, 0.2)
    assert known().critical_batch_size(convention=other) == pytest.approx(600 + 1200, rel=1e-3)
    np.testing.assert_allclose(known().interval(convention=other), [0.5 * 1800, 2.5 * 1800], rtol=1e-3)
    assert known().interval(convention=st.Convention(0.01, 0.2)) == (300.0, 1500.0)


def test_a_critical_batch_size_of_which_nothing_is_known():
    low, high = known(0.0, np.inf).steps_interval([60.0, 6000.0])
    np.testing.assert_allclose(low * [60, 6000], 1e7, rtol=1e-4)  # no fewer than the least samples
    assert np.isinf(high).all()


def test_another_level_than_the_fits_is_refused():
    for ask in (lambda: known().interval(level=0.9), lambda: known().steps_interval(10, 0.9)):
        with pytest.raises(ValueError, match=r"level must be 0.95, at which these steps were fitted, got 0.9"):
            ask()


def test_standard_errors_of_the_steps():
    """At 95% by 1.96 of them, in logs; B* where the ends of the steps take as many samples."""
    sizes = np.geomspace(1, 1e5, 400)
    plain, table = (st.fits.StepsTable(sizes, A + B / sizes, standard_errors=each) for each in (None, 0.02))
    low, high = table.steps_interval([10.0, 1000.0])
    steps = plain.predict([10.0, 1000.0])
    np.testing.assert_allclose([low, high], steps * np.exp(0.02 * stats.norm.ppf([[0.025], [0.975]])), rtol=1e-12)
    ends = table.interval(level=0.9)
    reach = np.exp(0.02 * stats.norm.ppf(0.95))
    limit = 1.2 * (A + B)
    np.testing.assert_allclose(ends, [(limit / factor - B) / A for factor in (reach, 1 / reach)], rtol=1e-4)
    growing = st.fits.StepsTable([1, 2, 4], np.array([100, 100, 400]) / [1, 2, 4], standard_errors=[0.01, 0.01, 0.2])
    low, high = growing.steps_interval([1.0, 4.0])
    np.testing.assert_allclose(low, 100 * np.exp([-0.0196, -0.392]), rtol=1e-3)
    np.testing.assert_allclose(high, 100 * np.exp([0.0196, 0.392]), rtol=1e-3)
    assert np.isinf(table.interval(convention=st.Convention(None, 1e6))[1])  # beyond the table
    assert np.isnan(plain.interval()).all()
    assert np.isnan(plain.steps_interval(10.0)).all()


@pytest.mark.parametrize("errors", [[0.1, 0.2], [[0.1, 0.2, 0.3]]])
def test_errors_of_another_shape_are_refused(errors):
    with pytest.raises(ValueError, match="standard_errors must be one number or as many as steps"):
        st.fits.StepsTable([1, 2, 3], [4, 3, 2], standard_errors=errors)
    with pytest.raises(ValueError, match="leave them out where the critical batch size is given"):
        st.fits.StepsTable([1, 2, 3], [4, 3, 2], standard_errors=0.1, critical=known().critical)


@pytest.mark.parametrize(
    ("sizes", "steps"),
    [([1], [2]), ([2, 1], [1, 2]), ([1, 1], [1, 2]), ([1, 3, 2], [3, 1, 2]), ([1, 2], [1, 2, 3]), ([[1, 2]], [[1, 2]])],
)
def test_bad_rows_are_refused_with_a_sentence(sizes, steps):
    with pytest.raises(ValueError, match="batch_sizes must be two or more that increase"):
        st.fits.StepsTable(sizes, steps)


def test_a_plan_of_computed_steps_fits_no_law(tmp_path, capsys):
    """8.8 … 9 million samples where 10 are the least, by a law through steps that are no a + b/B; the table has 10."""
    sizes = np.geomspace(16, 4096, 9)
    samples = 1e7 * (1 + (sizes / 700) ** 2)
    lines = [
        f"loss 2.8,{size!r},{steps!r},yes"
        for size, steps in zip(sizes.tolist(), (samples / sizes).tolist(), strict=True)
    ]
    path = tmp_path / "steps.csv"
    path.write_text("\n".join(["group,batch_size,steps,computed", *lines]))
    (measured,) = st.read_measurements(path, group="group")
    assert measured.computed
    law = st.fit_steps_law(measured.batch_sizes, measured.steps)
    assert law.b < 0.95e7
    from sgdtheory import cli

    cli.main(["plan", str(path), "--group", "group", "--throughput", "100", "--price", "2", "--json"])
    found = strict_json(capsys.readouterr().out)
    assert min(row["samples"] for row in found["rows"]) >= 1e7 * (1 - 1e-9)
    assert found["critical_batch_size"] == pytest.approx(700 * np.sqrt(0.2), rel=0.03)
    assert found["critical_batch_size_interval"] == [None, None]
    cli.main(["plan", str(path), "--group", "group", "--throughput", "100", "--price", "2"])
    assert "nan" not in capsys.readouterr().out
    path.write_text(path.read_text().replace(",yes", ",no"))
    assert not st.read_measurements(path, group="group")[0].computed
