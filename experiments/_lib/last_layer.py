"""The regression that a network's output layer is, on the activations of the last hidden layer."""

from typing import NamedTuple

import numpy as np

import sgdtheory as st
from experiments._lib.frozen_features import activations
from sgdtheory.training import Lanes, Teacher, TeacherStream, TrainConfig, tensor_factors

NEGLIGIBLE = 1e-12  # eigenvalues, relative to the largest, below which rounding has made them


class LastLayer(NamedTuple):
    """Regression of the teacher on the activations of the last hidden layer.

    Attributes:
        problem: their spectrum and the signal of the best predictor, learnt from w_0 = 0.
        approximation_risk: what the best predictor misses; it is part of the problem's noise too.
    """

    problem: st.LeastSquares
    approximation_risk: float


def last_layers(configs: list[TrainConfig], steps: int, num_inputs: int) -> list[LastLayer]:
    """Return the last layers of networks of one program after training; moments are means over inputs."""
    lanes = Lanes(configs)
    lanes.advance(steps)
    weights = lanes.weights()
    return [
        _last_layer(config, {name: part[lane] for name, part in weights.items()}, num_inputs)
        for lane, config in enumerate(configs)
    ]


def _last_layer(config: TrainConfig, weights: dict[str, np.ndarray], num_inputs: int) -> LastLayer:
    data, factors = config.data, tensor_factors(config.network.tensors, config)
    assert isinstance(data, Teacher)
    teacher = TeacherStream(data, config.batch_size, config.holdout_size)
    rng = np.random.default_rng((data.task_seed, config.seed, num_inputs))
    inputs = (rng.standard_normal((num_inputs, data.input_dim)) * np.sqrt(teacher.spectrum)).astype(np.float32)
    effective = {name: factors[name].multiplier * part for name, part in weights.items()}
    _, layers = config.network.apply(effective, inputs)  # pyright: ignore[reportArgumentType]
    last = layers["hidden"][-1] if "hidden" in layers else layers["input"]
    return regression(activations(config, np.asarray(last)), np.asarray(teacher(inputs), float), data.noise_variance)


def regression(features: np.ndarray, targets: np.ndarray, noise_variance: float) -> LastLayer:
    """Least squares on features (N, M) and targets (N,) without label noise, which comes to what is missed.

    Features that are zero throughout, such as dead units, have no part in it.
    """
    eigenvalues, vectors = np.linalg.eigh(features.T @ features / len(features))
    kept = eigenvalues > NEGLIGIBLE * eigenvalues[-1]
    eigenvalues, directions = eigenvalues[kept], features @ vectors[:, kept]
    correlation = directions.T @ targets / len(targets)
    missed = float(np.mean((targets - directions @ (correlation / eigenvalues)) ** 2))
    return LastLayer(st.LeastSquares(eigenvalues, correlation**2 / eigenvalues, noise_variance + missed), missed)
