"""Every step of SGD with delayed gradients: k numbers of a direction a step instead of k² (THEORY.md T41).

With `C_l(t) = λ E[η_t η_{t−l}]`, l = 0 … τ, and a delay j that has the probability p_j,

    C_l(t+1) = C_{l−1}(t) − x Σ_j p_j λ E[η_{t−j} η_{t+1−l}],    l ≥ 1,
    C_0(t+1) = C_0(t) − 2x Σ_j p_j C_j(t) + x² Σ_j p_j C_0(t−j) + (x²/B) Σ_j p_j [C_0(t−j) + P(t−j) + σ²],

where all products on the right are known from the last τ + 1 steps, and P(t) is the sum of C_0(t) over directions. The
mean over delays is that of products: it includes the variance of `η_{t−j}` over j, which a mean delay does not have. An
average adds `X_l = λ E[η_{t−l} S_t]`, as in T20.
"""

from collections.abc import Iterator, Sequence
from functools import lru_cache
from typing import Any, NamedTuple

import numpy as np

from sgdtheory._common.compiled import compiled_loop
from sgdtheory.algorithms import Course
from sgdtheory.problems import Modes
from sgdtheory.risk.solvers.steps import STEPS_AT_ONCE
from sgdtheory.risk.systems.moments import Ends
from sgdtheory.risk.thresholds import THRESHOLDS

# Laws with more delays are stepped in NumPy: the compiled loop is unrolled over the delays, and its compilation takes
# longer than the steps.
MOST_COMPILED = 16

LABEL_NOISE = np.array([0.0, 1.0])[:, None, None]  # Bias and variance have these σ².

Law = tuple[tuple[int, float], ...]  # The delays that occur and their probabilities.


class History(NamedTuple):
    """Moments of S runs over the last k = τ + 1 steps, with bias and variance side by side.

    Attributes:
        products: (k, k, 2, S, K) C_l(t), by t modulo k and l.
        cross: (k, 2, S, K) X_l.
        square: (2, S, K) λ E S².
    """

    products: Any
    cross: Any
    square: Any

    @classmethod
    def at_start(cls, num_vectors: int, modes: Modes, settings: int) -> "History":
        """Return the history at w_0, where all earlier iterates are w_0 as well."""
        shape = num_vectors, 2, settings, modes.eigenvalue.size
        products = np.zeros((num_vectors, *shape))
        products[:, :, 0] = modes.signal
        return cls(products, np.zeros(shape), np.zeros(shape[1:]))

    def newest(self, now: Any) -> Any:
        """Return C_l(now) for all l, (k, 2, S, K)."""
        return self.products[now % len(self.products)]

    def ends(self, now: int) -> Ends:
        """Return λ E w², λ E wS and λ E S² of the modes, (2, S, K)."""
        no_size = np.zeros((*self.square.shape[:2], 3, 1))
        return Ends(self.newest(now)[0], self.cross[0], self.square, no_size)


class Step(NamedTuple):
    """Learning rate and batch size of a step, and ρ and ω of the average, (S,) each; tables have T in front."""

    rate: Any
    batch: Any
    kept: Any
    weight: Any


class Drive(NamedTuple):
    """Sources of noise: K eigenvalues and multiplicities, and the label noise.

    With `label_noise` None the two parts are bias and variance at σ² = 1, each driven by its own risk. With a number σ²
    they are mean path and scatter: the scatter is driven by label noise and by the risk of the mean path alone.
    """

    eigenvalue: Any
    multiplicity: Any
    label_noise: Any

    def noise(self, delayed: Any, xp: Any) -> Any:
        """Return B/x² times the second moment that noise adds, (2, S, K), from the r_i where gradients are taken."""
        risk = delayed.sum(-1, keepdims=True)
        if self.label_noise is None:
            return delayed + self.multiplicity * (risk + LABEL_NOISE)
        return xp.stack([0 * delayed[0], self.multiplicity * (risk[0] + self.label_noise)])


def next_moments(
    history: History, now: Any, step: Step, drive: Drive, law: Law, averaged: bool, xp: Any = np
) -> History:
    """Return the moments after step `now`: new products (k, 2, S, K) in the place of the ring, X and S².

    Args:
        history: of the last k steps.
        now: the number of the step.
        step: what it does.
        drive: of the noise.
        law: of the delays.
        averaged: whether an average is kept.
        xp: numpy or jax.numpy.
    """
    products, cross, square = history
    k = len(products)
    newest = history.newest(now)
    x = step.rate[:, None] * drive.eigenvalue
    if averaged:  # S takes the iterate before it moves
        rho, omega = step.kept[:, None], step.weight[:, None]
        square = rho**2 * square + 2 * rho * omega * cross[0] + omega**2 * newest[0]
        joined = rho * cross + omega * newest
        pull = sum(share * joined[j] for j, share in law)
        cross = xp.concatenate([(joined[0] - x * pull)[None], joined[:-1]])
    delayed: Any = sum(share * products[(now - j) % k, 0] for j, share in law)
    own = newest[0] - 2 * x * sum(share * newest[j] for j, share in law)
    own = own + x**2 * (delayed + drive.noise(delayed, xp) / step.batch[:, None])
    others = newest[:-1]
    lags = xp.arange(1, k)
    for j, share in law:
        # The younger of η_{t−j} and η_{t+1−l} holds their product.
        younger = xp.maximum(now - j, now + 1 - lags) % k
        others = others - share * x * products[younger, xp.abs(lags - 1 - j)]
    return History(xp.concatenate([own[None], others]), cross, square)


def sums_at_stops(courses: Sequence[Course], modes: Modes, stops: Sequence[float]) -> list[Ends]:
    """Return sums of S runs after increasing numbers of steps; shorter runs go on with their last γ and B."""
    return [Ends(*(values.sum(-1) for values in each)) for each in _along(courses, modes, stops)]


def last_of_modes(course: Course, modes: Modes) -> np.ndarray:
    """Return λ E w² of the modes at the end, (2, K): bias and variance at σ² = 1."""
    return next(iter(_along([course], modes, [course.num_steps]))).iterate[:, 0]


def mean_and_scatter(course: Course, modes: Modes, noise_variance: float) -> Ends:
    """Return λ times the squares of the mean path at the end, (2, 1, K) first, and a variance that is a little small.

    The variance is what label noise and the risk of the mean path add; the risk of the scatter itself is left out.
    """
    return next(iter(_along([course], modes, [course.num_steps], noise_variance)))


def _along(
    courses: Sequence[Course], modes: Modes, stops: Sequence[float], label_noise: float | None = None
) -> Iterator[Ends]:
    """Yield the moments of the modes at the stops."""
    method = courses[0].algorithm.method
    average = courses[0].algorithm.average
    law = tuple((j, share) for j, share in enumerate(method.delays) if share > 0)
    drive = Drive(modes.eigenvalue, modes.multiplicity, label_noise)
    history = History.at_start(len(method.delays), modes, len(courses))
    first = np.array([course.first_averaged for course in courses])
    kept = np.array([1 - average.forgetting(course.num_steps) for course in courses])
    weight = np.array([average.weight(course.num_steps) for course in courses])
    compiled = len(stops) > 0 and stops[-1] >= THRESHOLDS.compiled_from and len(law) <= MOST_COMPILED
    advance = _compiled if compiled else _in_numpy
    now = 0
    for stop in stops:
        while now < stop:
            if average.starts_at_iterate() and (begins := np.flatnonzero(first == now)).size:
                newest = history.newest(now)
                history.cross[:, :, begins] = newest[:, :, begins]
                history.square[:, begins] = newest[0][:, begins]
            end = int(min(now + STEPS_AT_ONCE, stop, *first[first > now]))
            averaging = first <= now
            table = _table(courses, np.arange(now, end))
            steps = Step(*table, np.where(averaging, kept, 1.0), np.where(averaging, weight, 0.0))
            history = advance(history, now, steps, drive, law, bool(averaging.any()))
            now = end
        yield history.ends(now)


def _in_numpy(history: History, now: int, steps: Step, drive: Drive, law: Law, averaged: bool) -> History:
    """Take the T steps of a table of γ and B, (T, S) each."""
    ring = history.products
    for number, (rate, batch) in enumerate(zip(steps.rate, steps.batch, strict=True), start=now):
        step = Step(rate, batch, steps.kept, steps.weight)
        newest, cross, square = next_moments(history, number, step, drive, law, averaged)
        ring[(number + 1) % len(ring)] = newest
        history = History(ring, cross, square)
    return history


def _compiled(history: History, now: int, steps: Step, drive: Drive, law: Law, averaged: bool) -> History:
    """Take the same steps in one compiled loop, whose table is filled up so that few shapes are compiled."""
    count = len(steps.rate)
    missing = [(0, STEPS_AT_ONCE - count), (0, 0)]
    rate, batch = (np.pad(each, missing, constant_values=1.0) for each in (steps.rate, steps.batch))
    loop = _loop(law)
    ended = loop(history, steps._replace(rate=rate, batch=batch), drive, now, count)
    return History(*(np.array(each) for each in ended))  # copies, into which averages may begin


@lru_cache
def _loop(law: Law) -> Any:
    """Return the compiled loop over steps with this law."""
    import jax
    import jax.numpy as jnp

    def run(begin: Any, steps: Any, drive: Any, start: Any, count: Any) -> Any:
        def one(index: Any, state: Any) -> Any:
            step = steps._replace(rate=steps.rate[index], batch=steps.batch[index])
            after = next_moments(state, start + index, step, drive, law, averaged=True, xp=jnp)
            ring = (start + index + 1) % len(state.products)
            return after._replace(products=state.products.at[ring].set(after.products))

        return jax.lax.fori_loop(0, count, one, begin)

    return compiled_loop(run)


def _table(courses: Sequence[Course], numbers: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Return γ and B of T steps of S runs, (T, S)."""
    each = [np.minimum(numbers, course.num_steps - 1) for course in courses]
    rates = [np.broadcast_to(course.rates(own), own.shape) for course, own in zip(courses, each, strict=True)]
    batches = [np.broadcast_to(course.batches(own), own.shape) for course, own in zip(courses, each, strict=True)]
    return np.array(rates, dtype=float).T, np.array(batches, dtype=float).T
