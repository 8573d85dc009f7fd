"""The experiments on sweeps of networks, at a size that says nothing about the claims."""

from dataclasses import replace

import numpy as np
import pytest

from experiments import accumulation, data_scaling, precision, width_invariance
from experiments._lib.network_sweeps import Task, task_configs

TINY = Task(
    fields={"base_width": 8, "input_dim": 4, "noise_variance": 0.1, "holdout_size": 64, "averages": ()},
    widths=(8, 16),
    batch_sizes=(4, 8, 16, 32),
    log2_rate=-6.0,
    rate_exponent=0.5,
    rate_offsets=(0,),
    num_seeds=2,
    targets=(0.7,),
    plateau_steps=60,
    samples=400,
)


def checked(result):
    assert result.columns.keys() == result.units.keys()
    assert len({len(column) for column in result.columns.values()}) == 1
    assert result.figures
    assert result.verdicts
    return result


def test_grids_of_tasks():
    configs = task_configs(replace(TINY, rate_offsets=(-1, 0, 1)), parametrization="standard")
    assert len({config.fingerprint for config in configs}) == len(configs) == 2 * 4 * 3 * 2
    rates = {size: {config.learning_rate for config in configs if config.batch_size == size} for size in (4, 32)}
    assert rates == {4: {2**-7, 2**-6, 2**-5}, 32: {2**-5, 2**-4, 2**-3}}  # 8 times the batch: round(1.5) = 2 octaves
    assert {config.parametrization for config in configs} == {"standard"}
    assert all(config.seed == config.data_seed for config in configs)


@pytest.mark.slow
def test_width_invariance():
    contrast = {"contrast_widths": (8, 16), "contrast_offsets": (-1, 0, 1), "contrast_seeds": 1}
    result = checked(width_invariance.run(width_invariance.Config({"teacher": TINY}, ("teacher",), **contrast)))
    own = np.array(result.columns["parametrization"]) == "mup"
    assert own.sum() == (~own).sum() == 2 * 4
    assert np.isfinite(np.array(result.columns["critical_batch_size"])[own]).all()
    assert "loss 0.7" in result.verdicts[0].claim
    assert "in standard parametrization" in result.verdicts[0].statement


@pytest.mark.slow
def test_data_scaling():
    task = replace(TINY, widths=(8,), targets=(0.9, 0.8, 0.7))
    result = checked(data_scaling.run(data_scaling.Config(tasks={"teacher": task})))
    assert result.columns["data"] == sorted(result.columns["data"])


@pytest.mark.slow
@pytest.mark.parametrize("experiment", [precision, accumulation])
def test_variants(experiment):
    task = replace(TINY, widths=(8,))
    result = checked(experiment.run(experiment.Config(tasks={"teacher": task})))
    assert sorted(set(result.columns["changed"])) == [0, 1]
    if experiment is accumulation:
        assert abs(result.verdicts[0].measured - 1) < 0.05
