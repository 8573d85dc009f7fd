"""The same losses on any number of devices and processes, which subprocesses have."""

import json

import numpy as np
import pytest

from sgdtheory.training import train
from tests.runs import run_of
from tests.simulation.test_devices import finish, free_address
from tests.simulation.test_devices import start as _start  # its prologue imports what the simulator needs

SHARED = {"width": 16, "base_width": 8, "epsilon": 1e-3}
FIELDS = SHARED | {"depth": 1, "input_dim": 4, "batch_size": 8, "holdout_size": 16, "max_steps": 10}
FIELDS |= {"averages": (0.5,), "learning_rate": 0.05}
TEXT = SHARED | {"model": "transformer", "data": "stdlib", "num_heads": 2, "depth": 2, "context": 8, "batch_size": 4}
TEXT |= {"holdout_size": 8, "max_steps": 6, "learning_rate": 0.02, "clip_norm": 0.5}
DEVICES = f"""
from sgdtheory.training import TrainConfig, train
assert len(jax.devices()) == 2
runs = {[FIELDS, FIELDS | {"micro_batch": 4}, TEXT]!r}
found = [train(TrainConfig.from_fields(fields)).losses.tolist() for fields in runs[: int(sys.argv[2])]]
json.dump(found, open(sys.argv[1], "w"))
"""
PROCESSES = f"""
jax.distributed.initialize(sys.argv[2], 2, int(sys.argv[3]))
from sgdtheory.training import TrainConfig, train
assert jax.process_count() == 2
assert len(jax.devices()) == 2
json.dump([train(TrainConfig.from_fields({FIELDS!r})).losses.tolist()], open(sys.argv[1], "w"))
"""


def losses(fields):
    result = train(run_of(**fields))
    assert result.losses[-1, 0] < 0.95 * result.losses[0, 0]
    return result.losses


@pytest.fixture(scope="module")
def here():
    return losses(FIELDS)


def same(path, *expected):
    for found, here in zip(json.loads(path.read_text()), expected, strict=True):
        np.testing.assert_allclose(found, here, rtol=1e-5)


def test_two_devices_give_the_same_losses(here, tmp_path):
    finish(_start(DEVICES, 2, tmp_path / "losses", 1))
    same(tmp_path / "losses", here)


@pytest.mark.slow
def test_two_devices_give_the_same_losses_of_micro_batches_and_text(here, tmp_path):
    finish(_start(DEVICES, 2, tmp_path / "losses", 3))
    same(tmp_path / "losses", here, here, losses(TEXT))


@pytest.mark.slow
def test_two_processes_give_the_same_losses_to_both(here, tmp_path):
    address = free_address()
    finish(*(_start(PROCESSES, 1, tmp_path / str(number), address, number) for number in range(2)))
    for number in range(2):
        same(tmp_path / str(number), here)
