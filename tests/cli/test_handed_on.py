"""What commands hand on to the library and say about it, with the library's functions replaced by quick ones."""

import csv
from contextlib import nullcontext
from types import SimpleNamespace

import numpy as np
import pytest

import sgdtheory as st
from sgdtheory import cli, training
from sgdtheory._common.sheets import Sheet
from sgdtheory.cli.advise import _nearest
from sgdtheory.cli.commands import command_named
from sgdtheory.cli.features import features
from sgdtheory.cli.fit_curves import FittedCurveFlags, Model, beside_fit
from sgdtheory.cli.plan_schedule import ScheduleFlags, Source, _peak, _rate_exponent
from sgdtheory.cli.settings import ProblemFlags
from sgdtheory.cli.train import _progress
from sgdtheory.curves import CurvesCriticalBatchSize
from sgdtheory.curves.equal_loss import compare_at_equal_loss
from tests.cli.made import grid_of_losses, write_table


@pytest.mark.parametrize("passes", [True, False])
def test_the_exit_status_of_a_coordinate_check_says_whether_it_passes(monkeypatch, passes):
    asked = []

    def check(config, **options):
        asked.append((config.width, options))
        return SimpleNamespace(passes=passes, sheet=lambda: Sheet("checked", []), plot=None)

    monkeypatch.setattr(training, "coordinate_check", check)
    with nullcontext() if passes else pytest.raises(SystemExit, match="^1$"):
        cli.main(["coordcheck", "--width", "32", "--widths", "8", "16", "--steps", "2", "--no-zero-output"])
    options = {"widths": (8, 16), "steps": (2,), "seeds": 8, "tolerance": 0.3, "zero_output": False}
    assert asked == [(32, options)]


def test_how_far_a_run_is():
    history = SimpleNamespace(losses=[np.ones(2), np.array([2.34567, 1.23456])], step=64)
    run = SimpleNamespace(history=history, config=SimpleNamespace(max_steps=1000))
    group = SimpleNamespace(runs=[run, None], step=70, steps_per_second=123.456)
    assert _progress(group) == "step 70 of 1000, loss 2.346, best 1.235 at 64, 123 steps/s"


def test_a_problem_is_named_in_titles_and_in_json():
    whole = ProblemFlags(
        capacity=1.5, source=2.0, dim=20, noise_variance=0.25, precondition=0.25, samples=50, sample_seed=1
    )
    end = "preconditioned with θ = 0.25, N = 50 (seed 1)"
    assert whole.title == f"λ_i = i^−1.5, s_i = i^−2, σ² = 0.25, d = 20, {end}"
    assert whole.title_in_mathematics == rf"$λ_i = i^{{-1.5}}$, $s_i = i^{{-2}}$, $\sigma^2 = 0.25$, $d = 20$, {end}"
    law = {"capacity": 1.5, "source": 2, "dim": 20, "noise_variance": 0.25}
    assert whole.in_json == law | {"precondition": 0.25, "samples": 50, "sample_seed": 1}
    plain = ProblemFlags(capacity=1.5, source=2.0, samples=50)
    assert plain.title == "λ_i = i^−1.5, s_i = i^−2, σ² = 1, N = 50"
    assert plain.in_json == law | {"dim": None, "noise_variance": 1, "samples": 50, "sample_seed": None}
    with pytest.raises(ValueError, match="sample_seed belongs to a data set, got 0; give its samples as well"):
        _ = ProblemFlags(capacity=1.5, source=2.0, sample_seed=0).problem


def test_public_curves_are_fitted_as_they_were_trained():
    plain = FittedCurveFlags().example_model("100M")
    assert {curve.name for curve in plain.fitted} == {"cosine_24000", "constant_24000", "wsdcon_9"}
    assert len(plain.curves) == len(st.example_loss_curves("100M")) > 3
    assert (plain.optimizer, plain.weight_decay) == ("adam", 0.1)
    own = FittedCurveFlags(weight_decay=0.0, hold_out=("wsdcon_9",)).example_model("100M")
    assert ([curve.name for curve in own.held_out], own.weight_decay) == (["wsdcon_9"], None)
    assert FittedCurveFlags(weight_decay=0.3).example_model("100M").weight_decay == 0.3


def test_fit_is_asked_for_a_loss_just_above_the_ends_of_the_runs():
    """One percent above the worst batch size, of the mean of the last twentieth of its better run."""
    logs, ends = [], []
    for batch, rate in ((64, 3e-4), (256, 3e-4), (1024, 3e-4), (1024, 1e-4)):
        steps = np.arange(20.0, 4001, 20)
        loss = 1.8 + 35 * (steps * batch / (1 + batch / 300) + 400) ** -0.3 + (rate < 2e-4)
        loss[190:] += 0.2  # of 200 rows
        series = {"loss": (steps, loss), "learning_rate": (steps, 0 * steps + rate), "batch_size": (steps[:1], [batch])}
        logs.append(st.logs.TrainingLog.from_series(f"B{batch} {rate}", "made", series))
        ends.append(loss[190:].mean())
    curves = [st.logs.loss_curve(log) for log in logs]
    compared = compare_at_equal_loss(curves[:3], 3e5, 0.2, 0.95)
    of_curves = CurvesCriticalBatchSize(*np.ones((4, 1)), 3e-4, "", compared=(compared,))
    (said,) = beside_fit(Model(curves, [], "adam", None, logs), of_curves, "train", None)
    assert f"`sgdtheory fit --target-loss {1.01 * max(ends[:3]):.3g}` " in said


def test_the_data_of_benchmarks_are_printed_with_their_errors(run):
    rows = [*csv.DictReader(run("fit", "--example", "--data", "mlperf").splitlines())]
    measured = st.example_measurements("mlperf")
    assert [row["benchmark"] for row in rows] == [each.group for each in measured for _ in each.batch_sizes]
    steps = np.concatenate([each.steps for each in measured])
    errors = np.concatenate([each.steps * np.array(each.standard_errors) for each in measured])
    np.testing.assert_array_equal(
        [float(row["bs"]) for row in rows], [b for each in measured for b in each.batch_sizes]
    )
    np.testing.assert_array_equal([float(row["steps"]) for row in rows], steps)
    np.testing.assert_allclose([float(row["se"]) for row in rows], errors, rtol=6e-3)  # three digits


class MadeLaw:
    """A law of losses whose steps are (1 + 10/B) D, of which B* is 100."""

    plot = None

    def __init__(self, asked):
        self.asked = asked

    def sheet(self, **options):
        self.asked.append(options)
        return Sheet("law", [], ["a remark"])

    def steps_table(self, size, samples):
        sizes = np.array([10.0, 100.0, 1000.0])
        known = st.fits.FittedCriticalBatchSize(100.0, 50.0, 200.0, st.Convention(None, 0.2), 0.95)
        return st.fits.StepsTable(sizes, size * samples * (1 + 10 / sizes), critical=known)


def test_laws_of_a_grid_of_losses(run, monkeypatch, tmp_path):
    asked = []
    for name in "fit-law", "fit-rates":
        command_named(name)  # It reads the signatures of the library's own functions.

    def fit(losses, **options):
        asked.append(({name: len(column) for name, column in losses.items()}, options))
        return MadeLaw(asked)

    monkeypatch.setattr(st.fits, "fit_joint_law", fit)
    monkeypatch.setattr(st.fits, "fit_rates", fit)
    columns = grid_of_losses([16, 32], [2.0**12, 2.0**13], [1, 2], 0.0)
    table = write_table(tmp_path / "grid.csv", columns | {"n": columns["batch_size"]})
    flags = ["--size", "n", "--parameters", 3, "--num-samples", 500, "--compute", 1e3, 1e4, "--level", 0.9]
    assert run.json("fit-law", table, *flags, "--steps-csv", tmp_path / "steps.csv")["notes"] == ["a remark"]
    (rows, options), shown = asked
    assert (rows["size"], rows["loss"], options["level"]) == (8, 8, 0.9)
    assert shown == {"at": (3, 500), "compute": (1e3, 1e4)}
    (measured,) = st.read_measurements(tmp_path / "steps.csv", group="group")
    assert (measured.group, measured.steps.tolist()) == ("law", pytest.approx([3000, 1650, 1515]))
    asked.clear()
    run("fit-law", table, "--size", "n")
    assert asked[1] == {"at": None, "compute": ()}
    for flags, compare in ([], True), (["--rates-alone"], False):
        asked.clear()
        run("fit-rates", table, *flags)
        assert asked[0][1] == {"level": 0.95, "compare": compare}


def test_the_batch_size_now_is_the_nearest_in_ratio():
    assert _nearest({64.0, 512.0}, 190.0, None) == 512  # 2.97 and 2.69 times
    assert _nearest({64.0, 512.0}, 170.0, None) == 64
    assert _nearest({64.0, 512.0}, 512.0, None) == 64  # another one
    assert _nearest({64.0}, 64.0, None) == _nearest({64.0}, None, None) == 64
    assert _nearest({64.0, 512.0}, 512.0, 7.0) == 7


def source_of(**rates):
    runs = [
        SimpleNamespace(batch_size=float(size[1:]), learning_rate=rate, crossing=SimpleNamespace(step=9.0))
        for size, rate in rates.items()
    ]
    best = {each.batch_size: each for each in runs}
    return Source("a", None, (), of_logs=SimpleNamespace(best_runs=best, logs=[]))  # pyright: ignore


def test_the_peak_of_a_ramp_is_that_of_the_run_nearest_to_its_last_batch_size():
    ramp = SimpleNamespace(stages=[(0, 64), (100, 400)])
    found = source_of(b64=1e-3, b256=2e-3, b600=np.nan)
    peak, remark = _peak("hf", FittedCurveFlags(), found, ramp, 0.5)
    assert peak == pytest.approx(2e-3 * (400 / 256) ** 0.5)
    assert "0.0025 with the last batch size is that of the run with batch size 256, 0.002, by γ ∝ B^0.5" in remark
    assert _peak("hf", FittedCurveFlags(learning_rate="0.1"), found, ramp, 0.5) == (0.1, "")
    with pytest.raises(ValueError, match="learning_rate must be a number for trainer hf, .* got none"):
        _peak("hf", FittedCurveFlags(), Source("a", None, ()), ramp, 0.5)


def test_the_learning_rate_along_a_ramp_follows_the_batch_size_with_sgd_and_its_root_otherwise():
    for flags, columns, exponent in (
        (ScheduleFlags(), FittedCurveFlags(), 0.5),
        (ScheduleFlags(), FittedCurveFlags(optimizer="adam"), 0.5),
        (ScheduleFlags(), FittedCurveFlags(optimizer="sgd"), 1.0),
        (ScheduleFlags(rate_exponent=0.0), FittedCurveFlags(optimizer="sgd"), 0.0),
    ):
        assert _rate_exponent(flags, columns, source_of()) == exponent
    assert [ScheduleFlags().asked, ScheduleFlags(schedule=True).asked, ScheduleFlags(trainer="hf").asked] == [
        False, True, True,
    ]  # fmt: skip


def test_data_sizes_of_features_are_powers_of_ten_up_to_the_rows(monkeypatch, tmp_path):
    """From 1,000 on, or 1,000 alone where there are fewer rows; a flag names others, each once."""
    asked = []

    class Found:
        def __init__(self, number):
            self.num_rows = number
            self.sheet = lambda: Sheet("", [])

        def critical_batch_size(self, sizes, overhead):
            asked.append((sizes.tolist(), overhead))
            return self

    said = []
    for number, given in (
        (150, None),
        (1000, None),
        (9999, None),
        (10_000, None),
        (250_000, None),
        (5, (7.0, 3.0, 7.0)),
    ):
        monkeypatch.setattr("sgdtheory.data.problem_from_data", lambda *_, number=number, **__: Found(number))
        features(said.append, tmp_path / "X.npy", tmp_path / "y.npy", num_samples=given)
    assert [sizes for sizes, _ in asked] == [
        *([1e3], [1e3], [1e3], [1e3, 1e4], [1e3, 1e4, 1e5], [3, 7]),
    ]
    assert {overhead for _, overhead in asked} == {0.2}
    assert [words for words in said if "B*" in words][::4] == [
        "B* of 1 data size with intervals", "B* of 3 data sizes with intervals",
    ]  # fmt: skip
