"""What a problem of data and its B* show: each number under its heading, and what programs get."""

from types import SimpleNamespace

import numpy as np
import pytest

import sgdtheory as st
from sgdtheory._common.interval import Interval
from sgdtheory._common.rows import Rows
from sgdtheory.data.cross_fit import Spectrum
from sgdtheory.data.data_critical import DataCriticalBatchSize
from sgdtheory.data.data_problem import DataProblem
from sgdtheory.data.exponents import Exponent
from sgdtheory.data.shape import Kurtosis

X = np.random.default_rng(0).standard_normal((40, 2)) * [1.0, 0.5]
FOUND = DataProblem(
    problem=st.LeastSquares([1.0, 0.25], [0.5, 0.125], 0.75),
    capacity=Exponent(2.0, (1.75, 2.25), (1, 9), 0.1),
    source=Exponent(1.5, (1.25, 1.875), (2, 7), 0.2),
    noise_variance=0.75,
    predicted_exponent=Interval(0.0, (0.0, 0.05)),
    kurtosis=Kurtosis(1.0, 2.0),
    num_rows=40,
    num_targets=1,
    constant_columns=(),
    noise_probability=2e-4,
    remark="so few",
    level=0.9,
    resolved=True,
    spectrum=Spectrum(np.ones(2), np.ones(2), 1.0, 20.0),
    left_out=(),
    rows=Rows(X, X[:, :1]),
)


def test_a_problem_shows_its_exponents_and_where_it_is_stable():
    sheet = FOUND.sheet()
    header, rows = sheet.tables[0].grid()
    assert (sheet.title, header) == ("40 rows of 2 features, 1 target", ["", "value", "90%"])
    edges = [float(st.max_stable_learning_rate(FOUND.problem, batch_size=batch)) for batch in (1, 16, 256)]
    assert rows == [
        ["capacity exponent a, λ_i ∝ i^−a for i = 1 … 9", "2", "1.75 … 2.25"],
        ["source exponent b, s_i ∝ i^−b for i = 2 … 7", "1.5", "1.25 … 1.875"],
        ["predicted exponent c, B* ∝ D^c", "0", "0 … 0.05"],
        ["tr H", "1.25", ""],
        ["signal Σ s_i", "0.625", ""],
        ["noise variance σ²", "0.75", ""],
        ["kurtosis: of the norm χ, along directions δ (Gaussian: 1, 2)", "1, 2", ""],
        *([f"largest stable γ at B = {batch}", f"{edge:.4g}", ""] for batch, edge in zip((1, 16, 256), edges)),
    ]
    assert list(sheet.remarks) == ["so few"]
    assert sheet.settings["source"] == {"value": 1.5, "interval": (1.25, 1.875), "range": (2, 7), "scatter": 0.2}
    assert sheet.settings["max_stable_learning_rate"]["16"] == pytest.approx(edges[1], rel=1e-6)
    assert sheet.settings["num_features"] == 2


def test_a_critical_batch_size_of_data_shows_its_interval_around_the_real_one():
    critical = SimpleNamespace(num_steps=4.0, learning_rate=0.5, optimal_risk=0.03, overhead=0.25, remark="so far")
    interval = np.array([[2.0, 4.5]])
    found = DataCriticalBatchSize(np.array([12.0]), np.array([3.0]), np.array([3.25]), interval, critical)
    sheet = found.sheet()
    assert sheet.title == "critical batch size at 25% overhead"
    assert sheet.tables[0].grid() == (
        ["D", "B*", "95%", "steps", "γ at B*", "R_opt"],
        [["12", "3.25", "2 … 4.5", "4", "0.5", "0.03"]],
    )
    assert sheet.tables[0].json()["critical_batch_size"] == [3.0]
    assert list(sheet.remarks) == ["so far"]


@pytest.mark.parametrize("size", [None, 40, 7])
def test_samples_are_all_rows_or_some_by_the_first_seed(size):
    chosen, again, other = (FOUND.with_samples(size, **seed).rows.features for seed in ({}, {"seed": 0}, {"seed": 1}))
    assert chosen.shape == other.shape == (size or 40, 2)
    np.testing.assert_array_equal(chosen, again)
    assert np.array_equal(chosen, other) == (size != 7)
