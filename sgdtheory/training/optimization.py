"""Learning rate, clipping and optimizer of a run, as optax transformations that know every tensor's factors."""

from collections.abc import Mapping, Set
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
import optax
from jax import Array

from sgdtheory.algorithms import first_step
from sgdtheory.training.config import DEFAULTS, TrainConfig
from sgdtheory.training.network import Params
from sgdtheory.training.optimizers import Adam
from sgdtheory.training.parametrization import Factors
from sgdtheory.training.schedules import Constant, ScheduleFree, Stages


class Rates(NamedTuple):
    """Numbers of the optimizer that may differ between runs of one compiled program; scalars."""

    learning_rate: Array
    momentum: Array
    beta1: Array
    beta2: Array
    epsilon: Array


def rates(config: TrainConfig) -> Rates:
    """The config's numbers; those that its optimizer and schedule do not have stand at their defaults, unused."""
    values = (config.value(name) for name in Rates._fields)
    found = (DEFAULTS[name] if value is None else value for name, value in zip(Rates._fields, values, strict=True))
    return Rates(*map(np.float32, found))  # pyright: ignore[reportArgumentType]


def schedule_factor(config: TrainConfig, step: Array) -> Array:
    """Learning rate at step t = 0, 1, … over γ: the schedule's f(t/n), n = schedule_steps, and f(1) beyond (T21)."""
    schedule, duration = config.schedule, config.duration
    if isinstance(schedule, Stages):  # it jumps: at a whole step, which single precision does not move
        starts = np.array([first_step(fraction, duration) for fraction in schedule.fractions])
        return jnp.asarray(schedule.values, jnp.float32)[jnp.searchsorted(jnp.asarray(starts, int), step, "right") - 1]
    shape = Constant(schedule.warmup) if isinstance(schedule, ScheduleFree) else schedule
    return shape.at(jnp.minimum(step.astype(jnp.float32) / duration, 1.0), jnp)


def squared_norm(tree: Params, scales: Mapping[str, Factors]) -> Array:
    """Σ_l Λ_l ‖g_l‖², with Λ_l the SGD rate factor of tensor l.

    This is the rate at which SGD lowers the loss: the squared Euclidean norm at the base width, of order 1 in the
    width under µP, and the same for equivalent parametrizations (THEORY.md, T18).
    """
    return sum((scales[name].sgd_rate * jnp.sum(part**2) for name, part in tree.items()), jnp.float32(0.0))


def optimizer(config: TrainConfig, scales: Mapping[str, Factors], numbers: Rates) -> optax.GradientTransformation:
    """Clipping, then SGD or Adam with each tensor's own ε and rate; updates are to be added to the weights.

    Adam with ε e_l for tensor l is Adam with ε on gradients divided by e_l. Weights that are not trained have gradients
    and updates of 0, whatever the optimizer.
    """

    def rate(count: Any) -> Any:
        return numbers.learning_rate * schedule_factor(config, count)

    free = isinstance(config.schedule, ScheduleFree)
    if isinstance(config.optimizer, Adam):
        normalize = _multiplied({name: 1 / factor.epsilon for name, factor in scales.items()})
        first = jnp.float32(0.0) if free else numbers.beta1  # schedule-free interpolates in its place
        direction = optax.chain(normalize, optax.scale_by_adam(first, numbers.beta2, numbers.epsilon))
    else:
        direction = optax.identity() if free else optax.trace(numbers.momentum)
    own_rates = _multiplied({name: factor.rate for name, factor in scales.items()})
    base = optax.chain(_clipped(config, scales), direction, own_rates, optax.scale_by_learning_rate(rate))
    if free:
        # Averages weigh z_{t+1} by the rate that made it (Defazio et al. 2024); optax counts steps from 1 for them.
        base = optax.contrib.schedule_free(base, lambda count: rate(count - 1), b1=numbers.beta1)
    if config.trained == "all":
        return base
    return _restricted(base, _trained(config))


def iterate(config: TrainConfig, state: optax.OptState, params: Params) -> Params:
    """θ_t as it is evaluated and averaged: the weights themselves, or schedule-free's x = (y − (1 − β₁) z)/β₁."""
    if not isinstance(config.schedule, ScheduleFree):
        return params
    found: Any = optax.contrib.schedule_free_eval_params(state, params)
    return {name: found[name] if name in _trained(config) else part for name, part in params.items()}


def _trained(config: TrainConfig) -> Set[str]:
    """Names of the tensors that are trained."""
    return {name for name, tensor in config.network.tensors.items() if config.trained in ("all", tensor.role)}


def _clipped(config: TrainConfig, scales: Mapping[str, Factors]) -> optax.GradientTransformation:
    largest = config.clip_norm
    if largest is None:
        return optax.identity()

    def clip(gradient: Any, _: Any) -> Any:
        norm = jnp.sqrt(squared_norm(gradient, scales))
        factor = jnp.minimum(1.0, largest / jnp.maximum(norm, jnp.finfo(norm.dtype).tiny))
        return jax.tree.map(lambda part: part * factor, gradient)

    return optax.stateless(clip)


def _restricted(base: optax.GradientTransformation, names: Set[str]) -> optax.GradientTransformation:
    """The same for the tensors of these names alone; the others' gradients and updates are 0."""

    def only(tree: Any) -> Any:
        return {name: part if name in names else jnp.zeros_like(part) for name, part in tree.items()}

    def update(updates: Any, state: Any, params: Any = None) -> tuple[Any, Any]:
        updates, state = base.update(only(updates), state, params)
        return only(updates), state

    return optax.GradientTransformation(base.init, update)


def _multiplied(own_factors: Mapping[str, float]) -> optax.GradientTransformation:
    """Each tensor's part times its own factor."""

    def multiply(tree: Any, _: Any) -> Any:
        return {name: part * own_factors[name] for name, part in tree.items()}

    return optax.stateless(multiply)
