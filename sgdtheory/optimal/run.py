"""The exact risk of SGD's last iterate under any learning rates and batch sizes, and its gradient (THEORY.md T26).

Learning rate and batch size are given at knots, and linear in between as `log γ`, `log B` against `log((t + 1)/(n − t))`:
knots at equal distances in that lie dense at both ends of a run. Short intervals between knots are stepped through, long
ones are panels of collocation (T24). The gradient is that of the numbers computed, backwards through the same steps and
the same systems of equations: it costs less than the risk.
"""

from typing import NamedTuple

import numpy as np

from sgdtheory.theory import Modes, backward_differences, inverses, radau_nodes

SHORT = 24  # steps: longer intervals are panels
ORDER = 7  # points on a panel


def place(step: np.ndarray, num_steps: float) -> np.ndarray:
    """log((t + 1)/(n − t)): rises by 2 log n, with equal room for the beginning and for the end of a run."""
    return np.log((step + 1) / (num_steps - step))


def spread_knots(num_steps: float, spacing: float) -> np.ndarray:
    """Steps from 0 to n − 1 whose places lie `spacing` apart, as nearly as whole numbers can."""
    low, high = place(np.array([0.0, num_steps - 1]), num_steps)
    wanted = np.linspace(low, high, max(2, int(np.ceil((high - low) / spacing)) + 1))
    share = 1 / (1 + np.exp(-wanted))
    return np.unique(np.concatenate([[0.0], np.round(share * (num_steps + 1) - 1), [num_steps - 1]]).clip(0, num_steps - 1))


class Panels(NamedTuple):
    """What does not depend on γ and B, for L intervals that are long: which, node steps (L, p), differences."""

    interval: np.ndarray
    step: np.ndarray
    difference: np.ndarray
    before: np.ndarray


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
        length = np.diff(knots)
        long = np.flatnonzero(length > SHORT)
        low, size = knots[long], length[long]
        step = low[:, None] + (radau_nodes(ORDER)[1:] + 1) / 2 * size[:, None] - 1
        difference = backward_differences(ORDER, size)
        self.panels = Panels(long, step, difference, np.eye(ORDER + 1)[1:] - difference)
        self.order = {int(interval): number for number, interval in enumerate(long)}

    def share(self, interval: np.ndarray, step: np.ndarray) -> np.ndarray:
        """How far between the knots of an interval a step lies, from 0 to 1."""
        low, high = self.places[interval], self.places[interval + 1]
        return (place(step, self.num_steps) - low) / (high - low)

    def risk_and_gradient(self, log_rate: np.ndarray, log_batch: np.ndarray) -> Gradient:
        """For `log γ` and `log B` at the knots, (J,) each."""
        rows: list[_Steps | _Panel] = []
        state = self.modes.signal.copy()
        ready = self._prepared(log_rate, log_batch)
        for interval in range(self.knots.size):
            row = ready[self.order[interval]] if interval in self.order else self._steps(interval, log_rate, log_batch)
            state = row.forward(state)
            rows.append(row)
        rate, batch = np.zeros(self.knots.size + 1), np.zeros(self.knots.size + 1)
        adjoint = np.ones_like(state)
        for interval in range(self.knots.size - 1, -1, -1):
            row = rows[interval]
            adjoint, by_rate, by_batch = row.backward(adjoint)
            for total, values in ((rate, by_rate), (batch, by_batch)):
                total[interval] += ((1 - row.share) * values).sum()
                total[interval + 1] += (row.share * values).sum()
        return Gradient(float(state.sum()), rate[:-1], batch[:-1])

    def _values(self, interval: np.ndarray, share: np.ndarray, at_knots: np.ndarray) -> np.ndarray:
        after = np.minimum(interval + 1, at_knots.size - 1)
        return np.exp((1 - share) * at_knots[interval] + share * at_knots[after])

    def _steps(self, interval: int, log_rate: np.ndarray, log_batch: np.ndarray) -> "_Steps":
        """A short interval, or the last step alone."""
        if interval == self.knots.size - 1:
            step, share = self.knots[-1:], np.zeros(1)
        else:
            step = np.arange(self.knots[interval], self.knots[interval + 1])
            share = self.share(np.array(interval), step)
        rate, batch = (self._values(np.array(interval), share, each) for each in (log_rate, log_batch))
        return _Steps(self.modes, self.noise, share, rate, batch)

    def _prepared(self, log_rate: np.ndarray, log_batch: np.ndarray) -> "list[_Panel]":
        """All panels, their systems inverted together."""
        interval, step, difference, before = self.panels
        if interval.size == 0:
            return []
        share = self.share(interval[:, None], step)
        rate, batch = (self._values(interval[:, None], share, each) for each in (log_rate, log_batch))
        x = rate[..., None] * self.modes.eigenvalue  # (L, p, K)
        noise = x**2 / batch[..., None]
        decay = x * (2 - x) - noise
        blocks = np.moveaxis(decay, 0, 1)[:, None] * np.moveaxis(before, 0, 2)[..., None]
        blocks += np.moveaxis(difference, 0, 2)[..., None]  # (p, p + 1, L, K)
        p, size = ORDER, self.modes.eigenvalue.size
        inverse = inverses(np.ascontiguousarray(blocks[:, 1:]).reshape(p, p, -1)).reshape(p, p, interval.size, size)
        return [
            _Panel(
                self.modes,
                self.noise,
                share[k],
                rate[k],
                batch[k],
                before[k],
                noise[k] * self.modes.multiplicity,
                blocks[:, 0, k],
                inverse[:, :, k],
            )
            for k in range(interval.size)
        ]


class _Steps:
    """A few single steps, with γ, B (T,)."""

    def __init__(
        self, modes: Modes, noise: float, share: np.ndarray, rate: np.ndarray, batch: np.ndarray
    ) -> None:
        self.modes, self.noise, self.share, self.rate, self.batch = modes, noise, share, rate, batch

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
        self,
        modes: Modes,
        noise: float,
        share: np.ndarray,
        rate: np.ndarray,
        batch: np.ndarray,
        before: np.ndarray,
        drive: np.ndarray,
        first: np.ndarray,
        inverse: np.ndarray,
    ) -> None:
        self.modes, self.noise, self.share, self.rate, self.batch = modes, noise, share, rate, batch
        self.before, self.drive, self.first, self.inverse = before, drive, first, inverse
        forced = np.einsum("njk,jk->nj", inverse, drive)  # Σ_i r at the nodes for a unit of noise at an equation
        self.coupling = np.linalg.inv(np.eye(rate.size) - before[:, 1:] @ forced)

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
