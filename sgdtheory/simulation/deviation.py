"""How much the risk of a replica scatters under any algorithm, estimated on the low side, step by step."""

from functools import lru_cache
from typing import Any

import numpy as np

from sgdtheory.algorithms import Algorithm, Course, number_of_steps
from sgdtheory.problems import AbstractProblem, Modes
from sgdtheory.risk import displacement

STEPS_AT_ONCE = 4096


def algorithm_deviation(problem: AbstractProblem, settings: dict, algorithm: Algorithm, quantity: str) -> np.ndarray:
    """Standard deviation of a replica's risk, as `truncation.standard_deviation` estimates it for averaged SGD.

    As if the state u and the sum S of each direction were Gaussian, driven by label noise and by the mean path's risk
    alone: mean m and covariance C of (u, S) obey, with  the matrix of a step and b̂ = (b, 0),

        m ←  m,    C ←  C Âᵀ + (λ_i²/B_t) b̂ b̂ᵀ [σ² + Σ_j s_j (cᵀm_j)²],    Var = 2 Σ V_i² + 4 Σ s_i μ_i² V_i,

    where μ_i and V_i are mean and variance of what is returned. A step costs some microseconds, simulating it more.
    """
    result = np.zeros(settings["batch_size"].shape)
    noise = 0.0 if quantity == "bias" else problem.noise_variance
    with np.errstate(all="ignore"):
        for place in np.ndindex(result.shape):
            batch, rate, samples = (float(settings[k][place]) for k in ("batch_size", "learning_rate", "num_samples"))
            course = Course(algorithm, batch, rate, number_of_steps(algorithm.batch_schedule, batch, samples))
            modes = problem.modes(0.5 / max(displacement(algorithm.method, rate, course.num_steps), rate))
            signal = np.zeros_like(modes.signal) if quantity == "variance" else modes.signal
            mean, variance = _returned(course, modes, signal, noise)
            result[place] = np.sqrt(2 * modes.multiplicity @ variance**2 + 4 * (signal * mean**2) @ variance)
    return np.where(np.isfinite(result), result, np.inf)


def _returned(course: Course, modes: Modes, signal: np.ndarray, noise: float) -> tuple[np.ndarray, np.ndarray]:
    """Mean, in units of the start, and variance of what is returned, (K,) each, in every mode's direction."""
    import jax

    method, average, n = course.algorithm.method, course.algorithm.average, course.num_steps
    start, output = (np.asarray(each, dtype=float) for each in (method.start, method.output))
    begin = float(output @ start) if average.starts_at_iterate() else 0.0
    keeping = average.forgetting(n), average.weight(n)
    k, size = start.size, modes.eigenvalue.size
    mean = np.multiply.outer(np.append(start, begin), np.ones(size))
    state = mean, np.zeros((k + 1, k + 1, size))
    with jax.enable_x64(True):
        for low in range(0, int(n), STEPS_AT_ONCE):
            steps = np.arange(low, min(low + STEPS_AT_ONCE, n))
            sums = np.multiply.outer(steps >= course.first_averaged, keeping)
            table = (*course.matrices(steps), sums, np.asarray(course.batches(steps), dtype=float))
            missing = STEPS_AT_ONCE - steps.size
            table = tuple(np.pad(each, [(0, missing)] + [(0, 0)] * (each.ndim - 1), mode="edge") for each in table)
            state = _loop()(state, table, modes.eigenvalue, signal, noise, output, steps.size)
        mean, covariance = map(np.asarray, state)
    shares = average.returned(n, n)
    shown = np.append(shares.iterate * output, shares.total)
    return shown @ mean, np.einsum("i,j,ijm->m", shown, shown, covariance)


@lru_cache
def _loop() -> Any:
    """The compiled loop over a chunk of steps."""
    import jax
    import jax.numpy as jnp

    def run(state: Any, table: Any, eigenvalue: Any, signal: Any, noise: Any, output: Any, count: Any) -> Any:
        def one(number: Any, state: Any) -> Any:
            mean, covariance = state
            decay, gain, point, (forgetting, weight), batch = (each[number] for each in table)
            k = gain.shape[0]
            block = jnp.zeros((k + 1, k + 1)).at[:k, :k].set(jnp.eye(k) - decay)
            block = block.at[k, :k].set(weight * output).at[k, k].set(1 - forgetting)
            gained, seen = jnp.append(gain, 0.0), jnp.append(point, 0.0)
            matrix = block[:, :, None] - (gained[:, None] * seen)[:, :, None] * eigenvalue
            risk = noise + (signal * (point[:, None] * mean[:k]).sum(0) ** 2).sum()
            drive = (gained[:, None] * gained)[:, :, None] * (risk / batch * eigenvalue**2)
            half = (matrix[:, :, None] * covariance[None]).sum(1)
            return (matrix * mean[None]).sum(1), (half[:, None] * matrix[None]).sum(2) + drive

        return jax.lax.fori_loop(0, count, one, state)

    return jax.jit(run)
