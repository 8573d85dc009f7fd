"""Other notions of a critical batch size on the same problem: gradient noise scales and the interpolation batch."""

from dataclasses import dataclass, field
from typing import Any, Generic, overload

import numpy as np

from sgdtheory._common.arguments import Values, checked_problem, settings_arrays
from sgdtheory._common.array_like import ArrayLike
from sgdtheory._common.sheets import Quantity, Sheet, Table
from sgdtheory._common.shown import Shown
from sgdtheory.algorithms import Algorithm, Constant, Course, checked_algorithm, numbers_of_steps
from sgdtheory.critical.definition import CriticalBatchSize, critical_batch_size
from sgdtheory.critical.tuned_risk import MOMENTS_RESOLVED
from sgdtheory.problems import AbstractProblem
from sgdtheory.risk import iterate_moments


@dataclass(frozen=True)
class GradientNoiseScale(Shown, Generic[Values]):
    """Gradient noise scales where SGD has arrived, from exact second moments of the last iterate.

    Attributes:
        simple: `tr Σ_g / E‖g‖²`, in samples.
        hessian_weighted: `tr(H Σ_g) / E gᵀHg`, in samples.
        excess_risk: that of the last iterate w_n (not of the average), in units of y².
    """

    simple: Values
    hessian_weighted: Values
    excess_risk: Values

    def sheet(self) -> Sheet:
        """Both scales, and the risk where they are."""
        quantities = [
            Quantity("simple_noise_scale", "simple, samples", self.simple),
            Quantity("hessian_noise_scale", "Hessian-weighted, samples", self.hessian_weighted),
            Quantity("risk", "excess risk, y²", self.excess_risk),
        ]
        return Sheet("gradient noise scale at the last iterate", [Table(quantities)])


@overload
def gradient_noise_scale(
    problem: AbstractProblem, *, batch_size: float, learning_rate: float, num_samples: float, algorithm: Algorithm = ...
) -> GradientNoiseScale[float]: ...
@overload
def gradient_noise_scale(
    problem: AbstractProblem,
    *,
    batch_size: ArrayLike,
    learning_rate: ArrayLike,
    num_samples: ArrayLike,
    algorithm: Algorithm = ...,
) -> GradientNoiseScale[np.ndarray]: ...
def gradient_noise_scale(
    problem: AbstractProblem,
    *,
    batch_size: ArrayLike,
    learning_rate: ArrayLike,
    num_samples: ArrayLike,
    algorithm: Algorithm = Algorithm(),  # noqa: B008 (frozen)
) -> GradientNoiseScale:
    """Simple and Hessian-weighted gradient noise scale after D samples (THEORY.md T15).

    With `g = Hη` and the covariance `Σ_g = Hη ηᵀH + (‖η‖²_H + σ²) H` of the gradient of one sample (T1), expectations
    taken above and below,

        simple = [E‖Hη‖² + (E‖η‖²_H + σ²) tr H] / E‖Hη‖²,
        hessian_weighted = [E ηᵀH³η + (E‖η‖²_H + σ²) tr H²] / E ηᵀH³η.

    Args:
        problem: PowerLaw, LeastSquares or your own AbstractProblem.
        batch_size: B, whole numbers ≥ 1; scalar or array.
        learning_rate: γ > 0, in units of 1/λ; scalar or array.
        num_samples: D ≥ B; scalar or array. The three broadcast like NumPy arrays.
        algorithm: what is run; its average does not matter, as the noise scale is that at the last iterate.

    Returns:
        GradientNoiseScale with arrays of the broadcast shape; nan where the moments have decayed below what
        double precision tells, vanish, or exceed its range, as they do in time beyond the stability edge.

    Raises:
        ValueError: an argument outside its range.

    Example:
        >>> import sgdtheory as st
        >>> scale = st.gradient_noise_scale(st.PowerLaw(2, 3), batch_size=16, learning_rate=0.5, num_samples=1e6)
        >>> print(f"{scale.simple:.4g}")
        73.66

    Reference:
        McCandlish et al. 2018, "An Empirical Model of Large-Batch Training".
    """
    checked_problem(problem)
    scheduled = checked_algorithm(algorithm).batch_schedule != Constant()
    batch, rate, samples = settings_arrays(batch_size, learning_rate, num_samples, scheduled=scheduled)
    steps = numbers_of_steps(algorithm.batch_schedule, batch, samples, algorithm.workers)
    courses = [Course(algorithm, *each) for each in zip(batch.flat, rate.flat, steps.flat, strict=True)]
    moments = iterate_moments(problem, courses)
    risk, gradient, curved = moments.reshape(3, *batch.shape)
    with np.errstate(all="ignore"):
        modes = problem.modes(MOMENTS_RESOLVED * max(problem.largest_eigenvalue, 1e-300))
        squares = modes.multiplicity @ modes.eigenvalue**2
        simple = 1 + (risk + problem.noise_variance) * problem.trace / gradient
        weighted = 1 + (risk + problem.noise_variance) * squares / curved
    return GradientNoiseScale(simple[()], weighted[()], risk[()])


@dataclass(frozen=True)
class Notions(Shown, Generic[Values]):
    """Batch sizes that have been called critical, for one problem and data size (or an array of data sizes).

    Attributes:
        num_samples: D.
        critical_batch_size: B* of Definition 3 (THEORY.md T12).
        rate_batch_size: the largest B whose best risk with D samples is within a factor of the optimal one.
        simple_noise_scale: gradient noise scale after D samples at (B*, γ*), γ* the one with which B* reaches R_opt.
        hessian_noise_scale: the same, weighted with the Hessian.
        interpolation_batch_size: `m* = tr H/λ_1`, the largest batch size with linear scaling if there were no label
            noise (Ma, Bassily & Belkin 2018, "The Power of Interpolation").
        critical: the CriticalBatchSize behind B*.
    """

    num_samples: Values
    critical_batch_size: Values
    rate_batch_size: Values
    simple_noise_scale: Values
    hessian_noise_scale: Values
    interpolation_batch_size: float
    critical: CriticalBatchSize[Values] = field(repr=False)

    def sheet(self) -> Sheet:
        """All of them side by side."""
        quantities = [
            Quantity("num_samples", "D", self.num_samples),
            Quantity("critical_batch_size", "B*", self.critical_batch_size),
            Quantity("rate_batch_size", "rate", self.rate_batch_size),
            Quantity("simple_noise_scale", "noise scale", self.simple_noise_scale),
            Quantity("hessian_noise_scale", "by Hessian", self.hessian_noise_scale),
            Quantity("interpolation_batch_size", "m*", self.interpolation_batch_size),
        ]
        factor, overhead = self.critical.risk_factor, self.critical.overhead
        legend = (
            f"B*: {overhead:.3g} more data than the best batch size; rate: risk within a factor of {factor:g}; "
            "noise scale: tr Σ/‖g‖² at B*; m* = tr H/λ_1"
        )
        table = Table(quantities, "rows", legend=legend)
        return Sheet("measures of a critical batch size, samples", [table], [self.critical.remark])


@overload
def notions(
    problem: AbstractProblem,
    *,
    num_samples: float,
    overhead: float = 0.2,
    risk_factor: float = 2.0,
    algorithm: Algorithm = ...,
) -> Notions[float]: ...
@overload
def notions(
    problem: AbstractProblem,
    *,
    num_samples: ArrayLike,
    overhead: float = 0.2,
    risk_factor: float = 2.0,
    algorithm: Algorithm = ...,
) -> Notions[np.ndarray]: ...
def notions(
    problem: AbstractProblem,
    *,
    num_samples: ArrayLike,
    overhead: float = 0.2,
    risk_factor: float = 2.0,
    algorithm: Algorithm = Algorithm(),  # noqa: B008 (frozen)
) -> Notions:
    """B*, the rate convention, both gradient noise scales and m*, at the same points (THEORY.md T12, T15).

    Args:
        problem: PowerLaw, LeastSquares or your own AbstractProblem with a signal that can be learnt.
        num_samples: D ≥ 2; scalar or array.
        overhead, risk_factor: conventions of B* and of the rate batch size, as in `critical_batch_size`.
        algorithm: what is run.

    Returns:
        Notions, with arrays of the shape of `num_samples`.

    Raises:
        ValueError: as `critical_batch_size`.

    Example:
        >>> import sgdtheory as st
        >>> found = st.notions(st.PowerLaw(2, 3), num_samples=1e4)
        >>> print(found.critical_batch_size, found.rate_batch_size, f"{found.interpolation_batch_size:.3f}")
        41.0 128.0 1.645
    """
    critical = critical_batch_size(
        problem,
        num_samples=num_samples,
        overhead=overhead,
        risk_factor=risk_factor,
        curve=False,
        algorithm=algorithm,
    )
    return notions_at(problem, critical, algorithm)


def notions_at(
    problem: AbstractProblem,
    critical: CriticalBatchSize[Values],
    algorithm: Algorithm = Algorithm(),  # noqa: B008 (frozen)
) -> Notions[Values]:
    """`notions` for a critical batch size, of that algorithm, that is computed already.

    Example:
        >>> import sgdtheory as st
        >>> problem = st.PowerLaw(2, 3)
        >>> critical = st.critical_batch_size(problem, num_samples=1e4, curve=False)
        >>> st.critical.notions_at(problem, critical).critical_batch_size
        41.0
    """
    noise: GradientNoiseScale[Any] = gradient_noise_scale(
        problem,
        batch_size=critical.batch_size,
        learning_rate=critical.learning_rate,
        num_samples=critical.num_samples,
        algorithm=algorithm,
    )
    return Notions(
        num_samples=critical.num_samples,
        critical_batch_size=critical.batch_size,
        rate_batch_size=critical.rate_batch_size,
        simple_noise_scale=noise.simple,
        hessian_noise_scale=noise.hessian_weighted,
        interpolation_batch_size=problem.trace / problem.largest_eigenvalue,
        critical=critical,
    )
