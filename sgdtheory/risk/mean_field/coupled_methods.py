"""Methods with momentum in coordinates that are not the eigenvectors: signs of m, and Adam (THEORY.md T38).

A coordinate follows its own gradients as the field says (`MemoryField`): with u = H'δ/√diag H',

    g = gain u + ν,    m ← βm + g,    δ ← δ − drift − older (m − E m) − newest (g − E g) + ε.

Coordinates are coupled by covariances. Gradients given δ have the covariance `S = (E u uᵀ + T Ĥ)/B`. A step is an odd
function of gradients: its linear part has S itself, and the remainder, `rest = Var ν − gain² S_jj`, has correlations
like third powers:

    Cov(ν_j, ν_k) = gain_j gain_k S_jk + √(rest_j rest_k) ρ_jk³,    ρ the correlations of S;

ε likewise, with the correlations of m. S leaves out the part of E u uᵀ that does not change signs (THEORY.md T37).
signSGD without momentum is at the end of the file: its signs have exact covariances.
"""

from dataclasses import dataclass
from functools import cached_property
from typing import Any, NamedTuple

import numpy as np

from sgdtheory.algorithms import Basis
from sgdtheory.risk.mean_field.coupled import CoupledField, CoupledReaction, CoupledRun
from sgdtheory.risk.mean_field.ensemble import TINY, Ensemble
from sgdtheory.risk.mean_field.field import Known, MemoryField
from sgdtheory.risk.mean_field.sign_covariance import GradientLaw, Reaction, signs
from sgdtheory.risk.systems.moments import Keeping

# After fewer steps the larger of the field's two errors is stated: Adam was 9% off among the first steps.
SETTLED_STEPS = 100.0
# Risks of signSGD without momentum have this relative error where no coordinate leads to and fro, as measured by
# benchmarks/equivalents.py.
ERROR_OF_SIGNS = 0.02


@dataclass(frozen=True)
class CoupledMemory(CoupledField):
    """Coupled method with momentum.

    Attributes:
        basis: the method's coordinates.
        alone: its field where coordinates are eigenvectors.
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
        return unsettled if steps < SETTLED_STEPS else settled

    def run(self, *parts: Any) -> CoupledRun:
        """Return a run that follows δ and m."""
        return CoupledMemoryRun(*parts)


class MemoryJoint(NamedTuple):
    """Moments of δ and S as in `Joint`, and of m.

    Attributes:
        average: (d,) E m.
        with_error: (d, d) Cov(m, δ).
        with_itself: (d, d) Cov(m).
        with_sum: (d, d) Cov(m, S).
        kept: (others, d) values of the field's own.
    """

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
    """Run of a coupled method with momentum.

    Steps are taken one by one: directions with momentum oscillate, and a flow with real decays cannot follow them.
    """

    @cached_property
    def coordinates(self) -> Ensemble:
        """Return the coordinates as an ensemble of directions, as a field takes them."""
        square = self.size**2
        return Ensemble(self.size, square, np.ones_like(square), np.zeros_like(square), self.frozen, self.noise)

    def start(self) -> MemoryJoint:  # pyright: ignore[reportIncompatibleMethodOverride] (has a Joint's parts)
        """Return the moments at w_0, with m = 0."""
        joint = super().start()
        square = np.zeros_like(self.rows)
        kept = np.zeros((self.field.alone.others, self.size.size))
        return MemoryJoint(*joint, np.zeros_like(joint.mean), square, square, square, kept)

    def step(self, state: Any, keeping: Keeping, number: float) -> Any:
        """Return the state after one step: m takes up the gradient, and δ follows both."""
        known = self._known(number)
        field = self.field.alone
        law = self.gradient_law(state)
        loss = np.array([[self.risk(state) + self.noise]])
        shared = (self.by_error * state.with_error).sum(1)
        own = np.diag(state.with_itself)
        values = np.stack([law.mean, np.diag(law.covariance), state.average, shared, own, *state.kept])[:, None]
        # The field takes each coordinate alone; below, its gains and slopes act on full covariances.
        added = field.added(self.coordinates, values, loss, known)
        gain = np.broadcast_to(added.gain, law.mean[None].shape)[0]
        move = field.move(self.coordinates, values, loss, added, known)
        gradient = self._gradient(state, law, gain, added.noise[0], float(known.batch[0, 0]))
        # Rows of −Δδ on m and on the gradient: unit turns steps of u into those of δ.
        older, newest = (
            (np.broadcast_to(slope, law.mean[None].shape)[0] / self.unit) for slope in (move.older, move.newest)
        )
        pulled = older[:, None] * state.with_error + newest[:, None] * gradient.with_error
        crossed = older[:, None] * gradient.with_memory * newest
        followed = np.outer(older, older) * state.with_itself + np.outer(newest, newest) * gradient.with_itself
        followed = followed + crossed + crossed.T
        # Weight decay shrinks the weights, that is the distance of δ from its start, where w = 0.
        stays = 1 - float(known.rate[0, 0]) * field.weight_decay
        covariance = stays**2 * state.covariance - stays * pulled - stays * pulled.T + followed
        covariance = covariance + _scatter_covariance(move.scatter[0] / self.unit**2, followed)
        beta = field.momentum
        with_move = beta * (state.with_itself * older + gradient.with_memory * newest)
        with_move = with_move + gradient.with_memory.T * older + gradient.with_itself * newest
        mixed = beta * gradient.with_memory
        moved = state._replace(
            mean=stays * state.mean - move.drift[0] / self.unit + (1 - stays) * (self.rows @ self.origin),
            covariance=(covariance + covariance.T) / 2,
            average=beta * state.average + gain * law.mean,
            with_error=stays * (beta * state.with_error + gradient.with_error) - with_move,
            with_itself=beta**2 * state.with_itself + mixed + mixed.T + gradient.with_itself,
            kept=added.kept[:, 0],
        )
        if keeping.weight == 0:
            return moved
        joined = self.joined(state, keeping)
        memory = (1 - keeping.forgetting) * state.with_sum + keeping.weight * state.with_error
        summed = gradient.follows @ joined
        remaining = stays * joined - older[:, None] * memory - newest[:, None] * summed
        return self.summed(state, moved, keeping, remaining)._replace(with_sum=beta * memory + summed)

    def _gradient(self, state: Any, law: GradientLaw, gain: np.ndarray, noise: np.ndarray, batch: float) -> "_Gradient":
        """Return the contribution g of gradients to m: how it follows δ, and covariances with δ, m and itself."""
        second_moment = law.covariance + np.outer(law.mean, law.mean)
        follows = gain[:, None] * self.by_error
        with_error = follows @ state.covariance
        own = with_error @ follows.T + _noise_covariance(gain, noise * batch, law.noise, 2 * second_moment) / batch
        return _Gradient(follows, with_error, state.with_error @ follows.T, own)

    def _known(self, number: float) -> Known:
        """Return the step with this number, as a field takes it."""
        rate, batch = self.setting(number)
        numbers = np.array([number])
        batches = np.array([batch])
        table = tuple(self.field.alone.looked_up(numbers, batches))
        return Known(numbers[:, None], np.array([[rate]]), batches[:, None], table)

    def propagated(self, state: Any, keeping: Keeping, low: float, high: float, between: tuple[float, float]) -> Any:
        """Return the state after the steps low … high − 1, taken one by one.

        Raises:
            ValueError: the run has too many steps.
        """
        if self.course.num_steps > self.most_steps:
            raise ValueError(
                f"num_samples must be at most {self.most_steps:.3g} steps of {self.size.size} directions with momentum "
                f"where coordinates are not the eigenvectors, got {self.course.num_steps:.3g}; take fewer, or simulate"
            )
        return self.stepped(state, keeping, low, high)


class _Gradient(NamedTuple):
    """Contribution g of gradients to m, (d, d) each.

    Attributes:
        follows: derivative of E g by δ.
        with_error: Cov(g, δ).
        with_memory: Cov(m, g).
        with_itself: Cov(g).
    """

    follows: np.ndarray
    with_error: np.ndarray
    with_memory: np.ndarray
    with_itself: np.ndarray


def _scatter_covariance(added: np.ndarray, followed: np.ndarray) -> np.ndarray:
    """Return Cov ε from its diagonal; its correlations are the third powers of those of `followed`."""
    scatter = np.sqrt(np.maximum(added, 0.0))
    covariance = np.outer(scatter, scatter) * _correlation(followed) ** 3
    return covariance + np.diag(np.minimum(added, 0.0))  # a sign scatters less than the m that it follows


def _noise_covariance(gain: np.ndarray, noise: np.ndarray, others: np.ndarray, own: np.ndarray) -> np.ndarray:
    """Return Cov ν, (d, d), from its diagonal `noise` and the covariance `others + own` of gradients given δ.

    A field may leave out a share of `own`, the part due to the length of a batch's residuals, which does not change
    signs.
    """
    # The diagonal shows which share of `own` the field has left in; `inf` gives 0 where nothing is learnt.
    root = np.where(gain > 0, gain, np.inf)
    share = np.clip((noise / root**2 - np.diag(others)) / np.maximum(np.diag(own), TINY), 0.0, 1.0)
    scatter = others + np.sqrt(np.outer(share, share)) * own
    rest = np.sqrt(np.maximum(noise - gain**2 * np.diag(scatter), 0.0))
    covariance = np.outer(gain, gain) * scatter + np.outer(rest, rest) * _correlation(scatter) ** 3
    np.fill_diagonal(covariance, noise)
    return covariance


def _correlation(covariance: np.ndarray) -> np.ndarray:
    """Return the (d, d) correlations of a covariance, 0 where a variance is 0."""
    root = np.sqrt(np.maximum(np.diag(covariance), TINY))
    return np.clip(covariance / root[:, None] / root, -1, 1)


@dataclass(frozen=True)
class CoupledSigns(CoupledReaction):
    """signSGD without momentum, `w ← w − γ sign(g)`."""

    basis: Basis

    def error(self, steps: float, batch: float) -> float:
        """Return the relative error that `benchmarks/equivalents.py` measured."""
        return ERROR_OF_SIGNS

    def react(self, law: GradientLaw, batch: float) -> Reaction:
        """Return the moments of signs, which do not depend on the size of gradients."""
        return signs(law, batch)
