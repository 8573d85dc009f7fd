"""The models against NumPy, causality, and rotary positions."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from sgdtheory.training import preset
from sgdtheory.training.architectures import transformer
from sgdtheory.training.network import count
from sgdtheory.training.tensors import draw, effective, tensor_factors
from tests.runs import changed, run_of

MLP = run_of(width=6, base_width=3, depth=3, input_dim=4)
TEXT = run_of(
    model="transformer", data="tokens", tokens="-", vocabulary=11, width=8, base_width=8, num_heads=2, depth=1,
    context=5,
)  # fmt: skip
TOKENS = np.array([[3, 1, 4, 1, 5], [9, 2, 6, 5, 3]])


def random_weights(config):
    rng = np.random.default_rng(0)
    shapes = {name: tensor.shape for name, tensor in config.network.tensors.items()}
    return {name: rng.standard_normal(shape).astype(np.float32) / 2 for name, shape in shapes.items()}


def gelu(x):
    return 0.5 * x * (1 + np.tanh(np.sqrt(2 / np.pi) * (x + 0.044715 * x**3)))


@pytest.mark.parametrize(
    ("activation", "function"), [("relu", lambda x: np.maximum(x, 0)), ("gelu", gelu), ("tanh", np.tanh)]
)
def test_mlp_by_hand(activation, function):
    config = changed(MLP, activation=activation)
    weights = random_weights(config)
    inputs = np.random.default_rng(1).standard_normal((7, 4)).astype(np.float32)
    own = {name: part.astype(float) for name, part in weights.items()}
    x = function(inputs @ own["input"] + own["input_bias"])
    for layer in range(2):
        x = function(x @ own["hidden"][layer] + own["hidden_bias"][layer])
    expected = x @ own["output"][:, 0]
    outputs, _ = config.network.apply(weights, inputs)
    np.testing.assert_allclose(outputs, expected, rtol=1e-5, atol=1e-5)
    targets = np.arange(7.0)
    loss = config.network.loss(outputs, targets)
    np.testing.assert_allclose(loss, np.mean((expected - targets) ** 2), rtol=1e-5)


def normalized(x, gain):
    return x / np.sqrt((x**2).mean(-1, keepdims=True) + 1e-6) * gain


def rotated(x):  # (T, D): pair i is a complex number turned by the angle t · 10000^(−2i/D)
    half = x.shape[1] // 2
    angles = np.arange(len(x))[:, None] * 10_000.0 ** (-2 * np.arange(half) / x.shape[1])
    turned = (x[:, :half] + 1j * x[:, half:]) * np.exp(1j * angles)
    return np.concatenate([turned.real, turned.imag], 1)


def logits_by_hand(weights, tokens, heads, scale):
    x = weights["embedding"][tokens]
    again = normalized(x, weights["attention_gain"][0])
    query, key, value = (np.split(again @ weights[name][0], heads, 1) for name in ("query", "key", "value"))
    mixed = []
    for q, k, v in zip(query, key, value, strict=True):
        scores = np.exp(scale * rotated(q) @ rotated(k).T) * np.tri(len(tokens))
        mixed.append(scores / scores.sum(1, keepdims=True) @ v)
    x = x + np.concatenate(mixed, 1) @ weights["attention"][0]
    x = x + gelu(normalized(x, weights["mlp_gain"][0]) @ weights["up"][0]) @ weights["down"][0]
    return normalized(x, weights["final_gain"]) @ weights["unembedding"]


# Heads of 4 at the width 8 and at its base; of 8 at the width 16: 1/√4 · 4/8 under µP, 1/√8 in standard.
@pytest.mark.parametrize(("width", "table", "scale"), [(8, "mup", 0.5), (16, "mup", 0.25), (16, "standard", 8**-0.5)])
def test_transformer_by_hand(width, table, scale):
    config = changed(TEXT, width=width, parametrization=table)
    weights = random_weights(config)
    own = {name: part.astype(float) for name, part in weights.items()}
    logits, _ = config.network.apply(weights, TOKENS)
    expected = np.stack([logits_by_hand(own, row, 2, scale) for row in TOKENS])
    np.testing.assert_allclose(logits, expected, rtol=2e-4, atol=2e-4)
    targets = (TOKENS + 1) % 11
    shares = np.log(np.exp(expected).sum(-1)) - np.take_along_axis(expected, targets[..., None], 2)[..., 0]
    np.testing.assert_allclose(config.network.loss(logits, targets), shares.mean(), rtol=1e-5)


def test_transformer_is_causal():
    """Row s has another token at place s: logits change from there on."""
    config = changed(TEXT, depth=2)
    tokens = np.tile(np.arange(5), (6, 1)) + 5 * np.eye(6, 5, dtype=int)
    logits = np.asarray(config.network.apply(random_weights(config), tokens)[0])
    moved = np.abs(logits[:5] - logits[5]).max(axis=2)  # of logits[t] by token s
    later = np.tri(5, dtype=bool).T
    assert (moved[~later] == 0).all()
    assert (moved[later] > 1e-4).all()


def test_rotary_scores_depend_on_relative_positions_only():
    rng = np.random.default_rng(0)
    query, key = (np.tile(rng.standard_normal(8), (1, 12, 1, 1)).astype(np.float32) for _ in range(2))
    rotation = transformer._rotation(12, 8)
    q, k = (np.asarray(transformer._rotate(jnp.asarray(x), rotation))[0, :, 0] for x in (query, key))
    scores = q @ k.T
    for shift in range(-8, 9):
        diagonal = np.diagonal(scores, shift)
        np.testing.assert_allclose(diagonal, diagonal[0], rtol=1e-4, atol=1e-5)
    assert len(np.unique(scores[0].round(3))) > 6  # and on them they do
    np.testing.assert_allclose(np.linalg.norm(q, axis=1), np.linalg.norm(query[0, 0, 0]), rtol=1e-5)


def test_numbers_of_weights():
    assert MLP.network.num_weights == 4 * 6 + 6 + 2 * (36 + 6) + 6
    assert "hidden" not in changed(MLP, depth=1).network.tensors
    assert changed(TEXT, depth=3).network.num_weights == 2 * 11 * 8 + 3 * (12 * 64 + 2 * 8) + 8


# Blocks alone (12 d² each) are what the paper's names count; width, depth and heads from its Tables 2 and 5.
@pytest.mark.parametrize(
    ("name", "width", "depth", "heads", "millions"),
    [
        ("85M", 768, 12, 12, 85),
        ("151M", 1024, 12, 16, 151),
        ("302M", 1024, 24, 16, 302),
        ("604M", 2048, 12, 16, 604),
        ("1.2B", 2048, 24, 32, 1208),
        ("604M-deep", 1024, 48, 16, 604),
        ("1.2B-deep", 1024, 96, 16, 1208),
        ("339M-wide", 1536, 12, 24, 339),
        ("944M-wide", 2560, 12, 40, 944),
    ],
)
def test_presets_have_the_papers_sizes(name, width, depth, heads, millions):
    config = preset(name, tokens="-")
    assert tuple(map(config.value, ("width", "depth", "num_heads", "vocabulary"))) == (width, depth, heads, 50280)
    tensors = config.network.tensors
    blocks = sum(int(np.prod(tensor.shape)) for tensor in tensors.values() if len(tensor.shape) == 3)
    assert blocks == 12 * depth * width**2
    assert abs(blocks / 1e6 - millions) < 1
    assert count(tensors) == blocks + 2 * 50280 * width + (2 * depth + 1) * width


def test_effective_weights_are_multiplied():
    config = changed(MLP, parametrization="ntk", width=12)
    tensors = config.network.tensors
    params = draw(tensors, config, jax.random.key(0))
    found = effective(params, tensor_factors(tensors, config), jnp.float32)
    np.testing.assert_array_equal(found["hidden"], params["hidden"] / 2)
    np.testing.assert_array_equal(found["input"], params["input"])
    assert effective(params, tensor_factors(tensors, config), jnp.bfloat16)["hidden"].dtype == jnp.bfloat16


def test_the_kernel_of_attention(monkeypatch):
    """By default runs, files and fingerprints are as before the choice; cuDNN is refused where it cannot be."""
    assert changed(TEXT, attention_kernel="xla") == TEXT
    assert "attention_kernel" not in TEXT.as_fields()
    fused = changed(TEXT, attention_kernel="cudnn", precision="bfloat16")
    assert fused.fingerprint != changed(TEXT, precision="bfloat16").fingerprint
    weights = {name: jnp.asarray(part, jnp.bfloat16) for name, part in random_weights(TEXT).items()}
    with pytest.raises(ValueError, match="needs precision = bfloat16 and an NVIDIA GPU, got bfloat16 on a cpu"):
        fused.network.apply(weights, TOKENS)
    asked = []

    def attention(query, key, value, *, implementation, **options):
        asked.append(implementation)
        return dot_product_attention(query, key, value, **options)

    dot_product_attention = jax.nn.dot_product_attention
    monkeypatch.setattr(jax.nn, "dot_product_attention", attention)
    monkeypatch.setattr(jax, "default_backend", lambda: "gpu")
    np.testing.assert_array_equal(fused.network.apply(weights, TOKENS)[0], TEXT.network.apply(weights, TOKENS)[0])
    assert asked == ["cudnn", "xla"]
    with pytest.raises(ValueError, match="got float32 on a gpu"):
        fused.network.apply(random_weights(TEXT), TOKENS)
