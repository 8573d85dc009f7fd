from typing import get_args

import numpy as np
import pytest

import sgdtheory as st
from sgdtheory._common.sheets import number
from sgdtheory.cli.plan import hours_of
from tests.cli.text import cells

BATCHES = (64, 128, 256, 512, 1024, 2048, 4096)
MACHINE = ["--throughput", 2, "--micro-batch", 8, "--price", 2.5]


@pytest.fixture
def steps_file(tmp_path):
    """Three targets of one model."""
    rng, rows = np.random.default_rng(0), ["target,batch_size,steps"]
    for name, a, b in (("3.2", 500, 1e5), ("3.0", 1500, 9e5), ("2.9", 4000, 6e6)):
        rows += [f"{name},{batch},{(a + b / batch) * np.exp(0.02 * rng.standard_normal())!r}" for batch in BATCHES]
    path = tmp_path / "steps.csv"
    path.write_text("\n".join(rows).replace("np.float64(", "").replace(")", ""))
    return path


@pytest.fixture
def laws(steps_file):
    measured = st.read_measurements(steps_file, group="target")
    return [st.fit_steps_law(each.batch_sizes, each.steps) for each in measured]


def test_the_first_line_is_the_answer(run, steps_file, laws):
    out = run("plan", steps_file, "--group", "target", "--target", "2.9", *MACHINE, "--deadline", "24h")
    choice = st.plan(laws[2], 2, micro_batch=8, price=2.5, deadline=24).choice
    low, high = choice.hours_interval
    assert low < 24 < high
    assert out.splitlines()[0] == (
        f"Batch size {choice.batch_size:g} = {choice.devices} devices × micro batch 8 × accumulation 1: "
        f"{choice.hours:.3g} h ({low:.3g} … {high:.3g}, may miss the deadline), {choice.cost:,.0f} USD, "
        f"{choice.extra_data:.0%} more data than at batch size 64"
    )
    assert cells(out, number(choice.batch_size))[-1] == "choice"


def test_json_is_the_plan(run, steps_file, laws):
    flags = ["--group", "target", "--target", "3.0", "--throughput", 2, "--devices", 16, "--deadline", "3d"]
    found = run.json("plan", steps_file, *flags)
    plan = st.plan(laws[1], 2, devices=16, deadline=72)
    assert found["choice"]["batch_size"] == plan.choice.batch_size
    assert found["choice"]["hours"] == plan.choice.hours
    assert found["choice"]["cost"] is None
    assert found["knee"] == plan.knee
    assert found["knee_interval"] == list(plan.knee_interval)
    assert found["critical_batch_size"] == plan.critical_batch_size
    assert found["reachable"] is True
    assert [row["batch_size"] for row in found["rows"]] == [row.batch_size for row in plan.rows]
    assert found["notes"] == list(plan.notes)


@pytest.mark.parametrize(("target", "number"), [("2.9", 3), ("3.2", 1)])
def test_a_schedule_of_the_targets_on_the_way(run, steps_file, laws, target, number):
    flags = ["--group", "target", "--target", target, *MACHINE, "--schedule"]
    found = run.json("plan", steps_file, *flags)
    ramp = st.batch_ramp(laws[:number], num_samples=found["choice"]["samples"], multiple=8)
    assert found["schedule"]["pairs"] == ramp.pairs()
    assert any("laws of one target justify one batch size" in note for note in found["notes"]) is (number == 1)
    out = run("plan", steps_file, *flags, "--sequence-length", 512)
    assert f'--step-batch-size-schedule "{ramp.pairs(512)}"' in " ".join(out.split())
    if number > 1:
        first, increment, samples = ramp.linear
        assert f"--rampup-batch-size {first} {increment} {samples} --global-batch-size {ramp.even.last}" in out
        for steps in (ramp.target.steps(ramp.stages), ramp.even.steps):
            saved = 1 - steps / ramp.constant_steps
            assert f"{steps:,} steps, {saved:.1%} fewer than at a constant batch size" in " ".join(out.split())


@pytest.mark.parametrize("trainer", get_args(st.advice.Trainer))
def test_a_schedule_in_a_trainer_s_settings(run, steps_file, laws, trainer):
    flags = ["--group", "target", "--target", "2.9", *MACHINE, "--trainer", trainer, "--learning-rate", 3e-4]
    flags += ["--rate-exponent", 1, "--warmup-samples", 200_000, "--decay-samples", 10**6, "--sequence-length", 512]
    found = run.json("plan", steps_file, *flags)
    ramp = st.batch_ramp(laws, num_samples=found["choice"]["samples"], multiple=8)
    options = {"exponent": 1, "warmup_samples": 200_000, "decay_samples": 10**6}
    planned = st.advice.RampedRun.of_ramp(ramp, learning_rate=3e-4, **options)
    machine = st.fits.Machine(st.fits.ConstantThroughput(2.0), None, 8, None)
    devices = {"machine": machine, "devices": found["choice"]["devices"]}
    written = st.advice.in_settings_of(trainer, planned, **devices, sequence_length=512)
    assert found["schedule"]["text"] == written.text
    assert found["schedule"]["trainer"] == written.trainer
    remarks = [
        f"{written.trainer}: {remark.replace('devices= (--devices)', '--devices')}" for remark in written.remarks
    ]
    assert set(remarks) <= set(found["notes"])
    if trainer == "hf":
        assert written.text in run("plan", steps_file, *flags)


def test_a_table_of_throughput_and_a_figure(run, steps_file, tmp_path, laws):
    table = tmp_path / "throughput.csv"
    table.write_text("batch_size,samples_per_second\n1,1\n8,4\n64,6\n")
    flags = ["--group", "target", "--target", "2.9", "--throughput-table", table, "--devices", 8]
    found = run.json("plan", steps_file, *flags, "--plot", tmp_path / "plan.svg")
    plan = st.plan(laws[2], st.fits.read_throughput(table), devices=8)
    assert found["choice"]["batch_size"] == plan.choice.batch_size
    assert (tmp_path / "plan.svg").stat().st_size > 1000


@pytest.mark.parametrize(
    ("text", "hours"), [("72h", 72), ("3d", 72), ("90min", 1.5), ("1800s", 0.5), ("2", 2), ("1e2h", 100)]
)
def test_deadlines(text, hours):
    assert hours_of(text) == pytest.approx(hours)


def test_a_deadline_out_of_reach_is_told(notes, steps_file):
    flags = ["--group", "target", "--target", "2.9", "--throughput", 2, "--micro-batch", 8, "--deadline", "2h"]
    _, lines = notes("plan", steps_file, *flags)
    assert any("no batch size from 64 to 4096 meets the deadline of 2 h" in line for line in lines)
