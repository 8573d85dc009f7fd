"""How many directions a simulation needs, and what it does with the rest."""

import math
from collections.abc import Callable
from dataclasses import dataclass
from typing import Literal

import numpy as np

from sgdtheory.algorithms import Algorithm
from sgdtheory.problems import AbstractProblem, Modes
from sgdtheory.risk import excess_risk
from sgdtheory.simulation.deviation import algorithm_deviation
from sgdtheory.simulation.result import ROUNDING, Truncation

Quantity = Literal["total", "bias", "variance"]

ALLOWED_SHIFT = 0.1  # of a standard error of the mean
LARGEST_DIM = 2**17  # chosen by itself; a user may ask for more
MULTIPLE = 64  # automatic choices are multiples of it: fewer shapes to compile
TIME_POINTS = 200  # at which the sums over steps are evaluated, from either end
MODES_AT_ONCE = 4096  # in a temporary
DEFAULT = Algorithm()


@dataclass(frozen=True)
class FrozenTail(AbstractProblem):
    """The first `dim` directions of a problem, and one direction with λ = 0 that holds the signal of all others."""

    problem: AbstractProblem
    count: int

    @property
    def noise_variance(self) -> float:  # pyright: ignore[reportIncompatibleVariableOverride]
        """σ²."""
        return self.problem.noise_variance

    @property
    def tail_risk(self) -> float:
        """Σ_{i>count} s_i."""
        return float(self.problem.tail_signal(self.count))

    def directions(self) -> tuple[np.ndarray, np.ndarray]:
        """Those of the head, and the frozen one."""
        eigenvalues, signal = self.problem.truncated(self.count).directions()
        return np.append(eigenvalues, 0.0), np.append(signal, self.tail_risk)

    def modes(self, smallest: float, tolerance: float = 0.0) -> Modes:
        """Modes of the head, and the frozen one."""
        head = self.problem.truncated(self.count).modes(smallest, tolerance)
        return Modes(*(np.append(a, b) for a, b in zip(vars(head).values(), (0.0, 1.0, self.tail_risk), strict=True)))


def truncate(
    problem: AbstractProblem,
    dim: int | None,
    settings: dict,
    algorithm: Algorithm = DEFAULT,
    *,
    num_replicas: int,
    quantity: Quantity,
    dtype: str,
) -> Truncation | None:
    """The truncation to `dim` directions, or to as few as the standard error allows; None if all are simulated.

    Args:
        problem: the problem to simulate.
        dim: number of directions asked for, or None: all of them if there are at most `LARGEST_DIM`.
        settings: batch_size, learning_rate and num_samples, arrays of one shape.
        algorithm: what is run.
        num_replicas: R, which decides the standard error.
        quantity: "total", "bias" or "variance".
        dtype: whose rounding counts as standard error.

    Raises:
        ValueError: with `dim` directions the mean would shift by more than a tenth of its standard error, or no
            usable number of directions would do.
    """
    available = math.inf if problem.dim is None else problem.dim
    if dim is None and available <= LARGEST_DIM or dim is not None and dim >= available:
        return None
    exact = np.asarray(getattr(excess_risk(problem, **settings, algorithm=algorithm), quantity))
    if algorithm.is_default:
        deviation = standard_deviation(problem, settings, quantity)
    else:
        deviation = algorithm_deviation(problem, settings, algorithm, quantity)
    error = np.hypot(deviation / math.sqrt(num_replicas), ROUNDING[dtype] * exact)

    def shift(count: int) -> np.ndarray:
        frozen = getattr(excess_risk(FrozenTail(problem, count), **settings, algorithm=algorithm), quantity)
        return np.where(np.isfinite(exact), frozen - np.where(np.isfinite(exact), exact, 0), np.nan)

    def fits(count: int) -> bool:
        return bool((np.abs(shift(count)) <= ALLOWED_SHIFT * error)[np.isfinite(exact)].all())

    if dim is not None and fits(dim):
        chosen = dim
    else:
        needed = _smallest(fits, available)
        if dim is not None:
            worst = np.nanmax(np.abs(shift(dim)) / error)
            raise ValueError(
                f"dim must be at least {needed:g} for these settings: with {dim} of {_count_text(available)} "
                f"directions the mean would be off by {worst:.3g} of its standard error (a tenth is allowed)"
            )
        if needed > LARGEST_DIM:
            raise ValueError(
                f"dim must be given: {needed:g} of {_count_text(available)} directions are needed to keep the mean "
                f"within a tenth of its standard error; pass dim={needed:g} if there is room, or fewer num_replicas or "
                "num_samples"
            )
        chosen = int(min(-(-needed // MULTIPLE) * MULTIPLE, available))
    frozen = FrozenTail(problem, chosen)
    return Truncation(chosen, 0.0 if quantity == "variance" else frozen.tail_risk, shift(chosen))


def standard_deviation(problem: AbstractProblem, settings: dict, quantity: Quantity = "total") -> np.ndarray:
    """Standard deviation of a replica's risk, estimated on the low side.

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
            variance, mean = _moments(modes.eigenvalue * rate[place], signal, noise, float(batch[place]), n)
            result[place] = np.sqrt(2 * modes.multiplicity @ variance**2 + 4 * mean @ variance)
    return np.where(np.isfinite(result), result, np.inf)


def _moments(x: np.ndarray, signal: np.ndarray, noise: float, batch: float, n: float) -> tuple[np.ndarray, np.ndarray]:
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


def _smallest(fits: Callable[[int], bool], available: float) -> float:
    """The smallest count that fits, to 2%; `available` if none below it does."""
    high = 1
    while not fits(high):
        if high * 2 >= available or high > 1e15:
            return available
        high *= 2
    low = high // 2
    while high - low > max(1, low // 50):
        middle = (low + high) // 2
        low, high = (low, middle) if fits(middle) else (middle, high)
    return high


def _count_text(available: float) -> str:
    return "infinitely many" if math.isinf(available) else f"{available:g}"
