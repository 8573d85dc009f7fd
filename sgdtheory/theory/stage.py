"""Many steps with constant coefficients in closed form: from the moments at their start to those at their end.

T20 is a renewal equation. With `T_i` the map of M_i, its own part of the bracket included, and z the generating
variable,

    ĥ = P̂ + σ²/(1 − z) = (F̂ + σ²/(1 − z))/(1 − z κ̂),    F̂ = Σ ℓ·(1 − zT_i)⁻¹M_i(0),    κ̂ = Σ ℓ·(1 − zT_i)⁻¹w_i,
    M̂_i = (1 − zT_i)⁻¹ (M_i(0) + z w_i ĥ),
    x̂_i = (1 − zρA_i)⁻¹ (x_i(0) + zω A_i M̂_i o),    Ŝ² = (S²(0) + z(2ρω Σ oᵀx̂_i + ω² Σ oᵀM̂_i o))/(1 − zρ²),

and the moments after n steps are coefficients of z^n: integrals over the parabola of E2–E3 about z = 1, which holds all
positive poles, and over its mirror image about z = −1 where directions overshoot. Complex poles, of underdamped
directions, lie outside: they must have died out (THEORY.md T25); `settling_steps` says when.
"""

import math
from typing import Any, NamedTuple

import numpy as np

from sgdtheory.theory.contour import QUIET_CONTOUR
from sgdtheory.theory.linear import solve
from sgdtheory.theory.methods import StepMatrices
from sgdtheory.theory.modes import Modes
from sgdtheory.theory.moments import Generators, Keeping, Moments, generators, pack, unpack, unpack_points
from sgdtheory.theory.spectrum import StepSpectrum, growth, step_spectrum
from sgdtheory.theory.thresholds import NEGLIGIBLE


class Stage(NamedTuple):
    """Constant coefficients on some modes, ready for any number of steps."""

    modes: Modes
    output: np.ndarray
    maps: Generators
    alone: Generators
    spectrum: StepSpectrum
    keeping: Keeping | None


def make_stage(
    matrices: StepMatrices, batch: float, modes: Modes, output: np.ndarray, keeping: Keeping | None
) -> Stage:
    """A stage of steps with the coefficients of `matrices`, (1, …) each."""
    size = np.array([batch])
    maps = generators(matrices, size, modes.eigenvalue)
    alone = generators(matrices, size, modes.eigenvalue, itself=False)
    return Stage(modes, output, maps, alone, step_spectrum(maps.propagator_decay[0]), keeping)


def settling_steps(spectrum: StepSpectrum, keeping: Keeping | None) -> float:
    """Steps after which complex poles have died out."""
    rate = spectrum.complex
    if keeping is None:  # moments of the iterate alone: products of two
        rate = 2 * rate
    return 0.0 if rate == -math.inf else math.inf if rate >= 0 else -NEGLIGIBLE / rate


def after(stage: Stage, moments: Moments, num_steps: float) -> Moments:
    """Moments after n steps of the stage, n ≥ 1."""
    rate = growth(stage.alone, stage.modes.multiplicity, stage.spectrum.slowest, num_steps)
    parts = []
    for part, rate_of_own in enumerate((rate, max(rate, 0.0))):  # σ² has its own pole at z = 1
        mine = Moments(*(each[part] for each in moments))
        found = _coefficients(stage, mine, part, num_steps, rate_of_own)
        if stage.keeping is not None:
            forgetting = stage.keeping.forgetting
            slower = max(rate_of_own, 2 * math.log1p(-forgetting) if forgetting < 1 else -math.inf)
            slower = slower if abs(slower) * num_steps > 1 else 0.0
            if slower != rate_of_own:
                found = _coefficients(stage, mine, part, num_steps, slower)._replace(own=found.own)
        parts.append(found)
    return Moments(*(np.stack(each) for each in zip(*parts, strict=True)))


def _points(stage: Stage, num_steps: float, rate: float) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """z, n(1 − z) and weights of the contours, (C,) each."""
    p = rate + QUIET_CONTOUR.points / num_steps
    z, y, weight = np.exp(-p), -num_steps * np.expm1(-p), QUIET_CONTOUR.weights
    if stage.spectrum.negative * num_steps > -NEGLIGIBLE:
        sign = -1.0 if num_steps % 2 else 1.0
        z, y, weight = np.append(z, -z), np.append(y, num_steps * (1 + z)), np.append(weight, sign * weight)
    return z, y, weight


def _coefficients(stage: Stage, moments: Moments, part: int, num_steps: float, rate: float) -> Moments:
    """Moments after n steps of one part, 0: of the signal without noise, 1: with σ² = 1."""
    maps, modes, output, n = stage.maps, stage.modes, stage.output, num_steps
    z, y, weight = (each[:, None] for each in _points(stage, n, rate))
    start = pack(moments.own[None])[0]
    matrix = n * maps.decay[0][:, :, None] * z + np.eye(start.shape[0])[:, :, None, None] * y
    solved = solve(matrix, np.stack([start, maps.drive[0]], axis=1)[:, :, None] + 0j * z)
    free, forced = solved[:, 0], solved[:, 1]  # (1 − zT)⁻¹ of M(0) and of w, over n; (q, C, K)
    kernel = n * np.einsum("q,qck,k->c", maps.seen[0], forced, modes.multiplicity)[:, None]
    noise = n * (np.einsum("q,qck->c", maps.seen[0], free)[:, None] + (1 / y if part else 0.0))
    own = free + (z * noise / (1 - z * kernel)) * modes.multiplicity * forced  # M̂/n
    scale = math.exp(min(n * rate, 709.0)) if n * rate < 709 else math.inf
    k = output.size
    result = moments._replace(own=unpack(scale * (own * weight).real.sum(1), k))
    if stage.keeping is None:
        return result
    forgetting, omega = stage.keeping
    rho = 1 - forgetting
    shown = np.einsum("ijck,j->ick", unpack_points(own, k), output)  # M̂ o/n
    moved = np.einsum("ijk,jck->ick", maps.propagator[0], shown)
    keep_slow = forgetting * np.eye(k)[:, :, None] + rho * maps.propagator_decay[0]  # 1 − ρA
    matrix = n * keep_slow[:, :, None] * z + np.eye(k)[:, :, None, None] * y
    cross: Any = solve(matrix, (moments.cross[:, None] + n * z * omega * moved)[:, None])[:, 0]  # x̂/n
    gained = np.einsum("ick,i->c", 2 * rho * omega * cross + omega**2 * shown, output)[:, None]
    square: Any = (moments.square + n * z * gained) / (y + z * n * forgetting * (1 + rho))
    weighed: Any = np.sum(square * weight)
    return Moments(result.own, scale * (cross * weight).real.sum(1), np.asarray(scale * weighed.real))
