"""Newton's method for the values of a nonlinear method's deterministic equivalent on a collocation panel.

On a panel the values are polynomials in the step number that satisfy the recursion at p Radau points t_j:

    y(t_j) = y(t_j − 1) + change(y(t_j − 1), T(t_j − 1)),    j = 1 … p.

Directions are coupled by Q sums, the loss and sometimes one more: each mode has a small linear system of its own, and a
system of p Q unknowns couples them.
"""

from dataclasses import dataclass
from typing import NamedTuple

import numpy as np

from sgdtheory.risk.mean_field.field import MEAN, VARIANCE, Known
from sgdtheory.risk.mean_field.panel_jacobian import PanelJacobian
from sgdtheory.risk.mean_field.single_steps import SingleSteps
from sgdtheory.risk.solvers.collocation import tails

ORDER = 5  # A panel has this many Radau points. The order is fixed: panels adapt by their lengths alone.
# The two highest Legendre coefficients of a panel may have at most this share of the risk. Risks are then right to
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
# With the Jacobian of a similar panel, which costs nothing, derivatives are computed again after this many iterations.
RENEWED_GUESS = 2
# Convergence is slow where a change is more than this share of the one before.
SLOW = 0.1
# Numerical derivatives take this relative step. Newton's method needs them roughly, so that one-sided differences do.
DIFFERENCE = 1e-6


class PanelValues(NamedTuple):
    """Solution of a panel's equations: the values (q, S, p + 1, K) at the nodes, and the last Jacobian."""

    values: np.ndarray
    jacobian: PanelJacobian


class Panel(NamedTuple):
    """The equations of a panel of S runs.

    Attributes:
        start: (q, S, K) values at its first node.
        difference: (p, p + 1) matrix of backward differences.
        known: the steps that lead to the nodes, run by run.
    """

    start: np.ndarray
    difference: np.ndarray
    known: Known

    @property
    def before(self) -> np.ndarray:
        """Return the (p, p + 1) matrix that gives the values one step before the equations from those at the nodes."""
        return np.eye(ORDER + 1)[1:] - self.difference


@dataclass(frozen=True, eq=False)
class NewtonPanels(SingleSteps):
    """Panels of S runs of a nonlinear method, solved side by side."""

    def total_risk(self, values: np.ndarray) -> np.ndarray:
        """Return the risks R (…,) of values (q, …, K)."""
        weights = self.ensemble.multiplicity
        return values[MEAN] ** 2 @ weights + self.ensemble.frozen + np.maximum(values[VARIANCE], 0.0) @ weights

    @property
    def tail(self) -> float:
        """Return the largest share of the risk in the two highest Legendre coefficients of a panel."""
        return TAIL

    @staticmethod
    def tail_of(risk: np.ndarray) -> float:
        """Return the largest share of the two highest polynomials in the risk (S, p + 1) of any run."""
        return float(tails(risk, np.finfo(float).tiny).max())

    def solved(self, panel: Panel, guess: PanelValues | None = None) -> PanelValues | None:
        """Return the values at the nodes of a panel, None where Newton's method fails.

        It stops early where the tail is already too large for the panel to be accepted.

        Args:
            panel: its equations.
            guess: the solution of a similar panel, whose Jacobian is kept as long as it converges fast.
        """
        if guess is None:
            values, jacobian = np.repeat(panel.start[:, :, None], ORDER + 1, axis=2), None
            risk = np.full(values.shape[1:3], np.inf)
        else:
            values, jacobian = guess.values.copy(), guess.jacobian
            values[:, :, 0] = panel.start
            risk = self.total_risk(values)
        known = panel.known
        gap = gap_before = np.inf
        since = 0
        patience = RENEWED if guess is None else RENEWED_GUESS
        for _ in range(MOST_ITERATIONS):
            # The change of a step depends on the values before it.
            there = panel.before @ values
            rows = as_rows(there)
            loss = self.loss(rows)
            known = self.with_interactions(rows, loss, known)
            changed = self.change(rows, loss, known)
            if jacobian is None or (since >= patience and gap > SLOW * gap_before):
                since = 0
                patience = RENEWED
                try:
                    jacobian = self._jacobian(there, loss, changed, panel, known)
                except np.linalg.LinAlgError:  # singular
                    return None
                if jacobian is None:
                    return None
            # Backward differences have to equal the changes: Newton's method removes what is missing.
            values[:, :, 1:] += jacobian.correction(changed.reshape(there.shape) - panel.difference @ values)
            now = self.total_risk(values)
            if not np.isfinite(now).all():
                return None
            gap_before = gap
            gap = float((np.abs(now - risk) / now).max())
            # Further changes are smaller than `gap`: a tail that exceeds the limit by twice as much stays too large.
            hopeless = since > 0 and self.tail_of(now) > self.tail + 2 * gap
            if gap <= CONVERGED * self.tail or hopeless:
                return PanelValues(values, jacobian)
            risk = now
            since += 1
        return None

    def _jacobian(
        self,
        there: np.ndarray,
        loss: np.ndarray,
        changed: np.ndarray,
        panel: Panel,
        known: Known,
    ) -> PanelJacobian | None:
        """Return the inverse derivatives of the equations, by differences; None where they are not finite."""
        difference, before = panel.difference, panel.before
        own, shared = self._derivatives(as_rows(there), loss, changed, known)
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


def as_rows(values: np.ndarray) -> np.ndarray:
    """Return values (q, S, p, K) as rows of one table, (q, S p, K)."""
    return values.reshape(values.shape[0], -1, values.shape[-1])
