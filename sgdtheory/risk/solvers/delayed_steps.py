"""Every step of SGD with delayed gradients, from what there was: k numbers of a direction a step, not k² (THEORY.md T41).

With `C_l(t) = λ E[η_t η_{t−l}]`, l = 0 … τ, and a delay j that has the probability p_j,

    C_l(t+1) = C_{l−1}(t) − x Σ_j p_j λ E[η_{t−j} η_{t+1−l}],    l ≥ 1,
    C_0(t+1) = C_0(t) − 2x Σ_j p_j C_j(t) + x² Σ_j p_j C_0(t−j) + (x²/B) Σ_j p_j [C_0(t−j) + P(t−j) + σ²],

where all products on the right are known from the last τ + 1 steps: P(t) is the sum of C_0(t) over directions. The mean
over delays is that of products: it has the variance of `η_{t−j}` over j, which no mean delay has. Beside it, for
an average, `X_l = λ E[η_{t−l} S_t]` as in T20.
"""

from collections.abc import Iterator, Sequence
from functools import lru_cache
from typing import Any

import numpy as np

from sgdtheory.algorithms import Course, LinearMethod
from sgdtheory.problems import Modes
from sgdtheory.risk.solvers.steps import compiled_loop
from sgdtheory.risk.systems.moments import Ends
from sgdtheory.risk.thresholds import THRESHOLDS

COEFFICIENTS_AT_ONCE = 4096  # steps
MOST_COMPILED = 16  # delays of a law


class _History:
    """The last τ + 1 steps of S runs, bias and variance side by side: products (k, k, 2, S, K) by step and lag."""

    def __init__(self, law: Sequence[float], modes: Modes, settings: int) -> None:
        k = len(law)
        self.delays = [(j, share) for j, share in enumerate(law) if share > 0]
        self.modes = modes
        self.products = np.zeros((k, k, 2, settings, modes.eigenvalue.size))
        self.products[:, :, 0] = modes.signal
        self.cross = np.zeros((k, 2, settings, modes.eigenvalue.size))
        self.square = np.zeros_like(self.cross[0])
        self.now = 0

    @property
    def _k(self) -> int:
        return len(self.products)

    def _newest(self) -> np.ndarray:
        return self.products[self.now % self._k]

    def begin_at_iterate(self, runs: np.ndarray) -> None:
        """S = w in these runs."""
        newest = self._newest()
        self.cross[:, :, runs] = newest[:, :, runs]
        self.square[:, runs] = newest[0][:, runs]

    def keep(self, kept: np.ndarray, weight: np.ndarray) -> None:
        """`S ← ρS + ωw`, with ρ and ω (S,): what is to join the cross moments, before the iterate moves."""
        newest = self._newest()
        kept = kept[:, None]
        weight = weight[:, None]
        self.square = kept**2 * self.square + 2 * kept * weight * self.cross[0] + weight**2 * newest[0]
        self.cross *= kept
        self.cross += weight * newest

    def step(self, rate: np.ndarray, batch: np.ndarray, averaged: bool) -> None:
        """One step of all runs, with γ and B (S,)."""
        x = rate[:, None] * self.modes.eigenvalue
        lags = np.arange(1, self._k)
        newest = self._newest()
        moved = np.empty_like(newest)
        moved[1:] = newest[:-1]
        own = newest[0].copy()
        late = 0.0
        for j, share in self.delays:
            # η_{t−j} beside η_{t+1−l}: the younger of them holds their product
            younger = np.maximum(self.now - j, self.now + 1 - lags) % self._k
            moved[1:] -= (share * x) * self.products[younger, np.abs(lags - 1 - j)]
            own -= (2 * share * x) * newest[j]
            late = late + share * self.products[(self.now - j) % self._k, 0]
        moved[0] = own + x**2 * (late + self._noise(np.asarray(late)) / batch[:, None])
        if averaged:
            pull = sum(share * self.cross[j] for j, share in self.delays)
            self.cross[1:], self.cross[0] = self.cross[:-1].copy(), self.cross[0] - x * pull
        self.now += 1
        self.products[self.now % self._k] = moved

    def _noise(self, late: np.ndarray) -> np.ndarray:
        """(2, S, K) B times what noise adds over x², from the r_i (2, S, K) where gradients are taken."""
        risk = late.sum(-1, keepdims=True) + np.array([0.0, 1.0])[:, None, None]
        return late + self.modes.multiplicity * risk

    def each(self) -> Ends:
        """λ E w², λ E wS and λ E S² of the modes, (2, S, K)."""
        return Ends(self._newest()[0], self.cross[0], self.square, np.zeros((*self.square.shape[:2], 3, 1)))


class _MeanAndScatter(_History):
    """In the place of bias and variance the mean path, and what label noise and the risk of the mean path add."""

    def __init__(self, law: Sequence[float], modes: Modes, settings: int, noise_variance: float) -> None:
        super().__init__(law, modes, settings)
        self.noise_variance = noise_variance

    def _noise(self, late: np.ndarray) -> np.ndarray:
        result = np.zeros_like(late)
        result[1] = self.modes.multiplicity * (late[0].sum(-1, keepdims=True) + self.noise_variance)
        return result


def sums_at_stops(courses: Sequence[Course], modes: Modes, stops: Sequence[float]) -> list[Ends]:
    """Sums of S runs after these numbers of steps, increasing; runs that are shorter go on, at their last γ and B."""
    method: LinearMethod = courses[0].algorithm.method
    history = _History(method.delays, modes, len(courses))
    return [Ends(*(values.sum(-1) for values in each)) for each in _walk(history, courses, stops)]


def last_of_modes(course: Course, modes: Modes) -> np.ndarray:
    """(2, K) λ E w² of the modes at the end, bias and variance at σ² = 1."""
    history = _History(course.algorithm.method.delays, modes, 1)
    return next(iter(_walk(history, [course], [course.num_steps]))).iterate[:, 0]


def mean_and_scatter(course: Course, modes: Modes, noise_variance: float) -> Ends:
    """λ times the squares of the mean path, (2, 1, K) first, and a variance that is a little small, at the end."""
    method: LinearMethod = course.algorithm.method
    history = _MeanAndScatter(method.delays, modes, 1, noise_variance)
    return next(iter(_walk(history, [course], [course.num_steps])))


def _walk(history: _History, courses: Sequence[Course], stops: Sequence[float]) -> Iterator[Ends]:
    """Moments of the modes at the stops."""
    first = np.array([course.first_averaged for course in courses])
    average = courses[0].algorithm.average
    kept = np.array([1 - average.forgetting(course.num_steps) for course in courses])
    weight = np.array([average.weight(course.num_steps) for course in courses])
    compiled = stops[-1] >= THRESHOLDS.compiled_from and len(history.delays) <= MOST_COMPILED if len(stops) else False
    now = 0.0
    for stop in stops:
        while now < stop:
            if average.starts_at_iterate() and (begins := first == now).any():
                history.begin_at_iterate(np.flatnonzero(begins))
            end = min(now + COEFFICIENTS_AT_ONCE, stop, *first[first > now])
            averaging = first <= now
            rates, batches = _table(courses, np.arange(now, end))
            keeping = np.where(averaging, kept, 1.0), np.where(averaging, weight, 0.0)
            if compiled:
                _compiled(history, rates, batches, *keeping)
            else:
                _plain(history, rates, batches, *keeping, averaged=bool(averaging.any()))
            now = end
        yield history.each()


def _plain(
    history: _History, rates: np.ndarray, batches: np.ndarray, kept: np.ndarray, weight: np.ndarray, *, averaged: bool
) -> None:
    """T steps with γ and B (T, S), which join averages with ρ and ω (S,)."""
    for rate, batch in zip(rates, batches, strict=True):
        if averaged:
            history.keep(kept, weight)
        history.step(rate, batch, averaged)


def _compiled(history: _History, rates: np.ndarray, batches: np.ndarray, kept: np.ndarray, weight: np.ndarray) -> None:
    """The same in one loop of JAX, in float64; tables are filled up, so that few shapes are compiled."""
    missing = COEFFICIENTS_AT_ONCE - len(rates)
    table = [np.pad(each, [(0, missing), (0, 0)], constant_values=1.0) for each in (rates, batches)]
    noise = -1.0 if not isinstance(history, _MeanAndScatter) else history.noise_variance
    modes = history.modes.eigenvalue, history.modes.multiplicity
    state = history.products, history.cross, history.square
    loop = _loop(tuple(history.delays), noise < 0)
    result = loop(state, (*table, kept, weight), modes, max(noise, 0.0), history.now, len(rates))
    history.products, history.cross, history.square = (np.array(each) for each in result)
    history.now += len(rates)


@lru_cache
def _loop(delays: tuple[tuple[int, float], ...], own_risk: bool) -> Any:
    """The compiled loop; `own_risk`: noise is that of `_History`, else that of `_MeanAndScatter`."""
    import jax
    import jax.numpy as jnp

    def run(begin: Any, table: Any, modes: Any, noise: Any, start: Any, count: Any) -> Any:
        rates, batches, kept, weight = table
        eigenvalue, multiplicity = modes
        k = begin[0].shape[0]
        lags = jnp.arange(1, k)

        def one(place: Any, state: Any) -> Any:
            products, cross, square = state
            now = start + place
            x = rates[place][:, None] * eigenvalue
            newest = products[now % k]
            rho, omega = kept[:, None], weight[:, None]
            square = rho**2 * square + 2 * rho * omega * cross[0] + omega**2 * newest[0]
            cross = rho * cross + omega * newest
            pull = sum(share * cross[j] for j, share in delays)
            cross = jnp.concatenate([(cross[0] - x * pull)[None], cross[:-1]])
            late: Any = sum(share * products[(now - j) % k, 0] for j, share in delays)
            risk = late.sum(-1, keepdims=True)
            if own_risk:
                drive = late + multiplicity * (risk + jnp.array([0.0, 1.0])[:, None, None])
            else:
                drive = jnp.stack([0 * late[0], multiplicity * (risk[0] + noise)])
            own = newest[0] - 2 * x * sum(share * newest[j] for j, share in delays)
            own = own + x**2 * (late + drive / batches[place][:, None])
            moved = newest[:-1]
            for j, share in delays:
                younger = jnp.maximum(now - j, now + 1 - lags) % k
                moved = moved - share * x * products[younger, jnp.abs(lags - 1 - j)]
            return products.at[(now + 1) % k].set(jnp.concatenate([own[None], moved])), cross, square

        return jax.lax.fori_loop(0, count, one, begin)

    return compiled_loop(run)


def _table(courses: Sequence[Course], steps: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """γ and B of T steps of S runs, (T, S)."""
    each = [np.minimum(steps, course.num_steps - 1) for course in courses]
    rates = [np.broadcast_to(course.rates(own), own.shape) for course, own in zip(courses, each, strict=True)]
    batches = [np.broadcast_to(course.batches(own), own.shape) for course, own in zip(courses, each, strict=True)]
    return np.array(rates, dtype=float).T, np.array(batches, dtype=float).T
