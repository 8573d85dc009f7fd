"""A problem in other units of λ: nothing that is measured in y² or in samples may notice."""

from dataclasses import dataclass

import numpy as np

import sgdtheory as st
from sgdtheory.problems.modes import Modes

SCALES = (1e-7, 1e5)


@dataclass(frozen=True)
class Scaled(st.problems.SplitSpectrum):
    """`λ → scale · λ` with the same signal and label noise, of infinitely many directions too."""

    problem: st.PowerLaw | st.LeastSquares
    scale: float

    @property
    def noise_variance(self):
        return self.problem.noise_variance

    @property
    def initial_risk(self):
        return self.problem.initial_risk

    @property
    def dim(self):
        return self.problem.dim

    def tail_signal(self, count):
        return self.problem.tail_signal(count)

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
