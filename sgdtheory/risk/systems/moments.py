"""Second moments of any linear stochastic method, mode by mode (THEORY.md T20).

With `A_i = A − λ_i b cᵀ` and `M_i = λ_i E[u_i u_iᵀ]`,

    M_i ← A_i M_i A_iᵀ + (λ_i²/B) b bᵀ [cᵀM_i c + P + σ²],    P = Σ_j cᵀM_j c,

and beside it, for an average `S ← ρS + ω oᵀu`, the cross moments `x_i = λ_i E[u_i S_i]` and `Σ_i λ_i E S_i²`,

    x_i ← A_i (ρ x_i + ω M_i o),    Σ S² ← ρ² Σ S² + 2ρω Σ oᵀx_i + ω² Σ oᵀM_i o.

A weighted mode stands for many directions: its M is their sum, signal and noise added up, since both obey the same λ.
Everything is linear in (signal, σ²): two copies run side by side, one with the signal alone, one with the noise alone.
"""

from collections.abc import Sequence
from itertools import combinations_with_replacement
from typing import Any, NamedTuple

import numpy as np

from sgdtheory.algorithms import LinearMethod, Returned, StepMatrices, column_products
from sgdtheory.problems import Modes


class Moments(NamedTuple):
    """Moments of S runs on K modes, for bias and variance (first axis): M (2, S, k, k, K), x (2, S, k, K), Σ S² (2, S).

    The variance is in units of σ².
    """

    own: Any
    cross: Any
    square: Any


class Keeping(NamedTuple):
    """Constants of the averages of S runs: 1 − ρ and ω, (S,) each."""

    forgetting: Any
    weight: Any

    def remembered(self, square: np.ndarray, num_steps: np.ndarray) -> np.ndarray:
        """Return ρ^{2n} S²(0), which on a contour would leave the rounding of S²(0) in what is left after n steps."""
        with np.errstate(divide="ignore"):
            return square * np.exp(2 * num_steps * np.log1p(-self.forgetting))


def selected(values: Any, indices: np.ndarray | slice | tuple[slice, slice]) -> Any:
    """Return these entries of all arrays in lists, tuples and named tuples; None stays None."""
    if values is None or isinstance(values, np.ndarray):
        return values if values is None else values[indices]
    parts = [selected(each, indices) for each in values]
    return type(values)(*parts) if hasattr(values, "_fields") else type(values)(parts)


def at_runs(moments: Moments, indices: np.ndarray) -> Moments:
    """Return the moments of some of the runs, copies."""
    return Moments(*(each[:, indices] for each in moments))


def together(portions: Sequence[tuple[np.ndarray, Any]]) -> Any:
    """Return moments, or their sums, of some of the runs each, as those of all."""
    if len(portions) == 1:
        return portions[0][1]
    order = np.argsort(np.concatenate([indices for indices, _ in portions]))
    kind = type(portions[0][1])
    columns = zip(*(one for _, one in portions), strict=True)
    return kind(*(np.concatenate(each, axis=1)[:, order] for each in columns))


def start(method: LinearMethod, modes: Modes, settings: int) -> Moments:
    """Return the moments at the start of S runs: the signal alone, no average yet."""
    k = len(method.start)
    size = modes.eigenvalue.size
    own = np.zeros((2, settings, k, k, size))
    own[0] = np.multiply.outer(np.outer(method.start, method.start), modes.signal)
    return Moments(own, np.zeros((2, settings, k, size)), np.zeros((2, settings)))


# The rounding error of a closed form is at most this many times the sum of |terms|. In 4,000 random settings it was at
# most a tenth of that where weight decay loses digits.
ROUNDING = 4 * float(np.finfo(float).eps)


class Ends(NamedTuple):
    """Sums over the modes of S runs that make up a risk, (2, S) each: Σ oᵀM o, Σ oᵀx and Σ S².

    And `size`, (2, S, 3), of each of the three the sum of |terms| that were added up to it: its rounding error is some
    units in the last place of these, not of the sum.
    """

    iterate: Any
    cross: Any
    square: Any
    size: Any


class MomentsAndSize(NamedTuple):
    """`Moments` at the end of a closed form, and the `size` of their sums as `Ends` has it."""

    own: Any
    cross: Any
    square: Any
    size: Any

    @property
    def moments(self) -> Moments:
        """Without the size."""
        return Moments(self.own, self.cross, self.square)


def ends(moments: Moments, output: np.ndarray, size: Any = 0.0) -> Ends:
    """Return the sums of moments of S runs, or (2,) each of one run, whose sums have that size."""
    iterate = np.einsum("...ijk,i,j->...", moments.own, output, output)
    cross = np.einsum("...ik,i->...", moments.cross, output)
    result = np.zeros((*iterate.shape, 3))
    if np.count_nonzero(output) > 1:  # a difference of vectors may be much smaller than they are
        result[..., 0] = np.einsum("...ijk,i,j->...", np.abs(moments.own), *[np.abs(output)] * 2)
        result[..., 1] = np.einsum("...ik,i->...", np.abs(moments.cross), np.abs(output))
    return Ends(iterate, cross, moments.square, np.maximum(result, size))


def returned_risk(sums: Ends, shares: Sequence[Returned]) -> np.ndarray:
    """Return `Σ λ E(a oᵀu + c S)² = a² Σ oᵀM o + 2ac Σ oᵀx + c² Σ S²` of S runs, (2, S), each with its own a and c.

    What is not returned may have left the range of a float.
    """
    return _returned(shares, (sums.iterate, sums.cross, sums.square))


def returned_size(sums: Ends, shares: Sequence[Returned]) -> np.ndarray:
    """Return (2, S) sum of |terms| that were added up to `returned_risk`."""
    return np.abs(_returned(np.abs(shares), np.moveaxis(sums.size, -1, 0)))


def _returned(shares: Any, sums: Sequence[np.ndarray]) -> np.ndarray:
    """Return a², 2ac and c² times three sums, (2, S) each."""
    a, c = np.array(shares, dtype=float).T
    parts = zip((a**2, 2 * a * c, c**2), sums, strict=True)
    return sum((np.where(weight != 0, weight * part, 0.0) for weight, part in parts), np.zeros_like(sums[0]))


class Steps(NamedTuple):
    """Coefficients of a step in each of S settings; tables of T steps have T in front.

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


class Generators(NamedTuple):
    """The maps of packed moments of T steps: `1 − T` (T, q, q, K), the drive w (T, q, K), and ℓ (T, q), P = Σ ℓ·M.

    q = k(k + 1)/2; for the cross moments A_i and `1 − A_i`, (T, k, k, K).
    """

    decay: np.ndarray
    drive: np.ndarray
    seen: np.ndarray
    propagator: np.ndarray
    propagator_decay: np.ndarray


def pairs(k: int) -> list[tuple[int, int]]:
    """Return (i, j) of the packed moments."""
    return list(combinations_with_replacement(range(k), 2))


def pack(own: np.ndarray) -> np.ndarray:
    """Return (…, q, K) from (…, k, k, K)."""
    return np.stack([own[..., i, j, :] for i, j in pairs(own.shape[-2])], axis=-2)


def unpack(packed: np.ndarray, k: int) -> np.ndarray:
    """Return (…, k, k, K) from (…, q, K)."""
    own = np.empty((*packed.shape[:-2], k, k, packed.shape[-1]), packed.dtype)
    for place, (i, j) in enumerate(pairs(k)):
        own[..., i, j, :] = own[..., j, i, :] = packed[..., place, :]
    return own


def shown_rows(output: np.ndarray) -> np.ndarray:
    """Return (k, q) with rows · packed = M o."""
    k = output.size
    return np.einsum("ijq,j->iq", unpack(np.eye(k * (k + 1) // 2), k), output)


def shown_weights(output: np.ndarray) -> np.ndarray:
    """Return (q,) with Σ weights · packed = oᵀM o."""
    return np.array([output[i] * output[j] * (1 if i == j else 2) for i, j in pairs(output.size)])


def generators(matrices: StepMatrices, batch: np.ndarray, eigenvalue: np.ndarray, *, itself: bool = True) -> Generators:
    """Return the maps of T steps at eigenvalues (K,) or (T, K); differences from 1 are formed from small quantities.

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
    """Return the entry (i, j) of `D E + E Dᵀ − D E Dᵀ` for E = e_r e_sᵀ."""
    first = slow[:, i, r] if j == s else 0.0
    second = slow[:, j, s] if i == r else 0.0
    return first + second - slow[:, i, r] * slow[:, j, s]
