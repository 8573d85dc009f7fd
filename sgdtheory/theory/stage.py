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
from sgdtheory.theory.thresholds import LARGEST_EXPONENT, NEGLIGIBLE

NOISE = np.array([0.0, 1.0])  # σ² of the two parts, bias and variance


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
    alone = generators(matrices, np.array([batch]), modes.eigenvalue, itself=False)
    maps = alone._replace(decay=alone.decay - alone.drive[:, :, None] * alone.seen[:, None, :, None])
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
    if rate >= 0:
        return _at_rate(stage, moments, NOISE, num_steps, rate)
    parts = [Moments(*(each[part : part + 1] for each in moments)) for part in range(2)]
    bias = _at_rate(stage, parts[0], NOISE[:1], num_steps, rate)
    variance = _at_rate(stage, parts[1], NOISE[1:], num_steps, 0.0)  # σ² has its own pole at z = 1
    return Moments(*map(np.concatenate, zip(bias, variance, strict=True)))


def _at_rate(stage: Stage, moments: Moments, noise: np.ndarray, num_steps: float, rate: float) -> Moments:
    """With the rate at which the moments of the iterate grow or, below 0, decay; the average may decay more slowly."""
    found = _coefficients(stage, moments, noise, num_steps, rate)
    if stage.keeping is None:
        return found
    forgetting = stage.keeping.forgetting
    slower = max(rate, 2 * math.log1p(-forgetting) if forgetting < 1 else -math.inf)
    slower = slower if abs(slower) * num_steps > 1 else 0.0
    if slower == rate:
        return found
    return _coefficients(stage, moments, noise, num_steps, slower)._replace(own=found.own)


def _points(stage: Stage, num_steps: float, rate: float) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """z, n(1 − z) and weights of the contours, (C,) each."""
    p = rate + QUIET_CONTOUR.points / num_steps
    z, y, weight = np.exp(-p), -num_steps * np.expm1(-p), QUIET_CONTOUR.weights
    if stage.spectrum.negative * num_steps > -NEGLIGIBLE:
        sign = -1.0 if num_steps % 2 else 1.0
        z, y, weight = np.append(z, -z), np.append(y, num_steps * (1 + z)), np.append(weight, sign * weight)
    return z, y, weight


def _coefficients(stage: Stage, moments: Moments, noise: np.ndarray, num_steps: float, rate: float) -> Moments:
    """Moments after n steps of some parts, (p,) of them with so much σ² each."""
    maps, modes, output, n = stage.maps, stage.modes, stage.output, num_steps
    z, y, weight = (each[:, None] for each in _points(stage, n, rate))
    start = np.moveaxis(pack(moments.own), 0, 1)  # (q, p, K)
    matrix = n * maps.decay[0][:, :, None] * z + np.eye(start.shape[0])[:, :, None, None] * y
    solved = solve(matrix, np.concatenate([start, maps.drive[0][:, None]], axis=1)[:, :, None] + 0j * z)
    free, forced = solved[:, :-1], solved[:, -1]  # (1 − zT)⁻¹ of M(0) and of w, over n; (q, p, C, K) and (q, C, K)
    kernel = n * np.einsum("q,qck,k->c", maps.seen[0], forced, modes.multiplicity)[:, None]
    drive = n * (np.einsum("q,qpck->pc", maps.seen[0], free)[..., None] + noise[:, None, None] / y)
    driven = (z * drive / (1 - z * kernel)) * (modes.multiplicity * forced)[:, None]
    own = free + driven  # M̂/n
    scale = math.exp(n * rate) if n * rate < LARGEST_EXPONENT else math.inf
    k = output.size
    if k == 1:  # T is a number: its power holds all digits of what has decayed to nothing
        ends = start * np.exp(n * np.log1p(-maps.decay[0]))[0] + scale * (driven * weight).real.sum(2)
    else:
        ends = scale * (own * weight).real.sum(2)
    result = moments._replace(own=unpack(np.moveaxis(ends, 0, 1), k))
    if stage.keeping is None:
        return result
    forgetting, omega = stage.keeping
    rho = 1 - forgetting
    shown = np.einsum("ijpck,j->ipck", unpack_points(own, k), output)  # M̂ o/n
    moved = np.einsum("ijk,jpck->ipck", maps.propagator[0], shown)
    keep_slow = forgetting * np.eye(k)[:, :, None] + rho * maps.propagator_decay[0]  # 1 − ρA
    matrix = n * keep_slow[:, :, None] * z + np.eye(k)[:, :, None, None] * y
    cross: Any = solve(matrix, np.moveaxis(moments.cross, 0, 1)[:, :, None] + n * z * omega * moved)  # x̂/n
    gained = np.einsum("ipck,i->pc", 2 * rho * omega * cross + omega**2 * shown, output)[..., None]
    square: Any = (moments.square[:, None, None] + n * z * gained) / (y + z * n * forgetting * (1 + rho))
    cross_ends = np.moveaxis(scale * (cross * weight).real.sum(2), 0, 1)
    return Moments(result.own, cross_ends, scale * (square * weight).real.sum((1, 2)))
