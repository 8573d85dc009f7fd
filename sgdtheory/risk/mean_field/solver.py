"""Runs of a nonlinear method's deterministic equivalent: step by step, and many steps at once on panels.

Every direction has q values, of which the first two are a mean and a variance. Their change in a step depends on these
values and on the loss T = σ² + R, a sum over all directions (`field`). On a collocation panel the values are
polynomials in the step number, which Newton's method finds (`newton_panels`).

S runs that differ only in their learning rates are computed side by side, on the same panels: with few modes three of
them take little longer than one. A field sees their steps as rows of one table, run by run.
"""

from dataclasses import dataclass
from functools import partial
from typing import ClassVar, NamedTuple

import numpy as np

from sgdtheory.algorithms import Course
from sgdtheory.risk.mean_field.closure import decay_of, shares
from sgdtheory.risk.mean_field.ensemble import TINY
from sgdtheory.risk.mean_field.field import MEAN, VARIANCE, Known
from sgdtheory.risk.mean_field.newton_panels import ORDER, TAIL, NewtonPanels, Panel, PanelValues, as_rows
from sgdtheory.risk.mean_field.panel_lengths import PanelLengths
from sgdtheory.risk.mean_field.panel_memory import PanelMemory, Piece
from sgdtheory.risk.mean_field.single_steps import TOGETHER, FieldState, possible
from sgdtheory.risk.mean_field.stated_error import Carried, ErrorTerms, FieldErrors, Lag
from sgdtheory.risk.solvers.collocation import backward_differences, collocation_systems, radau_nodes, tails
from sgdtheory.risk.systems.moments import Keeping
from sgdtheory.risk.thresholds import THRESHOLDS

# A variance below 0 by less than this share of the direction's second moment and of the risk is rounding. A panel with
# a more negative one is refused.
POSSIBLE = 1e-6
# The learning rate that a segment ends at is that of its end times this number. At the last step itself (1 − u)^0.1 is
# still half of its peak after 1000 steps, and risks of signs were 3e-4 off, because panels did not close in on its end.
BEFORE_END = 1 - 1e-12
# Panels close in on the end of a segment if the last learning rate is below this share of the present one: values
# change on a scale of the distance to the end where γ decays to 0.
FALLEN = 0.2
# A fall of the learning rate is smooth if its two highest Legendre coefficients are below this share of its beginning:
# then one panel of a search may reach its end. Elsewhere covariances with sums of iterates would be off by 1e-4.
SMOOTH_FALL = 1e-4


class PanelEnd(NamedTuple):
    """State at the end of a panel, None where polynomials do not fit; the tail, 0 if unknown; and the solution."""

    state: FieldState | None
    tail: float
    solution: PanelValues | None


NO_PANEL = PanelEnd(None, 0.0, None)


@dataclass(frozen=True, eq=False)
class MeanField(NewtonPanels):
    """S runs of a nonlinear method, computed side by side.

    Attributes:
        course: learning rates and batch sizes of the first run.
        plateaus: whether batch sizes are constant between kinks.
        factors: learning rates of each run, relative to those of `course`.
        rough: whether risks need be right to 1e-5 only, for a search, which also repeats steps so that they are
            compiled.
        memory: panels of the runs of a search, which the next run of it begins with.
    """

    course: Course
    plateaus: bool = True
    factors: tuple[float, ...] = (1.0,)
    rough: bool = False
    memory: PanelMemory | None = None

    most_steps: ClassVar[float] = THRESHOLDS.most_steps

    @property
    def tail(self) -> float:
        """Return the largest share of the risk in the two highest Legendre coefficients of a panel."""
        return self.field.rough_tail if self.rough else TAIL

    @property
    def compiled_from(self) -> float:
        """Return the number of single steps from which on they are taken in a compiled loop."""
        repeated = self.rough and self.course.batch >= self.field.compiled_batch
        return self.field.compiled_from if repeated else np.inf

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
        field = self.field
        first = field.first_compiled if compiled else field.first
        fewest = field.shortest_compiled if compiled else field.shortest
        now = max(low, min(origin + first, high))
        state = self.stepped(state, keeping, low, now)
        # S panels take nearly S times as long as one, and S single steps do not.
        shortest = np.ceil(fewest * np.sqrt(len(self.factors)))
        lengths = PanelLengths(self.tail, ORDER, shortest, origin, last)
        remembered = (self.memory or PanelMemory()).segment()
        while now < high:
            piece = remembered.next(now, high)
            end = piece.end if piece else min(now + lengths.longest(now, self._falls(now, last)), high)
            by_panel = bool(piece.solution) if piece else end - now >= shortest
            panel = self._panel(state, keeping, now, end, piece and piece.solution) if by_panel else NO_PANEL
            # A panel that fails is shortened until it is the shortest, whose steps are taken one by one.
            if by_panel and panel.state is None and (piece or end - now > shortest):
                remembered.forget()
                lengths.lost(now, end, panel.tail)
                continue
            state = panel.state or self.stepped(state, keeping, now, end)
            lengths.passed(now, end, panel.tail, panel.state is not None)
            remembered.add(Piece(end, panel.solution))
            now = end
        return state

    def _falls(self, now: float, last: float) -> bool:
        """Return whether learning rates fall to next to nothing, and not like a polynomial."""
        nodes = now + (radau_nodes(ORDER) + 1) / 2 * (last * BEFORE_END - now)
        rates = self.course.rates(nodes)
        smooth = self.rough and bool(tails(rates, rates[0]) <= SMOOTH_FALL)
        return rates[-1] < FALLEN * rates[0] and not smooth

    def _panel(
        self, state: FieldState, keeping: Keeping, low: float, high: float, guess: PanelValues | None
    ) -> PanelEnd:
        """Return the end of a panel, without a state where polynomials do not fit."""
        nodes = low + (radau_nodes(ORDER) + 1) / 2 * (high - low)
        difference = backward_differences(ORDER, np.array([high - low]))[0]
        panel = Panel(state.values, difference, self.known(nodes[1:] - 1)._replace(smooth=True))
        solution = self.solved(panel, guess)
        if solution is None:
            return NO_PANEL
        found = solution.values
        risk = self.total_risk(found)
        impossible = found[VARIANCE] < -POSSIBLE * (found[MEAN] ** 2 + risk[..., None])
        tail = self.tail_of(risk)
        if tail > self.tail or impossible.any():
            return PanelEnd(None, tail, None)
        if keeping.weight == 0:
            return PanelEnd(state._replace(values=found[:, :, -1]), tail, solution)
        return PanelEnd(self._with_sums(state, found, keeping, panel, high - low), tail, solution)

    def _with_sums(
        self,
        state: FieldState,
        values: np.ndarray,
        keeping: Keeping,
        panel: Panel,
        steps: float,
    ) -> FieldState:
        """Return the state after a panel; the moments of the average's sum are linear in those before it."""
        before, known = panel.before, panel.known
        there = before @ values
        rows = as_rows(there)
        loss = self.loss(rows)
        known = self.with_interactions(rows, loss, known)
        mixing = self.mixing(rows, loss, known)
        mixing = _modes(mixing.reshape(*mixing.shape[:2], *there.shape[1:]))
        shape = state.sum_mean.shape
        with_iterate = _modes(self.field.with_iterate(there))
        mean, variance = _modes(there[[MEAN, VARIANCE]])
        rho = 1 - keeping.forgetting
        omega = keeping.weight
        solve = partial(_linear, panel.difference)
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
