"""By how much the moments of runs turn, direction by direction, before they have decayed (THEORY.md T24).

Modes that stand for several directions have to resolve these phases in λ. They matter at the ends of segments, counted
from the kinks before: sums over all steps in between are smooth in λ, as a sum of βʲ cos 2jθ over all j is.
"""

import math
from collections.abc import Iterator, Sequence
from typing import NamedTuple

import numpy as np

from sgdtheory.algorithms import Course, column_products
from sgdtheory.problems import Modes, Phases
from sgdtheory.risk.solvers.contour import NEGLIGIBLE
from sgdtheory.risk.solvers.spectrum import SMALLEST, eigenvalues_of_steps

# Phases are computed at this many eigenvalues. They are powers of λ over wide ranges, and modes take the largest slope
# of three neighbouring intervals.
EIGENVALUES = 33
PROBES = 9  # Where γ varies, the eigenvalues are computed at this many steps of a part of a run.
PROBES_A_DOUBLING = 2  # Methods that change with the step have this many more probes for each doubling of its number.
# A total phase below this needs no more modes: φ is at most about √λ, so that the first of the blocks that decaying
# moments need (a factor of e^1.6 in λ) turns by half of it, which five nodes interpolate to 1e-8 and eight to 1e-12.
FEW_RADIANS = 4.0
# Without label noise the risk may be as small as a float, e^−709, and so may what oscillates.
QUIET_NEGLIGIBLE = 700.0
# With up to this many kinks all parts of a run between two of them are probed; otherwise parts of n, n/2, n/4, … steps.
MOST_KINKS = 5


class Part(NamedTuple):
    """A part of a run: the steps begin … end − 1."""

    course: Course
    begin: float
    end: float


def largest_shared(modes: Modes) -> float:
    """Return the largest eigenvalue of modes that stand for several directions; 0 if there are none."""
    return float(modes.eigenvalue[modes.multiplicity != 1].max(initial=0.0))


def phases(
    courses: Sequence[Course],
    ends: Sequence[Sequence[float]],
    low: float,
    high: float,
    stops: bool = False,
    quiet: bool = False,
) -> Phases | None:
    """Return the phases of runs of one algorithm for eigenvalues from `low` to `high`; None if they turn by little.

    Args:
        courses: S runs.
        ends: steps at which the segments of each run begin and end.
        low, high: range of the eigenvalues that several directions share, and whose moments are not straight lines.
        stops: whether moments are wanted at steps inside the runs.
        quiet: whether there is no label noise, so that the risk may itself be small.
    """
    negligible = QUIET_NEGLIGIBLE if quiet else NEGLIGIBLE
    steady = courses[0].algorithm.steady
    every: dict[tuple[float, ...], Part] = {}
    for course, edges in zip(courses, ends, strict=True):
        for begin, end in _parts(course, edges, stops):
            # Parts whose steps are all alike differ in their lengths alone.
            key = (course.rate, end - begin) if steady else (course.rate, course.num_steps, begin, end)
            every.setdefault(key, Part(course, begin, end))
    parts = _lasting(list(every.values()), high, negligible)
    if not parts:
        return None
    log_eigenvalue = np.linspace(math.log(low), math.log(high), EIGENVALUES)
    single = _has_single_powers(courses[0])
    phase, decay = _turned(parts, np.exp(log_eigenvalue), negligible * (1 + single))
    if single:
        phase = np.concatenate([phase, phase / 2])
        decay = np.concatenate([decay, decay / 2])
    kept = (np.ptp(phase, axis=1) > FEW_RADIANS) & ((phase > 0) & (decay > -negligible)).any(1)
    return Phases(log_eigenvalue, phase[kept], decay[kept]) if kept.any() else None


def _has_single_powers(course: Course) -> bool:
    """Return whether moments hold μⁿ times what does not oscillate: a sum of iterates, or a third vector."""
    return course.first_averaged < course.num_steps or len(course.algorithm.method.start) > 2


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


def _lasting(parts: Sequence[Part], high: float, negligible: float) -> Sequence[Part]:
    """Return the parts in which oscillations may last, of methods with two vectors and equal steps; else all parts.

    The square of a complex |μ| is the determinant of the step, a linear function of λ, so that its largest value is at
    one of the ends. This spares most runs the eigenvalues.
    """
    algorithm = parts[0].course.algorithm
    method = algorithm.method
    if not (algorithm.constant and len(method.start) == 2):
        return parts
    begins = np.zeros(len(parts))
    decay, b, c = method.matrices(_rates(parts, begins[:, None])[:, 0], begins)
    first = np.eye(2) - decay
    last = first - high * b[:, :, None] * c[:, None]
    sizes = [np.abs(each[:, 0, 0] * each[:, 1, 1] - each[:, 0, 1] * each[:, 1, 0]) for each in (first, last)]
    lengths = np.array([part.end - part.begin for part in parts])
    exponents = np.log(np.maximum(np.maximum(*sizes), SMALLEST)) / (1 + _has_single_powers(parts[0].course))
    lasts = lengths * exponents > -negligible
    return [parts[index] for index in np.flatnonzero(lasts).tolist()]


def _rates(parts: Sequence[Part], steps: np.ndarray) -> np.ndarray:
    """Return γ at steps (P, T) of P parts."""
    peak, length = np.array([(part.course.rate, part.course.num_steps) for part in parts]).T[:, :, None]
    return peak * parts[0].course.algorithm.schedule.factors(steps, length)


def _turned(parts: Sequence[Part], eigenvalue: np.ndarray, negligible: float) -> tuple[np.ndarray, np.ndarray]:
    """Return the angles (P, G) by which second moments turn in P parts, and the logs of what is left of them.

    Oscillations count until they have decayed by e to the power of −`negligible`.
    """
    steps, counts = _probes(parts)
    total = np.array([part.end - part.begin for part in parts])
    phase = np.zeros((len(parts), eigenvalue.size))
    decay = np.zeros_like(phase)
    for slow, repeats in _slow(parts, steps, eigenvalue):
        weight = 2 * counts[..., None] * repeats
        least = -negligible / (2 * total * repeats)  # Eigenvalues with a smaller log |μ| have decayed.
        angle, size = _leading(slow, np.repeat(least, steps.shape[1]))
        phase += (weight * angle.reshape(*steps.shape, -1)).sum(1)
        # What is left after all rounds is also what is left after all of their steps.
        decay = (weight * size.reshape(*steps.shape, -1)).sum(1)
    return phase, decay


def _leading(slow: np.ndarray, least: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Return the largest |arg μ|, and log |μ| of the slowest that turns, of eigenvalues above `least`, (T, G) each."""
    mu = 1 - eigenvalues_of_steps(slow)
    size = np.log(np.maximum(np.abs(mu), SMALLEST))
    angle = np.where(size > least[:, None], np.abs(np.angle(mu)), 0.0)
    turning = angle > 0
    leading = np.where(turning, size, -np.inf).max(0)
    return angle.max(0), np.where(turning.any(0), leading, size.max(0))


def _probes(parts: Sequence[Part]) -> tuple[np.ndarray, np.ndarray]:
    """Return numbers of steps in P parts, and how many steps each of them stands for; (P, T) each."""
    algorithm = parts[0].course.algorithm
    begin, end = np.array([(part.begin, part.end) for part in parts]).T[:, :, None]
    if algorithm.steady:
        return begin, end - begin
    last = end - begin - 1
    since = np.linspace(0, last[:, 0], PROBES, axis=1)
    if algorithm.method.step_dependence in ("smooth", "any"):
        longest = np.maximum(last[:, 0], 1.0)
        number = int(PROBES_A_DOUBLING * math.log2(longest.max())) + 2
        since = np.append(since, np.geomspace(1, longest, number, axis=1), axis=1)
    since = np.sort(np.minimum(np.floor(since), last), axis=1)
    middle = (since[:, 1:] + since[:, :-1] + 1) / 2
    edges = np.concatenate([np.zeros_like(last), middle, last + 1], axis=1)
    return begin + since, np.diff(edges, axis=1)


def _slow(parts: Sequence[Part], steps: np.ndarray, eigenvalue: np.ndarray) -> Iterator[tuple[np.ndarray, float]]:
    """Yield I − A_i of steps, (T, k, k, G), and how many of them there are for each step.

    A round of H local steps turns by its own angle. The steps in it may turn by more, if they have momentum.
    """
    method = parts[0].course.algorithm.method
    if method.step_dependence != "period":
        yield _maps(parts, steps, eigenvalue), 1.0
        return
    first = np.floor(steps / method.period) * method.period
    inner = _maps(parts, first, eigenvalue)
    yield inner, 1.0
    one = np.eye(inner.shape[1])
    # Schedules vary little in a round: γ of its first step stands for all.
    alike, last = (
        one - np.moveaxis(_maps(parts, steps_of_round, eigenvalue, first), -1, 1)
        for steps_of_round in (first, first + method.period - 1)
    )
    with np.errstate(all="ignore"):
        whole = last @ np.linalg.matrix_power(alike, method.period - 1)
    if np.isfinite(whole).all():
        yield np.moveaxis(one - whole, 1, -1), 1 / method.period


def _maps(
    parts: Sequence[Part], steps: np.ndarray, eigenvalue: np.ndarray, rates_at: np.ndarray | None = None
) -> np.ndarray:
    """Return I − A_i of steps (P, T) with the learning rates of the steps `rates_at`, (P T, k, k, G)."""
    rates = _rates(parts, steps if rates_at is None else rates_at)
    decay, b, c = parts[0].course.algorithm.method.matrices(rates.ravel(), steps.ravel())
    return decay[..., None] + column_products(b, c, decay)[..., None] * eigenvalue
