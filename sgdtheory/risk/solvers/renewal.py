"""Many steps with constant coefficients in closed form: from the moments at their start to those at their end.

T20 is a renewal equation. With `T_i` the map of M_i, its own part of the bracket included, and z the generating
variable,

    ĥ = P̂ + σ²/(1 − z) = (F̂ + σ²/(1 − z))/(1 − z κ̂),    F̂ = Σ ℓ·(1 − zT_i)⁻¹M_i(0),    κ̂ = Σ ℓ·(1 − zT_i)⁻¹w_i,
    M̂_i = (1 − zT_i)⁻¹ (M_i(0) + z w_i ĥ),
    x̂_i = (1 − zρA_i)⁻¹ (x_i(0) + zω A_i M̂_i o),    Ŝ² = (S²(0) + z(2ρω Σ oᵀx̂_i + ω² Σ oᵀM̂_i o))/(1 − zρ²),

and the moments after n steps are coefficients of z^n: integrals over the parabola of E2–E3 about z = 1, which holds all
positive poles, and over its mirror image about z = −1 where directions overshoot. Complex poles, of underdamped
directions, lie outside: they must have died out (THEORY.md T25); `settling_steps` says when.

At the end of a run sums over the modes are enough. All of them are sums of polynomials in z over the determinants of
`1 − zT_i` and `1 − zρA_i`: one product of matrices for all points of the contour.
"""

from collections.abc import Callable
from typing import Any

import numpy as np

from sgdtheory.risk.solvers.contour import NEGLIGIBLE, Points, contour_points
from sgdtheory.risk.solvers.rounds import PeriodStage
from sgdtheory.risk.solvers.rounds import moments_at as moments_of_periods
from sgdtheory.risk.solvers.transforms import NUMBERS_AT_ONCE, ends_at, moments_at
from sgdtheory.risk.systems.constant import Stage
from sgdtheory.risk.systems.moments import Ends, Moments, MomentsAndSize, at_runs, ends, together
from sgdtheory.risk.thresholds import THRESHOLDS

NOISE = np.array([0.0, 1.0])  # The two parts, bias and variance, have these σ².


def after(stage: Stage | PeriodStage, moments: Moments, num_steps: np.ndarray) -> MomentsAndSize:
    """Return the moments of S settings after n ≥ 1 steps of the stage, or rounds of a `PeriodStage`, (S,)."""
    return in_portions(moments_at if _has_fractions(stage) else moments_of_periods, stage, moments, num_steps)


def ends_after(stage: Stage, moments: Moments, num_steps: np.ndarray) -> Ends:
    """Return `after`, summed over the modes."""
    if _has_fractions(stage):
        return in_portions(ends_at, stage, moments, num_steps)
    result = after(stage, moments, num_steps)
    return ends(result.moments, stage.output, result.size)


def _has_fractions(stage: Stage | PeriodStage) -> bool:
    """Return whether the transforms are fractions with few unknowns; others are solved for at every point."""
    return isinstance(stage, Stage) and stage.maps.decay.shape[1] <= THRESHOLDS.adjugate_unknowns


# What is evaluated on a contour: moments or their sums after n steps, with so much σ² in each part.
Evaluation = Callable[[Any, Moments, np.ndarray, Points], Any]


def in_portions(evaluate: Evaluation, stage: Any, moments: Moments, num_steps: np.ndarray) -> Any:
    """Solve settings in portions whose temporaries stay in a core's cache, for steps (`Stage`) or rounds (`rounds`)."""
    size = max(1, NUMBERS_AT_ONCE // (stage.modes.eigenvalue.size * stage.contour.points.size))
    rate = stage.growths(num_steps)
    portions = []
    for falling, follow in ((False, _at_rate), (True, _falling)):
        some = np.flatnonzero((rate < 0) == falling)
        if size >= some.size == rate.size:
            return follow(evaluate, stage, moments, num_steps, rate)
        for begin in range(0, some.size, size):
            indices = some[begin : begin + size]
            here = at_runs(moments, indices)
            result = follow(evaluate, stage.select(indices), here, num_steps[indices], rate[indices])
            portions.append((indices, result))
    return together(portions)


def _falling(evaluate: Evaluation, stage: Stage, moments: Moments, num_steps: np.ndarray, rate: np.ndarray) -> Any:
    """Solve decaying moments in two parts, so that they keep their digits; what σ² adds has its own pole at z = 1."""
    left = _at_rate(evaluate, stage, moments, num_steps, rate, 0 * NOISE)
    nothing = Moments(*(0 * each[1:] for each in moments))
    added = _at_rate(evaluate, stage, nothing, num_steps, 0 * rate, NOISE[1:])
    for whole, part in zip(left, added, strict=True):
        whole[1:] += part
    return left


def _at_rate(
    evaluate: Evaluation,
    stage: Any,
    moments: Moments,
    num_steps: np.ndarray,
    rate: np.ndarray,
    noise: np.ndarray = NOISE,
) -> Any:
    """Solve with the rate at which the iterate's moments grow or, below 0, decay; an average may decay more slowly."""
    if stage.keeping is None:
        return _on_contours(evaluate, stage, moments, noise, num_steps, rate)
    with np.errstate(divide="ignore"):
        slower = np.maximum(rate, 2 * np.log1p(-stage.keeping.forgetting))
    slower = np.where(np.abs(slower) * num_steps > 1, slower, 0.0)
    result = _on_contours(evaluate, stage, moments, noise, num_steps, slower)
    if (differ := np.flatnonzero(slower != rate)).size:
        iterate = stage.select(differ).without_average()
        here = at_runs(moments, differ)
        apart = _on_contours(evaluate, iterate, here, noise, num_steps[differ], rate[differ])
        result[0][:, differ] = apart[0]
        result.size[:, differ, 0] = apart.size[..., 0]
    return result


def _on_contours(
    evaluate: Evaluation, stage: Stage, moments: Moments, noise: np.ndarray, num_steps: np.ndarray, rate: np.ndarray
) -> Any:
    """Solve on the contour and, where directions overshoot, on its mirror image too."""
    mirrored = stage.spectrum.negative * num_steps > -NEGLIGIBLE
    portions = []
    for whether in (False, True):
        if not (indices := np.flatnonzero(mirrored == whether)).size:
            continue
        points = contour_points(stage.contour, num_steps[indices], rate[indices], whether)
        if indices.size == mirrored.size:
            return evaluate(stage, moments, noise, points)
        here = at_runs(moments, indices)
        portions.append((indices, evaluate(stage.select(indices), here, noise, points)))
    return together(portions)
