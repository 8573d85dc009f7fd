"""The mean path of a run, `E u_t = f_t(λ) u_0`, and its risk `Σ_i s_i (oᵀE u_i)²`, without the noise of gradients.

Searches ask for many learning rates at the end of a run (`mean_paths`, to some 1e-6), finite samples for many
eigenvalues along a run (`responses`, to all digits, THEORY.md T42). Equal steps are raised to a power; others are taken
one by one.
"""

import operator
from collections.abc import Iterator
from functools import reduce
from typing import Any, NamedTuple

import numpy as np

from sgdtheory.algorithms import Algorithm, Course, StepMatrices, steps_of_shape
from sgdtheory.risk.thresholds import THRESHOLDS

# Two eigenvalues of a step are taken to be at least this far apart, which changes mean paths by about 1e-6.
APART = 1e-9
# Coefficients of so many learning rates times steps are held at once.
COEFFICIENTS_AT_ONCE = 50_000
# If n times the difference of ρ and μ is smaller, the two are the same.
SAME = 1e-7


def mean_risk(
    algorithm: Algorithm, eigenvalue: np.ndarray, signal: np.ndarray, rate: np.ndarray, num_steps: float
) -> np.ndarray:
    """Return (G,) `Σ_i s_i f_i(γ)²` for G learning rates, of directions (L,), after n steps; to some 1e-6."""
    with np.errstate(all="ignore"):  # beyond the edge
        return mean_paths(algorithm, eigenvalue, rate, num_steps) ** 2 @ signal


def mean_paths(algorithm: Algorithm, eigenvalue: np.ndarray, rate: np.ndarray, num_steps: float) -> np.ndarray:
    """Return (G, L) `f_i(γ)`, the mean error of what n steps return in direction i over that of w_0; to some 1e-6.

    Args:
        algorithm: what is run.
        eigenvalue: (L,) of the directions.
        rate: (G,) peaks γ.
        num_steps: n.
    """
    closed = algorithm.constant and len(algorithm.method.start) <= 2
    repeats = algorithm.steady and algorithm.method.period > 1
    way = _in_closed_form if closed else _late if algorithm.method.late else _by_rounds if repeats else _by_steps
    with np.errstate(all="ignore"):  # beyond the edge
        return way(algorithm, eigenvalue, rate, num_steps)


def _in_closed_form(algorithm: Algorithm, eigenvalue: np.ndarray, rate: np.ndarray, num_steps: float) -> np.ndarray:
    """Return (G, L) `a oᵀE u_n + c E S_n`, of steps that are all alike, from the eigenvalues μ of `A − λ b cᵀ`.

    `oᵀE u_t = Σ p_j μ_j^t`, and of each the sum is `μ^f (ρ^m − μ^m)/(ρ − μ)` after m = n − f steps of the average.
    """
    method = algorithm.method
    average = algorithm.average
    here = method.matrices(rate * float(algorithm.schedule.factors(np.zeros(1), 1)[0]), np.zeros(rate.size))
    k = len(method.start)
    output = np.asarray(method.output, float)
    begin = np.asarray(method.start, float)
    step = np.eye(k) - here.decay[:, None] - np.einsum("l,gi,gj->glij", eigenvalue, here.b, here.c)
    first = output @ begin
    second = np.einsum("i,glij,j->gl", output, step, begin)
    trace = np.trace(step, axis1=2, axis2=3)
    if k == 1:
        shares = [(np.full_like(trace, first), trace)]
    else:
        determinant = step[..., 0, 0] * step[..., 1, 1] - step[..., 0, 1] * step[..., 1, 0]
        root: Any = np.sqrt((trace**2 / 4 - determinant).astype(complex))
        root = np.where(np.abs(root) < APART, APART, root)
        shares = [
            ((second - first * (trace / 2 - sign * root)) / (2 * sign * root), trace / 2 + sign * root)
            for sign in (1, -1)
        ]
    begun = min(average.first(num_steps), num_steps)
    long = num_steps - begun
    kept = 1 - average.forgetting(num_steps)
    returned = average.returned(num_steps, num_steps)
    result: Any = 0.0
    for share, mu in shares:
        apart = kept - mu
        same = np.abs(apart) * long < SAME
        geometric = (kept**long - _power(mu, long)) / np.where(same, 1.0, apart)
        held = average.weight(num_steps) * _power(mu, begun) * np.where(same, long * kept ** (long - 1), geometric)
        result = result + share * (returned.iterate * _power(mu, num_steps) + returned.total * held)
    if average.starts_at_iterate():
        result = result + returned.total * first * kept**num_steps
    return np.real(result)


def _power(values: np.ndarray, exponent: float) -> np.ndarray:
    """Return values^m for whole m by squaring: several times as fast for complex numbers as through logarithms."""
    left = int(exponent)
    square = values
    result = np.ones_like(values)
    while left:
        if left & 1:
            result = result * square
        square = square * square
        left = left >> 1
    return result


def _by_rounds(algorithm: Algorithm, eigenvalue: np.ndarray, rate: np.ndarray, num_steps: float) -> np.ndarray:
    """Return the same of steps that repeat every H: powers of the matrices of (u, S) of a step and of a round."""
    method = algorithm.method
    average = algorithm.average
    period = method.period
    k = len(method.start)
    output = np.asarray(method.output, float)
    begun = average.starts_at_iterate()
    state = np.append(np.asarray(method.start, float), output @ method.start if begun else 0.0)
    result = np.broadcast_to(state[:, None], (rate.size, eigenvalue.size, k + 1, 1))
    first = min(average.first(num_steps), num_steps)
    peak = rate * float(algorithm.schedule.factors(np.zeros(1), 1)[0])
    for low, high, counts in ((0.0, first, False), (first, num_steps, True)):
        each, last = (np.zeros((rate.size, eigenvalue.size, k + 1, k + 1)) for _ in range(2))
        for matrix, number in ((each, 0), (last, period - 1)):
            decay, b, c = method.matrices(peak, np.full(rate.size, float(number)))
            if b.ndim > 2:  # contrasts of workers are 0 in the mean
                b = b[..., 0]
                c = c[..., 0]
            matrix[..., :k, :k] = np.eye(k) - decay[:, None] - np.einsum("l,gi,gj->glij", eigenvalue, b, c)
            matrix[..., k, k] = 1 - average.forgetting(num_steps) if counts else 1.0
            matrix[..., k, :k] = average.weight(num_steps) * output if counts else 0.0
        whole = last @ np.linalg.matrix_power(each, period - 1)
        into = int(min(-low % period, high - low))  # steps of the round that is under way
        if into:
            ends = (low + into) % period == 0
            result = np.linalg.matrix_power(each, into - ends) @ result
            result = last @ result if ends else result
        rounds, left = divmod(int(high - low) - into, period)
        result = np.linalg.matrix_power(each, left) @ (np.linalg.matrix_power(whole, rounds) @ result)
    shares = average.returned(num_steps, num_steps)
    return shares.iterate * (output @ result[..., :k, 0, None])[..., 0] + shares.total * result[..., k, 0]


def _by_steps(algorithm: Algorithm, eigenvalue: np.ndarray, rate: np.ndarray, num_steps: float) -> np.ndarray:
    """Return the same, step by step."""
    method = algorithm.method
    average = algorithm.average
    first = average.first(num_steps)
    kept = 1 - average.forgetting(num_steps)
    weight = average.weight(num_steps)
    held: Any = 0.0
    shown: Any = 0.0
    for t, state in enumerate(_walk(algorithm, eigenvalue, rate, num_steps)):
        shown = _combined(method.output, state)
        if t == 0 and average.starts_at_iterate():
            held = shown
        if first <= t < num_steps:
            held = kept * held + weight * shown
    shares = average.returned(num_steps, num_steps)
    return (shares.iterate * shown + shares.total * held).T


def _walk(
    algorithm: Algorithm, eigenvalue: np.ndarray, rate: np.ndarray, num_steps: float
) -> Iterator[list[np.ndarray]]:
    """Return the k vectors, (L, G) each, at the start and after every step."""
    state: list[Any] = [np.full((eigenvalue.size, rate.size), float(each)) for each in algorithm.method.start]
    yield state
    together = max(1, COEFFICIENTS_AT_ONCE // rate.size)
    for begin in range(0, int(num_steps), together):
        steps = np.arange(begin, min(begin + together, num_steps))
        decay, b, c = _coefficients(algorithm, rate, steps, num_steps)
        for t in range(steps.size):
            pull = eigenvalue[:, None] * _combined(c, state, t)
            moved = [*state, pull]
            state = [old - _combined([*row, g], moved, t) for old, row, g in zip(state, decay, b, strict=True)]
            yield state


def mean_risks_along(
    algorithm: Algorithm, eigenvalue: np.ndarray, signal: np.ndarray, rate: np.ndarray, num_steps: float
) -> np.ndarray:
    """(n + 1, G) `mean_risk` after 0 … n steps, of a last iterate under a constant learning rate: one run has all."""
    with np.errstate(all="ignore"):  # beyond the edge
        walk = _walk(algorithm, eigenvalue, rate, num_steps)
        return np.array([signal @ _combined(algorithm.method.output, state) ** 2 for state in walk])


def _late(algorithm: Algorithm, eigenvalue: np.ndarray, rate: np.ndarray, num_steps: float) -> np.ndarray:
    """Return `_by_steps` of delayed gradients, with the last τ + 1 iterates in a ring."""
    average = algorithm.average
    law = [(j, share) for j, share in enumerate(algorithm.method.delays) if share > 0]
    k = algorithm.method.vectors
    past = np.ones((k, eigenvalue.size, rate.size))
    x = np.multiply.outer(eigenvalue, rate)
    factors = algorithm.schedule.factors(np.arange(num_steps), num_steps) * np.ones(int(num_steps))
    first = average.first(num_steps)
    kept = 1 - average.forgetting(num_steps)
    weight = average.weight(num_steps)
    held: Any = 1.0 if average.starts_at_iterate() else 0.0
    for t, factor in enumerate(factors.tolist()):
        newest = past[t % k]
        if t >= first:
            held = kept * held + weight * newest
        late = sum(share * past[(t - j) % k] for j, share in law)
        past[(t + 1) % k] = newest - factor * x * late
    shares = average.returned(num_steps, num_steps)
    return (shares.iterate * past[int(num_steps) % k] + shares.total * held).T


def _coefficients(algorithm: Algorithm, rate: np.ndarray, steps: np.ndarray, num_steps: float) -> tuple[Any, Any, Any]:
    """Return I − A, b and c of T steps, (k, k), (k,) and (k,) of (T, G) each; None stands for 0."""
    factors = algorithm.schedule.factors(steps, num_steps) * np.ones(steps.size)
    rates = np.multiply.outer(factors, rate)
    decay, b, c = algorithm.method.matrices(rates.ravel(), np.repeat(steps, rate.size))
    if b.ndim > 2:  # contrasts of workers are 0 in the mean
        b = b[..., 0]
        c = c[..., 0]

    def kept(values: np.ndarray) -> np.ndarray | None:
        return values.reshape(rates.shape) if values.any() else None

    rows = [[kept(entry) for entry in row] for row in np.moveaxis(decay, 0, -1)]
    return rows, [kept(entry) for entry in b.T], [kept(entry) for entry in c.T]


def _combined(weights: Any, vectors: list[Any], place: int | None = None) -> Any:
    """Return Σ_j weights_j vectors_j term by term, which is faster than products of small matrices."""
    pairs = zip(weights, vectors, strict=True)
    if place is None:
        terms = [weight * vector for weight, vector in pairs if weight]
    else:
        terms = [weight[place] * vector for weight, vector in pairs if weight is not None]
    return reduce(operator.add, terms) if terms else 0.0


# So many steps times eigenvalues are multiplied at once.
NUMBERS_AT_ONCE = 200_000
# At so many steps of a segment it is asked whether all of its learning rates are equal.
PROBES = 5


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
        ValueError: more than `THRESHOLDS.most_steps` have to be taken one by one.
    """
    single, indices = np.unique(weight, return_inverse=True)
    if single.size < weight.size:  # of what is there twice
        return Responses(*(each[:, indices] for each in responses(course, single, stops)))
    method = course.algorithm.method
    average = course.algorithm.average
    output = np.asarray(method.output, dtype=float)
    held = Held(np.tile(np.asarray(method.start, dtype=float), (weight.size, 1)), np.zeros(weight.size))
    if average.starts_at_iterate():
        held = held._replace(total=held.state @ output)
    result = []
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
            result.append((shown, returned))
    return Responses(*(np.array(each) for each in zip(*result, strict=True)))


def _moved(course: Course, weight: np.ndarray, held: Held, low: float, high: float) -> Held:
    """Return the state after the steps low … high − 1, none of which is a kink but the first."""
    if high <= low:
        return held
    if _alike(course, low, high):
        one = course.matrices(np.array([low]))
        if held.state.shape[1] == 1 and _keeping(course, low) == (1.0, 1.0):
            return _plain(one, weight, held, high - low)
        return _powered(course, one, weight, held, low, high - low)
    if high - low > THRESHOLDS.most_steps:
        raise ValueError(
            f"algorithm must have constant steps, or stages of them, for a finite sample: {high - low:.3g} steps would "
            f"have to be taken one by one (at most {THRESHOLDS.most_steps:g}); take fewer samples or a staged schedule"
        )
    return (_by_product if held.state.shape[1] == 1 else _one_by_one)(course, weight, held, low, high)


def _alike(course: Course, low: float, high: float) -> bool:
    """Return whether all these steps have the same coefficients."""
    algorithm = course.algorithm
    if algorithm.method.step_dependence != "none":
        return False
    if algorithm.schedule.flat:
        return True
    return algorithm.schedule.smooth and np.ptp(course.rates(np.floor(np.linspace(low, high - 1, PROBES)))) == 0


def _keeping(course: Course, low: float) -> tuple[float, float]:
    """Return ρ and ω of the average's sum at a step."""
    if low < course.first_averaged:
        return 1.0, 0.0
    average = course.algorithm.average
    return 1 - average.forgetting(course.num_steps), average.weight(course.num_steps)


def _plain(one: StepMatrices, weight: np.ndarray, held: Held, steps: float) -> Held:
    """Propagate one vector and a plain sum: `q^m` and `(1 − q^m)/(1 − q)`, to all digits."""
    pull = one.b[0, 0] * one.c[0, 0] * weight + one.decay[0, 0, 0]
    fallen = np.where(pull >= 0, one_minus_power(np.maximum(pull, 0.0), steps), 1 - (1 - pull) ** steps)
    summed = np.where(pull == 0, steps, fallen / np.where(pull == 0, 1.0, pull))
    state = held.state[:, 0]
    return Held((state * (1 - fallen))[:, None], held.total + summed * state)


def _augmented(course: Course, one: StepMatrices, weight: np.ndarray, low: float) -> np.ndarray:
    """Return (J, k + 1, k + 1) a step of the state and the sum together."""
    k = one.b.shape[1]
    rho, omega = _keeping(course, low)
    result = np.zeros((weight.size, k + 1, k + 1))
    result[:, :k, :k] = np.eye(k) - one.decay[0] - weight[:, None, None] * np.outer(one.b[0], one.c[0])
    result[:, k, :k] = omega * np.asarray(course.algorithm.method.output, dtype=float)
    result[:, k, k] = rho
    return result


def _powered(course: Course, one: StepMatrices, weight: np.ndarray, held: Held, low: float, steps: float) -> Held:
    """Propagate steps that are all alike by repeated squaring of their matrix."""
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
    """Propagate one vector by products of `1 − decay − γ_t λ`, many steps at once."""
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


def _one_by_one(course: Course, weight: np.ndarray, held: Held, low: float, high: float) -> Held:
    """Propagate steps one by one."""
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


def one_minus_power(x: np.ndarray, m: Any) -> np.ndarray:
    """Return 1 − (1 − x)^m for x ≥ 0 and whole m ≥ 0 to full relative accuracy, elementwise."""
    small = x < 0.5
    log_q = np.where(small, np.log1p(-np.where(small, x, 0.0)), np.log(np.abs(x - 1)))
    log_power = np.where(m > 0, m * log_q, 0.0)
    odd_negative = (x > 1) & (m % 2 == 1)
    return np.where(odd_negative, 1 + np.exp(log_power), -np.expm1(log_power))
