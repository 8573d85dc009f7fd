"""Every format of logs through every command that takes logs: from file to curves, B*, plan, advice and steps.

Fits of curves are not run here: what they are given is looked at, and a fit that is made up answers.
"""

import numpy as np
import pytest

import sgdtheory as st
from sgdtheory import curves
from sgdtheory._common.interval import Interval
from sgdtheory.curves import CurvesCriticalBatchSize
from tests.cli.made import BATCHES, run_of
from tests.logs.text_writers import PRINTINGS
from tests.logs.writers import FILES, write_tensorboard_csvs, write_wandb_charts
from tests.marks import slow

QUICK = "megatron", "Hugging Face trainer state", "W&B history"
LENGTH = 1800  # more than 400 (1 + 100/32) steps to loss 3
ONE = Interval(1.5, (1.0, 2.0))


def table_of(run):
    """Return the table that writers of tables take; none has the batch size."""
    rows = zip(run.steps.tolist(), run.loss.tolist(), run.rate.tolist(), strict=True)
    return {step: {"loss": loss, "learning_rate": rate} for step, loss, rate in rows}


def write_text(name):
    def write(folder, run):
        folder.mkdir(parents=True)
        (folder / "train.log").write_text(PRINTINGS[name].text(run))

    return write


def write_file(name):
    file, written = FILES[name]

    def write(folder, run):
        folder.mkdir(parents=True)
        written(folder / file, table_of(run))

    return write


def write_charts(folder, run):
    folder.mkdir(parents=True)
    write_wandb_charts(folder, {folder.name: table_of(run)})


def write_tags(folder, run):
    folder.mkdir(parents=True)
    write_tensorboard_csvs(folder, table_of(run), name=folder.name)


WRITERS = {name: write_text(name) for name in PRINTINGS} | {name: write_file(name) for name in FILES}
WRITERS |= {"W&B charts": write_charts, "TensorBoard CSVs": write_tags}


class MadeUp:
    """A fit whose B* is 100 (50 … 200)."""

    capacity = source = signal = noise = step_size = irreducible_loss = ONE
    growth = None
    scatter = 0.01
    remark = ""
    not_identified = ()
    level = 0.95
    sheet = curves.CurvesFit.sheet

    def __init__(self, given):
        self.curves = tuple(given)
        self.knows_batch_size = all(each.batch_size is not None for each in given)

    def predict_curve(self, curve):
        return curves.LossPrediction(curve.step, curve.learning_rate, curve.loss, curve.loss, curve.loss)

    def critical_batch_size(self, samples, **options):  # noqa: ARG002
        samples = np.atleast_1d(samples)
        ends = np.tile([50.0, 200.0], (samples.size, 1))
        return CurvesCriticalBatchSize(
            samples, np.full(samples.size, 100.0), ends, np.full(samples.size, 3.0), 1e-3, ""
        )

    def steps_law(self, samples, **options):  # noqa: ARG002
        sizes = np.array([10.0, 100, 1000])
        known = st.fits.FittedCriticalBatchSize(100.0, 50.0, 200.0, st.Convention(None, 0.2), 0.95)
        return st.fits.StepsTable(sizes, samples * np.array([1, 1.2, 4]) / sizes, critical=known)


@pytest.fixture
def fitted(monkeypatch):
    """The curves of each fit that was asked for."""
    asked = []

    def fit(given, **options):  # noqa: ARG001
        asked.append(given)
        return MadeUp(given)

    monkeypatch.setattr(curves, "fit_loss_curves", fit)
    return asked


def missing(folder):
    """Flags with what a log does not say, and a number for each run."""
    logs = st.logs.read_logs(folder)
    flags = [] if logs[0].has("learning_rate") else ["--learning-rate", "0.001"]
    curve = st.logs.loss_curve(logs[0], learning_rate=1e-3)
    return flags, curve.batch_size is None, [log.name for log in logs]


@pytest.mark.parametrize("name", [each if each in QUICK else slow(each) for each in WRITERS])
def test_from_a_log_to_every_answer(run, tmp_path, fitted, name):
    log = tmp_path / "runs" / "bs128"
    WRITERS[name](log, run_of(128, LENGTH))
    flags, unknown, _ = missing(log)
    flags += ["--batch-size", 128] if unknown else []
    flags += ["--optimizer", "adam"]  # Charts do not say it.
    found = run.json("fit-curves", log, *flags)["groups"][0]
    assert found["critical_batch_size"] == [100]
    (curve,) = fitted[-1]
    np.testing.assert_array_equal(curve.step, run_of(128, LENGTH).steps)
    np.testing.assert_allclose(curve.loss, run_of(128, LENGTH).loss, rtol=5e-3)
    (read,) = st.logs.read_logs(log)
    warmup = 1.0 if read.has("learning_rate") else read.settings.get("warmup", 1.0)  # applied to a number that is given
    np.testing.assert_allclose(curve.learning_rate, 1e-3 * np.minimum(curve.step / warmup, 1), rtol=1e-3)
    assert set(curve.batch_size) == {128}
    planned = run.json("plan", log, *flags, "--throughput", 10)
    assert planned["critical_batch_size_interval"] == [50, 200]
    advised = run.json("advise", log, *flags, "--new-batch-size", 256)
    assert (advised["batch_size"], advised["rows"][0]["old"]) == (128, pytest.approx(1e-3))

    for batch in BATCHES[::2]:
        WRITERS[name](tmp_path / "runs" / f"bs{batch}", run_of(batch, LENGTH))
    flags, unknown, names = missing(tmp_path / "runs")
    sizes = ",".join(f"{each}={batch}" for batch in BATCHES for each in names if f"bs{batch}" in each)
    _walk(run, tmp_path, ["--batch-size", sizes] if unknown else [], flags)


def _walk(run, tmp_path, flags, rate):
    """From logs at three batch sizes to B*, to the settings at another one, and to a ramp: a command each."""
    runs, steps = tmp_path / "runs", tmp_path / "steps.csv"
    (found,) = run.json("fit", runs, "--target-loss", 3, *flags, "--steps-csv", steps)["groups"]
    assert found["b"] / found["a"] == pytest.approx(100, rel=0.1)
    asked = "--target-loss", 3, "--new-batch-size", 256, "--optimizer", "adam"
    advised = run.json("advise", runs, *asked, *flags, *rate)
    assert advised["critical_batch_size"] == found["critical_batch_size"]
    assert advised["batch_size"] in (128, 512)  # next to 256
    more = (256 + 100) / (advised["batch_size"] + 100) - 1
    assert advised["rows"][-1]["new"] == pytest.approx(more, abs=0.05)
    planned = run.json("plan", steps, "--throughput", 10)
    assert planned["critical_batch_size"] == pytest.approx(found["critical_batch_size"])
    ramp = run.json("plan", runs, "--target-loss", 3.2, 3.1, 3, *flags)
    assert [group["group"] for group in ramp["groups"]] == ["loss 3.2", "loss 3.1", "loss 3"]
    assert ramp["groups"][-1]["critical_batch_size"] == pytest.approx(found["critical_batch_size"])
    assert ramp["schedule"]["verdict"].startswith("No ramp is worth it")  # the noise scale is 100 all along
