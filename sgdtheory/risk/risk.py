"""An excess risk with its two parts, and `excess_risk`, which computes it at the end of a run of any algorithm."""

from dataclasses import dataclass
from typing import Any, Generic, cast, overload

import numpy as np

from sgdtheory._common.arguments import Values, checked_problem, settings_arrays
from sgdtheory._common.array_like import ArrayLike
from sgdtheory._common.sheets import Quantity, Sheet, Table
from sgdtheory._common.shown import Shown
from sgdtheory.algorithms import DEFAULT, Algorithm, Constant, numbers_of_steps
from sgdtheory.problems import AbstractProblem
from sgdtheory.risk.choose import run_risks
from sgdtheory.risk.mean_field.equivalent import checked_for_risk


@dataclass(frozen=True)
class Risk(Shown, Generic[Values]):
    """Expected excess risk `Δ = E R(w̄) − σ²` and its two parts, in units of y².

    Attributes:
        bias: the part that is linear in the signal (σ = 0); for a nonlinear method, and for epochs over a finite
            sample, the risk of the mean weights.
        variance: the part that is linear in σ² (w_0 = w*); in these two cases the risk of the weights' variance.
        relative_error: bound of the relative error of their sum. It is 0 where rounding of at most 1e-10 separates the
            sum from the exact value, and the difference of two orders where a smooth schedule was followed on panels.
            Where rounding leaves fewer digits (within 0.1% of the edge and beyond it, or far below the initial risk
            with weight decay), it bounds the rounding (THEORY.md T25): 1 if no digit is left and the risk is given as a
            bound, inf if the risk is 0, below the range of a float. For a nonlinear method it is an estimate of the
            equivalent's error, and inf where the error may be as large as the risk (T37). Random settings that were not
            used to fit it exceeded it in 0.8% of cases, with a 95% interval of 0.1 to 2.9% (docs/equivalents.md). It
            assumes Gaussian rows. For epochs over a finite sample it is the measured accuracy of the theory (T42), and
            inf where theory does not know a reshuffled risk to within its own size: `simulate` does.
    """

    bias: Values
    variance: Values
    relative_error: Values = cast("Any", 0.0)

    @property
    def total(self) -> Values:
        """bias + variance."""
        return self.bias + self.variance

    def sheet(self) -> Sheet:
        """The risk, its two parts, and how far it is known."""
        quantities = [
            Quantity("risk", "excess risk", self.total, digits=6),
            Quantity("bias", "bias", self.bias, digits=6),
            Quantity("variance", "variance", self.variance, digits=6),
            Quantity("relative_error", "within", self.relative_error),
        ]
        table = Table(quantities, legend="within: bound on the relative error of the excess risk")
        if not np.any(np.asarray(self.relative_error) > 0):
            table = Table(quantities, hidden=["relative_error"])
        remarks = []
        if np.any(np.isinf(self.relative_error) & np.isfinite(self.total)):
            remarks.append("within ∞: the theory gives no error bound for this risk; simulate it")
        return Sheet("expected excess risk, units of y²", [table], remarks)


@overload
def excess_risk(
    problem: AbstractProblem,
    *,
    batch_size: float,
    learning_rate: float,
    num_samples: float,
    algorithm: Algorithm = DEFAULT,
) -> Risk[float]: ...
@overload
def excess_risk(
    problem: AbstractProblem,
    *,
    batch_size: ArrayLike,
    learning_rate: ArrayLike,
    num_samples: ArrayLike,
    algorithm: Algorithm = DEFAULT,
) -> Risk[np.ndarray]: ...
def excess_risk(
    problem: AbstractProblem,
    *,
    batch_size: ArrayLike,
    learning_rate: ArrayLike,
    num_samples: ArrayLike,
    algorithm: Algorithm = DEFAULT,
) -> Risk:
    """Exact excess risk of the averaged iterate of mini-batch SGD (THEORY.md T1–T4), or of any algorithm (T20–T25).

        Δ = (1/n²) Σ_i λ_i Σ_{t<n} m_i(t) [1 + 2 Σ_{k=1}^{n−1−t} q_i^k],    n = ⌊D/B⌋

    The bias is what the initial error causes (σ = 0), the variance what label noise causes (w_0 = w*); they add up.
    Closed form in n. Relative error below 1e-10 (3e-12 measured) for bias and for variance each, up to 0.999 of the
    stability edge. At the edge the risk after many steps is as sensitive to γ as its distance to it is small, and
    beyond it as n times the rate of growth: there rounding of the input decides, as `Risk.relative_error` states.
    Beyond the edge the value is that of finite n, `inf` where it exceeds the range of a float.

    Other algorithms: in closed form wherever learning rate and batch size stand still (relative error below 1e-10), on
    panels where they vary smoothly (about 1e-10; `Risk.relative_error` estimates it), step by step where neither holds.
    The bias of an exponential average, which falls as its start is forgotten, is right to 1e-10 of itself or to 5e-17
    of the initial risk, whichever is larger.

    Methods that are not linear, such as SignSGD() and Adam(), by deterministic equivalents for many directions (T37,
    T38, T54; docs/equivalents.md), within a few percent of the expected risk; γ is in units of the weights then.
    SignSGD(basis=…) takes seconds to minutes for up to 512 directions; a random basis gives the risk of one rotation.

    For epochs over N samples, `problem.with_samples(N)` (T42), the bias is the risk of the mean weights over the order
    of the batches, with what they have fitted of the labels' noise, the variance that of the weights' scatter around
    it. Exact for SGD on up to 32 directions or rows of a sample with a seed; else to what `Risk.relative_error` states.

    Example:
        >>> import sgdtheory as st
        >>> problem = st.PowerLaw(capacity=2.0, source=3.0, noise_variance=2.0)
        >>> risk = st.excess_risk(problem, batch_size=32, learning_rate=0.5, num_samples=[1e4, 1e8])
        >>> print(" ".join(f"{total:.3e}" for total in risk.total))
        6.121e-03 1.802e-05

    Args:
        problem: PowerLaw, LeastSquares, your own AbstractProblem, or samples of one.
        batch_size: B, whole numbers ≥ 1; scalar or array. The peak, where the algorithm has a batch schedule.
        learning_rate: γ > 0, in units of 1/λ; scalar or array. The peak, where the algorithm has a schedule.
        num_samples: D ≥ B, or enough for a step of the batch schedule; scalar or array. The three broadcast like NumPy
            arrays.
        algorithm: what is run; by default averaged SGD with constant learning rate and batch size.

    Returns:
        Risk with arrays of the broadcast shape.

    Raises:
        ValueError: an argument outside its range, or an algorithm that is neither smooth nor staged and takes more
            than 2e6 steps.
    """
    checked_problem(problem)
    scheduled = checked_for_risk(algorithm).batch_schedule != Constant()
    batch_size, learning_rate, num_samples = settings_arrays(
        batch_size, learning_rate, num_samples, scheduled=scheduled
    )
    steps = numbers_of_steps(algorithm.batch_schedule, batch_size, num_samples, algorithm.workers)
    result = run_risks(problem, algorithm, batch_size.ravel(), learning_rate.ravel(), steps.ravel())
    return Risk(*(each.reshape(batch_size.shape)[()] for each in (*result.parts, result.error)))
