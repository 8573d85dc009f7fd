"""Settings that a run has where none are given: those of configs, presets and functions, as the guide states them."""

import inspect

import pytest

from sgdtheory.training import PRESETS, Branches, TrainConfig, branch, coordinate_check, defaults_of, preset, train
from sgdtheory.training.flat import KINDS
from tests.runs import run_of


def test_settings_of_a_run_that_is_given_none():
    assert TrainConfig().as_fields() == {
        **{"model": "mlp", "depth": 2, "activation": "relu", "width": 128, "parametrization": "mup", "base_width": 64},
        **{"data": "teacher", "input_dim": 64, "capacity": 1.5, "source": 2, "noise_variance": 0.1, "task_seed": 0},
        **{"holdout_size": 1024, "data_seed": 0, "trained": "all", "optimizer": "adam", "beta1": 0.9, "beta2": 0.99},
        **{"epsilon": 1e-8, "learning_rate": 0.003, "batch_size": 64, "micro_batch": None, "clip_norm": None},
        **{"schedule": "constant", "warmup": 0, "max_steps": 1000, "schedule_steps": None, "averages": [0.9, 0.99]},
        **{"uniform_average": False, "target_loss": None, "eval_every": 100, "seed": 0, "precision": "float32"},
    }
    rounds = {"num_workers": 1, "local_steps": 1, "outer_learning_rate": 1, "outer_momentum": 0, "weight_decay": 0}
    assert {name: TrainConfig().value(name) for name in rounds} == rounds


OF_KINDS = {
    "residual": {"depth": 2, "activation": "relu"},
    "conv": {"depth": 2, "activation": "relu"},
    "transformer": {"depth": 2, "num_heads": 4, "base_num_heads": None, "attention_kernel": "xla"},
    "recurrent": {"depth": 2},
    "stdlib": {"context": 64},
    "tokens": {"tokens": None, "vocabulary": 256, "context": 64},
    "sgd": {"momentum": 0},
    "sign": {"momentum": 0},
    "muon": {"momentum": 0.95, "update_rms": 0.2, "beta1": 0.9, "beta2": 0.99, "epsilon": 1e-8},
    "schedule_free": {"warmup": 0, "beta1": 0.9},
}


@pytest.mark.parametrize("name", OF_KINDS)
def test_settings_of_other_kinds(name):
    (kind,) = (kinds[name] for kinds in KINDS.values() if name in kinds)
    assert defaults_of(kind) == OF_KINDS[name]


PAPER = {  # presets of the paper and their steps
    **{"85M": 13193, "151M": 23438, "302M": 46875, "604M": 93750, "1.2B": 187500, "604M-deep": 93750},
    **{"1.2B-deep": 187500, "339M-wide": 46875, "944M-wide": 187500},
}


def test_presets():
    """Widths, depths and heads of the paper's: test_models.py. They are all the presets that there are."""
    shared = {
        **{"context": 512, "batch_size": 256, "holdout_size": 6400, "base_width": 1024, "learning_rate": 3.16e-3},
        **{"beta1": 0.95, "clip_norm": 1, "warmup": 0.25, "eval_every": 1000, "precision": "bfloat16"},
        **{"averages": (0.95, 0.98, 0.99, 0.995, 0.998, 0.999, 0.9995)},
    }
    for name, steps in PAPER.items():
        config = preset(name, tokens="-")
        assert {field: config.value(field) for field in shared} == shared
        assert config.max_steps == steps
        assert config.model.base_num_heads in ({None} if config.value("num_heads") == 16 else {16})
    small = {"model": "transformer", "data": "stdlib", "batch_size": 16, "num_heads": 4, "holdout_size": 256}
    small |= {"learning_rate": 0.004, "beta2": 0.99, "clip_norm": 1.0, "warmup": 0.1, "averages": (0.9, 0.98, 0.995)}
    sizes = {"bytes": (64, 2, 64, 2000), "bytes-small": (128, 4, 128, 5000)}
    for name, size in sizes.items():
        fields = dict(zip(("width", "depth", "context", "max_steps"), size, strict=True))
        assert preset(name) == run_of(**small, **fields)
    assert preset("teacher") == TrainConfig()
    assert PRESETS.keys() == PAPER.keys() | sizes.keys() | {"teacher"}


@pytest.mark.parametrize(
    ("function", "expected"),
    [
        (
            coordinate_check,
            {"widths": (64, 128, 256, 512), "steps": (1, 3, 10, 30), "seeds": 8, "tolerance": 0.3, "zero_output": True},
        ),
        (coordinate_check, {"level": 0.95}),
        (branch, {"factors": (1, 2, 4, 8, 16), "rate_exponent": None}),
        (Branches.critical_batch_size, {"tolerance": 0.02, "relative": True, "level": 0.95}),
        (Branches.noise_scale, {"level": 0.95}),
        (train, {"checkpoint_seconds": 30}),
    ],
)
def test_arguments_that_are_left_out(function, expected):
    parameters = inspect.signature(function).parameters
    assert {name: parameters[name].default for name in expected} == expected
