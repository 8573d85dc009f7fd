"""The experiment on MLPerf's reference runs."""

import numpy as np
import pytest

import sgdtheory as st
from experiments import mlperf
from tests.figure_checks import check_figure


def test_pruning_keeps_what_the_rules_say():
    """Left of the fewest samples nothing is kept; then what lies above the line between its neighbours goes."""
    batch = np.array([1.0, 2.0, 3.0, 4.0, 5.0])
    assert mlperf.kept(batch, np.array([10, 8, 8.9, 9.9, 11]) / batch).tolist() == [1, 2, 3, 4]
    assert mlperf.kept(batch, np.array([10, 8, 9.8, 9.9, 11]) / batch).tolist() == [1, 3, 4]
    assert mlperf.kept(batch, np.array([8, 9, 10, 10.5, 11]) / batch).tolist() == [0, 1, 4]
    assert mlperf.kept(batch, np.array([8, 10, 10.5, 11, 11.5]) / batch).tolist() == [0, 4]


def test_evaluation_intervals_are_a_share_of_the_steps():
    for benchmark in st.example_measurements("mlperf"):
        share = mlperf.evaluation_interval(benchmark) / benchmark.steps
        assert ((share > 0.003) & (share < 0.32)).all()


@pytest.fixture
def rows():
    """Twelve benchmarks on which everything is as it should be."""
    number = 12
    ones = {name: np.full(number, 1.0) for name in mlperf.UNITS}
    spread = 1 + 0.1 * np.cos(np.arange(number))
    return ones | {
        "benchmark": np.array([f"b{k:02d}" for k in range(number)]),
        "p_value": np.linspace(0.02, 0.98, number),
        "alpha_p_value": np.linspace(0.02, 0.98, number),
        "misfit": np.zeros(number),
        "alpha": spread,
        "alpha_low": spread * 0.8,
        "alpha_high": spread * 1.2,
        "balance_low": np.full(number, 0.8),
        "balance_high": np.full(number, 1.2),
    }


@pytest.mark.parametrize(
    ("change", "verdicts"),
    [
        ({}, ["fails", "holds", "holds", "holds"]),
        ({"p_value": 1e-9}, ["holds", "holds", "holds", "holds"]),
        ({"alpha": 1.3}, ["fails", "fails", "holds", "holds"]),
        ({"early": 0.7}, ["fails", "holds", "fails", "holds"]),
        ({"pruned_simulated": 0.7}, ["fails", "holds", "holds", "fails"]),
    ],
)
def test_verdicts(rows, change, verdicts):
    for name, value in change.items():
        rows[name] = rows[name] * 0 + value
    found = mlperf._verdicts(mlperf.Config(), rows, 0.0)
    assert [each.verdict for each in found] == verdicts


def test_figure():
    check_figure(mlperf._figure(), data=False)


@pytest.mark.slow
def test_run():
    result = mlperf.run(mlperf.Config(replicas=4))
    assert "fails" not in {each.verdict for each in result.verdicts}
    assert len(result.columns["benchmark"]) == 81
