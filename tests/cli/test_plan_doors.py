"""One B* and one interval from a log to a plan, through every door that there is."""

import csv

import numpy as np
import pytest

import sgdtheory as st
from sgdtheory import curves
from tests.curves.theory_curves import coarse_tables, linear_intervals

SAMPLES = 256 * 10_000.0
MACHINE = ["--throughput", 100]


@pytest.fixture(scope="module")
def log(tmp_path_factory):
    """Three curves of a language model in one file, every eighth row."""
    rows = ["run,step,learning_rate,loss"]
    for name in ("cosine_24000", "constant_24000", "wsdcon_9"):
        made = st.example_loss_curves("100M")[name]
        columns = (column[::8].tolist() for column in (made.step, made.learning_rate, made.loss))
        rows += [f"{name},{step},{rate},{loss}" for step, rate, loss in zip(*columns, strict=True)]
    path = tmp_path_factory.mktemp("log") / "runs.csv"
    path.write_text("\n".join(rows))
    return path


@pytest.fixture
def once(monkeypatch):
    """Compute each answer about the same curves once, with B* from a coarse table and an interval of a normal law.

    The tests here check the ways to a plan, not its numbers.
    """
    coarse_tables(monkeypatch)
    known = {}
    fit = curves.fit_loss_curves

    def fit_once(given, **options):
        key = [
            (each.loss.tobytes(), each.learning_rate.tobytes(), np.asarray(each.batch_size).tobytes()) for each in given
        ]
        key = tuple(key), options.get("level"), options.get("optimizer"), options.get("weight_decay")
        if key not in known:
            known[key] = fit(given, **options)
        return known[key]

    find = curves.CurvesFit.critical_batch_size

    def find_once(fitted, samples, *, schedule=st.Linear(), max_learning_rate=None, overhead=0.2, progress=None):  # noqa: B008
        question = str(np.ravel(samples)), str(schedule), max_learning_rate, overhead
        if question not in sizes:
            options = {"schedule": schedule, "max_learning_rate": max_learning_rate, "overhead": overhead}
            sizes[question] = find(fitted, samples, **options)
        return sizes[question]

    sizes = {}
    monkeypatch.setattr(curves.CurvesFit, "critical_batch_size", find_once)
    monkeypatch.setattr(curves, "fit_loss_curves", fit_once)
    with linear_intervals():
        yield known


def test_one_number_and_one_interval_through_every_door(run, log, once, tmp_path):
    reading = ["--curve", "run", "--batch-size", 256, "--warmup", 2160, "--weight-decay", 0.1, "--optimizer", "sgd"]
    flags = [*reading, "--num-samples", SAMPLES, "--level", 0.9, "--overhead", 0.25]
    steps = tmp_path / "steps.csv"
    table = run("fit-curves", log, *flags, "--steps-csv", steps)
    printed = run.json("fit-curves", log, *flags)["groups"][0]
    number, ends = printed["critical_batch_size"][0], printed["interval"][0]
    assert ends == [0, "inf"]  # one batch size does not determine B*
    assert table.startswith("B* is not determined at D = ")
    assert f"{number:.4g}" in table
    assert "0 … ∞" in table

    from_file = run.json("plan", steps, *MACHINE)  # it says which level and overhead
    from_log = run.json("plan", log, *flags, *MACHINE)
    for found in (from_file, from_log):
        assert found["critical_batch_size"] == pytest.approx(number, rel=1e-9)
        assert found["critical_batch_size_interval"] == ends
        assert (found["level"], found["overhead"]) == (0.9, 0.25)
    assert from_file["rows"] == from_log["rows"]
    assert len(once) == 1  # every door has read the same curves

    text = run("plan", steps, *MACHINE)
    assert f"B* {number:.4g} (0 … ∞), 25% more data" in text
    with steps.open() as file:
        row = next(csv.DictReader(file))
    assert float(row["num_samples"]) == SAMPLES
    assert float(row["target_loss"]) == pytest.approx(printed["least_loss"][0])
