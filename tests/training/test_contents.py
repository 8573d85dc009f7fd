"""Files that are edited after a run has seen them: its directory is not taken for a run of what they are now."""

import importlib
import os
import sys
from pathlib import Path

import numpy as np
import pytest

from sgdtheory.training import RunDirectory, TrainConfig
from sgdtheory.training.contents import CONTENTS, contents_of
from sgdtheory.training.run import Run

SMALL = {"width": 8, "base_width": 8, "batch_size": 4, "holdout_size": 4, "max_steps": 4, "averages": ()}
MODULE = """
import jax
from sgdtheory.training import Custom

def init(key, width):
    first, last = jax.random.split(key)
    return {"in": jax.random.normal(first, (64, width)) / 8, "out": jax.random.normal(last, (width, 1)) / width**0.5}

def apply(weights, x):
    return jax.nn.FUNCTION(x @ weights["in"]) @ weights["out"]

net = Custom(init=init, apply=apply, entry_point="edited_model:net")
"""


def write_arrays(folder, edited):
    x = np.random.default_rng(0).normal(size=(20, 3))
    np.save(folder / "X.npy", x)
    np.save(folder / "y.npy", -x[:, 0] if edited else x[:, 0])
    return {"data": "arrays", "features": str(folder / "X.npy"), "targets": str(folder / "y.npy")}


def write_tokens(folder, edited):
    tokens = np.arange(400, dtype=np.uint16) % 7
    tokens[200] = 9 if edited else 8
    tokens.tofile(folder / "text.bin")
    text = {"data": "tokens", "tokens": str(folder / "text.bin"), "vocabulary": 10, "context": 4}
    return {"model": "transformer", "num_heads": 1, **text}


def write_model(folder, edited):
    (folder / "edited_model.py").write_text(MODULE.replace("FUNCTION", "relu" if edited else "silu"))
    sys.modules.pop("edited_model", None)  # as in another process
    importlib.invalidate_caches()
    return {"model": "custom", "entry_point": "edited_model:net"}


@pytest.mark.parametrize(
    ("write", "name"),
    [
        (write_arrays, r"targets .*y\.npy"),
        (write_tokens, r"tokens .*text\.bin"),
        (write_model, "entry_point edited_model:net"),
    ],
)
def test_what_was_edited_is_said(write, name, tmp_path, monkeypatch):
    monkeypatch.syspath_prepend(tmp_path)
    monkeypatch.setattr(sys, "dont_write_bytecode", True)
    directory = tmp_path / "run"

    def config(edited):
        return TrainConfig.from_fields(SMALL | write(tmp_path, edited))

    before = contents_of(config(edited=False))
    Run(config(edited=False), directory)
    for path in tmp_path.glob("*.*"):
        os.utime(path, ns=(1, 1))  # another time is no other content
    Run(config(edited=False), directory)
    assert contents_of(config(edited=False)) == before
    message = f"{name} has been edited since: its hash was [0-9a-f]{{16}}, now it is [0-9a-f]{{16}}"
    with pytest.raises(ValueError, match=f"^{directory} has a run for which {message}; take another directory$"):
        Run(config(edited=True), directory)
    with pytest.raises(ValueError, match=message):
        RunDirectory(directory).check(config(edited=True))
    with pytest.raises(ValueError, match=message):
        RunDirectory(directory).result(config(edited=True))
    assert not RunDirectory(tmp_path / "other").adopt(config(edited=True), RunDirectory(directory), config(edited=True))
    Run(config(edited=False), directory)


def test_runs_that_kept_no_hashes_go_on(tmp_path):
    config = TrainConfig.from_fields(SMALL | write_arrays(tmp_path, edited=False))
    Run(config, tmp_path / "run")
    (tmp_path / "run" / CONTENTS).unlink()
    write_arrays(tmp_path, edited=True)
    RunDirectory(tmp_path / "run").check(config)


def test_files_that_are_gone_are_not_edited(tmp_path):
    """A store can be read where its data are not."""
    config = TrainConfig.from_fields(SMALL | write_arrays(tmp_path, edited=False))
    Run(config, tmp_path / "run")
    Path(tmp_path, "y.npy").unlink()
    RunDirectory(tmp_path / "run").check(config)


def test_runs_without_files_keep_no_hashes(tmp_path):
    Run(TrainConfig(), tmp_path)
    assert not (tmp_path / CONTENTS).exists()
    assert not RunDirectory(tmp_path).begun(TrainConfig())
