"""Runs of a nonlinear method's deterministic equivalent: step by step, and many steps at once on panels.

Every direction has values, a mean and a variance first, and what they do next depends on them and on the loss
T = σ² + R of all directions (`field`). On a panel values are polynomials in the step number, exact at p Radau points:

    y(t_j) = y(t_j − 1) + change(y(t_j − 1), T(t_j − 1)),    j = 1 … p.

Newton's method solves that. Directions meet in Q sums, of which the loss is the first and mostly the only one: each
mode has a small linear system of its own, and one of p Q unknowns couples them.
"""

from collections.abc import Callable
from dataclasses import dataclass
from typing import ClassVar, NamedTuple

import numpy as np

from sgdtheory.algorithms import Course
from sgdtheory.risk.ensemble import Ensemble
from sgdtheory.risk.field import MEAN, VARIANCE, Field, Known
from sgdtheory.risk.moments import Keeping
from sgdtheory.risk.panels import backward_differences, radau_nodes, tails
from sgdtheory.risk.runs import MOST_STEPS

ORDER = 5  # points on a panel
TAIL = 1e-3  # of the risk's two highest Legendre coefficients on a panel: it is then right to some 1e-6
CONVERGED = 1e-6  # relative change of the risk at which Newton's method ends
MOST_ITERATIONS = 15
RENEWED = 5  # iterations between derivatives
DIFFERENCE = 1e-6  # relative, of numerical derivatives
TOGETHER = 1024  # steps that are looked up at once
LONGER = 2.0  # times the panel before, at most, and times the way from the last kink
RANDOM = 1e-9  # of a mean's square: smaller variances are rounding
LOST = 2.0  # relative error of variances where steps lead to and fro, as measured by benchmarks/equivalents.py
FALLEN = 0.2  # of a learning rate: if it ends below that share of it, panels close in on the end


class State(NamedTuple):
    """Of K directions: values (q, K); and of the average's sum S its mean, Cov(x, S) (k, K) and variance."""

    values: np.ndarray
    sum_mean: np.ndarray
    covariance: np.ndarray
    sum_variance: np.ndarray


class Slopes(NamedTuple):
    """Of a panel's equations at its p points: x of them are one mode's unknowns, p values of each of q.

    Attributes:
        inverse: (K, x, x), at given losses.
        by_loss: (K, x, p Q) what a mode does if the loss at a point changes.
        seen: (K, p Q, x) how the loss changes with it.
        coupled: (p Q, p Q) how losses follow what they would do if they did not move the modes.
    """

    inverse: np.ndarray
    by_loss: np.ndarray
    seen: np.ndarray
    coupled: np.ndarray

    def correction(self, missing: np.ndarray) -> np.ndarray:
        """(q, p, K) Newton's step, from what is missing in the equations."""
        q, p, size = missing.shape
        alone = (self.inverse @ np.moveaxis(missing, (0, 1, 2), (2, 1, 0)).reshape(size, p * q, 1))[..., 0]
        losses = self.coupled @ np.einsum("kjx,kx->j", self.seen, alone)
        return np.moveaxis((alone + self.by_loss @ losses).reshape(size, p, q), (0, 1, 2), (2, 1, 0))


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

    most_steps: ClassVar[float] = MOST_STEPS
    lasting: ClassVar[bool] = False  # what was in doubt once is so for ever, in iterates too

    def start(self) -> State:
        """w_0, and an empty sum."""
        values = self.field.start(self.ensemble)
        nothing = np.zeros_like(values[MEAN])
        return State(values, nothing, np.zeros_like(self.field.with_iterate(values)), nothing)

    def known(self, steps: np.ndarray) -> Known:
        """Of the steps with these numbers, which need not be whole: batches are not rounded where they are too many."""
        rounded = self.plateaus or np.equal(steps, np.round(steps)).all()
        batches = self.course.batches(steps) if rounded else self.course.smooth_batches(steps)
        batches = np.asarray(batches, dtype=float)
        table = tuple(self.field.looked_up(steps, batches))
        return Known(steps[:, None], self.course.rates(steps)[:, None], batches[:, None], table)

    def loss(self, values: np.ndarray) -> np.ndarray:
        """(P, Q) T = σ² + R, and the field's other sums, of (q, P, K) values."""
        sums = (values[MEAN] ** 2 + np.maximum(values[VARIANCE], 0.0)) @ self.field.totals(self.ensemble).T
        sums[:, 0] += self.ensemble.frozen + self.ensemble.noise
        return sums

    def total_risk(self, values: np.ndarray) -> np.ndarray:
        """(P,) R of (q, P, K) values."""
        return np.sum(self.risk(values[MEAN], values[VARIANCE]), axis=0)

    def risk(self, mean: np.ndarray, variance: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        """Of (P, K) directions what means and what variances hold of it, (P,) each."""
        weights = self.ensemble.multiplicity
        return mean**2 @ weights + self.ensemble.frozen, np.maximum(variance, 0.0) @ weights

    def with_sum(self, state: State) -> State:
        """The sum begins as the iterate, at the start, where nothing is random."""
        return state._replace(sum_mean=state.values[MEAN])

    @property
    def frozen(self) -> float:
        """Risk of what does not move."""
        return self.ensemble.frozen

    def held(self, state: State, own: float, total: float) -> tuple[np.ndarray, np.ndarray]:
        """(K,) each: what means and variances of `own u + total S` hold of the risk, direction by direction."""
        iterate, spread = state.values[[MEAN, VARIANCE]]
        mean = own * iterate + total * state.sum_mean
        variance = own**2 * spread + 2 * own * total * state.covariance[0] + total**2 * state.sum_variance
        weights = self.ensemble.multiplicity
        return weights * mean**2, weights * np.maximum(variance, 0.0)

    def doubt(self, state: State, number: float) -> np.ndarray:
        """(K,) relative errors of variances after step `number`: where single steps lead to and fro.

        There directions are shaken more than gradients are, `B r > T − E u²`, past the optimum and back, and u is not
        Gaussian. Where nothing is random they are followed.
        """
        mean = state.values[MEAN]
        variance = state.values[VARIANCE]
        loss = self.loss(state.values[:, None])[0, 0]
        batch = float(self.course.batches(np.array([number]))[0])
        random = variance > RANDOM * mean**2
        return LOST * (random & (batch * variance > loss - mean**2 - variance))

    def passing_error(self, state: State, number: float) -> float:
        """What the field says of it after step `number`."""
        batch = float(self.course.batches(np.array([number]))[0])
        return self.field.passing_error(self.ensemble, state.values, self.loss(state.values[:, None])[0], batch)

    def met(self, values: np.ndarray, loss: np.ndarray, known: Known) -> Known:
        """With what directions do to each other."""
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
                state = self._next(state, keeping, known.at(place))
        return state

    def _next(self, state: State, keeping: Keeping, known: Known) -> State:
        values = state.values[:, None]
        loss = self.loss(values)
        known = self.met(values, loss, known)
        moved = state._replace(values=state.values + self.change(values, loss, known)[:, 0])
        rho = 1 - keeping.forgetting
        omega = keeping.weight
        if omega == 0:
            return moved
        joined = rho * state.covariance + omega * self.field.with_iterate(state.values)
        mean, variance = state.values[[MEAN, VARIANCE]]
        return moved._replace(
            sum_mean=rho * state.sum_mean + omega * mean,
            covariance=np.einsum("xyk,yk->xk", self.mixing(values, loss, known)[:, :, 0], joined),
            sum_variance=rho**2 * state.sum_variance + 2 * rho * omega * state.covariance[0] + omega**2 * variance,
        )

    def crossed(self, state: State, keeping: Keeping, low: float, high: float, between: tuple[float, float]) -> State:
        """The steps low … high − 1 between two kinks: some one by one after the first, then panels."""
        origin, last = between
        now = max(low, min(origin + self.field.first, high))
        state = self.stepped(state, keeping, low, now)
        length = np.inf
        shortest = self.field.shortest
        while now < high:
            end = min(now + self._longest(length, now, origin, last), high)
            found = self._panel(state, keeping, now, end) if end - now >= shortest else None
            if found is None and end - now > shortest:
                length = (end - now) / 2
                continue
            state = self.stepped(state, keeping, now, end, smooth=True) if found is None else found
            length = LONGER * (end - now)
            now = end
        return state

    def _longest(self, length: float, now: float, origin: float, last: float) -> float:
        """Steps of the next panel, at most."""
        length = min(length, (LONGER - 1) * (now - origin))
        rates = self.course.rates(np.array([now, last - 1]))
        if rates[1] < FALLEN * rates[0]:
            length = min(length, (last - now) / 2)
        return max(np.ceil(length), self.field.shortest)

    def _panel(self, state: State, keeping: Keeping, low: float, high: float) -> State | None:
        """The state at its end; None where polynomials do not follow it."""
        nodes = low + (radau_nodes(ORDER) + 1) / 2 * (high - low)
        difference = backward_differences(ORDER, np.array([high - low]))[0]
        before = np.eye(ORDER + 1)[1:] - difference  # values one step before the equations, from those at the nodes
        known = self.known(nodes[1:] - 1)._replace(smooth=True)
        found = self._newton(state, difference, before, known)
        if found is None:
            return None
        risk = self.total_risk(found)
        impossible = found[VARIANCE] < -CONVERGED * (found[MEAN] ** 2 + risk[:, None])
        if tails(risk, np.finfo(float).tiny) > TAIL or impossible.any():
            return None
        ended = state._replace(values=found[:, -1])
        if keeping.weight == 0:
            return ended
        return State(ended.values, *self._sums(state, found, keeping, difference, before, known))

    def _newton(self, state: State, difference: np.ndarray, before: np.ndarray, known: Known) -> np.ndarray | None:
        """(q, p + 1, K) values at the nodes."""
        values = np.repeat(state.values[:, None], ORDER + 1, axis=1)
        risk = np.full(ORDER + 1, np.inf)
        for iteration in range(MOST_ITERATIONS):
            there = np.einsum("jn,qnk->qjk", before, values)
            loss = self.loss(there)
            known = self.met(there, loss, known)
            changed = self.change(there, loss, known)
            if iteration % RENEWED == 0:
                slopes = self._slopes(there, loss, changed, difference, before, known)
                if slopes is None:
                    return None
            values[:, 1:] += slopes.correction(changed - np.einsum("jn,qnk->qjk", difference, values))
            now = self.total_risk(values)
            if not np.isfinite(now).all():
                return None
            if (np.abs(now - risk) <= CONVERGED * now).all():
                return values
            risk = now
        return None

    def _slopes(
        self,
        there: np.ndarray,
        loss: np.ndarray,
        changed: np.ndarray,
        difference: np.ndarray,
        before: np.ndarray,
        known: Known,
    ) -> "Slopes | None":
        """Of the equations, from derivatives by differences; None where they say nothing."""
        own, shared = self._derivatives(there, loss, changed, known)
        if not np.isfinite(own).all():
            return None
        q, p, size = there.shape
        matrix = np.einsum("jn,ab->janb", difference[:, 1:], np.eye(q))[..., None]
        matrix = matrix - np.einsum("abjk,jn->janbk", own, before[:, 1:])
        inverse = np.linalg.inv(np.moveaxis(matrix.reshape(p * q, p * q, size), -1, 0))
        sums = loss.shape[1]
        by_loss = np.einsum("kxja,acjk->kxjc", inverse.reshape(size, p * q, p, q), shared)
        by_loss = by_loss.reshape(size, p * q, p * sums)
        seen = np.zeros((size, p, sums, p, q))
        seen[..., [MEAN, VARIANCE]] = np.einsum("cajk,jn->kjcna", self._seen(there), before[:, 1:])
        seen = seen.reshape(size, p * sums, p * q)
        coupled = np.linalg.inv(np.eye(p * sums) - np.einsum("kjx,kxi->ji", seen, by_loss))
        return Slopes(inverse, by_loss, seen, coupled)

    def _derivatives(
        self, there: np.ndarray, loss: np.ndarray, changed: np.ndarray, known: Known
    ) -> tuple[np.ndarray, np.ndarray]:
        """Of the change (q, p, K) by the values (q, q, p, K), and by the loss (q, Q, p, K)."""
        own = []
        for place, scale in enumerate(self.field.scales(there)):
            moved = there.copy()
            moved[place] += DIFFERENCE * scale
            own.append((self.change(moved, loss, known) - changed) / (DIFFERENCE * scale))
        shared = []
        for place in range(loss.shape[1]):
            apart = DIFFERENCE * loss[:, [place]]
            moved = loss + apart * np.eye(loss.shape[1])[place]
            shared.append((self.change(there, moved, known) - changed) / apart)
        return np.stack(own, axis=1), np.stack(shared, axis=1)

    def _seen(self, there: np.ndarray) -> np.ndarray:
        """(Q, 2, p, K): derivatives by mean and variance of the loss."""
        own = np.stack([2 * there[MEAN], np.where(there[VARIANCE] > 0, 1.0, 0.0)])
        return own * self.field.totals(self.ensemble)[:, None, None]

    def _sums(
        self,
        state: State,
        values: np.ndarray,
        keeping: Keeping,
        difference: np.ndarray,
        before: np.ndarray,
        known: Known,
    ) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
        """What the average's sum has at the end of a panel: linear, with the values of directions known."""
        there = np.einsum("jn,qnk->qjk", before, values)
        loss = self.loss(there)
        mixing = self.mixing(there, loss, self.met(there, loss, known))
        rho = 1 - keeping.forgetting
        omega = keeping.weight
        solve: Callable = _linear(difference, before)
        one = np.ones((1, 1, *there.shape[1:]))
        joined = omega * np.einsum("xyjk,yjk->xjk", mixing, self.field.with_iterate(there))
        shared = solve(state.covariance, rho * mixing, joined)
        known_shared = np.einsum("jn,nk->jk", before, shared[0])
        forcing = 2 * rho * omega * known_shared + omega**2 * there[VARIANCE]
        sums = solve(state.sum_mean[None], rho * one, omega * there[[MEAN]])
        squares = solve(state.sum_variance[None], rho**2 * one, forcing[None])
        return sums[0, -1], shared[:, -1], squares[0, -1]


def _possible(values: np.ndarray) -> np.ndarray:
    """A variance below 0, of an iteration on its way, is none."""
    if (values[VARIANCE] >= 0).all():
        return values
    values = values.copy()
    values[VARIANCE] = np.maximum(values[VARIANCE], 0.0)
    return values


def _linear(difference: np.ndarray, before: np.ndarray) -> Callable[..., np.ndarray]:
    """Solver of `f(t_j) = M_j f(t_j − 1) + forcing_j`: (k, p + 1, K), from (k, K), (k, k, p, K) and (k, p, K)."""

    def solve(start: np.ndarray, mixing: np.ndarray, forcing: np.ndarray) -> np.ndarray:
        k, _, p, size = mixing.shape
        left = np.eye(k)[..., None, None] - mixing
        matrix = np.einsum("jn,xy->jxny", difference, np.eye(k))[..., None]
        matrix = matrix + np.einsum("xyjz,jn->jxnyz", left, before)
        right = np.moveaxis(forcing, 1, 0) - np.einsum("jxyz,yz->jxz", matrix[:, :, 0], start)
        unknown = np.moveaxis(matrix[:, :, 1:].reshape(p * k, p * k, size), -1, 0)
        found = np.linalg.solve(unknown, right.reshape(p * k, size).T[..., None]).reshape(size, p, k)
        return np.concatenate([start[:, None], np.moveaxis(found, (0, 1, 2), (2, 1, 0))], axis=1)

    return solve
