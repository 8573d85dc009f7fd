"""Ablations: their analysis of known steps, and runs of a size that says nothing about the claims."""

from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

from experiments import ablations
from experiments._lib import tuned_runs
from experiments._lib.comparisons import COMPARISONS, TASKS
from experiments._lib.network_sweeps import Task
from sgdtheory.fits import PairedRatio
from sgdtheory.sweep import BestSteps, SweepTable
from sgdtheory.training import TrainConfig, TrainResult
from tests.figure_checks import check_figure

TINY = Task(
    fields={"base_width": 8, "input_dim": 4, "noise_variance": 0.1, "holdout_size": 64, "averages": (0.9,)},
    widths=(8,),
    batch_sizes=(4, 8, 16, 32),
    log2_rate=-6.0,
    rate_exponent=0.5,
    rate_offsets=(0, 1),
    num_seeds=2,
    targets=(0.7,),
    plateau_steps=60,
    samples=400,
)


def test_every_comparison_is_of_runs_that_there_are():
    for name, comparison in COMPARISONS.items():
        task = TASKS[comparison.task]
        for fields in comparison.before, {**comparison.before, **comparison.changes}:
            for config in tuned_runs.task_configs(task)[:1]:
                changed = config.with_fields(**fields)
                assert changed.network.num_weights > 0, name
        assert all(size % comparison.sequences == 0 for size in task.batch_sizes)


def test_deep_and_wide_networks_have_as_many_weights():
    for name, roles in ("depth", ("input", "hidden")), ("depth, text", ("hidden",)):
        comparison = COMPARISONS[name]
        config = tuned_runs.task_configs(TASKS[comparison.task])[0]
        numbers = []
        for fields in comparison.before, {**comparison.before, **comparison.changes}:
            tensors = config.with_fields(**fields).network.tensors.values()
            numbers.append(sum(np.prod(tensor.shape) for tensor in tensors if tensor.role in roles))
        assert numbers[0] == numbers[1]


def known(steps, sizes=(4, 8, 16, 32, 64), edges=()):
    """Points with these steps."""
    return [
        BestSteps(
            (8,), size, np.array([y]), {"learning_rate": 0.1}, {"learning_rate": "1"} if size in edges else {}, 1, 1
        )
        for size, y in zip(sizes, steps, strict=True)
    ]


def verdict(monkeypatch, before, after, name="beta1 0"):
    monkeypatch.setattr(ablations, "_pair", lambda config, comparison, folder: (before, after))
    config = ablations.Config({"teacher": replace(TINY, batch_sizes=(4, 8, 16, 32, 64))}, (name,))
    return ablations.run(config).verdicts[0]


LAW = 100 + 2000 / np.array([4.0, 8, 16, 32, 64])
SCATTER = np.exp(0.01 * np.array([1, -1, 0.5, -1, 0.5]))


def test_the_same_law_at_another_speed_does_not_move_critical_batch_sizes(monkeypatch):
    """a and b twice as large: B* is the same."""
    found = verdict(monkeypatch, known(LAW), known(2 * LAW * SCATTER))
    assert found.verdict == "holds"
    assert found.interval[0] < 1 < found.interval[1]


def test_a_law_with_four_times_the_critical_batch_size_fails(monkeypatch):
    """b/a from 20 to 80: B* = 0.2 b/a + 1.2 · 4 from 8.8 to 20.8."""
    found = verdict(monkeypatch, known(LAW), known((100 + 8000 / np.array([4.0, 8, 16, 32, 64])) * SCATTER))
    assert found.verdict == "fails"
    np.testing.assert_allclose(found.measured, 20.8 / 8.8, rtol=0.1)


def test_looks_are_counted():
    """p = 0.0047 is 0.11 of 23 looks: the recorded ratio of SGD."""
    found = PairedRatio(1.0, 0.549, np.log(0.549), 0.079, 3)
    alone = ablations.Config(comparisons=("sgd",))
    assert ablations._decided(alone, "sgd", found) == "fails"
    assert ablations._decided(replace(alone, comparisons=tuple(COMPARISONS)), "sgd", found) == "inconclusive"
    far = replace(found, log_ratio=float(np.log(0.1)))
    assert ablations._decided(replace(alone, comparisons=tuple(COMPARISONS)), "sgd", far) == "fails"


def test_widths_are_judged_by_a_slope():
    """0.2 on log width: a factor of 1.15 for twice the width, where 1.5 is a slope of 0.58."""
    config = ablations.Config()
    assert ablations._margin(config, "transformer") == pytest.approx(2**0.2)
    assert ablations._margin(config, "perceptron") == pytest.approx(4**0.2)
    assert {ablations._margin(config, name) for name in ("depth", "depth, text", "sgd")} == {1.5}
    found = PairedRatio(1.0, 1.3, np.log(1.3), 0.02, 3)
    assert ablations._decided(config, "transformer", found) == "fails"
    assert ablations._decided(config, "sgd", found) == "holds"


def test_batch_sizes_that_are_not_tuned_do_not_count(monkeypatch):
    found = verdict(monkeypatch, known(LAW), known(LAW, edges=(4, 8)))
    assert found.verdict == "inconclusive"
    assert "fewer than four batch sizes are tuned" in found.statement


def test_durations_of_decaying_runs_are_interpolated(monkeypatch):
    """Loss rate-dependent times 1/n: at γ = 0.1, 10/n reaches 0.1 at n = 100, between durations of 71 and 141."""

    class Known(TrainResult):
        def __init__(self, config, loss):
            object.__setattr__(self, "config", config)
            object.__setattr__(self, "losses", np.array([[loss]]))
            object.__setattr__(self, "outcome", "steps")

    runs = [
        Known(TrainConfig(learning_rate=rate, seed=seed, max_steps=steps, averages=()), scale / steps)
        for rate, scale in ((0.05, 13.0), (0.1, 10.0), (0.2, 30.0))
        for seed in (0, 1)
        for steps in (35, 50, 71, 100, 141)
    ]
    table = SweepTable(tuple(run.config for run in runs), tuple(runs))
    point = known([1.0], (4,))[0]
    best = tuned_runs._best_decaying(point, 0.11, table)
    assert best.tuned
    assert best.choice["learning_rate"] == 0.1
    np.testing.assert_allclose(best.steps, 10 / 0.11, rtol=1e-10)
    late = tuned_runs._best_decaying(point, 0.05, table)  # no duration is long enough
    assert (late.steps.size, late.tuned, late.choice["learning_rate"], late.edges["max_steps"]) == (
        0,
        False,
        0.1,
        "199",
    )
    assert {each.max_steps for each in tuned_runs._beyond(late, table.configs)} == {199}
    early = tuned_runs._best_decaying(point, 1.0, table)  # the shortest do
    assert (early.tuned, early.edges["max_steps"]) == (False, "25")
    beyond = {(each.learning_rate, each.max_steps) for each in tuned_runs._beyond(early, table.configs)}
    assert beyond >= {(0.05, 25), (0.1, 25), (0.2, 25)}
    edge = SweepTable(table.configs[10:], table.results[10:])
    assert float(tuned_runs._best_decaying(point, 0.11, edge).edges["learning_rate"]) == 0.05


@pytest.mark.slow
def test_all_kinds_of_comparisons_run_and_draw(tmp_path):
    names = "coarse rates", "no average", "sgd", "wsd"
    config = ablations.Config({"teacher": TINY}, names, rounds=1, store=str(tmp_path))
    result = ablations.run(config)
    assert result.columns.keys() == result.units.keys()
    assert len({len(column) for column in result.columns.values()}) == 1
    assert [len(result.verdicts), set(result.columns["changed"])] == [4, {0, 1}]
    check_figure(result.figures["ablations"])
    assert Path(tmp_path).is_dir()
