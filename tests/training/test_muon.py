"""Muon and signSGD against NumPy: Newton–Schulz steps by SVD, momentum by loops; and runs side by side."""

import jax
import jax.numpy as jnp
import numpy as np
import optax
import pytest

from sgdtheory.training import Custom, SignSGD, Tensor, TrainConfig, branch, read_weights, train, train_many
from sgdtheory.training.engine import program
from sgdtheory.training.optimization import optimizer, rates
from sgdtheory.training.streams import stream
from sgdtheory.training.tensors import tensor_factors
from tests.marks import slow
from tests.runs import changed, run_of
from tests.training.test_optimization import compare as compare_weights
from tests.training.test_optimization import initial

QUINTIC = 3.4445, -4.7750, 2.0315  # of Newton–Schulz steps, Jordan et al. 2024
# Width 2 times the base's: µP's rates by hand, and Adam's ε.
RATES = {"input": 1.0, "input_bias": 1.0, "hidden": 1.0, "hidden_bias": 1.0, "output": 0.5}
EPSILON = {"input": 0.5, "input_bias": 0.5, "hidden": 0.5, "hidden_bias": 0.5, "output": 1.0}
CONFIG = run_of(
    optimizer="muon", momentum=0.8, update_rms=0.3, epsilon=1e-2, width=16, base_width=8, depth=3, input_dim=4,
    batch_size=6, holdout_size=8, max_steps=5, learning_rate=0.05, activation="tanh", averages=(),
)  # fmt: skip


def gradient(weights, inputs, targets):
    """Return the gradient of the mean squared error of a perceptron with tanh, by backpropagation."""
    stack = [np.tanh(inputs @ weights["input"] + weights["input_bias"])]
    for matrix, bias in zip(weights["hidden"], weights["hidden_bias"], strict=True):
        stack.append(np.tanh(stack[-1] @ matrix + bias))
    outer = 2 * (stack[-1] @ weights["output"] - targets[:, None]) / len(targets)
    parts = {"output": stack[-1].T @ outer, "hidden": [], "hidden_bias": []}
    back = outer @ weights["output"].T
    for matrix, above, below in zip(weights["hidden"][::-1], stack[:0:-1], stack[-2::-1], strict=True):
        inner = back * (1 - above**2)
        parts["hidden"].insert(0, below.T @ inner)
        parts["hidden_bias"].insert(0, inner.sum(0))
        back = inner @ matrix.T
    inner = back * (1 - stack[0] ** 2)
    parts |= {"input": inputs.T @ inner, "input_bias": inner.sum(0)}
    return {name: np.asarray(part) for name, part in parts.items()}


def newton_schulz(matrix):
    """Apply Newton–Schulz iterations to a matrix, by its singular values alone."""
    left, values, right = np.linalg.svd(matrix, full_matrices=False)
    values = values / np.linalg.norm(values)
    a, b, c = QUINTIC
    for _ in range(5):
        values = a * values + b * values**3 + c * values**5
    return left * values @ right


def muon_by_hand(config, nesterov=True):
    kind = config.optimizer
    weights, data = initial(config), stream(config)
    first, second = ({name: 0 * part for name, part in weights.items()} for _ in range(2))
    for t, piece in enumerate(data.chunk(0, 0, config.max_steps), start=1):
        inputs, targets = (np.asarray(part, float) for part in data.batch(np.uint32(0), piece))
        for name, part in gradient(weights, inputs, targets).items():
            decay = kind.momentum if name == "hidden" else kind.beta1
            first[name] = decay * first[name] + (1 - decay) * part
            second[name] = kind.beta2 * second[name] + (1 - kind.beta2) * part**2
            if name == "hidden":  # the longer side at the base width is 8
                # optax corrects for the start as if the mean were one step older
                look = decay * first[name] / (1 - decay ** (t + 1)) + (1 - decay) * part / (1 - decay**t)
                mean = look if nesterov else first[name]
                step = kind.update_rms * 8**0.5 * np.array([newton_schulz(each) for each in mean])
            else:
                root = np.sqrt(second[name] / (1 - kind.beta2**t))
                step = first[name] / (1 - kind.beta1**t) / (root + kind.epsilon * EPSILON[name])
            weights[name] = weights[name] - config.learning_rate * RATES[name] * step
    return weights


def compare(config, expected, directory):
    compare_weights(config, expected, directory, rtol=1e-4, atol=2e-5)


def test_muon_by_hand_is_not_that_without_nesterov(tmp_path):
    compare(CONFIG, muon_by_hand(CONFIG), tmp_path)
    with pytest.raises(AssertionError, match="Not equal to tolerance"):
        compare(CONFIG, muon_by_hand(CONFIG, nesterov=False), tmp_path)


def sign_by_hand(config):
    weights, data = initial(config), stream(config)
    mean = {name: 0 * part for name, part in weights.items()}
    beta = config.optimizer.momentum
    for piece in data.chunk(0, 0, config.max_steps):
        inputs, targets = (np.asarray(part, float) for part in data.batch(np.uint32(0), piece))
        for name, part in gradient(weights, inputs, targets).items():
            mean[name] = beta * mean[name] + (1 - beta) * part
            rate = config.learning_rate * (0.5 if name in ("hidden", "output") else 1.0)
            weights[name] = weights[name] - rate * np.sign(mean[name])
    return weights


@pytest.mark.parametrize("momentum", [slow(0.0), 0.7])
def test_sign_by_hand(momentum, tmp_path):
    config = changed(CONFIG, optimizer="sign", momentum=momentum, learning_rate=0.01)
    compare(config, sign_by_hand(config), tmp_path)
    if momentum:
        with pytest.raises(AssertionError, match="Not equal to tolerance"):
            compare(config, sign_by_hand(changed(config, momentum=0.0)), tmp_path)


@pytest.mark.parametrize(
    "rows",
    [
        [{"momentum": 0.5}, {"momentum": 0.9, "update_rms": 0.1}, {"beta1": 0.5, "beta2": 0.9, "learning_rate": 0.01}],
        [{"optimizer": "sign", "momentum": value} for value in (0.0, 0.5, 0.9)],
    ],
)
def test_runs_side_by_side_have_numbers_of_their_own(rows):
    configs = [changed(CONFIG, **row) for row in rows]
    assert len({program(each) for each in configs}) == 1
    together = [result.losses for result in train_many(configs)]
    for config, losses in zip(configs, together, strict=True):
        np.testing.assert_allclose(losses, train(config).losses, rtol=1e-5)
    assert len({float(losses[-1, 0]) for losses in together}) == 3


@pytest.mark.parametrize("kind", ["sign", "muon"])
def test_a_run_goes_on_with_the_same_bits(kind, tmp_path):
    config = changed(CONFIG, optimizer=kind)
    whole, part = tmp_path / "whole", tmp_path / "part"
    train(config, whole)
    train(changed(config, max_steps=2, schedule_steps=5), part)
    train(changed(config, schedule_steps=5), part)
    for name, value in read_weights(whole).items():
        np.testing.assert_array_equal(read_weights(part)[name], value)


def schedule_free_by_hand(config):
    """z ← z − γ d, x the mean of z, d of the gradient at y alone: its sign, its polar factor, Adam's with β₁ = 0."""
    kind, beta = config.optimizer, config.schedule.interpolation
    z, data = initial(config), stream(config)
    x, second = dict(z), {name: 0 * part for name, part in z.items()}
    for t, piece in enumerate(data.chunk(0, 0, config.max_steps), start=1):
        inputs, targets = (np.asarray(part, float) for part in data.batch(np.uint32(0), piece))
        y = {name: (1 - beta) * z[name] + beta * x[name] for name in z}
        for name, part in gradient(y, inputs, targets).items():
            rate = RATES[name]
            if isinstance(kind, SignSGD):
                step, rate = np.sign(part), 0.5 if name == "hidden" else rate
            elif name == "hidden":
                step = kind.update_rms * 8**0.5 * np.array([newton_schulz(each) for each in part])
            else:
                second[name] = kind.beta2 * second[name] + (1 - kind.beta2) * part**2
                step = part / (np.sqrt(second[name] / (1 - kind.beta2**t)) + kind.epsilon * EPSILON[name])
            z[name] = z[name] - config.learning_rate * rate * step
        x = {name: x[name] + (z[name] - x[name]) / t for name in z}
    return x


@pytest.mark.parametrize("kind", ["sign", "muon"])
def test_schedule_free_takes_the_place_of_momentum(kind, tmp_path):
    config = changed(CONFIG, optimizer=kind, schedule="schedule_free", learning_rate=0.02)
    compare(config, schedule_free_by_hand(config), tmp_path)
    with pytest.raises(ValueError, match="momentum = 0.5 does not matter with schedule schedule_free"):
        changed(config, momentum=0.5)
    with pytest.raises(ValueError, match="momentum = 0.5 of the optimizer does not matter with ScheduleFree"):
        TrainConfig(optimizer=type(config.optimizer)(momentum=0.5), schedule=config.schedule)


@pytest.mark.parametrize("kind", ["sign", "muon"])
def test_branches_have_the_root_of_the_batch_size_as_with_adam(kind):
    config = changed(CONFIG, optimizer=kind, batch_size=2, max_steps=8)
    assert branch([config], 4, factors=(1, 2), catch_up=8).rate_exponent == 0.5


# ------------------------------------------------------------------ tensors that are no matrix


def of_shape(shapes, layout):
    """A network of one's own with tensors of these shapes; "n" stands for the width, "2n" for twice as much."""

    def init_weights(key, width):
        known = {"n": width, "2n": 2 * width}
        sizes = {name: tuple(known.get(each, each) for each in shape) for name, shape in shapes.items()}
        return {name: jax.random.normal(key, shape) for name, shape in sizes.items()}

    def apply(params, x):
        return x[:, 0] * sum(jnp.sum(part) for part in params.values())

    return TrainConfig(model=Custom(init=init_weights, apply=apply, layout=layout), width=6, base_width=6)


@pytest.mark.parametrize(
    ("shape", "layout", "axes"),
    [
        (("n", "n"), "in_out", (0, 1)),
        (("n", "n"), "out_in", (0, 1)),
        ((3, "n", "n"), "in_out", (1, 2)),  # a stack
        (("n", "n", 2, 2), "out_in", (0, 1)),  # a kernel
        (("n", 3, "n"), "in_out", (0, 2)),  # heads
        (("n", "2n"), "in_out", (0, 1)),
        (("2n", 3, "n"), "out_in", (0, 2)),
        (("n", "n", "n"), "in_out", (1, 2)),  # more of them, the wider
        (("n", "n", "n"), "out_in", (0, 1)),
    ],
)
def test_matrices_of_tensors_with_more_axes(shape, layout, axes):
    """Every slice along the two axes that grow is orthogonalized by itself; where three grow, along the layout's."""
    config = of_shape({"w": shape}, layout).with_fields(optimizer="muon", update_rms=1.0)
    tensors = config.network.tensors
    assert tensors["w"].role == "hidden"
    found = optimizer(config, tensor_factors(tensors, config), rates(config))
    part = np.random.default_rng(0).standard_normal(tensors["w"].shape)
    given = {"w": jnp.asarray(part, jnp.float32)}
    step = np.asarray(found.update(given, found.init(given), given)[0]["w"], float)
    sides = part.shape[axes[0]], part.shape[axes[1]]
    matrices = np.moveaxis(part, axes, (-2, -1)).reshape(-1, *sides)
    steps = np.moveaxis(step, axes, (-2, -1)).reshape(-1, *sides)
    for matrix, own in zip(matrices, steps, strict=True):
        expected = -config.learning_rate * max(sides) ** 0.5 * newton_schulz(matrix)
        np.testing.assert_allclose(own, expected, atol=1e-4 * config.learning_rate)


@pytest.mark.parametrize(("shape", "axes"), [((40, 40), (-2, -1)), ((3, 24, 60), (-2, -1)), ((60, 2, 24), (0, 2))])
def test_operations_of_a_step_are_counted_as_xla_counts_them(shape, axes):
    """To 10%, which leaves room for norms and sums."""
    orthogonal = optax.contrib.scale_by_muon(weight_dimension_numbers={"w": optax.contrib.MuonDimensionNumbers(*axes)})
    given = {"w": jnp.ones(shape)}
    step = jax.jit(orthogonal.update).lower(given, orthogonal.init(given))
    assert Tensor(shape, "hidden", 1, axes=axes).orthogonalization == pytest.approx(step.cost_analysis()["flops"], 0.1)


def test_operations_of_a_run():
    """Two hidden matrices of 16 × 16: 5 · 6 · 16³ each."""
    assert CONFIG.operations - changed(CONFIG, optimizer="adam").operations == 2 * 30 * 16**3


def test_what_is_no_hidden_matrix_is_adams():
    shapes = {"in": (64, "n"), "bias": ("n",), "out": ("n", 1), "mid": ("n", "n")}
    config = of_shape(shapes, "in_out")
    tensors, random = config.network.tensors, np.random.default_rng(0)
    given = {name: jnp.asarray(random.standard_normal(each.shape), jnp.float32) for name, each in tensors.items()}
    steps = {}
    for kind in "muon", "adam":
        own = config.with_fields(optimizer=kind)
        found = optimizer(own, tensor_factors(tensors, own), rates(own))
        steps[kind] = jax.jit(found.update)(given, found.init(given), given)[0]
    for name in "in", "bias", "out":
        np.testing.assert_array_equal(steps["muon"][name], steps["adam"][name])
    assert np.abs(steps["muon"]["mid"] - steps["adam"]["mid"]).max() > 1e-4
