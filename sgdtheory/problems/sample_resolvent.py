"""Resolvents of the covariance of N samples: what the ridge z becomes, and where the sampled eigenvalues end.

`Ĥ = XᵀX/N`, rows x ~ N(0, H). For N → ∞ at any d/N, and any complex z outside of −(the eigenvalues of Ĥ),

    Ĥ(Ĥ + z)^{-1} ≈ H(H + κ)^{-1},   z = κ (1 − df₁(κ)/N),   df₁ = Σ_i λ_i/(λ_i + κ):

samples act as a larger ridge κ (Marchenko & Pastur 1967; THEORY.md T42). At z = 0 it is κ_0 > 0 for d > N, the ridge
that too few samples are; tails of infinitely many directions add to it.
"""

import math
from collections.abc import Callable

import numpy as np
from scipy.optimize import brentq

from sgdtheory.problems.modes import Modes

REAL_STEPS = 100  # of Newton's method from above, which for this convex function never overshoots
TURNS = 8  # from the positive ridges, where κ is real, to the arguments that are asked for
TURN_STEPS = 2  # of Newton's method at each
LAST_STEPS = 30
LEAST = 0.1  # of the smallest eigenvalue: where all directions have been learnt
CLOSE = 1e-13  # relative residual of κ
MANY = 400  # modes, above which neighbours are summed
BIN = 0.25  # of their width
BIN_NODES = 16
AROUND = 0.05  # of the ends, as the contour


class SampleResolvent:
    """κ(z) of a problem's modes and N, and sums over directions at κ.

    Args:
        modes: of the problem, with positive eigenvalues.
        num_samples: N ≥ 1; inf is one pass, where κ = z.
        resolved: the least |κ| whose sums hold.
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
        """df₁ = `Σ λ_i/(λ_i + κ)`, of each κ."""
        return self._shares(kappa) @ self.multiplicity

    def second_degrees(self, kappa: np.ndarray) -> np.ndarray:
        """df₂ = `Σ (λ_i/(λ_i + κ))²`, of each κ."""
        return self._shares(kappa) ** 2 @ self.multiplicity

    def learnt(self, kappa: np.ndarray) -> np.ndarray:
        """`Σ s_i/(λ_i + κ)`, of each κ."""
        return (1 / (self.eigenvalue + np.asarray(kappa)[..., None])) @ self.signal

    def ridge(self, kappa: np.ndarray) -> np.ndarray:
        """z of each κ."""
        return kappa * (1 - self.degrees(kappa) / self.num_samples)

    def slope(self, kappa: np.ndarray) -> np.ndarray:
        """`dz/dκ = 1 − df₂(κ)/N`."""
        return 1 - self.second_degrees(kappa) / self.num_samples

    def kappa(self, z: np.ndarray) -> np.ndarray:
        """(J,) κ of ridges z, complex and not on the negative axis: by Newton's method, turned from the positive axis.

        Im z > 0 has Im κ > 0, and there is one such κ alone.
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
        """(J,) κ of ridges z ≥ 0: `κ (1 − df₁/N)` is convex and reaches z below `z + tr H/N`.

        At z = 0 it is κ_0 of d > N, otherwise 0 to the accuracy of Newton's method.
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
        """Upper edge of the eigenvalues of Ĥ: w = −z at `κ = −u`, u > λ_1 with `Σ (λ_i/(u − λ_i))² = N`."""
        if math.isinf(self.num_samples):
            return float(self.eigenvalue.max())
        first = float(self.eigenvalue.max())

        def excess(log_distance: float) -> float:
            ratio = self.eigenvalue / (first - self.eigenvalue + math.exp(log_distance))
            return float(self.multiplicity @ ratio**2) / self.num_samples - 1

        distance = _exp_of_root(excess, math.log(first) - 40, math.log(8 * self.trace))
        return -float(self.ridge(np.array(-(first + distance))))

    def edge(self) -> float:
        """κ ≥ 0 with df₂ = N, where dz/dκ = 0 and −z is the lower edge of the eigenvalues of Ĥ: for d > N."""
        if math.isinf(self.num_samples):
            return 0.0

        def excess(log_kappa: float) -> float:
            return float(self.second_degrees(np.array(math.exp(log_kappa)))) - self.num_samples

        low = math.log(self.resolved)
        if excess(low) <= 0:
            return 0.0
        return _exp_of_root(excess, low, math.log(self.trace) + 1)

    def level(self) -> float:
        """κ_0 = κ(0), the ridge that too few samples are; 0 for d ≤ N."""
        return float(self.real_kappa(np.zeros(1))[0]) if self.edge() > 0 else 0.0

    def smallest(self) -> float:
        """Lower edge of the positive eigenvalues of Ĥ, for d < N a bound of it: `λ_d (1 − √(d/N))²`."""
        edge = self.edge()
        if edge > 0:
            return -float(self.ridge(np.array(edge)))
        ratio = float(self.multiplicity.sum()) / self.num_samples
        return float(self.eigenvalue.min()) * max(1 - math.sqrt(max(ratio, 0.0)), 0.0) ** 2

    def both(self, kappa: np.ndarray, other: np.ndarray) -> np.ndarray:
        """`Σ_i s_i/((λ_i + κ)(λ_i + κ')) / (1 − Σ_i λ_i²/((λ_i + κ)(λ_i + κ'))/N)` of each pair: two resolvents."""
        inverse = 1 / (self.eigenvalue + kappa[:, None])
        beside = 1 / (self.eigenvalue + other[:, None])
        degrees = (inverse * (self.multiplicity * self.eigenvalue**2 / self.num_samples)) @ beside.T
        return (inverse * self.signal) @ beside.T / (1 - degrees)

    def _shares(self, kappa: np.ndarray) -> np.ndarray:
        return self.eigenvalue / (self.eigenvalue + np.asarray(kappa)[..., None])

    def _nearer(self, kappa: np.ndarray, z: np.ndarray) -> np.ndarray:
        """One step of Newton's method."""
        shares = self._shares(kappa)
        ridge = kappa * (1 - shares @ self.multiplicity / self.num_samples)
        slope = 1 - shares**2 @ self.multiplicity / self.num_samples
        return kappa - (ridge - z) / slope


def _exp_of_root(function: Callable[[float], float], low: float, high: float) -> float:
    return math.exp(brentq(function, low, high, xtol=1e-13))  # pyright: ignore[reportArgumentType, reportCallIssue]


def thinned(modes: Modes) -> Modes:
    """Fewer modes with the same sums, to some 1e-9, at every κ on a contour around all −λ: for long lists.

    What is summed is smooth in `q = log((λ − low)/(high − λ))`, in which the contour has a distance. In each bin of q
    Gauss–Legendre nodes stand for what lies there, with the sums of as many Legendre polynomials.
    """
    size = modes.eigenvalue.size
    if size <= MANY:
        return modes
    high = (1 + AROUND) * float(modes.eigenvalue.max())
    low = (1 - AROUND) * float(modes.eigenvalue.min())
    q = np.log((modes.eigenvalue - low) / (high - modes.eigenvalue))
    bins = np.floor((q - q.min()) / BIN).astype(int)
    unit, weights = np.polynomial.legendre.leggauss(BIN_NODES)
    degrees = np.arange(BIN_NODES)
    basis = np.polynomial.legendre.legvander
    to_nodes = (weights[:, None] * basis(unit, BIN_NODES - 1)) * (degrees + 0.5)
    parts = []
    for place in np.unique(bins):
        inside = bins == place
        if inside.sum() <= BIN_NODES:
            parts.append((modes.eigenvalue[inside], modes.multiplicity[inside], modes.signal[inside]))
            continue
        middle = q.min() + (place + 0.5) * BIN
        shares = to_nodes @ basis((q[inside] - middle) / (BIN / 2), BIN_NODES - 1).T
        zeta = np.exp(middle + BIN / 2 * unit)
        nodes = (high * zeta + low) / (1 + zeta)
        parts.append((nodes, shares @ modes.multiplicity[inside], shares @ modes.signal[inside]))
    return Modes(*(np.concatenate(column) for column in zip(*parts, strict=True)))
