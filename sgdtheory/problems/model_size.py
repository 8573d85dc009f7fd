"""Training on M features instead of all directions: the theory's problem again, and what features cannot explain."""

from dataclasses import dataclass, replace
from typing import Any, Literal

import numpy as np
from numpy.typing import ArrayLike

from sgdtheory._common.arguments import checked_name, whole_number
from sgdtheory.problems.modes import Modes
from sgdtheory.problems.problem import Problem

Kind = Literal["first", "gaussian"]
LARGEST_SAMPLED = 8192  # features: M² numbers, and M³ operations
LARGEST_EQUIVALENT = 100_000


@dataclass(frozen=True)
class ModelSizeProblem:
    """A problem seen through M features: a Problem, whose best predictor is the best on the features.

    With x Gaussian, y given the features is linear in them with Gaussian noise, so training on features *is* the
    theory's problem, with label noise `σ² + approximation_risk` (THEORY.md T31). Risks of this problem are above the
    best predictor on the features; above the best of all they are larger by the constant `approximation_risk`.

    Attributes:
        problem: of the features: their covariance's eigenvalues, the signal and the label noise that they see.
        approximation_risk: what the best predictor on the features misses, in units of y².
        num_features: M.
    """

    problem: Problem
    approximation_risk: float
    num_features: int

    def with_features(self, num_features: int, kind: Kind = "first", seed: int | None = None) -> "ModelSizeProblem":
        """Features of these features; their approximation risks add up."""
        found = self.problem.with_features(num_features, kind, seed)  # pyright: ignore[reportAttributeAccessIssue]
        return replace(found, approximation_risk=found.approximation_risk + self.approximation_risk)

    @property
    def noise_variance(self) -> float:
        """σ² + approximation_risk: what features cannot explain is noise to them."""
        return self.problem.noise_variance

    @property
    def initial_risk(self) -> float:
        """Σ s_i over the features' directions."""
        return self.problem.initial_risk

    @property
    def largest_eigenvalue(self) -> float:
        """λ_1 of the features' covariance."""
        return self.problem.largest_eigenvalue

    @property
    def trace(self) -> float:
        """Σ λ_i of the features' covariance."""
        return self.problem.trace

    @property
    def dim(self) -> int | None:
        """M."""
        return self.problem.dim

    def truncated(self, dim: int) -> Problem:
        """The problem of the first `dim` directions of the features alone."""
        return self.problem.truncated(dim)

    def directions(self) -> tuple[np.ndarray, np.ndarray]:
        """(M,) eigenvalues and (M,) signal of the features."""
        return self.problem.directions()

    def modes(self, smallest: float, tolerance: float = 0.0) -> Modes:
        """Weighted modes for functions of λ that are smooth below `smallest`."""
        return self.problem.modes(smallest, tolerance)

    def count_above(self, threshold: ArrayLike) -> Any:
        """max{k : λ_k ≥ threshold}, 0 if there is none; elementwise."""
        return self.problem.count_above(threshold)

    def head_signal(self, count: ArrayLike, power: int) -> Any:
        """Σ_{i≤count} s_i / λ_i^power; elementwise in `count`."""
        return self.problem.head_signal(count, power)

    def tail_signal(self, count: ArrayLike) -> Any:
        """Σ_{i>count} s_i; elementwise."""
        return self.problem.tail_signal(count)

    def tail_squares(self, count: ArrayLike) -> Any:
        """Σ_{i>count} λ_i²; elementwise."""
        return self.problem.tail_squares(count)


def checked_model(num_features: object, kind: object, seed: object, dim: int | None) -> int:
    """`num_features` as a whole number that the kind of features can have.

    Raises:
        ValueError: below 1, above the number of directions, or larger than can be computed; no such kind or seed.
    """
    size = whole_number("num_features", num_features, 1)
    if dim is not None and size > dim:
        raise ValueError(f"num_features must be at most the number of directions, {dim}, got {size}")
    if checked_name("kind", kind, ("first", "gaussian")) == "gaussian":
        largest = LARGEST_EQUIVALENT if seed is None else LARGEST_SAMPLED
        if size > largest:
            remedy = (
                "give no seed for the spectrum that sketches tend to" if seed is not None else "take the first ones"
            )
            raise ValueError(f"num_features must be at most {largest} for this kind, got {size}; {remedy}")
        if seed is not None:
            whole_number("seed", seed, 0)
    return size
