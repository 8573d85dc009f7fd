"""By how much the moments of runs turn, direction by direction, before they have decayed (THEORY.md T25).

Modes that stand for several directions have to resolve these phases in λ. They matter at the ends of segments, counted
from the kinks before: sums over all steps in between are smooth in λ, as a sum of βʲ cos 2jθ over all j is.
"""

import math
from collections.abc import Iterator, Sequence

import numpy as np

from sgdtheory.algorithms import Course
from sgdtheory.algorithms.linear_method import column_products
from sgdtheory.problems import Phases
from sgdtheory.risk.solvers.contour import NEGLIGIBLE
from sgdtheory.risk.solvers.spectrum import SMALLEST, eigenvalues_of_steps

# Eigenvalues at which phases are computed: they are powers of λ over wide ranges, and modes take the largest slope of
# three neighbouring intervals.
EIGENVALUES = 33
# Steps of a part of a run at which its eigenvalues are computed, where γ varies.
PROBES = 9
# The same for each doubling of the step, of methods that change with its number.
PROBES_A_DOUBLING = 2
# A quadrature with the nodes that decaying moments need resolves this angle: 10 radians on each of two blocks.
FEW_RADIANS = 8.0
# Up to so many kinks all parts of a run between two of them are looked at; otherwise parts of n, n/2, n/4, … steps.
MOST_KINKS = 5


def phases(
    courses: Sequence[Course], ends: Sequence[Sequence[float]], low: float, high: float, stops: bool = False
) -> Phases | None:
    """Return the phases of runs of one algorithm for eigenvalues from `low` to `high`; None if they turn by little.

    Args:
        courses: S runs.
        ends: steps at which the segments of each run begin and end.
        low, high: smallest and largest eigenvalue that several directions share.
        stops: whether moments are wanted at steps inside the runs.
    """
    if not 0 < low < high < math.inf:
        return None
    log_eigenvalue = np.linspace(math.log(low), math.log(high), EIGENVALUES)
    eigenvalue = np.exp(log_eigenvalue)
    seen: set[tuple[float, ...]] = set()
    kept = []
    for course, edges in zip(courses, ends, strict=True):
        for begin, end in _parts(course, edges, stops):
            steady = course.algorithm.constant and course.algorithm.method.step_dependence in ("none", "period")
            key = (course.rate, end - begin) if steady else (course.rate, course.num_steps, begin, end)
            if key in seen:
                continue
            seen.add(key)
            phase, decay = _turned(course, begin, end, eigenvalue)
            if (np.ptp(phase) > FEW_RADIANS) and (decay[phase > 0] > -NEGLIGIBLE).any():
                kept.append((phase, decay))
    return Phases(log_eigenvalue, *map(np.array, zip(*kept, strict=True))) if kept else None


def _parts(course: Course, edges: Sequence[float], stops: bool) -> Iterator[tuple[float, float]]:
    """Yield beginnings and ends of the parts of a run after which its oscillations matter.

    Where they are many, parts of n, n/2, n/4, … steps from the beginning stand for them.
    """
    if len(edges) <= MOST_KINKS and not stops:
        yield from ((begin, end) for place, end in enumerate(edges) for begin in edges[:place])
        return
    length = course.num_steps
    while length >= 1:
        yield 0.0, length
        length = math.floor(length / 2)


def _turned(course: Course, begin: float, end: float, eigenvalue: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Return the angle (G,) by which second moments turn in a part of a run, and the log of what is left of them."""
    steps, counts = _probes(course, begin, end)
    slow = _slow(course, steps, eigenvalue)
    total = end - begin
    least = -NEGLIGIBLE / (2 * total)  # Eigenvalues with a smaller log |μ| have decayed.
    result = np.zeros((2, eigenvalue.size))
    for each, repeats in slow:
        angle, size = _leading(each, least * total / (counts * repeats).sum())
        weight = 2 * (counts * repeats)[:, None]
        result += (weight * angle).sum(0), (weight * size).sum(0)
    return result[0], result[1]


def _leading(slow: np.ndarray, least: float) -> tuple[np.ndarray, np.ndarray]:
    """Return the largest |arg μ| and log |μ| of the eigenvalues of steps that matter, (T, G) each."""
    mu = 1 - eigenvalues_of_steps(slow)
    size = np.log(np.maximum(np.abs(mu), SMALLEST))
    angle = np.where(size > least, np.abs(np.angle(mu)), 0.0)
    turning = angle > 0
    leading = np.where(turning, size, -np.inf).max(0)
    return angle.max(0), np.where(turning.any(0), leading, size.max(0))


def _probes(course: Course, begin: float, end: float) -> tuple[np.ndarray, np.ndarray]:
    """Return numbers of steps of a part of a run, and how many steps each of them stands for; (T,) each."""
    method = course.algorithm.method
    last = end - begin - 1
    if course.algorithm.constant and method.step_dependence in ("none", "period"):
        return np.array([begin]), np.array([end - begin])
    since = np.linspace(0, last, PROBES)
    if method.step_dependence in ("smooth", "any"):
        number = int(PROBES_A_DOUBLING * math.log2(max(last, 1.0))) + 2
        since = np.append(since, np.geomspace(1, max(last, 1.0), number))
    since = np.unique(np.floor(since))
    edges = np.concatenate([[0.0], (since[1:] + since[:-1] + 1) / 2, [end - begin]])
    return begin + since, np.diff(edges)


def _slow(
    course: Course, steps: np.ndarray, eigenvalue: np.ndarray
) -> Iterator[tuple[np.ndarray, float]]:
    """Yield I − A_i of steps (T, k, k, G), and how many of them there are for each that `steps` counts.

    A round of local steps turns by its own angle. The steps in it may turn by more, if they have momentum.
    """
    method = course.algorithm.method
    if method.step_dependence != "period":
        yield _maps(course, steps, eigenvalue), 1.0
        return
    first = np.floor(steps / method.period) * method.period
    inner = _maps(course, first, eigenvalue)
    outer = _maps(course, first + method.period - 1, eigenvalue)
    yield inner, 1.0
    one = np.eye(inner.shape[1])
    A, B = (one - np.moveaxis(each, -1, 1) for each in (inner, outer))
    with np.errstate(all="ignore"):
        whole = B @ np.linalg.matrix_power(A, method.period - 1)
    if np.isfinite(whole).all():
        yield np.moveaxis(one - whole, 1, -1), 1 / method.period


def _maps(course: Course, steps: np.ndarray, eigenvalue: np.ndarray) -> np.ndarray:
    decay, b, c = course.matrices(steps)
    return decay[..., None] + column_products(b, c, decay)[..., None] * eigenvalue
