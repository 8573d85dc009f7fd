"""Features and targets that every machine can make: text, digits, a transformer's activations and its tangents."""

import importlib
from typing import Any, NamedTuple, cast

import jax
import jax.numpy as jnp
import numpy as np

from sgdtheory.training import Lanes, TrainConfig, preset, stream, tensor_factors

CONTEXT = 32  # bytes that the transformer sees
FIRST = 16  # place in a window from which on its bytes are rows: those before it are context alone
CLASSES = 8  # of the next byte, the most frequent ones, each a target
BEND = 1.5  # standard deviation of what tanh is taken of
PIECE = 256  # windows whose activations, or gradients, are made at once
EVERY = 4  # places of a window from one row of tangents to the next


class Rows(NamedTuple):
    """Features (N, d) and targets (N, k)."""

    features: np.ndarray
    targets: np.ndarray


class Text(NamedTuple):
    """Windows of held-out text, (W, CONTEXT) bytes, and (W, CONTEXT − FIRST, k) one-hot what follows, if frequent."""

    tokens: np.ndarray
    following: np.ndarray

    @property
    def targets(self) -> np.ndarray:
        """(N, k), a row for each place of each window."""
        return self.following.reshape(-1, CLASSES)


def text(num_windows: int) -> Text:
    """Windows at equal distances; the classes are the `CLASSES` most frequent bytes."""
    tokens, following = stream(transformer(64, holdout_size=num_windows)).holdout()
    following = following[:, FIRST:]
    frequent = np.argsort(-np.bincount(following.ravel(), minlength=256), kind="stable")[:CLASSES]
    return Text(tokens, (following[..., None] == frequent).astype(float))


def byte_features(tokens: np.ndarray, number: int, dim: int) -> np.ndarray:
    """(N, d) tanh of a random projection of the last bytes, one-hot."""
    rng = np.random.default_rng((number, dim))
    table = rng.standard_normal((number, 256, dim)) * (BEND / number**0.5)
    last = [tokens[:, FIRST - back : CONTEXT - back].ravel() for back in range(number)]
    return np.tanh(sum(part[here] for part, here in zip(table, last, strict=True)))


def digits(dim: int | None) -> Rows | None:
    """scikit-learn's digits, pixels from 0 to 1 or d random Fourier features of them; None without scikit-learn."""
    try:
        datasets = importlib.import_module("sklearn.datasets")
    except ImportError:
        return None
    pixels, digit = datasets.load_digits(return_X_y=True)
    pixels = pixels / 16
    one_hot = (digit[:, None] == np.arange(10)).astype(float)
    if dim is None:
        return Rows(pixels, one_hot)
    rng = np.random.default_rng(dim)
    frequency = rng.standard_normal((pixels.shape[1], dim)) / (2 * pixels.var(0).sum()) ** 0.5
    return Rows(np.cos(pixels @ frequency + rng.uniform(0, 2 * np.pi, dim)) * (2 / dim) ** 0.5, one_hot)


def transformer(width: int, **changes: Any) -> TrainConfig:
    """The transformer that is trained on the bytes of the standard library."""
    return preset("bytes", width=width, context=CONTEXT, averages=(), **changes)


def trained(width: int, times: tuple[int, ...], seed: int = 0) -> dict[int, dict[str, Any]]:
    """Weights after so many steps of training, as the layers compute with them."""
    config = transformer(width, seed=seed, data_seed=seed, holdout_size=1, max_steps=max(max(times), 1))
    lanes, found = Lanes([config]), {}
    scales = tensor_factors(config.network.tensors, config)
    for time in sorted(times):
        lanes.advance(time - lanes.step)
        weights = lanes.weights()
        found[time] = {name: jnp.asarray(value[0] * scales[name].multiplier) for name, value in weights.items()}
    return found


def activations(width: int, weights: dict[str, Any], tokens: np.ndarray) -> np.ndarray:
    """(N, width) of the last layer: what the unembedding sees."""
    apply = transformer(width).network.apply
    last = jax.jit(lambda part: jnp.asarray(cast(Any, apply(weights, part)[1]["final_gain"]))[:, FIRST:])
    pieces = [last(jnp.asarray(tokens[first : first + PIECE], jnp.int32)) for first in range(0, len(tokens), PIECE)]
    return np.concatenate(pieces).reshape(-1, width).astype(float)


def tangents(width: int, weights: dict[str, Any], text: Text, dim: int) -> Rows:
    """Features of the neural tangent kernel: d random projections of the gradient of a random projection of the logits.

    The gradient is by the weights, in the metric of the parametrization's SGD rates. Every `EVERY`-th place is a row.
    """
    config = transformer(width, optimizer="sgd", holdout_size=1)
    apply, scales = config.network.apply, tensor_factors(config.network.tensors, config)
    keys = dict(zip(weights, jax.random.split(jax.random.key(dim), len(weights)), strict=True))
    direction = jax.random.normal(jax.random.key(0), (256,)) / 16
    places = np.arange(FIRST, CONTEXT, EVERY)

    def sketched(slope: dict[str, Any], name: str) -> Any:
        size = scales[name].sgd_rate ** 0.5 * scales[name].multiplier * dim**-0.5
        return slope[name].reshape(-1) @ jax.random.normal(keys[name], (weights[name].size, dim)) * size

    def one(tokens: Any, place: Any) -> Any:
        slope = jax.grad(lambda weights: apply(weights, tokens[None])[0][0, place] @ direction)(weights)
        return sum(sketched(slope, name) for name in weights)

    every = jax.jit(jax.vmap(jax.vmap(one, (None, 0)), (0, None)))
    size = PIECE // len(places)
    starts = range(0, len(text.tokens), size)
    pieces = [every(jnp.asarray(text.tokens[first : first + size], jnp.int32), places) for first in starts]
    features = np.concatenate(pieces).reshape(-1, dim).astype(float)
    return Rows(features, text.following[:, places - FIRST].reshape(-1, CLASSES))
