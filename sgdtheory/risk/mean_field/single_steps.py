"""Single steps of a nonlinear method's deterministic equivalent, in NumPy for few of them and compiled for many."""

from collections.abc import Callable
from dataclasses import dataclass
from functools import cached_property, lru_cache
from typing import Any, NamedTuple

import numpy as np

from sgdtheory._common.compiled import compiled_loop
from sgdtheory.risk.mean_field.ensemble import Ensemble
from sgdtheory.risk.mean_field.field import MEAN, VARIANCE, Field, Known
from sgdtheory.risk.systems.moments import Keeping

# The tables of this many steps are looked up together: more gain nothing and take more memory. A compiled loop has room
# for them.
TOGETHER = 1024
# A compiled loop has room for a multiple of this number of directions: each shape is compiled once, which takes 0.6 s.
WIDTH = 16


class FieldState(NamedTuple):
    """Values of K directions in S runs, and moments of the sum of iterates that an average returns.

    Attributes:
        values: (q, S, K) of the field.
        sum_mean: (S, K) mean of the sum.
        covariance: (k, S, K) covariance of the k Gaussian parts, the iterate first, with the sum.
        sum_variance: (S, K) variance of the sum.
    """

    values: np.ndarray
    sum_mean: np.ndarray
    covariance: np.ndarray
    sum_variance: np.ndarray


@dataclass(frozen=True, eq=False)
class SingleSteps:
    """The step of a field in all directions of a problem, for arrays of NumPy or JAX.

    Attributes:
        ensemble: the problem's directions.
        field: the method's step in each direction.
    """

    ensemble: Ensemble
    field: Field

    def loss(self, values: np.ndarray) -> np.ndarray:
        """Return T = σ² + R and the field's other sums, (P, Q), for values (q, P, K)."""
        xp = values.__array_namespace__()
        sums = (values[MEAN] ** 2 + xp.maximum(values[VARIANCE], 0.0)) @ self.field.totals(self.ensemble).T
        return sums + (self.ensemble.frozen + self.ensemble.noise) * (np.arange(sums.shape[1]) == 0)

    def with_interactions(self, values: np.ndarray, loss: np.ndarray, known: Known) -> Known:
        """Return the steps with the field's interactions of directions beyond the sums."""
        with np.errstate(all="ignore"):
            return known._replace(together=self.field.together(self.ensemble, possible(values), loss, known))

    def change(self, values: np.ndarray, loss: np.ndarray, known: Known) -> np.ndarray:
        """Return the change of the values in a step, (q, P, K)."""
        with np.errstate(all="ignore"):  # a run that diverges is data
            return self.field.change(self.ensemble, possible(values), loss, known)

    def mixing(self, values: np.ndarray, loss: np.ndarray, known: Known) -> np.ndarray:
        """Return the field's mixing matrices (k, k, P, K)."""
        with np.errstate(all="ignore"):
            return self.field.mixing(self.ensemble, possible(values), loss, known)

    def next(self, state: FieldState, keeping: Keeping | None, known: Known) -> FieldState:
        """Return the state after a step; without `keeping` no sum of iterates is kept."""
        values = state.values
        loss = self.loss(values)
        known = self.with_interactions(values, loss, known)
        moved = state._replace(values=values + self.change(values, loss, known))
        if keeping is None:
            return moved
        rho = 1 - keeping.forgetting
        omega = keeping.weight
        # The iterate joins the sum before it moves.
        joined = rho * state.covariance + omega * self.field.with_iterate(values)
        mean, variance = values[MEAN], values[VARIANCE]
        return moved._replace(
            sum_mean=rho * state.sum_mean + omega * mean,
            covariance=(self.mixing(values, loss, known) * joined).sum(1),
            sum_variance=rho**2 * state.sum_variance + 2 * rho * omega * state.covariance[0] + omega**2 * variance,
        )

    def compiled(self, state: FieldState, keeping: Keeping | None, known: Known, rates: np.ndarray) -> FieldState:
        """Return the state after N steps in compiled loops, which are `next` with other rounding.

        Directions are filled up with copies of the last one, which have no multiplicity.

        Args:
            state: before the steps.
            keeping: how a sum of iterates is kept, if one is.
            known: the N steps, at most `TOGETHER`, whose learning rates are not used.
            rates: (S, N) learning rates of the runs.
        """
        runs = len(rates)
        most = self.field.compiled_runs
        ended: list[FieldState] = []
        low = 0
        while low < runs:
            # Copies of the last run fill a loop up, unless most of it would be copies.
            room = most if runs - low > most / 2 else 1
            rows = np.minimum(np.arange(low, low + room), runs - 1)
            begun = FieldState(*(each[..., rows, :] for each in state))
            moved = self._compiled_runs(begun, keeping, known, rates[rows])
            ended.append(FieldState(*(each[..., : runs - low, :] for each in moved)))
            low += room
        return FieldState(*(np.concatenate(each, axis=-2) for each in zip(*ended, strict=True)))

    def _compiled_runs(self, state: FieldState, keeping: Keeping | None, known: Known, rates: np.ndarray) -> FieldState:
        """Return the state after N steps of runs that fill one compiled loop; arguments are those of `compiled`."""
        size = state.sum_mean.shape[-1]
        ensemble = self._filled_ensemble
        width = ensemble[0].size

        def filled(each: np.ndarray) -> np.ndarray:
            return np.concatenate([each, np.repeat(each[..., -1:], width - size, axis=-1)], axis=-1)

        def room(each: np.ndarray) -> np.ndarray:
            rows = np.zeros((TOGETHER, *each.shape[1:]))
            rows[: len(each)] = each
            return rows

        loop = _loop(self.field, keeping is not None)
        rate = room(rates.T[..., None])
        extra = self.field.compiled_table(self.ensemble, known.batch)
        table = tuple(map(room, (*known.table, *extra)))
        steps = Known(room(known.number), rate, room(known.batch), table)
        ended = loop(FieldState(*map(filled, state)), ensemble, keeping, steps[:4], len(known.number))
        return FieldState(*(each[..., :size] for each in ended))

    @cached_property
    def _filled_ensemble(self) -> tuple[Any, ...]:
        """Return the attributes of the ensemble with as many modes as a compiled loop has room for."""
        width = -(-self.ensemble.root.size // WIDTH) * WIDTH
        return tuple(vars(self.ensemble.filled(width)).values())


@lru_cache
def _loop(field: Field, averaged: bool) -> Callable[..., FieldState]:
    """Return the compiled loop over steps, whose runs share numbers, batch sizes and tables.

    The changes of fields with a memory, which alone are compiled, do not depend on `Known.smooth`.
    """
    import jax

    def run(begin: FieldState, ensemble: Any, keeping: Any, steps: Any, count: Any) -> FieldState:
        single = SingleSteps(Ensemble(*ensemble), field)

        def one(index: Any, state: FieldState) -> FieldState:
            number, rate, batch, table = jax.tree.map(lambda each: each[index], steps)
            known = Known(number[None], rate, batch[None], tuple(each[None] for each in table))
            return single.next(state, keeping if averaged else None, known)

        return jax.lax.fori_loop(0, count, one, begin)

    return compiled_loop(run)


def possible(values: np.ndarray) -> np.ndarray:
    """Return the values with variances of at least 0: iterates of Newton's method may have negative ones."""
    xp = values.__array_namespace__()
    if xp is np and (values[VARIANCE] >= 0).all():
        return values
    rows = slice(VARIANCE, VARIANCE + 1)
    return xp.concatenate([values[:VARIANCE], xp.maximum(values[rows], 0.0), values[VARIANCE + 1 :]])
