"""Estimate, on the low side, how much the risk of a replica scatters under any linear algorithm."""

from functools import lru_cache
from typing import Any

import numpy as np

from sgdtheory.algorithms import DEFAULT, Algorithm, Course, column_products, number_of_steps
from sgdtheory.problems import AbstractProblem, Modes
from sgdtheory.risk import displacement, mean_and_scatter

# A table of coefficients has this many steps; shorter runs are padded, so that one loop is compiled.
STEPS_AT_ONCE = 4096
TIME_POINTS = 200  # Sums over steps are evaluated at this many points from either end; a test allows an error of 2%.
MODES_AT_ONCE = 4096  # A temporary of TIME_POINTS columns has at most this many modes, some 13 MB.


def standard_deviation(
    problem: AbstractProblem, settings: dict, algorithm: Algorithm = DEFAULT, quantity: str = "total"
) -> np.ndarray:
    """Return the standard deviation of a replica's risk, estimated on the low side, of all settings.

    The weights that are returned count as Gaussian with independent coordinates, of mean `√s_i μ_i` and variance V_i,

        Var = 2 Σ V_i² + 4 Σ s_i μ_i² V_i.

    Fluctuations are driven by label noise and by the risk of the mean path. What the risk of the fluctuations adds is
    left out.

    Args:
        problem: the problem.
        settings: batch_size, learning_rate and num_samples, arrays of one shape.
        algorithm: linear in the gradient.
        quantity: "total", "bias" or "variance".
    """
    result = np.zeros(np.shape(settings["batch_size"]))
    noise = 0.0 if quantity == "bias" else problem.noise_variance
    method = algorithm.method
    returned = _averaged_sgd if algorithm == DEFAULT else _delayed if method.late else _by_steps
    with np.errstate(all="ignore"):
        for place in np.ndindex(result.shape):
            batch, rate, samples = (float(settings[k][place]) for k in ("batch_size", "learning_rate", "num_samples"))
            number = number_of_steps(algorithm.batch_schedule, batch, samples, algorithm.workers)
            modes = problem.modes(0.5 / max(displacement(method, rate, number), rate))
            signal = np.zeros_like(modes.signal) if quantity == "variance" else modes.signal
            mean, variance = returned(Course(algorithm, batch, rate, number), modes, signal, noise)
            result[place] = np.sqrt(2 * modes.multiplicity @ variance**2 + 4 * (signal * mean**2) @ variance)
    return np.where(np.isfinite(result), result, np.inf)


def _averaged_sgd(course: Course, modes: Modes, signal: np.ndarray, noise: float) -> tuple[np.ndarray, np.ndarray]:
    """Return (μ_i, V_i) of averaged SGD in closed form.

    With q_i = 1 − x_i and x_i = γλ_i

        μ_i = (1 − q_i^n)/(n x_i),    V_i = (1/(B n²)) Σ_{τ<n−1} (1 − q_i^{n−1−τ})² [σ² + Σ_j s_j q_j^{2τ}].

    Sums over τ are evaluated by the trapezoidal rule on points that are log-spaced from both ends.
    """
    n = course.num_steps
    x = modes.eigenvalue * course.rate
    few = np.unique(np.round(np.geomspace(1, n, TIME_POINTS))) - 1  # 0 … n − 1
    tau = np.unique(np.concatenate([few, n - 1 - few]))
    weight = np.diff(np.concatenate([[-0.5], (tau[1:] + tau[:-1]) / 2, [n - 0.5]]))
    log_q = np.log(np.maximum(np.abs(1 - x), 1e-300))
    parts = np.array_split(np.arange(x.size), -(-x.size // MODES_AT_ONCE))
    drive = noise + sum(np.exp(2 * tau[:, None] * log_q[part]) @ signal[part] for part in parts)
    variance = np.empty_like(x)
    for part in parts:
        # For x > 1 the powers of q change sign, and 1 − q^m alternates around 1, which it approaches.
        settled = np.where(x[part] > 1, 1.0, -np.expm1((n - 1 - tau)[:, None] * log_q[part]))
        variance[part] = (weight * drive) @ settled**2 / (course.batch * n**2)
    reached = -np.expm1(n * log_q) / np.where(x > 0, n * x, 1)
    return np.where(x > 0, reached, 1.0), variance


def _by_steps(course: Course, modes: Modes, signal: np.ndarray, noise: float) -> tuple[np.ndarray, np.ndarray]:
    """Return (μ_i, V_i) of any linear algorithm, step by step.

    Mean m and covariance C of the state and the sum (u, S) of each direction obey, with  the matrix of a step and
    b̂ = (b, 0),

        m ←  m,    C ←  C Âᵀ + (λ_i²/B_t) b̂ b̂ᵀ [σ² + Σ_j s_j (cᵀm_j)²].

    A step costs some microseconds, simulating it more.
    """
    import jax

    method = course.algorithm.method
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


def _delayed(course: Course, modes: Modes, signal: np.ndarray, noise: float) -> tuple[np.ndarray, np.ndarray]:
    """Return (|μ_i|, V_i) of delayed gradients."""
    ends = mean_and_scatter(course, Modes(modes.eigenvalue, modes.multiplicity, signal), noise)
    shares = course.algorithm.average.returned(course.num_steps, course.num_steps)
    square, scatter = (
        shares.iterate**2 * own + 2 * shares.iterate * shares.total * cross + shares.total**2 * total
        for own, cross, total in zip(*(each[:, 0] for each in (ends.iterate, ends.cross, ends.square)), strict=True)
    )
    mean = np.sqrt(np.divide(square, signal, out=np.zeros_like(square), where=signal > 0))
    return mean, np.divide(scatter, modes.multiplicity, out=np.zeros_like(scatter), where=modes.multiplicity > 0)


@lru_cache
def _loop() -> Any:
    """Return the compiled loop over the steps of a table."""
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
