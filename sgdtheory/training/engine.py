"""The compiled functions: runs that advance side by side through steps of SGD, and their losses on the hold-out."""

import functools
from collections.abc import Sequence
from dataclasses import replace
from functools import partial
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
from jax import Array, lax
from jax.sharding import NamedSharding, PartitionSpec

from sgdtheory._common.arguments import checked_name
from sgdtheory.training import averaging, workers
from sgdtheory.training.config import DEFAULTS, ROUNDS, TrainConfig
from sgdtheory.training.network import Params
from sgdtheory.training.noise import unbiased
from sgdtheory.training.optimization import Rates, iterate, optimizer, rates, squared_norm
from sgdtheory.training.parametrization import with_exponent_alone
from sgdtheory.training.programs import Programs
from sgdtheory.training.schedules import Constant, ScheduleFree
from sgdtheory.training.streams import Stream, stream
from sgdtheory.training.tensors import draw, effective, tensor_factors

PIECE = 1 << 14  # At most this many input numbers of the hold-out are evaluated together, which bounds the memory.
NEVER = -1  # This stands for the step of a failure that has not happened.


class Lane(NamedTuple):
    """The settings that may differ between runs of one compiled program; stacked, one row per run.

    Attributes:
        rates: numbers of the optimizer.
        decays: (K,) decay rates of the averages.
        seed, data_seed: seeds of the weights and of the order of the data.
        outer: local steps, learning rate and momentum of the outer steps.
    """

    rates: Rates
    decays: Array
    seed: Array
    data_seed: Array
    outer: workers.OuterRates


class State(NamedTuple):
    """The state of a run at one step.

    Attributes:
        step: number of steps done.
        params: weights of the next gradient; with rounds those of every worker, stacked along the first axis.
        optimizer: state of the optax optimizer; with rounds likewise stacked.
        averages: ξ of every decay rate, stacked along the first axis.
        sums: (3,) sums since the last evaluation of the training loss and of the estimates of ‖g‖² and tr Σ.
        failed: first step whose loss was not finite; −1 if there is none.
        outer: state that the workers share; empty without rounds.
    """

    step: Array
    params: Params
    optimizer: Any
    averages: Params
    sums: Array
    failed: Array
    outer: Any = ()


def lane(config: TrainConfig) -> Lane:
    """Return the config's settings that may differ between runs of one program."""
    seeds = np.uint32(config.seed), np.uint32(config.data_seed)
    outer = workers.outer_rates(config)
    return Lane(rates(config), averaging.decays(config), *seeds, outer)  # pyright: ignore[reportArgumentType]


# The runs of one program may differ in these fields, besides the numbers of the optimizer.
DIFFERENT = "learning_rate", "seed", "data_seed", "target_loss", "eval_every", "averages", "uniform_average"


@functools.lru_cache(maxsize=1 << 14)
def program(config: TrainConfig) -> TrainConfig:
    """Return the config with all settings of a `Lane` at fixed values: it identifies the compiled program."""
    schedule = config.schedule
    # H, η and μ may differ between lanes, so that one kind of round stands for all of them.
    rounds = ROUNDS | ({"num_workers": config.num_workers, "local_steps": 2} if config.has_rounds else {})
    return replace(
        config,
        **{name: DEFAULTS[name] for name in DIFFERENT} | rounds,
        optimizer=type(config.optimizer)(),
        schedule=ScheduleFree(warmup=schedule.warmup) if isinstance(schedule, ScheduleFree) else schedule,
        max_steps=config.duration,
        schedule_steps=None,
    )


def side_by_side(config: TrainConfig) -> tuple[Any, ...]:
    """Return a key that configs share if and only if they can advance side by side: one program, same evaluations."""
    return program(config), len(config.average_names), config.eval_every, config.max_steps


@functools.lru_cache(maxsize=1 << 14)
def initial_program(config: TrainConfig) -> TrainConfig:
    """Return the settings of the program on which the state before the first step depends."""
    # The optimizer's state starts at 0, or at the weights, so that no learning rate or ε matters. Configs that differ
    # in these exponents alone then share a compiled program: half of the compilation of a small run is of its weights.
    return replace(_without_steps(config), parametrization=with_exponent_alone(config.table, "init"))


@functools.lru_cache(maxsize=1 << 14)
def evaluation_program(config: TrainConfig) -> TrainConfig:
    """Return the settings of the program on which what a network with given weights computes depends."""
    return replace(_without_steps(config), parametrization=with_exponent_alone(config.table, "multiplier"))


def _without_steps(config: TrainConfig) -> TrainConfig:
    """Return the program without its batches and duration."""
    schedule = ScheduleFree() if isinstance(config.schedule, ScheduleFree) else Constant()
    steps = {"batch_size": 1, "micro_batch": None, "max_steps": 1, "schedule_steps": None}
    return replace(program(config), schedule=schedule, **steps)


def stacked(configs: Sequence[TrainConfig]) -> Lane:
    """Stack the lanes of runs; a data_seed that all share stays a scalar, so that their data are made once."""
    rows = [lane(config) for config in configs]
    lanes = jax.tree.map(lambda *parts: np.stack(parts), *rows)
    return lanes._replace(data_seed=rows[0].data_seed) if len({config.data_seed for config in configs}) == 1 else lanes


def _axes(lanes: Lane) -> Lane:
    """Return `in_axes` of the lanes for `jax.vmap`."""
    return jax.tree.map(lambda part: 0, lanes)._replace(data_seed=0 if lanes.data_seed.ndim else None)


@partial(Programs, runs_often=False)
def init(lanes: Lane, *, config: TrainConfig) -> State:
    """Return the stacked states of runs before the first step."""

    def one(own: Lane) -> State:
        network = config.network
        params = draw(network.tensors, config, jax.random.key(own.seed), network.initial)
        averages = averaging.start(params, own.decays.shape[0])
        start = optimizer(config, tensor_factors(network.tensors, config), own.rates).init
        if not config.has_rounds:
            return State(jnp.int32(0), params, start(params), averages, jnp.zeros(3), jnp.int32(NEVER))
        each, outer = workers.begun(params, config.num_workers)
        return State(jnp.int32(0), each, jax.vmap(start)(each), averages, jnp.zeros(3), jnp.int32(NEVER), outer)

    return jax.vmap(one, (_axes(lanes),))(lanes)


@partial(Programs, donate_argnames="state")
def advance(
    state: State,
    lanes: Lane,
    pieces: Array,
    number: Array,
    *,
    config: TrainConfig,
    mesh: Any,
    contents: Any = (),
) -> State:
    """Advance all runs by `number` steps.

    Args:
        state, lanes: stacked states and lanes of the runs.
        pieces: (L, …) data of at least `number` steps that all runs share, or (R, L, …) with one row per run.
        number: steps to do.
        config: the program.
        mesh: mesh of the devices that share a batch; None: one device.
        contents: hashes of the data files. A compiled program may contain the data as constants, so that an edited
            file needs a new program.
    """
    del contents
    data = stream(config)
    shared = lanes.data_seed.ndim == 0

    def body(index: Array, state: State) -> State:
        piece = lax.dynamic_index_in_dim(pieces, index, 0 if shared else 1, keepdims=False)
        one = partial(_step, config, data, mesh)
        return jax.vmap(one, (0, _axes(lanes), None if shared else 0))(state, lanes, piece)

    return lax.fori_loop(0, number, body, state)


@Programs
def evaluate(state: State, inputs: Array, targets: Array, *, config: TrainConfig, mesh: Any) -> Array:
    """Return (R, 1 + K) losses on the hold-out, of the iterate and of every average."""
    tensors = config.network.tensors
    scales, dtype = tensor_factors(tensors, config), jnp.dtype(config.precision)

    def loss(params: Params) -> Array:
        weights = effective(params, scales, dtype)
        return _mean_in_pieces(partial(_batch_loss, config, mesh, weights), inputs, targets)

    def one(state: State) -> Array:
        current = iterate(config, state.optimizer, state.params)
        everything = jax.tree.map(lambda part, rows: jnp.concatenate([part[None], rows]), current, state.averages)
        return lax.map(loss, everything)

    return jax.vmap(one)(state)


def _step(config: TrainConfig, data: Stream, mesh: Any, state: State, own: Lane, piece: Array) -> State:
    """Do one step of one run."""
    batch = data.batch(own.data_seed, piece)
    current = iterate(config, state.optimizer, state.params)
    move = partial(_moved, config, mesh, own)
    if config.has_rounds:
        each = workers.divided(batch, config.num_workers)
        params, optimizer_state, numbers = jax.vmap(move)(state.params, state.optimizer, *each)
        params, outer = workers.after_step(params, state.outer, state.step, own.outer)
        numbers = jnp.mean(numbers, axis=0)
    else:
        params, optimizer_state, numbers = move(state.params, state.optimizer, *batch)
        outer = state.outer
    return State(
        step=state.step + 1,
        params=params,
        optimizer=optimizer_state,
        averages=averaging.updated(state.averages, current, own.decays, state.step),
        sums=state.sums + numbers,
        failed=jnp.where((state.failed == NEVER) & ~jnp.isfinite(numbers[0]), state.step, state.failed),
        outer=outer,
    )


def _moved(
    config: TrainConfig, mesh: Any, own: Lane, params: Params, state: Any, inputs: Array, targets: Array
) -> tuple[Params, Any, Array]:
    """Do one worker's step: return its weights, its optimizer state, and (3,) loss and estimates of ‖g‖² and tr Σ."""
    scales = tensor_factors(config.network.tensors, config)
    loss, gradient, estimates = _gradient(config, mesh, params, inputs, targets)
    updates, state = optimizer(config, scales, own.rates).update(gradient, state, params)
    return jax.tree.map(jnp.add, params, updates), state, jnp.stack([loss, *estimates])


def _gradient(
    config: TrainConfig, mesh: Any, params: Params, inputs: Array, targets: Array
) -> tuple[Array, Params, tuple[Array, Array]]:
    """Compute the loss, its gradient, and estimates of ‖g‖² and tr Σ (nan without micro-batches)."""
    scales = tensor_factors(config.network.tensors, config)

    def loss(params: Params, inputs: Array, targets: Array) -> Array:
        return _batch_loss(config, mesh, effective(params, scales, jnp.dtype(config.precision)), inputs, targets)

    parts = config.accumulated
    if parts == 1:
        nothing = jnp.float32(jnp.nan)
        return *jax.value_and_grad(loss)(params, inputs, targets), (nothing, nothing)

    def accumulate(sums: Any, part: tuple[Array, Array]) -> tuple[Any, None]:
        value, gradient = jax.value_and_grad(loss)(params, *part)
        return jax.tree.map(jnp.add, sums, (value, gradient, squared_norm(gradient, scales))), None

    zero = jnp.float32(0.0), jax.tree.map(jnp.zeros_like, params), jnp.float32(0.0)
    split: Any = tuple(array.reshape(parts, -1, *array.shape[1:]) for array in (inputs, targets))
    sums, _ = lax.scan(accumulate, zero, split)
    value, gradient, small = jax.tree.map(lambda total: total / parts, sums)
    estimates = unbiased(small, squared_norm(gradient, scales), config.batch_size // parts, config.batch_size)
    return value, gradient, estimates


def _batch_loss(config: TrainConfig, mesh: Any, weights: Params, inputs: Array, targets: Array) -> Array:
    """Compute the loss of a batch that is divided among the devices."""
    if mesh is not None and inputs.shape[0] % mesh.size == 0:
        divided = NamedSharding(mesh, PartitionSpec("data"))
        inputs, targets = (lax.with_sharding_constraint(array, divided) for array in (inputs, targets))
    outputs, _ = config.network.apply(weights, inputs)
    return config.network.loss(outputs, targets)


def _mean_in_pieces(loss: Any, inputs: Array, targets: Array) -> Array:
    """Compute the mean over all samples, in pieces, of a loss that is the mean over a batch."""
    size = max(1, PIECE // int(np.prod(inputs.shape[1:])))
    whole = inputs.shape[0] // size
    total = jnp.float32(0.0)
    if whole:
        pieces = tuple(array[: whole * size].reshape(whole, size, *array.shape[1:]) for array in (inputs, targets))
        total += size * jnp.sum(lax.map(lambda piece: loss(*piece), pieces))
    if whole * size < inputs.shape[0]:
        total += (inputs.shape[0] - whole * size) * loss(inputs[whole * size :], targets[whole * size :])
    return total / inputs.shape[0]


def iterate_of(config: TrainConfig, state: State, average: str = "iterate") -> Params:
    """Return the weights of one run's state: the iterate's, or an average's by its name."""
    row = config.average_names.index(checked_name("average", average, config.average_names))
    if row == 0:
        return dict(iterate(config, state.optimizer, state.params))
    return {name: part[row - 1] for name, part in state.averages.items()}
