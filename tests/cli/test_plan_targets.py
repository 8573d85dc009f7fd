"""From logs at several batch sizes to B* at several losses, to advice and to a batch ramp."""

import re

import numpy as np
import pytest

import sgdtheory as st
from tests.cli.made import RAMP, progress_to, ramped_law, write_runs
from tests.cli.text import strict_json

LOSSES = 3.0, 2.6, 2.3


@pytest.fixture(scope="module")
def runs(folder):
    return folder / "ramp"


def expected(multiple):
    laws = [st.fit_steps_law(RAMP, [a + b / batch for batch in RAMP]) for a, b in map(ramped_law, LOSSES)]
    return st.batch_ramp(laws, multiple=multiple)


def test_the_ramp_of_logs_is_that_of_their_laws(run, runs):
    found = run.json("plan", runs, "--target-loss", *LOSSES, "--micro-batch", 32)
    ramp = expected(32)
    assert found["schedule"]["pairs"].split()[0] == ramp.pairs().split()[0]
    assert found["schedule"]["batch_sizes"] == pytest.approx(ramp.batch_sizes, abs=32)
    assert found["schedule"]["starts"] == pytest.approx(ramp.starts, rel=0.05)
    assert found["schedule"]["verdict"] == ""
    sizes = [int(pair.split(":")[1]) for pair in found["schedule"]["pairs"].split()]
    assert sizes == sorted(set(sizes))  # no stage is that before it
    on_four = run.json("plan", runs, "--target-loss", *LOSSES, "--micro-batch", 8, "--devices", 4)["schedule"]
    assert on_four["batch_sizes"] == found["schedule"]["batch_sizes"]  # multiples of 8 × 4 too
    out = run("plan", runs, "--target-loss", *LOSSES, "--micro-batch", 32)
    assert f'--step-batch-size-schedule "{found["schedule"]["pairs"]}"' in out


def test_the_file_of_fit_leads_to_the_same_ramp(run, runs, tmp_path):
    steps = tmp_path / "steps.csv"
    fitted = run.json("fit", runs, "--target-loss", *LOSSES, "--steps-csv", steps)
    assert [group["group"] for group in fitted["groups"]] == ["loss 3", "loss 2.6", "loss 2.3"]
    assert [row["target_loss"] for row in fitted["runs"][::4]] == [*LOSSES]
    machine = "--throughput", 10, "--micro-batch", 32, "--json"
    of_file = strict_json(run("plan", steps, "--target", "loss 2.3", "--schedule", *machine))
    of_logs = strict_json(run("plan", runs, "--target-loss", *LOSSES, *machine))
    assert of_logs["schedule"] == of_file["schedule"]
    assert of_logs["choice"] == of_file["choice"]


def test_one_stage_is_no_ramp(run, runs):
    out = run("plan", runs, "--target-loss", *LOSSES, "--micro-batch", 4096)
    assert out.startswith("No ramp is worth it: in multiples of 4096 the best batch size of all stages is 4,096.")


@pytest.mark.parametrize("scatter", [0.0, 0.01])
def test_stages_that_are_noise_are_called_so(run, tmp_path, scatter):
    """A noise scale of 300 all along: without scatter there is one stage."""
    folder = write_runs(tmp_path / "runs", lambda loss: progress_to(loss) * np.array([1, 300]), scatter)
    verdict = run.json("plan", folder, "--target-loss", *LOSSES)["schedule"]["verdict"]
    assert verdict.startswith("No ramp is worth it")
    noise = "the stages below and any steps that they save may be noise"
    assert re.search(noise if scatter else "the best batch size of all stages is 300", verdict), verdict


@pytest.mark.parametrize("trainer", ["hf", "megatron"])
def test_a_trainer_s_learning_rate_is_that_of_the_logs(run, runs, trainer):
    flags = "--target-loss", *LOSSES, "--micro-batch", 32, "--trainer", trainer, "--optimizer", "adam", "--json"
    found = strict_json(run("plan", runs, *flags))
    last = found["schedule"]["batch_sizes"][-1]
    (said,) = [note for note in found["notes"] if "the peak learning rate" in note]
    assert f"{2e-4 * (last / 64) ** 0.5:.3g} with the last batch size" in said  # γ ∝ √B in the logs and along the ramp
    given = strict_json(run("plan", runs, *flags, "--learning-rate", 1e-3))
    assert not [note for note in given["notes"] if "the peak learning rate" in note]


def test_advice_of_logs(run, runs):
    """The run next to the new batch size is the one that is changed; its range is that of B*."""
    flags = "--target-loss", 2.3, "--new-batch-size", 512, "--optimizer", "adam"
    found = run.json("advise", runs, *flags)
    a, b = ramped_law(2.3)
    assert found["critical_batch_size"] == pytest.approx(0.2 * b / a + 1.2 * 64, rel=0.02)
    assert found["batch_size"] == 256
    data = found["rows"][-1]
    assert data["new"] == pytest.approx((512 + b / a) / (256 + b / a) - 1, rel=0.02)
    assert data["low"] <= data["new"] <= data["high"]
    assert found["rows"][0]["old"] == pytest.approx(4e-4)
    other = run.json("advise", runs, *flags, "--batch-size", 1024)
    assert (other["batch_size"], other["rows"][0]["old"]) == (1024, pytest.approx(8e-4))
    assert run("advise", runs, *flags).startswith("B* = ")


def test_advice_of_a_few_runs_asks_for_their_target(notes, tmp_path):
    """The ends of three runs with decays are no grid: the settings of the nearest are there, and the way to B*."""
    for batch in (64, 256, 1024):
        rows = "".join(f"{step},{3 - step / 90},{1e-3 / step},{batch}\n" for step in range(1, 30))
        (tmp_path / f"bs{batch}.csv").write_text("step,loss,lr,batch_size\n" + rows)
    out, lines = notes("advise", tmp_path, "--new-batch-size", 512, "--optimizer", "adam")
    assert out.startswith("B* is not known")
    assert "adam: batch size 256 → 512" in out
    assert "the logs are at 3 batch sizes: if they reach a common loss, --target-loss LOSS fits B* to them" in lines
