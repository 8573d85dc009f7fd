"""Tables of the steps of courses for the compiled program, computed in float64."""

from collections.abc import Sequence

import numpy as np

from sgdtheory.algorithms import Course, LinearMethod
from sgdtheory.simulation.linear_dynamics import Table


def with_start(method: LinearMethod) -> np.ndarray:
    """(1 + k,) the output o, of u(0) and v_1 … v_k."""
    output = np.asarray(method.output, dtype=float)
    return np.append(output @ np.asarray(method.start, dtype=float), output)


def make_table(courses: Sequence[Course], first: int, count: int, *, unit: float) -> Table:
    """The steps first … first + count − 1 of G runs; after a run's last step it repeats.

    Args:
        courses: of the runs, all of one method.
        first: number of the first step.
        count: T.
        unit: λ_1, the unit of the simulated spectrum.
    """
    parts = []
    for course in courses:
        last = min(first + count, int(course.num_steps))
        found = _steps(course, unit, np.arange(min(first, last - 1), last, dtype=float))
        missing = count - found.batch.size
        parts.append([np.pad(each, [(0, missing)] + [(0, 0)] * (each.ndim - 1), mode="edge") for each in found])
    return Table(*(np.stack(each, axis=1) for each in zip(*parts, strict=True)))


def _steps(course: Course, unit: float, step: np.ndarray) -> Table:
    """T steps of one run.

    In units of λ_1 gradients are smaller by that factor. A vector that begins at 0 and is no part of the iterate may
    have any unit (momentum has that of gradients): it is given the one in which its b is 1, so that none over- or
    underflows.
    """
    method = course.algorithm.method
    start = np.asarray(method.start, dtype=float)
    reach = unit * np.abs(method.matrices(np.array([course.rate]), np.zeros(1)).b[0])
    free = (start == 0) & (np.asarray(method.output) == 0) & (reach > 0)
    scale = np.where(free, 1 / np.where(free, reach, 1), 1.0)
    decay, gain, point = course.matrices(step)
    moved = np.concatenate([(decay @ start)[..., None], decay / scale], axis=-1) * scale[:, None]
    seen = np.concatenate([(point @ start)[:, None], point / scale], axis=-1)
    batch = np.maximum(np.rint(course.batches(step)), 1.0)
    return Table(moved, gain * (scale * unit), seen, batch)


def largest_batch(course: Course) -> float:
    """A bound on the batch sizes of a run; attained but for the end of a ramp.

    Shapes are monotone between their knots; of a function of the step every value is looked at.
    """
    shape = course.algorithm.batch_schedule
    if shape.smooth:
        factors = shape.at(np.array([0.0, *shape.knots(), 1.0]))
        return float(max(1.0, np.rint(course.batch * factors.max())))
    pieces = np.arange(0, course.num_steps, 2**20)
    return max(float(course.batches(np.arange(low, min(low + 2**20, course.num_steps))).max()) for low in pieces)
