"""The networks beside perceptron and transformer against NumPy, and their coordinate checks."""

import itertools
from dataclasses import replace

import jax.numpy as jnp
import numpy as np
import pytest
from scipy.signal import correlate

from sgdtheory.training import MUP, STANDARD, coordinate_check
from sgdtheory.training.architectures import layers
from sgdtheory.training.architectures.gated_recurrent import LOWEST_OFFSET, remembered
from tests.marks import sampled
from tests.runs import changed, run_of
from tests.training import own_networks
from tests.training.test_models import MLP, TEXT, gelu, normalized, random_weights

RESIDUAL = run_of(model="residual", width=6, base_width=3, depth=3, input_dim=4, activation="tanh")
CONV = run_of(model="conv", data="digits", width=5, base_width=5, depth=3)
RECURRENT = run_of(
    model="recurrent", data="tokens", tokens="-", vocabulary=11, width=8, base_width=8, depth=2, context=5
)
TOKENS = np.array([[3, 1, 4, 1, 5], [9, 2, 6, 5, 3]])


def in_double(weights):
    return {name: part.astype(float) for name, part in weights.items()}


def test_residual_by_hand():
    weights = random_weights(RESIDUAL)
    inputs = np.random.default_rng(1).standard_normal((7, 4)).astype(np.float32)
    own = in_double(weights)
    stream = inputs @ own["input"] + own["input_bias"]
    for block in range(3):
        stream = stream + (np.tanh(stream) @ own["branch"][block] + own["branch_bias"][block]) / 3**0.5
    outputs, layers = RESIDUAL.network.apply(weights, inputs)
    np.testing.assert_allclose(outputs, np.tanh(stream) @ own["output"][:, 0], rtol=1e-5, atol=1e-5)
    assert layers["branch"].shape == (3, 7, 6)


def convolved(images, kernel, stride):
    """By SciPy: images (B, H, W, C), kernel (9 C, K) with places in rows, then columns, then channels."""
    own = kernel.reshape(3, 3, images.shape[3], -1)
    padded = np.pad(images, ((0, 0), (1, 1), (1, 1), (0, 0)))
    out = [
        [correlate(image, own[..., k], "valid")[::stride, ::stride, 0] for k in range(own.shape[3])] for image in padded
    ]
    return np.moveaxis(np.array(out), 1, -1)


@pytest.mark.parametrize("side", [8, 7, 1])
def test_convolutions_by_hand(side):
    weights = random_weights(CONV)
    images = np.random.default_rng(1).standard_normal((3, side, side, 1)).astype(np.float32)
    own = in_double(weights)
    hidden = convolved(images, own["input"], 1) + own["input_bias"]
    for layer in range(2):
        hidden = convolved(np.maximum(hidden, 0), own["kernel"][layer], 2) + own["kernel_bias"][layer]
    expected = np.maximum(hidden, 0).mean((1, 2)) @ own["output"]
    outputs, _ = CONV.network.apply(weights, images)
    np.testing.assert_allclose(outputs, expected, rtol=1e-4, atol=1e-5)


@pytest.mark.parametrize("config", [MLP, TEXT, RESIDUAL, CONV, RECURRENT], ids=lambda config: config.value("model"))
def test_tensors_of_several_layers_are_stacked(config):
    """Those, and those alone, whose leading axis grows with the depth."""
    tensors, deeper = config.network.tensors, changed(config, depth=config.value("depth") + 4).network.tensors
    growing = {name for name, tensor in tensors.items() if deeper[name].shape[0] > tensor.shape[0]}
    assert growing == {name for name, tensor in tensors.items() if tensor.stacked}
    assert growing


def test_operations_of_convolutions():
    """The digits have 64 places, then 16, then 4."""
    assert CONV.network.operations == 6 * (64 * 9 * 5 + 16 * 45 * 5 + 4 * 45 * 5 + 5 * 10)


def test_operations_are_six_for_each_weight_of_a_product():
    """A token's attention is 2 · 2 · context · width more in the forward pass, and embeddings are looked up."""
    assert MLP.network.operations == 6 * (4 * 6 + 2 * 6 * 6 + 6)
    assert RESIDUAL.network.operations == 6 * (4 * 6 + 3 * 6 * 6 + 6)
    assert RECURRENT.network.operations == 5 * 6 * (2 * 11 * 8 * 8 + 8 * 11)
    assert TEXT.network.operations == 5 * (6 * (12 * 8 * 8 + 8 * 11) + 3 * 2 * 2 * 5 * 8)
    assert changed(MLP, batch_size=8, num_workers=3).operations == 24 * MLP.network.operations
    own = replace(MLP, model=own_networks.net, data=run_of().data, width=96, base_width=96).network
    assert own.operations == pytest.approx(6 * (64 * 96 + 96 * 96 + 96), rel=0.02)


def test_norms_of_small_activations_and_the_memory_of_gates_at_the_start():
    """A root mean square of 1e-3 is that of the constant beside it; memories are of 2 to about 400 tokens."""
    np.testing.assert_allclose(
        layers.normalized(jnp.array([1e-3, -1e-3]), jnp.array([1.0, 3.0])), [0.5**0.5, -3 * 0.5**0.5], rtol=1e-5
    )
    rows = jnp.zeros((1, 2, 3)).at[0, 0].set(1.0)
    states = np.asarray(remembered(jnp.zeros((1, 2, 3)), rows))[0]
    np.testing.assert_allclose(states[0], 1 / (1 + np.exp([0.0, 3.0, 6.0])), rtol=1e-5)
    np.testing.assert_allclose(states[1], states[0] * (1 - states[0]), rtol=1e-5)


def test_recurrence_by_hand():
    weights = random_weights(RECURRENT)
    own = in_double(weights)
    offsets = np.linspace(0, LOWEST_OFFSET, 8)
    logits = []
    for row in TOKENS:
        x = own["embedding"][row]
        for block in range(2):
            layer = {name: part[block] for name, part in own.items() if part.ndim > 1 and len(part) == 2}
            first = normalized(x, layer["gain"])
            gate = 1 / (1 + np.exp(-(first @ layer["gate"] + layer["gate_bias"] + offsets)))
            candidate, state, states = first @ layer["candidate"], np.zeros(8), []
            for t in range(5):
                state = (1 - gate[t]) * state + gate[t] * candidate[t]
                states.append(state)
            x = x + np.array(states) @ layer["mixing"]
            x = x + gelu(normalized(x, layer["mlp_gain"]) @ layer["up"]) @ layer["down"]
        logits.append(normalized(x, own["final_gain"]) @ own["unembedding"])
    found, _ = RECURRENT.network.apply(weights, TOKENS)
    np.testing.assert_allclose(found, logits, rtol=2e-4, atol=2e-4)


@pytest.mark.slow
def test_recurrence_is_causal():
    """Row s has another candidate at place s: states change from there on."""
    gate, candidate = np.random.default_rng(0).standard_normal((2, 1, 6, 3)).astype(np.float32)
    rows = candidate + np.eye(7, 6, dtype=np.float32)[:, :, None]
    states = np.asarray(remembered(jnp.broadcast_to(gate, rows.shape), jnp.asarray(rows)))
    moved = np.abs(states[:6] - states[6]).min(axis=2)
    later = np.tri(6, dtype=bool).T
    assert (moved[~later] == 0).all()
    assert (moved[later] > 0).all()


SMALL = {"batch_size": 32, "holdout_size": 64}
LINES = {"data": "stdlib", "batch_size": 4, "context": 8, "depth": 1, "holdout_size": 32}
MODELS = {
    "residual": {"model": "residual", **SMALL},
    "conv": {"model": "conv", "data": "digits", "batch_size": 16, "holdout_size": 16},  # 64 places in each image
    "recurrent": {"model": "recurrent", **LINES},
}
RATES = {"adam": 0.003, "sgd": 0.03, "sign": 0.003, "muon": 0.003}
# The smaller width of two. Half of it takes a quarter of the time, and is too narrow: slopes of µP come next to the
# tolerance of 0.3 or beyond, to 0.36 for convolutions and 0.34 for the recurrent network with SGD.
NARROWEST = {("sgd", "residual"): 64, ("sgd", "conv"): 128, ("sgd", "recurrent"): 128}
NARROWEST |= {("others", "residual"): 32, ("others", "conv"): 64, ("others", "recurrent"): 32}
# These networks have no attention, and tables with one exponent of it share the programs of the smaller width.
TABLES = {"mup": MUP, "standard": replace(STANDARD, attention=MUP.attention)}
# Every network with Adam, and every other optimizer with one network, come first.
CHECKED = [*((model, "adam") for model in MODELS), ("residual", "sgd"), ("recurrent", "sign"), ("conv", "muon")]
CHECKED += [case for case in itertools.product(MODELS, RATES) if case not in CHECKED]
SLOWER = {("residual", "sgd"): 0.01}  # beyond, seeds differ much in how far they have come


@pytest.mark.slow
@pytest.mark.parametrize("table", TABLES)
@pytest.mark.parametrize(("model", "optimizer"), sampled(CHECKED, 6))
def test_maximal_update_passes_and_standard_fails(model, optimizer, table):
    """Perceptron and transformer: test_coordinates.py."""
    rate = SLOWER.get((model, optimizer), RATES[optimizer])
    config = run_of(optimizer=optimizer, learning_rate=rate, **MODELS[model]).with_fields(parametrization=TABLES[table])
    least = NARROWEST["sgd" if optimizer == "sgd" else "others", model]
    check = coordinate_check(config, widths=(least, 4 * least), steps=(3, 6), seeds=8)
    assert check.passes == (table == "mup"), check.failures()


BLOCK = {"up": ("hidden", 8), "down": ("hidden", 32), "unembedding": ("output", 8), "embedding": ("input", 1)}
GAIN, BIAS = ("vector", -1), ("vector", 0)  # drawn as 1 and as 0


@pytest.mark.parametrize(
    ("config", "expected"),
    [
        (MLP, {"input": ("input", 4), "hidden": ("hidden", 3), "output": ("output", 3)}),
        (RESIDUAL, {"input": ("input", 4), "branch": ("hidden", 3), "output": ("output", 3)}),
        (changed(CONV, width=10), {"input": ("input", 9), "kernel": ("hidden", 9 * 5), "output": ("output", 5)}),
        (changed(RECURRENT, width=16), BLOCK | dict.fromkeys(("gate", "candidate", "mixing"), ("hidden", 8))),
        (changed(TEXT, width=16), BLOCK | dict.fromkeys(("query", "key", "value", "attention"), ("hidden", 8))),
    ],
    ids=["mlp", "residual", "conv", "recurrent", "transformer"],
)
def test_roles_and_inputs_at_the_base_width(config, expected):
    """The coordinate check uses these and the table of exponents, on networks that train for minutes."""
    found = {name: (tensor.role, tensor.fan_in) for name, tensor in config.network.tensors.items()}
    vectors = {name: GAIN if name.endswith("gain") else BIAS for name in found if name.endswith(("gain", "bias"))}
    assert found == expected | vectors
    assert config.network.ends == tuple(name for name in found if name in ("output", "unembedding"))
