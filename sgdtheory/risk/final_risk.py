"""The exact excess risk of any algorithm at the end of its run."""

from numpy.typing import ArrayLike

from sgdtheory._common.arguments import checked_problem, settings_arrays
from sgdtheory.algorithms import DEFAULT, Algorithm, Constant, numbers_of_steps
from sgdtheory.problems import AbstractProblem
from sgdtheory.risk.engine import run_risks
from sgdtheory.risk.equivalent import checked_for_risk
from sgdtheory.risk.risk import Risk


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

    SignSGD(), Adam() and NormalizedSGD(), which are not linear, by deterministic equivalents for many directions (T37,
    T38), which are within a few percent of the expected risk; γ is in units of the weights then. SignSGD(basis=…) too,
    of up to 512 directions in seconds to minutes; of a random basis that is the risk of one rotation.

    Of passes over N samples, `problem.with_samples(N)` (T42): the bias is the risk of the mean weights over the order
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
    found = run_risks(problem, algorithm, batch_size.ravel(), learning_rate.ravel(), steps.ravel())
    return Risk(*(each.reshape(batch_size.shape)[()] for each in (*found.parts, found.error)))
