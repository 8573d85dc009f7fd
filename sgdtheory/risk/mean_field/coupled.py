"""Runs of a method whose coordinates are not the eigenvectors: mean and covariance of all weights (THEORY.md T37).

In the method's coordinates w − w* = δ is Gaussian with mean μ and covariance C, and H' = Q Λ Qᵀ. A step −γd whose mean
is e, whose covariance with δ is `Cov(d, δ) = D C` by Stein and whose covariance is S makes of them

    μ ← μ − γ e,    C ← C − γ (D C + C Dᵀ) + γ² S,    D = diag(slope) diag(H')^{−½} H',

and of an average's `S ← ρS + ωδ` Cov(δ, S) ← (1 − γD)(ρ Cov(δ, S) + ω C). One step costs some d² exponentials.
"""

from abc import ABC, abstractmethod
from dataclasses import dataclass
from functools import cached_property
from typing import Any, NamedTuple

import numpy as np

from sgdtheory.algorithms import Basis, Course, rotation
from sgdtheory.problems import AbstractProblem
from sgdtheory.risk.mean_field import long_steps
from sgdtheory.risk.mean_field.sign_covariance import Reaction, Seen
from sgdtheory.risk.mean_field.stated_error import LargestErrors
from sgdtheory.risk.systems.moments import Keeping

TOLERANCE = 3e-5  # Relative error of the risk that a long step may have: it adds up to 1e-3 along a run.
# So many steps after a kink, and before the next one, are taken one by one.
FIRST_STEPS = 48.0
LAST_STEPS = 8.0
FASTEST = 1.5  # Steps are taken one by one where something decays faster than this a step.
EVALUATIONS = 3  # The flow of a long step is made of the differences of so many steps.
SINGLE = 16.0  # So many steps are taken one by one where a long one would need as many evaluations.
# A long step is at most and at least so many times as long as the one before it.
GROWTH = 4.0
SHORTER = 0.2
# A long step has this share of the length at which its error, which grows like the cube, would be too large.
CAREFUL = 0.8
SMALLEST_ERROR = 1e-9  # A smaller error counts as this much, so that lengths stay finite.
LOST = 1.0  # Relative error of variances where steps lead to and fro.
# Relative error of variances over the share of the loss that a coordinate sees and that is not noise.
FLUCTUATING = 0.6
MOST_WORK = 2e9  # Steps that are taken one by one, times d², are at most so many, which takes some minutes.
LARGEST = 512  # Most directions: a step takes d² exponentials, 0.1 s with so many.
SEED = 0, 0  # The risk in a random basis is that of the rotation with this seed.


class Joint(NamedTuple):
    """Mean (d,) and covariance (d, d) of δ; of an average's sum S the mean, Cov(δ, S), and `diag(H' Cov(S))`."""

    mean: np.ndarray
    covariance: np.ndarray
    sum_mean: np.ndarray
    shared: np.ndarray
    sum_risk: np.ndarray


class CoupledField(ABC):
    """A method whose coordinates are coupled, and the error of its equivalent.

    Attributes:
        basis: its coordinates.
        few: steps; up to so many the risk has several minima over γ.
    """

    few: float = 16.0
    basis: Basis

    @abstractmethod
    def error(self, steps: float, batch: float) -> float:
        """Relative error of risks after so many steps at B, as measured by benchmarks/equivalents.py."""

    @abstractmethod
    def run(self, *parts: Any) -> "CoupledRun":
        """A run of it, from the parts of a CoupledRun."""


class CoupledReaction(CoupledField):
    """A coupled method without memory."""

    def run(self, *parts: Any) -> "CoupledRun":
        """Return a run that follows mean and covariance of δ alone."""
        return CoupledRun(*parts)

    @abstractmethod
    def react(self, seen: Seen, batch: float) -> Reaction:
        """Return the step, given what coordinates see and B."""


@dataclass(frozen=True, eq=False)
class CoupledRun:
    """One run.

    Attributes:
        eigenvalue: (d,) λ.
        origin: (d,) w_0 − w* along eigenvectors.
        rows: (d, d) Q.
        noise: σ².
        frozen: risk of directions without a gradient.
        course: learning rates and batch sizes.
        plateaus: whether batch sizes are constant between kinks.
        field: of the method, which says how far it is right.
    """

    eigenvalue: np.ndarray
    origin: np.ndarray
    rows: np.ndarray
    noise: float
    frozen: float
    course: Course
    plateaus: bool
    field: Any

    @property
    def most_steps(self) -> float:
        """Return the largest number of steps that are taken one by one."""
        return MOST_WORK / self.eigenvalue.size**2

    @cached_property
    def hessian(self) -> np.ndarray:
        """(d, d) H'."""
        return self.rows * self.eigenvalue @ self.rows.T

    @cached_property
    def size(self) -> np.ndarray:
        """(d,) √diag H'."""
        return np.sqrt(np.diag(self.hessian))

    @cached_property
    def unit(self) -> np.ndarray:
        """(d,) the same, to divide by: 1 where a coordinate has no gradient."""
        return np.where(self.size > 0, self.size, 1.0)

    @cached_property
    def looks(self) -> np.ndarray:
        """(d, d) of u = looks δ."""
        return self.hessian / self.unit[:, None]

    @cached_property
    def alike(self) -> np.ndarray:
        """(d, d) correlations of features."""
        return self.looks / self.unit

    def start(self) -> Joint:
        """w_0, and an empty sum."""
        mean = self.rows @ self.origin
        square = np.zeros_like(self.rows)
        return Joint(mean, square, np.zeros_like(mean), square, np.zeros_like(mean))

    def with_sum(self, state: Joint) -> Joint:
        """The sum begins as the iterate, at the start, where nothing is random."""
        return state._replace(sum_mean=state.mean)

    def contributions(self, state: Joint, own: float, total: float) -> tuple[np.ndarray, np.ndarray]:
        """(d,) each: what means and variances of `own δ + total S` hold of the risk, coordinate by coordinate."""
        mean = own * state.mean + total * state.sum_mean
        iterate = (self.hessian * state.covariance).sum(1)
        shared = (self.hessian * state.shared.T).sum(1)
        return mean * (self.hessian @ mean), own**2 * iterate + 2 * own * total * shared + total**2 * state.sum_risk

    def risk(self, state: Joint) -> float:
        """R of the iterate."""
        return float(np.sum(self.contributions(state, 1.0, 0.0))) + self.frozen

    def seen(self, state: Joint) -> Seen:
        """Return what coordinates see: `N = T Ĥ − E u uᵀ`, Ĥ the features' correlations (THEORY.md T36)."""
        mean = self.looks @ state.mean
        covariance = self.looks @ state.covariance @ self.looks.T
        loss = self.risk(state) + self.noise
        return Seen(mean, covariance, loss * self.alike - np.outer(mean, mean) - covariance, self.size)

    def doubt(self, state: Joint, number: float) -> np.ndarray:
        """(d,) relative errors of variances after step `number`, as measured by benchmarks/equivalents.py.

        Coordinates that are shaken more than their gradients are, `B r > T − E u²`, lead to and fro, past the optimum
        and back, many of them together; and the loss fluctuates where it is made of few directions.
        """
        seen = self.seen(state)
        _, batch = self.setting(number)
        spread = np.diag(seen.covariance)
        noise = np.diag(seen.noise)
        fluctuating = spread.sum() / max(noise.sum(), np.finfo(float).tiny)
        return np.maximum(LOST * (batch * spread > noise), min(FLUCTUATING * fluctuating, LOST))

    def initial_error(self) -> LargestErrors:
        """Nothing is in doubt at the start."""
        return LargestErrors(np.zeros_like(self.eigenvalue))

    def propagated_error(
        self, error: LargestErrors, before: Any, after: Any, low: float, high: float, kept: float | None
    ) -> LargestErrors:
        """Return the errors that are carried after step high − 1."""
        return LargestErrors(np.maximum(error.error, self.doubt(after, high - 1)))

    def step(self, state: Joint, keeping: Keeping, number: float) -> Joint:
        """One step; its number need not be whole."""
        rate, batch = self.setting(number)
        done = self.field.react(self.seen(state), batch)
        pull = rate * done.slope[:, None] * self.looks
        pulled = pull @ state.covariance
        covariance = state.covariance - pulled - pulled.T + rate**2 * done.covariance
        moved = state._replace(mean=state.mean - rate * done.mean, covariance=(covariance + covariance.T) / 2)
        if keeping.weight == 0:
            return moved
        joined = self.joined(state, keeping)
        return self.summed(state, moved, keeping, joined - pull @ joined)

    def joined(self, state: Any, keeping: Keeping) -> np.ndarray:
        """(d, d) Cov(δ, S) with the new sum `S ← ρS + ωδ` and the δ before the step."""
        return (1 - keeping.forgetting) * state.shared + keeping.weight * state.covariance

    def summed(self, state: Any, moved: Any, keeping: Keeping, shared: np.ndarray) -> Any:
        """The moved state with the new sum, of the δ before the step; its Cov(δ, S) is given."""
        rho = 1 - keeping.forgetting
        omega = keeping.weight
        own = (self.hessian * state.covariance).sum(1)
        both = (self.hessian * state.shared.T).sum(1)
        return moved._replace(
            sum_mean=rho * state.sum_mean + omega * state.mean,
            shared=shared,
            sum_risk=rho**2 * state.sum_risk + 2 * rho * omega * both + omega**2 * own,
        )

    def setting(self, number: float) -> tuple[float, float]:
        """Learning rate and batch size."""
        place = np.array([number])
        rounded = self.plateaus or number == round(number)
        batches = self.course.batches(place) if rounded else self.course.smooth_batches(place)
        return float(self.course.rates(place)[0]), float(batches[0])

    def stepped(self, state: Joint, keeping: Keeping, low: float, high: float) -> Joint:
        """The steps low … high − 1, one by one."""
        for number in np.arange(low, high):
            state = self.step(state, keeping, float(number))
        return state

    def propagated(
        self, state: Joint, keeping: Keeping, low: float, high: float, between: tuple[float, float]
    ) -> Joint:
        """The same between two kinks; what lies away from them in long steps, where these are sooner done."""
        origin, last = between
        begin = min(max(low, origin + FIRST_STEPS), high)
        end = max(min(high, last - LAST_STEPS), begin)
        state = self.stepped(state, keeping, low, begin)
        state = Long(self, keeping, last).crossed(state, begin, end)
        return self.stepped(state, keeping, end, high)


@dataclass(frozen=True, eq=False)
class Long:
    """Long steps of a run: its steps are followed as a flow.

    With forward differences Δ of three steps, `d/dt = log(1 + Δ) = Δ − Δ²/2 + Δ³/3`: what decays fast has ended, and is
    at the same place as that of single steps. Panels as `solver` has them would take Newton's method in all of C at
    once, d² unknowns that are coupled; a flow takes steps alone.
    """

    run: CoupledRun
    keeping: Keeping
    last: float

    def crossed(self, state: Joint, low: float, high: float) -> Joint:
        """The steps low … high − 1."""
        now = low
        length = SINGLE
        while now < high:
            decay = self._decay(state, now)
            followed = decay > FASTEST and high - now <= self.run.most_steps
            if followed or high - now <= SINGLE:
                end = min(now + SINGLE, high)
                state = self.run.stepped(state, self.keeping, now, end)
                now = end
                continue
            state, now, length = self._lengthwise(state, now, high, length, decay)
        return state

    def _lengthwise(
        self, state: Joint, now: float, high: float, length: float, decay: float
    ) -> tuple[Joint, float, float]:
        """After one long step, or single ones that are sooner done; and how long the next may be."""
        values = _flat(state)
        slope = self._flow(now, values)
        decay = decay + decay**2 / 2 + decay**3 / 3  # the flow's
        most = long_steps.longest(decay)
        while True:
            length = np.floor(min(length, most, high - now))
            stages = long_steps.stages_for(length, decay)
            if stages * EVALUATIONS >= length:
                end = min(now + SINGLE, high)
                return self.run.stepped(state, self.keeping, now, end), end, max(GROWTH * length, SINGLE)
            found = long_steps.stepped(self._flow, now, values, slope, length, stages)
            error = self._error(found.error, found.state) / TOLERANCE
            change = SHORTER
            if np.isfinite(error):
                change = np.clip(CAREFUL * max(error, SMALLEST_ERROR) ** (-1 / 3), SHORTER, GROWTH)
            if error < 1:
                return self._joint(found.state), now + length, length * change
            length *= change

    def _decay(self, state: Joint, now: float) -> float:
        """The fastest, a step: of variances twice that of means."""
        rate, batch = self.run.setting(now)
        slope = self.run.field.react(self.run.seen(state), batch).slope
        root = np.sqrt(slope / self.run.unit)
        return 2 * rate * float(np.linalg.eigvalsh(root[:, None] * self.run.hessian * root)[-1])

    def _flow(self, now: float, values: np.ndarray) -> np.ndarray:
        states = [values]
        for later in range(EVALUATIONS):
            number = min(now + later, self.last - 1)
            states.append(_flat(self.run.step(self._joint(states[-1]), self.keeping, number)))
        first, second, third = (np.diff(states, order, axis=0)[0] for order in (1, 2, 3))
        return first - second / 2 + third / 3

    def _error(self, error: np.ndarray, values: np.ndarray) -> float:
        """Return the relative error of the risks of iterate and sum."""
        state = self._joint(values)
        wrong = self._joint(error)
        hessian = self.run.hessian
        risk = self.run.risk(state)
        summed = state.sum_mean @ hessian @ state.sum_mean + state.sum_risk.sum()
        turned = hessian @ wrong.covariance
        found = [_length(wrong.mean, hessian) / np.sqrt(risk), np.sqrt(np.abs((turned * turned.T).sum())) / risk]
        if self.keeping.weight and summed > 0:
            found.append(_length(wrong.sum_mean, hessian) / np.sqrt(summed))
            found.append(abs((hessian * wrong.shared).sum()) / np.sqrt(risk * summed))
            found.append(abs(wrong.sum_risk.sum()) / summed)
        return float(np.max(found))

    def _joint(self, values: np.ndarray) -> Joint:
        d = self.run.eigenvalue.size
        cuts = np.cumsum([d, d * d, d, d * d])
        mean, covariance, sum_mean, shared, sum_risk = np.split(values, cuts)
        return Joint(mean, covariance.reshape(d, d), sum_mean, shared.reshape(d, d), sum_risk)


def _flat(state: Joint) -> np.ndarray:
    return np.concatenate([each.ravel() for each in state])


def _length(vector: np.ndarray, hessian: np.ndarray) -> float:
    return float(np.sqrt(max(vector @ hessian @ vector, 0.0)))


def coupled_run(problem: AbstractProblem, course: Course, plateaus: bool, field: CoupledField) -> CoupledRun:
    """A run of few enough directions.

    Raises:
        ValueError: too many directions, or not as many as given coordinates.
    """
    dim = problem.dim
    if dim is None or dim > LARGEST:
        raise ValueError(
            f"problem must have at most {LARGEST} directions where coordinates are not the eigenvectors, got "
            f"{'infinitely many' if dim is None else dim}; truncate it, or simulate"
        )
    eigenvalue, signal = problem.directions()
    rows = rotation(field.basis, dim, SEED)
    seen = eigenvalue > 0
    origin = np.where(seen, np.sqrt(signal / np.where(seen, eigenvalue, 1.0)), 0.0)
    frozen = float(signal[~seen].sum())
    square = np.eye(dim) if rows is None else rows
    return field.run(eigenvalue, origin, square, problem.noise_variance, frozen, course, plateaus, field)
