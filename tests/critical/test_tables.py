"""What the results of this wing print, and the edges of the data sizes that they take."""

import dataclasses
from types import SimpleNamespace

import numpy as np
import pytest

import sgdtheory as st
from sgdtheory.critical.batch_size_curve import BatchSizeCurve
from sgdtheory.critical.data_sizes import checked_samples, require_learnt, require_several_steps
from sgdtheory.critical.definition import of_all_workers

PROBLEM = st.PowerLaw(2.0, 3.0)
SIZES = np.array([1.0, 10.0, 100.0, 1000.0])
CURVE = BatchSizeCurve(
    SIZES, SIZES / 1e4, np.array([1.0, 1.05, 2.0, 50.0]), 1e4 / SIZES, SIZES / 5e3, np.full(4, 1e4), SIZES / 500
)
FOUND = st.critical.CriticalBatchSize(
    batch_size=41.0,
    learning_rate=0.1234567,
    num_steps=292.0,
    real_batch_size=41.17,
    optimal_risk=0.00123456789,
    optimal_batch_size=1.0,
    optimal_learning_rate=0.0123456,
    rate_batch_size=128.0,
    num_samples=1e4,
    overhead=0.23456,
    risk_factor=2.5,
    curves=(CURVE,),
    remark="a remark",
)


def columns(sheet):
    return {each.name: each for each in sheet.tables[0].quantities}


def test_the_table_of_a_critical_batch_size():
    text = str(FOUND)
    for words in ("0.12346", "0.0012346", "0.01235", "from 1.235 D samples;", "at most 2.5 R_opt", "a remark"):
        assert words in text, words
    assert "least B" not in text
    assert "41.17" not in text
    assert columns(FOUND.sheet())["real_batch_size"].value == 41.17
    several = dataclasses.replace(FOUND, smallest_batch_size=2.0)
    assert "least B: a smaller one needs more data than B*" in str(several)
    assert FOUND.curve is CURVE
    for curves, message in (((), "curve was not computed"), ((CURVE, CURVE), "single num_samples, got 2")):
        with pytest.raises(ValueError, match=message):
            _ = dataclasses.replace(FOUND, curves=curves).curve


def test_samples_of_all_workers():
    assert of_all_workers(FOUND, 1) is FOUND
    four = of_all_workers(FOUND, 4)
    assert (four.num_samples, four.batch_size, four.num_steps) == (4e4, 41.0, 292.0)
    np.testing.assert_array_equal(four.curve.samples_needed, np.full(4, 4e4))
    np.testing.assert_array_equal(four.curve.overhead, CURVE.overhead)


def test_tables_of_other_measures():
    scale = st.gradient_noise_scale(PROBLEM, batch_size=16, learning_rate=0.5, num_samples=1e4)
    assert [columns(scale.sheet())[name].value for name in ("simple_noise_scale", "hessian_noise_scale", "risk")] == [
        scale.simple,
        scale.hessian_weighted,
        scale.excess_risk,
    ]
    found = st.critical.notions_at(PROBLEM, FOUND)
    noise = st.gradient_noise_scale(PROBLEM, batch_size=41, learning_rate=0.1234567, num_samples=1e4)
    assert (found.simple_noise_scale, found.hessian_noise_scale) == (noise.simple, noise.hessian_weighted)
    assert [each.value for each in found.sheet().tables[0].quantities] == [
        1e4,
        41.0,
        128.0,
        noise.simple,
        noise.hessian_weighted,
        PROBLEM.trace / PROBLEM.largest_eigenvalue,
    ]
    assert "B*: 0.235 more data than the best batch size; rate: risk within a factor of 2.5;" in str(found)
    assert "a remark" in str(found)
    fit = st.fit_asymptotic_exponent(np.geomspace(1e3, 1e9, 12), np.geomspace(1e3, 1e9, 12) ** 0.5)
    assert "how far 6 extrapolations disagree" in str(fit)
    kind = st.critical.OptimalLearningRate
    assert "within" not in str(kind(0.1, 0.2))
    assert "within" in str(kind(np.array([0.1, 0.2]), np.array([0.2, 0.3]), np.array([0.0, 0.1]), "x"))


def test_batch_sizes_between_the_points_of_a_curve():
    """At its points; nearest to a limit from below where the overhead falls again; not beyond its end."""
    assert CURVE.batch_size_at(0.2) == pytest.approx(100.0)
    assert CURVE.batch_size_at(0.02) == pytest.approx(10.0)
    assert CURVE.batch_size_at(0.0632) == pytest.approx(31.6, rel=1e-3)  # a power law is straight in logs
    assert CURVE.batch_size_within(2.0) == pytest.approx(100.0)
    assert 10.0 < CURVE.batch_size_within(1.06) < 100.0
    for ask, message in (
        (lambda: CURVE.batch_size_at(2.0), "overhead must be below 2, where this curve ends at B = 1000"),
        (lambda: CURVE.batch_size_within(50.0), "risk_factor must be below 50, where this curve ends at B = 1000"),
    ):
        with pytest.raises(ValueError, match=message):
            ask()
    falling = BatchSizeCurve(*(SIZES,) * 6, np.array([0.1, 9.0, 0.1, 9.0]))
    assert 100.0 <= falling.batch_size_at(0.1) < 101.0
    unreached = BatchSizeCurve(*(SIZES,) * 6, np.array([0.01, 0.1, 1.0, np.inf]))
    assert unreached.batch_size_at(0.1) == pytest.approx(10.0)
    with pytest.raises(ValueError, match="below 1, where this curve ends at B = 100"):
        unreached.batch_size_at(1.0)


def test_edges_of_data_sizes():
    assert checked_samples([2, 1e20]).tolist() == [2, 1e20]
    assert checked_samples(8, 4) == 8
    for samples, workers, message in (
        (1.99, 1, "at least 2 .a single step"),
        (7.9, 4, "at least 2 for each of 4 workers"),
        (1.1e20, 1, "none above 1e.20, got 1.1e.20"),
        ([], 1, "at least one value, none above 1e.20, got none"),
    ):
        with pytest.raises(ValueError, match=message):
            checked_samples(samples, workers)
    require_several_steps(9.0, 2.0)
    with pytest.raises(ValueError, match="one step with all of them is not the best, got 9:"):
        require_several_steps(9.0, 1.0)
    tuned = SimpleNamespace(initial_risk=2.0, workers=3)
    require_learnt(tuned, 5.0, 2.0 * (1 - 1e-11))
    with pytest.raises(ValueError, match="got 15, with which the least risk is the initial one, 2, to rounding"):
        require_learnt(tuned, 5.0, 2.0 * (1 - 1e-13))
