"""Methods with momentum in coordinates that are not the eigenvectors: signs of m, and Adam (THEORY.md T38).

What a coordinate does with its own gradients is what its field says (`MomentumField`): with u = H'δ/√diag H',

    m ← βm + gain u + ν,    δ ← δ − drift − slope (m − E m) + ε.

Coordinates meet in covariances. That of gradients given δ is `S = (E u uᵀ + T Ĥ)/B`. A step is an odd function of them:
what of it is linear has S itself, what is left, `rest = Var ν − gain² S_jj`, is correlated like a third power:

    Cov(ν_j, ν_k) = gain_j gain_k S_jk + √(rest_j rest_k) ρ_jk³,    ρ the correlations of S;

ε likewise, with those of m. Signs leave out of S what of E u uᵀ does not change them (THEORY.md T37).

signSGD in coordinates that are not the eigenvectors (THEORY.md T37).
"""

from dataclasses import dataclass
from functools import cached_property
from typing import Any, NamedTuple

import numpy as np

from sgdtheory.algorithms import Basis
from sgdtheory.risk.mean_field.coupled import CoupledField, CoupledReaction, CoupledRun
from sgdtheory.risk.mean_field.ensemble import Ensemble
from sgdtheory.risk.mean_field.field import Known, MomentumField
from sgdtheory.risk.mean_field.sign_covariance import Reaction, Seen, signs
from sgdtheory.risk.mean_field.signs import SignMomentumField
from sgdtheory.risk.systems.moments import Keeping

SIGNS_ERROR = 0.1, 0.15  # relative, of signs with momentum, and within the first `SETTLED` steps: 9% were met there
ADAM_ERROR = 0.02, 0.15  # likewise
SETTLED = 100.0
TINY = np.finfo(float).tiny


@dataclass(frozen=True)
class CoupledMomentum(CoupledField):
    """A coupled method with momentum.

    Attributes:
        basis: its coordinates.
        alone: what it does where coordinates are eigenvectors.
    """

    basis: Basis
    alone: MomentumField

    @property
    def few(self) -> float:  # pyright: ignore[reportIncompatibleVariableOverride] (a property in a field's place)
        """Return the field's own number of few steps."""
        return self.alone.few

    def error(self, steps: float, batch: float) -> float:
        """Return the measured error; signs of many coordinates are up to 7% off, mostly by the cube (T38)."""
        settled, unsettled = SIGNS_ERROR if isinstance(self.alone, SignMomentumField) else ADAM_ERROR
        return unsettled if steps < SETTLED else settled

    def run(self, *parts: Any) -> CoupledRun:
        """Return a run that follows δ and m."""
        return CoupledMomentumRun(*parts)


class MomentumJoint(NamedTuple):
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
class CoupledMomentumRun(CoupledRun):
    """One run. Steps are taken one by one: directions with momentum swing, which no real flow follows."""

    @cached_property
    def coordinates(self) -> Ensemble:
        """Coordinates, as a field sees directions."""
        square = self.size**2
        return Ensemble(self.size, square, np.ones_like(square), np.zeros_like(square), self.frozen, self.noise)

    def start(self) -> MomentumJoint:  # pyright: ignore[reportIncompatibleMethodOverride] (has a Joint's parts)
        """w_0, and m = 0."""
        joint = super().start()
        square = np.zeros_like(self.rows)
        kept = np.zeros((self.field.alone.others, self.size.size))
        return MomentumJoint(*joint, np.zeros_like(joint.mean), square, square, square, kept)

    def step(self, state: Any, keeping: Keeping, number: float) -> Any:
        """One step."""
        known = self._known(number)
        seen = self.seen(state)
        both = seen.covariance + np.outer(seen.mean, seen.mean)
        loss = np.array([[self.risk(state) + self.noise]])
        shared = (self.looks * state.with_error).sum(1)
        own = np.diag(state.with_itself)
        values = np.stack([seen.mean, np.diag(seen.covariance), state.average, shared, own, *state.kept])[:, None]
        done = self.field.alone.averaged(self.coordinates, values, loss, known)
        gain = np.broadcast_to(done.gain, seen.mean[None].shape)[0]
        follows = gain[:, None] * self.looks
        beta = self.field.alone.momentum
        average = beta * state.average + gain * seen.mean
        error = beta * state.with_error + follows @ state.covariance
        mixed = beta * follows @ state.with_error.T
        own = beta**2 * state.with_itself + mixed + mixed.T + follows @ state.covariance @ follows.T
        own = own + _noise(gain, done.noise[0] * known.batch[0, 0], seen.noise, 2 * both) / known.batch[0, 0]
        moved, slope = self._moved(state, known, average, error, own, done.kept[:, 0])
        return self._with_sum(state, moved, keeping, follows, slope)

    def _known(self, number: float) -> Known:
        """The step, as a field sees it."""
        rate, batch = self.setting(number)
        numbers = np.array([number])
        batches = np.array([batch])
        table = tuple(self.field.alone.looked_up(numbers, batches))
        return Known(numbers[:, None], np.array([[rate]]), batches[:, None], table)

    def _moved(
        self, state: Any, known: Known, average: np.ndarray, error: np.ndarray, own: np.ndarray, kept: np.ndarray
    ) -> tuple[Any, np.ndarray]:
        """δ after m, of which the mean, Cov(m, δ) and Cov(m) are given; and the slope of −Δδ by m."""
        variance = np.diag(own)
        move = self.field.alone.move(self.coordinates, average[None], variance[None], kept[:, None], known)
        slope = move.slope[0] / self.unit
        added = np.broadcast_to(move.scatter[0], variance.shape) / self.unit**2
        scatter = np.sqrt(np.maximum(added, 0.0))
        pulled = slope[:, None] * error
        covariance = state.covariance - pulled - pulled.T + np.outer(slope, slope) * own
        covariance = covariance + np.outer(scatter, scatter) * _correlation(own) ** 3
        covariance = covariance + np.diag(np.minimum(added, 0.0))  # a sign scatters less than the m that it follows
        moved = state._replace(
            mean=state.mean - move.drift[0] / self.unit,
            covariance=(covariance + covariance.T) / 2,
            average=average,
            with_error=error - own * slope,
            with_itself=own,
            kept=kept,
        )
        return moved, slope

    def _with_sum(self, state: Any, moved: Any, keeping: Keeping, follows: np.ndarray, slope: np.ndarray) -> Any:
        """The new sum; Cov(m, S) and Cov(δ, S) follow m and δ."""
        if keeping.weight == 0:
            return moved
        joined = self.joined(state, keeping)
        average = (1 - keeping.forgetting) * state.with_sum + keeping.weight * state.with_error
        average = self.field.alone.momentum * average + follows @ joined
        found = self.summed(state, moved, keeping, joined - slope[:, None] * average)
        return found._replace(with_sum=average)

    def crossed(self, state: Any, keeping: Keeping, low: float, high: float, between: tuple[float, float]) -> Any:
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
    """(d, d), 0 where a variance is."""
    root = np.sqrt(np.maximum(np.diag(covariance), TINY))
    return np.clip(covariance / root[:, None] / root, -1, 1)


ERROR = 0.02  # relative, where no coordinate leads to and fro, as measured by benchmarks/equivalents.py


@dataclass(frozen=True)
class CoupledSigns(CoupledReaction):
    """`w ← w − γ sign(g)`."""

    basis: Basis

    def error(self, steps: float, batch: float) -> float:
        """As measured."""
        return ERROR

    def react(self, seen: Seen, batch: float) -> Reaction:
        """Signs do not tell the size of gradients."""
        return signs(seen, batch)
