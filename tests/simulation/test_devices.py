"""The same numbers on any number of devices and processes, which subprocesses have."""

import json
import os
import socket
import subprocess
import sys

import jax
import numpy as np
import pytest

import sgdtheory as st

PATIENCE = 300  # seconds
CALL = {
    "batch_size": [[1.0], [8.0]],
    "learning_rate": 0.3,
    "num_samples": [[16.0, 1600.0]],
    "num_replicas": 13,
    "trajectory": 3,
}
EXPLICIT = {"batch_size": 4.0, "learning_rate": 0.3, "num_samples": 200.0, "num_replicas": 7, "sampler": "explicit"}
MOMENTUM = {"batch_size": [4.0, 9.0], "learning_rate": 0.1, "num_samples": 900.0, "num_replicas": 7}
ROWS = {"batch_size": 3.0, "learning_rate": 0.1, "num_samples": 300.0, "num_replicas": 7, "rows": 20}
ALGORITHM = "st.Algorithm(st.HeavyBall(0.5), st.Cosine(), st.Linear(final=2), st.TailAverage())"
PROLOGUE = f"""
import json, sys, warnings
warnings.simplefilter("error")
import jax
import sgdtheory as st
CALL, MOMENTUM, EXPLICIT, ROWS = {CALL!r}, {MOMENTUM!r} | dict(algorithm={ALGORITHM}), {EXPLICIT!r}, {ROWS!r}

def simulated(rows=None, **call):
    problem = st.PowerLaw(2.0, 1.5, 20)
    problem = problem if rows is None else problem.with_samples(rows, replacement=False)
    return st.simulate(jax.random.key(3), problem, **call)

def numbers(calls=(CALL, MOMENTUM, EXPLICIT, ROWS), **options):
    found = [simulated(**call, **options) for call in calls]
    arrays = [found[0].excess_risk, found[0].trajectory.last_iterate_risk, *(f.excess_risk for f in found[1:])]
    return [array.tolist() for array in arrays]
"""
DEVICES = """
devices = jax.devices()
assert len(devices) == 4
result = {"all": numbers(), "two": numbers([CALL], devices=devices[1:3])}
result["one"] = numbers([CALL], devices=devices[3:], memory_limit=1)
json.dump(result, open(sys.argv[1], "w"))
"""
PROCESSES = """
jax.distributed.initialize(sys.argv[2], 2, int(sys.argv[3]))
assert jax.process_count() == 2
assert len(jax.devices()) == 4
json.dump(numbers(), open(sys.argv[1], "w"))
"""


def free_address():
    with socket.socket() as probe:
        probe.bind(("localhost", 0))
        return f"localhost:{probe.getsockname()[1]}"


def start(program, devices, *arguments):
    environment = os.environ | {
        "XLA_FLAGS": f"{os.environ.get('XLA_FLAGS', '')} --xla_force_host_platform_device_count={devices}",
        "JAX_PLATFORMS": "cpu",
    }
    command = [sys.executable, "-c", PROLOGUE + program, *map(str, arguments)]
    return subprocess.Popen(command, env=environment, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)


def finish(*processes):
    try:
        for process in processes:
            _, error = process.communicate(timeout=PATIENCE)
            assert process.returncode == 0, error
    finally:
        for process in processes:
            process.kill()


def simulated(rows=None, **call):
    problem = st.PowerLaw(2.0, 1.5, 20)
    problem = problem if rows is None else problem.with_samples(rows, replacement=False)
    return st.simulate(jax.random.key(3), problem, **call)


def numbers(*calls):
    found = [simulated(**call) for call in calls]
    return [found[0].excess_risk, found[0].trajectory.last_iterate_risk, *(each.excess_risk for each in found[1:])]


@pytest.fixture(scope="module")
def here():
    return numbers(CALL, MOMENTUM | {"algorithm": eval(ALGORITHM)}, EXPLICIT, ROWS)  # as the subprocesses have it


def same(first, second):
    for one, other in zip(first, second, strict=True):
        np.testing.assert_allclose(one, other, rtol=1e-5)


@pytest.mark.slow
def test_any_number_of_devices_gives_the_same_numbers(here, tmp_path):
    finish(start(DEVICES, 4, tmp_path / "numbers"))
    found = json.loads((tmp_path / "numbers").read_text())
    assert [len(numbers) for numbers in found.values()] == [5, 2, 2]
    for numbers in found.values():
        same(numbers, here[: len(numbers)])


@pytest.mark.slow
def test_two_processes_give_the_same_numbers_to_both(here, tmp_path):
    address = free_address()
    finish(*(start(PROCESSES, 2, tmp_path / str(number), address, number) for number in range(2)))
    for number in range(2):
        same(json.loads((tmp_path / str(number)).read_text()), here)


def test_devices_are_any_sequence():
    quick = CALL | {"num_samples": 32.0}
    plain = numbers(quick)
    for devices in (jax.devices(), tuple(jax.devices()), np.array(jax.devices())):
        same(numbers(quick | {"devices": devices}), plain)


@pytest.mark.parametrize("devices", [[], [jax.devices()[0]] * 2, jax.devices()[0], ["cpu"], [jax.devices()[0], "cpu"]])
def test_bad_devices(devices):
    with pytest.raises(ValueError, match="devices must be a list of different JAX devices, at least one, got"):
        numbers(CALL | {"devices": devices})
