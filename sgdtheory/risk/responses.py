"""Response of a run's mean path to an eigenvalue, `E u_t = f_t(λ) u_0`, along the run (THEORY.md T42).

Steps that are all alike are raised to a power; others are taken one by one.
"""

from typing import NamedTuple

import numpy as np

from sgdtheory.algorithms import Course, StepMatrices, steps_of_shape
from sgdtheory.risk.powers import one_minus_power
from sgdtheory.risk.runs import MOST_STEPS

NUMBERS_AT_ONCE = 200_000  # steps times eigenvalues that are multiplied up at once
PROBES = 5  # steps of a piece at which it is asked whether they are all alike


class Responses(NamedTuple):
    """After K numbers of steps, (K, J) each: of the iterate, and of what the average returns."""

    iterate: np.ndarray
    average: np.ndarray


class Held(NamedTuple):
    """The state in units of its start, (J, k), and the average's sum, (J,)."""

    state: np.ndarray
    total: np.ndarray


def responses(course: Course, weight: np.ndarray, stops: np.ndarray) -> Responses:
    """f(w) of J eigenvalues after K increasing numbers of steps; not finite where a run leaves the range of a float.

    Raises:
        ValueError: more than `MOST_STEPS` have to be taken one by one.
    """
    single, places = np.unique(weight, return_inverse=True)
    if single.size < weight.size:  # of what is there twice
        return Responses(*(each[:, places] for each in responses(course, single, stops)))
    method = course.algorithm.method
    average = course.algorithm.average
    output = np.asarray(method.output, dtype=float)
    held = Held(np.tile(np.asarray(method.start, dtype=float), (weight.size, 1)), np.zeros(weight.size))
    if average.starts_at_iterate():
        held = held._replace(total=held.state @ output)
    found = []
    now = 0.0
    kinks = {course.first_averaged, *steps_of_shape(course.algorithm.schedule, course.num_steps)}
    with np.errstate(all="ignore"):  # beyond the range of a float
        for stop in stops.tolist():
            for end in sorted({*(kink for kink in kinks if now < kink < stop), stop}):
                held = _moved(course, weight, held, now, end)
                now = end
            share = average.returned(stop, course.num_steps)
            shown = held.state @ output
            returned = share.total * held.total if share.iterate == 0 else share.iterate * shown
            if share.iterate and share.total:
                returned = returned + share.total * held.total
            found.append((shown, returned))
    return Responses(*(np.array(each) for each in zip(*found, strict=True)))


def _moved(course: Course, weight: np.ndarray, held: Held, low: float, high: float) -> Held:
    """After the steps low … high − 1, none of which is a kink but the first."""
    if high <= low:
        return held
    if _alike(course, low, high):
        one = course.matrices(np.array([low]))
        if held.state.shape[1] == 1 and _keeping(course, low) == (1.0, 1.0):
            return _plain(one, weight, held, high - low)
        return _powered(course, one, weight, held, low, high - low)
    if high - low > MOST_STEPS:
        raise ValueError(
            f"algorithm must have constant steps, or stages of them, for a finite sample: {high - low:.3g} steps would "
            f"have to be taken one by one (at most {MOST_STEPS:g}); take fewer samples or a staged schedule"
        )
    return (_by_product if held.state.shape[1] == 1 else _by_steps)(course, weight, held, low, high)


def _alike(course: Course, low: float, high: float) -> bool:
    """Whether all these steps have the same coefficients."""
    algorithm = course.algorithm
    if algorithm.method.step_dependence != "none":
        return False
    if algorithm.schedule.flat:
        return True
    return algorithm.schedule.smooth and np.ptp(course.rates(np.floor(np.linspace(low, high - 1, PROBES)))) == 0


def _keeping(course: Course, low: float) -> tuple[float, float]:
    """ρ and ω of the average's sum."""
    if low < course.first_averaged:
        return 1.0, 0.0
    average = course.algorithm.average
    return 1 - average.forgetting(course.num_steps), average.weight(course.num_steps)


def _plain(one: StepMatrices, weight: np.ndarray, held: Held, steps: float) -> Held:
    """Of one vector and a plain sum: `q^m` and `(1 − q^m)/(1 − q)`, to all digits."""
    pull = one.b[0, 0] * one.c[0, 0] * weight + one.decay[0, 0, 0]
    fallen = np.where(pull >= 0, one_minus_power(np.maximum(pull, 0.0), steps), 1 - (1 - pull) ** steps)
    summed = np.where(pull == 0, steps, fallen / np.where(pull == 0, 1.0, pull))
    state = held.state[:, 0]
    return Held((state * (1 - fallen))[:, None], held.total + summed * state)


def _augmented(course: Course, one: StepMatrices, weight: np.ndarray, low: float) -> np.ndarray:
    """(J, k + 1, k + 1) a step of the state and the sum together."""
    k = one.b.shape[1]
    rho, omega = _keeping(course, low)
    found = np.zeros((weight.size, k + 1, k + 1))
    found[:, :k, :k] = np.eye(k) - one.decay[0] - weight[:, None, None] * np.outer(one.b[0], one.c[0])
    found[:, k, :k] = omega * np.asarray(course.algorithm.method.output, dtype=float)
    found[:, k, k] = rho
    return found


def _powered(course: Course, one: StepMatrices, weight: np.ndarray, held: Held, low: float, steps: float) -> Held:
    """By squaring."""
    square = _augmented(course, one, weight, low)
    values = np.concatenate([held.state, held.total[:, None]], axis=1)[..., None]
    left = int(steps)
    while left:
        if left & 1:
            values = square @ values
        left >>= 1
        if left:
            square = square @ square
    return Held(values[:, :-1, 0], values[:, -1, 0])


def _by_product(course: Course, weight: np.ndarray, held: Held, low: float, high: float) -> Held:
    """Of one vector: products of `1 − decay − γ_t λ`, many steps at once."""
    rho, omega = _keeping(course, low)
    output = float(course.algorithm.method.output[0])
    state, total = held.state[:, 0], held.total
    at_once = max(NUMBERS_AT_ONCE // weight.size, 1)
    for first in np.arange(low, high, at_once):
        steps = np.arange(first, min(first + at_once, high))
        here = course.matrices(steps)
        left = 1 - here.decay[:, :, 0] - (here.b * here.c) * weight
        if omega == 0:
            state = state * np.prod(left, axis=0)
            total = rho**steps.size * total
            continue
        after = state * np.cumprod(left, axis=0)
        before = np.concatenate([state[None], after[:-1]])
        total = rho**steps.size * total + omega * output * (rho ** np.arange(steps.size)[::-1]) @ before
        state = after[-1]
    return Held(state[:, None], total)


def _by_steps(course: Course, weight: np.ndarray, held: Held, low: float, high: float) -> Held:
    """One by one."""
    rho, omega = _keeping(course, low)
    output = np.asarray(course.algorithm.method.output, dtype=float)
    state, total = held
    at_once = 4096
    for first in np.arange(low, high, at_once):
        here = course.matrices(np.arange(first, min(first + at_once, high)))
        for decay, b, c in zip(*here, strict=True):
            if omega:
                total = rho * total + omega * (state @ output)
            state = state - state @ decay.T - (weight * (state @ c))[:, None] * b
    return Held(state, total)
