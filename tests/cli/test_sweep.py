"""`sgdtheory sweep`: a grid into a store, the store again, Ctrl-C, and bad input."""

import csv
import io
import json
import signal
import subprocess
import sys
import time

import pytest

from sgdtheory.training import group
from tests.cli.made import GRID
from tests.cli.text import cells

PROGRAM = """
import signal
signal.signal(signal.SIGINT, signal.default_int_handler)
from sgdtheory.cli import main
main()
"""


@pytest.fixture
def grid(tmp_path):
    path = tmp_path / "grid.toml"
    path.write_text(GRID.format(steps=40))
    return path


def test_a_sweep_and_the_same_again(run, grid, tmp_path, monkeypatch):
    store, first, second, status = (tmp_path / name for name in ("store", "1.csv", "2.csv", "3.csv"))
    out = run("sweep", grid, "--store", store, "--csv", first)
    assert "4 runs in" in out
    with monkeypatch.context() as patch:
        patch.delattr(group, "Group")  # nothing is trained again
        assert run("sweep", grid, "--store", store, "--csv", second) == out
    assert run("show-sweep", store, "--csv", status) == out
    assert first.read_bytes() == second.read_bytes() == status.read_bytes()
    rows = list(csv.DictReader(io.StringIO(first.read_text())))
    assert [(row["learning_rate"], row["seed"], row["outcome"], row["num_steps"]) for row in rows] == [
        (rate, seed, "steps", "40") for rate in ("0.01", "0.03") for seed in ("0", "1")
    ]
    found = run.json("sweep", grid, "--store", store)
    assert found["outcomes"] == {"steps": 4}
    assert found["notes"] == []
    assert found["runs"]["run"] == [row["run"] for row in rows]
    assert found["runs"]["loss_0.9"] == [float(row["loss_0.9"]) for row in rows]
    assert found["runs"]["steps_0.9"] == [None] * 4


def test_status_reports_strangers_and_moves_nothing(run, tmp_path, capsys):
    (tmp_path / "store" / "holiday").mkdir(parents=True)
    assert run.json("show-sweep", tmp_path / "store") == {
        "runs": {"run": [], "width": [], "learning_rate": [], "batch_size": [], "seed": []}
        | {"outcome": [], "num_steps": []},
        "outcomes": {},
        "notes": [
            f"holiday is left out: {tmp_path}/store/holiday is not the directory of a run: it has no config.json"
        ],
    }
    assert [path.name for path in (tmp_path / "store").iterdir()] == ["holiday"]


@pytest.mark.slow
def test_control_c_and_on(run, grid, tmp_path):
    grid.write_text(GRID.format(steps=12_000))
    store, alone = tmp_path / "store", tmp_path / "alone"
    command = [sys.executable, "-c", PROGRAM, "sweep", str(grid), "--store", str(store), "--lanes", "2", "--json"]
    process = subprocess.Popen([*command, "--checkpoint-seconds", "0.05"], stdout=subprocess.PIPE, text=True)
    try:
        end = time.monotonic() + 300
        while process.poll() is None and not list(store.glob("*/checkpoint.npz")) and time.monotonic() < end:
            time.sleep(0.01)
        process.send_signal(signal.SIGINT)
        out, _ = process.communicate(timeout=300)
    finally:
        process.kill()
    assert process.returncode == 130
    stopped = json.loads(out)
    assert stopped["outcomes"]["unfinished"] > 0
    finished = len(list(store.glob("*/result.json")))
    assert stopped["outcomes"].get("steps", 0) == finished
    on = run.json("sweep", grid, "--store", store, "--lanes", "2")
    assert on["outcomes"] == {"steps": 4}
    assert on == run.json("sweep", grid, "--store", alone, "--lanes", "2")


def test_a_plan(run, grid, tmp_path):
    words = grid.read_text().replace("batch_size = 4\n", "") + "batch_size = [2, 4, 8]\nwidth = [8, 16]\n"
    grid.write_text(words.replace("width = 8\nbase", "base"))
    out = run("plan-sweep", grid, "--store", tmp_path / "none")
    assert (cells(out, "runs")[1], cells(out, "steps left, at most")[1]) == ("24", "960")
    (note,) = run.json("plan-sweep", grid, "--store", tmp_path / "none")["notes"]
    assert f"there are no pilot runs in {tmp_path / 'none'}; train some, or give --scatter 0.05" in note
    assert not (tmp_path / "none").exists()
    found = run.json("plan-sweep", grid, "--store", tmp_path / "none", "--scatter", "0.01")
    assert (found["runs"], found["finished"], found["steps"]) == (24, 0, 960)
    assert found["seconds"] > 0
    assert sum(found["verdicts"].values()) == pytest.approx(1)
    assert found["scatter"]["seeds"] == 0.01
    assert found["scatter"]["balance"] == pytest.approx(4)  # in the middle of 2 and 8, in logs


def test_a_store_is_extended(run, fails, grid, tmp_path):
    store = tmp_path / "store"
    run("sweep", grid, "--store", store)
    assert "--target-loss must be given" in fails("extend-sweep", store)
    found = run.json("extend-sweep", store, "--target-loss", "1e-9")
    assert found["outcomes"] == {"steps": 4}
    assert found["runs"]["num_steps"] == [80] * 4
