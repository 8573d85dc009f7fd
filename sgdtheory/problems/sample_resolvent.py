"""Resolvents of the covariance of N samples: the effective ridge κ(z), and the edges of the spectrum of Ĥ.

`Ĥ = XᵀX/N` with rows x ~ N(0, H). For N → ∞ at any d/N, and any complex z outside of −(the eigenvalues of Ĥ),

    Ĥ(Ĥ + z)^{-1} ≈ H(H + κ)^{-1},   z = κ (1 − df₁(κ)/N),   df₁ = Σ_i λ_i/(λ_i + κ):

a finite sample acts as a larger ridge κ (Marchenko & Pastur 1967; THEORY.md T42). For d > N it is κ_0 > 0 even at z =
0, the implicit ridge of too few samples; tails of infinitely many directions add to it.
"""

import math
from collections.abc import Callable

import numpy as np
from scipy.optimize import brentq

from sgdtheory.problems.modes import Modes, merge_bins

# Newton's method takes at most this many steps for real ridges. From above it never overshoots, as the function is
# convex.
REAL_STEPS = 100
TURNS = 8  # The continuation in arg z from positive ridges, where κ is real, has this many steps.
TURN_STEPS = 2  # Newton's method takes this many steps at each intermediate argument.
LAST_STEPS = 30  # Newton's method takes at most this many steps at the final argument.
LEAST = 0.1  # Sums hold for κ down to this fraction of the smallest eigenvalue: all directions are learnt there.
CLOSE = 1e-13  # Newton's method stops at this relative change of κ.
MANY = 400  # Longer lists of modes are reduced.
BIN = 0.25  # A bin of the mode reduction has this width in q.
BIN_NODES = 16  # A bin has this many nodes in place of its modes.
AROUND = 0.05  # The map q reaches this fraction beyond the ends of the spectrum, as the contour does.


class SampleResolvent:
    """The effective ridge κ(z) for a problem's modes and N samples, and sums over directions at κ.

    Args:
        modes: modes of the problem, with positive eigenvalues.
        num_samples: N ≥ 1; inf is the limit of fresh samples, where κ = z.
        resolved: smallest |κ| at which sums over the modes are accurate.
    """

    def __init__(self, modes: Modes, num_samples: float, resolved: float = 0.0) -> None:
        self.modes = modes
        self.eigenvalue = modes.eigenvalue
        self.multiplicity = modes.multiplicity
        self.signal = modes.signal
        self.num_samples = float(num_samples)
        self.trace = float(self.multiplicity @ self.eigenvalue)
        self.resolved = max(resolved, LEAST * float(self.eigenvalue.min()))

    def degrees(self, kappa: np.ndarray) -> np.ndarray:
        """Compute the degrees of freedom df₁ = `Σ λ_i/(λ_i + κ)` for each κ."""
        return self._shares(kappa) @ self.multiplicity

    def second_degrees(self, kappa: np.ndarray) -> np.ndarray:
        """Compute the degrees of freedom df₂ = `Σ (λ_i/(λ_i + κ))²` for each κ."""
        return self._shares(kappa) ** 2 @ self.multiplicity

    def learnt(self, kappa: np.ndarray) -> np.ndarray:
        """Compute `Σ s_i/(λ_i + κ)` for each κ."""
        return (1 / (self.eigenvalue + np.asarray(kappa)[..., None])) @ self.signal

    def ridge(self, kappa: np.ndarray) -> np.ndarray:
        """Compute the ridge z for each κ."""
        return kappa * (1 - self.degrees(kappa) / self.num_samples)

    def slope(self, kappa: np.ndarray) -> np.ndarray:
        """Compute the derivative `dz/dκ = 1 − df₂(κ)/N` for each κ."""
        return 1 - self.second_degrees(kappa) / self.num_samples

    def kappa(self, z: np.ndarray) -> np.ndarray:
        """Solve for κ (J,) at complex ridges z by Newton's method, continued in arg z from the positive axis.

        z must not be on the negative axis. For Im z > 0 there is exactly one κ with Im κ > 0.
        """
        z = np.asarray(z, complex)
        modulus = np.abs(z)
        angle = np.angle(z)
        kappa = self.real_kappa(modulus).astype(complex)
        for turn in np.arange(1, TURNS + 1) / TURNS:
            target = modulus * np.exp(1j * turn * angle)
            for _ in range(TURN_STEPS):
                kappa = self._nearer(kappa, target)
        for _ in range(LAST_STEPS):
            before = kappa
            kappa = self._nearer(kappa, z)
            if (np.abs(kappa - before) <= CLOSE * np.abs(kappa)).all():
                break
        return kappa

    def real_kappa(self, z: np.ndarray) -> np.ndarray:
        """Solve for κ (J,) at ridges z ≥ 0 by Newton's method: `κ (1 − df₁/N)` is convex and κ is below `z + tr H/N`.

        At z = 0 the result is κ_0 for d > N, otherwise 0 to the accuracy of Newton's method.
        """
        z = np.asarray(z, float)
        kappa = z + self.trace / self.num_samples
        for _ in range(REAL_STEPS):
            before = kappa
            kappa = kappa - (self.ridge(kappa) - z) / self.slope(kappa)
            if (np.abs(kappa - before) <= CLOSE * kappa).all():
                break
        return kappa

    def largest(self) -> float:
        """Compute the upper edge w of the spectrum of Ĥ: w = −z at `κ = −u`, u > λ_1 with `Σ (λ_i/(u − λ_i))² = N`."""
        if math.isinf(self.num_samples):
            return float(self.eigenvalue.max())
        first = float(self.eigenvalue.max())

        def excess(log_distance: float) -> float:
            ratio = self.eigenvalue / (first - self.eigenvalue + math.exp(log_distance))
            return float(self.multiplicity @ ratio**2) / self.num_samples - 1

        distance = _exp_of_root(excess, math.log(first) - 40, math.log(8 * self.trace))
        return -float(self.ridge(np.array(-(first + distance))))

    def edge(self) -> float:
        """Compute κ ≥ 0 with df₂ = N, where −z is the lower edge of the positive spectrum of Ĥ; 0 unless d > N."""
        if math.isinf(self.num_samples):
            return 0.0

        def excess(log_kappa: float) -> float:
            return float(self.second_degrees(np.array(math.exp(log_kappa)))) - self.num_samples

        low = math.log(self.resolved)
        if excess(low) <= 0:
            # If d is only slightly larger than N, κ is below all eigenvalues, where df₂ ≥ d − 2κ Σ 1/λ bounds it.
            spare = float(self.multiplicity.sum()) - self.num_samples
            if spare <= 0 or self.resolved > LEAST * float(self.eigenvalue.min()):
                return 0.0
            low = math.log(spare / (4 * float((self.multiplicity / self.eigenvalue).sum())))
        return _exp_of_root(excess, low, math.log(self.trace) + 1)

    def level(self) -> float:
        """Compute κ_0 = κ(0), the implicit ridge of too few samples; 0 for d ≤ N."""
        return float(self.real_kappa(np.zeros(1))[0]) if self.edge() > 0 else 0.0

    def smallest(self) -> float:
        """Compute the lower edge of the positive spectrum of Ĥ; for d < N the lower bound `λ_d (1 − √(d/N))²`."""
        edge = self.edge()
        if edge > 0:
            return -float(self.ridge(np.array(edge)))
        ratio = float(self.multiplicity.sum()) / self.num_samples
        return float(self.eigenvalue.min()) * max(1 - math.sqrt(max(ratio, 0.0)), 0.0) ** 2

    def both(self, kappa: np.ndarray, other: np.ndarray) -> np.ndarray:
        """Compute `Σ_i s_i/((λ_i + κ)(λ_i + κ')) / (1 − Σ_i λ_i²/((λ_i + κ)(λ_i + κ'))/N)` for each pair (κ, κ')."""
        inverse = 1 / (self.eigenvalue + kappa[:, None])
        beside = 1 / (self.eigenvalue + other[:, None])
        degrees = (inverse * (self.multiplicity * self.eigenvalue**2 / self.num_samples)) @ beside.T
        return (inverse * self.signal) @ beside.T / (1 - degrees)

    def _shares(self, kappa: np.ndarray) -> np.ndarray:
        return self.eigenvalue / (self.eigenvalue + np.asarray(kappa)[..., None])

    def _nearer(self, kappa: np.ndarray, z: np.ndarray) -> np.ndarray:
        """Do one step of Newton's method."""
        shares = self._shares(kappa)
        ridge = kappa * (1 - shares @ self.multiplicity / self.num_samples)
        slope = 1 - shares**2 @ self.multiplicity / self.num_samples
        return kappa - (ridge - z) / slope


def _exp_of_root(function: Callable[[float], float], low: float, high: float) -> float:
    return math.exp(brentq(function, low, high, xtol=1e-13))  # pyright: ignore[reportArgumentType, reportCallIssue]


def thinned(modes: Modes) -> Modes:
    """Reduce a long list of modes to fewer with the same sums, to about 1e-9, at every κ on a contour around all −λ.

    The summands are smooth in `q = log((λ − low)/(high − λ))`, because the contour keeps a distance in q. In each bin
    of q the modes are replaced by Gauss–Legendre nodes that have the same sums of as many Legendre polynomials.
    """
    size = modes.eigenvalue.size
    if size <= MANY:
        return modes
    high = (1 + AROUND) * float(modes.eigenvalue.max())
    low = (1 - AROUND) * float(modes.eigenvalue.min())
    q = np.log((modes.eigenvalue - low) / (high - modes.eigenvalue))

    def eigenvalue_at(q: np.ndarray) -> np.ndarray:
        zeta = np.exp(q)
        return (high * zeta + low) / (1 + zeta)

    return merge_bins(modes, q, eigenvalue_at, BIN, BIN_NODES)
