"""Exact second moments of the last iterate, `Σ_i λ_i^k r_i(n)` with `r_i = λ_i E η_i²`, in closed form in n."""

import numpy as np

from sgdtheory.algorithms import Algorithm, Course, number_of_steps
from sgdtheory.problems import AbstractProblem, Modes
from sgdtheory.risk.algorithm_risk import course_risk
from sgdtheory.risk.contour import FEW_STEPS, QUIET_CONTOUR, contour_modes
from sgdtheory.risk.stability import growth_rate

CANCELLATION = 1e-7  # a sum over the contour this much smaller than its terms has lost all but nine digits

POWERS = np.arange(3)


def iterate_moments(
    problem: AbstractProblem, algorithm: Algorithm, batch: np.ndarray, rate: np.ndarray, samples: np.ndarray
) -> np.ndarray:
    """`last_iterate_moments` for any algorithm, after D samples."""
    found = np.empty((POWERS.size, batch.size))
    with np.errstate(all="ignore"):  # overflow and underflow are results here
        for place, (size, step, number) in enumerate(zip(batch.flat, rate.flat, samples.flat, strict=True)):
            steps = number_of_steps(algorithm.batch_schedule, size, number)
            end = course_risk(problem, Course(algorithm, size, step, steps), estimate=False).travelled
            output = np.asarray(algorithm.method.output, dtype=float)
            shown = np.einsum("dijk,i,j->dk", end.moments.own[:, 0], output, output)
            risk = shown[0] + problem.noise_variance * shown[1]
            found[:, place] = end.modes.eigenvalue ** POWERS[:, None] @ risk
    return np.where(np.isfinite(found), found, np.nan).reshape(-1, *batch.shape)


def last_iterate_moments(
    problem: AbstractProblem, batch: np.ndarray, rate: np.ndarray, steps: np.ndarray
) -> np.ndarray:
    """`Σ_i λ_i^k r_i(n)`, k = 0, 1, 2: the excess risk of w_n, `E ‖Hη‖²` and `E ηᵀH³η` (THEORY.md T2).

    With `S = Σ s_i/(1 − α_i z)`, `K = Σ v_i/(1 − α_i z)` as in `exact`, it is the coefficient of z^n of

        Σ_i λ_i^k [s_i + z v_i (S + σ²/(1 − z))/(1 − zK)] / (1 − α_i z).                                     (E4)

    Args:
        problem: PowerLaw, LeastSquares or your own AbstractProblem.
        batch, rate, steps: B, γ and n, checked, of one shape.

    Returns:
        (3, …), to about 1e-8 relative; nan where it has decayed to below 1e-7 of what the contour integrates, as it
        does exponentially in finite dimension with little label noise, and where it exceeds the range of a float.
    """
    shape = batch.shape
    if batch.size == 0:
        return np.empty((POWERS.size, *shape))
    batch, rate, steps = (values.ravel()[:, None] for values in (batch, rate, steps))
    result = np.empty((POWERS.size, steps.size))
    with np.errstate(all="ignore"):  # overflow and underflow are results here
        modes = contour_modes(problem, rate, steps)
        for index in range(steps.size):
            method = _few_steps if steps[index, 0] <= FEW_STEPS else _many_steps
            here = slice(index, index + 1)
            x = rate[here] * modes.eigenvalue
            result[:, index] = method(modes, x, batch[here], steps[here], problem.noise_variance)
    return result.reshape(-1, *shape)


def _few_steps(modes: Modes, x: np.ndarray, batch: np.ndarray, steps: np.ndarray, noise: float) -> np.ndarray:
    """The recursion itself for one setting: x (1, K); batch, steps (1, 1)."""
    gain = x[0] ** 2 / batch[0]
    decay = (1 - x[0]) ** 2 + gain
    risk = modes.signal
    for _ in range(int(steps[0, 0])):
        risk = decay * risk + modes.multiplicity * gain * (risk.sum() + noise)
    return modes.eigenvalue ** POWERS[:, None] @ risk


def _many_steps(modes: Modes, x: np.ndarray, batch: np.ndarray, steps: np.ndarray, noise: float) -> np.ndarray:
    """(E4) by contour integration for one setting: x (1, K); batch, steps (1, 1)."""
    growth = growth_rate(modes, x, batch)
    p = growth[:, None] + QUIET_CONTOUR.points / steps
    z, y = np.exp(-p).T, (-steps * np.expm1(-p)).T  # (C, 1)
    response = 1 / (y + steps * x * (2 - x * ((batch + 1) / batch)) * z)  # 1 / (n (1 − αz)), (C, K)
    source = steps * x**2 / batch * response
    drive = (response @ modes.signal)[:, None] + noise / y
    renewal = z * drive / (1 - z * (source @ modes.multiplicity)[:, None])
    per_mode = modes.signal * response + renewal * modes.multiplicity * source
    terms = (per_mode @ (modes.eigenvalue ** POWERS[:, None]).T).T * QUIET_CONTOUR.weights  # (3, C)
    total = terms.real.sum(1)
    total[total < CANCELLATION * np.abs(terms).sum(1)] = np.nan  # not where all of it is 0
    return total * np.exp(steps[0, 0] * growth[0])
