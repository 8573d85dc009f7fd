"""What the theory asks of a least-squares problem, in the eigenbasis of the data covariance."""

import math
from typing import Any, Protocol

import numpy as np
from numpy.typing import ArrayLike

from sgdtheory._common.arguments import single_number
from sgdtheory.problems.modes import Modes


class Spectral(Protocol):
    """What the exact risk asks of a problem: its spectrum as modes, and its label noise."""

    @property
    def noise_variance(self) -> float:
        """σ², in units of y²."""
        ...

    def modes(self, smallest: float, tolerance: float = 0.0) -> Modes:
        """Weighted modes for functions of λ that are smooth below `smallest`.

        A relative error of sums up to `tolerance` may be traded for fewer modes; 0: rounding error.
        """
        ...


class Problem(Spectral, Protocol):
    """What the bounds, the searches and the simulator ask of a problem.

    Data `x ~ N(0, H)`, `y | x ~ N(xᵀw*, σ²)`. A problem is the eigenvalues `λ_1 ≥ λ_2 ≥ …` of H, the signal
    `s_i = λ_i ⟨v_i, w_0 − w*⟩²` (the risk that direction i holds at the start) and σ².
    """

    @property
    def initial_risk(self) -> float:
        """‖w_0 − w*‖²_H = Σ s_i."""
        ...

    @property
    def largest_eigenvalue(self) -> float:
        """λ_1 = ‖H‖."""
        ...

    @property
    def trace(self) -> float:
        """tr H = Σ λ_i."""
        ...

    @property
    def dim(self) -> int | None:
        """Number of directions; None for infinitely many."""
        ...

    def truncated(self, dim: int) -> "Problem":
        """The problem of the first `dim` directions alone."""
        ...

    def directions(self) -> tuple[np.ndarray, np.ndarray]:
        """(d,) eigenvalues and (d,) signal, direction by direction, of a problem with finitely many."""
        ...

    def count_above(self, threshold: ArrayLike) -> Any:
        """max{k : λ_k ≥ threshold}, 0 if there is none; elementwise."""
        ...

    def head_signal(self, count: ArrayLike, power: int) -> Any:
        """Σ_{i≤count} s_i / λ_i^power; elementwise in `count`."""
        ...

    def tail_signal(self, count: ArrayLike) -> Any:
        """Σ_{i>count} s_i; elementwise."""
        ...

    def tail_squares(self, count: ArrayLike) -> Any:
        """Σ_{i>count} λ_i²; elementwise."""
        ...


def checked_noise_variance(value: object) -> float:
    """σ² as one finite float that is not negative."""
    number = single_number("noise_variance", value)
    if not (number >= 0 and math.isfinite(number)):
        raise ValueError(f"noise_variance must be finite and not negative, got {number}")
    return number
