"""Methods with momentum in coordinates that are not the eigenvectors: signs of m, and Adam (THEORY.md T38).

What a coordinate does with its own gradients is what its field says (`MemoryField`): with u = H'δ/√diag H',

    g = gain u + ν,    m ← βm + g,    δ ← δ − drift − older (m − E m) − newest (g − E g) + ε.

Coordinates meet in covariances. That of gradients given δ is `S = (E u uᵀ + T Ĥ)/B`. A step is an odd function of them:
what of it is linear has S itself, what is left, `rest = Var ν − gain² S_jj`, is correlated like a third power:

    Cov(ν_j, ν_k) = gain_j gain_k S_jk + √(rest_j rest_k) ρ_jk³,    ρ the correlations of S;

ε likewise, with those of m. Signs leave out of S what of E u uᵀ does not change them (THEORY.md T37). signSGD without
momentum stands at the end: its signs have exact covariances.
"""

from dataclasses import dataclass
from functools import cached_property
from typing import Any, NamedTuple

import numpy as np

from sgdtheory.algorithms import Basis
from sgdtheory.risk.mean_field.coupled import CoupledField, CoupledReaction, CoupledRun
from sgdtheory.risk.mean_field.ensemble import TINY, Ensemble
from sgdtheory.risk.mean_field.field import Known, MemoryField
from sgdtheory.risk.mean_field.sign_covariance import Reaction, Seen, signs
from sgdtheory.risk.systems.moments import Keeping

SETTLED = 100.0  # Fewer steps state the larger of the field's two errors: Adam's were 9% off among the first ones.


@dataclass(frozen=True)
class CoupledMemory(CoupledField):
    """A coupled method with momentum.

    Attributes:
        basis: its coordinates.
        alone: what it does where coordinates are eigenvectors.
    """

    basis: Basis
    alone: MemoryField

    @property
    def few(self) -> float:  # pyright: ignore[reportIncompatibleVariableOverride] (a property in a field's place)
        """Return the field's own number of few steps."""
        return self.alone.few

    def error(self, steps: float, batch: float) -> float:
        """Return the measured error; signs of many coordinates are up to 7% off, mostly by the cube (T38)."""
        settled, unsettled = self.alone.coupled_error
        return unsettled if steps < SETTLED else settled

    def run(self, *parts: Any) -> CoupledRun:
        """Return a run that follows δ and m."""
        return CoupledMemoryRun(*parts)


class MemoryJoint(NamedTuple):
    """A `Joint` with the mean of m, Cov(m, δ), Cov(m), Cov(m, S), and what else is kept, (others, d)."""

    mean: np.ndarray
    covariance: np.ndarray
    sum_mean: np.ndarray
    shared: np.ndarray
    sum_risk: np.ndarray
    average: np.ndarray
    with_error: np.ndarray
    with_itself: np.ndarray
    with_sum: np.ndarray
    kept: np.ndarray


@dataclass(frozen=True, eq=False)
class CoupledMemoryRun(CoupledRun):
    """One run. Steps are taken one by one: directions with momentum swing, which no real flow follows."""

    @cached_property
    def coordinates(self) -> Ensemble:
        """Coordinates, as a field sees directions."""
        square = self.size**2
        return Ensemble(self.size, square, np.ones_like(square), np.zeros_like(square), self.frozen, self.noise)

    def start(self) -> MemoryJoint:  # pyright: ignore[reportIncompatibleMethodOverride] (has a Joint's parts)
        """w_0, and m = 0."""
        joint = super().start()
        square = np.zeros_like(self.rows)
        kept = np.zeros((self.field.alone.others, self.size.size))
        return MemoryJoint(*joint, np.zeros_like(joint.mean), square, square, square, kept)

    def step(self, state: Any, keeping: Keeping, number: float) -> Any:
        """Return the state after one step: m takes up the gradient, and δ follows both."""
        known = self._known(number)
        field = self.field.alone
        seen = self.seen(state)
        loss = np.array([[self.risk(state) + self.noise]])
        shared = (self.looks * state.with_error).sum(1)
        own = np.diag(state.with_itself)
        values = np.stack([seen.mean, np.diag(seen.covariance), state.average, shared, own, *state.kept])[:, None]
        added = field.added(self.coordinates, values, loss, known)
        gain = np.broadcast_to(added.gain, seen.mean[None].shape)[0]
        move = field.move(self.coordinates, values, loss, added, known)
        gradient = self._gradient(state, seen, gain, added.noise[0], float(known.batch[0, 0]))
        # Rows of −Δδ on m and on the gradient: unit turns steps of u into those of δ.
        older, newest = ((np.broadcast_to(each, seen.mean[None].shape)[0] / self.unit) for each in move[1:3])
        pulled = older[:, None] * state.with_error + newest[:, None] * gradient.with_error
        crossed = older[:, None] * gradient.with_memory * newest
        followed = np.outer(older, older) * state.with_itself + np.outer(newest, newest) * gradient.with_itself
        followed = followed + crossed + crossed.T
        covariance = state.covariance - pulled - pulled.T + followed
        covariance = covariance + _scattered(move.scatter[0] / self.unit**2, followed)
        beta = field.momentum
        with_move = beta * (state.with_itself * older + gradient.with_memory * newest)
        with_move = with_move + gradient.with_memory.T * older + gradient.with_itself * newest
        mixed = beta * gradient.with_memory
        moved = state._replace(
            mean=state.mean - move.drift[0] / self.unit,
            covariance=(covariance + covariance.T) / 2,
            average=beta * state.average + gain * seen.mean,
            with_error=beta * state.with_error + gradient.with_error - with_move,
            with_itself=beta**2 * state.with_itself + mixed + mixed.T + gradient.with_itself,
            kept=added.kept[:, 0],
        )
        if keeping.weight == 0:
            return moved
        joined = self.joined(state, keeping)
        memory = (1 - keeping.forgetting) * state.with_sum + keeping.weight * state.with_error
        summed = gradient.follows @ joined
        left = joined - older[:, None] * memory - newest[:, None] * summed
        return self.summed(state, moved, keeping, left)._replace(with_sum=beta * memory + summed)

    def _gradient(self, state: Any, seen: Seen, gain: np.ndarray, noise: np.ndarray, batch: float) -> "_Gradient":
        """Return how what gradients add to m follows δ, and its covariances with δ, m and itself."""
        both = seen.covariance + np.outer(seen.mean, seen.mean)
        follows = gain[:, None] * self.looks
        with_error = follows @ state.covariance
        own = with_error @ follows.T + _noise(gain, noise * batch, seen.noise, 2 * both) / batch
        return _Gradient(follows, with_error, state.with_error @ follows.T, own)

    def _known(self, number: float) -> Known:
        """The step, as a field sees it."""
        rate, batch = self.setting(number)
        numbers = np.array([number])
        batches = np.array([batch])
        table = tuple(self.field.alone.looked_up(numbers, batches))
        return Known(numbers[:, None], np.array([[rate]]), batches[:, None], table)

    def propagated(self, state: Any, keeping: Keeping, low: float, high: float, between: tuple[float, float]) -> Any:
        """The steps low … high − 1, one by one.

        Raises:
            ValueError: more than can be taken so.
        """
        if self.course.num_steps > self.most_steps:
            raise ValueError(
                f"num_samples must be at most {self.most_steps:.3g} steps of {self.size.size} directions with momentum "
                f"where coordinates are not the eigenvectors, got {self.course.num_steps:.3g}; take fewer, or simulate"
            )
        return self.stepped(state, keeping, low, high)


class _Gradient(NamedTuple):
    """Contribution of gradients g to m: g's rows on δ, Cov(g, δ), Cov(m, g) and Cov(g), (d, d) each."""

    follows: np.ndarray
    with_error: np.ndarray
    with_memory: np.ndarray
    with_itself: np.ndarray


def _scattered(added: np.ndarray, followed: np.ndarray) -> np.ndarray:
    """Return Cov ε from its diagonal; its correlations are the third powers of those of what δ follows."""
    scatter = np.sqrt(np.maximum(added, 0.0))
    covariance = np.outer(scatter, scatter) * _correlation(followed) ** 3
    return covariance + np.diag(np.minimum(added, 0.0))  # a sign scatters less than the m that it follows


def _noise(gain: np.ndarray, noise: np.ndarray, others: np.ndarray, own: np.ndarray) -> np.ndarray:
    """Return Cov ν, (d, d), from its diagonal `noise` and the covariance `others + own` of gradients given δ.

    A field may leave out a share of `own`, which the length of a batch's residuals adds: it does not change signs.
    """
    root = np.where(gain > 0, gain, np.inf)
    share = np.clip((noise / root**2 - np.diag(others)) / np.maximum(np.diag(own), TINY), 0.0, 1.0)
    scatter = others + np.sqrt(np.outer(share, share)) * own
    rest = np.sqrt(np.maximum(noise - gain**2 * np.diag(scatter), 0.0))
    found = np.outer(gain, gain) * scatter + np.outer(rest, rest) * _correlation(scatter) ** 3
    np.fill_diagonal(found, noise)
    return found


def _correlation(covariance: np.ndarray) -> np.ndarray:
    """Return the (d, d) correlations of a covariance, 0 where a variance is 0."""
    root = np.sqrt(np.maximum(np.diag(covariance), TINY))
    return np.clip(covariance / root[:, None] / root, -1, 1)


ERROR = 0.02  # relative, where no coordinate leads to and fro, as measured by benchmarks/equivalents.py


@dataclass(frozen=True)
class CoupledSigns(CoupledReaction):
    """`w ← w − γ sign(g)`."""

    basis: Basis

    def error(self, steps: float, batch: float) -> float:
        """Return the relative error that `benchmarks/equivalents.py` measured."""
        return ERROR

    def react(self, seen: Seen, batch: float) -> Reaction:
        """Signs do not tell the size of gradients."""
        return signs(seen, batch)
