"""Steps to a target and grids of losses from logs, on curves whose law is known."""

import numpy as np
import pytest

import sgdtheory as st
from sgdtheory.logs import TrainingLog, loss_grid, steps_to_target

TARGET = 3.0


def curve(steps, batch, *, floor=2.0, b_over_a=100.0):
    """Steps to a loss are ∝ 1 + 100/B."""
    return floor + 20 * (np.asarray(steps, float) / (1 + b_over_a / batch)) ** -0.5


def true_steps(batch):
    return 400 * (1 + 100 / batch)


def log_of(batch, *, name=None, rate=1e-3, every=10, length=8000, noise=0.0, seed=0, group="", late=1.0, **series):
    """A run: training losses with noise, which needs `late` times as many steps."""
    steps = np.arange(every, length + 1, every, dtype=float)
    scatter = np.exp(noise * np.random.default_rng(seed).normal(size=steps.size))
    columns = {
        "loss": (steps, curve(steps / late, batch) * scatter),
        "learning_rate": (steps[[0, -1]], [rate, rate]),
        "batch_size": (steps[:1], [batch]),
    }
    return TrainingLog.from_series(name or f"B{batch}", "mine", columns | series, group=group)


def without(log, *columns):
    """The same log, in which some columns are not logged."""
    there = {name: log.series(name) for name in ("loss", "learning_rate", "batch_size") if name not in columns}
    return TrainingLog.from_series(log.name, log.format, there)


@pytest.mark.parametrize("noise", [0.0, 0.01])
def test_steps_of_a_known_law(noise):
    logs = [log_of(batch, noise=noise, every=1, seed=batch) for batch in (512, 32, 128, 8)]
    found = steps_to_target(logs, target_loss=TARGET)
    (measured,) = found.measurements
    np.testing.assert_array_equal(measured.batch_sizes, [8, 32, 128, 512])
    np.testing.assert_allclose(measured.steps, true_steps(measured.batch_sizes), rtol=0.002 if noise == 0 else 0.04)
    assert found.remarks == ()
    law = st.fit_steps_law(measured.batch_sizes, measured.steps)
    np.testing.assert_allclose(law.b / law.a, 100, rtol=0.005 if noise == 0 else 0.15)


def test_evaluations_count_where_all_have_them():
    logs = []
    for batch in (32, 128, 512):
        steps = np.arange(100.0, 8001, 100)
        logs.append(log_of(batch, evaluation_loss=(steps, curve(steps / 2, batch))))
    (evaluated,) = steps_to_target(logs, target_loss=TARGET).measurements
    np.testing.assert_allclose(evaluated.steps, 2 * true_steps(evaluated.batch_sizes), rtol=0.002)
    for others in ({"loss": "train"}, {}):
        some = [*logs[:2], logs[2] if others else without(logs[2])]
        (trained,) = steps_to_target(some, target_loss=TARGET, **others).measurements
        np.testing.assert_allclose(trained.steps, true_steps(trained.batch_sizes), rtol=0.004)  # of a line


def test_the_best_learning_rate_counts_and_its_seeds_are_averaged():
    logs = [log_of(batch, rate=rate, name=f"B{batch} {rate}", late=late) for batch in (8, 32, 128)
            for rate, late in ((1e-3, 1.5), (2e-3, 1.0), (4e-3, 1.2))]  # fmt: skip
    (measured,) = steps_to_target(logs, target_loss=TARGET).measurements
    np.testing.assert_allclose(measured.steps, true_steps(measured.batch_sizes), rtol=0.002)
    assert measured.standard_errors is None
    factors = {8: (0.9, 1.1), 32: (1.05, 0.97), 128: (1.02, 1.0, 0.95)}
    seeds = [
        log_of(batch, rate=2e-3, name=f"B{batch} {seed}", late=late)
        for batch, lates in factors.items()
        for seed, late in enumerate(lates)
    ]
    (measured,) = steps_to_target(
        seeds + [log for log in logs if "0.002" not in log.name], target_loss=TARGET
    ).measurements
    means = [np.log(each).mean() for each in factors.values()]
    np.testing.assert_allclose(measured.steps, true_steps(measured.batch_sizes) * np.exp(means), rtol=0.002)
    squares = sum(((np.log(each) - mean) ** 2).sum() for each, mean in zip(factors.values(), means, strict=True))
    pooled = np.sqrt(squares / 4)
    np.testing.assert_allclose(measured.standard_errors, pooled / np.sqrt([2, 2, 3]), rtol=0.01)


def test_a_lucky_seed_does_not_choose_and_printed_rates_are_one():
    """At B = 32 one seed of a rate is faster than those of the other, which is better on average."""
    logs = [log_of(batch) for batch in (8, 128)]
    chances = ((1e-3, 1.0), (1.004e-3, 1.1), (2e-3, 0.9), (2e-3, 1.5))  # rates as printed with three digits
    logs += [log_of(32, rate=rate, name=f"{rate} {late}", late=late) for rate, late in chances]
    (measured,) = steps_to_target(logs, target_loss=TARGET).measurements
    assert measured.steps[1] == pytest.approx(true_steps(32) * np.sqrt(1.1), rel=0.002)


def test_runs_of_another_planned_length_are_another_configuration():
    logs = [log_of(batch, name=f"B{batch}") for batch in (8, 32, 128)]
    longer = log_of(8, name="longer", late=1.3)
    longer.settings["num_steps"] = 16000
    (measured,) = steps_to_target([*logs, longer], target_loss=TARGET).measurements
    np.testing.assert_allclose(measured.steps, true_steps(measured.batch_sizes), rtol=0.002)


def test_what_is_left_out_is_said():
    logs = [log_of(batch) for batch in (8, 32, 128)]
    short = log_of(64, name="short", length=300)
    low = log_of(16, name="low", length=8000, loss=(np.arange(1000.0, 2000, 10), np.full(100, 2.5)))
    ramp = log_of(16, name="ramp", batch_size=([10, 4000], [16, 32]))
    found = steps_to_target([*logs, short, low, ramp], target_loss=TARGET)
    assert found.measurements[0].batch_sizes.tolist() == [8, 32, 128]
    assert found.remarks == (
        "ramp: its batch size changes from 16 to 32; left out",
        "short does not reach loss 3: left out",
        "low begins below loss 3: left out",
    )
    assert [run.name for run in found.runs if not np.isfinite(run.crossing.step)] == ["short", "low"]


def test_ends_of_decays_and_constant_rates_do_not_compare():
    steps = np.array([10.0, 100, 8000])
    decayed = log_of(8, learning_rate=(steps, [1e-3, 1e-3, 1e-3]))
    others = [log_of(batch, learning_rate=(steps, [1e-3, 1e-4, 1e-4])) for batch in (32, 128, 512)]
    (remark,) = steps_to_target([decayed, *others], target_loss=TARGET).remarks
    assert remark.startswith("the runs: B8 reaches the loss at 100% of its largest learning rate, B128 at 10%: steps")
    assert steps_to_target(others, target_loss=TARGET).remarks == ()


def test_groups_by_mapping_by_function_and_of_the_logs():
    logs = [log_of(batch, name=f"{size} {batch}") for size in ("85M", "300M") for batch in (8, 32, 128)]
    logs.append(log_of(8, name="1B 8"))
    by_name = {log.name: log.name.split()[0] for log in logs}
    for group in (by_name, lambda log: log.name.split()[0]):
        found = steps_to_target(logs, target_loss=TARGET, group=group)
        assert [each.group for each in found.measurements] == ["85M", "300M"]
        assert found.remarks == ("1B: 1 batch sizes reach loss 3, 3 are needed",)
    with pytest.raises(ValueError, match="group must name every run, got none for 300M 8"):
        steps_to_target(logs, target_loss=TARGET, group={"85M 8": "a", "85M 32": "a", "85M 128": "a", "1B 8": "b"})


def test_batch_sizes_that_the_logs_do_not_have():
    logs = [without(log_of(batch), "batch_size") for batch in (8, 32, 128)]
    with pytest.raises(ValueError, match=r"B8: batch size not known.*or name of the run → B"):
        steps_to_target(logs, target_loss=TARGET)
    (measured,) = steps_to_target(logs, target_loss=TARGET, batch_size={"B8": 8, "B32": 32, "B128": 128}).measurements
    np.testing.assert_allclose(measured.steps, true_steps(np.array([8, 32, 128])), rtol=0.002)


def test_too_few_batch_sizes_reach_the_target():
    logs = [log_of(batch, length=5000) for batch in (1, 8, 32)]
    with pytest.raises(
        ValueError, match=r"target_loss 2.1 is not reached at 3 batch sizes or more: the runs end at 2\.\d+"
    ):
        steps_to_target(logs, target_loss=2.1)
    with pytest.raises(ValueError, match="logs must hold at least one run"):
        steps_to_target([], target_loss=3.0)
    with pytest.raises(ValueError, match="target_loss"):
        steps_to_target(logs, target_loss=-1)


def test_batch_sizes_from_tokens_that_are_printed_with_four_digits():
    """OLMo-core prints tokens so from 10⁹ on: differences from row to row carry no information."""
    steps = np.arange(1.0, 2000)
    tokens = [float(f"{each:.4g}") for each in steps * 512 * 4096]
    log = without(log_of(512, every=1), "batch_size")
    series = {"loss": log.series("loss"), "tokens": (steps, tokens), "learning_rate": log.series("learning_rate")}
    logs = [TrainingLog.from_series("one", "mine", series, settings={"sequence_length": 4096})]
    assert set(loss_grid(logs)["batch_size"]) == {512.0}


def test_a_grid_from_the_ends_of_runs():
    """The grid is `fit_loss_grid`'s own example, through logs: B* = 0.2 · 200 + 1.2 · 256."""
    logs = []
    for batch in 2.0 ** np.arange(4, 11):
        for samples in 2.0 ** np.arange(16, 23, 2):
            for rate in 2.0 ** np.arange(-6, 3):
                best = 2 + 30 * (samples / (1 + batch / 200)) ** -0.5
                loss = best * (1 + 0.02 * np.log(rate / (batch / 256) ** 0.5) ** 2)
                steps = samples / batch * np.array([0.5, 1.0])
                name = f"{batch} {samples} {rate}"
                series = {
                    "evaluation_loss": (steps, [loss + 1, loss]),
                    "learning_rate": (steps, [rate, 0.1 * rate]),
                    "batch_size": (steps, [batch, batch]),
                }
                logs.append(TrainingLog.from_series(name, "mine", series))
    (found,) = st.fit_loss_grid(loss_grid(logs), targets=2.05, convention=st.fits.PAPER).targets
    np.testing.assert_allclose(found.critical_batch_size, 0.2 * 200 + 1.2 * 256, rtol=0.01)


def test_the_end_of_a_run():
    steps = np.arange(10.0, 1001, 10)
    loss = np.full(100, 4.0)
    loss[-5:] = [3.0, 3.2, 2.8, 3.1, 2.9]  # of steps 960 … 1000
    rates = (steps[[0, -1]], [1e-3, 1e-4])
    table = loss_grid([log_of(8, loss=(steps, loss), learning_rate=rates, group="a")])
    expected = {"batch_size": 8, "samples": 8 * 980, "learning_rate": 1e-3, "loss": 3.0, "group": "a", "seed": "B8"}
    assert {name: column[0] for name, column in table.items()} == pytest.approx(expected)
    assert len(table["loss"]) == 1
    loss[-1] = np.nan
    table = loss_grid([log_of(8, loss=(steps, loss), learning_rate=rates)])
    assert np.isnan(table["loss"][0])


def test_every_point_of_a_constant_rate_is_the_end_of_a_run():
    table = loss_grid([log_of(8, every=1)])
    assert len(table["loss"]) == 8
    np.testing.assert_allclose(table["loss"], curve(np.array(table["samples"]) / 8, 8), rtol=2e-3)
    assert table["samples"][-1] == pytest.approx(8 * 8000, rel=0.03)


def test_a_learning_rate_that_the_logs_do_not_have():
    log = without(log_of(8), "learning_rate")
    with pytest.raises(ValueError, match="B8: no learning rate is logged"):
        loss_grid([log])
    assert loss_grid([log], learning_rate={"B8": 2e-3})["learning_rate"] == [2e-3]


def test_a_batch_size_is_constant_within_a_hundredth_and_one():
    steps = [10, 8000]
    assert set(loss_grid([log_of(1000, batch_size=(steps, [1000, 1011]))])["batch_size"]) == {1000}
    with pytest.raises(ValueError, match="B1000: its batch size changes from 1000 to 1012"):
        loss_grid([log_of(1000, batch_size=(steps, [1000, 1012]))])


@pytest.mark.parametrize(("planned", "end"), [(None, 1000), (2000, 2000), (500, 1000)])
def test_a_run_that_diverged_counts_with_all_steps_that_were_planned(planned, end):
    log = log_of(8, loss=([10, 100, 1000], [3, 2, np.nan]))
    if planned:
        log.settings["num_steps"] = planned
    assert loss_grid([log])["samples"] == [8 * end]


def test_a_rate_is_constant_that_ends_within_a_hundredth_of_its_peak():
    """One that is logged once is not known to stay."""
    steps = [10, 4000, 8000]
    for rates, points in (([1.0], 1), ([1, 1, 0.99], 8), ([1, 1, 0.98], 1), ([1, 1, 0.5], 1)):
        assert len(loss_grid([log_of(8, learning_rate=(steps[: len(rates)], rates))])["loss"]) == points


def evaluated(steps, at, rates):
    """Steps of a run's points, of its evaluations at `steps`."""
    log = log_of(8, learning_rate=(at, rates), evaluation_loss=(steps, curve(steps, 8)))
    return [samples / 8 for samples in loss_grid([log])["samples"]]


def test_points_on_the_way_are_even_in_log_steps_after_the_peak():
    """The last evaluation at or before each; a part before the first evaluation has none."""
    steps = np.arange(1.0, 2561)
    ends = [float(int(10 * 256 ** (k / 7) + 1e-9)) for k in range(8)]
    assert evaluated(steps, [1, 2560], [1, 1]) == ends
    assert evaluated(steps, [1, 10, 2560], [0.1, 1, 1]) == ends[1:]
    assert evaluated(steps[9:], [1, 2560], [1, 1]) == ends
    assert evaluated(steps[10:], [1, 2560], [1, 1]) == ends[1:]
    assert evaluated([1.0], [1], [1]) == [1]


def test_between_rare_rows_the_last_one_counts():
    log = log_of(8, loss=([10, 100, 2560], [5, 4, 3]), learning_rate=([1, 2560], [1, 1]))
    table = loss_grid([log])
    assert table["samples"] == [8 * step for step in (10, 10, 10, 100, 100, 100, 100, 2560)]
    assert table["loss"] == [5, 5, 5, 4, 4, 4, 4, 3]


def errors_of(*lates):
    """Standard errors where each batch size has seeds that need so many times as many steps."""
    logs = [
        log_of(batch, every=50, name=f"B{batch} {seed}", late=late)
        for batch, each in zip((8, 32, 128), lates, strict=True)
        for seed, late in enumerate(each)
    ]
    return steps_to_target(logs, target_loss=TARGET).measurements[0].standard_errors


def test_the_scatter_of_seeds_needs_three_repeats_that_differ():
    assert errors_of((0.9, 1.1), (0.9, 1.1), (0.9, 1.1)) is not None
    assert errors_of((0.9, 1.1), (0.9, 1.1), (1.0,)) is None
    assert errors_of((1.0, 1.0), (1.0, 1.0), (1.0, 1.0)) is None


def test_rates_that_differ_by_3_percent_or_are_unknown_are_configurations_of_their_own():
    logs = [log_of(batch, every=50) for batch in (8, 32, 128)]
    slow_run = log_of(32, every=50, name="slow", rate=1.03e-3, late=1.5)
    for other in (slow_run, without(slow_run, "learning_rate")):
        (measured,) = steps_to_target([*logs, other], target_loss=TARGET).measurements
        assert measured.steps[1] == pytest.approx(true_steps(32), rel=0.01)


def test_several_runs_are_left_out_in_one_sentence():
    short = [log_of(64, name=name, length=300) for name in ("a", "b")]
    low = [log_of(16, name=name, loss=(np.arange(1000.0, 2000, 10), np.full(100, 2.5))) for name in ("c", "d")]
    logs = [log_of(batch, every=50) for batch in (8, 32, 128)]
    found = steps_to_target([*logs, *short, *low], target_loss=TARGET)
    assert found.remarks == ("a, b do not reach loss 3: left out", "c, d begin below loss 3: left out")


def test_rates_at_the_target_compare_within_a_factor_of_2_and_0_is_none():
    steps = np.array([50.0, 100, 8000])

    def remarks(share):
        logs = [log_of(batch, every=50, learning_rate=(steps, [1, share, share])) for batch in (8, 32)]
        return steps_to_target([*logs, log_of(128, every=50)], target_loss=TARGET).remarks

    assert remarks(0.6) == remarks(0.0) == ()
    (remark,) = remarks(0.4)
    assert "at 40%" in remark


def test_where_runs_end_is_said_of_their_last_evaluation():
    steps = np.arange(100.0, 8001, 100)
    logs = [log_of(batch, evaluation_loss=(steps, end + 24 / steps)) for batch, end in ((8, 2.5), (32, 2.6), (64, 2.7))]
    with pytest.raises(ValueError, match=r"the runs end at 2\.503 … 2\.703"):
        steps_to_target(logs, target_loss=2.0)


def test_settings_of_a_run():
    """The last batch size, the largest learning rate, and settings by the names of `TrainingSetup`; a number wins."""
    series = {"learning_rate": ([1, 5, 9], [1e-4, 1e-3, 1e-4]), "batch_tokens": ([1, 5], [1024, 2048])}
    settings = {"beta2": 0.95, "warmup": 5, "weight_decay": None, "sequence_length": 32, "optimizer": "adamw"}
    log = st.logs.TrainingLog.from_series("a", "mine", series, settings=settings)
    found = st.logs.run_settings(log)
    assert found == {"beta2": 0.95, "warmup_steps": 5, "batch_size": 64, "learning_rate": 1e-3}
    assert st.logs.run_settings(log, sequence_length=64)["batch_size"] == 32
    given = st.logs.run_settings(log, batch_size={"a": 8}, learning_rate={"b": 1})
    assert (given["batch_size"], given["learning_rate"]) == (8, 1e-3)
    assert st.logs.run_settings(st.logs.TrainingLog.from_series("a", "mine", {"loss": ([1], [2])})) == {}
