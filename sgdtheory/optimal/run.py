"""The exact risk of SGD's last iterate under any learning rates and batch sizes, and its gradient (THEORY.md T26).

Learning rate and batch size are given at knots; in between `log γ` and `log B` are linear in `log((t + 1)/(n − t))`:
knots at equal distances in that lie dense at both ends of a run. Short pieces between knots are stepped through, long
ones are panels of collocation (T24). The gradient is that of the numbers computed, backwards through the same steps and
the same systems of equations: it costs less than the risk.
"""

from typing import NamedTuple

import numpy as np

from sgdtheory.theory import Modes, backward_differences, inverses, radau_nodes

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
    """

    def __init__(self, modes: Modes, noise_variance: float, num_steps: float, knots: np.ndarray) -> None:
        self.modes, self.noise, self.num_steps, self.knots = modes, noise_variance, num_steps, knots
        self.places = place(knots, num_steps)
        inner = spread_knots(num_steps, WIDEST)
        self.edges = np.unique(np.concatenate([knots, inner, [num_steps]]))  # of the pieces
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
        state = self.modes.signal
        for row in rows:
            state = row.forward(state)
        by_rate, by_batch = np.zeros_like(log_rate), np.zeros_like(log_rate)
        adjoint = np.ones_like(state)
        for row in reversed(rows):
            adjoint, rates, batches = row.backward(adjoint)
            for total, values in ((by_rate, rates), (by_batch, batches)):
                np.add.at(total, row.where.interval, (1 - row.where.share) * values)
                np.add.at(total, row.where.interval + 1, row.where.share * values)
        return Gradient(float(state.sum()), by_rate, by_batch)

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
        return _Steps(self.modes, self.noise, where, _between(where, log_rate), _between(where, log_batch))

    def _panels(self, log_rate: np.ndarray, log_batch: np.ndarray) -> "list[_Panel]":
        """All panels, their systems inverted together."""
        where = Where(self.panels.interval, self.panels.share)
        rate, batch = _between(where, log_rate), _between(where, log_batch)
        x = rate[..., None] * self.modes.eigenvalue  # (L, p, K)
        noise = x**2 / batch[..., None]
        decay = x * (2 - x) - noise
        before = self.panels.before
        blocks = np.moveaxis(decay, 0, 1)[:, None] * np.moveaxis(before, 0, 2)[..., None]
        blocks += np.moveaxis(self.panels.difference, 0, 2)[..., None]  # (p, p + 1, L, K)
        p, number, size = ORDER, len(rate), self.modes.eigenvalue.size
        inverse = inverses(np.ascontiguousarray(blocks[:, 1:]).reshape(p, p, -1)).reshape(p, p, number, size)
        drive = noise * self.modes.multiplicity
        return [
            _Panel(
                _Steps(self.modes, self.noise, self._piece(-1, k), rate[k], batch[k]),
                before[k],
                drive[k],
                blocks[:, 0, k],
                inverse[:, :, k],
            )
            for k in range(number)
        ]


class _Steps:
    """A few single steps, with γ, B (T,)."""

    def __init__(self, modes: Modes, noise: float, where: Where, rate: np.ndarray, batch: np.ndarray) -> None:
        self.modes, self.noise, self.where, self.rate, self.batch = modes, noise, where, rate, batch

    def forward(self, state: np.ndarray) -> np.ndarray:
        """Risks of the directions after the steps."""
        self.states = []
        for rate, batch in zip(self.rate, self.batch, strict=True):
            self.states.append(state)
            x = rate * self.modes.eigenvalue
            v = x**2 / batch
            state = (1 - x * (2 - x) + v) * state + v * self.modes.multiplicity * (state.sum() + self.noise)
        return state

    def backward(self, adjoint: np.ndarray) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
        """T26: ∂R_n/∂r before the steps from that after them, and ∂R_n/∂log γ_t, ∂R_n/∂log B_t."""
        by_rate, by_batch = np.empty_like(self.rate), np.empty_like(self.rate)
        for t in range(self.rate.size - 1, -1, -1):
            state, x = self.states[t], self.rate[t] * self.modes.eigenvalue
            v = x**2 / self.batch[t]
            shaken = v * (state + self.modes.multiplicity * (state.sum() + self.noise))
            by_batch[t] = -adjoint @ shaken
            by_rate[t] = adjoint @ (2 * shaken - 2 * x * (1 - x) * state)
            adjoint = (1 - x * (2 - x) + v) * adjoint + (adjoint * v) @ self.modes.multiplicity
        return adjoint, by_rate, by_batch


class _Panel:
    """Many steps by collocation, with γ, B (p,) at its nodes.

    Equations j = 1 … p: `Σ_n (difference + d_j before)_jn r_n = drive_j (P_j + σ²)`, `P_j = Σ_i Σ_n before_jn r_n`.
    """

    def __init__(
        self, steps: _Steps, before: np.ndarray, drive: np.ndarray, first: np.ndarray, inverse: np.ndarray
    ) -> None:
        self.modes, self.noise, self.where = steps.modes, steps.noise, steps.where
        self.rate, self.batch = steps.rate, steps.batch
        self.before, self.drive, self.first, self.inverse = before, drive, first, inverse
        forced = np.einsum("njk,jk->nj", inverse, drive)  # Σ_i r at the nodes for a unit of noise at an equation
        self.coupling = np.linalg.inv(np.eye(self.rate.size) - before[:, 1:] @ forced)

    def forward(self, state: np.ndarray) -> np.ndarray:
        """Risks of the directions at the end."""
        free = -np.einsum("njk,jk->nk", self.inverse, self.first * state)
        seen = self.before[:, 0] * state.sum() + self.before[:, 1:] @ free.sum(1)
        self.risk = self.coupling @ (seen + self.noise)  # P_j + σ²
        nodes = free + np.einsum("njk,jk->nk", self.inverse, self.drive * self.risk[:, None])
        self.ahead = np.outer(self.before[:, 0], state) + self.before[:, 1:] @ nodes  # r one step before the equations
        return nodes[-1]

    def backward(self, adjoint: np.ndarray) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
        """As `_Steps.backward`, by the transposed systems."""
        own = self.inverse[-1] * adjoint  # (p, K)
        joint = self.coupling.T @ np.einsum("jk,jk->j", self.drive, own)
        multiplier = own + np.einsum("njk,n->jk", self.inverse, self.before[:, 1:].T @ joint)
        start = self.before[:, 0] @ joint - np.einsum("jk,jk->k", self.first, multiplier)
        x = self.rate[:, None] * self.modes.eigenvalue
        shaken = x**2 / self.batch[:, None] * self.ahead + self.drive * self.risk[:, None]
        by_batch = -np.einsum("jk,jk->j", multiplier, shaken)
        by_rate = np.einsum("jk,jk->j", multiplier, 2 * shaken - 2 * x * (1 - x) * self.ahead)
        return start, by_rate, by_batch
