"""A problem as the mean field sees it: directions, each with its own mean and variance."""

import math
from dataclasses import dataclass

import numpy as np

from sgdtheory.problems import AbstractProblem, PowerLaw

LEAST_KEPT = 4096.0  # directions
UNMOVED = 1e-3  # of its start: what a direction moves that is left out
LARGEST_INDEX = 1e15
MODES_TOLERANCE = 1e-4  # of sums over directions; risks of runs are right to some 1e-6
TINY = np.finfo(float).tiny  # A number that may be 0 counts as this much where it divides.
BEYOND_ALL = 1e-300  # no eigenvalue is as small: no mode stands for a tail


@dataclass(frozen=True, eq=False)
class Ensemble:
    """K modes; `mode k` stands for `multiplicity` directions that are alike. The last one is what is left out.

    That gathers noise and learns nothing: its drift is 0. It is (Σλ)²/Σλ² directions of Σλ²/Σλ each, so that noise is
    right where it grows like λ (steps of one size) and where it grows like λ² (linear ones).

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


def ensemble(problem: AbstractProblem, travel: float, slope: float) -> Ensemble:
    """Return the ensemble of those directions that move.

    Args:
        problem: with finitely many directions, or a PowerLaw.
        travel: Σ γ_t, the longest way of a coordinate.
        slope: by how much of a step a coordinate follows its gradient at first, at most: E sign ≤ slope · u.

    Raises:
        ValueError: infinitely many directions that are no power law's.
    """
    kept = _kept(problem, travel * slope)
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
    moving = (way / UNMOVED) ** (2 / problem.capacity)
    last = math.inf if problem.dim is None else problem.dim
    return float(min(max(np.ceil(moving), LEAST_KEPT), LARGEST_INDEX, last))
