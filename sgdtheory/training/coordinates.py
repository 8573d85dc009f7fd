"""The coordinate check: how activations, and what each tensor's change makes of them, scale with the width."""

from collections.abc import Sequence
from dataclasses import dataclass, replace
from functools import partial
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
from jax import Array
from scipy import stats

from sgdtheory.training.config import TrainConfig
from sgdtheory.training.engine import State, advance, init, iterate, network, program, stacked
from sgdtheory.training.model import model
from sgdtheory.training.streams import stream
from sgdtheory.training.tensors import Params, effective, tensor_factors

OUTPUTS = "output", "unembedding"
QUANTITIES = "size", "change", "own"
TOLERANCE = 0.3  # errors of exponents come in halves
PROBES = 32  # samples on which activations are looked at


@dataclass(frozen=True, eq=False)
class CoordinateCheck:
    """Root mean squares of activations against width, and their slopes on log-log axes.

    Quantities, at the output of each tensor on a fixed probe batch: "size" of the activations before training, "change"
    of them since then, and "own", the part of the change at time t that the tensor's own change makes:
    what the layer gives with W_t less what it gives with W_0, for the same inputs.

    Under µP all slopes of "change" and "own" are 0, and so are those of "size" but for the output's, which may shrink.

    Attributes:
        config: of the base width; its width is not used.
        widths: (N,) widths.
        steps: (T,) steps after which activations were looked at.
        layers: names of the L layers, "query.0" for the first of a stack.
        size: (L, N, S) for S seeds.
        change, own: (L, N, T, S).
        tolerance: largest slope that passes.
        level: of the intervals.
    """

    config: TrainConfig
    widths: np.ndarray
    steps: np.ndarray
    layers: tuple[str, ...]
    size: np.ndarray
    change: np.ndarray
    own: np.ndarray
    tolerance: float
    level: float

    def values(self, quantity: str) -> np.ndarray:
        """(L, N, S) root mean squares; of "change" and "own" geometric means over the steps."""
        values = getattr(self, quantity)
        with np.errstate(all="ignore"):
            return values if values.ndim == 3 else np.exp(np.log(values).mean(axis=2))

    def slopes(self, quantity: str) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
        """(L,) slopes of log size against log width, and the ends of their intervals (Student's t over seeds)."""
        values = self.values(quantity)
        x = np.log(self.widths) - np.log(self.widths).mean()
        with np.errstate(all="ignore"):
            each = np.einsum("n,lns->ls", x / (x @ x), np.log(values))
        number = each.shape[1]
        half = stats.t.ppf((1 + self.level) / 2, number - 1) * each.std(axis=1, ddof=1) / number**0.5
        return each.mean(axis=1), each.mean(axis=1) - half, each.mean(axis=1) + half

    def failures(self) -> list[tuple[str, str, float, float, float]]:
        """(quantity, layer, slope, low, high) of each slope whose interval is not inside ± tolerance.

        The output before training may shrink and is not looked at: what it does to training shows in the changes. What
        does not move at all, or overflows, fails: its slope is nan.
        """
        found = []
        for quantity in QUANTITIES:
            for layer, slope, low, high in zip(self.layers, *self.slopes(quantity), strict=True):
                inside = low >= -self.tolerance and high <= self.tolerance
                if not inside and not (quantity == "size" and layer in OUTPUTS):
                    found.append((quantity, layer, float(slope), float(low), float(high)))
        return found

    @property
    def passes(self) -> bool:
        """Whether no slope fails."""
        return not self.failures()


def coordinate_check(
    config: TrainConfig,
    *,
    widths: Sequence[int] = (64, 128, 256, 512),
    steps: Sequence[int] = (1, 3, 10, 30),
    seeds: int = 8,
    tolerance: float = TOLERANCE,
    level: float = 0.95,
) -> CoordinateCheck:
    """Train networks of several widths for a few steps and see how their activations scale.

    Args:
        config: parametrization, model, data and optimizer; its schedule is replaced by a constant one.
        widths: at least two; the smallest is taken as the base width.
        steps: after which to look.
        seeds: number of initial weights for each width, at least two.
        tolerance: largest slope that passes.
        level: of the intervals of the slopes.

    Raises:
        ValueError: too few widths or seeds, steps that are not positive.
    """
    if len(set(widths)) < 2:
        raise ValueError(f"widths must be at least two different ones for a slope, got {tuple(widths)}")
    if seeds < 2:
        raise ValueError(f"seeds must be at least 2 for an interval, got {seeds}")
    if not steps or min(steps) < 1:
        raise ValueError(f"steps must be positive whole numbers, got {tuple(steps)}")
    widths, steps = sorted(set(widths)), sorted(set(steps))
    plain = {"schedule": "constant", "warmup": 0.0, "averages": (), "uniform_average": False, "schedule_steps": None}
    found = []
    for width in widths:
        here = replace(config, width=width, base_width=widths[0], max_steps=steps[-1], **plain)
        found.append(_measure([replace(here, seed=config.seed + k) for k in range(seeds)], steps))
    layers = tuple(found[0][0])
    size = np.array([[one[0][name] for one in found] for name in layers])
    change, own = (np.array([[one[k][name] for one in found] for name in layers]) for k in (1, 2))
    return CoordinateCheck(config, np.array(widths), np.array(steps), layers, size, change, own, tolerance, level)


def _measure(configs: list[TrainConfig], steps: Sequence[int]) -> tuple[dict, dict, dict]:
    """Size {layer: (S,)} at the start, change and own part {layer: (T, S)}, of one width."""
    shared, lanes = program(configs[0]), stacked(configs)
    data = stream(configs[0])
    probe = data.holdout()[0][:PROBES]
    state = start = init(lanes, config=network(configs[0]))
    size = _activations(start, probe, config=shared)
    state, done, rows = jax.tree.map(jnp.copy, start), 0, []
    for step in steps:
        pieces = jnp.asarray(data.chunk(configs[0].data_seed, done, step - done))
        state = advance(state, lanes, pieces, np.int32(step - done), config=shared, mesh=None)
        done = step
        rows.append(_changes(state, start, probe, config=shared))
    change, own = ({name: np.array([row[k][name] for row in rows]) for name in rows[0][k]} for k in (0, 1))
    return {name: np.asarray(value) for name, value in size.items()}, change, own


@partial(jax.jit, static_argnames="config")
def _activations(state: State, probe: Array, *, config: TrainConfig) -> dict[str, Array]:
    """{layer: (S,)} root mean squares of what each tensor makes."""

    def one(state: State) -> dict[str, Array]:
        params = iterate(config, state.optimizer, state.params)
        return {name: _root_mean_square(value) for name, value in _outputs(config, params, probe).items()}

    return jax.vmap(one)(state)


@partial(jax.jit, static_argnames="config")
def _changes(state: State, start: State, probe: Array, *, config: TrainConfig) -> tuple[dict, dict]:
    """{layer: (S,)} of the change since the start, and of the part that each tensor's own change makes."""

    def one(state: State, start: State) -> tuple[dict[str, Array], dict[str, Array]]:
        now, before = (iterate(config, each.optimizer, each.params) for each in (state, start))
        outputs, first = (_outputs(config, params, probe) for params in (now, before))
        change = {name: _root_mean_square(outputs[name] - first[name]) for name in outputs}
        own = {}
        for layer in outputs:
            without = _outputs(config, _reset(now, before, layer), probe)
            own[layer] = _root_mean_square(outputs[layer] - without[layer])
        return change, own

    return jax.vmap(one)(state, start)


def _outputs(config: TrainConfig, params: Params, probe: Array) -> dict[str, Array]:
    """{layer: activations} with a stack's layers apart, "query.0"."""
    tensors = model(config).tensors(config)
    scales = tensor_factors(tensors, config)
    _, layers = model(config).apply(effective(params, scales, jnp.float32), probe, config)
    found: dict[str, Array] = {}
    for name in tensors:
        if _stacked(name, config):
            found |= {f"{name}.{k}": layers[name][k] for k in range(layers[name].shape[0])}
        else:
            found[name] = layers[name]
    return found


def _reset(params: Params, before: Params, layer: str) -> Params:
    """Weights with those of one layer as they were before."""
    name, _, number = layer.partition(".")
    if not number:
        return params | {name: before[name]}
    return params | {name: params[name].at[int(number)].set(before[name][int(number)])}


def _stacked(name: str, config: TrainConfig) -> bool:
    tensor: Any = model(config).tensors(config)[name]
    return len(tensor.shape) == 3 or (len(tensor.shape) == 2 and tensor.role == "vector")


def _root_mean_square(value: Array) -> Array:
    return jnp.sqrt(jnp.mean(value.astype(jnp.float32) ** 2))
