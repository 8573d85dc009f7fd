"""The regression that a network is near its weights: features are the gradients of its output by what is trained."""

from collections.abc import Callable
from typing import NamedTuple

import jax
import jax.numpy as jnp
import numpy as np

import sgdtheory as st
from sgdtheory.training import Lanes, TeacherStream, TrainConfig, tensor_factors

PIECE = 2048  # inputs whose gradients are made at once
GRADIENT = 2.0  # of the loss (f − y)², whose γ of the theory's update is so many times the trainer's


class FeatureProblem(NamedTuple):
    """Regression of a target on features.

    Attributes:
        problem: the theory's, with the label noise and what no feature explains as its noise.
        missed: what no feature explains, part of the whole risk.
        data: exponents of the features, with intervals.
    """

    problem: st.LeastSquares
    missed: float
    data: st.data.DataProblem


def teacher_inputs(own: TrainConfig, number: int, seed: int) -> tuple[np.ndarray, np.ndarray]:
    """Inputs (N, d) of the teacher's law and its outputs f*(x), (N,), without noise."""
    teacher = TeacherStream(own.data, own.batch_size, 1)  # pyright: ignore[reportArgumentType]
    rng = np.random.default_rng((own.value("task_seed"), seed, number))
    inputs = (rng.standard_normal((number, own.value("input_dim"))) * np.sqrt(teacher.spectrum)).astype(np.float32)
    return inputs, np.asarray(teacher(inputs), float)  # pyright: ignore[reportArgumentType]


def tangents(own: TrainConfig, weights: dict[str, np.ndarray], inputs: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Outputs f(x), (N,), and their gradients (N, P) by the weights that are trained, in the metric of SGD's rates.

    To first order `f_w(x) = f_v(x) + ⟨φ(x), θ⟩`, `φ = (√r_l ∂f/∂W_l)_l`, `θ_l = (w_l − v_l)/√r_l`, r_l the factor of
    tensor l's rate: SGD on w at rate γ is SGD on θ, in which the network is linear, at γ. With the output's weights
    alone trained this is exact, and φ are the activations of the last hidden layer, scaled.

    Args:
        own: config of the run.
        weights: v, as `Lanes.weights` has them, of one run.
        inputs: (N, d).
    """
    scales = tensor_factors(own.network.tensors, own)
    effective = {name: jnp.asarray(scales[name].multiplier * part) for name, part in weights.items()}
    trained = {name: part for name, part in effective.items() if scales[name].sgd_rate > 0}

    def output(part: dict, x: jax.Array) -> jax.Array:
        return own.network.apply({**effective, **part}, x[None])[0][0]

    both = jax.jit(jax.vmap(jax.value_and_grad(output), (None, 0)))
    outputs, features = [], []
    for first in range(0, len(inputs), PIECE):
        values, slopes = both(trained, inputs[first : first + PIECE])
        outputs.append(np.asarray(values, float))
        rows = [
            np.asarray(slopes[name], float).reshape(len(values), -1)
            * (scales[name].multiplier * scales[name].sgd_rate ** 0.5)
            for name in trained
        ]
        features.append(np.concatenate(rows, axis=1))
    return np.concatenate(outputs), np.concatenate(features)


def output_risk(own: TrainConfig, weights: dict[str, np.ndarray], num_inputs: int) -> Callable[[Lanes], np.ndarray]:
    """Excess risk `(θ̄ − θ*)ᵀ H (θ̄ − θ*)` of runs that train the output's weights alone, from those weights.

    H and θ* are those of many inputs. A hold-out of m inputs would add the error 2 (θ̄ − θ*)ᵀ (mean of φ r), r what no
    feature explains, which is more than the risk itself once that is small.
    """
    inputs, targets = teacher_inputs(own, num_inputs, 0)
    outputs, features = tangents(own, weights, inputs)
    covariance = features.T @ features / num_inputs
    best = np.linalg.solve(covariance, features.T @ (targets - outputs) / num_inputs)
    scale = tensor_factors(own.network.tensors, own)["output"].sgd_rate ** -0.5

    def risk(lanes: Lanes) -> np.ndarray:
        moved = lanes.weights("uniform")["output"].astype(float) - weights["output"]
        error = scale * moved.reshape(len(moved), -1) - best
        return np.einsum("ri,ij,rj->r", error, covariance, error)

    return risk


def feature_problem(features: np.ndarray, targets: np.ndarray, noise_variance: float) -> FeatureProblem:
    """The theory's problem of features (N, P) and targets (N,) without noise; label noise of that variance is added."""
    found = st.problem_from_data(features, targets)
    problem = st.LeastSquares(found.problem.eigenvalues, found.problem.signal, found.noise_variance + noise_variance)
    return FeatureProblem(problem, found.noise_variance, found)
