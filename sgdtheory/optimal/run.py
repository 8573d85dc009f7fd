"""The exact risk of SGD under any learning rates and batch sizes, and its gradient (THEORY.md T26).

Learning rate and batch size are given at knots. Short segments between knots are stepped through, long ones are
collocation panels (T24). The gradient is that of the computed numbers, by the adjoint of the same steps and the same
systems of equations, and costs less than the risk. (JAX derives the same gradient, but compiling it takes as long as a
whole search, 0.8 to 2.7 s for each number of knots, and it runs no faster.)
"""

from abc import ABC, abstractmethod
from typing import NamedTuple

import numpy as np

from sgdtheory.algorithms import AbstractAverage, LastIterate
from sgdtheory.optimal.knots import cut, interpolation
from sgdtheory.problems import Modes
from sgdtheory.risk import backward_differences, collocation_systems, radau_nodes

SHORT = 24  # A segment of more steps is a panel: stepping through fewer takes less time (benchmarks.optimal_schedule).
# A panel has this many points: with panels of width WIDEST the risk is right to 1e-5 (tests/optimal/test_run.py).
ORDER = 7
WIDEST = 0.7  # A panel has this width in `place`: it doubles the distance from the nearer end of the run.
TOGETHER = 3e5  # Moments of all schedules that are computed at once stay in the cache up to this number.


class Gradient(NamedTuple):
    """Risk, and its derivatives by log γ and log B at the knots: () and (J,) each, or (S,) and (S, J) each."""

    risk: np.ndarray
    rate: np.ndarray
    batch: np.ndarray


class AbstractRun(ABC):
    """Run whose log γ and log B are given at knots: derive from it, and compute its risk.

    Attributes:
        num_steps: n.
        knots: (J,) steps, increasing from 0 to n − 1.
        between: (J, E) takes values at the knots to the steps of E equations.
        weight: (E,) by which a sum over the steps weighs values at the equations.
    """

    num_steps: float
    knots: np.ndarray
    between: np.ndarray
    weight: np.ndarray

    @abstractmethod
    def risk_and_gradient(self, log_rate: np.ndarray, log_batch: np.ndarray) -> Gradient:
        """Return the risk and its gradient for `log γ` and `log B` at the knots, (J,) or (S, J) each."""

    def num_samples(self, log_batch: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        """Return Σ B_t and its derivatives by log B at the knots, for log B (J,) or (S, J)."""
        sizes = np.exp(log_batch @ self.between) * self.weight
        return sizes.sum(-1), sizes @ self.between.T


class Run(AbstractRun):
    """Run of n steps, ready for any values at its knots.

    The moments of the directions are r and, where iterates are averaged, their cross moments x with the sum S and
    Σ S² (THEORY.md T20). They obey the recursion at E equations: single steps, and the nodes of panels.

    Args:
        modes: K directions, weighted.
        noise_variance: σ².
        num_steps: n ≥ 2.
        knots: (J,) steps, increasing from 0 to n − 1.
        average: what is returned.
        widest: width of a panel, in `place`.
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
        self.modes = modes
        self.noise = noise_variance
        self.num_steps = num_steps
        self.knots = knots
        self.average = average
        self.rho = 1 - average.forgetting(num_steps)
        self.omega = average.weight(num_steps)
        self.first = min(average.first(num_steps), num_steps)
        self.averaged = self.first < num_steps
        edges = np.unique(np.concatenate([cut(knots, num_steps, widest), [self.first, num_steps]]))
        self.segments: list[_Steps | _Panel] = []
        number = 0  # of equations
        for low, high in zip(edges[:-1], edges[1:], strict=True):
            kind = _Panel if high - low > SHORT else _Steps
            self.segments.append(kind(self, low, high, number))
            number = self.segments[-1].rows.stop
        self.weight = np.concatenate([segment.weight for segment in self.segments])
        steps = np.concatenate([segment.step for segment in self.segments])
        # Equations of a panel may lie a little before its first step: they belong to the interval of that step.
        begins = np.concatenate([np.full(segment.step.size, segment.low) for segment in self.segments])
        self.between = interpolation(steps, begins, knots, num_steps)
        self.together = max(int(TOGETHER / (number * modes.eigenvalue.size)), 1)
        self.returned = average.returned(num_steps, num_steps)
        # Σ S² ← ρ² Σ S² + gain knows neither γ nor B: these are the derivatives of the risk by the gains.
        kept = self.returned.total**2 * self.rho ** (2 * (num_steps - 1 - steps))
        self.by_square = np.where(begins >= self.first, kept * self.weight, 0.0)
        begun = self.returned.total**2 * self.rho ** (2 * num_steps) * average.starts_at_iterate()
        self.square = begun * float(modes.signal.sum())

    def risk_and_gradient(self, log_rate: np.ndarray, log_batch: np.ndarray) -> Gradient:
        """Return the risk and its gradient for `log γ` and `log B` at the knots, (J,) or (S, J) each."""
        rates, batches = np.atleast_2d(log_rate), np.atleast_2d(log_batch)
        parts = [slice(k, k + self.together) for k in range(0, len(rates), self.together)]
        found = [self._at_equations(rates[part], batches[part]) for part in parts]
        risk, by_rate, by_batch = (np.concatenate(each) for each in zip(*found, strict=True))
        shape = np.shape(log_rate)
        return Gradient(risk.reshape(shape[:-1])[()], by_rate.reshape(shape), by_batch.reshape(shape))

    def _at_equations(self, log_rate: np.ndarray, log_batch: np.ndarray) -> Gradient:
        """Return the risk forwards through the segments and the gradient backwards."""
        here = _Equations(self, np.exp(log_rate @ self.between).T, np.exp(log_batch @ self.between).T)
        signal = np.tile(self.modes.signal, (len(log_rate), 1))
        end = State(signal, signal * self.average.starts_at_iterate())
        for segment in self.segments:
            end = segment.forward(here, end)
        a, c = self.returned
        # The risk of a w + c S is a² r + 2 a c x + c² Σ S², summed over the directions.
        by_end = a**2, 2 * a * c
        risk = by_end[0] * end.risk.sum(1)
        if self.averaged:
            gained = 2 * self.rho * self.omega * here.cross.sum(2) + self.omega**2 * here.risk.sum(2)
            risk = risk + by_end[1] * end.cross.sum(1) + self.square + self.by_square @ gained
        adjoint = State(*(np.full_like(signal, each) for each in by_end))
        for segment in reversed(self.segments):
            adjoint = segment.backward(here, adjoint)
        by_rate, by_batch = here.slopes()
        return Gradient(risk, by_rate.T @ self.between.T, by_batch.T @ self.between.T)


class State(NamedTuple):
    """Moments of S runs between two segments, r and x (S, K) each, or the derivatives by them."""

    risk: np.ndarray
    cross: np.ndarray


class _Equations:
    """Coefficients, moments and multipliers of S runs at all equations, (E, S, K) each.

    With x = γλ, v = x²/B and c for the cross moments of r the equations are `r⁺ = [(1 − x)² + v] r + v m (P + σ²)` and
    `c⁺ = (1 − x)(ρ c + ω r)`. A multiplier is the derivative of the risk of what is returned by the right side of an
    equation.

    Attributes:
        x, noise, drive: γλ, v and v m.
        decay: 1 − (1 − x)² − v.
        risk, cross: r and c before the step.
        loss: (E, S) P + σ².
        by_risk, by_cross: multipliers.
        solved: what panels have solved, by their first equation.
    """

    def __init__(self, run: Run, rate: np.ndarray, batch: np.ndarray) -> None:
        self.run = run
        self.x = rate[:, :, None] * run.modes.eigenvalue
        self.noise = self.x**2 / batch[:, :, None]
        self.drive = self.noise * run.modes.multiplicity
        self.decay = self.x * (2 - self.x) - self.noise
        self.risk = np.empty_like(self.x)
        self.by_risk = np.empty_like(self.x)
        self.loss = np.empty_like(rate)
        self.solved: dict[int, _Solved] = {}
        if run.averaged:  # Both stay 0 at equations before the average begins.
            self.cross = np.zeros_like(self.x)
            self.by_cross = np.zeros_like(self.x)

    def slopes(self) -> tuple[np.ndarray, np.ndarray]:
        """Return the derivatives by log γ and log B at the equations, (E, S) each (THEORY.md T26)."""
        shaken = self.noise * self.risk + self.drive * self.loss[:, :, None]
        by_rate = 2 * (self.by_risk * (shaken - self.x * (1 - self.x) * self.risk)).sum(2)
        if self.run.averaged:
            added = self.run.rho * self.cross + self.run.omega * self.risk
            by_rate -= (self.by_cross * self.x * added).sum(2)
        return by_rate, -(self.by_risk * shaken).sum(2)


class _Segment:
    """Consecutive steps from low on whose equations begin at number `first`.

    `forward` returns the moments after the steps, and notes those before each equation. `backward` returns the
    derivatives by the moments before the steps, and notes the multipliers (THEORY.md T26).

    Attributes:
        step: (p,) step numbers of the equations, at the beginning of the step.
        weight: (p,) by which a sum over the steps weighs values at the equations.
        rows: of the equations among all.
        averages: whether the iterates of the steps enter the average.
    """

    def __init__(self, run: Run, step: np.ndarray, weight: np.ndarray, low: float, first: int) -> None:
        self.low = low
        self.rho = run.rho
        self.omega = run.omega
        self.noise = run.noise
        self.averages = low >= run.first
        self.step = step
        self.weight = weight
        self.rows = slice(first, first + step.size)


class _Steps(_Segment):
    """A few single steps."""

    def __init__(self, run: Run, low: float, high: float, first: int) -> None:
        step = np.arange(low, high)
        super().__init__(run, step, np.ones(step.size), low, first)

    def forward(self, here: _Equations, state: State) -> State:
        """The recursion."""
        risk, cross = state
        for e in range(self.rows.start, self.rows.stop):
            here.risk[e] = risk
            loss = risk.sum(1) + self.noise
            here.loss[e] = loss
            if self.averages:
                here.cross[e] = cross
                cross = (1 - here.x[e]) * (self.rho * cross + self.omega * risk)
            risk = risk - here.decay[e] * risk + here.drive[e] * loss[:, None]
        return State(risk, cross)

    def backward(self, here: _Equations, adjoint: State) -> State:
        """The recursion, transposed."""
        risk, cross = adjoint
        for e in range(self.rows.stop - 1, self.rows.start - 1, -1):
            here.by_risk[e] = risk
            risk = risk - here.decay[e] * risk + (risk * here.drive[e]).sum(1)[:, None]
            if self.averages:
                here.by_cross[e] = cross
                moved = (1 - here.x[e]) * cross
                risk = risk + self.omega * moved + self.omega**2 * here.run.by_square[e]
                cross = self.rho * moved + 2 * self.rho * self.omega * here.run.by_square[e]
        return State(risk, cross)


class _Panel(_Segment):
    """Many steps by collocation: moments are polynomials of degree p that obey the recursion at p equations.

    With f⁻ for the moments one step before the equations, `f⁻ = before · (f at the start and at the p nodes)`, the
    equations `f = (1 − decay) f⁻ + forcing` are a p×p system for each direction. Directions meet in P at the p
    equations alone, which one more p×p system gives.
    """

    def __init__(self, run: Run, low: float, high: float, first: int) -> None:
        size = high - low
        self.difference = backward_differences(ORDER, np.array([size]))[0]
        self.before = np.eye(ORDER + 1)[1:] - self.difference
        # N(t + 1) = N(t) + B_t, solved for its last value.
        weight = np.linalg.inv(self.difference[:, 1:])[-1]
        super().__init__(run, low + (radau_nodes(ORDER)[1:] + 1) / 2 * size - 1, weight, low, first)

    def forward(self, here: _Equations, state: State) -> State:
        """The systems, solved for the losses first, then for the directions."""
        drive = here.drive[self.rows]
        own = _System.of(self, here.decay[self.rows])
        answers = np.einsum("njsk,jsk->snj", own.inverse, drive)  # Σ_k r at the nodes for a unit of P at an equation
        # Losses couple all directions: they are solved for first, from what directions do without each other.
        coupling = np.linalg.inv(np.eye(ORDER) - self.before[:, 1:] @ answers)
        free = self._ahead(state.risk, own.nodes(state.risk, 0.0)).sum(2)
        loss = (coupling @ (free.T + self.noise)[:, :, None])[:, :, 0].T
        here.loss[self.rows] = loss
        nodes = own.nodes(state.risk, drive * loss[:, :, None])
        risk = self._ahead(state.risk, nodes)
        here.risk[self.rows] = risk
        if not self.averages:
            here.solved[self.rows.start] = _Solved(own, coupling, None)
            return state._replace(risk=nodes[-1])
        average = _System.of(self, 1 - self.rho * (1 - here.x[self.rows]))
        here.solved[self.rows.start] = _Solved(own, coupling, average)
        crosses = average.nodes(state.cross, self.omega * (1 - here.x[self.rows]) * risk)
        here.cross[self.rows] = self._ahead(state.cross, crosses)
        return State(nodes[-1], crosses[-1])

    def _ahead(self, start: np.ndarray, nodes: np.ndarray) -> np.ndarray:
        """Return f one step before the equations, (p, S, K)."""
        return np.tensordot(self.before, np.concatenate([start[None], nodes]), axes=1)

    def backward(self, here: _Equations, adjoint: State) -> State:
        """The transposed systems."""
        own, coupling, average = here.solved[self.rows.start]
        drive = here.drive[self.rows]
        first, rest = self.before[:, 0], self.before[:, 1:].T
        by_nodes = np.zeros_like(drive)
        # What comes after the panel sees its last node alone.
        by_nodes[-1] = adjoint.risk
        by_ahead = np.zeros_like(drive)
        cross = adjoint.cross
        if average is not None:
            by_square = here.run.by_square[self.rows]
            gained = 2 * self.rho * self.omega * by_square
            by_cross = np.zeros_like(drive) + (rest @ gained)[:, None, None]
            by_cross[-1] += cross
            multipliers = average.multipliers(by_cross)
            here.by_cross[self.rows] = multipliers
            by_ahead += self.omega * (1 - here.x[self.rows]) * multipliers
            by_ahead += self.omega**2 * by_square[:, None, None]
            by_nodes += np.tensordot(rest, by_ahead, axes=1)
            cross = average.by_start(multipliers) + first @ gained
        multipliers = own.multipliers(by_nodes)
        # Losses at the equations are felt by all directions: their derivatives drive the transposed systems again.
        by_loss = (coupling.transpose(0, 2, 1) @ (drive * multipliers).sum(2).T[:, :, None])[:, :, 0].T
        multipliers += own.multipliers((rest @ by_loss)[:, :, None])
        here.by_risk[self.rows] = multipliers
        by_start = np.tensordot(first, by_loss[:, :, None] + by_ahead, axes=1)
        return State(by_start + own.by_start(multipliers), cross)


class _System(NamedTuple):
    """The equations of a panel for numbers f of S K directions, solved.

    Attributes:
        first: (p, S, K) what multiplies f at the start.
        inverse: (p, p, S, K) inverse of what multiplies f at the nodes.
    """

    first: np.ndarray
    inverse: np.ndarray

    @classmethod
    def of(cls, panel: _Panel, decay: np.ndarray) -> "_System":
        """Return the solved equations of `f(t + 1) = (1 − decay) f(t) + …`, decay (p, S, K)."""
        found = collocation_systems(decay.reshape(1, ORDER, 1, 1, -1), panel.difference[None])
        return cls(found.first.reshape(decay.shape), found.inverse.reshape(ORDER, *decay.shape))

    def nodes(self, start: np.ndarray, forcing: np.ndarray | float) -> np.ndarray:
        """Return f at the nodes but the start, (p, S, K)."""
        return np.einsum("njsk,jsk->nsk", self.inverse, forcing - self.first * start)

    def multipliers(self, by_nodes: np.ndarray) -> np.ndarray:
        """Return the derivatives by the forcing from those by the nodes."""
        return (self.inverse * by_nodes[:, None]).sum(0)

    def by_start(self, multipliers: np.ndarray) -> np.ndarray:
        """Return the derivatives by f at the start, through the equations, (S, K)."""
        return -np.einsum("jsk,jsk->sk", self.first, multipliers)


class _Solved(NamedTuple):
    """Systems of r and, if iterates are averaged, of x; and the inverse (S, p, p) of what multiplies P + σ²."""

    own: _System
    coupling: np.ndarray
    average: _System | None
