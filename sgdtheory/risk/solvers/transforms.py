"""`renewal` at the points of a contour: what moments, or their sums over the modes, are integrals of.

With t = n(1/z − 1) every inverse of T20's transforms is `1 − zX = (z/n)(t + n(1 − X))`, so that with
`[r]_i = (t + n(1 − T_i))⁻¹ r`

    zĥ = n driven,   driven = (Σ ℓ·[M_i(0)] + σ²/t)/(1 − Σ ℓ·[n w_i]),
    M̂_i = (n/z)([M_i(0)] + driven [n w_i]),
    x̂_i = (n/z)(t + n(1 − ρA_i))⁻¹(x_i(0) + nω A_i ([M_i(0)] + driven [n w_i]) o),
    Ŝ² = (n/z)(S²(0) + n(2ρω Σ oᵀx̂'_i + ω² Σ oᵀM̂'_i o))/(t + n(1 − ρ²)),

x̂' and M̂' without their n/z. All are `fractions`; the n-th coefficient is the sum over the points of weights times n/z.
"""

from collections.abc import Sequence
from typing import Any, NamedTuple, cast

import numpy as np

from sgdtheory.risk.solvers.contour import Points
from sgdtheory.risk.solvers.fractions import Fractions, at_steps, fractions, product, summed, times
from sgdtheory.risk.systems.constant import Stage
from sgdtheory.risk.systems.moments import (
    Ends,
    Keeping,
    Moments,
    MomentsAndSize,
    pack,
    shown_rows,
    shown_weights,
    unpack,
)

# This many modes times points times settings are solved at once: their parts are 2 MB (benchmarks.algorithms).
NUMBERS_AT_ONCE = 120_000


class _Solved(NamedTuple):
    """Answers of a portion of the modes to r sides: the parts that begin with something and, last, the drive n w.

    Attributes:
        portion: which modes.
        own: [side], numerators (q, q, r, S, K').
        begun: R (t + n(1 − ρA))⁻¹ x(0) without the drive, numerators (k, a, r − 1, S, K'); None without an average.
        moved: R (t + n(1 − ρA))⁻¹ nω A [side] o, numerators (k + q − 1, a, r, S, K').
    """

    portion: slice
    own: Fractions
    from_start: Fractions | None = None
    from_iterate: Fractions | None = None


class _Sums(NamedTuple):
    """Over the modes, (r, S, C): Σ ℓ·[side], Σ oᵀ[side]o and, of an average, the rows of `begun` and `moved`, by o."""

    seen: Any
    shown: Any
    from_start: Any
    from_iterate: Any


class _Transforms(NamedTuple):
    """Driven, and what Σ oᵀM o, Σ oᵀx and S² are integrals of, without n/z, (p, S, C); None without an average.

    `gross` is what that of S² would be if the two things that S² gains had one sign: where the iterate swings about 0
    they nearly cancel.
    """

    driven: np.ndarray
    iterate: np.ndarray
    cross: Any
    square: Any
    gross: Any


def ends_at(stage: Stage, moments: Moments, noise: np.ndarray, points: Points) -> Ends:
    """Return the sums over the modes after n steps, of some parts with so much σ² each, (p,)."""
    row = stage.output[None]
    solved = (_solved(stage, moments, points, portion, row) for portion in _portions(stage, points))
    sums = _total([_sums(stage, each, points, np.ones(1)) for each in solved])
    result = _transforms(stage, sums, moments, noise, points)
    size = sizes(points, result.iterate, result.cross, result.gross)
    iterate = coefficient(result.iterate, points)
    if stage.output.size == 1:
        iterate = coefficient(sums.shown[-1] * result.driven, points)
        iterate += (stage.output[0] ** 2 * _unforced(stage, moments, points)).sum(-1)
    if stage.keeping is None:
        return Ends(iterate, np.zeros_like(iterate), moments.square, size)
    return Ends(iterate, coefficient(result.cross, points), _square(stage, moments, result, points), size)


def moments_at(stage: Stage, moments: Moments, noise: np.ndarray, points: Points) -> MomentsAndSize:
    """Return the moments after n steps, of some parts with so much σ² each, (p,)."""
    k = stage.output.size
    solved = [_solved(stage, moments, points, portion, np.eye(k)) for portion in _portions(stage, points)]
    sums = _total([_sums(stage, each, points, stage.output) for each in solved])
    result = _transforms(stage, sums, moments, noise, points)
    own = np.concatenate([_own(each, moments, result, points) for each in solved], axis=-1)
    own *= points.scale[:, None]
    if k == 1:
        own[0] += _unforced(stage, moments, points)
    own = unpack(own.transpose(1, 2, 0, 3), k)
    size = sizes(points, result.iterate, result.cross, result.gross)
    if stage.keeping is None:
        return MomentsAndSize(own, moments.cross, moments.square, size)
    cross = np.concatenate([_cross(each, moments, result, points) for each in solved], axis=-1)
    cross *= points.scale[:, None]
    return MomentsAndSize(own, cross.transpose(1, 2, 0, 3), _square(stage, moments, result, points), size)


def _portions(stage: Stage, points: Points) -> list[slice]:
    """Return the slices of the modes whose temporaries stay small."""
    length = max(NUMBERS_AT_ONCE // points.z.size, 8)
    return [slice(nonzero, nonzero + length) for nonzero in range(0, stage.modes.eigenvalue.size, length)]


def _nonzero_parts(moments: Moments) -> np.ndarray:
    """Return the parts that begin with something: with label noise alone, the variance of a run begins with nothing."""
    return np.flatnonzero(moments.own.any((1, 2, 3, 4)) | moments.cross.any((1, 2, 3)))


def _solved(stage: Stage, moments: Moments, points: Points, portion: slice, rows: np.ndarray) -> _Solved:
    """Return a portion of the modes; with an average, the products of its vectors with some rows R, (a, k)."""
    n = points.num_steps
    nonzero = _nonzero_parts(moments)
    start = pack(moments.own[nonzero][..., portion]).transpose(2, 0, 1, 3)  # (q, r − 1, S, K')
    drive = n[:, None, None] * stage.maps.drive[..., portion] * stage.modes.multiplicity[portion]
    sides = np.concatenate([start, drive.transpose(1, 0, 2)[:, None]], axis=1)
    decay = n[:, None] * stage.maps.decay[..., portion].transpose(1, 2, 0, 3)
    own = fractions(decay, sides, points.t, n)
    if stage.keeping is None:
        return _Solved(portion, own)
    forgetting, omega = stage.keeping
    slow = stage.maps.propagator_decay[..., portion].transpose(1, 2, 0, 3)
    one = np.eye(rows.shape[1])[:, :, None, None]
    slow = n[:, None] * (forgetting[:, None] * one + (1 - forgetting)[:, None] * slow)
    columns = np.broadcast_to(rows.T[:, :, None, None], (*rows.T.shape, *slow.shape[2:]))
    kept = fractions(np.swapaxes(slow, 0, 1), columns, points.t, n)  # R (t + slow)⁻¹, transposed: (k, k, a, S, K')
    from_start = np.einsum("miask,psik->mapsk", kept.numerators, moments.cross[nonzero][..., portion])
    shown = np.einsum("iq,mqrsk->mirsk", shown_rows(stage.output), own.numerators)
    propagator = (n * omega)[:, None] * stage.maps.propagator[..., portion].transpose(1, 2, 0, 3)
    reached = np.einsum("ijsk,mjrsk->mirsk", propagator, shown)
    from_iterate = product(kept.numerators[:, :, :, None], reached[:, :, None]).sum(1)
    return _Solved(
        portion, own, Fractions(from_start, kept.inverse), Fractions(from_iterate, times(kept.inverse, own.inverse))
    )


def _sums(stage: Stage, solved: _Solved, points: Points, output: np.ndarray) -> _Sums:
    """Return the sums over a portion of the modes; `output` weighs the rows (a,) of the cross moments."""
    weights = shown_weights(stage.output)
    shown = np.einsum("q,mqrsk->mrsk", weights, solved.own.numerators)
    shown_sums = summed(shown, solved.own.inverse, points.t)
    seen_sums = shown_sums
    if stage.modes.trained is not None or (stage.maps.seen != weights).any():  # else the loss shows what noise sees
        seen = np.einsum("sq,mqrsk->mrsk", stage.maps.seen, solved.own.numerators)
        if stage.modes.trained is not None:
            seen *= stage.modes.trained[solved.portion]
        seen_sums = summed(seen, solved.own.inverse, points.t)
    if solved.from_start is None or solved.from_iterate is None:
        return _Sums(seen_sums, shown_sums, 0.0, 0.0)
    from_start, from_iterate = (
        np.einsum("a,marsk->mrsk", output, each.numerators) for each in (solved.from_start, solved.from_iterate)
    )
    from_start = (
        summed(from_start, solved.from_start.inverse, points.t) if from_start.any() else np.zeros_like(shown_sums[:-1])
    )
    return _Sums(seen_sums, shown_sums, from_start, summed(from_iterate, solved.from_iterate.inverse, points.t))


def _total(sums: Sequence[_Sums]) -> _Sums:
    return _Sums(*(sum(each[1:], each[0]) for each in zip(*sums, strict=True)))


def _transforms(stage: Stage, sums: _Sums, moments: Moments, noise: np.ndarray, points: Points) -> _Transforms:
    nonzero = _nonzero_parts(moments)

    def of_parts(values: np.ndarray) -> np.ndarray:
        """Return (p, S, C) of all parts, 0 of those that begin with nothing."""
        result = np.zeros((noise.size, *values.shape[1:]), dtype=complex)
        result[nonzero] = values
        return result

    driven = (of_parts(sums.seen[:-1]) + noise[:, None, None] / points.t) / (1 - sums.seen[-1])
    iterate = of_parts(sums.shown[:-1]) + driven * sums.shown[-1]
    if stage.keeping is None:
        return _Transforms(driven, iterate, None, None, None)
    n = points.num_steps[:, None]
    forgetting, omega = (each[:, None] for each in stage.keeping)
    cross = of_parts(sums.from_start + sums.from_iterate[:-1]) + driven * sums.from_iterate[-1]
    gained = 2 * (1 - forgetting) * omega * cross, omega**2 * iterate
    kept = n / (points.t + n * forgetting * (2 - forgetting))
    gross = (np.abs(gained[0]) + np.abs(gained[1])) * kept
    return _Transforms(driven, iterate, cross, kept * (gained[0] + gained[1]), gross)


def coefficient(values: np.ndarray, points: Points) -> np.ndarray:
    """Return (p, S) n-th coefficients of n/z times values, (p, S, C)."""
    return points.scale * (points.kernel * values).sum(-1).real


def sizes(points: Points, *transforms: np.ndarray | None) -> np.ndarray:
    """(p, S, 3) Σ |terms| of the `coefficient` of three transforms, (p, S, C) or None; 0 of those that are None."""
    weight = np.abs(points.kernel)
    result = [0.0 if each is None else points.scale * (weight * np.abs(each)).sum(-1) for each in transforms]
    return np.stack(np.broadcast_arrays(*result), axis=-1)


def _square(stage: Stage, moments: Moments, result: _Transforms, points: Points) -> np.ndarray:
    """Return (p, S) S² after n steps."""
    keeping = cast(Keeping, stage.keeping)
    return coefficient(result.square, points) + keeping.remembered(moments.square, points.num_steps)


def _unforced(stage: Stage, moments: Moments, points: Points) -> np.ndarray:
    """(p, S, K) what k = 1 leaves of M(0): the power of a number holds all digits of what has decayed to nothing."""
    return moments.own[:, :, 0, 0] * np.exp(points.num_steps[:, None] * np.log1p(-stage.maps.decay[:, 0, 0]))


def _own(solved: _Solved, moments: Moments, result: _Transforms, points: Points) -> np.ndarray:
    """Return (q, p, S, K') M after n steps over the scale; of k = 1 what is driven alone."""
    numerators, inverse = solved.own
    own = at_steps(numerators[:, :, -1:], inverse, points.kernel * result.driven, points.t)
    if len(numerators) > 1:
        own[:, _nonzero_parts(moments)] += at_steps(numerators[:, :, :-1], inverse, points.kernel[None], points.t)
    return own


def _cross(solved: _Solved, moments: Moments, result: _Transforms, points: Points) -> np.ndarray:
    """Return (k, p, S, K') x after n steps over the scale."""
    from_start, from_iterate = (cast(Fractions, each) for each in (solved.from_start, solved.from_iterate))
    t = points.t
    cross = at_steps(from_iterate.numerators[:, :, -1:], from_iterate.inverse, points.kernel * result.driven, t)
    nonzero = _nonzero_parts(moments)
    cross[:, nonzero] += at_steps(from_start.numerators, from_start.inverse, points.kernel[None], t)
    cross[:, nonzero] += at_steps(from_iterate.numerators[:, :, :-1], from_iterate.inverse, points.kernel[None], t)
    return cross
