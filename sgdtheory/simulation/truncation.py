"""The number of directions that a simulation needs; the others are frozen at their start."""

import math
from collections.abc import Callable
from dataclasses import dataclass
from typing import Literal

import numpy as np

from sgdtheory.algorithms import DEFAULT, Algorithm
from sgdtheory.problems import AbstractProblem, Modes, Phases
from sgdtheory.risk import excess_risk
from sgdtheory.simulation.deviation import standard_deviation
from sgdtheory.simulation.result import ROUNDING, Truncation

Quantity = Literal["total", "bias", "variance"]

ALLOWED_SHIFT = 0.1  # Freezing may shift the mean, and so a z-score, by this many standard errors.
LARGEST_DIM = 2**17  # At most this many directions are chosen unasked: 64 replicas then take 0.05 s a step on a CPU.
MULTIPLE = 64  # Automatic choices are multiples of this, so that fewer shapes are compiled.


@dataclass(frozen=True)
class FrozenTail(AbstractProblem):
    """The first `dim` directions of a problem, and one direction with λ = 0 that holds the signal of all others."""

    problem: AbstractProblem
    count: int

    @property
    def noise_variance(self) -> float:  # pyright: ignore[reportIncompatibleVariableOverride]
        """Label noise σ² of the problem."""
        return self.problem.noise_variance

    @property
    def tail_risk(self) -> float:
        """Signal of the frozen directions, Σ_{i>count} s_i."""
        return float(self.problem.tail_signal(self.count))

    def directions(self) -> tuple[np.ndarray, np.ndarray]:
        """Return eigenvalues and signal of the head, and of the frozen direction."""
        eigenvalues, signal = self.problem.truncated(self.count).directions()
        return np.append(eigenvalues, 0.0), np.append(signal, self.tail_risk)

    def modes(self, smallest: float, tolerance: float = 0.0) -> Modes:
        """Return the modes of the head, and of the frozen direction."""
        return self._with_frozen(self.problem.truncated(self.count).modes(smallest, tolerance))

    def oscillating_modes(self, phases: Phases, smallest: float, tolerance: float = 0.0) -> Modes:
        """Return the modes of the head that resolve these oscillations, and of the frozen direction."""
        return self._with_frozen(self.problem.truncated(self.count).oscillating_modes(phases, smallest, tolerance))

    def _with_frozen(self, head: Modes) -> Modes:
        parts = zip((head.eigenvalue, head.multiplicity, head.signal), (0.0, 1.0, self.tail_risk), strict=True)
        return Modes(*(np.append(a, b) for a, b in parts))


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
    """Return the truncation to `dim` directions, or to as few as the standard error allows; None if all are simulated.

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
    if not algorithm.linear:
        return _frozen(problem, dim, settings)
    exact = np.asarray(getattr(excess_risk(problem, **settings, algorithm=algorithm), quantity))
    deviation = standard_deviation(problem, settings, algorithm, quantity)
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


def _frozen(problem: AbstractProblem, dim: int | None, settings: dict) -> Truncation:
    """Return the truncation to the directions asked for; without an exact risk its shift is not known."""
    if dim is None:
        raise ValueError(
            f"dim must be given for a method without an exact risk and {_count_text(problem.dim or math.inf)} "
            "directions: pass as many as are learnt, and twice as many to see that it does not matter"
        )
    return Truncation(dim, FrozenTail(problem, dim).tail_risk, np.full(settings["batch_size"].shape, math.nan))


def _smallest(fits: Callable[[int], bool], available: float) -> float:
    """Return the smallest count that fits, to 2%; `available` if none below it does."""
    # Shifts fall as directions are added, but for rounding; a bracket by doubling takes few exact risks.
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
