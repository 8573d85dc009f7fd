"""Runs of a nonlinear method's deterministic equivalent: step by step, and many steps at once on panels.

Every direction has q values, of which the first two are a mean and a variance. Their change in a step depends on these
values and on the loss T = σ² + R, a sum over all directions (`field`). On a collocation panel the values are
polynomials in the step number that satisfy the recursion at p Radau points t_j:

    y(t_j) = y(t_j − 1) + change(y(t_j − 1), T(t_j − 1)),    j = 1 … p.

Newton's method solves these equations. Directions are coupled by Q sums, the loss and sometimes one more: each mode has
a small linear system of its own, and a system of p Q unknowns couples them.

S runs that differ only in their learning rates are computed side by side, on the same panels: with few modes three of
them take little longer than one. A field sees their steps as rows of one table, run by run.
"""

from dataclasses import dataclass
from functools import partial
from typing import ClassVar

import numpy as np

from sgdtheory.algorithms import Course
from sgdtheory.risk.mean_field.closure import decay_of, shares
from sgdtheory.risk.mean_field.ensemble import TINY
from sgdtheory.risk.mean_field.field import MEAN, VARIANCE, Known
from sgdtheory.risk.mean_field.panel_jacobian import PanelJacobian
from sgdtheory.risk.mean_field.panel_lengths import PanelLengths
from sgdtheory.risk.mean_field.single_steps import TOGETHER, FieldState, SingleSteps, possible
from sgdtheory.risk.mean_field.stated_error import Carried, ErrorTerms, FieldErrors, Lag
from sgdtheory.risk.solvers.collocation import backward_differences, collocation_systems, radau_nodes, tails
from sgdtheory.risk.systems.moments import Keeping
from sgdtheory.risk.thresholds import THRESHOLDS

# Radau points of a panel. The order is fixed: panels adapt by their lengths alone.
ORDER = 5
# Largest share of the risk on a panel that its two highest Legendre coefficients may have. Risks are then right to
# about 1e-6.
TAIL = 1e-3
# Newton's method stops where the risk changes by less than this share of the allowed tail: its error is then small
# beside that of the polynomials.
CONVERGED = 1e-3
# Newton's method that has not converged after this many iterations fails, and the panel is halved.
MOST_ITERATIONS = 10
# The derivatives are computed again after this many iterations if convergence is slow, which costs as much as six to
# ten iterations without them.
RENEWED = 4
# Convergence is slow where a change is more than this share of the one before.
SLOW = 0.1
# A variance below 0 by less than this share of the direction's second moment and of the risk is rounding. A panel with
# a more negative one is refused.
POSSIBLE = 1e-6
# Relative step of numerical derivatives. Newton's method needs them roughly, so that one-sided differences do.
DIFFERENCE = 1e-6
# The learning rate that a segment ends at is that of its end times this number. At the last step itself (1 − u)^0.1 is
# still half of its peak after 1000 steps, and risks of signs were 3e-4 off, because panels did not close in on its end.
BEFORE_END = 1 - 1e-12
# Panels close in on the end of a segment if the last learning rate is below this share of the present one: values
# change on a scale of the distance to the end where γ decays to 0.
FALLEN = 0.2
# A fall of the learning rate is smooth if its two highest Legendre coefficients are below this share of its beginning:
# then one panel of a search may reach its end. Elsewhere covariances with sums of iterates would be off by 1e-4.
SMOOTH_FALL = 1e-4
# Where steps are compiled, so many follow a kink before panels, and shorter panels are stepped through: a panel takes
# as long as a thousand compiled steps. With a quarter as many of a panel searches of Lion took 1.2 times and of signs
# with momentum 1.5 times as long; with twice as many of either or both the same time.
FIRST_COMPILED = 512
SHORTEST_COMPILED = 1024


@dataclass(frozen=True, eq=False)
class MeanField(SingleSteps):
    """S runs of a nonlinear method, computed side by side.

    Attributes:
        course: learning rates and batch sizes of the first run.
        plateaus: whether batch sizes are constant between kinks.
        factors: learning rates of each run, relative to those of `course`.
        rough: whether risks need be right to 1e-5 only, for a search, which also repeats steps so that they are
            compiled.
    """

    course: Course
    plateaus: bool = True
    factors: tuple[float, ...] = (1.0,)
    rough: bool = False

    most_steps: ClassVar[float] = THRESHOLDS.most_steps

    @property
    def tail(self) -> float:
        """Return the largest share of the risk in the two highest Legendre coefficients of a panel."""
        return self.field.rough_tail if self.rough else TAIL

    @property
    def compiled_from(self) -> float:
        """Return the number of single steps from which on they are taken in a compiled loop."""
        return self.field.compiled_from if self.rough else np.inf

    def start(self) -> FieldState:
        """Return the values at w_0, and an empty sum."""
        values = np.repeat(self.field.start(self.ensemble)[:, None], len(self.factors), axis=1)
        nothing = np.zeros_like(values[MEAN])
        return FieldState(values, nothing, np.zeros_like(self.field.with_iterate(values)), nothing)

    def known(self, steps: np.ndarray) -> Known:
        """Return the steps with these numbers, which need not be whole, once for each run."""
        return self._of_one_run(steps).repeated(len(self.factors))._replace(rate=self._rates(steps).reshape(-1, 1))

    def _rates(self, steps: np.ndarray) -> np.ndarray:
        """Return the learning rates (S, N) of all runs."""
        return np.multiply.outer(self.factors, self.course.rates(steps))

    def _of_one_run(self, steps: np.ndarray) -> Known:
        """Return the steps once; batch sizes are rounded unless they change with almost every step."""
        rounded = self.plateaus or np.equal(steps, np.round(steps)).all()
        batches = self.course.batches(steps) if rounded else self.course.smooth_batches(steps)
        batches = np.asarray(batches, dtype=float)
        table = tuple(self.field.looked_up(steps, batches))
        return Known(steps[:, None], self.course.rates(steps)[:, None], batches[:, None], table)

    def total_risk(self, values: np.ndarray) -> np.ndarray:
        """Return the risks R (…,) of values (q, …, K)."""
        weights = self.ensemble.multiplicity
        return values[MEAN] ** 2 @ weights + self.ensemble.frozen + np.maximum(values[VARIANCE], 0.0) @ weights

    def with_sum(self, state: FieldState) -> FieldState:
        """Return the initial state with a sum that holds w_0, which is not random."""
        return state._replace(sum_mean=state.values[MEAN])

    @property
    def frozen(self) -> float:
        """Return the risk of the directions that do not move."""
        return self.ensemble.frozen

    def contributions(self, state: FieldState, own: float, total: float) -> tuple[np.ndarray, np.ndarray]:
        """Return what the mean and the variance of `own u + total sum` contribute to the risk, (S, K) each."""
        iterate, spread = state.values[[MEAN, VARIANCE]]
        mean = own * iterate + total * state.sum_mean
        variance = own**2 * spread + 2 * own * total * state.covariance[0] + total**2 * state.sum_variance
        weights = self.ensemble.multiplicity
        return weights * mean**2, weights * np.maximum(variance, 0.0)

    def initial_error(self) -> FieldErrors:
        """Return the errors of the closure at the start, where there are none."""
        square = self.start().values[MEAN] ** 2
        return FieldErrors(Carried.at_start(square.shape), Lag.at_start(square), self.ensemble.multiplicity)

    def propagated_error(
        self, error: FieldErrors, before: FieldState, after: FieldState, low: float, high: float, kept: float | None
    ) -> FieldErrors:
        """Return the errors of the closure after the steps low … high − 1, which lead from one state to another."""
        return error.moved(self._error_terms(before, low), self._error_terms(after, high - 1), high - low, kept)

    def _error_terms(self, state: FieldState, number: float) -> ErrorTerms:
        """Return the terms on which errors depend at the step with this number."""
        values = state.values
        loss = self.loss(values)
        known = self.with_interactions(values, loss, self.known(np.array([number])))
        mixing = self.mixing(values, loss, known)
        decay = np.broadcast_to(decay_of(mixing), values[MEAN].shape)
        closure = self.field.closure(self.ensemble, possible(values), loss, known, decay)
        fluctuation = shares(self.ensemble, values, loss, known.batch).fluctuation
        square, variance = values[MEAN] ** 2, np.maximum(values[VARIANCE], 0.0)
        pulled = None
        if self.field.weight_decay:
            pulled = np.clip(1 - known.rate * self.field.weight_decay / np.maximum(decay, TINY), 0.0, 1.0)
        return ErrorTerms(square, variance, decay, closure, loss[:, 0], fluctuation, float(known.rate[0, 0]), pulled)

    def stepped(self, state: FieldState, keeping: Keeping, low: float, high: float) -> FieldState:
        """Return the state after the steps low … high − 1, taken one by one."""
        kept = None if keeping.weight == 0 else keeping
        compiled = high - low >= self.compiled_from
        if compiled and low == 0:
            state = self.stepped(state, keeping, 0, 1)
            low = 1
        for begin in np.arange(low, high, TOGETHER):
            steps = np.arange(begin, min(begin + TOGETHER, high))
            known = self._of_one_run(steps)
            rates = self._rates(steps)
            if compiled:
                state = self.compiled(state, kept, known, rates)
                continue
            known = known.repeated(len(self.factors))._replace(rate=rates.reshape(-1, 1))
            for index in range(steps.size):
                state = self.next(state, kept, known.at(slice(index, None, steps.size)))
        return state

    def propagated(
        self, state: FieldState, keeping: Keeping, low: float, high: float, between: tuple[float, float]
    ) -> FieldState:
        """Return the state after the steps low … high − 1 between two kinks: single steps first, then panels."""
        origin, last = between
        compiled = self.compiled_from < np.inf
        first, fewest = (FIRST_COMPILED, SHORTEST_COMPILED) if compiled else (self.field.first, self.field.shortest)
        now = max(low, min(origin + first, high))
        state = self.stepped(state, keeping, low, now)
        # S panels take nearly S times as long as one, and S single steps do not.
        shortest = np.ceil(fewest * np.sqrt(len(self.factors)))
        lengths = PanelLengths(self.tail, ORDER, shortest, origin, last)
        while now < high:
            end = min(now + lengths.longest(now, self._falls(now, last)), high)
            long = end - now >= shortest
            found, tail = self._panel(state, keeping, now, end) if long else (None, 0.0)
            # A panel that fails is shortened until it is the shortest, whose steps are taken one by one.
            if found is None and end - now > shortest:
                lengths.lost(now, end, tail)
                continue
            state = self.stepped(state, keeping, now, end) if found is None else found
            lengths.passed(now, end, tail, found is not None)
            now = end
        return state

    def _falls(self, now: float, last: float) -> bool:
        """Return whether learning rates fall to next to nothing, and not like a polynomial."""
        nodes = now + (radau_nodes(ORDER) + 1) / 2 * (last * BEFORE_END - now)
        rates = self.course.rates(nodes)
        smooth = self.rough and bool(tails(rates, rates[0]) <= SMOOTH_FALL)
        return rates[-1] < FALLEN * rates[0] and not smooth

    def _panel(self, state: FieldState, keeping: Keeping, low: float, high: float) -> tuple[FieldState | None, float]:
        """Return the state at the end of a panel, None where polynomials do not fit, and the tail, 0 if unknown."""
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
        return self._with_sums(state, found, keeping, difference, before, known, high - low), tail

    @staticmethod
    def _tail(risk: np.ndarray) -> float:
        """Return the largest share of the two highest polynomials in the risk (S, p + 1) of any run."""
        return float(tails(risk, np.finfo(float).tiny).max())

    def _newton(self, state: FieldState, difference: np.ndarray, before: np.ndarray, known: Known) -> np.ndarray | None:
        """Return the values at the nodes, (q, S, p + 1, K), or None where Newton's method fails.

        It stops early where the tail is already too large for the panel to be accepted.
        """
        values = np.repeat(state.values[:, :, None], ORDER + 1, axis=2)
        risk = np.full(values.shape[1:3], np.inf)
        gap = gap_before = np.inf
        since = 0
        for iteration in range(MOST_ITERATIONS):
            # The change of a step depends on the values before it.
            there = before @ values
            rows = _rows(there)
            loss = self.loss(rows)
            known = self.with_interactions(rows, loss, known)
            changed = self.change(rows, loss, known)
            if iteration == 0 or (since >= RENEWED and gap > SLOW * gap_before):
                since = 0
                try:
                    jacobian = self._jacobian(there, loss, changed, difference, before, known)
                except np.linalg.LinAlgError:  # singular
                    return None
                if jacobian is None:
                    return None
            # Backward differences have to equal the changes: Newton's method removes what is missing.
            values[:, :, 1:] += jacobian.correction(changed.reshape(there.shape) - difference @ values)
            now = self.total_risk(values)
            if not np.isfinite(now).all():
                return None
            gap_before = gap
            gap = float((np.abs(now - risk) / now).max())
            # Further changes are smaller than `gap`: a tail that exceeds the limit by twice as much stays too large.
            hopeless = iteration > 0 and self._tail(now) > self.tail + 2 * gap
            if gap <= CONVERGED * self.tail or hopeless:
                return values
            risk = now
            since += 1
        return None

    def _jacobian(
        self,
        there: np.ndarray,
        loss: np.ndarray,
        changed: np.ndarray,
        difference: np.ndarray,
        before: np.ndarray,
        known: Known,
    ) -> PanelJacobian | None:
        """Return the inverse derivatives of the equations, by differences; None where they are not finite."""
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
        by_sum = np.moveaxis(at_points @ shared, 2, 3).reshape(runs, size, p * q, p * sums)
        sum_by_value = np.zeros((runs, size, p, sums, p, q))
        own = self._sum_derivatives(there).transpose(2, 4, 3, 0, 1)
        sum_by_value[..., [MEAN, VARIANCE]] = own[:, :, :, :, None] * before[:, None, 1:, None]
        sum_by_value = sum_by_value.reshape(runs, size, p * sums, p * q)
        # The sums are the unknowns of one small system, once every mode's response to them is known.
        coupling = np.linalg.inv(np.eye(p * sums) - (sum_by_value @ by_sum).sum(axis=1))
        return PanelJacobian(inverse, by_sum, sum_by_value, coupling)

    def _derivatives(
        self, there: np.ndarray, loss: np.ndarray, changed: np.ndarray, known: Known
    ) -> tuple[np.ndarray, np.ndarray]:
        """Return derivatives of the change by the values, (q, q, P, K), and by the sums, (q, Q, P, K)."""
        q, rows, size = there.shape
        sums = loss.shape[1]
        scales = np.append(self.field.scales(there), np.broadcast_to(loss.T[..., None], (sums, rows, size)), axis=0)
        apart = DIFFERENCE * scales
        # One call has all differences: a copy of the values for every row, and one for every sum.
        moved = np.repeat(there[:, None], q + sums, axis=1)
        moved[range(q), range(q)] += apart[:q]
        losses = np.repeat(loss[None], q + sums, axis=0)
        losses[range(q, q + sums), :, range(sums)] += DIFFERENCE * loss.T
        every = self.change(moved.reshape(q, -1, size), losses.reshape(-1, sums), known.repeated(q + sums))
        slopes = (every.reshape(q, q + sums, rows, size) - changed[:, None]) / apart
        return slopes[:, :q], slopes[:, q:]

    def _sum_derivatives(self, there: np.ndarray) -> np.ndarray:
        """Return the derivatives of the sums by mean and variance, (Q, 2, S, p, K)."""
        own = np.stack([2 * there[MEAN], np.where(there[VARIANCE] > 0, 1.0, 0.0)])
        return own * self.field.totals(self.ensemble)[:, None, None, None]

    def _with_sums(
        self,
        state: FieldState,
        values: np.ndarray,
        keeping: Keeping,
        difference: np.ndarray,
        before: np.ndarray,
        known: Known,
        steps: float,
    ) -> FieldState:
        """Return the state after a panel; the moments of the average's sum are linear in those before it."""
        there = before @ values
        rows = _rows(there)
        loss = self.loss(rows)
        known = self.with_interactions(rows, loss, known)
        mixing = self.mixing(rows, loss, known)
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
        # Var S gains 2ρω Cov(S, u) + ω² Var u in a step, of which the covariance is known by now.
        forcing = 2 * rho * omega * (before @ shared[0]) + omega**2 * variance
        squares = solve(state.sum_variance.reshape(1, -1), rho**2 * one, forcing[None])
        # Means that turn by a factor −f in every step have the sum (ρⁿ u_0 − u_n)/(ρ + f), u_n with its sign.
        turning = self.field.turning(self.ensemble, rows, loss, known)
        turning = _modes(turning.reshape(there.shape[1:]))
        sums = solve(state.sum_mean.reshape(1, -1), rho * one, omega * np.where(turning < 0, 0.0, mean)[None])[0, -1]
        ended = values[:, :, -1].copy()
        first, last = turning[[0, -1]]
        ended[MEAN] *= np.where((last < 0) & (steps % 2 == 1), -1.0, 1.0).reshape(shape)
        begun, end = state.values[MEAN].ravel(), ended[MEAN].ravel()
        sums += omega * ((first < 0) * rho**steps * begun / (rho - first) - (last < 0) * end / (rho - last))
        covariance, variance = shared[:, -1].reshape(-1, *shape), squares[0, -1].reshape(shape)
        return FieldState(ended, sums.reshape(shape), covariance, variance)


def _rows(values: np.ndarray) -> np.ndarray:
    """Return values (q, S, p, K) as rows of one table, (q, S p, K)."""
    return values.reshape(values.shape[0], -1, values.shape[-1])


def _modes(values: np.ndarray) -> np.ndarray:
    """Return values (…, S, p, K) as if all runs were modes of one run, (…, p, S K)."""
    moved = np.moveaxis(values, -3, -2)
    return moved.reshape(*moved.shape[:-2], -1)


def _linear(difference: np.ndarray, start: np.ndarray, mixing: np.ndarray, forcing: np.ndarray) -> np.ndarray:
    """Return the f (k, p + 1, K) with `f(t_j) = M_j f(t_j − 1) + forcing_j`.

    Args:
        difference: (p, p + 1) matrix of backward differences.
        start: (k, K) f at the beginning of the panel.
        mixing: (k, k, p, K) M_j.
        forcing: (k, p, K).
    """
    decay = np.moveaxis(np.eye(len(mixing))[..., None, None] - mixing, 2, 0)
    system = collocation_systems(decay[None], difference[None])
    values = system.values(start[None, :, None], forcing.swapaxes(0, 1)[None, :, :, None])[0, :, :, 0]
    return np.concatenate([start[:, None], values.swapaxes(0, 1)], axis=1)
