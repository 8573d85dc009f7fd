"""Eigenvalues of a method's step, direction by direction, and of the coupled map of its second moments.

With `g_i(z) = (λ_i²/B) Σ_j z^{j+1} (cᵀA_i^j b)²`, the response of `cᵀM_i c` to a unit of noise, the coupled map of T20
has the eigenvalue 1/z where `Σ_i g_i/(1 − g_i) = 1`: the scalar equation of T5 for any method. All g_i have nonnegative
coefficients, so the largest eigenvalue is the largest real root, and the method is stable iff every A_i is, every
g_i(1) < 1 and `Σ_i g_i(1)/(1 − g_i(1)) < 1`.
"""

import math
from typing import Any, NamedTuple

import numpy as np
from scipy.optimize import elementwise

from sgdtheory.algorithms import LinearMethod
from sgdtheory.risk.solvers.contour import LARGEST_REACH, NEGLIGIBLE
from sgdtheory.risk.solvers.small_systems import solve
from sgdtheory.risk.systems.moments import Generators

# Tolerances of the logarithm of a root's position between its bounds.

ROOT_TOLERANCES = {"xatol": 1e-13, "xrtol": 0.0, "fatol": 0.0, "frtol": 0.0}

# This excess of 1/z over 1 stands for 0, so that a state that never changes, such as w*, is no division by 0.
AT_ONE = 1e-60
# A direction with a smaller (λ/λ_1)² may be too slow for rounding to see that it moves.
VANISHING = 1e-20


# With loads below 1 less this much, risks change by at most some 1000 times as much as γ: rounding of γ does not count.
NEARLY_UNSTABLE = 1e-3
# log |μ| from which a negative μ is near −1, the threshold of the mean. There are none elsewhere; next to it matrices
# are nearly defective, and ten times the distance is needed.
NEARLY_TURNING = 1e-2


class StepSpectrum(NamedTuple):
    """Properties of the eigenvalues μ of all A_i of T steps, (T,) each.

    Attributes:
        radius: largest |μ|.
        slowest: largest |μ|, as log, of the direction in which all |μ| are smallest: the last to be learnt is ≥ this.
        complex: log of the largest |μ| that is neither real nor, as a product with another, positive; −inf if none.
        negative: log of the largest |μ| of negative μ; −inf if none.
    """

    radius: Any
    slowest: Any
    complex: Any
    negative: Any

    def select(self, indices: np.ndarray) -> "StepSpectrum":
        """Return the spectrum of some of the steps."""
        return StepSpectrum(*(each[indices] for each in self))

    def at(self, place: int) -> "StepSpectrum":
        """Return the spectrum of one of the steps, as numbers."""
        return StepSpectrum(*(float(each[place]) for each in self))


def near_threshold(loads: np.ndarray, spectrum: StepSpectrum, number: np.ndarray) -> np.ndarray:
    """(T,) whether moments hardly settle, or what oscillates hardly decays and is still there after so many steps."""
    oscillation = spectrum.negative > -NEARLY_TURNING
    lasting = (spectrum.complex > -NEARLY_UNSTABLE) & (spectrum.complex * number > -NEGLIGIBLE)
    return oscillation | lasting | ~(loads < 1 - NEARLY_UNSTABLE)


def step_spectrum(slow: np.ndarray) -> StepSpectrum:
    """Return the spectrum of steps from `1 − A_i`, (T, k, k, K)."""
    sigma: Any = eigenvalues_of_steps(slow)  # of 1 − A_i
    mu = 1 - sigma
    size = np.abs(mu)
    real = np.abs(mu.imag) <= 1e-12 * np.maximum(size, 1e-300)
    with np.errstate(divide="ignore"):
        near_one = real & (np.abs(sigma.real) < 0.5)
        log_size = np.where(near_one, np.log1p(-np.where(near_one, sigma.real, 0.0)), np.log(size))
    return StepSpectrum(
        radius=size.max(axis=(0, 2)),
        slowest=log_size.max(axis=(0, 2)),
        complex=np.where(~real, log_size, -np.inf).max(axis=(0, 2)),
        negative=np.where(real & (mu.real < 0), log_size, -np.inf).max(axis=(0, 2)),
    )


def eigenvalues_of_steps(slow: np.ndarray) -> Any:
    """Return (k, T, K) eigenvalues of `1 − A_i` of T steps, (T, k, k, K)."""
    steps, k, _, size = slow.shape
    return _eigenvalues(slow.transpose(1, 2, 0, 3).reshape(k, k, steps * size)).reshape(k, steps, size)


def _eigenvalues(slow: np.ndarray) -> Any:
    """Return (k, K) complex; those next to 0 to full relative accuracy for k ≤ 2."""
    if slow.shape[0] == 1:
        return slow[0].astype(complex)
    if slow.shape[0] > 2:
        return np.linalg.eigvals(np.moveaxis(slow, -1, 0)).T
    half = (slow[0, 0] + slow[1, 1]) / 2
    product = slow[0, 0] * slow[1, 1] - slow[0, 1] * slow[1, 0]
    root: Any = np.sqrt((half**2 - product).astype(complex))
    large = half + np.where((half * root.conj()).real >= 0, root, -root)
    return np.array([large, np.where(large == 0, 0.0, product / np.where(large == 0, 1.0, large))])


def radii(slow: np.ndarray) -> np.ndarray:
    """Return the largest |μ| of each of T steps, (T,), from `1 − A_i`, (T, k, k, K)."""
    return np.abs(1 - eigenvalues_of_steps(slow)).max(axis=(0, 2))


def loads(maps: Generators, multiplicity: np.ndarray, excess: np.ndarray | float = AT_ONE) -> np.ndarray:
    """`Σ_i g_i/(1 − g_i)` of T steps at 1/z = 1 + excess, (T,); inf where a direction alone is beyond its own edge.

    `maps` without a mode's own part (`itself=False`).
    """
    g = own_responses(maps, excess)
    within: Any = (g < 1).all(1) & (g > -1e-9).all(1)
    g = np.where(within[:, None], g, 0.0)
    return np.where(within, (g / (1 - g)) @ multiplicity, math.inf)


def own_responses(maps: Generators, excess: np.ndarray | float = AT_ONE) -> Any:
    """Return (T, K) g_i of T steps at 1/z = 1 + excess; below 0 beyond the edge of a direction alone."""
    one = np.eye(maps.decay.shape[1])[:, :, None, None]
    decay = maps.decay.transpose(1, 2, 0, 3) + np.reshape(excess, (-1, 1)) * one
    responses = solve(decay, maps.drive.transpose(1, 0, 2)[:, None])[:, 0]  # of M, (q, T, K)
    return _continued(np.einsum("tq,qtk->tk", maps.seen, responses), np.abs(maps.drive).sum(1))


def _continued(g: Any, drive: np.ndarray) -> np.ndarray:
    """(T, K) g, where directions so slow that their maps are singular to rounding are proportional to λ, like √drive.

    Proportional to the g of the slowest of the others; (T, K) drive is proportional to λ².
    """
    lost = ~np.isfinite(g) & (drive > 0) & (drive < VANISHING * drive.max(1, keepdims=True))
    if not lost.any():
        return g
    slowest = np.argmin(np.where(np.isfinite(g) & (drive > 0), drive, np.inf), axis=1)[:, None]
    reference = (np.take_along_axis(each, slowest, 1) for each in (g, drive))
    with np.errstate(all="ignore"):
        slope = next(reference) / np.sqrt(next(reference))
    return np.where(lost, slope * np.sqrt(drive), g)


def growths(
    maps: Generators,
    multiplicity: np.ndarray,
    slowest: np.ndarray,
    num_steps: np.ndarray,
    load: np.ndarray | None = None,
) -> np.ndarray:
    """(T,) log of the largest eigenvalue of the coupled map of each step, where it differs from 0 by more than 1/n.

    Args:
        maps: of T steps, without a mode's own part.
        multiplicity: (K,).
        slowest: (T,) log of the largest |μ| of all A_i.
        num_steps: (T,) n.
        load: (T,) their `loads`, where they are known; 0 where all maps with `slowest` below 0 are known to settle.
    """
    floor = np.expm1(2 * slowest)  # the coupled map has no smaller largest eigenvalue
    settles = (floor <= 0) & ((loads(maps, multiplicity) if load is None else load) < 1)
    open_ = np.flatnonzero(~settles | (2 * slowest <= -1 / num_steps))
    result = np.zeros(slowest.size)
    if open_.size:
        some = maps.select(open_)
        result[open_] = np.log1p(_largest_excess(some, multiplicity, floor[open_], settles[open_]))
    return np.where(np.abs(result) > 1 / num_steps, result, 0.0)


def _largest_excess(maps: Generators, multiplicity: np.ndarray, floor: np.ndarray, settles: np.ndarray) -> np.ndarray:
    """Return (T,) largest eigenvalues less 1, of maps that settle or grow."""
    low = np.where(settles, floor, np.maximum(floor, 0.0))
    high = np.where(settles, 0.0, np.maximum(2 * floor, 1e-6))

    def load(excess: np.ndarray, which: np.ndarray) -> np.ndarray:
        return loads(maps.select(which), multiplicity, excess)

    short = np.flatnonzero(~settles)
    while (short := short[load(high[short], short) >= 1]).size:
        high[short] *= 4
    span = high - low

    def above(position: np.ndarray, which: np.ndarray) -> np.ndarray:
        excess = (low[which] + span[which] * np.exp(position)).ravel()
        return np.minimum(load(excess, which.ravel()), 1e6).reshape(position.shape) - 1

    begin = np.full(low.size, math.log(1e-15))
    which = np.arange(low.size)
    inside = which[(span > 0) & (above(begin, which) > 0)]
    if inside.size:
        bracket = begin[inside], np.zeros(inside.size)
        root = elementwise.find_root(above, bracket, args=(inside,), tolerances=ROOT_TOLERANCES)
        low[inside] += span[inside] * np.exp(root.x)
    return low


def displacement(method: LinearMethod, rate: float, num_steps: float) -> float:
    """Return the largest distance by which n steps with gradient 1 move the point where gradients are taken."""
    if method.gain is not None:
        return rate * num_steps * method.gain
    matrices = method.matrices(np.array([rate]), np.zeros(1))
    A = np.abs(np.eye(len(method.start)) - matrices.decay[0])
    b = matrices.b[0]
    c = matrices.c[0]
    k = b.size
    doubled = np.eye(2 * k)  # [[A, 1], [0, 1]]: its powers hold A^n and Σ_{j<n} A^j
    doubled[:k, :k], doubled[:k, k:] = A, np.eye(k)
    with np.errstate(all="ignore"):
        sums = np.linalg.matrix_power(doubled, 2 ** math.ceil(math.log2(max(num_steps, 1.0))))[:k, k:]
        reach = float(np.abs(c) @ sums @ np.abs(b))
    return reach if np.isfinite(reach) else LARGEST_REACH
