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
from sgdtheory.risk.mean_field.ensemble import TINY
from sgdtheory.risk.mean_field.sign_covariance import GradientLaw, Reaction
from sgdtheory.risk.mean_field.stated_error import LargestErrors
from sgdtheory.risk.systems.moments import Keeping

# The relative error of the risk in a long step, up to 1e-3 in a run. With half or twice as much risks change by 1e-4.
TOLERANCE = 3e-5
# This many steps after a kink are taken one by one. With 24 risks change by 1e-7, with 96 by 2e-5.
FIRST_STEPS = 48.0
# This many steps before a kink are taken one by one. With 4 no risk changes, with 16 risks change by 9e-6.
LAST_STEPS = 8.0
# The flow of a long step is a sum of the first to third differences of single steps. Its error is of fourth order in
# the decay per step.
DIFFERENCES = 3
# Steps are taken one by one where a variance decays faster than this a step, since the flow is wrong there. Neither
# half nor twice as much changes a risk of signSGD on eight directions.
FASTEST_DECAY = 1.5
# This many single steps replace a long one that needs as many evaluations. Half or twice as many change risks by 3e-5.
SINGLE_STEPS = 16.0
# A long step is at most this many times as long as the one before. With 2 risks change by 1e-6, with 8 by nothing.
LARGEST_GROWTH = 4.0
# A long step that is refused is repeated with at least this share of its length. With 0.1 and 0.4 no risk changes.
SMALLEST_GROWTH = 0.2
# A long step has this share of the length at which its error, which grows like the cube, would reach the tolerance.
# With 0.6 risks change by 9e-5 in 1.2 times the time, with 0.95 by 1e-4.
SAFETY = 0.8
# The relative error of variances is this factor times the share of the loss that coordinates see and that is not noise.
# benchmarks/equivalents.py measures it.
FLUCTUATION_FACTOR = 0.6
# Steps that are taken one by one, times d², are at most this many, which takes some minutes.
LARGEST_WORK = 2e9
# There are at most this many directions: a step takes d² exponentials, 0.1 s for so many.
LARGEST_DIMENSION = 512
# The risk in a random basis is that of the rotation with this seed; another seed changes it.
SEED = 0, 0


class Joint(NamedTuple):
    """Moments of δ, and of the sum S of iterates that an average returns.

    Attributes:
        mean: (d,) E δ.
        covariance: (d, d) Cov(δ).
        sum_mean: (d,) E S.
        shared: (d, d) Cov(δ, S).
        sum_risk: (d,) diag(H' Cov(S)).
    """

    mean: np.ndarray
    covariance: np.ndarray
    sum_mean: np.ndarray
    shared: np.ndarray
    sum_risk: np.ndarray


class CoupledField(ABC):
    """Method whose coordinates are coupled, and the error of its equivalent.

    Attributes:
        basis: the method's coordinates.
        few, jagged, minima_memory: as in `Field`.
    """

    few: float = 64.0
    jagged: float = np.inf
    minima_memory: float = 0.0
    basis: Basis

    @abstractmethod
    def error(self, steps: float, batch: float) -> float:
        """Return the relative error of risks after so many steps at B, as measured by benchmarks/equivalents.py."""

    @abstractmethod
    def run(self, *parts: Any) -> "CoupledRun":
        """Return a run of the method, from the parts of a CoupledRun."""


class CoupledReaction(CoupledField):
    """Coupled method without memory."""

    def run(self, *parts: Any) -> "CoupledRun":
        """Return a run that follows mean and covariance of δ alone."""
        return CoupledRun(*parts)

    @abstractmethod
    def react(self, law: GradientLaw, batch: float) -> Reaction:
        """Return the moments of the step, given those of the gradients and B."""


@dataclass(frozen=True, eq=False)
class CoupledRun:
    """Run of a coupled method on d directions.

    Attributes:
        eigenvalue: (d,) λ.
        origin: (d,) w_0 − w* along eigenvectors.
        rows: (d, d) Q.
        noise: σ².
        frozen: risk of directions without a gradient.
        course: learning rates and batch sizes.
        plateaus: whether batch sizes are constant between kinks.
        field: the coupled method.
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
        return LARGEST_WORK / self.eigenvalue.size**2

    @cached_property
    def hessian(self) -> np.ndarray:
        """Return H', (d, d)."""
        return self.rows * self.eigenvalue @ self.rows.T

    @cached_property
    def size(self) -> np.ndarray:
        """Return √diag H', (d,)."""
        return np.sqrt(np.diag(self.hessian))

    @cached_property
    def unit(self) -> np.ndarray:
        """Return √diag H' as a divisor, (d,): 1 where a coordinate has no gradient."""
        return np.where(self.size > 0, self.size, 1.0)

    @cached_property
    def by_error(self) -> np.ndarray:
        """Return the matrix (d, d) of u = by_error δ."""
        return self.hessian / self.unit[:, None]

    @cached_property
    def correlations(self) -> np.ndarray:
        """Return the correlations of features, Ĥ, (d, d)."""
        return self.by_error / self.unit

    def start(self) -> Joint:
        """Return the moments at w_0, and an empty sum."""
        mean = self.rows @ self.origin
        square = np.zeros_like(self.rows)
        return Joint(mean, square, np.zeros_like(mean), square, np.zeros_like(mean))

    def with_sum(self, state: Joint) -> Joint:
        """Return the initial state with a sum that holds w_0, which is not random."""
        return state._replace(sum_mean=state.mean)

    def contributions(self, state: Joint, own: float, total: float) -> tuple[np.ndarray, np.ndarray]:
        """Return what mean and variance of `own δ + total S` contribute to the risk in each coordinate, (d,) each."""
        mean = own * state.mean + total * state.sum_mean
        # Row i of H' times row i of a covariance is the part of E δᵀH'δ that belongs to coordinate i.
        iterate = (self.hessian * state.covariance).sum(1)
        shared = (self.hessian * state.shared.T).sum(1)
        return mean * (self.hessian @ mean), own**2 * iterate + 2 * own * total * shared + total**2 * state.sum_risk

    def risk(self, state: Joint) -> float:
        """Return the risk of the iterate."""
        return float(np.sum(self.contributions(state, 1.0, 0.0))) + self.frozen

    def gradient_law(self, state: Joint) -> GradientLaw:
        """Return the moments of the gradients, `N = T Ĥ − E u uᵀ`, Ĥ the features' correlations (THEORY.md T36)."""
        mean = self.by_error @ state.mean
        covariance = self.by_error @ state.covariance @ self.by_error.T
        loss = self.risk(state) + self.noise
        return GradientLaw(mean, covariance, loss * self.correlations - np.outer(mean, mean) - covariance, self.size)

    def variance_error(self, state: Joint, number: float) -> np.ndarray:
        """Return the relative errors (d,) of variances after step `number`, measured by benchmarks/equivalents.py.

        Coordinates in which u scatters more than the noise of the gradient, `B r > T − E u²`, jump past the optimum and
        back, many of them together: no digit of their variance is known. The loss fluctuates if few directions
        contribute to it.
        """
        law = self.gradient_law(state)
        _, batch = self.setting(number)
        spread = np.diag(law.covariance)
        noise = np.diag(law.noise)
        fluctuating = spread.sum() / max(noise.sum(), TINY)
        return np.maximum(batch * spread > noise, min(FLUCTUATION_FACTOR * fluctuating, 1.0))

    def initial_error(self) -> LargestErrors:
        """Return the errors at the start, where there are none."""
        return LargestErrors(np.zeros_like(self.eigenvalue))

    def propagated_error(
        self, error: LargestErrors, before: Any, after: Any, low: float, high: float, kept: float | None
    ) -> LargestErrors:
        """Return the errors that are carried after step high − 1."""
        return LargestErrors(np.maximum(error.error, self.variance_error(after, high - 1)))

    def step(self, state: Joint, keeping: Keeping, number: float) -> Joint:
        """Return the state after the step with this number, which need not be whole."""
        rate, batch = self.setting(number)
        reaction = self.field.react(self.gradient_law(state), batch)
        pull = rate * reaction.slope[:, None] * self.by_error
        pulled = pull @ state.covariance
        covariance = state.covariance - pulled - pulled.T + rate**2 * reaction.covariance
        # Rounding makes C asymmetric, and the asymmetry would grow along a run.
        moved = state._replace(mean=state.mean - rate * reaction.mean, covariance=(covariance + covariance.T) / 2)
        if keeping.weight == 0:
            return moved
        joined = self.joined(state, keeping)
        return self.summed(state, moved, keeping, joined - pull @ joined)

    def joined(self, state: Any, keeping: Keeping) -> np.ndarray:
        """Return Cov(δ, S), (d, d), with the new sum `S ← ρS + ωδ` and the δ before the step."""
        return (1 - keeping.forgetting) * state.shared + keeping.weight * state.covariance

    def summed(self, state: Any, moved: Any, keeping: Keeping, shared: np.ndarray) -> Any:
        """Return the moved state with the new sum, which takes the δ before the step; Cov(δ, S) is given."""
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
        """Return the learning rate and the batch size of a step."""
        step = np.array([number])
        rounded = self.plateaus or number == round(number)
        batches = self.course.batches(step) if rounded else self.course.smooth_batches(step)
        return float(self.course.rates(step)[0]), float(batches[0])

    def stepped(self, state: Joint, keeping: Keeping, low: float, high: float) -> Joint:
        """Return the state after the steps low … high − 1, taken one by one."""
        for number in np.arange(low, high):
            state = self.step(state, keeping, float(number))
        return state

    def propagated(
        self, state: Joint, keeping: Keeping, low: float, high: float, between: tuple[float, float]
    ) -> Joint:
        """Return the state after the steps low … high − 1 between two kinks, in long steps away from the kinks."""
        origin, last = between
        # Fast decays begin anew at a kink, where rates jump: single steps follow them until they have ended.
        begin = min(max(low, origin + FIRST_STEPS), high)
        end = max(min(high, last - LAST_STEPS), begin)
        state = self.stepped(state, keeping, low, begin)
        state = LongSteps(self, keeping, last).propagated(state, begin, end)
        return self.stepped(state, keeping, end, high)


@dataclass(frozen=True, eq=False)
class LongSteps:
    """Long steps of a run, which follow its single steps as a flow.

    With forward differences Δ of three steps, `d/dt = log(1 + Δ) = Δ − Δ²/2 + Δ³/3`. Fast decays end at the values at
    which single steps end. Panels as in `solver` would need Newton's method for d² coupled unknowns; a flow does not.

    Attributes:
        run: the run.
        keeping: the sum of iterates that the average keeps.
        last: number of the step at the next kink.
    """

    run: CoupledRun
    keeping: Keeping
    last: float

    def propagated(self, state: Joint, low: float, high: float) -> Joint:
        """Return the state after the steps low … high − 1."""
        now = low
        length = SINGLE_STEPS
        while now < high:
            decay = self._decay(state, now)
            # A flow is wrong for so fast a decay, but beyond the limit on single steps there is nothing else.
            one_by_one = decay > FASTEST_DECAY and high - now <= self.run.most_steps
            if one_by_one or high - now <= SINGLE_STEPS:
                end = min(now + SINGLE_STEPS, high)
                state = self.run.stepped(state, self.keeping, now, end)
                now = end
                continue
            state, now, length = self._long_step(state, now, high, length, decay)
        return state

    def _long_step(
        self, state: Joint, now: float, high: float, length: float, decay: float
    ) -> tuple[Joint, float, float]:
        """Return the state after one long step, or after single steps that take less time, and the next length."""
        values = _flat(state)
        slope = self._flow(now, values)
        # The flow decays faster than its steps: log(1 + Δ) at Δ = −decay, to third order.
        decay = decay + decay**2 / 2 + decay**3 / 3
        longest = long_steps.longest(decay)
        while True:
            length = np.floor(min(length, longest, high - now))
            stages = long_steps.stages_for(length, decay)
            # A stage evaluates the flow once, that is it takes so many single steps.
            if stages * DIFFERENCES >= length:
                end = min(now + SINGLE_STEPS, high)
                return self.run.stepped(state, self.keeping, now, end), end, max(LARGEST_GROWTH * length, SINGLE_STEPS)
            after = long_steps.stepped(self._flow, now, values, slope, length, stages)
            error = self._error(after.error, after.state) / TOLERANCE
            change = SMALLEST_GROWTH
            if np.isfinite(error):
                change = np.clip(SAFETY * max(error, TINY) ** (-1 / 3), SMALLEST_GROWTH, LARGEST_GROWTH)
            if error < 1:
                return self._joint(after.state), now + length, length * change
            length *= change

    def _decay(self, state: Joint, now: float) -> float:
        """Return the fastest decay of a variance in a step, which is twice that of a mean."""
        rate, batch = self.run.setting(now)
        slope = self.run.field.react(self.run.gradient_law(state), batch).slope
        # D = diag(slope/unit) H' is similar to this symmetric matrix.
        root = np.sqrt(slope / self.run.unit)
        return 2 * rate * float(np.linalg.eigvalsh(root[:, None] * self.run.hessian * root)[-1])

    def _flow(self, now: float, values: np.ndarray) -> np.ndarray:
        """Return the derivative of the state by the step number."""
        states = [values]
        for later in range(DIFFERENCES):
            number = min(now + later, self.last - 1)  # rates beyond the kink follow another law
            states.append(_flat(self.run.step(self._joint(states[-1]), self.keeping, number)))
        first, second, third = (np.diff(states, order, axis=0)[0] for order in (1, 2, 3))
        return first - second / 2 + third / 3

    def _error(self, error: np.ndarray, values: np.ndarray) -> float:
        """Return the relative error of the risks of iterate and sum."""
        state = self._joint(values)
        errors = self._joint(error)
        hessian = self.run.hessian
        risk = self.run.risk(state)
        summed = state.sum_mean @ hessian @ state.sum_mean + state.sum_risk.sum()
        # The root of tr (H' E)² bounds how far errors E of all signs could add up, where tr H' E lets them cancel.
        product = hessian @ errors.covariance
        relative = [_length(errors.mean, hessian) / np.sqrt(risk), np.sqrt(np.abs((product * product.T).sum())) / risk]
        if self.keeping.weight and summed > 0:
            relative.append(_length(errors.sum_mean, hessian) / np.sqrt(summed))
            relative.append(abs((hessian * errors.shared).sum()) / np.sqrt(risk * summed))
            relative.append(abs(errors.sum_risk.sum()) / summed)
        return float(np.max(relative))

    def _joint(self, values: np.ndarray) -> Joint:
        """Return the state that `_flat` turned into a vector."""
        d = self.run.eigenvalue.size
        cuts = np.cumsum([d, d * d, d, d * d])
        mean, covariance, sum_mean, shared, sum_risk = np.split(values, cuts)
        return Joint(mean, covariance.reshape(d, d), sum_mean, shared.reshape(d, d), sum_risk)


def _flat(state: Joint) -> np.ndarray:
    """Return all moments as one vector, as flows need them."""
    return np.concatenate([moment.ravel() for moment in state])


def _length(vector: np.ndarray, hessian: np.ndarray) -> float:
    """Return √(vᵀ H' v)."""
    return float(np.sqrt(max(vector @ hessian @ vector, 0.0)))


def coupled_run(problem: AbstractProblem, course: Course, plateaus: bool, field: CoupledField) -> CoupledRun:
    """Return a run of the field on the problem's directions.

    Raises:
        ValueError: the problem has too many directions, or not as many as the given coordinates.
    """
    dim = problem.dim
    if dim is None or dim > LARGEST_DIMENSION:
        raise ValueError(
            f"problem must have at most {LARGEST_DIMENSION} directions where coordinates are not the eigenvectors, got "
            f"{'infinitely many' if dim is None else dim}; truncate it, or simulate"
        )
    eigenvalue, signal = problem.directions()
    rows = rotation(field.basis, dim, SEED)
    learns = eigenvalue > 0
    origin = np.where(learns, np.sqrt(signal / np.where(learns, eigenvalue, 1.0)), 0.0)
    frozen = float(signal[~learns].sum())
    square = np.eye(dim) if rows is None else rows
    return field.run(eigenvalue, origin, square, problem.noise_variance, frozen, course, plateaus, field)
