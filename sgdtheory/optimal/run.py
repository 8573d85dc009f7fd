"""The exact risk of SGD under any learning rates and batch sizes, and its gradient (THEORY.md T26).

Learning rate and batch size are given at knots; in between `log γ` and `log B` are linear in `log((t + 1)/(n − t))`:
knots at equal distances in that lie dense at both ends of a run. Short pieces between knots are stepped through, long
ones are panels of collocation (T24). The gradient is that of the numbers computed, backwards through the same steps and
the same systems of equations: it costs less than the risk.
"""

from typing import NamedTuple

import numpy as np

from sgdtheory.algorithms import AbstractAverage, LastIterate
from sgdtheory.problems import Modes
from sgdtheory.risk import backward_differences, collocation_systems, radau_nodes

SHORT = 24  # steps: longer pieces are panels
ORDER = 7  # points on a panel
WIDEST = 0.7  # of a panel in `place`: it doubles the distance from the nearer end of the run


def place(step: np.ndarray, num_steps: float) -> np.ndarray:
    """log((t + 1)/(n − t)): rises by 2 log n, with equal room for the beginning and for the end of a run."""
    return np.log((step + 1) / (num_steps - step))


def spread_knots(num_steps: float, spacing: float) -> np.ndarray:
    """Steps from 0 to n − 1 whose places lie `spacing` apart, as nearly as whole numbers can."""
    low, high = place(np.array([0.0, num_steps - 1]), num_steps)
    wanted = np.linspace(low, high, max(2, int(np.ceil((high - low) / spacing)) + 1))
    step = np.round((num_steps + 1) / (1 + np.exp(-wanted)) - 1)
    return np.unique(np.concatenate([[0.0], step, [num_steps - 1]]).clip(0, num_steps - 1))


def _cut(knots: np.ndarray, num_steps: float, widest: float) -> np.ndarray:
    """Steps that cut what lies between two knots into pieces at most about `widest` wide, the knots among them."""
    places = place(knots, num_steps)
    pieces = np.maximum(1, np.ceil(np.diff(places) / widest - 0.1)).astype(int)
    share = np.concatenate([number + np.arange(each) / each for number, each in enumerate(pieces)])
    wanted = np.interp(share, np.arange(knots.size), places)
    return np.append(np.round((num_steps + 1) / (1 + np.exp(-wanted)) - 1), num_steps - 1)


class Panels(NamedTuple):
    """What does not depend on γ and B, for L panels: steps of the equations (L, p), where they lie, differences."""

    step: np.ndarray
    interval: np.ndarray
    share: np.ndarray
    difference: np.ndarray
    before: np.ndarray


class Where(NamedTuple):
    """Of steps (T,): the interval between knots, and the share of the way through it."""

    interval: np.ndarray
    share: np.ndarray


def _between(where: Where, at_knots: np.ndarray) -> np.ndarray:
    """Values from their logarithms at the knots."""
    return np.exp((1 - where.share) * at_knots[where.interval] + where.share * at_knots[where.interval + 1])


class State(NamedTuple):
    """Second moments of the directions, r and x (K,), and Σ S² (THEORY.md T20); or the derivatives by them."""

    risk: np.ndarray
    cross: np.ndarray
    square: float


class Kept(NamedTuple):
    """`S ← ρS + ωw`: 1 − ρ and ω; both 0 before the average begins, and for the last iterate."""

    forgetting: float
    weight: float


NOTHING = Kept(0.0, 0.0)


class Gradient(NamedTuple):
    """The risk and its derivatives by log γ and log B at the knots."""

    risk: float
    rate: np.ndarray
    batch: np.ndarray


class Run:
    """A run of n steps, ready for any values at its knots.

    Args:
        modes: directions, weighted.
        noise_variance: σ².
        num_steps: n ≥ 2.
        knots: (J,) steps, increasing from 0 to n − 1.
        average: what is returned.
        widest: of a panel, in `place`.
    """

    def __init__(
        self,
        modes: Modes,
        noise_variance: float,
        num_steps: float,
        knots: np.ndarray,
        average: AbstractAverage = LastIterate(),  # noqa: B008 (frozen)
        widest: float = WIDEST,
    ) -> None:
        self.modes, self.noise, self.num_steps, self.knots = modes, noise_variance, num_steps, knots
        self.average = average
        self.first_averaged = min(average.first(num_steps), num_steps)
        self.kept = Kept(average.forgetting(num_steps), average.weight(num_steps))
        self.places = place(knots, num_steps)
        cuts = _cut(knots, num_steps, widest)
        self.edges = np.unique(np.concatenate([cuts, [self.first_averaged, num_steps]]))  # of the pieces
        length = np.diff(self.edges)
        self.panel = np.where(length > SHORT, np.cumsum(length > SHORT) - 1, -1)  # number of a piece's panel, or −1
        low, size = self.edges[:-1][length > SHORT], length[length > SHORT]
        step = low[:, None] + (radau_nodes(ORDER)[1:] + 1) / 2 * size[:, None] - 1
        interval, share = self._where(step, low)
        difference = backward_differences(ORDER, size)
        self.panels = Panels(step, interval, share, difference, np.eye(ORDER + 1)[1:] - difference)

    def _where(self, step: np.ndarray, first: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        """Intervals between knots in which pieces (…,) begin, and how far between their knots the steps (…, T) lie."""
        interval = np.searchsorted(self.knots, first, side="right") - 1
        interval = np.minimum(interval, self.knots.size - 2)[..., None]
        low, high = self.places[interval], self.places[interval + 1]
        return np.broadcast_to(interval, step.shape), (place(step, self.num_steps) - low) / (high - low)

    def risk_and_gradient(self, log_rate: np.ndarray, log_batch: np.ndarray) -> Gradient:
        """For `log γ` and `log B` at the knots, (J,) each."""
        panels = self._panels(log_rate, log_batch)
        rows = [
            panels[number] if number >= 0 else self._steps(piece, log_rate, log_batch)
            for piece, number in enumerate(self.panel)
        ]
        state = self._start()
        for row in rows:
            state = row.forward(state)
        by_rate, by_batch = np.zeros_like(log_rate), np.zeros_like(log_rate)
        risk, adjoint = self._returned(state)
        for row in reversed(rows):
            adjoint, rates, batches = row.backward(adjoint)
            for total, values in ((by_rate, rates), (by_batch, batches)):
                np.add.at(total, row.where.interval, (1 - row.where.share) * values)
                np.add.at(total, row.where.interval + 1, row.where.share * values)
        return Gradient(risk, by_rate, by_batch)

    def _start(self) -> State:
        signal = self.modes.signal
        if self.average.starts_at_iterate():
            return State(signal, signal, float(signal.sum()))
        return State(signal, np.zeros_like(signal), 0.0)

    def _returned(self, end: State) -> tuple[float, State]:
        """The risk of what is returned, and its derivatives by the moments at the end."""
        a, c = self.average.returned(self.num_steps, self.num_steps)
        risk = a**2 * end.risk.sum() + 2 * a * c * end.cross.sum() + c**2 * end.square
        one = np.ones_like(end.risk)
        return float(risk), State(a**2 * one, 2 * a * c * one, c**2)

    def num_samples(self, log_batch: np.ndarray) -> tuple[float, np.ndarray]:
        """Σ B_t, and its derivatives by log B at the knots."""
        total, by_batch = 0.0, np.zeros_like(log_batch)
        for piece, number in enumerate(self.panel):
            where = self._piece(piece, number)
            sizes = _between(where, log_batch)
            if number >= 0:  # the equations of N(t + 1) = N(t) + B_t, solved for its last value
                sizes = sizes * np.linalg.inv(self.panels.difference[number][:, 1:])[-1]
            total += float(sizes.sum())
            np.add.at(by_batch, where.interval, (1 - where.share) * sizes)
            np.add.at(by_batch, where.interval + 1, where.share * sizes)
        return total, by_batch

    def _piece(self, piece: int, number: int) -> Where:
        if number >= 0:
            return Where(self.panels.interval[number], self.panels.share[number])
        step = np.arange(self.edges[piece], self.edges[piece + 1])
        return Where(*self._where(step, self.edges[piece]))

    def _steps(self, piece: int, log_rate: np.ndarray, log_batch: np.ndarray) -> "_Steps":
        where = self._piece(piece, -1)
        return _Steps(self, where, _between(where, log_rate), _between(where, log_batch), self._keeping(piece))

    def _keeping(self, piece: int) -> Kept:
        return self.kept if self.edges[piece] >= self.first_averaged else NOTHING

    def _panels(self, log_rate: np.ndarray, log_batch: np.ndarray) -> "list[_Panel]":
        """All panels, their systems inverted together."""
        where = Where(self.panels.interval, self.panels.share)
        rate, batch = _between(where, log_rate), _between(where, log_batch)
        x = rate[..., None] * self.modes.eigenvalue  # (L, p, K)
        noise = x**2 / batch[..., None]
        own = self._systems(x * (2 - x) - noise)
        kept = [self._keeping(piece) for piece in np.flatnonzero(self.panel >= 0).tolist()]
        averaged = any(each.weight for each in kept)
        average = self._systems(1 - (1 - self.kept.forgetting) * (1 - x)) if averaged else [None] * len(kept)
        drive = noise * self.modes.multiplicity
        return [
            _Panel(_Steps(self, self._piece(-1, k), rate[k], batch[k], kept[k]), drive[k], own[k], average[k])
            for k in range(len(rate))
        ]

    def _systems(self, decay: np.ndarray) -> "list[_System]":
        """Of all panels: `f(t + 1) = (1 − decay) f(t) + …`, decay (L, p, K)."""
        found = collocation_systems(decay[:, :, None, None], self.panels.difference)
        before = enumerate(self.panels.before)
        return [_System(each, found.first[:, 0, 0, k], found.inverse[:, :, k]) for k, each in before]


class _System(NamedTuple):
    """The equations of a panel for numbers f of the directions.

    Attributes:
        before: (p, p + 1) f one step before the equations, from f at the nodes.
        first: (p, K) what multiplies f at the start.
        inverse: (p, p, K) of what multiplies f at the other nodes.
    """

    before: np.ndarray
    first: np.ndarray
    inverse: np.ndarray

    def nodes(self, start: np.ndarray, forcing: np.ndarray) -> np.ndarray:
        """f at the nodes but the start, (p, K)."""
        return np.einsum("njk,jk->nk", self.inverse, forcing - self.first * start)

    def ahead(self, start: np.ndarray, nodes: np.ndarray) -> np.ndarray:
        """f one step before the equations, (p, K)."""
        return np.outer(self.before[:, 0], start) + self.before[:, 1:] @ nodes

    def multipliers(self, by_nodes: np.ndarray) -> np.ndarray:
        """Derivatives by the forcing from those by the nodes, (p, K)."""
        return np.einsum("njk,nk->jk", self.inverse, by_nodes)

    def by_start(self, multipliers: np.ndarray) -> np.ndarray:
        """Derivatives by f at the start, through the equations."""
        return -np.einsum("jk,jk->k", self.first, multipliers)


class _Steps:
    """A few single steps, with γ, B (T,)."""

    def __init__(self, run: Run, where: Where, rate: np.ndarray, batch: np.ndarray, kept: Kept) -> None:
        self.modes, self.noise, self.where = run.modes, run.noise, where
        self.rate, self.batch, self.kept = rate, batch, kept

    def forward(self, state: State) -> State:
        """Moments after the steps."""
        self.states = []
        for rate, batch in zip(self.rate, self.batch, strict=True):
            self.states.append(state)
            risk, cross, square = state
            x = rate * self.modes.eigenvalue
            v = x**2 / batch
            if self.kept.weight:
                rho, omega = 1 - self.kept.forgetting, self.kept.weight
                square = rho**2 * square + float(2 * rho * omega * cross.sum() + omega**2 * risk.sum())
                cross = (1 - x) * (rho * cross + omega * risk)
            shaken = v * (risk + self.modes.multiplicity * (risk.sum() + self.noise))
            state = State((1 - x) ** 2 * risk + shaken, cross, square)
        return state

    def backward(self, adjoint: State) -> tuple[State, np.ndarray, np.ndarray]:
        """T26: derivatives by the moments before the steps, from those after them, and by log γ_t and log B_t."""
        by_rate, by_batch = np.empty_like(self.rate), np.empty_like(self.rate)
        for t in range(self.rate.size - 1, -1, -1):
            state, x = self.states[t], self.rate[t] * self.modes.eigenvalue
            v = x**2 / self.batch[t]
            shaken = v * (state.risk + self.modes.multiplicity * (state.risk.sum() + self.noise))
            by_batch[t] = -adjoint.risk @ shaken
            by_rate[t] = adjoint.risk @ (2 * shaken - 2 * x * (1 - x) * state.risk)
            risk, cross, square = adjoint
            before = ((1 - x) ** 2 + v) * risk + (risk * v) @ self.modes.multiplicity
            if self.kept.weight:
                rho, omega = 1 - self.kept.forgetting, self.kept.weight
                by_rate[t] -= cross @ (x * (rho * state.cross + omega * state.risk))
                before = before + omega * (1 - x) * cross + omega**2 * square
                cross, square = rho * (1 - x) * cross + 2 * rho * omega * square, rho**2 * square
            adjoint = State(before, cross, square)
        return adjoint, by_rate, by_batch


class _Panel:
    """Many steps by collocation, with γ, B (p,) at its nodes.

    Equations j = 1 … p: `Σ_n (difference + d_j before)_jn r_n = drive_j (P_j + σ²)`, `P_j = Σ_i Σ_n before_jn r_n`, and
    likewise for x and Σ S².
    """

    def __init__(self, steps: _Steps, drive: np.ndarray, own: _System, average: _System | None) -> None:
        self.where, self.noise, self.kept = steps.where, steps.noise, steps.kept
        self.x, self.batch = steps.rate[:, None] * steps.modes.eigenvalue, steps.batch
        self.drive, self.own, self.average = drive, own, average
        forced = np.einsum("njk,jk->nj", own.inverse, drive)  # Σ_i r at the nodes for a unit of noise at an equation
        self.before = own.before
        self.coupling = np.linalg.inv(np.eye(ORDER) - self.before[:, 1:] @ forced)
        if self.kept.weight:  # the equations of Σ S²
            self.loss = self.kept.forgetting * (2 - self.kept.forgetting)
            equations = np.eye(ORDER + 1)[1:] - (1 - self.loss) * self.before
            self.square_first, self.square_last = equations[:, 0], np.linalg.inv(equations[:, 1:])[-1]

    def forward(self, state: State) -> State:
        """Moments at the end."""
        free = self.own.nodes(state.risk, np.zeros_like(self.drive))
        seen = self.before[:, 0] * state.risk.sum() + self.before[:, 1:] @ free.sum(1)
        self.risk = self.coupling @ (seen + self.noise)  # P_j + σ²
        nodes = self.own.nodes(state.risk, self.drive * self.risk[:, None])
        self.ahead = self.own.ahead(state.risk, nodes)
        if not (self.kept.weight and self.average):
            return state._replace(risk=nodes[-1])
        rho, omega = 1 - self.kept.forgetting, self.kept.weight
        cross = self.average.nodes(state.cross, omega * (1 - self.x) * self.ahead)
        self.cross_ahead = self.average.ahead(state.cross, cross)
        gained = 2 * rho * omega * self.cross_ahead.sum(1) + omega**2 * self.ahead.sum(1)
        return State(nodes[-1], cross[-1], float(self.square_last @ (gained - self.square_first * state.square)))

    def backward(self, adjoint: State) -> tuple[State, np.ndarray, np.ndarray]:
        """As `_Steps.backward`, by the transposed systems."""
        by_nodes, by_cross = np.zeros_like(self.drive), np.zeros_like(self.drive)
        by_nodes[-1] = adjoint.risk
        before = np.zeros_like(self.drive)
        cross, square, by_rate = adjoint.cross, adjoint.square, np.zeros(ORDER)
        if self.kept.weight and self.average:
            rho, omega = 1 - self.kept.forgetting, self.kept.weight
            last = self.square_last * adjoint.square  # multipliers of the equations of Σ S²
            by_cross[:] = 2 * rho * omega * (self.before[:, 1:].T @ last)[:, None]
            by_cross[-1] += adjoint.cross
            multipliers = self.average.multipliers(by_cross)
            before = omega * (1 - self.x) * multipliers + omega**2 * last[:, None]  # by r ahead of the equations
            by_nodes += self.before[:, 1:].T @ before
            by_rate -= (multipliers * self.x * (rho * self.cross_ahead + omega * self.ahead)).sum(1)
            cross = self.average.by_start(multipliers) + 2 * rho * omega * (self.before[:, 0] @ last)
            square = -float(self.square_first @ last)
        own = self.own.multipliers(by_nodes)
        joint = self.coupling.T @ (self.drive * own).sum(1)  # derivatives by P_j
        own += np.einsum("njk,n->jk", self.own.inverse, self.before[:, 1:].T @ joint)
        start = self.before[:, 0] @ (joint[:, None] + before) + self.own.by_start(own)
        shaken = self.x**2 / self.batch[:, None] * self.ahead + self.drive * self.risk[:, None]
        by_rate += (own * (2 * shaken - 2 * self.x * (1 - self.x) * self.ahead)).sum(1)
        return State(start, cross, square), by_rate, -(own * shaken).sum(1)
