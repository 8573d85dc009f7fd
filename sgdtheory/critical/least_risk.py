"""What every search for steps and batch sizes asks for: the least risk over all learning rates."""

from typing import NamedTuple, Protocol

import numpy as np

from sgdtheory.critical.out_of_reach import OutOfReach
from sgdtheory.critical.patterns import StepPatterns
from sgdtheory.problems import AbstractProblem


class Tuned(NamedTuple):
    """The best γ, the risk that it attains, and γ over the end of the range searched. Arrays (P,)."""

    rate: np.ndarray
    risk: np.ndarray
    share: np.ndarray


class LeastRisk(Protocol):
    """`min_γ Δ(B, γ, n)` of one problem and one algorithm.

    Attributes:
        problem: the regression problem.
        workers: K; D and B are those of one worker.
        patterns: how the least risk goes with n.
        out_of_reach: what n steps leave whatever B and γ.
        initial_risk: Δ of w_0.
        largest_eigenvalue: λ_1.
    """

    problem: AbstractProblem
    workers: int
    patterns: StepPatterns
    out_of_reach: OutOfReach
    initial_risk: float
    largest_eigenvalue: float

    def least(self, batch: np.ndarray, steps: np.ndarray) -> Tuned:
        """The best of all learning rates for (P,) B ≥ 1, which need not be whole, and n."""
        ...

    def risk(self, batch: np.ndarray, rate: np.ndarray, steps: np.ndarray, tolerance: float = 0.0) -> np.ndarray:
        """Exact Δ for γ up to the edge; sooner with a relative error allowed."""
        ...
