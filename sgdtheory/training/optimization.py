"""Learning rate, clipping and optimizer of a run as optax transformations with factors for every tensor."""

import math
from collections.abc import Mapping, Set
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
import optax
from jax import Array

from sgdtheory.algorithms import first_step
from sgdtheory.training.config import DEFAULTS, TrainConfig
from sgdtheory.training.network import NEWTON_SCHULZ, Params
from sgdtheory.training.optimizers import SGD, Adam, Muon, SignSGD
from sgdtheory.training.parametrization import Factors, Role
from sgdtheory.training.schedules import Constant, ScheduleFree, Stages
from sgdtheory.training.workers import mean

DECAYED: tuple[Role, ...] = "input", "hidden", "output"  # Weight decay shrinks tensors with these roles.


class Rates(NamedTuple):
    """Numbers of the optimizer (scalars) that may differ between runs of one compiled program."""

    learning_rate: Array
    momentum: Array
    update_rms: Array
    beta1: Array
    beta2: Array
    epsilon: Array
    weight_decay: Array


def rates(config: TrainConfig) -> Rates:
    """Return the config's numbers; those that its optimizer and schedule do not use have their defaults."""
    values = (config.value(name) for name in Rates._fields)
    numbers = (DEFAULTS[name] if value is None else value for name, value in zip(Rates._fields, values, strict=True))
    return Rates(*map(np.float32, numbers))  # pyright: ignore[reportArgumentType]


def schedule_factor(config: TrainConfig, step: Array) -> Array:
    """Return the schedule's factor f(t/n) at step t = 0, 1, …, with n = schedule_steps, and f(1) beyond (T21)."""
    schedule, duration = config.schedule, config.duration
    if isinstance(schedule, Stages):  # Jumps are placed at whole steps, because t/n in single precision may miss them.
        starts = np.array([first_step(fraction, duration) for fraction in schedule.fractions])
        return jnp.asarray(schedule.values, jnp.float32)[jnp.searchsorted(jnp.asarray(starts, int), step, "right") - 1]
    shape = Constant(schedule.warmup) if isinstance(schedule, ScheduleFree) else schedule
    return shape.at(jnp.minimum(step.astype(jnp.float32) / duration, 1.0), jnp)


def squared_norm(tree: Params, scales: Mapping[str, Factors]) -> Array:
    """Compute Σ_l Λ_l ‖g_l‖², with Λ_l the SGD rate factor of tensor l.

    This is the rate at which SGD lowers the loss. It is the squared Euclidean norm at the base width, does not grow
    with the width under µP, and is the same for equivalent parametrizations (THEORY.md, T18).
    """
    return sum((scales[name].sgd_rate * jnp.sum(part**2) for name, part in tree.items()), jnp.float32(0.0))


def optimizer(config: TrainConfig, scales: Mapping[str, Factors], numbers: Rates) -> optax.GradientTransformation:
    """Chain clipping, the optimizer's direction and each tensor's learning rate; updates are added to the weights.

    Weights that are not trained have gradients and updates of 0 under every optimizer.
    """

    def rate(count: Any) -> Any:
        return numbers.learning_rate * schedule_factor(config, count)

    free = isinstance(config.schedule, ScheduleFree)
    own_rates = _multiplied({name: factor.rate for name, factor in scales.items()})
    if isinstance(config.optimizer, Adam):
        matrices = {name for name, tensor in config.network.tensors.items() if tensor.role in DECAYED}
        own_rates = _decayed(own_rates, matrices, numbers.weight_decay)
    steps = _direction(config, scales, numbers), own_rates, optax.scale_by_learning_rate(rate)
    base = optax.chain(_clipped(config, scales), *steps)
    if free:
        # The average weighs z_{t+1} by the learning rate of step t (Defazio et al. 2024), where optax passes t + 1.
        base = optax.contrib.schedule_free(base, lambda count: rate(count - 1), b1=numbers.beta1)
    if config.trained == "all":
        return base
    return _restricted(base, _trained(config))


def _direction(config: TrainConfig, scales: Mapping[str, Factors], numbers: Rates) -> optax.GradientTransformation:
    """Return the transformation of gradients to the optimizer's direction: a step without its rate and sign.

    Adam with ε e_l for tensor l is Adam with ε on gradients divided by e_l; signs and polar factors do not change.
    """
    free = isinstance(config.schedule, ScheduleFree)  # Its interpolation replaces momentum and β₁.
    summed = optax.identity() if free else optax.trace(numbers.momentum)
    none = jnp.float32(0.0)
    momentum, beta1 = (none, none) if free else (numbers.momentum, numbers.beta1)
    by_epsilon = _multiplied({name: 1 / factor.epsilon for name, factor in scales.items()})
    adam = optax.scale_by_adam(beta1, numbers.beta2, numbers.epsilon)
    match config.optimizer:
        case SGD():
            return summed
        case SignSGD():
            return optax.chain(summed, optax.scale_by_sign())
        case Adam():
            return optax.chain(by_epsilon, adam)
        case Muon():
            return optax.chain(by_epsilon, _muon(config, adam, momentum, numbers.update_rms))


def _muon(
    config: TrainConfig, others: optax.GradientTransformation, momentum: Array, update_rms: Array
) -> optax.GradientTransformation:
    """Return Muon's direction for hidden weights, scaled as `Muon` documents, and Adam's for all others."""
    tensors = config.network.tensors
    hidden = {name: tensors[name] for name in config.network.with_role("hidden")}
    kinds = {name: "muon" if name in hidden else "others" for name in tensors}
    matrices = {name: optax.contrib.MuonDimensionNumbers(*tensor.axes) for name, tensor in hidden.items()}
    # optax also looks up the axes of masked tensors, whose gradient it replaces by this placeholder.
    masked = {name: optax.MaskedNode() for name in tensors} | matrices
    orthogonal = optax.contrib.scale_by_muon(ns_steps=NEWTON_SCHULZ, beta=momentum, weight_dimension_numbers=masked)
    # Dividing by the width ratio r under the root leaves √(longer side at the base width), the same at every width.
    scale = {name: update_rms * math.sqrt(tensor.longer_side / config.width_ratio) for name, tensor in hidden.items()}
    by_kind = optax.partition({"muon": orthogonal, "others": others}, kinds)
    return optax.chain(by_kind, _multiplied(dict.fromkeys(tensors, 1.0) | scale))


def iterate(config: TrainConfig, state: optax.OptState, params: Params) -> Params:
    """Return θ_t as it is evaluated and averaged: the weights themselves, or schedule-free's x = (y − (1 − β₁) z)/β₁.

    If workers take local steps, θ_t is the mean of their weights.
    """
    if config.has_rounds:
        return mean(params)
    if not isinstance(config.schedule, ScheduleFree):
        return params
    evaluated: Any = optax.contrib.schedule_free_eval_params(state, params)
    return {name: evaluated[name] if name in _trained(config) else part for name, part in params.items()}


def _trained(config: TrainConfig) -> Set[str]:
    """Return the names of the tensors that are trained."""
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
    """Restrict a transformation to the tensors of these names; the others' gradients and updates are 0."""

    def only(tree: Any) -> Any:
        return {name: part if name in names else jnp.zeros_like(part) for name, part in tree.items()}

    def update(updates: Any, state: Any, params: Any = None) -> tuple[Any, Any]:
        updates, state = base.update(only(updates), state, params)
        return only(updates), state

    return optax.GradientTransformation(base.init, update)


def _decayed(base: optax.GradientTransformation, names: Set[str], decay: Array) -> optax.GradientTransformation:
    """Add κ w to the direction of these tensors, after their factors for the width: γκ is the same at every width."""

    def update(updates: Any, state: Any, params: Any = None) -> tuple[Any, Any]:
        updates, state = base.update(updates, state, params)
        return {name: part + decay * params[name] if name in names else part for name, part in updates.items()}, state

    return optax.GradientTransformation(base.init, update)


def _multiplied(own_factors: Mapping[str, Any]) -> optax.GradientTransformation:
    """Return the transformation that multiplies each tensor's gradient by its own factor."""

    def multiply(tree: Any, _: Any) -> Any:
        return {name: part * own_factors[name] for name, part in tree.items()}

    return optax.stateless(multiply)
