"""A decoder-only transformer: pre-norm, rotary positions, no biases, GELU MLP of four times the width, untied head."""

from functools import partial
from typing import Literal, NamedTuple

import jax
import jax.numpy as jnp
from jax import Array, lax

from sgdtheory.training.architectures.layers import block_mlp, block_mlp_tensors, normalized
from sgdtheory.training.data import Samples
from sgdtheory.training.losses import LOSSES
from sgdtheory.training.network import GAIN, Layers, Network, Params, Tensor, Tensors, count

Kernel = Literal["xla", "cudnn"]

ROTARY_BASE = 10_000.0
STACKED = "attention_gain", "query", "key", "value", "attention", "mlp_gain", "up", "down"
UNROLLED = 4  # Deeper networks are compiled as a loop over blocks, so that compilation does not grow with the depth.


class Heads(NamedTuple):
    """The number of attention heads, the size of one, and the scale of attention logits."""

    number: int
    size: int
    scale: float


def heads(width: int, number: int, base_width: int, base_number: int, exponent: float) -> Heads:
    """Return the heads with logits scaled by d_base^{-1/2} (d_head/d_base)^p; µP's p = −1 makes that ∝ 1/d_head.

    Args:
        width, number: d_model and the number of heads.
        base_width, base_number: the same two at the base width.
        exponent: p.
    """
    size, base = width // number, base_width // base_number
    return Heads(number, size, base**-0.5 * (size / base) ** exponent)


def network(depth: int, shape: Heads, samples: Samples, width: int, base_width: int, kernel: Kernel = "xla") -> Network:
    """Build the network; a token costs 6 (P_matrices + 2 · depth · context · width) floating point operations.

    Attention is counted without the causal half (Chowdhery et al. 2022, Appendix B); embeddings are looked up and not
    counted.
    """
    (context,) = samples.shape
    table = tensors(depth, samples.num_outputs, width, base_width)
    matrices = count({name: tensor for name, tensor in table.items() if tensor.role in ("hidden", "output")})
    operations = 6.0 * (matrices + 2 * depth * context * width) * context
    return Network(table, partial(apply, shape=shape, kernel=kernel), LOSSES[samples.loss], operations)


def tensors(depth: int, vocabulary: int, width: int, base: int) -> Tensors:
    """Return the tensors of the weights; those of the blocks are stacked."""
    square = Tensor((depth, width, width), "hidden", base, stacked=True)
    gains = Tensor((depth, width), "vector", GAIN, stacked=True)
    return {
        "embedding": Tensor((vocabulary, width), "input", 1),  # A one-hot input has one nonzero entry.
        "attention_gain": gains,
        "query": square,
        "key": square,
        "value": square,
        "attention": square,
        **block_mlp_tensors(depth, width, base),
        "final_gain": Tensor((width,), "vector", GAIN),
        "unembedding": Tensor((width, vocabulary), "output", base),
    }


def apply(weights: Params, tokens: Array, *, shape: Heads, kernel: Kernel = "xla") -> tuple[Array, Layers]:
    """Return float32 logits (B, T, V) of the next token, and each tensor's activations, stacked as the tensors are.

    Args:
        weights: effective weights.
        tokens: (B, T) whole numbers below the vocabulary.
        shape: number, size and logit scale of the heads.
        kernel: what computes attention.

    Raises:
        ValueError: if cuDNN is asked for and the weights are not in bfloat16, or there is no GPU.
    """
    if kernel == "cudnn" and (weights["query"].dtype != jnp.bfloat16 or jax.default_backend() != "gpu"):
        raise ValueError(
            "attention_kernel = cudnn needs precision = bfloat16 and an NVIDIA GPU, got "
            f"{weights['query'].dtype} on a {jax.default_backend()}; take attention_kernel = xla"
        )
    rotation = _rotation(tokens.shape[1], shape.size)

    def block(stream_BxTxN: Array, layer: Params) -> tuple[Array, Params]:
        return _block(stream_BxTxN, layer, shape, rotation, kernel)

    stacked = {name: weights[name] for name in STACKED}
    embedded = weights["embedding"][tokens]
    stream_BxTxN, layers = lax.scan(block, embedded, stacked, unroll=weights["query"].shape[0] <= UNROLLED)
    final = normalized(stream_BxTxN, weights["final_gain"])
    logits = jnp.einsum("btn,nv->btv", final, weights["unembedding"], preferred_element_type=jnp.float32)
    return logits, {**layers, "embedding": embedded, "final_gain": final, "unembedding": logits}


def _block(
    stream_BxTxN: Array, layer: Params, shape: Heads, rotation: tuple[Array, Array], kernel: Kernel
) -> tuple[Array, Params]:
    batch, length, width = stream_BxTxN.shape

    def split(x: Array) -> Array:
        return x.reshape(batch, length, shape.number, shape.size)

    first = normalized(stream_BxTxN, layer["attention_gain"])
    query, key, value = (first @ layer[name] for name in ("query", "key", "value"))
    turned = _rotate(split(query), rotation), _rotate(split(key), rotation)
    mixed = jax.nn.dot_product_attention(
        *turned, split(value), is_causal=True, scale=shape.scale, implementation=kernel
    )
    attention = mixed.reshape(batch, length, width) @ layer["attention"]
    stream_BxTxN = stream_BxTxN + attention
    made = {"attention_gain": first, "query": query, "key": key, "value": value, "attention": attention}
    made |= block_mlp(stream_BxTxN, layer)
    return stream_BxTxN + made["down"], made


def _rotation(length: int, size: int) -> tuple[Array, Array]:
    """Return cosines and sines (T, 1, size/2) of the rotary angles t · base^{−2i/size}."""
    frequency = ROTARY_BASE ** (-jnp.arange(0, size, 2) / size)
    angle = jnp.arange(length)[:, None, None] * frequency
    return jnp.cos(angle), jnp.sin(angle)


def _rotate(x_BxTxHxD: Array, rotation: tuple[Array, Array]) -> Array:
    """Rotate the pairs (i, i + size/2) of each head by the angle of their position."""
    cosine, sine = rotation
    first, second = jnp.split(x_BxTxHxD.astype(jnp.float32), 2, axis=-1)
    turned = jnp.concatenate([first * cosine - second * sine, first * sine + second * cosine], axis=-1)
    return turned.astype(x_BxTxHxD.dtype)
