"""A problem as the mean field sees it: directions, each with its own mean and variance."""

import math
from dataclasses import dataclass, replace

import numpy as np

from sgdtheory.problems import AbstractProblem, PowerLaw

# A power law keeps at least this many directions, which modes make cheap.
LEAST_KEPT = 4096.0
# Directions that move by less than this share of their start are left out.
UNMOVED = 1e-3
# The index of a direction is at most this, above which neighbouring floats differ by more than 0.1.
LARGEST_INDEX = 1e15
# Sums over directions that are replaced by modes have this relative error; risks of runs are then right to about 1e-6.
MODES_TOLERANCE = 1e-4
# A number that may be 0 counts as this much where it divides.
TINY = np.finfo(float).tiny
# `modes` is asked for this resolution: no eigenvalue is as small, so that no mode stands for a tail.
BEYOND_ALL = 1e-300


@dataclass(frozen=True, eq=False)
class Ensemble:
    """K modes of a problem; mode k stands for `multiplicity` equal directions, the last one for those left out.

    Directions that are left out gather noise and learn nothing: their drift is 0. They count as (Σλ)²/Σλ² directions of
    Σλ²/Σλ each, so that their noise is right where it grows like λ (steps of one size) and where it grows like λ²
    (linear steps).

    Attributes:
        root: (K,) √λ of the drift.
        spread: (K,) λ, of the noise that steps of one size a coordinate leave.
        multiplicity: (K,).
        start: (K,) √s, mean of `u = √λ (w − w*)` at the start.
        frozen: Σ s of the directions left out.
        noise: σ².
    """

    root: np.ndarray
    spread: np.ndarray
    multiplicity: np.ndarray
    start: np.ndarray
    frozen: float
    noise: float

    def filled(self, width: int) -> "Ensemble":
        """Return the ensemble with so many modes: copies of the last one, without multiplicity."""
        more = (0, width - self.root.size)
        root, spread, start = (np.pad(each, more, mode="edge") for each in (self.root, self.spread, self.start))
        return replace(self, root=root, spread=spread, multiplicity=np.pad(self.multiplicity, more), start=start)


def ensemble(problem: AbstractProblem, rate_sum: float, slope: float) -> Ensemble:
    """Return the ensemble of the directions that move.

    Args:
        problem: a problem with finitely many directions, or a PowerLaw.
        rate_sum: Σ γ_t, the largest distance that a coordinate can cover.
        slope: bound of E sign(g)/u at the start.

    Raises:
        ValueError: the problem has infinitely many directions and is no power law.
    """
    kept = _kept(problem, rate_sum * slope)
    if kept is None:
        eigenvalue, signal = problem.directions()
        multiplicity = np.ones(eigenvalue.size)
        left = alike = frozen = 0.0
    else:
        assert isinstance(problem, PowerLaw), "others are listed"
        head = problem.truncated(int(kept))
        modes = head.modes(BEYOND_ALL, MODES_TOLERANCE)
        eigenvalue = modes.eigenvalue
        multiplicity = modes.multiplicity
        signal = modes.signal / multiplicity
        left = max(float(problem.trace) - float(head.trace), 0.0)
        alike = float(problem.tail_squares(kept)) / left if left else 0.0
        frozen = float(problem.tail_signal(kept))
    return Ensemble(
        np.append(np.sqrt(eigenvalue), 0.0),
        np.append(eigenvalue, alike),
        np.append(multiplicity, left / alike if alike else 1.0),
        np.append(np.sqrt(signal), 0.0),
        frozen,
        problem.noise_variance,
    )


def steepest(problem: AbstractProblem, batch: float) -> float:
    """The `slope` of signs, `E sign ≤ √B u/√T` with T ≥ σ²; those of Adam's steps and of g/‖g‖ are no larger."""
    return float(np.sqrt(batch / max(problem.noise_variance, TINY)))


def _kept(problem: AbstractProblem, way: float) -> float | None:
    """Return the number of directions of a power law that move, or None for a problem that lists all of them."""
    if not isinstance(problem, PowerLaw):
        if problem.dim is not None:
            return None
        raise ValueError(
            "problem must have finitely many directions, or be a PowerLaw, for a method that is not linear; truncate it"
        )
    with np.errstate(over="ignore"):  # A very large γ moves all directions.
        moving = np.float64(way / UNMOVED) ** (2 / problem.capacity)
    last = math.inf if problem.dim is None else problem.dim
    return float(min(max(np.ceil(moving), LEAST_KEPT), LARGEST_INDEX, last))
