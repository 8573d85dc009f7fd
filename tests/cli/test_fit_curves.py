"""`sgdtheory fit-curves`: what it prints of examples and files, and what it hands on to `plan`."""

import json
from types import SimpleNamespace

import numpy as np
import pytest

import sgdtheory as st
from sgdtheory._common.interval import Interval
from sgdtheory.cli.fit_curves import NUMBERS, FitCurvesCommand, Report, _errors_table
from sgdtheory.curves.curves_fit import CurvesCriticalBatchSize
from tests.curves.theory_curves import SHAPES, curve


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


def arguments(folder, *more):
    paths = [str(folder / f"{name}.csv") for name in SHAPES]
    return ("fit-curves", *paths, "--step", "t", "--learning-rate", "lr", "--batch-size", "32", *more)


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
    assert planned.startswith("Batch size ")


class Half:
    """A fit that predicts half of every loss."""

    def predict_curve(self, curve):
        return SimpleNamespace(loss=curve.loss / 2)


def test_where_a_curve_was_cut_stands_in_its_row():
    steps = np.arange(10.0, 70, 10)
    cut = st.LossCurve(steps, 0.1, [5, 4, 3.5, 3.2, np.nan, 3], name="run7")
    flat = st.LossCurve(steps, 0.1, np.full(6, 4.0), name="flat")
    table = _errors_table("curves fitted", Half(), [cut, flat])  # pyright: ignore[reportArgumentType]
    rows = list(zip(*(column.cells for column in table.columns), strict=True))
    assert rows[0][:5] == ("run7", "4", "40", "3.2000", "1.6000")
    assert rows[0][6:] == ("50.00%", "cut at step 50, where the loss is nan")
    assert rows[1][5:] == ("nan", "50.00%", "")


def test_an_interval_that_is_open_at_one_end_shows_the_other():
    """And one that is open at both shows so; the remark names them."""
    ends = {"capacity": (1.2, 1.5), "noise": (3.3, np.inf), "signal": (0.0, np.inf), "step_size": (0.0, 0.25)}
    numbers = {name: Interval(ends.get(name, (1.0, 2.0))[0] + 0.1, ends.get(name, (1.0, 2.0))) for name in NUMBERS}
    nothing = {
        "curves": (),
        "scatter": 0.0,
        "knows_batch_size": True,
        "not_identified": ("noise", "signal", "step_size"),
    }
    critical = CurvesCriticalBatchSize(*np.array([[1e3], [8.0]]), np.array([[3.0, np.inf]]), np.array([2.0]), 0.1, "")
    report = Report("", SimpleNamespace(**numbers, **nothing), [], critical)  # pyright: ignore[reportArgumentType]
    first, _, last = FitCurvesCommand()._tables(report)
    shown = dict(zip(NUMBERS, first.columns[3].cells, strict=True))
    assert [shown[name] for name in ends] == ["1.2 … 1.5", "3.3 … ∞", "0 … ∞", "0 … 0.25"]
    assert list(last.columns[2].cells) == ["3 … ∞"]


@pytest.mark.slow
def test_json(run, files):
    report = json.loads(run(*arguments(files, "--hold-out", "drop", "--num-samples", "1e5", "--json")))
    (group,) = report["groups"]
    assert group["fitted"] == ["cosine", "constant"]
    assert group["capacity"]["interval"][0] < 1.6 < group["capacity"]["interval"][1]
    assert group["held_out"][0]["curve"] == "drop"
    assert group["held_out"][0]["largest_error"] < 0.01
    assert group["num_samples"] == [1e5]


def test_bad_input_is_refused_with_a_sentence(fails, files):
    assert "hold-out must name curves, got none; there are cosine" in fails(*arguments(files, "--hold-out", "none"))
    assert "hold-out must leave curves to fit" in fails(*arguments(files, "--hold-out", *SHAPES))
    path = str(files / "cosine.csv")
    assert "cosine: no column counts optimizer steps; name it, --step" in fails("fit-curves", path)
    assert "preview needs files" in fails("fit-curves", "--preview")
    assert "model must be one of" in fails("fit-curves", "--example", "1B")


def test_the_optimizer_is_handed_on(monkeypatch):
    seen = []
    monkeypatch.setattr("sgdtheory.curves.fit_loss_curves", lambda curves, **options: seen.append(options))
    for command in (FitCurvesCommand(), FitCurvesCommand(optimizer="adam")):
        (curves,) = command.groups().values()
        command.fitted(curves)
    assert [each["optimizer"] for each in seen] == ["sgd", "adam"]
