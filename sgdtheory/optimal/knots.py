"""Knots of a run: steps at which learning rates and batch sizes are given.

Between knots `log γ` and `log B` are linear in `log((t + 1)/(n − t))`, the place of a step, so that knots at equal
distances lie dense at both ends of a run.
"""

from dataclasses import dataclass
from typing import Any

import numpy as np

from sgdtheory.algorithms import Shape


def place(step: np.ndarray, num_steps: float) -> np.ndarray:
    """Return log((t + 1)/(n − t)), which rises by 2 log n, with equal room for the beginning and the end of a run."""
    return np.log((step + 1) / (num_steps - step))


def _step_at(where: np.ndarray, num_steps: float) -> np.ndarray:
    """Return the whole steps nearest to places."""
    return np.round((num_steps + 1) / (1 + np.exp(-where)) - 1)


def spread_knots(num_steps: float, spacing: float) -> np.ndarray:
    """Return steps from 0 to n − 1 whose places lie `spacing` apart, as nearly as whole numbers can."""
    low, high = place(np.array([0.0, num_steps - 1]), num_steps)
    wanted = np.linspace(low, high, max(2, int(np.ceil((high - low) / spacing)) + 1))
    return np.unique(np.concatenate([[0.0], _step_at(wanted, num_steps), [num_steps - 1]]).clip(0, num_steps - 1))


def cut(knots: np.ndarray, num_steps: float, widest: float) -> np.ndarray:
    """Return the knots, and steps between them that cut the run into segments at most about `widest` wide."""
    places = place(knots, num_steps)
    parts = np.maximum(1, np.ceil(np.diff(places) / widest - 0.1)).astype(int)
    share = np.concatenate([interval + np.arange(number) / number for interval, number in enumerate(parts)])
    return np.append(_step_at(np.interp(share, np.arange(knots.size), places), num_steps), num_steps - 1)


def interpolation(steps: np.ndarray, begins: np.ndarray, knots: np.ndarray, num_steps: float) -> np.ndarray:
    """Return the matrix (J, E) that takes values at the knots to steps in the intervals in which `begins` lie."""
    places = place(knots, num_steps)
    interval = np.minimum(np.searchsorted(knots, begins, side="right") - 1, knots.size - 2)
    low, high = places[interval], places[interval + 1]
    share = (place(steps, num_steps) - low) / (high - low)
    matrix = np.zeros((knots.size, steps.size))
    every = np.arange(steps.size)
    matrix[interval, every] = 1 - share
    matrix[interval + 1, every] = share
    return matrix


@dataclass(frozen=True)
class KnotShape(Shape):
    """A shape by its values at steps of a run: `log f` is linear in `log((t + 1)/(n − t))` between them.

    Args:
        num_steps: n of the run that it is for; with another number of steps it is stretched.
        steps: (J,) from 0 to n − 1.
        values: (J,) f > 0 there.
    """

    num_steps: float
    steps: tuple[float, ...]
    values: tuple[float, ...]

    def at(self, fraction: Any, xp: Any = np) -> Any:
        """f(u)."""
        step = xp.clip(xp.asarray(fraction) * self.num_steps, 0.0, self.num_steps - 1)
        where = xp.log((step + 1) / (self.num_steps - step))
        known = place(np.array(self.steps), self.num_steps)
        return xp.exp(xp.interp(where, xp.asarray(known), xp.log(xp.asarray(self.values))))

    def knots(self) -> tuple[float, ...]:
        """The inner ones."""
        return tuple(step / self.num_steps for step in self.steps[1:-1])
