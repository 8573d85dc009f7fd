"""`sgdtheory fit-curves`: what it prints of examples and files, and what it hands on to `plan`."""

import json
from dataclasses import replace
from types import SimpleNamespace
from typing import ClassVar

import numpy as np
import pytest

import sgdtheory as st
from sgdtheory._common.interval import Interval
from sgdtheory.cli.fit_curves import FittedCurveFlags, Model, beside_fit, fitted, longest
from sgdtheory.curves import CurvesCriticalBatchSize
from sgdtheory.curves.equal_loss import compare_at_equal_loss
from tests.curves.theory_curves import SHAPES, curve

NUMBERS = "capacity", "source", "signal", "noise", "step_size", "irreducible_loss", "growth"


@pytest.fixture(scope="module")
def files(tmp_path_factory):
    """Two curves of the theory, and one to be held out."""
    folder = tmp_path_factory.mktemp("curves")
    for name in SHAPES:
        made = curve(name)
        rows = zip(made.step, made.learning_rate, made.loss, strict=True)
        text = "t,lr,loss\n" + "".join(f"{step:g},{rate:.9g},{loss:.9g}\n" for step, rate, loss in rows)
        (folder / f"{name}.csv").write_text(text)
    return folder


SGD = "--optimizer", "sgd"


def arguments(folder, *more):
    paths = [str(folder / f"{name}.csv") for name in SHAPES]
    return "fit-curves", *paths, "--step", "t", "--learning-rate", "lr", "--batch-size", "32", *SGD, *more


@pytest.mark.slow
def test_curves_in_files(run, files):
    steps = files / "steps.csv"
    out = run(*arguments(files, "--hold-out", "drop", "--steps-csv", str(steps), "--plot", str(files / "curves.png")))
    assert "2 curves, " in out
    assert "σ² " in out
    assert "drop" in out.partition("curves held out")[2]
    assert "critical batch size at 20% overhead\n" in out
    assert (files / "curves.png").stat().st_size > 10_000
    planned = run("plan", str(steps), "--group", "group", "--throughput", "100", "--micro-batch", "1")
    assert planned.startswith("B* is not determined: ")  # these curves do not determine it
    assert planned.splitlines()[1].startswith("Batch size ")


class MadeUp:
    """A fit that predicts half of every loss, and leaves ends of intervals open."""

    ends: ClassVar = {"capacity": (1.2, 1.5), "noise": (3.3, np.inf), "signal": (0.0, np.inf), "step_size": (0.0, 0.25)}
    scatter, level, knows_batch_size, remark = 0.0, 0.95, True, "look at the plot"
    not_identified = "noise", "signal", "step_size"
    sheet = st.curves.CurvesFit.sheet

    def __init__(self, *curves):
        self.curves = curves
        for name in NUMBERS:
            ends = self.ends.get(name, (1.0, 2.0))
            setattr(self, name, Interval(ends[0] + 0.1, ends))

    def predict_curve(self, curve):
        return SimpleNamespace(loss=curve.loss / 2)


@pytest.fixture
def report():
    steps = np.arange(10.0, 70, 10)
    cut = st.LossCurve(steps, 0.1, [5, 4, 3.5, 3.2, np.nan, np.nan], name="run7", group="small")
    flat = st.LossCurve(steps, 0.1, np.full(6, 4.0), name="flat", group="small")
    critical = CurvesCriticalBatchSize(*np.array([[1e3], [8.0]]), np.array([[3.0, np.inf]]), np.array([2.0]), 0.1, "")
    return st.curves.CurvesReport(MadeUp(cut), critical, (flat,))  # pyright: ignore[reportArgumentType]


def test_errors_of_curves_and_where_one_was_cut(report):
    numbers, fitted, held_out, _ = (table.grid()[1] for table in report.sheet().tables)
    assert fitted == [["run7", "4", "40", "3.2", "1.6", *fitted[0][5:6], "50.00%"]]
    assert held_out[0][5:] == ["—", "50.00%"]
    assert len(numbers) == len(NUMBERS)
    found = report.sheet().json()
    assert found["cut"] == {"run7": "cut at step 50, where the loss is nan"}
    assert found["notes"] == ["small: look at the plot", "small: run7: cut at step 50, where the loss is nan"]
    assert found["held_out"][0]["largest_error"] == 0.5


def test_an_interval_that_is_open_at_one_end_shows_the_other(report):
    """And one that is open at both shows so; the remark names them."""
    first, *_, last = report.sheet().tables
    shown = dict(zip(NUMBERS, (row[2] for row in first.grid()[1]), strict=True))
    assert [shown[name] for name in MadeUp.ends] == ["1.2 … 1.5", "3.3 … ∞", "0 … ∞", "0 … 0.25"]
    assert last.grid() == (["D", "B*, γ ≤ 0.1", "95%", "least loss"], [["1,000", "8", "3 … ∞", "2"]])


@pytest.mark.slow
def test_json(run, files):
    report = json.loads(run(*arguments(files, "--hold-out", "drop", "--num-samples", "1e5", "--json")))
    (group,) = report["groups"]
    assert group["fitted"] == ["cosine", "constant"]
    assert group["capacity"]["interval"][0] < 1.6 < group["capacity"]["interval"][1]
    assert group["held_out"][0]["curve"] == "drop"
    assert group["held_out"][0]["largest_error"] < 0.01
    assert group["num_samples"] == [1e5]


@pytest.mark.parametrize("agrees", [True, False])
def test_the_answer_of_fit_stands_beside_that_of_whole_curves(agrees):
    """B* of runs at three batch sizes, samples ∝ 1 + B/300; an answer that is far off is called so, with both."""
    steps = np.arange(20.0, 8001, 20)
    logs = []
    for batch in (64, 256, 1024):
        loss = 1.8 + 35 * (steps * batch / (1 + batch / 300) + 400) ** -0.3
        series = {"loss": (steps, loss), "learning_rate": (steps, 0 * steps + 3e-4), "batch_size": (steps[:1], [batch])}
        logs.append(st.logs.TrainingLog.from_series(f"B{batch}", "made", series))
    curves = [st.logs.loss_curve(log) for log in logs]
    compared = compare_at_equal_loss(curves, 5e5, 0.2, 0.95)
    if not agrees:
        compared = replace(compared, from_smallest=1000.0, from_smallest_interval=(900.0, 1100.0))
    of_curves = CurvesCriticalBatchSize(*np.ones((4, 1)), 3e-4, "", compared=(compared,))
    (said,) = beside_fit(Model(curves, [], "adam", None, logs), of_curves, "train", None)
    assert ("` agrees on these logs: B* from B = 64 is 136" in said) is agrees
    assert ("` disagrees on these logs: B* from B = 64 is 136" in said) is not agrees
    assert ("here it is 1,000 (900 … 1,100)" in said) is not agrees


def test_the_optimizer_is_handed_on(monkeypatch):
    seen = []
    monkeypatch.setattr("sgdtheory.curves.fit_loss_curves", lambda curves, **options: seen.append(options))
    for flags in (FittedCurveFlags(), FittedCurveFlags(optimizer="sgd")):
        fitted(flags.example_model("100M"), 0.95, lambda text: None)  # noqa: ARG005
    assert [each["optimizer"] for each in seen] == ["adam", "sgd"]


def test_the_weight_decay_of_the_logs_is_taken_unless_a_flag_decides(tmp_path):
    """Of nanoGPT's configuration; 0 is none, and several need the flag."""
    rows = "".join(f"iter {t}: loss {3 + 20 / t:.4f}, time 9.00ms, mfu 1.00%\n" for t in range(10, 70, 10))
    paths = [tmp_path / f"{name}.log" for name in "ab"]

    def model(first, second=0.1, **flags):
        for path, decay in zip(paths, (first, second), strict=True):
            path.write_text(f"Overriding config with config/train.py:\nweight_decay = {decay}\n{rows}")
        (found,) = FittedCurveFlags(learning_rate="1e-3", optimizer="adam", **flags).models(paths)
        return found.weight_decay, found.notes

    assert model(0.1) == (0.1, ["weight decay, from the log: 0.1"])
    assert model(0.0, 0.0) == (None, [])
    assert model(0.2, weight_decay=0.3) == (0.3, [])
    assert model(0.1, weight_decay=0.0) == (None, [])
    with pytest.raises(ValueError, match=r"several weight decays, 0.1 and 0.2: give --weight-decay, or fit their runs"):
        model(0.2)


def test_the_samples_of_the_longest_curve():
    """In batches where no batch size is known; of a ramp the last one counts."""
    step, loss = np.arange(1.0, 11), np.linspace(3, 2, 10)
    ramp = st.LossCurve(step, 0.1, loss, np.where(step < 5, 2, 4))
    assert longest([st.LossCurve(step[:4], 0.1, loss[:4]), st.LossCurve(step, 0.1, loss)]) == (10.0,)
    assert longest([st.LossCurve(step, 0.1, loss, 3), ramp]) == (40.0,)
