"""A gated recurrent network for text: the blocks of a transformer with a gated linear recurrence instead of attention.

Each channel has a state of its own, `h_t = (1 − z_t) h_{t−1} + z_t c_t`, with the gate `z_t = σ(W_z x_t + e + o)` and
the candidate `c_t = W_c x_t` (Feng et al. 2024, "Were RNNs All We Needed?"). The fixed offsets o decrease evenly from
0 to −6 over the channels, so that the initial memory is 2 to 400 tokens, the same at every width.
"""

from functools import partial

import jax
import jax.numpy as jnp
from jax import Array, lax

from sgdtheory.training.architectures.layers import block_mlp, block_mlp_tensors, normalized
from sgdtheory.training.data import Samples
from sgdtheory.training.losses import LOSSES
from sgdtheory.training.network import BIAS, GAIN, Layers, Network, Params, Tensor, Tensors, count

LOWEST_OFFSET = -6.0
STACKED = "gain", "gate", "gate_bias", "candidate", "mixing", "mlp_gain", "up", "down"


def network(depth: int, samples: Samples, width: int, base_width: int) -> Network:
    """Build the network; a token costs six floating point operations per weight of a matrix, embeddings cost none."""
    table = tensors(depth, samples.num_outputs, width, base_width)
    matrices = count({name: tensor for name, tensor in table.items() if tensor.role in ("hidden", "output")})
    return Network(table, partial(apply, depth=depth), LOSSES[samples.loss], 6.0 * matrices * samples.shape[0])


def tensors(depth: int, vocabulary: int, width: int, base: int) -> Tensors:
    """Return the tensors of the weights; those of the blocks are stacked."""
    square = Tensor((depth, width, width), "hidden", base, stacked=True)
    gains = Tensor((depth, width), "vector", GAIN, stacked=True)
    return {
        "embedding": Tensor((vocabulary, width), "input", 1),  # A one-hot input has one nonzero entry.
        "gain": gains,
        "gate": square,
        "gate_bias": Tensor((depth, width), "vector", BIAS, stacked=True),
        "candidate": square,
        "mixing": square,
        **block_mlp_tensors(depth, width, base),
        "final_gain": Tensor((width,), "vector", GAIN),
        "unembedding": Tensor((width, vocabulary), "output", base),
    }


def apply(weights: Params, tokens: Array, *, depth: int) -> tuple[Array, Layers]:
    """Return float32 logits (B, T, V) of the next token, and each tensor's activations, stacked as the tensors are.

    Args:
        weights: effective weights.
        tokens: (B, T) whole numbers below the vocabulary.
        depth: number of blocks.
    """
    embedded = stream_BxTxN = weights["embedding"][tokens]
    blocks = []
    for block in range(depth):
        stream_BxTxN, made = _block(stream_BxTxN, {name: weights[name][block] for name in STACKED})
        blocks.append(made)
    final = normalized(stream_BxTxN, weights["final_gain"])
    logits = jnp.einsum("btn,nv->btv", final, weights["unembedding"], preferred_element_type=jnp.float32)
    layers = {name: [made[name] for made in blocks] for name in STACKED}
    return logits, {**layers, "embedding": embedded, "final_gain": final, "unembedding": logits}


def _block(stream_BxTxN: Array, layer: Params) -> tuple[Array, Params]:
    first = normalized(stream_BxTxN, layer["gain"])
    gate = first @ layer["gate"] + layer["gate_bias"]
    candidate = first @ layer["candidate"]
    mixing = remembered(gate, candidate) @ layer["mixing"]
    stream_BxTxN = stream_BxTxN + mixing
    made = {"gain": first, "gate": gate, "gate_bias": gate, "candidate": candidate, "mixing": mixing}
    made |= block_mlp(stream_BxTxN, layer)
    return stream_BxTxN + made["down"], made


def remembered(gate_BxTxN: Array, candidate_BxTxN: Array) -> Array:
    """Compute h_t = (1 − z_t) h_{t−1} + z_t c_t from h_{−1} = 0 in float32, with z_t = σ(gate + offset)."""
    offsets = jnp.linspace(0.0, LOWEST_OFFSET, gate_BxTxN.shape[-1])
    gate = jax.nn.sigmoid(gate_BxTxN.astype(jnp.float32) + offsets)

    def after(first: tuple[Array, Array], second: tuple[Array, Array]) -> tuple[Array, Array]:
        """Compose the maps h → k h + m of two consecutive spans of tokens."""
        return first[0] * second[0], second[0] * first[1] + second[1]

    _, states = lax.associative_scan(after, (1 - gate, gate * candidate_BxTxN.astype(jnp.float32)), axis=1)
    return states.astype(candidate_BxTxN.dtype)
