"""The learning rate of the loss curves: the state's, or a multiple of the best one of each algorithm."""

import functools
from dataclasses import replace

from sgdtheory.algorithms import SGD, Algorithm
from sgdtheory.critical import optimal_learning_rate
from sgdtheory.explore.state import State
from sgdtheory.problems import AbstractProblem


def setting_rate(state: State, slot: int) -> float:
    """Return γ of an algorithm.

    A linear method has the γ of the slider, in units of 1/λ, or the best one. Other methods have other units: for them
    the slider is a multiple of the best γ.
    """
    algorithm = state.algorithms[slot]
    if algorithm.linear and state.learning_rate is not None:
        return state.learning_rate
    best = best_rate(state, slot) if state.has_risk(slot) else reference_rate(state, slot)
    return best if algorithm.linear else state.rate_factor * best


def best_rate(state: State, slot: int) -> float:
    """Return the γ with which the risk at B and D is least."""
    return _best(state.problem, state.algorithms[slot], state.batch_size, state.num_samples)


def reference_rate(state: State, slot: int) -> float:
    """Return a sensible γ for an algorithm whose risk is not known.

    It is `γ_SGD √(σ² tr H/B)`, the best γ of SGD with these schedules times the length of a gradient at the optimum,
    with which normalized SGD takes the steps of SGD there. A clipped linear method gets its best γ without clipping.
    """
    algorithm = state.algorithms[slot]
    unclipped = replace(algorithm, clip_norm=None)
    if unclipped.linear:
        return _best(state.problem, unclipped, state.batch_size, state.num_samples)
    sgd = _best(state.problem, replace(unclipped, method=SGD()), state.batch_size, state.num_samples)
    return sgd * (state.problem.noise_variance * state.problem.trace / state.batch_size) ** 0.5


@functools.lru_cache(maxsize=16)  # The best γ takes a second, and does not change when its slider moves.
def _best(problem: AbstractProblem, algorithm: Algorithm, batch_size: float, num_samples: float) -> float:
    found = optimal_learning_rate(problem, batch_size=batch_size, num_samples=num_samples, algorithm=algorithm)
    return float(found.learning_rate)
