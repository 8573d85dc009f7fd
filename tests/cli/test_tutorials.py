"""`sgdtheory tutorials`: notebooks and files of the guides, with which the guides' commands run."""

import json

import numpy as np
import pytest

import sgdtheory as st
from sgdtheory.cli import tutorials as command
from tests.docs.blocks import ROOT, TUTORIALS


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    """Return the folder that the command has written."""
    written = tmp_path_factory.mktemp("tutorials")
    command.tutorials(written)
    return written


def test_every_tutorial_is_a_notebook(folder):
    assert {page.stem for page in TUTORIALS} <= {path.stem for path in folder.glob("*.ipynb")}
    for path in folder.glob("*.ipynb"):
        assert json.loads(path.read_text())["nbformat"] == 4


def test_files_that_pages_show_are_written(folder):
    for name in ("test_my_bound.py", "mynets.py", "runs.csv", "throughput.csv", "first.toml"):
        assert f"<!-- file: {name} -->" in "".join(page.read_text() for page in (ROOT / "docs").glob("*.md"))
        assert (folder / name).stat().st_size > 0


def test_files_that_exist_are_kept(folder, run):
    (folder / "grid.csv").write_text("mine")
    shown = run.json("tutorials", "--write", folder)
    assert (folder / "grid.csv").read_text() == "mine"
    assert {"file": "run.log"}.items() <= next(row for row in shown["files"] if row["file"] == "run.log").items()
    (folder / "grid.csv").unlink()
    run("tutorials", "--write", folder, "--json")


def test_the_made_logs_have_the_critical_batch_size_of_their_law(folder, run):
    """20% more data than at B = 64: (1 + B/300) = 1.2 (1 + 64/300), B = 136.8."""
    (group,) = run.json("fit", folder / "runs", "--target-loss", 3.0)["groups"]
    low, high = group["critical_batch_size_interval"]
    assert low < 136.8 < high


def test_the_made_gradients_have_their_noise_scale(folder):
    columns = np.genfromtxt(folder / "log.csv", delimiter=",", names=True)
    found = st.fit_noise_scale(columns["small_norm"], columns["large_norm"], small_batch=32, large_batch=256)
    assert np.mean(found.noise_scale) == pytest.approx(40, rel=0.05)


def test_the_made_grid_is_read_by_both_names_of_its_columns(folder):
    first = st.read_loss_grid(folder / "grid.csv", batch_size="bs", samples="tokens", learning_rate="lr", group="model")
    second = st.read_loss_grid(folder / "grid.csv", group="model")
    assert first == second
    assert len(first["loss"]) == 360


def test_an_installation_without_pages_says_so(monkeypatch, tmp_path):
    monkeypatch.setattr(command, "PACKAGE", tmp_path / "sgdtheory")
    with pytest.raises(FileNotFoundError, match="no tutorials"):
        command.tutorials(tmp_path / "out")
