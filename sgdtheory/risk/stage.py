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
from typing import Any, NamedTuple, cast

import numpy as np

from sgdtheory.algorithms import StepMatrices
from sgdtheory.problems import Modes
from sgdtheory.risk.contour import NEGLIGIBLE, PIECE, QUIET_CONTOUR
from sgdtheory.risk.linear import resolvent, solve
from sgdtheory.risk.moments import Generators, Keeping, Moments, generators, pack, shown_rows, unpack
from sgdtheory.risk.spectrum import StepSpectrum, growth, step_spectrum

LARGEST_EXPONENT = 709.0  # e^709 is about the largest float

Points = tuple[np.ndarray, np.ndarray, np.ndarray]  # z, n(1 − z) and weights of the contours, (C,) each
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
    return Stage(modes, output, maps, alone, step_spectrum(maps.propagator_decay).at(0), keeping)


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
    # What is there decays, and keeps its digits while it does; what σ² adds has its own pole at z = 1.
    left = _at_rate(stage, moments, 0 * NOISE, num_steps, rate)
    added = _at_rate(stage, Moments(*(0 * each[1:] for each in moments)), NOISE[1:], num_steps, 0.0)
    for whole, part in zip(left, added, strict=True):
        whole[1:] += part
    return left


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


def _points(stage: Stage, num_steps: float, rate: float) -> Points:
    p = rate + QUIET_CONTOUR.points / num_steps
    z, y, weight = np.exp(-p), -num_steps * np.expm1(-p), QUIET_CONTOUR.weights
    if stage.spectrum.negative * num_steps > -NEGLIGIBLE:
        sign = -1.0 if num_steps % 2 else 1.0
        z, y, weight = np.append(z, -z), np.append(y, num_steps * (1 + z)), np.append(weight, sign * weight)
    return z, y, weight


def _coefficients(stage: Stage, moments: Moments, noise: np.ndarray, num_steps: float, rate: float) -> Moments:
    """Moments after n steps of some parts, (p,) of them with so much σ² each."""
    maps, n, k = stage.maps, num_steps, stage.output.size
    points = z, y, weight = _points(stage, n, rate)
    start = np.moveaxis(pack(moments.own), 0, 1)  # (q, p, K)
    right = np.concatenate([start, stage.modes.multiplicity * maps.drive[0][:, None]], axis=1)
    pieces = _pieces(right, y.size)
    # (1 − zT)⁻¹ of M(0) and of w, over n: (q, p + 1, K', C) each
    solved: list[Any] = [resolvent(n * maps.decay[0][..., piece], y, z, right[..., piece]) for piece in pieces]
    seen: Any = n * np.tensordot(maps.seen[0], sum(each.sum(-2) for each in solved), 1)
    driven = z * (seen[:-1] + n * noise[:, None] / y) / (1 - z * seen[-1])  # zĥ, (p, C)
    scale = math.exp(n * rate) if n * rate < LARGEST_EXPONENT else math.inf
    if k == 1:  # T is a number: its power holds all digits of what has decayed to nothing
        unforced = start * np.exp(n * np.log1p(-maps.decay[0]))[0]
    else:
        unforced = scale * np.concatenate([(each[:, :-1] @ weight).real for each in solved], axis=-1)
    forced = np.concatenate([(each[:, -1] @ (weight * driven).T).real for each in solved], axis=1)
    own = unpack(np.moveaxis(unforced + scale * np.moveaxis(forced, 2, 1), 0, 1), k)
    if stage.keeping is None:
        return moments._replace(own=own)
    found = [_averaged(stage, moments, *each, driven, n, points) for each in zip(pieces, solved, strict=True)]
    cross, gained = zip(*found, strict=True)
    forgetting = stage.keeping.forgetting
    square = (moments.square[:, None] + n * z * sum(gained)) / (y + z * n * forgetting * (2 - forgetting))
    cross_ends = np.moveaxis(scale * np.concatenate(cross, axis=-1), 0, 1)
    return Moments(own, cross_ends, scale * (square @ weight).real)


def _averaged(
    stage: Stage, moments: Moments, piece: slice, solved: np.ndarray, driven: np.ndarray, n: float, points: Points
) -> tuple[np.ndarray, np.ndarray]:
    """Of a piece of the modes: x after n steps, (k, p, K'), and its part of what the average gains, (p, C)."""
    z, y, weight = points
    forgetting, omega = cast(Keeping, stage.keeping)
    rho, one = 1 - forgetting, np.eye(stage.output.size)[:, :, None]
    own = solved[:, :-1] + solved[:, -1:] * driven[:, None]  # M̂/n
    shown = _times(shown_rows(stage.output), own)
    keep_slow = forgetting * one + rho * stage.maps.propagator_decay[0][..., piece]  # 1 − ρA
    matrix = n * keep_slow[..., None] * z + one[..., None] * y
    right = np.einsum("ijk,jpkc->ipkc", stage.maps.propagator[0][..., piece], shown)
    right *= n * omega * z
    right += np.moveaxis(moments.cross, 0, 1)[..., piece, None]
    cross: Any = solve(matrix, right)  # x̂/n
    gained = 2 * rho * omega * cross.sum(-2) + omega**2 * shown.sum(-2)
    return (cross @ weight).real, np.tensordot(stage.output, gained, 1)


def _times(matrix: np.ndarray, values: np.ndarray) -> np.ndarray:
    """A real matrix (k, q) times complex values (q, …)."""
    found = matrix @ values.view(float).reshape(values.shape[0], -1)
    return found.view(complex).reshape(matrix.shape[0], *values.shape[1:])


def _pieces(right: np.ndarray, num_points: int) -> list[slice]:
    """Slices of the modes whose temporaries stay small."""
    q, sides, size = right.shape
    length = max(PIECE // (2 * q * sides * num_points), 8)
    return [slice(begin, begin + length) for begin in range(0, size, length)]
