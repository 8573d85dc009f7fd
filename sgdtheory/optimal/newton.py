"""Newton's method, many searches side by side, for smooth functions of up to a few hundred variables within bounds.

The risk hardly feels fast changes of a schedule. The eigenvalues of its Hessian span ten decades, and methods of the
first order need thousands of gradients (L-BFGS of SciPy among them).
"""

from collections.abc import Callable
from typing import NamedTuple

import numpy as np

DIFFERENCE = 1e-4  # A variable is moved by this much for the Hessian, which is a difference of slopes.
MOST_STEPS = 100  # No search took as many in 37 settings; it bounds those whose slopes mislead.
LONGEST = 1.5  # A step changes a variable by at most this: logarithms change by a factor of 4.5.
SHORTEST = 1e-6  # A search whose steps gain nothing down to this length finds its Hessian anew, or gives up.
# The damping is this share of the largest curvature; with more, the flattest directions are not searched.
LEAST_DAMPING = 1e-12
# Searches end at these gains of log risk; the first is for searches that are compared or go on on more knots.
ROUGH_GAIN, FINE_GAIN = 1e-7, 1e-11
SAME = 1e-6  # Two searches ended at one optimum if the logarithms of their risks differ by at most this.
SMALLEST_CHANGE = 1e-8  # Below this relative error along a step the Hessian is not corrected: the update divides by it.


class Found(NamedTuple):
    """A function at S points.

    Attributes:
        point: (S, N) brought to where the function is defined.
        value: (S,).
        slope: (S, N).
        held: (S, N) whether a bound holds a variable that would pass it.
    """

    point: np.ndarray
    value: np.ndarray
    slope: np.ndarray
    held: np.ndarray

    @property
    def steepest(self) -> np.ndarray:
        """Largest slope by a variable that no bound holds, (S,)."""
        return np.abs(np.where(self.held, 0.0, self.slope)).max(1)

    def rows(self, which: np.ndarray) -> "Found":
        """Return the function at some of the points."""
        return Found(*(each[which] for each in self))

    def with_others(self, others: "Found") -> "Found":
        """Return the function at these points and others."""
        return Found(*(np.concatenate(pair) for pair in zip(self, others, strict=True)))


Function = Callable[[np.ndarray], Found]


class Searches:
    """Searches for local minima side by side: many cost little more than one.

    Hessians are found by differences of slopes and kept up by the symmetric update of rank one, which may be indefinite
    as the function is. Curvatures are taken for their sizes, so that saddles are left downhill. As much is added to all
    of them (Levenberg) as keeps steps within a length that follows what they gain. Where none gains anything the
    Hessian is found anew.

    Args:
        function: of any number of points.
        begin: (S, N) where the searches begin.
    """

    def __init__(self, function: Function, begin: np.ndarray) -> None:
        self.function = function
        self.here = function(begin)
        self.hessian = self._differences(self.here)
        self.longest = np.full(len(begin), LONGEST)
        self.fresh = np.ones(len(begin), bool)

    def keep(self, which: np.ndarray) -> None:
        """Give up all searches but these."""
        self.here = self.here.rows(which)
        self.hessian = self.hessian[which]
        self.longest = self.longest[which]
        self.fresh = self.fresh[which]

    def ended(self, gain: float) -> Found:
        """Return local minima, each up to what a further step would gain by the quadratic model."""
        live = np.arange(len(self.longest))
        for _ in range(MOST_STEPS):
            step, expected = self._steps(live)
            going = expected >= gain
            if not going.any():
                break
            live = self._moved(live[going], step[going], expected[going])
        return self.here

    def _differences(self, here: Found) -> np.ndarray:
        """Return Hessians, (S, N, N)."""
        searches, size = here.point.shape
        inwards = DIFFERENCE * np.where((here.slope > 0) ^ here.held, -1.0, 1.0)  # downhill, away from a bound
        moved = here.point[:, None] + np.eye(size) * inwards[:, :, None]
        slope = self.function(moved.reshape(-1, size)).slope.reshape(searches, size, size)
        rows = (slope - here.slope[:, None]) / inwards[:, :, None]
        return (rows + rows.transpose(0, 2, 1)) / 2

    def _steps(self, live: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        """Return steps to the minima of the damped quadratic models, and what they gain there, of free variables."""
        free = ~self.here.held[live]
        curvature, way = np.linalg.eigh(self.hessian[live] * (free[:, :, None] & free[:, None, :]))
        # Along a negative curvature the step goes downhill, as if it were positive.
        curvature = np.abs(curvature)
        along = np.einsum("si,sij->sj", self.here.slope[live] * free, way)
        damping = LEAST_DAMPING * np.maximum(curvature, np.abs(along)).max(1, keepdims=True) + np.finfo(float).tiny
        while True:
            step = -np.einsum("sij,sj->si", way, along / (curvature + damping)) * free
            far = np.abs(step).max(1) > self.longest[live]
            if not far.any():
                break
            damping[far] *= 4
        return step, ((along / (curvature + damping)) ** 2 * (curvature / 2 + damping)).sum(1)

    def _moved(self, live: np.ndarray, step: np.ndarray, expected: np.ndarray) -> np.ndarray:
        """Take the steps that gain something, and return which searches go on."""
        here = self.here.rows(live)
        there = self.function(here.point + step)
        gained = here.value - there.value
        # The model is trusted farther where a step gains over half of what it promises, less far where under a tenth.
        factor = np.select([gained > 0.5 * expected, gained > 0.1 * expected], [2.0, 1.0], 0.25)
        self.longest[live] = np.minimum(self.longest[live] * factor, LONGEST)
        better = gained > 0
        self._learn(live[better], here.rows(better), there.rows(better))
        stuck = ~better & (self.longest[live] < SHORTEST)
        again = live[stuck & ~self.fresh[live]]
        if again.size:
            self.hessian[again] = self._differences(self.here.rows(again))
            self.longest[again] = LONGEST
            self.fresh[again] = True
        return live[~stuck | np.isin(live, again)]

    def _learn(self, which: np.ndarray, here: Found, there: Found) -> None:
        """Take the steps, and correct the Hessians by the changes of slopes over them."""
        self.fresh[which] = False
        step = there.point - here.point
        error = there.slope - here.slope - np.einsum("sij,sj->si", self.hessian[which], step)
        along = (error * step).sum(1)
        sizes = np.linalg.norm(error, axis=1) * np.linalg.norm(step, axis=1)
        # The symmetric change of rank one with which the Hessian has the slopes seen at both ends of the step.
        told = np.abs(along) > SMALLEST_CHANGE * sizes
        outer = error[told, :, None] * error[told, None, :]
        self.hessian[which[told]] += outer / along[told, None, None]
        for kept, new in zip(self.here, there, strict=True):
            kept[which] = new
