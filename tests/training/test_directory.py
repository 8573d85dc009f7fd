"""Folders of runs: what they have, what lies in them, and what is printed of a result."""

import numpy as np
import pytest

from sgdtheory.training import RunDirectory, TrainResult
from sgdtheory.training.entry_point import is_inside
from tests.runs import run_of


def test_a_directory_has_a_checkpoint_once_its_file_is_there(tmp_path):
    assert not RunDirectory(tmp_path).has_checkpoint
    (tmp_path / "checkpoint.npz").touch()
    assert RunDirectory(tmp_path).has_checkpoint


def test_a_path_is_inside_by_its_name_or_by_where_its_links_lead(tmp_path):
    for name in ("store/run", "elsewhere"):
        (tmp_path / name).mkdir(parents=True)
    (tmp_path / "link").symlink_to(tmp_path / "store" / "run")
    (tmp_path / "store" / "out").symlink_to(tmp_path / "elsewhere")
    store = tmp_path / "store"
    for path in ("store", "store/run", "store/run/not_there.py", "link", "link/not_there.py", "store/out"):
        assert is_inside(tmp_path / path, store)
    for path in (".", "elsewhere", "store2", "not/there.py"):
        assert not is_inside(tmp_path / path, store)
    assert not is_inside(tmp_path, tmp_path / "not_there")


@pytest.mark.parametrize("tokens", [True, False])
def test_a_table_has_the_speed_in_tokens_of_text_alone(tokens):
    config = run_of(**({"model": "transformer", "data": "stdlib", "context": 16, "batch_size": 4} if tokens else {}))
    steps, losses = np.arange(2), np.ones((2, len(config.average_names)))
    nothing = np.full(2, np.nan)
    found = TrainResult(config, "steps", 1, steps, losses, nothing, nothing, nothing, 1, 6.0, 5.0)
    expected = ", 320 tokens/s" if tokens else ""
    assert f"5 steps/s{expected}, 6.0 s in all" in str(found.sheet())
