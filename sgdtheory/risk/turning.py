"""How fast moments turn where the coefficients of a method change with the step, as those of schedule-free SGD do.

Its directions swing slowly, at a rate per step like 1/t: on panels that grow with t, their moments `Re r^t e^{2iωt}`
turn by about as much on each. What has decayed by e^−E may turn farther: of a turn by Θ, p Radau points miss some
Θ^{2p}, so that `Θ e^{−E/2p}` is what counts.
"""

from typing import NamedTuple

import numpy as np

from sgdtheory.risk.runs import Piece
from sgdtheory.risk.spectrum import eigenvalues_of_steps

PROBES_A_DOUBLING = 4  # of the steps since the last kink, at which directions are looked at
MOST_DIRECTIONS = 32  # of a spectrum: neighbours turn alike
SMALLEST = 1e-300  # |μ|: of what is gone at once


class Turning(NamedTuple):
    """How far the moments of a run turn a step, in radians, weighed by what is left of them, at T steps, (T,)."""

    steps: np.ndarray
    rates: np.ndarray

    def at(self, step: float) -> float:
        """At a step between."""
        return float(np.interp(step, self.steps, self.rates))

    def slower(self, rate: float) -> float:
        """The step from which moments turn no faster than this."""
        fast = np.flatnonzero(self.rates > rate)
        return float(self.steps[min(fast[-1] + 1, self.steps.size - 1)]) if fast.size else float(self.steps[0])


def turnings(piece: Piece) -> list[Turning | None]:
    """Of each run; None of methods that do not change with the step, whose directions come to rest."""
    if piece.runs.algorithm.method.step_dependence != "smooth":
        return [None] * piece.low.size
    every = piece.ground.modes.eigenvalue
    some = np.unique(np.linspace(0, every.size - 1, min(every.size, MOST_DIRECTIONS)).astype(int))
    return [_turning(piece.some(np.array([run])), every[some]) for run in range(piece.low.size)]


def _turning(piece: Piece, eigenvalue: np.ndarray) -> Turning:
    """Of a single run."""
    since = max(float(piece.high[0] - piece.origin[0]), 1.0)
    number = int(PROBES_A_DOUBLING * np.log2(since)) + 2
    probes = piece.origin[0] + np.unique(np.floor(np.geomspace(1.0, since, number))) - 1
    here = piece.runs.coefficients(probes[None]).matrices
    slow = here.decay[..., None] + (here.b[:, :, None] * here.c[:, None])[..., None] * eigenvalue
    values = 1 - eigenvalues_of_steps(slow)  # (k, T, L)
    turn = np.where(values.imag != 0, np.abs(np.angle(values)), 0.0).max(0)
    fall = np.maximum(-2 * np.log(np.maximum(np.abs(values).max(0), SMALLEST)), 0.0)
    fallen = np.cumsum(fall[:-1] * np.diff(probes)[:, None], axis=0)
    fallen = np.concatenate([np.zeros((1, eigenvalue.size)), fallen]) / (2 * piece.ground.resolution.order)
    found = 2 * turn * np.exp(-fallen)
    if piece.keeping is not None:  # x of an average holds single powers
        found = np.maximum(found, turn * np.exp(-fallen / 2))
    return Turning(probes, found.max(1))
