"""The optimal learning rate: the global minimum of the exact risk over the stable γ."""

from dataclasses import dataclass
from typing import Any, Generic, cast, overload

import numpy as np

from sgdtheory._common.arguments import Values, settings_arrays
from sgdtheory._common.array_like import ArrayLike
from sgdtheory._common.sheets import Quantity, Sheet, Table
from sgdtheory._common.shown import Shown
from sgdtheory.algorithms import Algorithm, Constant, numbers_of_steps
from sgdtheory.critical.stated_errors import remark_on_rates
from sgdtheory.critical.tuned_equivalent import TunedEquivalent
from sgdtheory.critical.tuned_risk import TunedRisk
from sgdtheory.problems import AbstractProblem, FiniteSampleProblem
from sgdtheory.risk import as_one_pass, checked_for_risk


@dataclass(frozen=True)
class OptimalLearningRate(Shown, Generic[Values]):
    """The best constant learning rate, and the excess risk that it attains.

    Attributes:
        learning_rate: γ* in the range that `optimal_learning_rate` searches, in units of 1/λ.
        risk: excess risk at γ*, in units of y².
        relative_error: of that risk, as `Risk.relative_error` states it. For methods that are not linear and for epochs
            over a finite sample it is the accuracy of the theory, inf where the size of the risk is not known; else 0.
        remark: what a large relative error means; empty as a rule.
    """

    learning_rate: Values
    risk: Values
    relative_error: Values = cast("Any", 0.0)
    remark: str = ""

    def sheet(self) -> Sheet:
        """The rate and its risk."""
        quantities = [
            Quantity("learning_rate", "γ*, 1/λ", self.learning_rate),
            Quantity("risk", "excess risk, y²", self.risk),
        ]
        if np.any(np.asarray(self.relative_error) > 0):
            quantities.append(Quantity("relative_error", "within", self.relative_error))
        return Sheet("best learning rate in the range searched", [Table(quantities)], [self.remark])


@overload
def optimal_learning_rate(
    problem: AbstractProblem, *, batch_size: float, num_samples: float, algorithm: Algorithm = ...
) -> OptimalLearningRate[float]: ...
@overload
def optimal_learning_rate(
    problem: AbstractProblem, *, batch_size: ArrayLike, num_samples: ArrayLike, algorithm: Algorithm = ...
) -> OptimalLearningRate[np.ndarray]: ...
def optimal_learning_rate(
    problem: AbstractProblem,
    *,
    batch_size: ArrayLike,
    num_samples: ArrayLike,
    algorithm: Algorithm = Algorithm(),  # noqa: B008 (frozen)
) -> OptimalLearningRate:
    """γ ∈ (0, γ_max(B)] that minimises the exact excess risk Δ(B, γ, D), γ_max the stability edge (THEORY.md T5).

    The risk may have several minima (one for each scale of the spectrum, and, where large steps overshoot, narrow ones
    near the edge), be flat for decades or be smallest at the edge: it is scanned from where nothing is learnt up to the
    edge, and every minimum that may be the least one is refined. Where momentum oscillates, the minima of the mean path
    say where to look. The risk returned exceeds the least one by less than
    1e-6 of it (1e-9 as a rule). Above the edge SGD diverges in time, but a few steps need not have suffered yet: such γ
    are not considered. ScheduleFree() and your own methods whose coefficients change with the step, and schedules that
    are functions of the step, have no such edge: their γ is searched up to where the risk after D samples exceeds 10⁴
    times the initial risk. Beyond, some 1 in 4000 random runs with B > 10³ had less risk, and none with B ≤ 512.
    Methods that are not linear, by deterministic equivalents, have no edge: the least minimum to some 3e-4 of
    it (1e-3 beside a cliff), with the risk of `excess_risk`, its `relative_error` and, where that is 5% or more, a
    `remark`. After up to some hundred steps their risk is a jagged function of γ, and the search may miss a narrow
    valley: of 236 random settings with 1 to 8 directions (3 … 200 steps of signs, Lion, Adam and normalized SGD) 5
    risks were 0.1% … 17% higher than in lists of γ 0.4% apart, and of 42 of normalized SGD with infinitely many
    directions 6 by up to 0.6%. For epochs over a finite sample (`with_samples`) the least minimum within a factor of
    1000 of γ about the first one found, 1e-5 of it in 60 random settings.

    Args:
        problem: PowerLaw, LeastSquares or your own AbstractProblem with a signal that can be learnt.
        batch_size: B, whole numbers ≥ 1; scalar or array.
        num_samples: D ≥ B; scalar or array. The two broadcast like NumPy arrays.
        algorithm: what is run, whose peak γ is tuned. With a schedule γ may pass the edge for a while: it is looked for
            as far beyond the edge as lets the moments grow by e³ on the way, up to four times the edge. Where the batch
            size varies, B is its mean over the run.

    Returns:
        OptimalLearningRate with arrays of the broadcast shape. With a single step (D < 2B) the risk of an average
        does not depend on γ, and γ* is the edge.

    Raises:
        ValueError: an argument outside its range, or a problem without signal.

    Example:
        >>> import sgdtheory as st
        >>> best = st.optimal_learning_rate(st.PowerLaw(2, 3), batch_size=16, num_samples=1e6)
        >>> print(f"{best.learning_rate:.3f} {best.risk:.3e}")
        0.247 1.316e-04
    """
    linear = checked_for_risk(algorithm).linear
    batch, _, samples = settings_arrays(batch_size, 1.0, num_samples)
    problem = as_one_pass(problem, samples)
    exact = linear and not isinstance(problem, FiniteSampleProblem)
    tuned = TunedRisk(problem, algorithm) if exact else TunedEquivalent(problem, algorithm)
    if batch.size == 0:
        nothing = np.empty(batch.shape)
        return OptimalLearningRate(nothing, nothing, nothing)
    steps = numbers_of_steps(Constant(), batch, samples, algorithm.workers)
    if isinstance(tuned, TunedEquivalent):
        rate = np.array([tuned.least(*each).rate for each in zip(batch.flat, steps.flat, strict=True)])
        risk, error = tuned.exact(batch.ravel(), rate, steps.ravel())
        remark = remark_on_rates(tuned, batch.ravel(), steps.ravel(), error)
        rate, risk, error = (each.reshape(batch.shape)[()] for each in (rate, risk, error))
        return OptimalLearningRate(rate, risk, error, remark)
    best = tuned.least(batch.ravel(), steps.ravel())
    return OptimalLearningRate(best.rate.reshape(batch.shape)[()], best.risk.reshape(batch.shape)[()])
