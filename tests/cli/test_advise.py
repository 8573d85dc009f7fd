import itertools

import numpy as np
import pytest

import sgdtheory as st
from tests.cli.text import strict_json

FLAGS = ["advise", "--batch-size", 64, "--new-batch-size", 256, "--learning-rate", 3e-4, "--beta2", 0.95]


def test_numbers_come_first_and_are_those_of_the_library(run):
    lines = run(*FLAGS, "--warmup", 2000, "--weight-decay", 0.1).splitlines()
    assert lines[0].strip() == "adam: batch size 64 → 256"
    found = strict_json(run(*FLAGS, "--warmup", 2000, "--weight-decay", 0.1, "--json"))
    setup = {"batch_size": 64, "learning_rate": 3e-4, "beta2": 0.95, "warmup_steps": 2000, "weight_decay": 0.1}
    change = st.change_batch_size(setup, 256, optimizer="adam")
    assert [row["new"] for row in found["rows"]] == [row.new for row in change.rows]
    assert found["unknown"] == list(change.unknown)
    for row in change.rows:
        assert any(row.reason[:30] in line for line in lines)


def test_a_grid_file(run, tmp_path):
    B, D, rate = np.meshgrid(2.0 ** np.arange(4, 9), 2.0 ** np.arange(16, 21), 2.0 ** np.arange(-4, 3))
    loss = (2 + 30 * (D / (1 + B / 200)) ** -0.5) * (1 + 0.02 * np.log(rate / (B / 256) ** 0.3) ** 2)
    rows = np.column_stack([each.ravel() for each in (B, D, rate, loss)])
    path = tmp_path / "grid.csv"
    np.savetxt(path, rows, delimiter=",", header="batch_size,samples,learning_rate,loss", comments="")
    found = strict_json(run(*FLAGS, path, "--json"))
    assert found["rows"][0]["new"] == pytest.approx(3e-4 * 4**0.3, rel=0.02)


def test_a_log_says_what_the_settings_are(run, tmp_path):
    path = tmp_path / "log.csv"
    path.write_text(
        "step,loss,learning_rate,batch_size\n" + "".join(f"{k},{3 - k / 1e3},{1e-3},{64}\n" for k in range(1, 9))
    )
    found = strict_json(run("advise", path, "--new-batch-size", 256, "--json"))
    assert found["batch_size"] == 64
    assert found["rows"][0]["old"] == 1e-3


def test_logs_at_several_batch_sizes_are_a_grid(run, tmp_path):
    """Ends of runs on a law with γ* ∝ B^0.3, as logs; the settings come from flags."""
    for number, (B, D, rate) in enumerate(
        itertools.product((16, 64, 256), (2**16, 2**18, 2**20), 2.0 ** np.arange(-4, 3))
    ):
        loss = (2 + 30 * (D / (1 + B / 200)) ** -0.5) * (1 + 0.02 * np.log(rate / (B / 256) ** 0.3) ** 2)
        rows = [f"{k},{loss * D / (B * k)},{rate * (D - B * k + B) / D},{B}" for k in (D // (2 * B), D // B)]
        (tmp_path / f"run{number}.csv").write_text("\n".join(["step,loss,learning_rate,batch_size", *rows]))
    found = strict_json(run(*FLAGS, tmp_path, "--json"))
    assert found["rows"][0]["new"] == pytest.approx(3e-4 * 4**0.3, rel=0.05)


def test_what_no_one_says_is_asked_for(fails, tmp_path):
    asked = fails("advise", "--new-batch-size", 256, "--batch-size", 64)
    assert asked == "sgdtheory: the learning rate now is not known: give --learning-rate\n"
    path = tmp_path / "log.csv"
    path.write_text("step,loss,learning_rate\n1,3,1e-3\n2,2.9,1e-3\n")
    assert "the batch size now is not known: give --batch-size" in fails("advise", path, "--new-batch-size", 256)
