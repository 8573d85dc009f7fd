"""A network with frozen features as the linear regression that it is: its moments, its exact risk, its trained risk.

With frozen features φ(x) and labels y, `y = ⟨w*, φ⟩ + ρ`, ρ = r(x) + σ ε, with w* the best linear predictor and r what
it misses. H = E φφᵀ is the covariance, η = w − w*, and γ the learning rate of the theory's update
w' = w − γ (1/B) Σ φ (⟨w, φ⟩ − y).
"""

import math
from dataclasses import replace
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np

import sgdtheory as st
from sgdtheory.training import Lanes, Teacher, TeacherStream, TrainConfig, tensor_factors

PIECE = 1 << 21  # numbers of a temporary array
DRAWN = 2048  # samples of each seed that are drawn at once


class Features(NamedTuple):
    """The regression that a network with frozen features is; moments are means over inputs, in float64.

    Attributes:
        inner: (d, n) weights of the frozen layer.
        covariance: (n, n) H = E φφᵀ.
        fourth: (n², n²) E[φφᵀ ⊗ φφᵀ], which takes vec S to vec E[φφᵀ S φφᵀ].
        best: (n,) w*.
        start: (n,) w_0.
        residual: (n², n) E[φφᵀ r φᵀ]: what the residual does to the second moment by way of the mean.
        noise: (n, n) E[(r² + σ²) φφᵀ].
        problem: the same as the theory has it, with noise variance σ² + E r².
        unit: γ of the theory for γ = 1 of the trainer.
    """

    inner: np.ndarray
    covariance: np.ndarray
    fourth: np.ndarray
    best: np.ndarray
    start: np.ndarray
    residual: np.ndarray
    noise: np.ndarray
    problem: st.LeastSquares
    unit: float


class Regression(NamedTuple):
    """The linear regression alone: its weights are those of the output layer, one a feature.

    Attributes:
        inner: (d, n) weights of the frozen layer.
        covariance: (n, n) H = E φφᵀ.
        best: (n,) w*.
        start: (n,) w_0.
        problem: as the theory has it, s_i = λ_i ⟨v_i, w_0 − w*⟩², with noise variance σ² + E r².
    """

    inner: np.ndarray
    covariance: np.ndarray
    best: np.ndarray
    start: np.ndarray
    problem: st.LeastSquares


def regression_of(own: TrainConfig, num_inputs: int) -> tuple[Regression, np.ndarray, np.ndarray]:
    """H, w* = H⁻¹ E φ f* and the theory's problem; (N, n) φ and (N,) r = f* − ⟨w*, φ⟩ of the inputs they are means of.

    Args:
        own: a run's config.
        num_inputs: N.
    """
    data = _data(own)
    teacher = TeacherStream(data, own.batch_size, own.holdout_size)
    params = Lanes([own]).weights()
    rng = np.random.default_rng((data.task_seed, own.seed, num_inputs))
    inputs = rng.standard_normal((num_inputs, data.input_dim)) * np.sqrt(teacher.spectrum)
    inner = np.asarray(params["input"][0], float)  # biases are drawn as 0
    phi = activations(own, inputs @ inner)
    outputs = np.asarray(teacher(inputs.astype(np.float32)), float)
    covariance = phi.T @ phi / len(phi)
    best = np.linalg.solve(covariance, phi.T @ outputs / len(phi))
    start = output_factors(own).multiplier * np.asarray(params["output"][0, :, 0], float)
    missed = outputs - phi @ best
    eigenvalues, vectors = np.linalg.eigh(covariance)
    signal = eigenvalues * (vectors.T @ (start - best)) ** 2
    problem = st.LeastSquares(eigenvalues, signal, data.noise_variance + float(np.mean(missed**2)))
    return Regression(inner, covariance, best, start, problem), phi, missed


def features_of(own: TrainConfig, num_inputs: int) -> Features:
    """The regression with all its moments.

    Args:
        own: a run's config.
        num_inputs: of which the moments are means.
    """
    plain, phi, missed = regression_of(own, num_inputs)
    fourth, residual, noise = _moments(phi, missed)
    noise = noise + _data(own).noise_variance * plain.covariance
    factor = output_factors(own)
    unit = 2 * factor.rate * factor.multiplier**2  # the loss (f − y)² has the gradient 2 (f − y) φ
    return Features(**plain._asdict(), fourth=fourth, residual=residual, noise=noise, unit=unit)


def activations(own: TrainConfig, hidden: np.ndarray) -> np.ndarray:
    """The network's own activation of an array of pre-activations, rounded as the network does."""
    return np.asarray(getattr(jax.nn, own.value("activation"))(hidden), float)


def _data(own: TrainConfig) -> Teacher:
    assert isinstance(own.data, Teacher)
    return own.data


def _moments(phi: np.ndarray, missed: np.ndarray) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """(n², n²) E[φφᵀ ⊗ φφᵀ], (n², n) E[φφᵀ r φᵀ] and (n, n) E[r² φφᵀ], a piece of the inputs at a time."""
    dim = phi.shape[1]
    size = max(1, PIECE // dim**2)
    sums = [np.zeros((dim**2, dim**2)), np.zeros((dim**2, dim)), np.zeros(dim**2)]
    for first in range(0, len(phi), size):
        part = phi[first : first + size]
        r = missed[first : first + size]
        pairs = (part[:, :, None] * part[:, None, :]).reshape(len(part), -1)
        for total, other in zip(sums, (pairs, part * r[:, None], r**2), strict=True):
            total += pairs.T @ other
    fourth, residual, noise = (total / len(phi) for total in sums)
    return fourth, residual, noise.reshape(dim, dim)


def output_factors(own: TrainConfig) -> Any:
    """Multiplier and rate of the output's weights at the config's width."""
    return tensor_factors(own.network.tensors, own)["output"]


def moments_risk(features: Features, *, batch_size: float, learning_rate: np.ndarray, steps: np.ndarray) -> np.ndarray:
    """Exact excess risk of the average, (G, E), for features of any law, by O(n⁴) a step.

        S' = S − γ(HS + SH) + γ² [(1 − 1/B) HSH + (1/B)(E[φφᵀSφφᵀ] − 2 E[φφᵀ r φᵀ]μ + E[(r² + σ²)φφᵀ])]
        μ' = (I − γH) μ,  C' = (C + S)(I − γH),  n² Cov = Σ_t (S_t + C_t + C_tᵀ)

    with S = E ηηᵀ, μ = E η, C_t = E[Σ_{s<t} η_s η_tᵀ], η = w − w*, and Δ = tr(H Cov).

    Args:
        features: their moments.
        batch_size: B.
        learning_rate: (G,) γ of the theory's update.
        steps: (E,) increasing whole numbers n.
    """
    covariance = features.covariance
    dim = len(features.best)
    rate = np.asarray(learning_rate)[:, None, None]
    keep = np.eye(dim) - rate * covariance
    mean = np.broadcast_to(features.start - features.best, (len(rate), dim))
    second = mean[:, :, None] * mean[:, None, :]
    cross = np.zeros_like(second)
    total = np.zeros_like(second)
    risks = []
    for step in range(1, int(steps[-1]) + 1):
        total = total + second + cross + cross.swapaxes(1, 2)
        if step in steps:
            risks.append(np.einsum("ij,gji->g", covariance, total) / step**2)
        cross = (cross + second) @ keep
        drift = keep @ second @ keep
        fresh = second.reshape(-1, dim * dim) @ features.fourth - 2 * mean @ features.residual.T
        fresh = fresh.reshape(second.shape) + features.noise - covariance @ second @ covariance
        second = drift + rate**2 / batch_size * fresh
        mean = np.einsum("gij,gj->gi", keep, mean)
    return np.stack(risks, axis=1)


class LabelNoise(NamedTuple):
    """Label noise that each seed's data have drawn.

    Attributes:
        apart: samples from one sum to the next.
        sums: (S, P, n) sums of φ ρ over the first p · apart samples of every seed, p = 0 … P − 1.
    """

    apart: int
    sums: np.ndarray


def label_noise(own: TrainConfig, features: Features, *, num_seeds: int, num_samples: int, apart: int) -> LabelNoise:
    """The sums over `num_samples` samples or more, for batch sizes that are multiples of `apart`."""
    apart = math.gcd(apart, DRAWN)
    draw = jax.jit(jax.vmap(TeacherStream(_data(own), DRAWN, own.holdout_size).batch, (0, None)))
    seeds = jnp.arange(num_seeds, dtype=jnp.uint32)
    sums = [np.zeros((num_seeds, 1, len(features.best)))]
    for step in range(math.ceil(num_samples / DRAWN)):
        inputs, labels = (np.asarray(part, float) for part in draw(seeds, jnp.uint32(step)))
        phi = activations(own, inputs @ features.inner)
        products = phi * (labels - phi @ features.best)[:, :, None]
        sums.append(products.reshape(num_seeds, DRAWN // apart, apart, -1).sum(2))
    return LabelNoise(apart, np.cumsum(np.concatenate(sums, axis=1), axis=1))


def control(features: Features, noise: LabelNoise, size: int, rate: np.ndarray, steps: np.ndarray) -> np.ndarray:
    """(G, S, E) control variate Z − E Z: what gradient descent on H makes of the label noise that a seed has drawn.

        Z = Σ_i λ_i [p_i ⟨v_i, η_0⟩ + (1 − p_i) ⟨v_i, ξ⟩/λ_i]²,  p_i = (1 − (1 − γλ_i)^n)/(nγλ_i)

    with ξ the mean of φ ρ over the seed's first nB samples, so that E Z = Σ_i λ_i [p_i² ⟨v_i, η_0⟩² + (1 − p_i)²
    E[ρ²⟨v_i, φ⟩²]/(λ_i² nB)] whatever SGD does: taking it off leaves the mean as it is and the scatter small.

    Args:
        features: their moments.
        noise: of the seeds' data.
        size: B.
        rate: (G,) γ of the theory's update.
        steps: (E,) increasing whole numbers n.
    """
    values, vectors = np.linalg.eigh(features.covariance)
    samples = steps * size
    xi = noise.sums[:, samples // noise.apart] @ vectors / samples[:, None]
    variance = np.diag(vectors.T @ features.noise @ vectors) / samples[:, None]
    x = rate[:, None, None] * values
    n = steps[:, None]
    kept = (1 - (1 - x) ** n) / (n * x)
    bias = kept * (vectors.T @ (features.start - features.best))
    gain = (1 - kept) / values
    found = ((bias[:, None] + gain[:, None] * xi) ** 2) @ values
    return found - ((bias**2 + gain**2 * variance) @ values)[:, None]


def measured_risk(
    own: TrainConfig, features: Features, size: int, rate: np.ndarray, steps: np.ndarray, *, num_seeds: int
) -> np.ndarray:
    """(G, S, E) excess risk (w̄ − w*)ᵀ H (w̄ − w*) of the uniform average of the trainer's own steps.

    Runs of one batch size advance side by side. The risk is that of the weights: a hold-out of m samples would add the
    error 2 (w̄ − w*)ᵀ (mean of φ r), of the order of √(Δ E r²/m), the same for all seeds in its systematic part.
    """
    settings = {"batch_size": size, "max_steps": int(steps[-1])}
    configs = [
        replace(own, learning_rate=value / features.unit, data_seed=seed, **settings)
        for value in rate
        for seed in range(num_seeds)
    ]
    lanes = Lanes(configs, longest=int(np.diff(steps, prepend=0).max()))
    multiplier = output_factors(configs[0]).multiplier
    (average,) = configs[0].average_names[1:]
    risks = []
    for step in steps:
        lanes.advance(int(step) - lanes.step)
        error = multiplier * lanes.weights(average)["output"].astype(float)[:, :, 0] - features.best
        risks.append(np.einsum("ri,ij,rj->r", error, features.covariance, error))
    return np.stack(risks, axis=1).reshape(len(rate), num_seeds, len(steps))
