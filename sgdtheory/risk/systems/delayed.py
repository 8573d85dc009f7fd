"""Responses of directions to delayed gradients, as generating functions in closed form (THEORY.md T41).

With x = γλ a unit of noise leaves `φ(j + 1) = φ(j) − x φ(j − τ)`, φ(0) = 1, and `ψ(m) = Σ_{j<m} φ(j)` in a sum of
iterates. The lagged products `C_l = Σ_j φ(j) φ(j − l) z^j` obey `C_l = z C_{l−1} − x z^l C_{τ+1−l}`, in which l and
τ + 1 − l are coupled; with y = √z, X = x y^{τ+1} and `C_l = y^l Ĉ_l` that is

    y (Ĉ_{l+1} + Ĉ_{l−1}) = (1 + y² − X²) Ĉ_l,

so that Ĉ_l is a sum of e^{±iθl}, `cos θ = (1 + y² − X²)/2y`, and costs the same for every τ.

The same products decide about stability. Noise answers noise through
`G = z x² C_0 Σ_j p_j z^j`, and delays that vary add noise of their own, G − H, with
`H = z x² Σ_jk p_j p_k z^{min(j,k)} C_{|j−k|}`.
The coupled map has the eigenvalue 1/z where `Σ_i (G_i/B)/(1 − (1 + 1/B) G_i + H_i) = 1`. For a fixed delay G = H.
"""

import math
from collections.abc import Sequence
from typing import Any, NamedTuple

import numpy as np

from sgdtheory.algorithms import LinearMethod
from sgdtheory.problems import Modes
from sgdtheory.risk.solvers.contour import NEGLIGIBLE
from sgdtheory.risk.solvers.spectrum import AT_ONE, SMALLEST, growths

# Up to this delay multiples of an angle are taken one by one: sines of complex angles cost more.
FEW_DELAYS = 16
# For smaller angles θ, sin nθ/sin θ is n to rounding.
SMALL_ANGLE = 1e-7


class Points(NamedTuple):
    """Points at which generating functions are evaluated, (C,) each: z = e^−p, 1 − z and y = e^{−p/2}, 1 − y."""

    z: Any
    one_less_z: Any
    y: Any
    one_less_y: Any

    @classmethod
    def at(cls, p: Any) -> "Points":
        """Return the points with logarithms p, with all digits of the differences from 1."""
        return cls(np.exp(-p), -np.expm1(-p), np.exp(-p / 2), -np.expm1(-p / 2))


class Products(NamedTuple):
    """Lagged products of directions (…, 1) at points (C,): `Σ φ(j)² z^j`, and the share of lag τ.

    Attributes:
        square: C_0.
        lagged: ρ = Ĉ_τ/Ĉ_0.
        within: 1 + X sin τθ/sin θ.
        pull: X.
    """

    square: Any
    lagged: Any
    within: Any
    pull: Any


def products(x: Any, delay: int, points: Points) -> Products:
    """Return `C_0 = 1/(1 − z − x²z^{τ+1} + 2x z^{1+τ/2} ρ)`, formed from small quantities."""
    z, one_less_z, y, one_less_y = points
    pull = x * y ** (delay + 1)
    last, before = _chebyshev((pull - one_less_y) * (pull + one_less_y) / y, delay)
    within = 1 + pull * last
    lagged = (y * last - before) / within
    square = 1 / (one_less_z - x**2 * z ** (delay + 1) + 2 * x * z * y**delay * lagged)
    return Products(square, lagged, within, pull)


def _chebyshev(bend: Any, n: int) -> tuple[Any, Any]:
    """sin nθ/sin θ and sin (n−1)θ/sin θ from 4 sin² θ/2 = 2 − 2 cos θ.

    One multiple after another where they are few: sines of complex angles cost more.
    """
    if n > FEW_DELAYS:
        angle = 2 * np.arcsin(np.sqrt(bend / 4 + 0j))
        return _ratio_of_sines(angle, n), _ratio_of_sines(angle, n - 1)
    last = np.zeros_like(bend)
    growth = np.ones_like(bend)
    for _ in range(n):
        last = last + growth
        growth = growth - bend * last
    return last, last - growth - bend * last


def _ratio_of_sines(angle: Any, n: int) -> Any:
    """Return sin nθ/sin θ."""
    small = np.abs(angle) < SMALL_ANGLE
    angle = np.where(small, 1.0, angle)
    return np.where(small, n, np.sin(n * angle) / np.sin(angle))


def summed(x: Any, delay: int, points: Points) -> Any:
    """Return `Σ_m ψ(m) z^m`."""
    z, one_less_z, _, _ = points
    return z / (one_less_z * (one_less_z + x * z ** (delay + 1)))


def summed_squares(x: Any, delay: int, points: Points, result: Products) -> Any:
    """`W_0 = Σ_m ψ(m)² z^m`: ψ(m+1) = ψ(m) + 1 − xψ(m − τ), so `W_l = z W_{l−1} − x z^l W_{τ+1−l} + z^l Σ ψ z^m`."""
    z, one_less_z, y, _ = points
    source = summed(x, delay, points)
    low: Any = np.zeros_like(source)  # Ŵ_l and Ŵ_{τ−l} from W_0 = W_τ = 0
    high: Any = np.zeros_like(source)
    for lag in range(1, delay + 1):
        low = y * low - result.pull * high + y**lag
        high = (high + result.pull * low - y ** (delay - lag + 1)) / y
    forced = low / result.within * y**delay  # of W_τ
    gained = z * (1 / one_less_z + 2 * source * (1 - x * z**delay)) - 2 * x * z * forced * source
    return gained * result.square


def largest_stable(delay: int) -> float:
    """Return `γλ < 2 sin(π/(2(2τ + 1)))`: below, the mean of `w ← w − γλ w_{−τ}` comes to rest."""
    return 2 * float(np.sin(np.pi / (2 * (2 * delay + 1))))


def steady_response(x: Any, delay: int) -> Any:
    """Return `Σ_j (x φ(j))²`, x times the steady `E[η_t η_{t−τ}]/E η²` inverted: at z = 1 the angle is `2 arcsin(x/2)`.

    Below 0 or not finite beyond the edge.
    """
    angle = 2 * np.arcsin(np.minimum(x / 2, 1.0))
    # ρ = (sin τθ − sin (τ−1)θ)/(sin θ + x sin τθ), over cos θ/2 twice; 2ρ − x = C_0⁻¹/x
    lagged = (np.sin(delay * angle) - np.sin((delay - 1) * angle)) / (np.sin(angle) + x * np.sin(delay * angle))
    return x / (2 * lagged - x)


# Oscillations are taken to last this many times as long as those of the mean path: noise may keep them longer.
MARGIN = 1.5
# In searches, oscillations have died out when they are this share of the error that is allowed.
NEARLY = 0.01
NUMBERS_AT_ONCE = 2_000_000  # The systems of a random delay have at most this many numbers at once, 16 MB.


def gains(x: np.ndarray, method: LinearMethod) -> tuple[np.ndarray, np.ndarray]:
    """(T, K) `G/(1 − G + H)` of steady noise, in the place of G in Σ G/(B − G) < 1, and (T,) if the mean is stable."""
    if not method.random:
        steady = np.asarray(x.max(1) < largest_stable(method.longest_delay))
        with np.errstate(all="ignore"):
            return steady_response(x, method.longest_delay), steady
    answer, mixed = _responses(x, method.delays, 1.0)
    steady = np.asarray((_means_stable(x, method.delays) & (1 - answer + mixed > 0)).all(1))
    return answer / (1 - answer + mixed), steady


def _responses(x: np.ndarray, law: Sequence[float], z: float) -> tuple[np.ndarray, np.ndarray]:
    """Return G and H of (T, K) x at a real z, from the k equations of the lagged products."""
    p = np.array(law)
    k = p.size
    shape = x.shape
    x = x.ravel()
    lags = np.arange(k)
    flat = np.zeros((3, k, k))  # coefficients of 1, x and x² in the equations
    flat[0] = np.eye(k)
    flat[0, lags[1:], lags[:-1]] = -z
    flat[0, 0, 0] -= z
    for j, share in enumerate(law):
        flat[1, 0, j] += 2 * z * share
        for lag in range(1, k):
            flat[1, lag, abs(lag - 1 - j)] += share * z ** (1 + min(j, lag - 1))
    products = np.multiply.outer(p, p) * z ** np.minimum.outer(lags, lags)
    mixed = np.bincount(np.abs(np.subtract.outer(lags, lags)).ravel(), products.ravel(), minlength=k)
    flat[2, 0] = -z * mixed
    result = np.empty((x.size, k))
    right = np.eye(k)[0]
    size = max(1, NUMBERS_AT_ONCE // k**2)
    for low in range(0, x.size, size):
        here = x[low : low + size, None, None]
        system = flat[0] + here * flat[1] + here**2 * flat[2]
        result[low : low + size] = np.linalg.solve(system, np.broadcast_to(right[:, None], (here.size, k, 1)))[..., 0]
    scale = z * x**2
    answer = scale * result[:, 0] * (p @ z**lags)
    return answer.reshape(shape), (scale * (result @ mixed)).reshape(shape)


def _means_stable(x: np.ndarray, law: Sequence[float]) -> np.ndarray:
    """Return (T, K) whether all roots of `μ^{τ+1} − μ^τ + x Σ p_j μ^{τ−j}` are within the circle (Schur, Cohn)."""
    k = len(law)
    polynomial = np.zeros((k + 1, *x.shape))
    polynomial[0] = 1.0
    polynomial[1] = -1.0
    polynomial[1:] += np.multiply.outer(np.array(law), x)
    stable = np.ones(x.shape, dtype=bool)
    with np.errstate(all="ignore"):
        while len(polynomial) > 1:
            last = polynomial[-1]
            stable &= np.abs(last) < 1
            polynomial = (polynomial[:-1] - last * polynomial[:0:-1]) / (1 - last**2)
    return stable


class DelayedMaps(NamedTuple):
    """Coupled maps of second moments with constant γ and B, (S,) each, which `growths` searches."""

    modes: Modes
    method: LinearMethod
    rate: np.ndarray
    batch: np.ndarray

    def load_at(self, excess: np.ndarray, indices: np.ndarray) -> np.ndarray:
        """Return (T,) loads of some settings at 1/z = 1 + excess."""
        each = zip(self.rate[indices].tolist(), self.batch[indices].tolist(), np.log1p(excess).tolist(), strict=True)
        loads = [_load(self.modes, rate * self.modes.eigenvalue[None], self.method, *other) for rate, *other in each]
        return np.array(loads)

    def floors(self, indices: np.ndarray) -> np.ndarray:
        """Return (T,) largest eigenvalues, less 1, of squares of the mean of some settings."""
        return np.expm1(2 * self.slowest[indices])

    @property
    def slowest(self) -> np.ndarray:
        """(S,) log of the largest |μ| of the mean, which is that of the largest or the smallest eigenvalue."""
        ends = [self.modes.eigenvalue.max(), self.modes.eigenvalue.min()]
        sizes = [[np.abs(_roots(x, self.method.delays)).max() for x in row] for row in np.outer(self.rate, ends)]
        return np.log(np.maximum(np.max(sizes, axis=1), SMALLEST))


def growth(modes: Modes, method: LinearMethod, rate: np.ndarray, batch: np.ndarray, num_steps: Any) -> np.ndarray:
    """Return (S,) rates a step at which second moments grow or, below 0, decay; 0 where n steps do not show it."""
    maps = DelayedMaps(modes, method, rate, batch)
    every = np.arange(rate.size)
    return growths(maps, maps.slowest, maps.load_at(np.full(rate.size, AT_ONE), every), num_steps + np.zeros(rate.size))


def _roots(x: float, law: Sequence[float]) -> Any:
    shares = np.array(law)
    return np.roots(np.concatenate([[1.0, -1.0 + x * shares[0]], x * shares[1:]]))


def _load(modes: Modes, x: np.ndarray, method: LinearMethod, batch: float, p: float) -> float:
    """Return Σ_i (G/B)/(1 − (1 + 1/B) G + H) at z = e^−p; inf where a direction alone grows faster."""
    z = math.exp(-p)
    if method.random:
        answer, mixed = _responses(x, method.delays, z)
    else:
        points = Points.at(np.array([p]))
        square = products(x.T, method.longest_delay, points).square.real.T
        answer = mixed = z ** (method.longest_delay + 1) * x**2 * square
    left = 1 - (1 + 1 / batch) * answer + mixed
    if not ((left > 0) & (answer >= 0)).all():
        return math.inf
    return float(((answer / batch / left) @ modes.multiplicity)[0])


def settling(x: float, delay: int, averaged: bool, tolerance: float = 0.0) -> float:
    """Return the number of steps after which oscillations of directions up to x have died out, for a fixed delay."""
    critical = delay**delay / (delay + 1) ** (delay + 1) if delay else math.inf
    law = (*[0.0] * delay, 1.0)
    others = _oscillating(min(x, 0.999 * critical), law)  # beside what is learnt, which hardly decays
    own = _oscillating(x, law) * (1 if averaged else 2) if x > critical else -math.inf
    slowest = max(others, own)
    gone = min(NEGLIGIBLE, -math.log(NEARLY * tolerance)) if tolerance > 0 else NEGLIGIBLE
    return math.inf if slowest >= 0 else MARGIN * gone / -slowest


def _oscillating(x: float, law: Sequence[float]) -> float:
    """Return log of the largest |μ| among those that are not real and positive."""
    roots = _roots(x, law)
    real = (np.abs(roots.imag) < 1e-9 * np.abs(roots)) & (roots.real > 0)
    return math.log(max(float(np.abs(roots[~real]).max(initial=0.0)), SMALLEST))
