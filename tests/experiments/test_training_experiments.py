from dataclasses import replace

import numpy as np
import pytest

from experiments import averaging, learning_rate_transfer, width_limit


@pytest.fixture(scope="module")
def transfer():
    small = {"widths": (16, 32, 64), "base_width": 16, "num_seeds": 2, "num_steps": 16, "num_resamples": 50}
    return learning_rate_transfer.run(replace(learning_rate_transfer.Config(), log2_rates=(-8, -6, -4, -2), **small))


@pytest.mark.slow
def test_learning_rate_transfer(transfer):
    assert len(transfer.columns["loss"]) == 2 * 3 * 4 * 2
    assert transfer.columns.keys() == transfer.units.keys()
    assert np.isfinite(transfer.columns["loss"]).all()


@pytest.mark.slow
def test_width_limit():
    config = width_limit.Config(widths=(16, 32, 64), base_width=16, num_seeds=2, num_steps=16, num_resamples=50)
    result = width_limit.run(config)
    assert result.columns.keys() == result.units.keys()
    at_base = np.array(result.columns["width"]) == 16
    same = [np.array(result.columns["loss"])[at_base & (np.array(result.columns["mup"]) == k)] for k in (0, 1)]
    np.testing.assert_allclose(*same, rtol=1e-4)  # the parametrizations coincide at the base width


@pytest.mark.slow
def test_averaging():
    small = {"width": 16, "durations": (16, 32), "num_seeds": 2, "log2_rates": (-7, -5), "decays": (0.5, 0.9)}
    result = averaging.run(averaging.Config(**small, num_resamples=50))
    assert result.columns.keys() == result.units.keys()
    assert set(result.columns["method"]) == {"constant", "ewa", "cosine", "wsd", "schedule_free"}
