"""Schedules, clipping, SGD and Adam against NumPy."""

import math

import jax
import jax.numpy as jnp
import numpy as np
import optax
import pytest

from sgdtheory import training
from sgdtheory.training import read_weights, train
from sgdtheory.training.engine import init, program, stacked
from sgdtheory.training.optimization import optimizer, rates, schedule_factor
from sgdtheory.training.parametrization import Factors
from sgdtheory.training.streams import stream
from tests.marks import slow
from tests.runs import changed, run_of

CONFIG = run_of(
    width=16, base_width=8, depth=1, input_dim=4, batch_size=6, holdout_size=8, max_steps=5, learning_rate=0.05,
    activation="tanh", averages=(), epsilon=1e-2, warmup=0.4,
)  # fmt: skip


def factor_by_hand(schedule, t, duration, warmup, own=None):
    """f(t/n) of T21; `own` is the shape's number, or a pair of the decay and the power of it."""
    u = t / duration
    if u < warmup:
        return u / warmup
    v = (u - warmup) / (1 - warmup)
    return {
        "constant": lambda: 1,
        "schedule_free": lambda: 1,
        "cosine": lambda: own + (1 - own) * 0.5 * (1 + math.cos(math.pi * v)),
        "linear": lambda: 1 - (1 - own) * v,
        "wsd": lambda: 1 if u <= 1 - own else (1 - u) / own,
        "power": lambda: (1 - v) ** own,
        "wsd power": lambda: 1 if u <= 1 - own[0] else 1 - ((u - 1 + own[0]) / own[0]) ** own[1],
        "power decay": lambda: 1 if u <= 1 - own[0] else ((1 - u) / own[0]) ** own[1],
    }[schedule]()


@pytest.mark.parametrize(
    ("schedule", "own"),
    [
        *(("constant", None), ("schedule_free", None), ("cosine", 0.0), ("cosine", 0.1)),
        *(("linear", 0.0), ("linear", 0.3), ("wsd", 0.5), ("wsd", 0.25), ("power", 0.0), ("power", 1.7)),
        *(("wsd power", (0.5, 0.5)), ("wsd power", (0.25, 2.0)), ("power decay", (0.5, 0.4))),
    ],
)
@pytest.mark.parametrize(("duration", "warmup"), [(40, 0.25), (16, 0.0), (37, 0.1)])
def test_schedules_by_hand(schedule, own, duration, warmup):
    names = {"cosine": "final", "linear": "final", "wsd": "decay", "power": "exponent"}.get(schedule)
    names = {"wsd power": ("decay", "power"), "power decay": ("decay", "exponent")}.get(schedule, names)
    fields = dict(zip(names, own, strict=True)) if isinstance(own, tuple) else {names: own} if names else {}
    config = run_of(schedule=schedule.split()[0], max_steps=duration, warmup=warmup, **fields)
    steps = np.arange(duration)
    found = [float(schedule_factor(config, jnp.int32(t))) for t in steps]
    expected = [factor_by_hand(schedule, t, duration, warmup, own) for t in steps]
    np.testing.assert_allclose(found, expected, rtol=1e-5, atol=1e-6)
    if schedule != "schedule_free":
        np.testing.assert_allclose(found, config.schedule.factors(steps, duration), rtol=1e-5, atol=1e-6)


@pytest.mark.parametrize("duration", [10, 11, 300, 100003])
def test_stages_begin_at_the_steps_of_the_theory(duration):
    """Also where t/n in single precision is below the fraction, as 3/10 may be; beyond the end the last one stays."""
    fractions = [0, 0.1, 0.3, 0.7, 0.9]
    config = run_of(schedule="stages", stages="0:1,0.1:0.5,0.3:0.25,0.7:2,0.9:0", max_steps=duration)
    near = {t for u in fractions for t in range(int(u * duration) - 1, int(u * duration) + 3) if 0 <= t < duration}
    steps = np.array([*sorted(near), duration, 2 * duration])
    found = [float(schedule_factor(config, jnp.int32(t))) for t in steps]
    np.testing.assert_array_equal(found, config.schedule.factors(np.minimum(steps, duration), duration))


def test_the_end_of_a_schedule_stays():
    for fields, end in (({"warmup": 0.5}, 1.0), ({"warmup": 1.0}, 1.0), ({"schedule": "schedule_free"}, 1.0)):
        config = run_of(**fields, max_steps=300, schedule_steps=100)
        assert float(schedule_factor(config, jnp.int32(250))) == end


def initial(config):
    state = init(stacked([config]), config=program(config))
    return {name: np.asarray(part[0], float) for name, part in state.params.items()}


def gradient(weights, inputs, targets):
    hidden = np.tanh(inputs @ weights["input"] + weights["input_bias"])
    errors = hidden @ weights["output"][:, 0] - targets
    outer = 2 * errors / len(errors)
    back = outer[:, None] * weights["output"][:, 0] * (1 - hidden**2)
    parts = {"input": inputs.T @ back, "input_bias": back.sum(0), "output": (hidden.T @ outer)[:, None]}
    return np.mean(errors**2), parts


# Width 2 times the base's: µP's factors by hand.
SGD = {"input": 2.0, "input_bias": 2.0, "output": 0.5}
ADAM = {"input": 1.0, "input_bias": 1.0, "output": 0.5}
EPSILON = {"input": 0.5, "input_bias": 0.5, "output": 1.0}


def run_by_hand(config, own_rates=SGD, own_epsilon=EPSILON):
    weights, data = initial(config), stream(config)
    first = {name: 0 * part for name, part in weights.items()}
    second = {name: 0 * part for name, part in weights.items()}
    for t, piece in enumerate(data.chunk(0, 0, config.max_steps)):
        inputs, targets = (np.asarray(part, float) for part in data.batch(np.uint32(0), piece))
        _, parts = gradient(weights, inputs, targets)
        if config.clip_norm:
            norm = math.sqrt(sum(SGD[name] * (part**2).sum() for name, part in parts.items()))
            parts = {name: part * min(1, config.clip_norm / norm) for name, part in parts.items()}
        rate = config.learning_rate * factor_by_hand("constant", t, config.max_steps, config.schedule.warmup)
        for name, part in parts.items():
            if isinstance(config.optimizer, training.SGD):
                first[name] = config.optimizer.momentum * first[name] + part
                weights[name] = weights[name] - rate * own_rates[name] * first[name]
                continue
            first[name] = config.optimizer.beta1 * first[name] + (1 - config.optimizer.beta1) * part
            second[name] = config.optimizer.beta2 * second[name] + (1 - config.optimizer.beta2) * part**2
            mean = first[name] / (1 - config.optimizer.beta1 ** (t + 1))
            root = np.sqrt(second[name] / (1 - config.optimizer.beta2 ** (t + 1)))
            step = mean / (root + config.optimizer.epsilon * own_epsilon[name])
            decay = 0.0 if name.endswith("bias") else config.optimizer.weight_decay
            weights[name] = weights[name] - rate * (own_rates[name] * step + decay * weights[name])
    return weights


def compare(config, expected, directory, rtol=2e-5, atol=2e-6):
    train(config, directory)
    found = read_weights(directory)
    assert found.keys() == expected.keys()
    for name, part in expected.items():
        assert np.abs(part - initial(config)[name]).max() > 1e-3
        np.testing.assert_allclose(found[name], part, rtol=rtol, atol=atol)


@pytest.mark.parametrize("momentum", [slow(0.0), 0.7])
@pytest.mark.parametrize("clip_norm", [slow(None), 0.4])
def test_sgd_by_hand(momentum, clip_norm, tmp_path):
    config = changed(CONFIG, optimizer="sgd", momentum=momentum, clip_norm=clip_norm)
    compare(config, run_by_hand(config), tmp_path)


@pytest.mark.parametrize("clip_norm", [None, slow(0.1)])
def test_adam_by_hand(clip_norm, tmp_path):
    config = changed(CONFIG, clip_norm=clip_norm)
    compare(config, run_by_hand(config, ADAM), tmp_path)
    if clip_norm is None:  # one ε for all tensors is another run
        with pytest.raises(AssertionError, match="Not equal to tolerance"):
            compare(config, run_by_hand(config, ADAM, dict.fromkeys(ADAM, 1.0)), tmp_path)


def test_adam_with_weight_decay_by_hand(tmp_path):
    """At twice the base width γκ is the same; a decay that follows the width's factors, or none, is another run."""
    config = changed(CONFIG, weight_decay=2.0)
    compare(config, run_by_hand(config, ADAM), tmp_path)
    with pytest.raises(AssertionError, match="Not equal to tolerance"):
        compare(config, run_by_hand(CONFIG, ADAM), tmp_path)


def test_weight_decay_at_the_base_width_is_that_of_optax():
    config = changed(CONFIG, width=8, weight_decay=0.3, warmup=0.0)
    scales = dict.fromkeys(initial(config), Factors(1.0, 1.0, 1.0, 1.0, 1.0))
    mine = optimizer(config, scales, rates(config))
    matrices = {name: not name.endswith("bias") for name in scales}
    theirs = optax.adamw(config.learning_rate, 0.9, 0.99, 1e-2, weight_decay=0.3, mask=matrices)
    weights = {name: jnp.asarray(part, jnp.float32) for name, part in initial(config).items()}
    states = [each.init(weights) for each in (mine, theirs)]
    for number in range(3):
        gradients = {name: jnp.sin(part + number) for name, part in weights.items()}
        (found, states[0]), (expected, states[1]) = (
            each.update(gradients, state, weights) for each, state in zip((mine, theirs), states, strict=True)
        )
        for name, part in expected.items():
            np.testing.assert_allclose(found[name], part, rtol=1e-5, atol=1e-7)
        weights = optax.apply_updates(weights, expected)


@pytest.mark.slow
def test_clipping_changes_the_run():
    config = changed(CONFIG, optimizer="sgd")
    free, clipped = run_by_hand(config), run_by_hand(changed(config, clip_norm=0.4))
    assert np.abs(free["input"] - clipped["input"]).max() > 1e-3


def schedule_free_by_hand(config, later=0):
    """Run facebookresearch/schedule_free's update: z_{t+1} has the weight γ_t² in the average, γ_t being its rate.

    With `later` = 1 it weighs γ_{t+1}².
    """
    z, data, beta = initial(config), stream(config), config.schedule.interpolation
    x, total = dict(z), 0.0
    for t, piece in enumerate(data.chunk(0, 0, config.max_steps)):
        inputs, targets = (np.asarray(part, float) for part in data.batch(np.uint32(0), piece))
        y = {name: (1 - beta) * z[name] + beta * x[name] for name in z}
        rate, weighing = (
            config.learning_rate * factor_by_hand("constant", step, config.max_steps, config.schedule.warmup)
            for step in (t, t + later)
        )
        z = {name: z[name] - rate * SGD[name] * part for name, part in gradient(y, inputs, targets)[1].items()}
        total += weighing**2
        share = weighing**2 / total if total else 0.0
        x = {name: (1 - share) * x[name] + share * z[name] for name in z}
    return x


@pytest.mark.parametrize("warmup", [0.8, slow(0.0)])
def test_schedule_free_by_hand(warmup, tmp_path):
    config = changed(CONFIG, optimizer="sgd", schedule="schedule_free", warmup=warmup, learning_rate=0.2)
    compare(config, schedule_free_by_hand(config), tmp_path)
    if warmup:
        with pytest.raises(AssertionError, match="Not equal to tolerance"):
            compare(config, schedule_free_by_hand(config, later=1), tmp_path)


FROZEN = changed(CONFIG, depth=2, trained="output", learning_rate=0.1, warmup=0.0)


def features(config, weights, inputs):
    """Last hidden activations φ(x), (B, n)."""
    inner = {name: jnp.asarray(part, jnp.float32) for name, part in weights.items()}
    return np.tanh(np.asarray(jax.jit(config.network.apply)(inner, inputs)[1]["hidden"][-1], float))


def output_by_hand(config):
    """w ← w − γ r^{−1} (2/B) Σ_j (⟨w, φ_j⟩ − y_j) φ_j, with r^{−1} µP's rate of the output."""
    weights, data = initial(config), stream(config)
    output = weights["output"][:, 0]
    for piece in data.chunk(0, 0, config.max_steps):
        inputs, targets = data.batch(jnp.uint32(0), piece)
        phi = features(config, weights, inputs)
        part = 2 * phi.T @ (phi @ output - np.asarray(targets, float)) / config.batch_size
        if config.clip_norm:
            part *= min(1, config.clip_norm / math.sqrt(SGD["output"] * part @ part))
        output = output - config.learning_rate * SGD["output"] * part
    return output


def assert_output_alone_moved(config, found):
    before = init(stacked([config]), config=program(config)).params
    for name, part in found.items():
        moved = np.abs(np.asarray(part) - np.asarray(before[name][0])).max()
        assert (moved > 1e-3) if name == "output" else (moved == 0), name


@pytest.mark.parametrize("clip_norm", [slow(None), 0.2])
def test_frozen_features_are_linear_regression(clip_norm, tmp_path):
    config = changed(FROZEN, optimizer="sgd", clip_norm=clip_norm)
    train(config, tmp_path)
    assert_output_alone_moved(config, read_weights(tmp_path))
    np.testing.assert_allclose(read_weights(tmp_path)["output"][:, 0], output_by_hand(config), rtol=1e-4, atol=1e-6)


def test_clipping_of_all_weights_is_another_run():
    free, clipped = (output_by_hand(changed(FROZEN, clip_norm=norm)) for norm in (None, 0.2))
    assert np.abs(free - clipped).max() > 1e-3


@pytest.mark.parametrize(
    "changes", [{"epsilon": 0.0}, slow({"schedule": "schedule_free"}), slow({"optimizer": "sgd", "momentum": 0.5})]
)
def test_frozen_features_stay_whatever_the_optimizer(changes, tmp_path):
    config = changed(FROZEN, **changes)
    train(config, tmp_path)
    assert_output_alone_moved(config, read_weights(tmp_path))


def test_training_all_weights_is_another_run(tmp_path):
    config = changed(FROZEN, optimizer="sgd", trained="all")
    train(config, tmp_path)
    with pytest.raises(AssertionError):
        assert_output_alone_moved(config, read_weights(tmp_path))
    assert np.abs(read_weights(tmp_path)["output"][:, 0] - output_by_hand(config)).max() > 1e-4
