"""A store that 0.1.0 wrote (`store_of_0_1_0/`, recorded) is read, renamed and gone on with.

Its four directories are three runs: f77d2b332793 ended and is plain; 5615725a3efd ended, with a momentum that Adam does
not have; 86703c771d5a is the same run at step 20, with heads that an MLP does not have; 82f6a615646c is SGD at step 20
with a beta2.
"""

import shutil
from pathlib import Path

import numpy as np
import pytest

from sgdtheory.sweep import Store, SweepTable, sweep
from sgdtheory.training import read_weights, resume, train
from sgdtheory.training.config_file import read_config
from tests.runs import changed
from tests.sweep.small import BASE

RECORDED = Path(__file__).parent / "store_of_0_1_0"
PLAIN = changed(BASE, learning_rate=0.01)
TWIN = changed(BASE, learning_rate=0.03)
SGD = changed(BASE, optimizer="sgd")


@pytest.fixture
def store(tmp_path):
    return Path(shutil.copytree(RECORDED, tmp_path / "store"))


def names(store):
    return {path.name for path in store.iterdir() if not path.name.startswith(".")}


def test_configs_lose_what_did_not_matter():
    found = {path.name: read_config(path / "config.json") for path in RECORDED.iterdir()}
    assert found == {"f77d2b332793": PLAIN, "5615725a3efd": TWIN, "86703c771d5a": TWIN, "82f6a615646c": SGD}
    assert PLAIN.fingerprint == "f77d2b332793"
    assert not {TWIN.fingerprint, SGD.fingerprint} & found.keys()


def test_a_store_is_read_as_it_is(store):
    for result in SweepTable.from_store(store).finished:
        np.testing.assert_allclose(result.losses, train(result.config).losses, rtol=1e-4)


def test_of_two_directories_of_a_run_the_one_that_is_further_is_read(store):
    before = names(store)
    table = SweepTable.from_store(store)
    assert names(store) == before
    assert {config: result is not None for config, result in zip(table.configs, table.results, strict=True)} == {
        PLAIN: True,
        TWIN: True,
        SGD: False,
    }
    assert table.notes == ("86703c771d5a is left out: 5615725a3efd is the same run, and as far or further",)


def test_a_sweep_renames_and_goes_on(store):
    finished = {name: (store / name / "curve.csv").read_bytes() for name in ("f77d2b332793", "5615725a3efd")}
    half = read_weights(store / "82f6a615646c")
    table = sweep([PLAIN, TWIN, SGD], store)
    assert names(store) == {PLAIN.fingerprint, TWIN.fingerprint, SGD.fingerprint, "set-aside"}
    assert [path.name for path in (store / "set-aside").iterdir()] == ["86703c771d5a"]
    (note,) = table.notes
    assert note.startswith("86703c771d5a was set aside as ")
    assert [len(table.results), *(result.num_steps for result in table.finished)] == [3, 40, 40, 40]
    assert (store / PLAIN.fingerprint / "curve.csv").read_bytes() == finished["f77d2b332793"]
    assert (store / TWIN.fingerprint / "curve.csv").read_bytes() == finished["5615725a3efd"]
    np.testing.assert_allclose(table.finished[2].losses, train(SGD).losses, rtol=1e-4)
    assert np.abs(read_weights(store / SGD.fingerprint)["input"] - half["input"]).max() > 1e-4
    assert sweep([PLAIN, TWIN, SGD], store).notes == ()


def test_of_two_directories_the_one_that_is_further_is_kept(store):
    shutil.copytree(store / "5615725a3efd", store / TWIN.fingerprint)
    (store / TWIN.fingerprint / "result.json").unlink()
    (store / TWIN.fingerprint / "checkpoint.npz").unlink()
    notes = Store(store).prepare()
    assert [note.split()[0] for note in notes] == [TWIN.fingerprint, "86703c771d5a"]
    assert (store / TWIN.fingerprint / "result.json").exists()


def test_a_run_that_another_process_works_on_is_left_alone(store):
    other = Store(store)
    (store / ".locks").mkdir()
    with other.locked_names(["82f6a615646c"]) as free:
        assert free
        Store(store).prepare()
        assert (store / "82f6a615646c").exists()
    Store(store).prepare()
    assert not (store / "82f6a615646c").exists()
    assert (store / SGD.fingerprint).exists()


def test_a_directory_is_resumed_bit_for_bit(store, tmp_path):
    found = resume(store / "82f6a615646c")
    whole = resume(store / "82f6a615646c", max_steps=60)
    assert (found.num_steps, whole.num_steps) == (40, 60)
    np.testing.assert_allclose(found.losses, train(SGD).losses, rtol=1e-4)
    again = shutil.copytree(RECORDED / "82f6a615646c", tmp_path / "again")
    np.testing.assert_array_equal(resume(again).losses, found.losses)
