"""The mean path of a run, `E u_t = f_t(λ) u_0`, and its risk `Σ_i s_i (oᵀE u_i)²`, without the noise of gradients.

Searches ask for many learning rates at the end of a run (`mean_paths`, to some 1e-6), finite samples for many
eigenvalues along a run (`responses`, to all digits, THEORY.md T42). Between kinks equal steps, and equal rounds of
steps, are raised to a power; others are taken one by one.
"""

import operator
from collections.abc import Iterator
from dataclasses import dataclass
from functools import reduce
from itertools import pairwise
from typing import Any, NamedTuple

import numpy as np

from sgdtheory.algorithms import Algorithm, Course, StepMatrices, steps_of_shape
from sgdtheory.risk.thresholds import THRESHOLDS

# Two eigenvalues of a step are taken to be at least this far apart, which changes mean paths by about 1e-6.
APART = 1e-9
COEFFICIENTS_AT_ONCE = 50_000  # The coefficients of at most this many learning rates times steps are in memory at once.
NUMBERS_AT_ONCE = 200_000  # A product of steps has at most this many numbers in memory at once.
PROBES = 5  # A segment's learning rates are checked at this many steps for being all equal.
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
    with np.errstate(all="ignore"):  # beyond the edge
        if algorithm.constant and len(algorithm.method.start) <= 2:
            return _in_closed_form(algorithm, eigenvalue, rate, num_steps)
        return MeanPaths.of(algorithm, eigenvalue, rate, num_steps).at([num_steps]).average[0].T


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
    still = np.eye(k) - here.decay
    first = output @ begin
    second = (still @ begin @ output)[:, None] - np.multiply.outer((here.b @ output) * (here.c @ begin), eigenvalue)
    trace = still.trace(axis1=1, axis2=2)[:, None] - np.multiply.outer((here.b * here.c).sum(1), eigenvalue)
    if k == 1:
        shares = [(np.full_like(trace, first), trace)]
    else:
        adjugate = still[:, ::-1, ::-1].swapaxes(1, 2) * [[1, -1], [-1, 1]]
        pull = np.einsum("gi,gij,gj->g", here.c, adjugate, here.b)
        determinant = np.linalg.det(still)[:, None] - np.multiply.outer(pull, eigenvalue)
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
        if returned.iterate:
            result = result + share * returned.iterate * _power(mu, num_steps)
        if not returned.total:
            continue
        apart = kept - mu
        same = np.abs(apart) * long < SAME
        geometric = (kept**long - _power(mu, long)) / np.where(same, 1.0, apart)
        held = average.weight(num_steps) * _power(mu, begun) * np.where(same, long * kept ** (long - 1), geometric)
        result = result + share * returned.total * held
    if average.starts_at_iterate():
        result = result + returned.total * first * kept**num_steps
    return np.real(result)


class Responses(NamedTuple):
    """After K numbers of steps, (K, J) each: of the iterate, and of what the average returns."""

    iterate: np.ndarray
    average: np.ndarray


def responses(course: Course, weight: np.ndarray, stops: np.ndarray) -> Responses:
    """f(w) of J eigenvalues after K increasing numbers of steps; not finite where a run leaves the range of a float.

    Raises:
        ValueError: more than `THRESHOLDS.most_steps` have to be taken one by one.
    """
    single, indices = np.unique(weight, return_inverse=True)  # some are there twice
    paths = MeanPaths(course, single, np.array([course.rate]), THRESHOLDS.most_steps)
    with np.errstate(all="ignore"):  # beyond the range of a float
        return Responses(*(each[:, indices, 0] for each in paths.at(stops.tolist())))


def mean_risks_along(
    algorithm: Algorithm, eigenvalue: np.ndarray, signal: np.ndarray, rate: np.ndarray, num_steps: float
) -> np.ndarray:
    """(n + 1, G) `mean_risk` after 0 … n steps, where neither γ_t nor the average depends on n: one run has all.

    Before the first step it is that of w_0, also where an average of no iterates is not a number.
    """
    paths = MeanPaths.of(algorithm, eigenvalue, rate, num_steps)
    held = paths.start()
    with np.errstate(all="ignore"):  # beyond the edge
        risks = [signal @ paths.shown(held.state) ** 2]
        for low, high in pairwise((0.0, float(paths.course.first_averaged), num_steps)):
            for number, after in enumerate(paths.walk(held, low, high), int(low) + 1):
                held = after
                risks.append(signal @ paths.returned(held, number)[1] ** 2)
        return np.array(risks)


class Held(NamedTuple):
    """The k vectors in units of w_0 − w*, and the average's sum, (L, G) each."""

    state: list[Any]
    total: Any


@dataclass(frozen=True, eq=False)
class MeanPaths:
    """Mean paths of L directions with G learning rates each.

    Attributes:
        course: a run; its learning rate does not matter.
        eigenvalue: (L,).
        rate: (G,) peaks γ.
        most_steps: more steps are not taken one by one.
    """

    course: Course
    eigenvalue: np.ndarray
    rate: np.ndarray
    most_steps: float = np.inf

    @classmethod
    def of(cls, algorithm: Algorithm, eigenvalue: np.ndarray, rate: np.ndarray, num_steps: float) -> "MeanPaths":
        """Return the paths of runs of n steps, whatever their batch size."""
        return cls(Course(algorithm, 1.0, 1.0, num_steps), eigenvalue, rate)

    def at(self, stops: list[float]) -> Responses:
        """Return f after K increasing numbers of steps, (K, L, G) each."""
        kinks = {self.course.first_averaged, *steps_of_shape(self.course.algorithm.schedule, self.course.num_steps)}
        held = self.start()
        now = 0.0
        result = []
        for stop in stops:
            for end in sorted({*(kink for kink in kinks if now < kink < stop), stop} - {now}):
                held = self.moved(held, now, end)
                now = end
            result.append(self.returned(held, stop))
        return Responses(*(np.array(each) for each in zip(*result, strict=True)))

    def returned(self, held: Held, step: float) -> tuple[Any, Any]:
        """Return the iterate after some steps, and what the average returns."""
        share = self.course.algorithm.average.returned(step, self.course.num_steps)
        shown = self.shown(held.state)
        # What is not returned may have left the range of a float.
        result = share.total * held.total if share.iterate == 0 else share.iterate * shown
        if share.iterate and share.total:
            result = result + share.total * held.total
        return shown, result

    def start(self) -> Held:
        """Return w_0, and an empty sum or one that begins with it."""
        nothing = np.zeros((self.eigenvalue.size, self.rate.size))
        state = [nothing + float(each) for each in self.course.algorithm.method.start]
        return Held(state, self.shown(state) if self.course.algorithm.average.starts_at_iterate() else nothing)

    def shown(self, state: list[Any]) -> Any:
        """Return the iterate."""
        return _combined(self.course.algorithm.method.output, state)

    def moved(self, held: Held, low: float, high: float) -> Held:
        """Return the state after the steps low … high − 1, none of which is a kink but the first."""
        method = self.course.algorithm.method
        if self._alike(low, high):
            if len(held.state) == 1 and self._keeping(low) == (1.0, 1.0):
                return self._summed(held, low, high - low)
            return self._powered(held, low, high)
        if high - low > self.most_steps:
            raise ValueError(
                f"algorithm must have constant steps, or stages of them, for a finite sample: {high - low:.3g} steps "
                f"would have to be taken one by one (at most {self.most_steps:g}); take fewer samples or a staged "
                "schedule"
            )
        return (self._by_product if len(method.start) == 1 else self.by_steps)(held, low, high)

    def _alike(self, low: float, high: float) -> bool:
        """Return whether all these steps, or rounds of steps, have the same coefficients."""
        algorithm = self.course.algorithm
        if algorithm.method.step_dependence not in ("none", "period") or algorithm.method.late:
            return False
        if algorithm.schedule.flat:
            return True
        return algorithm.schedule.smooth and np.ptp(self._factors(np.linspace(low, high - 1, PROBES))) == 0

    def _factors(self, steps: np.ndarray) -> np.ndarray:
        """Return (T,) γ_t over its peak."""
        return self.course.algorithm.schedule.factors(np.floor(steps), self.course.num_steps) * np.ones(steps.size)

    def _keeping(self, low: float) -> tuple[float, float]:
        """Return ρ and ω of the average's sum at a step."""
        if low < self.course.first_averaged:
            return 1.0, 0.0
        average = self.course.algorithm.average
        return 1 - average.forgetting(self.course.num_steps), average.weight(self.course.num_steps)

    def _matrices(self, factors: np.ndarray, steps: np.ndarray) -> StepMatrices:
        """Return I − A, b and c of T steps with all learning rates, (T G, …)."""
        rates = np.multiply.outer(factors, self.rate)
        decay, b, c = self.course.algorithm.method.matrices(rates.ravel(), np.repeat(steps, self.rate.size))
        # Contrasts of workers are 0 in the mean.
        return StepMatrices(decay, *((b, c) if b.ndim == 2 else (b[..., 0], c[..., 0])))

    def _summed(self, held: Held, low: float, steps: float) -> Held:
        """Propagate one vector and a plain sum: `q^m` and `(1 − q^m)/(1 − q)`, to all digits."""
        decay, b, c = self._matrices(self._factors(np.array([low])), np.array([low]))
        pull = self.eigenvalue[:, None] * b[:, 0] * c[:, 0] + decay[:, 0, 0]
        fallen = np.where(pull >= 0, one_minus_power(np.maximum(pull, 0.0), steps), 1 - (1 - pull) ** steps)
        summed = np.where(pull == 0, steps, fallen / np.where(pull == 0, 1.0, pull))
        (state,) = held.state
        return Held([state * (1 - fallen)], held.total + summed * state)

    def _powered(self, held: Held, low: float, high: float) -> Held:
        """Propagate steps or rounds that are all alike by repeated squaring of the matrix of (u, S)."""
        period = self.course.algorithm.method.period
        each = self._augmented(low, 0)
        last = each if period == 1 else self._augmented(low, period - 1)
        values = np.stack([*held.state, held.total], axis=-1)[..., None]
        into = int(min(-low % period, high - low))  # steps of the round that is under way
        if into:
            ends = (low + into) % period == 0
            values = _power(each, into - ends, values)
            values = last @ values if ends else values
        rounds, left = divmod(int(high - low) - into, period)
        whole = last @ np.linalg.matrix_power(each, period - 1)
        values = _power(each, left, _power(whole, rounds, values))[..., 0]
        return Held([values[..., i] for i in range(len(held.state))], values[..., -1])

    def _augmented(self, low: float, number: int) -> np.ndarray:
        """Return (L, G, k + 1, k + 1) a step of the state and the sum together, by its number in a round."""
        decay, b, c = self._matrices(self._factors(np.array([low])), np.array([float(number)]))
        k = b.shape[1]
        result = np.zeros((self.eigenvalue.size, self.rate.size, k + 1, k + 1))
        result[..., :k, :k] = np.eye(k) - decay - np.einsum("l,gi,gj->lgij", self.eigenvalue, b, c)
        result[..., k, k], omega = self._keeping(low)
        result[..., k, :k] = omega * np.asarray(self.course.algorithm.method.output, dtype=float)
        return result

    def _by_product(self, held: Held, low: float, high: float) -> Held:
        """Propagate one vector by products of `1 − decay − γ_t λ`, many steps at once."""
        rho, omega = self._keeping(low)
        (state,) = held.state
        total = held.total
        at_once = max(NUMBERS_AT_ONCE // state.size, 1)
        for first in np.arange(low, high, at_once):
            steps = np.arange(first, min(first + at_once, high))
            decay, b, c = (each.reshape(steps.size, 1, -1) for each in self._matrices(self._factors(steps), steps))
            left = 1 - decay - b * c * self.eigenvalue[:, None]  # (T, L, G)
            total = rho**steps.size * total
            if omega == 0:
                state = state * np.prod(left, axis=0)
                continue
            after = state * np.cumprod(left, axis=0)
            before = self.shown([np.concatenate([state[None], after[:-1]])])
            total = total + omega * np.tensordot(rho ** np.arange(steps.size)[::-1], before, 1)
            state = after[-1]
        return Held([state], total)

    def by_steps(self, held: Held, low: float, high: float) -> Held:
        """Propagate steps one by one."""
        for after in self.walk(held, low, high):
            held = after
        return held

    def walk(self, held: Held, low: float, high: float) -> Iterator[Held]:
        """Yield the k vectors and the average's sum, (L, G) each, after every step."""
        rho, omega = self._keeping(low)
        state, total = held
        for after in self._states(state, low, high):
            if omega:
                total = rho * total + omega * self.shown(state)
            state = after
            yield Held(state, total)

    def _states(self, state: list[Any], low: float, high: float) -> Iterator[list[Any]]:
        """Yield the k vectors after every step."""
        method = self.course.algorithm.method
        together = max(1, COEFFICIENTS_AT_ONCE // self.rate.size)
        for begin in np.arange(low, high, together):
            steps = np.arange(begin, min(begin + together, high))
            factors = self._factors(steps)
            if method.late:  # the vectors are the last iterates, the newest first, which move on as they are
                for factor in factors.tolist():
                    pull = _combined(method.delays, state)
                    state = [state[0] - factor * self.eigenvalue[:, None] * self.rate * pull, *state[:-1]]
                    yield state
                continue
            decay, b, c = self._nonzero(factors, steps)
            for t in range(steps.size):
                moved = [*state, self.eigenvalue[:, None] * _combined(c, state, t)]
                state = [old - _combined([*row, g], moved, t) for old, row, g in zip(state, decay, b, strict=True)]
                yield state

    def _nonzero(self, factors: np.ndarray, steps: np.ndarray) -> tuple[Any, Any, Any]:
        """Return I − A, b and c of T steps, (k, k), (k,) and (k,) of (T, G) each; None stands for 0."""
        decay, b, c = self._matrices(factors, steps)

        def kept(values: np.ndarray) -> np.ndarray | None:
            return values.reshape(steps.size, -1) if values.any() else None

        rows = [[kept(entry) for entry in row] for row in np.moveaxis(decay, 0, -1)]
        return rows, [kept(entry) for entry in b.T], [kept(entry) for entry in c.T]


def _power(square: np.ndarray, exponent: float, values: Any = 1.0) -> Any:
    """Return matrices^m times vectors (…, k, 1), or numbers^m, for whole m ≥ 0, by squaring.

    For complex numbers that is several times as fast as logarithms.
    """
    times = np.multiply if np.isscalar(values) else np.matmul
    left = int(exponent)
    while left:
        if left & 1:
            values = times(square, values)
        left >>= 1
        if left:
            square = times(square, square)
    return values


def _combined(weights: Any, vectors: list[Any], place: int | None = None) -> Any:
    """Return Σ_j weights_j vectors_j term by term, which is faster than products of small matrices."""
    pairs = zip(weights, vectors, strict=True)
    if place is None:
        terms = [weight * vector for weight, vector in pairs if weight]
    else:
        terms = [weight[place] * vector for weight, vector in pairs if weight is not None]
    return reduce(operator.add, terms) if terms else 0.0


def one_minus_power(x: np.ndarray, m: Any) -> np.ndarray:
    """Return 1 − (1 − x)^m for x ≥ 0 and whole m ≥ 0 to full relative accuracy, elementwise."""
    small = x < 0.5
    log_q = np.where(small, np.log1p(-np.where(small, x, 0.0)), np.log(np.abs(x - 1)))
    log_power = np.where(m > 0, m * log_q, 0.0)
    odd_negative = (x > 1) & (m % 2 == 1)
    return np.where(odd_negative, 1 + np.exp(log_power), -np.expm1(log_power))
