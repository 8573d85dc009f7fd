"""Moments after many steps of methods with more than three moments a mode, which are eliminated at every point."""

from typing import Any, cast

import numpy as np

from sgdtheory.risk.solvers.contour import PIECE
from sgdtheory.risk.solvers.small_systems import resolvent, solve
from sgdtheory.risk.solvers.transforms import sizes
from sgdtheory.risk.systems.constant import Points, Stage
from sgdtheory.risk.systems.moments import Keeping, Moments, MomentsAndSize, pack, shown_rows, shown_weights, unpack


def _driven(seen: np.ndarray, noise: np.ndarray, points: Points) -> np.ndarray:
    """zĥ, (p, S, C), from Σ ℓ·(1 − zT)⁻¹ of the parts and of w, (p + 1, S, C)."""
    z = points.z
    y = points.y
    n = points.num_steps[:, None]
    return z * (seen[:-1] + n * noise[:, None, None] / y) / (1 - z * seen[-1])


def eliminated_moments(stage: Stage, moments: Moments, noise: np.ndarray, points: Points) -> MomentsAndSize:
    """Return the moments after n steps of some parts, (p,) of them with so much σ² each."""
    maps = stage.maps
    k = stage.output.size
    z, y, weight, scale, n = points
    start = np.moveaxis(pack(moments.own), 2, 0)  # (q, p, S, K)
    drive = np.moveaxis(maps.drive, 1, 0) * stage.modes.multiplicity
    right = np.concatenate([start, drive[:, None]], axis=1)
    decay = np.moveaxis(maps.decay, 0, 2)  # (q, q, S, K)
    portions = _portions(right, y.size)
    # (1 − zT)⁻¹ of M(0) and of w, over n: (q, p + 1, S, K', C) each
    solved = [resolvent(n[:, None] * decay[..., portion], y, z, right[..., portion]) for portion in portions]
    shown: Any = sum(each.sum(-2) for each in solved)
    sums: Any = shown
    if stage.modes.trained is not None:  # the loss that drives the noise sees other shares of the modes
        sums = sum(
            np.einsum("...kc,k->...c", each, stage.modes.trained[portion])
            for each, portion in zip(solved, portions, strict=True)
        )
    driven = _driven(n[:, None] * np.einsum("sq,qpsc->psc", maps.seen, sums), noise, points)
    shown = z * (shown[:, :-1] + shown[:, -1:] * driven)
    unforced = [np.einsum("qpskc,sc->qpsk", each[:, :-1], weight).real for each in solved]
    forced = [np.einsum("qskc,psc->qpsk", each[:, -1], weight * driven).real for each in solved]
    own = scale[:, None] * (np.concatenate(unforced, axis=-1) + np.concatenate(forced, axis=-1))
    own = unpack(np.moveaxis(own, 0, 2), k)
    shown = np.einsum("q,qpsc->psc", shown_weights(stage.output), shown)
    if stage.keeping is None:
        return MomentsAndSize(own, moments.cross, moments.square, sizes(points, shown, None, None))
    averaged = [_averaged(stage, moments, *each, driven, points) for each in zip(portions, solved, strict=True)]
    cross, *sums = zip(*averaged, strict=True)
    crossing, by_cross, by_iterate = (sum(each[1:], each[0]) for each in sums)
    forgetting = stage.keeping.forgetting[:, None]
    kept = n[:, None] * z / (y + z * n[:, None] * forgetting * (2 - forgetting))
    size = sizes(points, shown, z * crossing, z * kept * (np.abs(by_cross) + np.abs(by_iterate)))
    square = scale * np.einsum("psc,sc->ps", kept * (by_cross + by_iterate), weight).real
    ends_of_cross = scale[:, None, None] * np.moveaxis(np.concatenate(cross, axis=-1), 0, 2)
    return MomentsAndSize(own, ends_of_cross, square + stage.keeping.remembered(moments.square, n), size)


def _averaged(
    stage: Stage, moments: Moments, portion: slice, solved: np.ndarray, driven: np.ndarray, points: Points
) -> tuple[np.ndarray, np.ndarray, np.ndarray, np.ndarray]:
    """Return x of a portion of the modes after n steps, (k, p, S, K'), and its parts of oᵀx̂ and of the gain of S².

    (p, S, C) each.
    """
    z, y, weight, _, n = points
    forgetting, omega = cast(Keeping, stage.keeping)
    own = solved[:, :-1] + solved[:, -1:] * driven[:, :, None]  # M̂/n
    shown = np.einsum("iq,qpskc->ipskc", shown_rows(stage.output), own)
    matrix = _kept_slowly(stage, n)[..., portion, None] * z[:, None]
    matrix = matrix + np.eye(stage.output.size)[:, :, None, None, None] * y[:, None]
    propagator = np.moveaxis(stage.maps.propagator, 0, 2)[..., portion]
    right = np.einsum("ijsk,jpskc->ipskc", propagator, shown) * ((n * omega)[:, None] * z)[:, None]
    right = right + np.moveaxis(moments.cross, 2, 0)[..., portion, None]
    cross: Any = solve(matrix, right)  # x̂/n
    crossing = np.tensordot(stage.output, cross.sum(-2), 1)
    gained = (2 * (1 - forgetting) * omega)[:, None] * crossing
    own = (omega**2)[:, None] * np.tensordot(stage.output, shown.sum(-2), 1)
    return np.einsum("ipskc,sc->ipsk", cross, weight).real, crossing, gained, own


def _kept_slowly(stage: Stage, num_steps: np.ndarray) -> np.ndarray:
    """n(1 − ρA_i), (k, k, S, K)."""
    forgetting = cast(Keeping, stage.keeping).forgetting[:, None]
    one = np.eye(stage.output.size)[:, :, None, None]
    slow = np.moveaxis(stage.maps.propagator_decay, 0, 2)
    return num_steps[:, None] * (forgetting * one + (1 - forgetting) * slow)


def _portions(right: np.ndarray, num_points: int) -> list[slice]:
    """Return the slices of the modes whose temporaries stay small; `num_points` of all settings."""
    q, sides, _, size = right.shape
    length = max(PIECE // (2 * q * sides * num_points), 8)
    return [slice(begin, begin + length) for begin in range(0, size, length)]
