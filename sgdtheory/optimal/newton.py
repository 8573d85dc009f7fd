"""Newton's method for smooth functions of up to a few hundred variables, some of which bounds hold.

The risk hardly feels fast changes of a schedule: the eigenvalues of its Hessian span ten decades, and methods of the
first order need thousands of gradients.
"""

from collections.abc import Callable
from typing import NamedTuple

import numpy as np

DIFFERENCE = 1e-4  # of a variable, for the Hessian
MOST_STEPS = 100
LONGEST = 1.5  # change of a variable in one step
LEAST_DAMPING, DAMPING, MOST_DAMPING = 1e-12, 1e-9, 1e2  # added to curvatures, relative to the largest
LESS, MORE = 0.1, 10.0  # damping after a step that did what the quadratic model says, and after one that did not
SMALLEST_CHANGE = 1e-8  # relative: errors of the Hessian along a step that are learnt from
AS_SAID, FAR_FROM_SAID = 0.5, 0.1  # gain over that of the model


class Found(NamedTuple):
    """A function at a point.

    Attributes:
        point: (N,) brought to where the function is defined.
        value: of the function.
        slope: (N,).
        held: (N,) whether a bound holds a variable that would pass it.
    """

    point: np.ndarray
    value: float
    slope: np.ndarray
    held: np.ndarray


Value = Callable[[np.ndarray], Found]


def minimum(value: Value, begin: np.ndarray, gain: float) -> Found:
    """A local minimum, up to what a further step would gain by the quadratic model.

    The Hessian is found by differences of slopes and kept up by the symmetric update of rank one, which may be
    indefinite as the function is; steps are damped as by Levenberg. Where no damping helps the Hessian is found anew.
    """
    here, hessian, damping = value(begin), _Hessian(value, begin.size), DAMPING
    for _ in range(MOST_STEPS):
        step, expected = hessian.step(here, damping)
        if expected < gain:
            break
        there = value(here.point + step)
        gained = here.value - there.value
        if gained > FAR_FROM_SAID * expected:
            damping = max(damping * LESS, LEAST_DAMPING) if gained > AS_SAID * expected else damping
        else:
            damping *= MORE
        if gained > 0:
            hessian.learn(here, there)
            here = there
        elif damping > MOST_DAMPING:
            if hessian.fresh:
                break
            hessian, damping = _Hessian(value, begin.size), DAMPING
    return here


class _Hessian:
    """Second derivatives by the variables that have been free."""

    def __init__(self, value: Value, size: int) -> None:
        self.value, self.known, self.fresh = value, np.zeros(size, bool), True
        self.matrix = np.zeros((size, size))

    def step(self, here: Found, damping: float) -> tuple[np.ndarray, float]:
        """Of the free variables, to the minimum of the damped quadratic model, and what it gains there."""
        free = ~here.held
        for k in np.flatnonzero(free & ~self.known):
            moved = here.point.copy()
            moved[k] -= DIFFERENCE * (1 if here.slope[k] > 0 else -1)  # downhill: no bound is there
            row = (self.value(moved).slope - here.slope) / (moved[k] - here.point[k])
            self.matrix[k], self.matrix[:, k], self.known[k] = row, row, True
        curvature, way = np.linalg.eigh(self.matrix[np.ix_(free, free)])
        curvature = np.abs(curvature) + damping * np.abs(curvature).max(initial=1e-100)
        along = here.slope[free] @ way
        step = np.zeros_like(here.point)
        step[free] = -way @ (along / curvature)
        shorter = min(1.0, LONGEST / max(np.abs(step).max(initial=0.0), 1e-300))
        return shorter * step, float((shorter - shorter**2 / 2) * (along**2 / curvature).sum())

    def learn(self, here: Found, there: Found) -> None:
        """From the change of slopes over a step."""
        self.fresh = False
        step, change = (
            np.where(self.known, after - before, 0.0) for after, before in zip(there[:3:2], here[:3:2], strict=True)
        )
        error = change - self.matrix @ step
        if abs(error @ step) > SMALLEST_CHANGE * np.linalg.norm(error) * np.linalg.norm(step):
            self.matrix += np.outer(error, error) / (error @ step)


class Many(NamedTuple):
    """A function at S points, as `Found` at one: (S, N), (S,), (S, N), (S, N)."""

    point: np.ndarray
    value: np.ndarray
    slope: np.ndarray
    held: np.ndarray

    def rows(self, which: np.ndarray) -> "Many":
        """Some of them."""
        return Many(*(each[which] for each in self))

    def with_others(self, others: "Many") -> "Many":
        """These and others."""
        return Many(*(np.concatenate(pair) for pair in zip(self, others, strict=True)))


class Searches:
    """Searches like that of `minimum`, side by side: many short ones cost little more than one.

    Args:
        value: the function, at any number of points.
        begin: (S, N) where they begin.
    """

    def __init__(self, value: Callable[[np.ndarray], Many], begin: np.ndarray) -> None:
        self.value, self.here = value, value(begin)
        self.hessian = self._differences(self.here)
        self.damping = np.full(len(begin), DAMPING)
        self.fresh = np.ones(len(begin), bool)

    def keep(self, which: np.ndarray) -> None:
        """Give up all others."""
        self.here, self.hessian = self.here.rows(which), self.hessian[which]
        self.damping, self.fresh = self.damping[which], self.fresh[which]

    def ended(self, gain: float) -> Many:
        """Local minima, each up to what a further step would gain by the quadratic model."""
        live = np.arange(len(self.damping))
        for _ in range(MOST_STEPS):
            step, expected = self._steps(live)
            going = expected >= gain
            if not going.any():
                break
            live = self._moved(live[going], step[going], expected[going])
        return self.here

    def _differences(self, here: Many) -> np.ndarray:
        """Hessians, (S, N, N)."""
        searches, size = here.point.shape
        inwards = DIFFERENCE * np.where((here.slope > 0) ^ here.held, -1.0, 1.0)  # downhill, away from a bound
        moved = here.point[:, None] + np.eye(size) * inwards[:, :, None]
        slope = self.value(moved.reshape(-1, size)).slope.reshape(searches, size, size)
        rows = (slope - here.slope[:, None]) / inwards[:, :, None]
        return (rows + rows.transpose(0, 2, 1)) / 2

    def _steps(self, live: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        """Of the free variables, to the minima of the damped quadratic models, and what they gain there."""
        free = ~self.here.held[live]
        curvature, way = np.linalg.eigh(self.hessian[live] * (free[:, :, None] & free[:, None, :]))
        curvature = np.abs(curvature)
        curvature += self.damping[live, None] * np.maximum(curvature.max(1, keepdims=True), 1e-100)
        along = np.einsum("si,sij->sj", self.here.slope[live] * free, way)
        step = -np.einsum("sij,sj->si", way, along / curvature) * free
        shorter = np.minimum(1.0, LONGEST / np.maximum(np.abs(step).max(1), 1e-300))
        return shorter[:, None] * step, (shorter - shorter**2 / 2) * (along**2 / curvature).sum(1)

    def _moved(self, live: np.ndarray, step: np.ndarray, expected: np.ndarray) -> np.ndarray:
        """After the steps that gain something; which searches go on."""
        here = self.here.rows(live)
        there = self.value(here.point + step)
        gained = here.value - there.value
        less = np.where(gained > AS_SAID * expected, LESS, 1.0)
        self.damping[live] *= np.where(gained > FAR_FROM_SAID * expected, less, MORE)
        self.damping[live] = np.maximum(self.damping[live], LEAST_DAMPING)
        better = gained > 0
        self._learn(live[better], here.rows(better), there.rows(better))
        stuck = ~better & (self.damping[live] > MOST_DAMPING)
        again = live[stuck & ~self.fresh[live]]
        if again.size:
            self.hessian[again] = self._differences(self.here.rows(again))
            self.damping[again], self.fresh[again] = DAMPING, True
        return live[~stuck | np.isin(live, again)]

    def _learn(self, which: np.ndarray, here: Many, there: Many) -> None:
        """Take the steps, and learn from the changes of slopes over them."""
        self.fresh[which] = False
        step, change = there.point - here.point, there.slope - here.slope
        error = change - np.einsum("sij,sj->si", self.hessian[which], step)
        along = (error * step).sum(1)
        sizes = np.linalg.norm(error, axis=1) * np.linalg.norm(step, axis=1)
        told = np.abs(along) > SMALLEST_CHANGE * sizes
        outer = error[told, :, None] * error[told, None, :]
        self.hessian[which[told]] += outer / along[told, None, None]
        for kept, new in zip(self.here, there, strict=True):
            kept[which] = new
