"""Logs on the command line: the flags reach `read_training_log`, the preview prints, notes are said once."""

import inspect

import numpy as np
import pytest

import sgdtheory as st
from sgdtheory.cli.log_flags import CurveFlags


@pytest.fixture
def log(tmp_path):
    """A CSV file of a run with a blank cell in every second row."""
    rows = [f"{t},1e-3,{3 + 20 / t if t % 20 == 0 else ''},7\n" for t in range(10, 210, 10)]
    path = tmp_path / "run7.csv"
    path.write_text("iteration,lr,train loss,x [a]\n" + "".join(rows))
    return path


def test_every_flag_is_a_keyword():
    """Numbers as numbers, names of columns as texts."""
    flags = CurveFlags(batch_size="512", learning_rate="lr", curve="run", group="model", warmup=3.0, loss="eval")
    assert flags.log_options("curves") == {
        **dict.fromkeys(("step", "tokens", "sequence_length")),
        **{"loss": "eval", "batch_size": 512.0, "learning_rate": "lr", "run": "run", "group": "model", "warmup": 3.0},
    }
    parameters = inspect.signature(st.read_training_log).parameters.values()
    keywords = {each.name for each in parameters if each.kind is each.KEYWORD_ONLY}
    assert set(flags.log_options("curves")) == keywords - {"name", "formats"}


def test_preview(run, log):
    out = run("fit-curves", log, "--preview", "--batch-size", "64")
    assert "run7: CSV, 20 rows" in out
    rows = [line.split("│")[1:-1] for line in out.splitlines() if line.startswith("│")]
    assert [[cell.strip() for cell in row][:3] for row in rows] == [
        ["step", "iteration", "20"],
        ["loss", "train loss", "10"],
        ["learning rate", "lr", "20"],
    ]
    assert "not used: x [a]\n" in out
    assert "no warm-up assumed before the first row, at step 20" in out
    assert "batch size" not in out


def test_curves_of_logs(log):
    ((_, curve),) = CurveFlags(batch_size="64", sequence_length=8.0, warmup=5.0).read_runs([log])
    assert curve.step.tolist() == [*range(20, 210, 20)]
    assert curve.tokens[-1] == 200 * 64 * 8
    assert (curve.warmup, curve.assumed) == (5, ())


def test_what_was_assumed_is_said_once():
    curves = [
        st.LossCurve(np.arange(1, 7), 0.1, np.ones(6), name=name, assumed=said)
        for name, said in (("a", ["x", "y"]), ("b", ["y"]), ("c", []))
    ]
    assert st.curves.curve_remarks(curves) == ["a: x", "2 curves: y"]
