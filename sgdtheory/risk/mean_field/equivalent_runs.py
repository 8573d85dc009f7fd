"""Runs of a deterministic equivalent with any learning rates, and the gradients of their risks (THEORY.md T26, T37).

A step turns the values y into `y + F(y, T(y), γ)`, where the field gives F and `T = σ² + Σ_i (a_i² + r_i)`. With p(n)
the derivatives of `R = Σ_i (a_i² + r_i)` by the last values,

    p(t) = p(t + 1) + (∂F/∂y)ᵀ p(t + 1) + ∂T/∂y · (∂F/∂T)ᵀ p(t + 1),    ∂R/∂log γ_t = (γ ∂F/∂γ)ᵀ p(t + 1).

One backward recursion gives the derivatives by all γ_t. A field's derivatives are differences; since the values of all
steps are known, those of many steps are computed at once.
"""

from collections.abc import Callable, Iterator
from typing import NamedTuple

import numpy as np

from sgdtheory.algorithms import NonlinearMethod
from sgdtheory.problems import AbstractProblem
from sgdtheory.risk.mean_field.ensemble import ensemble, steepest
from sgdtheory.risk.mean_field.field import MEAN, VARIANCE, Field, Known
from sgdtheory.risk.mean_field.registry import field_of
from sgdtheory.risk.mean_field.single_steps import SingleSteps

# At most this many values of all steps are kept at once, which take 200 MB. Runs beyond are computed in several parts.
KEPT = 2.5e7
# At most this many directions times steps have their derivatives computed at once, so that they stay in the cache.
AT_ONCE = 1e4
# Derivatives take this relative step. Differences of second order are off by its square, and by 1e-16 over the step.
DIFFERENCE = 1e-5


class RiskSlopes(NamedTuple):
    """Risks (S,) of S runs, and their derivatives by log γ_t, (S, n)."""

    risk: np.ndarray
    by_rate: np.ndarray


class Derivatives(NamedTuple):
    """Derivatives of F at P steps: by the values (q, q, P, K), by T and by log γ (q, P, K)."""

    own: np.ndarray
    by_loss: np.ndarray
    by_rate: np.ndarray


class EquivalentRuns:
    """Runs of n steps whose last iterate counts.

    Args:
        problem: a problem with finitely many directions, or a PowerLaw.
        method: a method that has a field.
        batch: B of all steps.
        num_steps: n.
        rate_sum: largest Σ γ_t; directions whose weights it does not change are left out.
    """

    @staticmethod
    def of(method: NonlinearMethod) -> bool:
        """Return whether gradients are known for this method: its directions are coupled by the loss alone."""
        field = field_of(method)
        return isinstance(field, Field) and field.in_loss_alone

    def __init__(
        self, problem: AbstractProblem, method: NonlinearMethod, batch: float, num_steps: int, rate_sum: float
    ) -> None:
        field = field_of(method)
        assert isinstance(field, Field), "who searches has asked for it"
        self.field = field
        self.ensemble = ensemble(problem, rate_sum, steepest(problem, batch))
        self.single = SingleSteps(self.ensemble, field)
        self.num_steps = num_steps
        self.number = np.arange(float(num_steps))
        self.batch = np.full(num_steps, float(batch))
        self.table = tuple(field.looked_up(self.number, self.batch))

    def risks(self, log_rate: np.ndarray) -> RiskSlopes:
        """Return the risks and their derivatives for log γ_t (S, n)."""
        values = self.field.start(self.ensemble).size * self.num_steps
        together = max(int(KEPT / values), 1)
        with np.errstate(all="ignore"):  # a run that diverges is data
            found = [self._risks(np.exp(log_rate[k : k + together])) for k in range(0, len(log_rate), together)]
        return RiskSlopes(*(np.concatenate(each) for each in zip(*found, strict=True)))

    def _risks(self, rate: np.ndarray) -> RiskSlopes:
        start = self.field.start(self.ensemble)
        values = np.repeat(start[:, None], len(rate), axis=1)
        kept = np.empty((self.num_steps, *values.shape))
        for t in range(self.num_steps):
            kept[t] = values
            known = self._known(np.array([t]), rate)
            values = values + self.single.change(values, self.single.loss(values), known)
        risk = self.single.loss(values)[:, 0] - self.ensemble.noise
        return RiskSlopes(risk, self._backward(kept, values, rate))

    def _backward(self, kept: np.ndarray, ended: np.ndarray, rate: np.ndarray) -> np.ndarray:
        """Return ∂R/∂log γ_t (S, n) from the values before each step (n, q, S, K) and after the last one."""
        adjoint = self._by_values(ended)
        by_rate = np.empty_like(rate)
        for t, at in self._derivatives(kept, rate):
            by_rate[:, t] = np.einsum("qsk,qsk->s", adjoint, at.by_rate)
            # T depends on every direction and acts on all of them: the sum of its effects flows back to each.
            by_loss = np.einsum("qsk,qsk->s", adjoint, at.by_loss)[:, None]
            adjoint = adjoint + np.einsum("qsk,qpsk->psk", adjoint, at.own) + self._by_values(kept[t]) * by_loss
        return by_rate

    def _derivatives(self, kept: np.ndarray, rate: np.ndarray) -> Iterator[tuple[int, Derivatives]]:
        """Yield each step and its derivatives in all runs, from the last step to the first."""
        _, q, runs, size = kept.shape
        together = max(int(AT_ONCE / (runs * size)), 1)
        for high in range(self.num_steps, 0, -together):
            steps = np.arange(max(high - together, 0), high)
            there = np.moveaxis(kept[steps], 0, 1).reshape(q, -1, size)
            found = self._at(there, self._known(steps, rate))
            parts = [part.reshape(*part.shape[:-2], steps.size, runs, size) for part in found]
            for index in range(steps.size - 1, -1, -1):
                yield int(steps[index]), Derivatives(*(part[..., index, :, :] for part in parts))

    def _at(self, there: np.ndarray, known: Known) -> Derivatives:
        """Return the derivatives at values (q, P, K), by differences upwards, where variances stay positive."""
        loss = self.single.loss(there)
        here = self.single.change(there, loss, known)

        def slope(changed: Callable[[float], np.ndarray], size: np.ndarray | float) -> np.ndarray:
            """Return the derivative of a change that depends on the step of the difference, relative to `size`."""
            return (4 * changed(DIFFERENCE) - changed(2 * DIFFERENCE) - 3 * here) / (2 * DIFFERENCE * size)

        def with_value(row: int, size: np.ndarray) -> np.ndarray:
            unit = np.eye(len(there))[row][:, None, None] * size
            return slope(lambda far: self.single.change(there + far * unit, loss, known), size)

        def with_rate(far: float) -> np.ndarray:
            return self.single.change(there, loss, known._replace(rate=known.rate * (1 + far)))

        return Derivatives(
            np.stack([with_value(row, size) for row, size in enumerate(self.field.scales(there))], axis=1),
            slope(lambda far: self.single.change(there, loss * (1 + far), known), loss),
            slope(with_rate, 1.0),
        )

    def _known(self, steps: np.ndarray, rate: np.ndarray) -> Known:
        """Return these steps of all runs, (T S, …), run by run within a step."""
        every = np.repeat(steps, len(rate))
        table = tuple(each[every] for each in self.table)
        return Known(self.number[every, None], rate.T[steps].reshape(-1, 1), self.batch[every, None], table)

    def _by_values(self, values: np.ndarray) -> np.ndarray:
        """Return the derivatives of T by the values, (q, P, K)."""
        found = np.zeros_like(values)
        found[MEAN] = 2 * values[MEAN] * self.ensemble.multiplicity
        found[VARIANCE] = self.ensemble.multiplicity
        return found
