"""The coordinate check: how activations, and the changes that each tensor causes in them, scale with the width."""

from collections.abc import Sequence
from dataclasses import dataclass, replace
from functools import partial
from typing import Any, ClassVar, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
from jax import Array
from scipy import stats

from sgdtheory._common.sheets import Quantity, Sheet, Table
from sgdtheory._common.shown import Shown
from sgdtheory.training.config import ROUNDS, TrainConfig
from sgdtheory.training.engine import State, advance, evaluation_program, init, initial_program, program, stacked
from sgdtheory.training.network import Network, Params
from sgdtheory.training.optimization import iterate
from sgdtheory.training.parametrization import TOLERANCE, Parametrization
from sgdtheory.training.programs import Programs
from sgdtheory.training.schedules import Constant
from sgdtheory.training.streams import stream
from sgdtheory.training.tensors import effective, tensor_factors

QUANTITIES = "size", "change", "own"
PROBES = 32  # Activations are measured on this many samples.
LINEAR = 1e-4  # A second-order change of the outputs below this fraction of the first-order change is rounding.
ROUNDING = 1e-6  # A change below this fraction of the activations is float32 rounding (its epsilon is 1.2e-7).


class Failure(NamedTuple):
    """A slope that fails, with its interval; either of the mean over steps, or at one `step`.

    The failure is certain if no value in the interval would pass.
    """

    quantity: str
    layer: str
    slope: float
    low: float
    high: float
    certain: bool
    step: int | None = None


@dataclass(frozen=True, eq=False)
class CoordinateCheck(Shown):
    """Root mean squares of activations against width, and their slopes on log-log axes.

    Three quantities are measured at the output of each tensor on a fixed probe batch: "size", the activations before
    training; "change", their change since then; and "own", the part of the change that the tensor's own change
    causes, which is the layer's output with W_t minus its output with W_0 for the same inputs.

    Under µP all slopes of "change" and "own" are 0. The slopes of "size" are 0 too, except that of the output, which
    is −½ (THEORY.md, T17, explains why training starts from an output of 0).

    Attributes:
        config: config of the check; its own width is not used.
        widths: (N,) widths.
        steps: (T,) steps after which activations were measured.
        layers: names of the L layers, "query.0" for the first of a stack. Without `activations`, the network's outputs
            stand for the activations of every tensor of a custom model.
        size: (L, N, S) for S seeds.
        change, own: (L, N, T, S).
        tolerance: largest slope that passes.
        level: confidence level of the intervals.
    """

    figure: ClassVar[str] = "coordinates"

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
        """(L, N, S) root mean squares; for "change" and "own" their geometric means over the steps.

        Steps at which a layer has not moved at any width are omitted: if the output layer starts at 0, the first step
        moves no other layer.
        """
        values = getattr(self, quantity)
        if values.ndim == 3:
            return values
        moved = (values != 0).any(axis=(1, 3), keepdims=True)
        with np.errstate(all="ignore"):
            return np.exp(np.log(np.where(moved, values, 1.0)).sum(axis=2) / moved.sum(axis=2))

    def slopes(self, quantity: str, step: int | None = None) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
        """(L,) slopes of log size against log width, and the ends of their intervals (Student's t over seeds).

        Args:
            quantity: "size", "change" or "own".
            step: number of steps at which "change" or "own" is taken; None: the means over the steps.
        """
        values = self.values(quantity) if step is None else getattr(self, quantity)[:, :, list(self.steps).index(step)]
        x = np.log(self.widths) - np.log(self.widths).mean()
        with np.errstate(all="ignore"):
            each = np.einsum("n,lns->ls", x / (x @ x), np.log(values))
            number = each.shape[1]
            half = stats.t.ppf((1 + self.level) / 2, number - 1) * each.std(axis=1, ddof=1) / number**0.5
        return each.mean(axis=1), each.mean(axis=1) - half, each.mean(axis=1) + half

    def failures(self) -> list[Failure]:
        """List slopes whose interval is not within ± tolerance, or is wholly outside it at a single step.

        The means over steps decide. A single step fails if its interval is wholly outside: a wrong exponent of the
        output shows only in the first steps, before networks have learned the same at any learning rate. The output
        before training fails unless the lower end of its interval is at most tolerance − ½; its slope is noisy, as a
        single output is one draw per seed. An output that starts at exactly 0 at all widths passes. A quantity that
        overflows fails with a slope of nan. A quantity that has no effect (`without_effect`) has no slope, and fails
        only if nothing else moves either.
        """
        failures = []
        idle = self.without_effect
        for quantity in QUANTITIES:
            for layer, slope, low, high in zip(self.layers, *self.slopes(quantity), strict=True):
                inside = low >= -self.tolerance and high <= self.tolerance
                certain = not (low <= self.tolerance and high >= -self.tolerance)
                if quantity == "size" and layer in self.ends:
                    inside = low <= self.tolerance - 0.5
                    certain = not inside
                if quantity == "size" and layer in self.ends and not self.size[self.layers.index(layer)].any():
                    continue  # an output of exactly 0 is the limit of µP, and its slope is undefined
                if not inside and (quantity, layer) not in idle:
                    failures.append(Failure(quantity, layer, float(slope), float(low), float(high), bool(certain)))
        return failures + self._of_one_step({failure[:2] for failure in failures})

    def _of_one_step(self, known: set) -> list[Failure]:
        """Return other slopes that are certainly outside the tolerance after some number of steps, at the worst."""
        worst: dict[tuple[str, str], Failure] = {}
        for quantity in QUANTITIES[1:]:
            for step in self.steps.tolist():
                for layer, slope, low, high in zip(self.layers, *self.slopes(quantity, step), strict=True):
                    outside = low > self.tolerance or high < -self.tolerance
                    before = worst.get((quantity, layer))
                    if outside and (quantity, layer) not in known and (not before or abs(slope) > abs(before.slope)):
                        ends = float(low), float(high)
                        worst[quantity, layer] = Failure(quantity, layer, float(slope), *ends, True, step)
        return list(worst.values())

    @property
    def without_effect(self) -> set[tuple[str, str]]:
        """Pairs (quantity, layer) of "change" and "own" that are rounding at every width, seed and step.

        A bias of keys before a softmax, for example, has no effect: it adds one number to all logits of a query. The
        set is empty if nothing at all moves, which is a failure.
        """
        still = {
            (quantity, layer)
            for quantity in QUANTITIES[1:]
            for layer, values in zip(self.layers, getattr(self, quantity), strict=True)
            if (values == 0).all()
        }
        return still if len(still) < 2 * len(self.layers) else set()

    @property
    def ends(self) -> tuple[str, ...]:
        """Names of layers whose activations are the network's outputs; at the start these may shrink with the width."""
        return self._network.ends

    @property
    def _network(self) -> Network:
        """The network at the smallest width, which exists since the check: one of the config's own width may not."""
        base = int(self.widths[0])
        return replace(self.config, width=base, base_width=base).network

    @property
    def passes(self) -> bool:
        """Return whether no slope fails."""
        return not self.failures()

    def sheet(self) -> Sheet:
        """Return the verdict and, for each layer, the slopes of log activation on log width, with what fails."""
        failed = self.failures()
        quantities = [Quantity("", "layer", list(self.layers))]
        slopes = {}
        for name in QUANTITIES:
            found, low, high = self.slopes(name)
            slopes[name] = {
                layer: {"slope": slope, "interval": [least, most]}
                for layer, slope, least, most in zip(self.layers, found, low, high, strict=True)
            }
            idle = np.array([(name, layer) in self.without_effect for layer in self.layers])
            ends = np.where(idle[:, None], np.nan, np.stack([low, high], 1))
            quantities.append(Quantity("", name, np.where(idle, np.nan, found), ends, digits=2))
        quantities.append(Quantity("", "fails", [self._fails(failed, layer) for layer in self.layers]))
        kinds = ", ".join(self.config.value(name) for name in ("parametrization", "model", "optimizer"))
        widths = ", ".join(f"{width}" for width in self.widths)
        legend = "µP: slopes of change and own are 0" + ("; —: no effect" if self.without_effect else "")
        if self._network.whole:
            legend += "; all of these are of the outputs; own: what the change of this tensor alone makes of them"
        verdict = "passes" if not failed else f"fails: {len(failed)} slopes are not within ±{self.tolerance:g}"
        answer = f"coordinate check {verdict} ({100 * self.level:g}% intervals over {self.size.shape[-1]} seeds)"
        certain = any(each.certain for each in failed) or not failed
        remark = "" if certain else "none of them is outside for certain: take more seeds or a lower learning rate"
        settings = {"passes": not failed, "widths": self.widths, "steps": self.steps, "slopes": slopes}
        settings["failures"] = [failure._asdict() for failure in failed]
        title = f"{kinds}: slopes of log activation on log width ({widths})"
        table = Table(quantities, interval=f"{self.level:.0%}", legend=legend)
        return Sheet(title, [table], [remark], settings, answer=answer)

    @staticmethod
    def _fails(failed: list[Failure], layer: str) -> str:
        """Return which quantities of a layer fail; one that fails at a single step with its slope there."""
        return ", ".join(
            f"{each.quantity} at step {each.step}: {each.slope:+.2f}" if each.step else each.quantity
            for each in failed
            if each.layer == layer
        )


def coordinate_check(
    config: TrainConfig,
    *,
    widths: Sequence[int] = (64, 128, 256, 512),
    steps: Sequence[int] = (1, 3, 10, 30),
    seeds: int = 8,
    tolerance: float = TOLERANCE,
    zero_output: bool = True,
    level: float = 0.95,
) -> CoordinateCheck:
    """Train networks of several widths for a few steps and measure how their activations scale.

    >>> from sgdtheory.training import TrainConfig, coordinate_check
    >>> check = coordinate_check(TrainConfig(), widths=(8, 16), steps=(1, 2), seeds=2)  # doctest: +SKIP
    >>> check.layers[-1], check.change.shape  # layers, widths, steps, seeds  # doctest: +SKIP
    ('output', (5, 2, 2, 2))

    Args:
        config: parametrization, model, data and optimizer; its schedule is replaced by a constant one, its workers by
            one worker.
        widths: at least two widths; the smallest is taken as the base width.
        steps: steps after which activations are measured.
        seeds: number of initial weights for each width, at least two.
        tolerance: largest slope that passes.
        zero_output: train from output weights of 0, to which the initial output tends under µP. The output of random
            weights shrinks like w^−½ and would hide the effect of a small learning rate for many steps.
        level: confidence level of the intervals of the slopes.

    Raises:
        ValueError: if there are too few widths or seeds, or steps are not positive.
    """
    if len(set(widths)) < 2:
        raise ValueError(f"widths must be at least two different ones for a slope, got {tuple(widths)}")
    if seeds < 2:
        raise ValueError(f"seeds must be at least 2 for an interval, got {seeds}")
    if not steps or min(steps) < 1:
        raise ValueError(f"steps must be positive whole numbers, got {tuple(steps)}")
    widths, steps = sorted(set(widths)), sorted(set(steps))
    plain: Any = {"schedule": Constant(), "averages": (), "uniform_average": False, "schedule_steps": None}
    plain |= ROUNDS
    config = config.imported()
    found = []
    # At the base width all exponents give a factor of 1, so that checks of other tables share its programs.
    plain_table = Parametrization(name="base width", attention=config.table.attention)
    for width in widths:
        table = plain_table if width == widths[0] else config.parametrization
        here = replace(config, width=width, base_width=widths[0], parametrization=table, max_steps=steps[-1], **plain)
        found.append(_measure([replace(here, seed=config.seed + k) for k in range(seeds)], steps, zero_output))
    layers = tuple(found[0][0])
    size = np.array([[one[0][name] for one in found] for name in layers])
    change, own = (np.array([[one[k][name] for one in found] for name in layers]) for k in (1, 2))
    change, own = (_moved(values, size) for values in (change, own))
    return CoordinateCheck(config, np.array(widths), np.array(steps), layers, size, change, own, tolerance, level)


def _moved(values: np.ndarray, size: np.ndarray) -> np.ndarray:
    """Return the changes, with 0 for a layer and step at which they are rounding at every width and seed."""
    return np.where((values > ROUNDING * size[:, :, None]).any(axis=(1, 3), keepdims=True), values, 0.0)


def _measure(configs: list[TrainConfig], steps: Sequence[int], zero_output: bool) -> tuple[dict, dict, dict]:
    """Measure one width: size {layer: (S,)} before training, change and own part {layer: (T, S)}."""
    shared, evaluated, lanes = program(configs[0]), evaluation_program(configs[0]), stacked(configs)
    data = stream(configs[0])
    probe = data.holdout()[0][:PROBES]
    state = start = init(lanes, config=initial_program(configs[0]))
    size = _activations(start, probe, config=evaluated)
    if zero_output:
        names = _last(state, jnp.asarray(probe), config=configs[0])
        outputs = {name: jnp.zeros_like(start.params[name]) for name in names}
        state = start = start._replace(params=start.params | outputs)
    state, done, rows = jax.tree.map(jnp.copy, start), 0, []
    most = int(np.diff([0, *steps]).max())
    for step in steps:
        pieces = data.chunk(configs[0].data_seed, done, step - done)
        # Pieces beyond the number of steps are not used: without them each number would need a program of its own.
        unused = np.repeat(pieces[-1:], most - len(pieces), axis=0)
        pieces = jnp.asarray(np.concatenate([pieces, unused]))
        state = advance(state, lanes, pieces, np.int32(step - done), config=shared, mesh=None)
        done = step
        rows.append(_changes(state, start, probe, config=evaluated))
    change, own = ({name: np.array([row[k][name] for row in rows]) for name in rows[0][k]} for k in (0, 1))
    return {name: np.asarray(value) for name, value in size.items()}, change, own


def _last(state: State, probe: Array, *, config: TrainConfig) -> list[str]:
    """List the output tensors in which the network is linear: f(W + V) + f(W − V) = 2 f(W) for a random V.

    A bottleneck has the role of an output too. It must not be set to 0, as then no gradient would pass it.
    """
    network = config.network
    names = list(network.with_role("output"))
    if len(names) < 2:
        return names
    scales = tensor_factors(network.tensors, config)
    params = effective({name: value[0] for name, value in state.params.items()}, scales, jnp.float32)
    found = []
    for name in names:
        size = _root_mean_square(params[name])
        moved = size * jax.random.normal(jax.random.key(1), params[name].shape)
        middle, more, less = (
            network.apply(params | {name: params[name] + sign * moved}, probe)[0] for sign in (0, 1, -1)
        )
        curved = _root_mean_square(more + less - 2 * middle)
        if curved <= LINEAR * _root_mean_square(more - less):
            found.append(name)
    return found


@partial(Programs, runs_often=False)
def _activations(state: State, probe: Array, *, config: TrainConfig) -> dict[str, Array]:
    """Compute root mean squares {layer: (S,)} of the activations of each tensor."""

    def one(state: State) -> dict[str, Array]:
        params = iterate(config, state.optimizer, state.params)
        return {name: _root_mean_square(value) for name, value in _outputs(config, params, probe).items()}

    return jax.vmap(one)(state)


@partial(Programs, runs_often=False)
def _changes(state: State, start: State, probe: Array, *, config: TrainConfig) -> tuple[dict, dict]:
    """Compute root mean squares {layer: (S,)} of the change since the start, and of each tensor's own part of it."""
    # Without `jax.jit` the network is traced once more for each layer, which takes longer than its compilation.
    outputs_of = jax.jit(partial(_outputs, config))

    def one(state: State, start: State) -> tuple[dict[str, Array], dict[str, Array]]:
        now, before = (iterate(config, each.optimizer, each.params) for each in (state, start))
        outputs, first = (outputs_of(params, probe) for params in (now, before))
        change = {name: _root_mean_square(outputs[name] - first[name]) for name in outputs}
        own = {}
        for layer in outputs:
            without = outputs_of(_reset(now, before, layer), probe)
            own[layer] = _root_mean_square(outputs[layer] - without[layer])
        return change, own

    return jax.vmap(one)(state, start)


def _outputs(config: TrainConfig, params: Params, probe: Array) -> dict[str, Array]:
    """Compute {layer: activations}, one entry per layer of a stack ("query.0"), without tensors of fixed shape."""
    tensors = config.network.tensors
    scales = tensor_factors(tensors, config)
    _, layers = config.network.apply(effective(params, scales, jnp.float32), probe)
    outputs: dict[str, Array] = {}
    for name, tensor in tensors.items():
        if tensor.role == "fixed":
            continue
        if tensor.stacked:
            outputs |= {f"{name}.{k}": layers[name][k] for k in range(tensor.shape[0])}
        else:
            outputs[name] = jnp.asarray(layers[name])
    return outputs


def _reset(params: Params, before: Params, layer: str) -> Params:
    """Return the weights with those of one layer reset to what they were before."""
    if layer in params:
        return params | {layer: before[layer]}
    name, _, number = layer.rpartition(".")
    return params | {name: params[name].at[int(number)].set(before[name][int(number)])}


def _root_mean_square(value: Array) -> Array:
    return jnp.sqrt(jnp.mean(value.astype(jnp.float32) ** 2))
