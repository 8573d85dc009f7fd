"""Second moments of any linear stochastic method, mode by mode, and one exact step of them (THEORY.md T20).

With `A_i = A − λ_i b cᵀ` and `M_i = λ_i E[u_i u_iᵀ]`,

    M_i ← A_i M_i A_iᵀ + (λ_i²/B) b bᵀ [cᵀM_i c + P + σ²],    P = Σ_j cᵀM_j c,

and beside it, for an average `S ← ρS + ω oᵀu`, the cross moments `x_i = λ_i E[u_i S_i]` and `Σ_i λ_i E S_i²`,

    x_i ← A_i (ρ x_i + ω M_i o),    Σ S² ← ρ² Σ S² + 2ρω Σ oᵀx_i + ω² Σ oᵀM_i o.

A weighted mode stands for many directions: its M is their sum, signal and noise added up, since both obey the same λ.
Everything is linear in (signal, σ²): two copies run side by side, one with the signal alone, one with the noise alone.
"""

from collections.abc import Callable, Iterable, Sequence
from functools import reduce
from itertools import combinations_with_replacement
from typing import Any, NamedTuple

import numpy as np

from sgdtheory.algorithms import LinearMethod, Returned, StepMatrices, column_products
from sgdtheory.problems import Modes


class Moments(NamedTuple):
    """Of S runs on K modes, for bias and variance (first axis): M (2, S, k, k, K), x (2, S, k, K), Σ S² (2, S).

    The variance is in units of σ².
    """

    own: Any
    cross: Any
    square: Any


class Keeping(NamedTuple):
    """How an average is kept: 1 − ρ and ω, (S,) of S runs."""

    forgetting: Any
    weight: Any

    def some(self, places: np.ndarray) -> "Keeping":
        """Of some of the runs."""
        return Keeping(*(each[places] for each in self))

    def remembered(self, square: np.ndarray, num_steps: np.ndarray) -> np.ndarray:
        """ρ^{2n} S²(0): on a contour it would leave its rounding, before it decayed, in what is left after."""
        with np.errstate(divide="ignore"):
            return square * np.exp(2 * num_steps * np.log1p(-self.forgetting))


def at_runs(moments: Moments, places: np.ndarray) -> Moments:
    """Moments of some of the runs, copies."""
    return Moments(*(each[:, places] for each in moments))


def together(portions: Sequence[tuple[np.ndarray, Any]]) -> Any:
    """Moments, or their sums, of some of the runs each, as those of all."""
    if len(portions) == 1:
        return portions[0][1]
    order = np.argsort(np.concatenate([places for places, _ in portions]))
    kind = type(portions[0][1])
    columns = zip(*(one for _, one in portions), strict=True)
    return kind(*(np.concatenate(each, axis=1)[:, order] for each in columns))


def start(method: LinearMethod, modes: Modes, settings: int) -> Moments:
    """Moments of the start of S runs: the signal alone, no average yet."""
    k = len(method.start)
    size = modes.eigenvalue.size
    own = np.zeros((2, settings, k, k, size))
    own[0] = np.multiply.outer(np.outer(method.start, method.start), modes.signal)
    return Moments(own, np.zeros((2, settings, k, size)), np.zeros((2, settings)))


class Ends(NamedTuple):
    """What a risk is made of, summed over the modes of S runs, (2, S) each: Σ oᵀM o, Σ oᵀx and Σ S²."""

    iterate: Any
    cross: Any
    square: Any


def ends(moments: Moments, output: np.ndarray) -> Ends:
    """Of S runs, or (2,) each of one."""
    iterate = np.einsum("...ijk,i,j->...", moments.own, output, output)
    return Ends(iterate, np.einsum("...ik,i->...", moments.cross, output), moments.square)


def returned_risk(sums: Ends, shares: Sequence[Returned]) -> np.ndarray:
    """`Σ λ E(a oᵀu + c S)² = a² Σ oᵀM o + 2ac Σ oᵀx + c² Σ S²` of S runs, (2, S), each with its own a and c.

    What is not returned may have left the range of a float.
    """
    a, c = np.array(shares, dtype=float).T
    parts = (a**2, sums.iterate), (2 * a * c, sums.cross), (c**2, sums.square)
    return sum((np.where(weight != 0, weight * part, 0.0) for weight, part in parts), np.zeros_like(sums.iterate))


class Steps(NamedTuple):
    """What a step does in each of S settings; of T steps, with T in front.

    Attributes:
        decay, b, c: (S, k, k), (S, k), (S, k) I − A, b and c; or (S, k, r) b and c of r independent noises.
        batch: (S,) B_t.
        forgetting, weight: (S,) 1 − ρ and ω of the average.
    """

    decay: Any
    b: Any
    c: Any
    batch: Any
    forgetting: Any
    weight: Any


class StepMaps(NamedTuple):
    """What a step does to K modes in each of S settings; of T steps, with T in front. None stands for 0.

    Attributes:
        propagator: [i][j], (S, K) A_i.
        noise: [i][j], j ≥ i, (S, K) b_i b_j λ²/B.
        seen: [i][j], j ≥ i, (S, 1) c_i c_j, twice that where i ≠ j.
        keep, weight: (S, 1) ρ and ω of the average.
    """

    propagator: Any
    noise: Any
    seen: Any
    keep: Any
    weight: Any

    def at(self, which: int | slice) -> "StepMaps":
        """One of T steps; or, of one step, some of the settings."""

        def one(rows: Any) -> Any:
            return [[each if each is None else each[which] for each in row] for row in rows]

        keep = self.keep[which]
        weight = self.weight[which]
        return StepMaps(one(self.propagator), one(self.noise), one(self.seen), keep, weight)


def step_maps(
    steps: Steps, eigenvalue: Any, nothing: Callable[[Any], bool] = lambda values: not values.any()
) -> StepMaps:
    """The maps of steps; what is `nothing` in all of them is left out."""
    decay, b, c, batch, forgetting, weight = steps
    k = decay.shape[-1]
    one = np.eye(k)
    pull = column_products(b, c, decay)
    spread = column_products(b, b, decay)
    view = column_products(c, c, decay)

    def kept(small: Any, large: Callable[[], Any]) -> Any:
        return None if nothing(small) else large()

    def entry(i: int, j: int) -> Any:
        if nothing(pull[..., i, j]):
            return kept(one[i, j] - decay[..., i, j], lambda: one[i, j] - decay[..., i, j, None] + 0 * eigenvalue)
        return one[i, j] - decay[..., i, j, None] - pull[..., i, j, None] * eigenvalue

    def noise(i: int, j: int) -> Any:
        force = spread[..., i, j] / batch
        return kept(force, lambda: force[..., None] * eigenvalue**2)

    def seen(i: int, j: int) -> Any:
        both = view[..., i, j] * (1 if i == j else 2)
        return kept(both, lambda: both[..., None])

    above = [[(i, j) for j in range(i, k)] for i in range(k)]
    return StepMaps(
        [[entry(i, j) for j in range(k)] for i in range(k)],
        [[noise(*pair) for pair in row] for row in above],
        [[seen(*pair) for pair in row] for row in above],
        1 - forgetting[..., None],
        weight[..., None],
    )


def step(
    moments: Moments, maps: StepMaps, modes: Modes, output: tuple[float, ...], averaged: bool, xp: Any = np
) -> Moments:
    """One step of S settings at once; NumPy and compiled loops share it.

    Args:
        moments: own[i][j] and cross[i], (2, S, K) each, in nested tuples, j ≥ i counts; square (2, S).
        maps: of the step.
        modes: their multiplicity, (K,), and what of their moments the gradients' noise sees.
        output: o.
        averaged: whether an average is kept.
        xp: numpy or jax.numpy.
    """
    A = maps.propagator
    k = len(output)
    own, cross, square = moments
    M = [[own[min(i, j)][max(i, j)] for j in range(k)] for i in range(k)]
    above = [(i, j) for i in range(k) for j in range(i, k)]
    nothing = xp.zeros_like(M[0][0])
    seen = _total(_times(maps.seen[i][j - i], M[i][j]) for i, j in above)
    seen = nothing if seen is None else seen
    risk = (seen if modes.trained is None else modes.trained * seen).sum(-1) + xp.asarray([[0.0], [1.0]])
    drive = seen + modes.multiplicity * risk[..., None]
    AM = [[_total(_times(A[i][r], M[r][j]) for r in range(k)) for j in range(k)] for i in range(k)]

    def after(i: int, j: int) -> Any:
        terms = [_times(A[j][r], AM[i][r]) for r in range(k)]
        found = _total([*terms, _times(maps.noise[i][j - i], drive)])
        return nothing if found is None else found

    ended = tuple(tuple(after(i, j) if j >= i else own[i][j] for j in range(k)) for i in range(k))
    if not averaged:
        return Moments(ended, cross, square)
    rho = maps.keep
    omega = maps.weight
    shown = [_total(M[i][j] * output[j] for j in range(k) if output[j]) for i in range(k)]
    gained = _total(output[i] * (2 * rho * omega * cross[i] + omega**2 * shown[i]) for i in range(k) if output[i])
    moved = [rho * cross[i] + omega * shown[i] for i in range(k)]
    reached = [_total(_times(A[i][r], moved[r]) for r in range(k)) for i in range(k)]
    cross = tuple(nothing if each is None else each for each in reached)
    return Moments(ended, cross, rho[..., 0] ** 2 * square + gained.sum(-1))


def _times(factor: Any, values: Any) -> Any:
    return None if factor is None or values is None else factor * values


def _total(terms: Iterable[Any]) -> Any:
    """Their sum without those that are None; None if all are."""
    counted = [term for term in terms if term is not None]
    return reduce(lambda left, right: left + right, counted) if counted else None


def nested(moments: Moments) -> Moments:
    """Moments of S settings, (2, S, …) each, as `step` takes them."""
    k = moments.cross.shape[2]
    own = tuple(tuple(moments.own[:, :, i, j] for j in range(k)) for i in range(k))
    return Moments(own, tuple(moments.cross[:, :, i] for i in range(k)), moments.square)


def stacked(moments: Moments) -> Moments:
    """The inverse of `nested`."""
    k = len(moments.cross)
    own = [np.stack([np.asarray(moments.own[min(i, j)][max(i, j)]) for j in range(k)], 2) for i in range(k)]
    return Moments(np.stack(own, 2), np.stack(list(map(np.asarray, moments.cross)), 2), np.asarray(moments.square))


class Generators(NamedTuple):
    """The maps of packed moments of T steps: `1 − T` (T, q, q, K), the drive w (T, q, K), and ℓ (T, q), P = Σ ℓ·M.

    q = k(k + 1)/2; for the cross moments A_i and `1 − A_i`, (T, k, k, K).
    """

    decay: np.ndarray
    drive: np.ndarray
    seen: np.ndarray
    propagator: np.ndarray
    propagator_decay: np.ndarray

    def some(self, places: np.ndarray) -> "Generators":
        """Of some of the steps."""
        return Generators(*(each[places] for each in self))


def pairs(k: int) -> list[tuple[int, int]]:
    """(i, j) of the packed moments."""
    return list(combinations_with_replacement(range(k), 2))


def pack(own: np.ndarray) -> np.ndarray:
    """(…, q, K) from (…, k, k, K)."""
    return np.stack([own[..., i, j, :] for i, j in pairs(own.shape[-2])], axis=-2)


def unpack(packed: np.ndarray, k: int) -> np.ndarray:
    """(…, k, k, K) from (…, q, K)."""
    own = np.empty((*packed.shape[:-2], k, k, packed.shape[-1]), packed.dtype)
    for place, (i, j) in enumerate(pairs(k)):
        own[..., i, j, :] = own[..., j, i, :] = packed[..., place, :]
    return own


def shown_rows(output: np.ndarray) -> np.ndarray:
    """(k, q) with rows · packed = M o."""
    k = output.size
    return np.einsum("ijq,j->iq", unpack(np.eye(k * (k + 1) // 2), k), output)


def shown_weights(output: np.ndarray) -> np.ndarray:
    """(q,) with Σ weights · packed = oᵀM o."""
    return np.array([output[i] * output[j] * (1 if i == j else 2) for i, j in pairs(output.size)])


def generators(matrices: StepMatrices, batch: np.ndarray, eigenvalue: np.ndarray, *, itself: bool = True) -> Generators:
    """The maps of T steps at eigenvalues (K,) or (T, K); differences from 1 are formed from small quantities.

    `itself` counts a mode's own part of the bracket, cᵀM_i c, in `1 − T`; without it `1 − A ⊗ A` is left.
    """
    decay, b, c = matrices
    k = b.shape[1]
    one = np.eye(k)[:, :, None]
    spread = column_products(b, b, decay)
    view = column_products(c, c, decay)
    eigenvalue = np.atleast_2d(eigenvalue)
    slow = decay[..., None] + column_products(b, c, decay)[..., None] * eigenvalue[:, None, None]  # 1 − A_i
    A = one - slow
    noise = eigenvalue**2 / batch[:, None]  # (T, K)
    where = pairs(k)
    maps = np.empty((b.shape[0], len(where), len(where), eigenvalue.shape[1]))
    for column, (r, s) in enumerate(where):
        seen = view[:, r, s] * (1 if r == s else 2)
        for row, (i, j) in enumerate(where):
            # entry (i, j) of M − A M Aᵀ, M = E_rs + E_sr (or E_rr): with D = 1 − A it is D M + M Dᵀ − D M Dᵀ
            entry = _entry(slow, i, j, r, s) if r == s else _entry(slow, i, j, r, s) + _entry(slow, i, j, s, r)
            if itself:
                entry = entry - (seen * spread[:, i, j])[:, None] * noise
            maps[:, row, column] = entry
    drive = np.stack([spread[:, i, j, None] * noise for i, j in where], axis=1)
    weights = np.stack([view[:, i, j] * (1 if i == j else 2) for i, j in where], axis=1)
    return Generators(maps, drive, weights, A, slow)


def _entry(slow: np.ndarray, i: int, j: int, r: int, s: int) -> Any:
    """Entry (i, j) of `D E + E Dᵀ − D E Dᵀ` for E = e_r e_sᵀ."""
    first = slow[:, i, r] if j == s else 0.0
    second = slow[:, j, s] if i == r else 0.0
    return first + second - slow[:, i, r] * slow[:, j, s]
