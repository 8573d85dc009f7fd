"""Runs of a nonlinear method's deterministic equivalent: step by step, and many steps at once on panels.

Every direction has a mean a and a variance r, and what they do next depends on them and on the loss T = σ² + R of all
directions (`fields`). On a panel a and r are polynomials in the step number, exact at p Radau points, as in `panels`:

    y(t_j) = y(t_j − 1) + change(y(t_j − 1), T(t_j − 1)),    j = 1 … p.

Newton's method solves that. Directions meet in the loss alone: each mode has a small linear system of its own, and one
of p unknowns couples them.
"""

from collections.abc import Callable
from dataclasses import dataclass
from typing import NamedTuple

import numpy as np

from sgdtheory.algorithms import Course
from sgdtheory.risk.chi import ChiRule, chi_rules
from sgdtheory.risk.ensemble import Ensemble
from sgdtheory.risk.fields import Field, Step
from sgdtheory.risk.moments import Keeping
from sgdtheory.risk.panels import backward_differences, radau_nodes, tails

ORDER = 5  # points on a panel
TAIL = 1e-3  # of the risk's two highest Legendre coefficients on a panel: it is then right to some 1e-6
CONVERGED = 1e-6  # relative change of the risk at which Newton's method ends
MOST_ITERATIONS = 10
DIFFERENCE = 1e-6  # relative, of numerical derivatives
FIRST_STEPS = 48.0  # after a kink, one by one
SHORTEST = 16.0  # steps of a panel
LONGER = 2.0  # times the panel before, at most, and times the way from the last kink
RANDOM = 1e-9  # of a mean's square: smaller variances are rounding
FALLEN = 0.2  # of a learning rate: if it ends below that share of it, panels close in on the end


class State(NamedTuple):
    """(K,) or (P, K) each: mean a and variance r of u; and of the average's sum S its mean, Cov(u, S) and variance."""

    mean: np.ndarray
    variance: np.ndarray
    sum_mean: np.ndarray
    covariance: np.ndarray
    sum_variance: np.ndarray


class Known(NamedTuple):
    """What is known of P steps: (P, 1) learning rates and (P, M) rules of their batch sizes."""

    rate: np.ndarray
    chi: ChiRule


@dataclass(frozen=True, eq=False)
class MeanField:
    """One run.

    Attributes:
        ensemble: of directions.
        field: of the method.
        course: learning rates and batch sizes.
        plateaus: whether batch sizes are constant between kinks.
    """

    ensemble: Ensemble
    field: Field
    course: Course
    plateaus: bool = True

    def start(self) -> State:
        """w_0, and an empty sum."""
        nothing = np.zeros_like(self.ensemble.start)
        return State(self.ensemble.start.copy(), nothing, nothing, nothing, nothing)

    def known(self, steps: np.ndarray) -> Known:
        """Of the steps with these numbers, which need not be whole: batches are not rounded where they are too many."""
        rounded = self.plateaus or np.equal(steps, np.round(steps)).all()
        batches = self.course.batches(steps) if rounded else self.course.smooth_batches(steps)
        return Known(self.course.rates(steps)[:, None], chi_rules(np.asarray(batches, dtype=float)))

    def loss(self, mean: np.ndarray, variance: np.ndarray) -> np.ndarray:
        """(P, 1) T = σ² + R of (P, K) directions."""
        return (np.sum(self.risk(mean, variance), axis=0) + self.ensemble.noise)[:, None]

    def risk(self, mean: np.ndarray, variance: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        """Of (P, K) directions what means and what variances hold of it, (P,) each."""
        weights = self.ensemble.multiplicity
        return mean**2 @ weights + self.ensemble.frozen, np.maximum(variance, 0.0) @ weights

    def shaken(self, state: State, batch: float) -> np.ndarray:
        """(K,) which directions are shaken more than gradients are, `B r > T − E u²`.

        There single steps lead to and fro, past the optimum and back, and u is not Gaussian. Where nothing is random
        they are followed.
        """
        loss = self.loss(state.mean[None], state.variance[None])[0, 0]
        random = state.variance > RANDOM * state.mean**2
        return random & (batch * state.variance > loss - state.mean**2 - state.variance)

    def step(self, mean: np.ndarray, variance: np.ndarray, loss: np.ndarray, known: Known) -> Step:
        """Of (P, K) directions; a variance below 0, of an iteration on its way, is none."""
        with np.errstate(all="ignore"):  # a run that diverges is data
            return self.field(self.ensemble, mean, np.maximum(variance, 0.0), loss, known.rate, known.chi)

    def change(self, mean: np.ndarray, variance: np.ndarray, loss: np.ndarray, known: Known) -> np.ndarray:
        """(2, P, K) of mean and variance."""
        done = self.step(mean, variance, loss, known)
        return np.stack([-done.drift, done.scatter - 2 * done.response * np.maximum(variance, 0.0)])

    def stepped(self, state: State, keeping: Keeping, low: float, high: float) -> State:
        """The steps low … high − 1, one by one."""
        for number in np.arange(low, high):
            state = self._next(state, keeping, self.known(np.array([number])))
        return state

    def _next(self, state: State, keeping: Keeping, known: Known) -> State:
        mean = state.mean[None]
        variance = state.variance[None]
        done = Step(*(each[0] for each in self.step(mean, variance, self.loss(mean, variance), known)))
        rho = 1 - keeping.forgetting
        omega = keeping.weight
        joined = rho * state.covariance + omega * state.variance
        return State(
            state.mean - done.drift,
            (1 - 2 * done.response) * state.variance + done.scatter,
            rho * state.sum_mean + omega * state.mean,
            (1 - done.response) * joined,
            rho**2 * state.sum_variance + 2 * rho * omega * state.covariance + omega**2 * state.variance,
        )

    def crossed(self, state: State, keeping: Keeping, low: float, high: float, between: tuple[float, float]) -> State:
        """The steps low … high − 1 between two kinks: some one by one after the first, then panels."""
        origin, last = between
        now = max(low, min(origin + FIRST_STEPS, high))
        state = self.stepped(state, keeping, low, now)
        length = LONGER * SHORTEST
        while now < high:
            end = min(now + self._longest(length, now, origin, last), high)
            found = self._panel(state, keeping, now, end) if end - now >= SHORTEST else None
            if found is None and end - now > SHORTEST:
                length = (end - now) / 2
                continue
            state = self.stepped(state, keeping, now, end) if found is None else found
            length = LONGER * (end - now)
            now = end
        return state

    def _longest(self, length: float, now: float, origin: float, last: float) -> float:
        """Steps of the next panel, at most."""
        length = min(length, (LONGER - 1) * (now - origin))
        rates = self.course.rates(np.array([now, last - 1]))
        if rates[1] < FALLEN * rates[0]:
            length = min(length, (last - now) / 2)
        return max(np.ceil(length), SHORTEST)

    def _panel(self, state: State, keeping: Keeping, low: float, high: float) -> State | None:
        """The state at its end; None where polynomials do not follow it."""
        nodes = low + (radau_nodes(ORDER) + 1) / 2 * (high - low)
        difference = backward_differences(ORDER, np.array([high - low]))[0]
        before = np.eye(ORDER + 1)[1:] - difference  # values one step before the equations, from those at the nodes
        known = self.known(nodes[1:] - 1)
        found = self._newton(state, difference, before, known)
        if found is None:
            return None
        risk = np.sum(self.risk(found[0], found[1]), axis=0)
        if tails(risk, np.finfo(float).tiny) > TAIL or (found[1] < -CONVERGED * (found[0] ** 2 + risk[:, None])).any():
            return None
        ended = found[:, -1]
        if keeping.weight == 0:
            return state._replace(mean=ended[0], variance=ended[1])
        return State(ended[0], ended[1], *self._sums(state, found, keeping, difference, before, known))

    def _newton(self, state: State, difference: np.ndarray, before: np.ndarray, known: Known) -> np.ndarray | None:
        """(2, p + 1, K) mean and variance at the nodes."""
        values = np.repeat(np.stack([state.mean, state.variance])[:, None], ORDER + 1, axis=1)
        risk = np.full(ORDER + 1, np.inf)
        for _ in range(MOST_ITERATIONS):
            values[:, 1:] += self._correction(values, difference, before, known)
            now = np.sum(self.risk(values[0], values[1]), axis=0)
            if not np.isfinite(now).all():
                return None
            if (np.abs(now - risk) <= CONVERGED * now).all():
                return values
            risk = now
        return None

    def _correction(self, values: np.ndarray, difference: np.ndarray, before: np.ndarray, known: Known) -> np.ndarray:
        """(2, p, K): Newton's step, from derivatives by differences."""
        there = np.einsum("jn,qnk->qjk", before, values)
        loss = self.loss(there[0], there[1])
        changed = self.change(there[0], there[1], loss, known)
        own, shared = self._derivatives(there, loss, changed, known)
        p = ORDER
        q = 2
        size = there.shape[-1]
        matrix = np.einsum("jn,ab->janb", difference[:, 1:], np.eye(q))[..., None]
        matrix = matrix - np.einsum("abjk,jn->janbk", own, before[:, 1:])
        missing = changed - np.einsum("jn,qnk->qjk", difference, values)
        right = np.zeros((p, q, 1 + p, size))
        right[:, :, 0] = np.moveaxis(missing, 1, 0)
        right[np.arange(p), :, 1 + np.arange(p)] = np.moveaxis(shared, 1, 0)
        solved = np.linalg.solve(
            np.moveaxis(matrix.reshape(p * q, p * q, size), -1, 0), np.moveaxis(right.reshape(p * q, -1, size), -1, 0)
        ).reshape(size, p, q, -1)
        coupled = np.einsum("ajk,jn,knac->jc", self._seen(there), before[:, 1:], solved, optimize=True)
        moved = np.linalg.solve(np.eye(p) - coupled[:, 1:], coupled[:, 0])
        return np.moveaxis(solved[..., 0] + solved[..., 1:] @ moved, (0, 1, 2), (2, 1, 0))

    def _derivatives(
        self, there: np.ndarray, loss: np.ndarray, changed: np.ndarray, known: Known
    ) -> tuple[np.ndarray, np.ndarray]:
        """Of the change (2, p, K) by mean and variance (2, 2, p, K), and by the loss (2, p, K)."""
        size = there[0] ** 2 + np.abs(there[1]) + np.finfo(float).tiny
        own = []
        for place, scale in enumerate((np.sqrt(size), size)):
            moved = there.copy()
            moved[place] += DIFFERENCE * scale
            own.append((self.change(moved[0], moved[1], loss, known) - changed) / (DIFFERENCE * scale))
        apart = DIFFERENCE * loss
        shared = (self.change(there[0], there[1], loss + apart, known) - changed) / apart
        return np.stack(own, axis=1), shared

    def _seen(self, there: np.ndarray) -> np.ndarray:
        """(2, p, K): derivatives by mean and variance of the loss."""
        own = np.stack([2 * there[0], np.where(there[1] > 0, 1.0, 0.0)])
        return own * self.ensemble.multiplicity

    def _sums(
        self,
        state: State,
        values: np.ndarray,
        keeping: Keeping,
        difference: np.ndarray,
        before: np.ndarray,
        known: Known,
    ) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
        """What the average's sum has at the end of a panel: linear, with mean and variance of u known."""
        mean, variance = np.einsum("jn,qnk->qjk", before, values)
        left = 1 - self.step(mean, variance, self.loss(mean, variance), known).response
        rho = 1 - keeping.forgetting
        omega = keeping.weight
        one = np.ones_like(mean)
        solve: Callable = _linear(difference, before)
        sums = solve(state.sum_mean, 1 - rho * one, omega * mean)
        shared = solve(state.covariance, 1 - rho * left, omega * left * variance)
        known_shared = np.einsum("jn,nk->jk", before, shared)
        forcing = 2 * rho * omega * known_shared + omega**2 * variance
        squares = solve(state.sum_variance, 1 - rho**2 * one, forcing)
        return sums[-1], shared[-1], squares[-1]


def _linear(difference: np.ndarray, before: np.ndarray) -> Callable[..., np.ndarray]:
    """Solver of `f(t_j) = (1 − decay_j) f(t_j − 1) + forcing_j`: (p + 1, K) from f at the start, (K,), and (p, K)."""

    def solve(start: np.ndarray, decay: np.ndarray, forcing: np.ndarray) -> np.ndarray:
        matrix = difference[..., None] + decay[:, None] * before[..., None]
        right = forcing - matrix[:, 0] * start
        found = np.linalg.solve(np.moveaxis(matrix[:, 1:], -1, 0), right.T[..., None])[..., 0].T
        return np.concatenate([start[None], found])

    return solve
