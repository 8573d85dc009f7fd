"""Eigenvalues of a method's step, direction by direction, and of the coupled map of its second moments.

With `g_i(z) = (λ_i²/B) Σ_j z^{j+1} (cᵀA_i^j b)²`, the response of `cᵀM_i c` to a unit of noise, the coupled map of T20
has the eigenvalue 1/z where `Σ_i g_i/(1 − g_i) = 1`: the scalar equation of T5 for any method. All g_i have nonnegative
coefficients, so the largest eigenvalue is the largest real root, and the method is stable iff every A_i is, every
g_i(1) < 1 and `Σ_i g_i(1)/(1 − g_i(1)) < 1`.
"""

import math
from collections.abc import Callable
from typing import Any, NamedTuple, Protocol

import numpy as np

from sgdtheory.algorithms import LinearMethod
from sgdtheory.risk.solvers.contour import LARGEST_REACH, NEGLIGIBLE
from sgdtheory.risk.solvers.small_systems import solve
from sgdtheory.risk.systems.moments import Generators

ROOT_TOLERANCE = 1e-13  # The logarithm of a root's position between its bounds has this tolerance.
# The search for a root begins at e^−34.5 = 1e-15 of the way between its bounds: a nearer root is the lower bound.
LEAST_POSITION = math.log(1e-15)

# Contours follow no smaller factor a step or round: 1 − Φ, from which they are computed, is singular to rounding beside
# smaller ones. After the 17 rounds of the shortest closed form 1e-204 is left, which no risk shows.
LEAST_LEFT = 1e-12
# A smaller |μ| or load, or a smaller eigenvalue by which something is divided, counts as this much.
SMALLEST = 1e-300
# A larger load, next to the threshold of a direction alone or beyond it, counts as this much.
LARGEST_LOAD = 1e6
# This excess of 1/z over 1 stands for 0, so that a state that never changes, such as w*, is no division by 0.
AT_ONE = 1e-60
MANY_STEPS = 1e6  # After this many steps a method moves at its final speed.
# With loads below 1 less this much, risks change by at most some 1000 times as much as γ: rounding of γ does not count.
NEARLY_UNSTABLE = 1e-3
# From this log |μ| on, a negative μ is near −1, the threshold of the mean. There are none elsewhere; next to it
# matrices are nearly defective, and ten times the distance is needed.
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
    real = np.abs(mu.imag) <= 1e-12 * np.maximum(size, SMALLEST)
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
    return np.einsum("tq,qtk->tk", maps.seen, responses)


class CoupledMaps(Protocol):
    """Coupled maps of second moments in S settings, with a scalar equation, or a small one, for their eigenvalues."""

    def load_at(self, excess: np.ndarray, indices: np.ndarray) -> np.ndarray:
        """Return the loads of some settings at 1/z = 1 + excess: 1 where that is the largest eigenvalue."""
        ...

    def floors(self, indices: np.ndarray) -> np.ndarray:
        """Return what the largest eigenvalues of some settings, less 1, exceed: those of a direction alone."""
        ...


def growths(maps: CoupledMaps, slowest: np.ndarray, load: np.ndarray, num_steps: np.ndarray) -> np.ndarray:
    """Return (S,) log of the largest eigenvalue of each map, where it differs from 0 by more than 1/n.

    Args:
        maps: S coupled maps.
        slowest: (S,) log of the largest |μ| of all A_i.
        load: (S,) their loads at 1; 0 where all maps with `slowest` below 0 are known to settle.
        num_steps: (S,) n.
    """
    settles = (slowest <= 0) & (load < 1)
    open_ = np.flatnonzero(~settles | (2 * slowest <= -1 / num_steps))
    result = np.zeros(slowest.size)
    if open_.size:
        result[open_] = np.log1p(np.maximum(_largest_excess(maps, open_, settles[open_]), LEAST_LEFT - 1))
    return np.where(np.abs(result) > 1 / num_steps, result, 0.0)


def _largest_excess(maps: CoupledMaps, indices: np.ndarray, settles: np.ndarray) -> np.ndarray:
    """Return (T,) largest eigenvalues less 1, of some maps that settle or grow."""
    floor = maps.floors(indices)
    low = np.where(settles, floor, np.maximum(floor, 0.0))
    high = np.where(settles, 0.0, np.maximum(2 * floor, 1e-6))
    short = np.flatnonzero(~settles)
    while short.size:
        short = short[np.isfinite(high[short])]  # It overflows where γ² does: the moments grow beyond all floats.
        short = short[maps.load_at(high[short], indices[short]) >= 1]
        high[short] *= 4
    span = high - low

    def log_load(position: np.ndarray, which: np.ndarray) -> np.ndarray:
        """Return the log of the load, which is about linear in the log of the distance from the floor."""
        load = maps.load_at(low[which] + span[which] * np.exp(position), indices[which])
        return np.log(np.clip(load, SMALLEST, LARGEST_LOAD))

    begin = np.full(low.size, LEAST_POSITION)
    inside = np.flatnonzero((span > 0) & (log_load(begin, np.arange(low.size)) > 0))
    if inside.size:
        position = root_between(log_load, begin[inside], np.zeros(inside.size), ROOT_TOLERANCE, inside)
        low[inside] += span[inside] * np.exp(position)
    return low


def root_between(
    function: Callable[[np.ndarray, np.ndarray], np.ndarray],
    low: np.ndarray,
    high: np.ndarray,
    tolerance: float,
    indices: np.ndarray,
) -> np.ndarray:
    """Return (T,) roots between `low` and `high` by Chandrupatla's method (1997); `high` where no sign changes.

    Inverse quadratic interpolation where the function is about a parabola there, else bisection. SciPy's
    `elementwise.find_root` does the same, and takes three times as long for a few roots of a cheap function.

    Args:
        function: of positions and of which of the `indices` they are, (T,) each.
        low, high: (T,) bounds.
        tolerance: of the roots, absolute.
        indices: (T,) given to the function.
    """
    one, two = high.copy(), low.copy()
    value, other = function(one, indices), function(two, indices)
    open_ = np.flatnonzero(np.sign(value) != np.sign(other))
    share = np.full(low.size, 0.5)
    while open_.size:
        x1, x2, f1, f2 = one[open_], two[open_], value[open_], other[open_]
        new = x1 + share[open_] * (x2 - x1)
        found = function(new, indices[open_])
        same = np.sign(found) == np.sign(f1)
        x3, f3 = np.where(same, x1, x2), np.where(same, f1, f2)
        x2, f2 = np.where(same, x2, x1), np.where(same, f2, f1)
        one[open_], two[open_], value[open_], other[open_] = new, x2, found, f2
        with np.errstate(all="ignore"):
            xi, phi = (new - x2) / (x3 - x2), (found - f2) / (f3 - f2)
            quadratic = found / (f2 - found) * f3 / (f2 - f3)
            quadratic += (x3 - new) / (x2 - new) * found / (f3 - found) * f2 / (f3 - f2)
        least = tolerance / np.abs(x2 - new)
        smooth = (phi**2 < xi) & ((1 - phi) ** 2 < 1 - xi)
        share[open_] = np.clip(np.where(smooth, quadratic, 0.5), least, 1 - least)
        open_ = open_[(least < 0.5) & (found != 0)]
    return np.where(np.abs(value) < np.abs(other), one, two)


def final_speed(method: LinearMethod, rate: float) -> float:
    """Return by how much a step with gradient 1 moves the point where gradients are taken, after many steps."""
    return displacement(method, rate, MANY_STEPS) / MANY_STEPS


def displacement(method: LinearMethod, rate: float, num_steps: float) -> float:
    """Return the largest distance by which n steps with gradient 1 move the point where gradients are taken."""
    if method.gain is not None:
        return rate * num_steps * method.gain
    doublings = math.ceil(math.log2(max(num_steps, 1.0)))
    matrices = method.matrices(np.array([rate]), np.zeros(1))
    A = np.abs(np.eye(len(method.start)) - matrices.decay[0])
    b = matrices.b[0]
    c = matrices.c[0]
    k = b.size
    doubled = np.eye(2 * k)  # [[A, 1], [0, 1]]: its powers hold A^n and Σ_{j<n} A^j
    doubled[:k, :k], doubled[:k, k:] = A, np.eye(k)
    with np.errstate(all="ignore"):
        sums = np.linalg.matrix_power(doubled, 2**doublings)[:k, k:]
        reach = float(np.abs(c) @ sums @ np.abs(b))
        if method.step_dependence in ("smooth", "any"):
            reach = max(reach, _displacement_by_octaves(method, rate, doublings))
    return reach if np.isfinite(reach) else LARGEST_REACH


def _displacement_by_octaves(method: LinearMethod, rate: float, doublings: int) -> float:
    """Return the displacement by 2^m steps of a method that changes with the step, such as a growing momentum.

    The steps from 2^j to 2^(j+1) − 1 all have the absolute coefficients of the last of them, which is right to about
    a factor of 2 where coefficients are powers of the step: enough to tell which directions are still straight lines.
    """
    last = 2.0 ** np.arange(1, doublings + 1) - 1
    last = np.append(0.0, last)  # step 0, then steps 1, 2 to 3, 4 to 7, …
    matrices = method.matrices(np.full(last.size, rate), last)
    k = matrices.b.shape[1]
    octaves = np.zeros((last.size, k + 1, k + 1))  # [[|A|, |b|], [0, 1]] of one step, then of the octave
    octaves[:, :k, :k] = np.abs(np.eye(k) - matrices.decay)
    octaves[:, :k, k] = np.abs(matrices.b)
    octaves[:, k, k] = 1.0
    for done in range(2, last.size):
        octaves[done:] = octaves[done:] @ octaves[done:]
    moved = np.append(np.zeros(k), 1.0)
    for octave in octaves:
        moved = octave @ moved
    return float(np.abs(matrices.c[-1]) @ moved[:k])
