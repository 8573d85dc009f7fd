"""What commands do where flags are left out, as their help and the guides have it."""

import dataclasses
from pathlib import Path

import pytest

from sgdtheory.cli.commands import COMMANDS, command_named
from sgdtheory.cli.flags import MOST_DIGITS, kind_of
from sgdtheory.cli.network import NetworkFlags

STORE, FIT = {"store": Path("runs")}, {"overhead": 0.2, "level": 0.95}
ALGORITHM = {"method": "sgd", "schedule": "constant", "batch_schedule": "constant", "average": "uniform"}
CHECKPOINTS = {"checkpoint_seconds": 30}
LOGS, GRID = {"loss": "train", "level": 0.95}, {"samples": "samples", "level": 0.95}
DEFAULTS = {  # of flags that are neither switched off, nor without a value
    "risk": ALGORITHM,
    "path": {"points": 200},
    "schedule": {"method": "sgd"},
    "simulate": ALGORITHM
    | {"num_replicas": 1024, "sampler": "sufficient", "law": "gaussian", "dtype": "float32"}
    | {"outputs": 1, "quantity": "total", "memory_limit": 1e9},
    "cbs": ALGORITHM | {"overhead": 0.2, "risk_factor": 2},
    "explore": {"host": "127.0.0.1"},
    "features": FIT | {"num_replicas": 64},
    "fit": FIT | {"steps": "steps", "data": "c4"},
    "fit-grid": FIT | GRID | {"degradation": 0.01},
    "fit-rates": GRID,
    "fit-law": GRID,
    "plan": {"steps": "steps", "loss": "train", "micro_batch": 1, "currency": "USD"},
    "fit-curves": FIT | LOGS | {"example": "100M"},
    "forecast": LOGS,
    "advise": {"level": 0.95},
    "train": CHECKPOINTS,
    "resume": CHECKPOINTS,
    "sweep": STORE | CHECKPOINTS | {"jobs": 1},
    "noise-scale": {"small_norms": "small_norm", "large_norms": "large_norm", "level": 0.95},
    "coordcheck": {"widths": (64, 128, 256, 512), "steps": (1, 3, 10, 30), "seeds": 8, "tolerance": 0.3}
    | {"zero_output": True},
    "plan-sweep": STORE | {"margin": 0.2},
    "show-sweep": STORE | {"by": ("width",)},
    "fit-sweep": STORE | FIT | {"by": ("width",), "margin": 0.2},
    "extend-sweep": STORE | CHECKPOINTS | {"by": ("width",), "jobs": 1},
}
ZERO = {"seed", "precondition", "warmup_samples", "decay_samples"}  # flags that are 0


@pytest.mark.parametrize("name", COMMANDS)
def test_defaults(name):
    """Those of a network are the fields of its config: test_defaults.py of the training."""
    command = command_named(name)
    fields = dataclasses.fields(NetworkFlags) if NetworkFlags in command.shared.values() else ()
    flags = [flag for flag in command.flags if not flag.required and flag.name not in {each.name for each in fields}]
    found = {flag.name: flag.default for flag in flags if flag.default not in (None, (), False, "")}
    assert found == DEFAULTS.get(name, {})
    assert {flag.name for flag in flags if flag.default == 0 and flag.default is not False} <= ZERO


def test_whole_numbers_have_a_bounded_number_of_digits():
    assert MOST_DIGITS == 30
    assert kind_of(int).read("1e30") == 10**30
    with pytest.raises(ValueError, match="is no whole number"):
        kind_of(int).read("1e31")
