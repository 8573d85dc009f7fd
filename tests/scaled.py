"""A problem in other units of λ: nothing that is measured in y² or in samples may notice."""

from dataclasses import dataclass

import numpy as np

import sgdtheory as st
from sgdtheory.problems.modes import Modes

SCALES = (1e-7, 1e5)


@dataclass(frozen=True)
class Scaled:
    """`λ → scale · λ` with the same signal and label noise: a `Problem`, of infinitely many directions too."""

    problem: st.PowerLaw | st.LeastSquares
    scale: float

    def __getattr__(self, name):
        if name in ("noise_variance", "initial_risk", "dim", "tail_signal"):
            return getattr(self.problem, name)
        raise AttributeError(name)

    @property
    def largest_eigenvalue(self):
        return self.scale * self.problem.largest_eigenvalue

    @property
    def trace(self):
        return self.scale * self.problem.trace

    def truncated(self, dim):
        return Scaled(self.problem.truncated(dim), self.scale)

    def directions(self):
        eigenvalues, signal = self.problem.directions()
        return self.scale * eigenvalues, signal

    def modes(self, smallest, tolerance=0.0):
        modes = self.problem.modes(smallest / self.scale, tolerance)
        return Modes(self.scale * modes.eigenvalue, modes.multiplicity, modes.signal)

    def count_above(self, threshold):
        return self.problem.count_above(np.asarray(threshold) / self.scale)

    def head_signal(self, count, power):
        return self.problem.head_signal(count, power) / self.scale**power

    def tail_squares(self, count):
        return self.scale**2 * self.problem.tail_squares(count)
