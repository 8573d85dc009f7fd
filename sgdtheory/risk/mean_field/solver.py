"""Runs of a nonlinear method's deterministic equivalent: step by step, and many steps at once on panels.

Every direction has values, a mean and a variance first, and what they do next depends on them and on the loss
T = σ² + R of all directions (`field`). On a panel values are polynomials in the step number, exact at p Radau points:

    y(t_j) = y(t_j − 1) + change(y(t_j − 1), T(t_j − 1)),    j = 1 … p.

Newton's method solves that. Directions meet in Q sums, of which the loss is the first and mostly the only one: each
mode has a small linear system of its own, and one of p Q unknowns couples them.

S runs that differ in their learning rates alone go side by side, on the same panels: with few modes three take little
longer than one. To a field their steps are rows of one table, run by run.
"""

from dataclasses import dataclass
from functools import partial
from typing import ClassVar, NamedTuple

import numpy as np

from sgdtheory.algorithms import Course
from sgdtheory.risk.mean_field.closure import decay_of, shares
from sgdtheory.risk.mean_field.ensemble import Ensemble
from sgdtheory.risk.mean_field.field import MEAN, VARIANCE, Field, Known
from sgdtheory.risk.mean_field.panel_lengths import PanelLengths
from sgdtheory.risk.mean_field.stated_error import Carried, Doubts, Lag, Look
from sgdtheory.risk.solvers.collocation import backward_differences, collocation_systems, radau_nodes, tails
from sgdtheory.risk.systems.moments import Keeping
from sgdtheory.risk.thresholds import THRESHOLDS

ORDER = 5  # A panel has so many points.
# The two highest Legendre coefficients of the risk on a panel are at most this share of it: risks are then right to
# some 1e-6, and in searches, which allow longer panels, to some 1e-5.
TAIL = 1e-3
ROUGH_TAIL = 1e-2
CONVERGED = 1e-3  # Newton's method ends where the risk changes by less than this times the tail, relative.
MOST_ITERATIONS = 10  # A panel on which Newton's method takes more iterations is halved.
# Derivatives are taken anew after at least so many iterations, if a change is more than this share of the one before.
RENEWED = 4
SLOW = 0.1
# A variance below 0 by less than this share of the direction's second moment and of the risk is rounding.
POSSIBLE = 1e-6
DIFFERENCE = 1e-6  # Numerical derivatives take steps of this share of a value's size.
TOGETHER = 1024  # The tables of so many steps are looked up at once.


class State(NamedTuple):
    """State of K directions in S runs: values (q, S, K); mean, Cov(x, sum) (k, S, K) and variance of the sum."""

    values: np.ndarray
    sum_mean: np.ndarray
    covariance: np.ndarray
    sum_variance: np.ndarray


class Slopes(NamedTuple):
    """Derivatives of a panel's equations at its p points; a mode has p q unknowns.

    Attributes:
        inverse: (S, K, x, x), at given losses.
        by_loss: (S, K, x, p Q) what a mode does if a sum at a point changes.
        seen: (S, K, p Q, x) how the sums change with it.
        coupled: (S, p Q, p Q) how sums follow what they would do if they did not move the modes.
    """

    inverse: np.ndarray
    by_loss: np.ndarray
    seen: np.ndarray
    coupled: np.ndarray

    def correction(self, missing: np.ndarray) -> np.ndarray:
        """(q, S, p, K) Newton's step, from what is missing in the equations."""
        q, runs, p, size = missing.shape
        asked = missing.transpose(1, 3, 2, 0).reshape(runs, size, p * q, 1)
        alone = (self.inverse @ asked)[..., 0]
        losses = self.coupled @ (self.seen @ alone[..., None]).sum(axis=1)
        moved = alone + (self.by_loss @ losses[:, None])[..., 0]
        return moved.reshape(runs, size, p, q).transpose(3, 0, 2, 1)


@dataclass(frozen=True, eq=False)
class MeanField:
    """S runs side by side.

    Attributes:
        ensemble: of directions.
        field: of the method.
        course: learning rates and batch sizes.
        plateaus: whether batch sizes are constant between kinks.
        factors: of the learning rates, one for each run.
        tail: of the risk on a panel, at most.
    """

    ensemble: Ensemble
    field: Field
    course: Course
    plateaus: bool = True
    factors: tuple[float, ...] = (1.0,)
    tail: float = TAIL

    most_steps: ClassVar[float] = THRESHOLDS.most_steps

    def start(self) -> State:
        """w_0, and an empty sum."""
        values = np.repeat(self.field.start(self.ensemble)[:, None], len(self.factors), axis=1)
        nothing = np.zeros_like(values[MEAN])
        return State(values, nothing, np.zeros_like(self.field.with_iterate(values)), nothing)

    def known(self, steps: np.ndarray) -> Known:
        """S times the steps with these numbers, perhaps not whole: batches are rounded where they are not too many."""
        rounded = self.plateaus or np.equal(steps, np.round(steps)).all()
        batches = self.course.batches(steps) if rounded else self.course.smooth_batches(steps)
        batches = np.asarray(batches, dtype=float)
        table = tuple(self.field.looked_up(steps, batches))
        rates = np.concatenate([factor * self.course.rates(steps) for factor in self.factors])
        one = Known(steps[:, None], self.course.rates(steps)[:, None], batches[:, None], table)
        return one.repeated(len(self.factors))._replace(rate=rates[:, None])

    def loss(self, values: np.ndarray) -> np.ndarray:
        """(P, Q) T = σ² + R, and the field's other sums, of (q, P, K) values."""
        sums = (values[MEAN] ** 2 + np.maximum(values[VARIANCE], 0.0)) @ self.field.totals(self.ensemble).T
        sums[:, 0] += self.ensemble.frozen + self.ensemble.noise
        return sums

    def total_risk(self, values: np.ndarray) -> np.ndarray:
        """(…,) R of (q, …, K) values."""
        weights = self.ensemble.multiplicity
        return values[MEAN] ** 2 @ weights + self.ensemble.frozen + np.maximum(values[VARIANCE], 0.0) @ weights

    def with_sum(self, state: State) -> State:
        """The sum begins as the iterate, at the start, where nothing is random."""
        return state._replace(sum_mean=state.values[MEAN])

    @property
    def frozen(self) -> float:
        """Risk of what does not move."""
        return self.ensemble.frozen

    def held(self, state: State, own: float, total: float) -> tuple[np.ndarray, np.ndarray]:
        """(S, K) each: what means and variances of `own u + total sum` hold of the risk, direction by direction."""
        iterate, spread = state.values[[MEAN, VARIANCE]]
        mean = own * iterate + total * state.sum_mean
        variance = own**2 * spread + 2 * own * total * state.covariance[0] + total**2 * state.sum_variance
        weights = self.ensemble.multiplicity
        return weights * mean**2, weights * np.maximum(variance, 0.0)

    def first_doubt(self) -> Doubts:
        """Nothing is in doubt at the start."""
        square = self.start().values[MEAN] ** 2
        return Doubts(Carried.at_start(square.shape), Lag.at_start(square), self.ensemble.multiplicity)

    def doubted(
        self, doubt: Doubts, before: State, after: State, low: float, high: float, kept: float | None
    ) -> Doubts:
        """Return the carried errors after the steps low … high − 1, which lead from one state to another."""
        return doubt.moved(self._look(before, low), self._look(after, high - 1), high - low, kept)

    def _look(self, state: State, number: float) -> Look:
        """At the step with this number."""
        values = state.values
        loss = self.loss(values)
        known = self.met(values, loss, self.known(np.array([number])))
        mixing = self.mixing(values, loss, known)
        decay = np.broadcast_to(decay_of(mixing), values[MEAN].shape)
        closure = self.field.closure(self.ensemble, _possible(values), loss, known, decay)
        fluctuation = shares(self.ensemble, values, loss, known.batch).fluctuation
        square, variance = values[MEAN] ** 2, np.maximum(values[VARIANCE], 0.0)
        return Look(square, variance, decay, closure, loss[:, 0], fluctuation, float(known.rate[0, 0]))

    def met(self, values: np.ndarray, loss: np.ndarray, known: Known) -> Known:
        """Return the steps with what directions do to each other."""
        with np.errstate(all="ignore"):
            return known._replace(together=self.field.together(self.ensemble, _possible(values), loss, known))

    def change(self, values: np.ndarray, loss: np.ndarray, known: Known) -> np.ndarray:
        """(q, P, K)."""
        with np.errstate(all="ignore"):  # a run that diverges is data
            return self.field.change(self.ensemble, _possible(values), loss, known)

    def mixing(self, values: np.ndarray, loss: np.ndarray, known: Known) -> np.ndarray:
        """(k, k, P, K)."""
        with np.errstate(all="ignore"):
            return self.field.mixing(self.ensemble, _possible(values), loss, known)

    def stepped(self, state: State, keeping: Keeping, low: float, high: float, smooth: bool = False) -> State:
        """The steps low … high − 1, one by one."""
        for begin in np.arange(low, high, TOGETHER):
            steps = np.arange(begin, min(begin + TOGETHER, high))
            known = self.known(steps)._replace(smooth=smooth)
            for place in range(steps.size):
                state = self._next(state, keeping, known.at(slice(place, None, steps.size)))
        return state

    def _next(self, state: State, keeping: Keeping, known: Known) -> State:
        values = state.values
        loss = self.loss(values)
        known = self.met(values, loss, known)
        moved = state._replace(values=values + self.change(values, loss, known))
        rho = 1 - keeping.forgetting
        omega = keeping.weight
        if omega == 0:
            return moved
        joined = rho * state.covariance + omega * self.field.with_iterate(values)
        mean, variance = values[[MEAN, VARIANCE]]
        return moved._replace(
            sum_mean=rho * state.sum_mean + omega * mean,
            covariance=np.einsum("xysk,ysk->xsk", self.mixing(values, loss, known), joined),
            sum_variance=rho**2 * state.sum_variance + 2 * rho * omega * state.covariance[0] + omega**2 * variance,
        )

    def crossed(self, state: State, keeping: Keeping, low: float, high: float, between: tuple[float, float]) -> State:
        """The steps low … high − 1 between two kinks: some one by one after the first, then panels."""
        origin, last = between
        now = max(low, min(origin + self.field.first, high))
        state = self.stepped(state, keeping, low, now)
        lengths = PanelLengths(self.tail, ORDER, self.field.shortest, origin, last)
        while now < high:
            end = min(now + lengths.longest(now, *self.course.rates(np.array([now, last - 1]))), high)
            long = end - now >= self.field.shortest
            found, tail = self._panel(state, keeping, now, end) if long else (None, 0.0)
            if found is None and end - now > self.field.shortest:
                lengths.lost(now, end, tail)
                continue
            state = self.stepped(state, keeping, now, end, smooth=True) if found is None else found
            lengths.passed(now, end, tail, found is not None)
            now = end
        return state

    def _panel(self, state: State, keeping: Keeping, low: float, high: float) -> tuple[State | None, float]:
        """The state at its end, None where polynomials do not follow it, and how large the tail is; 0 if not known."""
        nodes = low + (radau_nodes(ORDER) + 1) / 2 * (high - low)
        difference = backward_differences(ORDER, np.array([high - low]))[0]
        before = np.eye(ORDER + 1)[1:] - difference  # values one step before the equations, from those at the nodes
        known = self.known(nodes[1:] - 1)._replace(smooth=True)
        found = self._newton(state, difference, before, known)
        if found is None:
            return None, 0.0
        risk = self.total_risk(found)
        impossible = found[VARIANCE] < -POSSIBLE * (found[MEAN] ** 2 + risk[..., None])
        tail = self._tail(risk)
        if tail > self.tail or impossible.any():
            return None, tail
        values = found[:, :, -1]
        if keeping.weight == 0:
            return state._replace(values=values), tail
        return State(values, *self._sums(state, found, keeping, difference, before, known)), tail

    @staticmethod
    def _tail(risk: np.ndarray) -> float:
        """Return the largest share of the two highest polynomials in the risk (S, p + 1) of any run."""
        return float(tails(risk, np.finfo(float).tiny).max())

    def _newton(self, state: State, difference: np.ndarray, before: np.ndarray, known: Known) -> np.ndarray | None:
        """(q, S, p + 1, K) values at the nodes, to where it is plain that polynomials do not follow them."""
        values = np.repeat(state.values[:, :, None], ORDER + 1, axis=2)
        risk = np.full(values.shape[1:3], np.inf)
        gap = gap_before = np.inf
        since = 0
        for iteration in range(MOST_ITERATIONS):
            there = before @ values
            rows = _rows(there)
            loss = self.loss(rows)
            known = self.met(rows, loss, known)
            changed = self.change(rows, loss, known)
            if iteration == 0 or (since >= RENEWED and gap > SLOW * gap_before):
                since = 0
                try:
                    slopes = self._slopes(there, loss, changed, difference, before, known)
                except np.linalg.LinAlgError:  # singular
                    return None
                if slopes is None:
                    return None
            values[:, :, 1:] += slopes.correction(changed.reshape(there.shape) - difference @ values)
            now = self.total_risk(values)
            if not np.isfinite(now).all():
                return None
            gap_before = gap
            gap = float((np.abs(now - risk) / now).max())
            hopeless = iteration > 0 and self._tail(now) > self.tail + 2 * gap  # further changes are smaller than `gap`
            if gap <= CONVERGED * self.tail or hopeless:
                return values
            risk = now
            since += 1
        return None

    def _slopes(
        self,
        there: np.ndarray,
        loss: np.ndarray,
        changed: np.ndarray,
        difference: np.ndarray,
        before: np.ndarray,
        known: Known,
    ) -> Slopes | None:
        """Return the derivatives of the equations by differences, None where they are not finite."""
        own, shared = self._derivatives(_rows(there), loss, changed, known)
        if not np.isfinite(own).all():
            return None
        q, runs, p, size = there.shape
        own = np.ascontiguousarray(own.reshape(q, q, runs, p, size).transpose(2, 4, 3, 0, 1))
        matrix = np.einsum("jn,ab->janb", difference[:, 1:], np.eye(q))
        matrix = matrix - own[..., None, :] * before[:, None, 1:, None]
        inverse = np.linalg.inv(matrix.reshape(runs, size, p * q, p * q))
        sums = loss.shape[1]
        shared = shared.reshape(q, sums, runs, p, size).transpose(2, 4, 3, 0, 1)
        at_points = inverse.reshape(runs, size, p * q, p, q).swapaxes(2, 3)
        by_loss = np.moveaxis(at_points @ shared, 2, 3).reshape(runs, size, p * q, p * sums)
        seen = np.zeros((runs, size, p, sums, p, q))
        own = self._seen(there).transpose(2, 4, 3, 0, 1)
        seen[..., [MEAN, VARIANCE]] = own[:, :, :, :, None] * before[:, None, 1:, None]
        seen = seen.reshape(runs, size, p * sums, p * q)
        coupled = np.linalg.inv(np.eye(p * sums) - (seen @ by_loss).sum(axis=1))
        return Slopes(inverse, by_loss, seen, coupled)

    def _derivatives(
        self, there: np.ndarray, loss: np.ndarray, changed: np.ndarray, known: Known
    ) -> tuple[np.ndarray, np.ndarray]:
        """Return derivatives of the change by the values, (q, q, P, K), and by the sums, (q, Q, P, K)."""
        q, rows, size = there.shape
        sums = loss.shape[1]
        scales = np.append(self.field.scales(there), np.broadcast_to(loss.T[..., None], (sums, rows, size)), axis=0)
        apart = DIFFERENCE * scales
        moved = np.repeat(there[:, None], q + sums, axis=1)
        moved[range(q), range(q)] += apart[:q]
        losses = np.repeat(loss[None], q + sums, axis=0)
        losses[range(q, q + sums), :, range(sums)] += DIFFERENCE * loss.T
        every = self.change(moved.reshape(q, -1, size), losses.reshape(-1, sums), known.repeated(q + sums))
        slopes = (every.reshape(q, q + sums, rows, size) - changed[:, None]) / apart
        return slopes[:, :q], slopes[:, q:]

    def _seen(self, there: np.ndarray) -> np.ndarray:
        """(Q, 2, S, p, K): derivatives by mean and variance of the sums."""
        own = np.stack([2 * there[MEAN], np.where(there[VARIANCE] > 0, 1.0, 0.0)])
        return own * self.field.totals(self.ensemble)[:, None, None, None]

    def _sums(
        self,
        state: State,
        values: np.ndarray,
        keeping: Keeping,
        difference: np.ndarray,
        before: np.ndarray,
        known: Known,
    ) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
        """Return the moments of the average's sum at the end of a panel: a linear system given the values."""
        there = before @ values
        rows = _rows(there)
        loss = self.loss(rows)
        mixing = self.mixing(rows, loss, self.met(rows, loss, known))
        mixing = _modes(mixing.reshape(*mixing.shape[:2], *there.shape[1:]))
        shape = state.sum_mean.shape
        with_iterate = _modes(self.field.with_iterate(there))
        mean, variance = _modes(there[[MEAN, VARIANCE]])
        rho = 1 - keeping.forgetting
        omega = keeping.weight
        solve = partial(_linear, difference)
        one = np.ones((1, 1, *mean.shape))
        joined = omega * np.einsum("xyjk,yjk->xjk", mixing, with_iterate)
        shared = solve(state.covariance.reshape(len(mixing), -1), rho * mixing, joined)
        forcing = 2 * rho * omega * (before @ shared[0]) + omega**2 * variance
        sums = solve(state.sum_mean.reshape(1, -1), rho * one, omega * mean[None])
        squares = solve(state.sum_variance.reshape(1, -1), rho**2 * one, forcing[None])
        return sums[0, -1].reshape(shape), shared[:, -1].reshape(-1, *shape), squares[0, -1].reshape(shape)


def _rows(values: np.ndarray) -> np.ndarray:
    """(q, S, p, K) as a field sees them, (q, S p, K)."""
    return values.reshape(values.shape[0], -1, values.shape[-1])


def _modes(values: np.ndarray) -> np.ndarray:
    """(…, S, p, K) as if all runs were modes of one, (…, p, S K)."""
    moved = np.moveaxis(values, -3, -2)
    return moved.reshape(*moved.shape[:-2], -1)


def _possible(values: np.ndarray) -> np.ndarray:
    """A variance below 0, of an iteration on its way, is none."""
    if (values[VARIANCE] >= 0).all():
        return values
    values = values.copy()
    values[VARIANCE] = np.maximum(values[VARIANCE], 0.0)
    return values


def _linear(difference: np.ndarray, start: np.ndarray, mixing: np.ndarray, forcing: np.ndarray) -> np.ndarray:
    """Solve `f(t_j) = M_j f(t_j − 1) + forcing_j`: (k, p + 1, K), from (k, K), (k, k, p, K) and (k, p, K)."""
    decay = np.moveaxis(np.eye(len(mixing))[..., None, None] - mixing, 2, 0)
    system = collocation_systems(decay[None], difference[None])
    values = system.values(start[None, :, None], forcing.swapaxes(0, 1)[None, :, :, None])[0, :, :, 0]
    return np.concatenate([start[:, None], values.swapaxes(0, 1)], axis=1)
