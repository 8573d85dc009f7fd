"""Responses of directions to delayed gradients, as generating functions in closed form (THEORY.md T41).

With x = γλ a unit of noise leaves `φ(j + 1) = φ(j) − x φ(j − τ)`, φ(0) = 1, and `ψ(m) = Σ_{j<m} φ(j)` in a sum of
iterates. The lagged products `C_l = Σ_j φ(j) φ(j − l) z^j` obey `C_l = z C_{l−1} − x z^l C_{τ+1−l}`, in which l and
τ + 1 − l are coupled; with y = √z, X = x y^{τ+1} and `C_l = y^l Ĉ_l` that is

    y (Ĉ_{l+1} + Ĉ_{l−1}) = (1 + y² − X²) Ĉ_l,

so that Ĉ_l is a sum of e^{±iθl}, `cos θ = (1 + y² − X²)/2y`, and costs the same for every τ.
"""

from typing import Any, NamedTuple

import numpy as np

FEW_DELAYS = 16  # steps: up to here multiples of an angle are taken one by one
SMALL_ANGLE = 1e-7  # θ: below, sin nθ/sin θ is n


class Points(NamedTuple):
    """Where generating functions are evaluated, (C,) each: z = e^−p, 1 − z and y = e^{−p/2}, 1 − y."""

    z: Any
    one_less_z: Any
    y: Any
    one_less_y: Any

    @classmethod
    def at(cls, p: Any) -> "Points":
        """Of logarithms p, with all digits of the differences from 1."""
        return cls(np.exp(-p), -np.expm1(-p), np.exp(-p / 2), -np.expm1(-p / 2))


class Products(NamedTuple):
    """Of directions (…, 1) at points (C,): `Σ φ(j)² z^j`, and what its lag τ takes of it.

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
    """`C_0 = 1/(1 − z − x²z^{τ+1} + 2x z^{1+τ/2} ρ)`, formed from small quantities."""
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
    """sin nθ/sin θ."""
    small = np.abs(angle) < SMALL_ANGLE
    angle = np.where(small, 1.0, angle)
    return np.where(small, n, np.sin(n * angle) / np.sin(angle))


def summed(x: Any, delay: int, points: Points) -> Any:
    """`Σ_m ψ(m) z^m`."""
    z, one_less_z, _, _ = points
    return z / (one_less_z * (one_less_z + x * z ** (delay + 1)))


def summed_squares(x: Any, delay: int, points: Points, found: Products) -> Any:
    """`W_0 = Σ_m ψ(m)² z^m`: ψ(m+1) = ψ(m) + 1 − xψ(m − τ), so `W_l = z W_{l−1} − x z^l W_{τ+1−l} + z^l Σ ψ z^m`."""
    z, one_less_z, y, _ = points
    source = summed(x, delay, points)
    low: Any = np.zeros_like(source)  # Ŵ_l and Ŵ_{τ−l} from W_0 = W_τ = 0
    high: Any = np.zeros_like(source)
    for lag in range(1, delay + 1):
        low = y * low - found.pull * high + y**lag
        high = (high + found.pull * low - y ** (delay - lag + 1)) / y
    forced = low / found.within * y**delay  # of W_τ
    gained = z * (1 / one_less_z + 2 * source * (1 - x * z**delay)) - 2 * x * z * forced * source
    return gained * found.square


def largest_stable(delay: int) -> float:
    """`γλ < 2 sin(π/(2(2τ + 1)))`: below, the mean of `w ← w − γλ w_{−τ}` comes to rest."""
    return 2 * float(np.sin(np.pi / (2 * (2 * delay + 1))))


def steady_response(x: Any, delay: int) -> Any:
    """`Σ_j (x φ(j))²`, x times the steady `E[η_t η_{t−τ}]/E η²` inverted: at z = 1 the angle is `2 arcsin(x/2)`.

    Below 0 or not finite beyond the edge.
    """
    angle = 2 * np.arcsin(np.minimum(x / 2, 1.0))
    # ρ = (sin τθ − sin (τ−1)θ)/(sin θ + x sin τθ), over cos θ/2 twice; 2ρ − x = C_0⁻¹/x
    lagged = (np.sin(delay * angle) - np.sin((delay - 1) * angle)) / (np.sin(angle) + x * np.sin(delay * angle))
    return x / (2 * lagged - x)
