"""Averages of iterates against their closed forms."""

import jax.numpy as jnp
import numpy as np

from sgdtheory.training import averaging, read_weights, resume, train
from sgdtheory.training.averaging import decays, start
from tests.runs import run_of

CONFIG = run_of(
    width=8, base_width=8, depth=1, input_dim=4, batch_size=4, holdout_size=8, max_steps=1, schedule_steps=9,
    learning_rate=0.1, averages=(0.0, 0.5, 0.9), uniform_average=True,
)  # fmt: skip


def closed(tau, iterates):
    t = len(iterates)
    return tau**t * iterates[0] + (1 - tau) * sum(tau ** (t - 1 - s) * iterates[s] for s in range(t))


def test_recursion_against_the_closed_form():
    rng = np.random.default_rng(0)
    iterates = rng.standard_normal((30, 5)).astype(np.float32)
    rates = jnp.asarray(decays(CONFIG))
    averages = start({"w": jnp.asarray(iterates[0])}, 4)
    for t in range(30):
        averages = averaging.updated(averages, {"w": jnp.asarray(iterates[t])}, rates, jnp.int32(t))
        done = iterates[: t + 1].astype(float)
        expected = [*(closed(tau, done) for tau in (0.0, 0.5, 0.9)), done.mean(0)]
        np.testing.assert_allclose(averages["w"], expected, rtol=1e-5, atol=1e-6)


def test_averages_of_a_run_against_its_iterates(tmp_path):
    train(CONFIG, tmp_path)
    iterates = [read_weights(tmp_path)["input"]]
    uniform = [read_weights(tmp_path, "uniform")["input"]]  # of t = 1: θ_0
    initial = uniform[0].astype(float)
    for steps in range(2, 7):
        resume(tmp_path, max_steps=steps)
        iterates.append(read_weights(tmp_path)["input"])
    before = np.array([initial, *iterates[:-1]], float)  # θ_0 … θ_5
    assert np.abs(np.diff(before, axis=0)).max() > 0.01
    for tau in (0.0, 0.5, 0.9):
        found = read_weights(tmp_path, str(tau))["input"]
        np.testing.assert_allclose(found, closed(tau, before), rtol=1e-5, atol=1e-6)
    np.testing.assert_allclose(read_weights(tmp_path, "uniform")["input"], before.mean(0), rtol=1e-5, atol=1e-6)
