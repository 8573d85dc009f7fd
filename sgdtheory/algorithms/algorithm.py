"""An algorithm: a method, schedules of its learning rate and batch size, and the average that it returns."""

import math
from dataclasses import dataclass
from typing import Annotated, Any

import numpy as np

from sgdtheory._common.arguments import single_number
from sgdtheory.algorithms.averages import AbstractAverage, UniformAverage
from sgdtheory.algorithms.linear_method import LinearMethod
from sgdtheory.algorithms.nonlinear_method import NonlinearMethod
from sgdtheory.algorithms.own_schedule import StepFunction, as_shape
from sgdtheory.algorithms.parameter import Parameter
from sgdtheory.algorithms.schedules import Constant
from sgdtheory.algorithms.sgd import SGD


@dataclass(frozen=True)
class Algorithm:
    """A method, schedules and an average (THEORY.md T20, T21): by default averaged SGD with constant γ and B.

    Learning rates are peaks: `γ_t = γ f(t/n)`, f the schedule; batch sizes too, `B_t = max(1, round(B g(t/n)))`, halves
    rounded to even, and n is the largest number of steps with `Σ B_t ≤ D`.

    Example:
        >>> import sgdtheory as st
        >>> problem = st.PowerLaw(capacity=2.0, source=3.0)
        >>> cosine = st.Algorithm(schedule=st.Cosine(), average=st.LastIterate())
        >>> setting = dict(batch_size=32, learning_rate=0.5, num_samples=1e6)
        >>> average, last = (st.excess_risk(problem, **setting, algorithm=each) for each in (st.Algorithm(), cosine))
        >>> print(f"{average.total:.3e} {last.total:.3e}")
        1.318e-04 2.552e-04

    Args:
        method: a method of docs/algorithms.md, such as SGD(), HeavyBall(β) or Adam(β₁, β₂); your own LinearMethod; or
            for `simulate` your own NonlinearMethod.
        schedule: schedule of the learning rate. It is a shape of docs/algorithms.md, such as Cosine() or WSD(); an
            array of values for stages of equal length; Schedule(f) with a function f of the fraction u = t/n; or a bare
            function of the step (optax's schedules), which does not stretch with the run.
        batch_schedule: schedule of the batch size, in the same forms.
        average: UniformAverage(), TailAverage(φ), ExponentialAverage(τ), LastIterate() or your own AbstractAverage.
        clip_norm: norm c to which longer mini-batch gradients g are shortened, `g min(1, c/‖g‖)`; only for `simulate`.
            None: no clipping.

    Raises:
        ValueError: if an argument has another type.
    """

    method: Any = SGD()
    schedule: Any = Constant()
    batch_schedule: Any = Constant()
    average: Any = UniformAverage()
    clip_norm: Annotated[float | None, Parameter("norm to which longer mini-batch gradients are shortened.")] = None

    def __post_init__(self) -> None:
        if not isinstance(self.method, LinearMethod | NonlinearMethod):
            raise ValueError(
                "method must be an object such as SGD() or HeavyBall(0.9), or your own LinearMethod, got "
                f"{self.method!r}"
            )
        if isinstance(self.method, LinearMethod):
            self.method.matrices(np.ones(1), np.zeros(1))
        for name in ("schedule", "batch_schedule"):
            object.__setattr__(self, name, as_shape(name, getattr(self, name)))
        if not isinstance(self.average, AbstractAverage):
            raise ValueError(
                "average must be an object such as UniformAverage(), TailAverage(0.5), ExponentialAverage(0.99) or "
                f"LastIterate(), or your own AbstractAverage, got {self.average!r}"
            )
        if self.clip_norm is not None:
            clip = single_number("clip_norm", self.clip_norm)
            if not 0 < clip < math.inf:
                raise ValueError(f"clip_norm must be positive and finite, got {clip:g}; leave it out not to clip")
            object.__setattr__(self, "clip_norm", clip)

    @property
    def linear(self) -> bool:
        """Return whether steps are linear in the gradient, so that risks are exact."""
        return isinstance(self.method, LinearMethod) and self.clip_norm is None

    @property
    def workers(self) -> int:
        """Number K of workers that draw a batch in every step."""
        return self.method.workers if isinstance(self.method, LinearMethod) else 1

    @property
    def constant(self) -> bool:
        """Return whether every step has the same learning rate, batch size and coefficients."""
        return self.method.step_dependence == "none" and self._flat

    @property
    def steady(self) -> bool:
        """Return whether all steps, or all rounds of local steps, are alike."""
        return self.method.step_dependence in ("none", "period") and self._flat

    @property
    def _flat(self) -> bool:
        return self.schedule.flat and self.batch_schedule.flat


DEFAULT = Algorithm()


def require_stretching(algorithm: Algorithm, search: str) -> None:
    """Refuse schedules that are functions of the step in a search that compares runs of different lengths.

    A function of the step that is made for one n is a different schedule on a run of another length, on which it is cut
    off or does not decay.

    Raises:
        ValueError: if the learning rate or the batch size follows a function of the step.
    """
    for name in ("schedule", "batch_schedule"):
        if isinstance(getattr(algorithm, name), StepFunction):
            raise ValueError(
                f"{name} must stretch with the run where {search} compares runs of different lengths, got a function "
                f"of the step; write st.Algorithm({name}=st.Schedule(lambda u: …)), with u = t/n the fraction of the "
                "run that is done"
            )


def checked_algorithm(algorithm: object, *, linear: bool = True) -> Algorithm:
    """Return `algorithm` after checking its type and, if `linear`, that its steps are linear in the gradient.

    Raises:
        ValueError: if it has another type, or its risk is not exact.
    """
    if isinstance(algorithm, Algorithm):
        if linear and not algorithm.linear:
            clipped = "" if algorithm.clip_norm is None else f" with clip_norm={algorithm.clip_norm:g}"
            raise ValueError(
                f"algorithm must be linear in the gradient where risks are exact, got {algorithm.method!r}{clipped}; "
                "simulate takes it, excess_risk takes the methods with a deterministic equivalent "
                "(docs/optimizers.md), and problem.preconditioned(0.5) is exact for what a preconditioner does"
            )
        return algorithm
    if isinstance(algorithm, LinearMethod | NonlinearMethod):
        raise ValueError(f"algorithm must be an Algorithm, got a method; write Algorithm({algorithm!r})")
    raise ValueError(f"algorithm must be an Algorithm, such as Algorithm(schedule=Cosine()), got {algorithm!r}")
