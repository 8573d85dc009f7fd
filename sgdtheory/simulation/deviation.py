"""How much the risk of a replica scatters under any algorithm, estimated on the low side, step by step."""

from functools import lru_cache
from typing import Any

import numpy as np

from sgdtheory.algorithms import DEFAULT, Algorithm, Course, column_products, number_of_steps
from sgdtheory.problems import AbstractProblem, Modes
from sgdtheory.risk import displacement, mean_and_scatter

STEPS_AT_ONCE = 4096
TIME_POINTS = 200  # at which the sums over steps are evaluated, from either end
MODES_AT_ONCE = 4096  # in a temporary


def standard_deviation(
    problem: AbstractProblem, settings: dict, algorithm: Algorithm = DEFAULT, quantity: str = "total"
) -> np.ndarray:
    """Standard deviation of a replica's risk, estimated on the low side."""
    if algorithm == DEFAULT:
        return _of_averaged_sgd(problem, settings, quantity)
    return _by_steps(problem, settings, algorithm, quantity)


def _of_averaged_sgd(problem: AbstractProblem, settings: dict, quantity: str) -> np.ndarray:
    """Of averaged SGD, in closed form.

    As if the average were Gaussian with independent coordinates: `Var = 2 Σ V_i² + 4 Σ M_i V_i` in units of risk,
    with the mean path's `M_i = s_i [(1 − q_i^n)/(n x_i)]²` and fluctuations driven by label noise and by the mean
    path's risk, `V_i = (1/(B n²)) Σ_{τ<n−1} (1 − q_i^{n−1−τ})² [σ² + Σ_j s_j q_j^{2τ}]`.
    """
    batch, rate, samples = (np.asarray(settings[name]) for name in ("batch_size", "learning_rate", "num_samples"))
    result = np.zeros(batch.shape)
    noise = 0.0 if quantity == "bias" else problem.noise_variance
    with np.errstate(over="ignore", under="ignore", invalid="ignore"):
        for place in np.ndindex(batch.shape):
            n = float(np.floor_divide(samples[place], batch[place]))
            modes = problem.modes(float(0.5 / (n * rate[place])))
            signal = np.zeros_like(modes.signal) if quantity == "variance" else modes.signal
            variance, mean = _fluctuation_and_mean(
                modes.eigenvalue * rate[place], signal, noise, float(batch[place]), n
            )
            result[place] = np.sqrt(2 * modes.multiplicity @ variance**2 + 4 * mean @ variance)
    return np.where(np.isfinite(result), result, np.inf)


def _fluctuation_and_mean(
    x: np.ndarray, signal: np.ndarray, noise: float, batch: float, n: float
) -> tuple[np.ndarray, np.ndarray]:
    """(V_i, M_i) of each mode; sums over τ by the trapezoidal rule on log-spaced points from both ends."""
    few = np.unique(np.round(np.geomspace(1, n, TIME_POINTS))) - 1  # 0 … n − 1
    tau = np.unique(np.concatenate([few, n - 1 - few]))
    weight = np.diff(np.concatenate([[-0.5], (tau[1:] + tau[:-1]) / 2, [n - 0.5]]))
    log_q = np.log(np.maximum(np.abs(1 - x), 1e-300))
    parts = np.array_split(np.arange(x.size), -(-x.size // MODES_AT_ONCE))
    drive = noise + sum(np.exp(2 * tau[:, None] * log_q[part]) @ signal[part] for part in parts)
    variance = np.empty_like(x)
    for part in parts:
        settled = np.where(x[part] > 1, 1.0, -np.expm1((n - 1 - tau)[:, None] * log_q[part]))
        variance[part] = (weight * drive) @ settled**2 / (batch * n**2)
    reached = -np.expm1(n * log_q) / np.where(x > 0, n * x, 1)
    mean = signal * np.where(x > 0, reached, 1.0) ** 2
    return variance, mean


def _by_steps(problem: AbstractProblem, settings: dict, algorithm: Algorithm, quantity: str) -> np.ndarray:
    """Of any algorithm.

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
            course = Course(
                algorithm, batch, rate, number_of_steps(algorithm.batch_schedule, batch, samples, algorithm.workers)
            )
            modes = problem.modes(0.5 / max(displacement(algorithm.method, rate, course.num_steps), rate))
            signal = np.zeros_like(modes.signal) if quantity == "variance" else modes.signal
            mean, variance = _returned(course, modes, signal, noise)
            result[place] = np.sqrt(2 * modes.multiplicity @ variance**2 + 4 * (signal * mean**2) @ variance)
    return np.where(np.isfinite(result), result, np.inf)


def _returned(course: Course, modes: Modes, signal: np.ndarray, noise: float) -> tuple[np.ndarray, np.ndarray]:
    """Mean, in units of the start, and variance of what is returned, (K,) each, in every mode's direction."""
    import jax

    method = course.algorithm.method
    if method.late:
        return _late_returned(course, modes, signal, noise)
    average = course.algorithm.average
    n = course.num_steps
    start, output = (np.asarray(each, dtype=float) for each in (method.start, method.output))
    begin = float(output @ start) if average.starts_at_iterate() else 0.0
    keeping = average.forgetting(n), average.weight(n)
    k = start.size
    size = modes.eigenvalue.size
    mean = np.multiply.outer(np.append(start, begin), np.ones(size))
    state = mean, np.zeros((k + 1, k + 1, size))
    with jax.enable_x64(True):
        for low in range(0, int(n), STEPS_AT_ONCE):
            steps = np.arange(low, min(low + STEPS_AT_ONCE, n))
            sums = np.multiply.outer(steps >= course.first_averaged, keeping)
            decay, gain, point = course.matrices(steps)
            pull = column_products(gain, point, decay)
            spread = column_products(gain, gain, decay)
            seen = point if point.ndim < decay.ndim else point[..., 0]  # the mean has no contrasts of workers
            batch = method.workers * np.asarray(course.batches(steps), dtype=float)
            table = decay, pull, spread, seen, sums, batch
            missing = STEPS_AT_ONCE - steps.size
            table = tuple(np.pad(each, [(0, missing)] + [(0, 0)] * (each.ndim - 1), mode="edge") for each in table)
            state = _loop()(state, table, modes.eigenvalue, signal, noise, output, steps.size)
        mean, covariance = map(np.asarray, state)
    shares = average.returned(n, n)
    shown = np.append(shares.iterate * output, shares.total)
    return shown @ mean, np.einsum("i,j,ijm->m", shown, shown, covariance)


def _late_returned(course: Course, modes: Modes, signal: np.ndarray, noise: float) -> tuple[np.ndarray, np.ndarray]:
    """`_returned` of late gradients: of the mean its size, as its sign does not matter."""
    known = Modes(modes.eigenvalue, modes.multiplicity, signal)
    moments = mean_and_scatter(course, known, noise)
    shares = course.algorithm.average.returned(course.num_steps, course.num_steps)
    square, scatter = (
        shares.iterate**2 * own + 2 * shares.iterate * shares.total * cross + shares.total**2 * total
        for own, cross, total in zip(*(each[:, 0] for each in moments), strict=True)
    )
    mean = np.sqrt(np.divide(square, signal, out=np.zeros_like(square), where=signal > 0))
    return mean, np.divide(scatter, modes.multiplicity, out=np.zeros_like(scatter), where=modes.multiplicity > 0)


@lru_cache
def _loop() -> Any:
    """The compiled loop over a chunk of steps."""
    import jax
    import jax.numpy as jnp

    def run(state: Any, table: Any, eigenvalue: Any, signal: Any, noise: Any, output: Any, count: Any) -> Any:
        def one(number: Any, state: Any) -> Any:
            mean, covariance = state
            decay, pull, spread, point, (forgetting, weight), batch = (each[number] for each in table)
            k = point.shape[0]
            block = jnp.zeros((k + 1, k + 1)).at[:k, :k].set(jnp.eye(k) - decay)
            block = block.at[k, :k].set(weight * output).at[k, k].set(1 - forgetting)
            pulled, spread = (jnp.zeros((k + 1, k + 1)).at[:k, :k].set(each) for each in (pull, spread))
            matrix = block[:, :, None] - pulled[:, :, None] * eigenvalue
            risk = noise + (signal * (point[:, None] * mean[:k]).sum(0) ** 2).sum()
            drive = spread[:, :, None] * (risk / batch * eigenvalue**2)
            half = (matrix[:, :, None] * covariance[None]).sum(1)
            return (matrix * mean[None]).sum(1), (half[:, None] * matrix[None]).sum(2) + drive

        return jax.lax.fori_loop(0, count, one, state)

    return jax.jit(run)
