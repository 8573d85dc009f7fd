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
