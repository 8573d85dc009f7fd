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
from typing import Any, NamedTuple, cast

import numpy as np

from sgdtheory.problems import Modes
from sgdtheory.risk.contour import NEGLIGIBLE, PIECE, QUIET_CONTOUR, Contour
from sgdtheory.risk.linear import (
    LARGEST_ADJUGATE,
    adjugate,
    as_real,
    determinant,
    homogeneous,
    powers,
    resolvent,
    solve,
)
from sgdtheory.risk.moments import (
    Ends,
    Generators,
    Keeping,
    Moments,
    at_runs,
    ends,
    generators,
    pack,
    shown_rows,
    shown_weights,
    together,
    unpack,
)
from sgdtheory.risk.runs import Coefficients
from sgdtheory.risk.spectrum import StepSpectrum, growths, step_spectrum

LARGEST_EXPONENT = 709.0  # e^709 is about the largest float
NUMBERS_AT_ONCE = 60_000  # modes times points times settings: complex, a megabyte
NOISE = np.array([0.0, 1.0])  # σ² of the two parts, bias and variance


class Stage(NamedTuple):
    """Constant coefficients in S settings on some modes, ready for any number of steps."""

    modes: Modes
    output: np.ndarray
    maps: Generators
    alone: Generators
    spectrum: StepSpectrum
    keeping: Keeping | None
    contour: Contour
    stable: bool

    def some(self, places: np.ndarray) -> "Stage":
        """Of some of the settings."""
        return self._replace(
            maps=self.maps.some(places),
            alone=self.alone.some(places),
            spectrum=self.spectrum.some(places),
            keeping=self.keeping and self.keeping.some(places),
        )

    def growths(self, num_steps: np.ndarray) -> np.ndarray:
        """(S,) rates at which the moments grow or, below 0, decay, where n steps tell them from 0."""
        return growths(self.alone, self.modes.driving, self.spectrum.slowest, num_steps, self.stable)


def make_stage(
    here: Coefficients,
    modes: Modes,
    output: np.ndarray,
    keeping: Keeping | None,
    contour: Contour = QUIET_CONTOUR,
    stable: bool = False,
) -> Stage:
    """A stage with the coefficients of one step in each setting; `stable`: no moments are known to grow."""
    if keeping is not None and np.any(keeping.forgetting > 0) or keeping is None and output.size > 1:
        contour = QUIET_CONTOUR  # what decays needs all digits of the integrand
    alone = generators(here.matrices, here.batch, modes.eigenvalue, itself=False)
    maps = alone._replace(decay=alone.decay - alone.drive[:, :, None] * alone.seen[:, None, :, None])
    return Stage(modes, output, maps, alone, step_spectrum(maps.propagator_decay), keeping, contour, stable)


def settling_steps(spectrum: StepSpectrum, keeping: Keeping | None) -> np.ndarray:
    """(S,) steps after which complex poles have died out."""
    rate = np.asarray(spectrum.complex)
    if keeping is None:  # moments of the iterate alone: products of two
        rate = 2 * rate
    with np.errstate(divide="ignore"):
        return np.where(rate >= 0, np.inf, -NEGLIGIBLE / rate)


def after(stage: Stage, moments: Moments, num_steps: np.ndarray) -> Moments:
    """Moments of S settings after n ≥ 1 steps of the stage, (S,)."""
    return in_portions(_moments_at, stage, moments, num_steps)


def ends_after(stage: Stage, moments: Moments, num_steps: np.ndarray) -> Ends:
    """`after`, summed over the modes."""
    if stage.maps.decay.shape[1] > LARGEST_ADJUGATE:
        return ends(after(stage, moments, num_steps), stage.output)
    return in_portions(_ends_at, stage, moments, num_steps)


class Points(NamedTuple):
    """z, n(1 − z) and weights of the contours of S settings, (S, C) each; what they are scaled by and n, (S,)."""

    z: np.ndarray
    y: np.ndarray
    weight: np.ndarray
    scale: np.ndarray
    num_steps: np.ndarray


def _points(contour: Contour, num_steps: np.ndarray, rate: np.ndarray, mirrored: bool) -> Points:
    p = rate[:, None] + contour.points / num_steps[:, None]
    z = np.exp(-p)
    y = -num_steps[:, None] * np.expm1(-p)
    weight = np.broadcast_to(contour.weights, z.shape)
    if mirrored:
        sign = np.where(num_steps % 2 == 1, -1.0, 1.0)[:, None]
        y = np.concatenate([y, num_steps[:, None] * (1 + z)], axis=1)
        z = np.concatenate([z, -z], axis=1)
        weight = np.concatenate([weight, sign * weight], axis=1)
    exponent = num_steps * rate
    scale = np.where(exponent < LARGEST_EXPONENT, np.exp(np.minimum(exponent, LARGEST_EXPONENT)), np.inf)
    return Points(z, y, weight, scale, num_steps)


# What is evaluated on a contour: moments or their sums after n steps, with so much σ² in each part.
Evaluation = Callable[[Any, Moments, np.ndarray, Points], Any]


def in_portions(evaluate: Evaluation, stage: Any, moments: Moments, num_steps: np.ndarray) -> Any:
    """Settings in portions whose temporaries stay in a core's cache; of a `Stage`, or of rounds (`rounds`)."""
    size = max(1, NUMBERS_AT_ONCE // (stage.modes.eigenvalue.size * stage.contour.points.size))
    rate = stage.growths(num_steps)
    portions = []
    for falling in (False, True):
        some = np.flatnonzero((rate < 0) == falling)
        for begin in range(0, some.size, size):
            places = some[begin : begin + size]
            here = at_runs(moments, places)
            follow = _falling if falling else _rising
            found = follow(evaluate, stage.some(places), here, num_steps[places], rate[places])
            portions.append((places, found))
    return together(portions)


def _rising(evaluate: Evaluation, stage: Stage, moments: Moments, num_steps: np.ndarray, rate: np.ndarray) -> Any:
    return _at_rate(evaluate, stage, moments, NOISE, num_steps, rate)


def _falling(evaluate: Evaluation, stage: Stage, moments: Moments, num_steps: np.ndarray, rate: np.ndarray) -> Any:
    """What is there decays, and keeps its digits while it does; what σ² adds has its own pole at z = 1."""
    left = _at_rate(evaluate, stage, moments, 0 * NOISE, num_steps, rate)
    nothing = Moments(*(0 * each[1:] for each in moments))
    added = _at_rate(evaluate, stage, nothing, NOISE[1:], num_steps, 0 * rate)
    for whole, part in zip(left, added, strict=True):
        whole[1:] += part
    return left


def _at_rate(
    evaluate: Evaluation, stage: Stage, moments: Moments, noise: np.ndarray, num_steps: np.ndarray, rate: np.ndarray
) -> Any:
    """With the rate at which the moments of the iterate grow or, below 0, decay; the average may decay more slowly."""
    found = _on_contours(evaluate, stage, moments, noise, num_steps, rate)
    if stage.keeping is None:
        return found
    with np.errstate(divide="ignore"):
        slower = np.maximum(rate, 2 * np.log1p(-stage.keeping.forgetting))
    slower = np.where(np.abs(slower) * num_steps > 1, slower, 0.0)
    if (differ := np.flatnonzero(slower != rate)).size:
        here = at_runs(moments, differ)
        again = _on_contours(evaluate, stage.some(differ), here, noise, num_steps[differ], slower[differ])
        found.cross[:, differ], found.square[:, differ] = again.cross, again.square
    return found


def _on_contours(
    evaluate: Evaluation, stage: Stage, moments: Moments, noise: np.ndarray, num_steps: np.ndarray, rate: np.ndarray
) -> Any:
    """With the mirror image of the contour where directions overshoot."""
    mirrored = stage.spectrum.negative * num_steps > -NEGLIGIBLE
    portions = []
    for whether in (False, True):
        if not (places := np.flatnonzero(mirrored == whether)).size:
            continue
        points = _points(stage.contour, num_steps[places], rate[places], whether)
        if places.size == mirrored.size:
            return evaluate(stage, moments, noise, points)
        here = at_runs(moments, places)
        portions.append((places, evaluate(stage.some(places), here, noise, points)))
    return together(portions)


def _driven(seen: np.ndarray, noise: np.ndarray, points: Points) -> np.ndarray:
    """zĥ, (p, S, C), from Σ ℓ·(1 − zT)⁻¹ of the parts and of w, (p + 1, S, C)."""
    z = points.z
    y = points.y
    n = points.num_steps[:, None]
    return z * (seen[:-1] + n * noise[:, None, None] / y) / (1 - z * seen[-1])


def _moments_at(stage: Stage, moments: Moments, noise: np.ndarray, points: Points) -> Moments:
    """Moments after n steps of some parts, (p,) of them with so much σ² each."""
    maps = stage.maps
    k = stage.output.size
    z, y, weight, scale, n = points
    start = np.moveaxis(pack(moments.own), 2, 0)  # (q, p, S, K)
    drive = np.moveaxis(maps.drive, 1, 0) * stage.modes.multiplicity
    right = np.concatenate([start, drive[:, None]], axis=1)
    decay = np.moveaxis(maps.decay, 0, 2)  # (q, q, S, K)
    pieces = _pieces(right, y.size)
    # (1 − zT)⁻¹ of M(0) and of w, over n: (q, p + 1, S, K', C) each
    solved = [resolvent(n[:, None] * decay[..., piece], y, z, right[..., piece]) for piece in pieces]
    sums: Any = sum(_felt(each, stage.modes, piece) for each, piece in zip(solved, pieces, strict=True))
    driven = _driven(n[:, None] * np.einsum("sq,qpsc->psc", maps.seen, sums), noise, points)
    if k == 1:  # T is a number: its power holds all digits of what has decayed to nothing
        unforced = start * np.exp(n[:, None] * np.log1p(-decay[0]))
    else:
        found = [np.einsum("qpskc,sc->qpsk", each[:, :-1], weight).real for each in solved]
        unforced = scale[:, None] * np.concatenate(found, axis=-1)
    forced = [np.einsum("qskc,psc->qpsk", each[:, -1], weight * driven).real for each in solved]
    own = unforced + scale[:, None] * np.concatenate(forced, axis=-1)
    own = unpack(np.moveaxis(own, 0, 2), k)
    if stage.keeping is None:
        return moments._replace(own=own)
    averaged = [_averaged(stage, moments, *each, driven, points) for each in zip(pieces, solved, strict=True)]
    cross, gained = zip(*averaged, strict=True)
    forgetting = stage.keeping.forgetting[:, None]
    square = n[:, None] * z * sum(gained) / (y + z * n[:, None] * forgetting * (2 - forgetting))
    square = scale * np.einsum("psc,sc->ps", square, weight).real
    ends_of_cross = scale[:, None, None] * np.moveaxis(np.concatenate(cross, axis=-1), 0, 2)
    return Moments(own, ends_of_cross, square + stage.keeping.remembered(moments.square, n))


def _felt(solved: np.ndarray, modes: Modes, piece: slice) -> np.ndarray:
    """(…, S, C) sums over a piece of the modes, (…, S, K', C), as the loss that drives the noise sees them."""
    if modes.trained is None:
        return solved.sum(-2)
    return np.einsum("...kc,k->...c", solved, modes.trained[piece])


def _averaged(
    stage: Stage, moments: Moments, piece: slice, solved: np.ndarray, driven: np.ndarray, points: Points
) -> tuple[np.ndarray, np.ndarray]:
    """Of a piece of the modes: x after n steps, (k, p, S, K'), and its part of what the average gains, (p, S, C)."""
    z, y, weight, _, n = points
    forgetting, omega = cast(Keeping, stage.keeping)
    own = solved[:, :-1] + solved[:, -1:] * driven[:, :, None]  # M̂/n
    shown = np.einsum("iq,qpskc->ipskc", shown_rows(stage.output), own)
    matrix = _kept_slowly(stage, n)[..., piece, None] * z[:, None]
    matrix = matrix + np.eye(stage.output.size)[:, :, None, None, None] * y[:, None]
    propagator = np.moveaxis(stage.maps.propagator, 0, 2)[..., piece]
    right = np.einsum("ijsk,jpskc->ipskc", propagator, shown) * ((n * omega)[:, None] * z)[:, None]
    right = right + np.moveaxis(moments.cross, 2, 0)[..., piece, None]
    cross: Any = solve(matrix, right)  # x̂/n
    gained = (2 * (1 - forgetting) * omega)[:, None] * cross.sum(-2) + (omega**2)[:, None] * shown.sum(-2)
    return np.einsum("ipskc,sc->ipsk", cross, weight).real, np.tensordot(stage.output, gained, 1)


def _kept_slowly(stage: Stage, num_steps: np.ndarray) -> np.ndarray:
    """n(1 − ρA_i), (k, k, S, K)."""
    forgetting = cast(Keeping, stage.keeping).forgetting[:, None]
    one = np.eye(stage.output.size)[:, :, None, None]
    slow = np.moveaxis(stage.maps.propagator_decay, 0, 2)
    return num_steps[:, None] * (forgetting * one + (1 - forgetting) * slow)


def _pieces(right: np.ndarray, num_points: int) -> list[slice]:
    """Slices of the modes whose temporaries stay small; `num_points` of all settings."""
    q, sides, _, size = right.shape
    length = max(PIECE // (2 * q * sides * num_points), 8)
    return [slice(begin, begin + length) for begin in range(0, size, length)]


def _ends_at(stage: Stage, moments: Moments, noise: np.ndarray, points: Points) -> Ends:
    """`_moments_at`, summed over the modes."""
    size = stage.modes.eigenvalue.size
    length = max(NUMBERS_AT_ONCE // points.z.size, 8)
    pieces = [slice(begin, begin + length) for begin in range(0, size, length)]
    sums: Any = sum(_mode_sums(stage, moments, points, piece) for piece in pieces)
    z, y, weight, scale, n = points
    p = noise.size
    seen = sums[: p + 1]
    shown = sums[p + 1 : 2 * p + 2]
    crossed = sums[2 * p + 2 :]
    driven = _driven(seen, noise, points)

    def coefficient(values: np.ndarray) -> np.ndarray:
        return scale * (weight * values).sum(-1).real

    if stage.output.size == 1:
        unforced = (moments.own[:, :, 0, 0] * np.exp(n[:, None] * np.log1p(-stage.maps.decay[:, 0, 0]))).sum(-1)
        iterate = stage.output[0] ** 2 * unforced + coefficient(shown[-1] * driven)
    else:
        iterate = coefficient(shown[:-1] + shown[-1] * driven)
    if stage.keeping is None:
        return Ends(iterate, np.zeros_like(iterate), moments.square)
    forgetting, omega = (each[:, None] for each in stage.keeping)
    begun = crossed[:p]
    crossed = crossed[p:]
    cross = begun + n[:, None] * omega * z * (crossed[:-1] + crossed[-1] * driven)
    gained = 2 * (1 - forgetting) * omega * cross + omega**2 * (shown[:-1] + shown[-1] * driven)
    square = n[:, None] * z * gained / (y + z * n[:, None] * forgetting * (2 - forgetting))
    return Ends(iterate, coefficient(cross), coefficient(square) + stage.keeping.remembered(moments.square, n))


def _mode_sums(stage: Stage, moments: Moments, points: Points, piece: slice) -> np.ndarray:
    """Sums over a piece of the modes that a contour needs, (…, S, C), of the p parts and of w, p + 1 each.

    n Σ ℓ·(1 − zT)⁻¹, Σ oᵀ(1 − zT)⁻¹o, and of an average p of Σ oᵀ(1 − zρA)⁻¹x(0) and Σ oᵀ(1 − zρA)⁻¹A(1 − zT)⁻¹o;
    each inverse over n.
    """
    maps = stage.maps
    n = points.num_steps[:, None]
    start = np.moveaxis(pack(moments.own[..., piece]), 2, 0)  # (q, p, S, K)
    drive = np.moveaxis(maps.drive[..., piece], 1, 0) * stage.modes.multiplicity[piece]
    right = np.concatenate([start, drive[:, None]], axis=1)
    own, inverse = _rational(n * np.moveaxis(maps.decay[..., piece], 0, 2), right, points)
    seen = n * np.einsum("sq,mqrsk->mrsk", maps.seen, own)
    if stage.modes.trained is not None:
        seen = seen * stage.modes.trained[piece]
    shown = np.einsum("q,mqrsk->mrsk", shown_weights(stage.output), own)
    found = [_summed(np.concatenate([seen, shown], axis=1), inverse, points)]
    if stage.keeping is not None:
        slow = _kept_slowly(stage, points.num_steps)[..., piece]
        output = np.broadcast_to(stage.output[:, None, None, None], (stage.output.size, 1, *slow.shape[2:]))
        left, kept_inverse = _rational(np.swapaxes(slow, 0, 1), output, points)  # oᵀ adj
        begun = np.einsum("aiosk,psik->apsk", left, moments.cross[..., piece])
        found.append(_summed(begun, kept_inverse, points))
        propagator = np.moveaxis(maps.propagator, 0, 2)[..., piece]
        moved = np.einsum("ijsk,jq,mqrsk->mirsk", propagator, shown_rows(stage.output), own)
        products = np.zeros((left.shape[0] + moved.shape[0] - 1, *moved.shape[2:]))
        for a, b in np.ndindex(left.shape[0], moved.shape[0]):
            products[a + b] += (left[a] * moved[b]).sum(0)
        kept_inverse *= inverse
        found.append(_summed(products, kept_inverse, points))
    return np.concatenate(found)


def _rational(matrix: np.ndarray, right: np.ndarray, points: Points) -> tuple[np.ndarray, np.ndarray]:
    """`(y + z·matrix)⁻¹ right` as numerators (q, q, r, S, K), of y^{q−1} … z^{q−1}, over a determinant: 1/it (S, K, C).

    Both in units of the size of the matrix, so that no product leaves the range of a float.
    """
    q = matrix.shape[0]
    unit = 1 / (1 + np.abs(matrix).max((0, 1)))
    scaled = matrix * unit
    numerators = adjugate(scaled, right)
    for power in range(q):
        numerators[power] *= unit ** (q - power)
    coefficients = determinant(scaled)
    for power in range(q):
        coefficients[power] = coefficients[power] * unit ** (q - power)
    return numerators, np.reciprocal(homogeneous(coefficients, points.y, points.z))


def _summed(numerators: np.ndarray, inverse: np.ndarray, points: Points) -> np.ndarray:
    """(r, S, C) sums over modes of polynomials (M, r, S, K), of y^{M−1} … z^{M−1}, times `inverse`, (S, K, C)."""
    degrees, sides, settings, _ = numerators.shape
    measures = np.moveaxis(numerators, 2, 0).reshape(settings, degrees * sides, -1)
    sums = (measures @ as_real(inverse)).view(complex).reshape(settings, degrees, sides, -1)
    return np.einsum("smrc,smc->rsc", sums, powers(degrees - 1, points.y, points.z))
