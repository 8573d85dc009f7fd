"""What a solver is asked for, S runs of one algorithm, and what it answers."""

from typing import NamedTuple

import numpy as np

from sgdtheory.algorithms import Algorithm, Course
from sgdtheory.problems import AbstractProblem
from sgdtheory.risk.mean_field.panel_memory import PanelMemory
from sgdtheory.risk.thresholds import THRESHOLDS


class RunRisks(NamedTuple):
    """Risks of S runs, units of y².

    Attributes:
        parts: (2, S) bias and variance.
        error: (S,) bounds of the relative errors of their sums.
        approximated: (S,) whether panels or equivalents were used.
    """

    parts: np.ndarray
    error: np.ndarray
    approximated: np.ndarray


class Request(NamedTuple):
    """Risks that are asked for: S runs of one algorithm, and how accurate they have to be.

    Attributes:
        problem: its spectrum.
        algorithm: the algorithm of all runs.
        batch, rate, steps: (S,) peak B, peak γ and n.
        rounded: whether batch sizes are rounded on the way.
        tolerance: the relative error that a search allows: 0, 1e-8 or 1e-5.
        estimate: whether errors are bounded, which takes about as long again where they are not 0.
        stable: whether no second moment is known to grow by more than e in n steps, which spares a search.
        compiled_from: so many single steps or more are taken in a compiled loop, which a first call has to compile.
        summed: whether the sum of both parts is enough, which takes less time: the bias may hold all of it.
        memory: panels of the run before of a nonlinear method, in a search; its runs are computed one after the other.
    """

    problem: AbstractProblem
    algorithm: Algorithm
    batch: np.ndarray
    rate: np.ndarray
    steps: np.ndarray
    rounded: bool = True
    tolerance: float = 0.0
    estimate: bool = True
    stable: bool = False
    compiled_from: float = THRESHOLDS.compiled_from
    summed: bool = False
    memory: PanelMemory | None = None

    def courses(self) -> list[Course]:
        """Return the S runs."""
        settings = zip(self.batch.tolist(), self.rate.tolist(), self.steps.tolist(), strict=True)
        return [Course(self.algorithm, *setting, rounded=self.rounded) for setting in settings]
