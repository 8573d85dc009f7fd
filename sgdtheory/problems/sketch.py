"""M random features of Gaussian data: the spectrum of a Gaussian sketch, sampled and by its deterministic equivalent.

The features are `z = Sx` with S of shape (M, d) and independent entries N(0, 1/M). With `A = S H^½ = U Λ^½ Vᵀ` their
covariance is `A Aᵀ`, with eigenvalues Λ_k. Let `θ = H^½ (w* − w_0)`, so that `θ_i² = s_i`. The best predictor on the
features has the signal `(v_kᵀ θ)²` in direction k and the approximation risk `‖θ‖² − Σ_k (v_kᵀ θ)²` (THEORY.md T31).
"""

import math
from collections.abc import Callable
from typing import NamedTuple

import numpy as np
from scipy.interpolate import PchipInterpolator
from scipy.optimize import brentq

from sgdtheory.problems.modes import Modes

COLUMNS = 2048  # At most this many columns of a sketch are in memory together.
PATH_NODES = 24  # A semicircle has this many nodes; its integrands have their poles on its diameter.
CELLS = 1 << 22  # A temporary array has at most this size, which bounds the memory.
EDGE_POINTS = 41  # Towards the lower edge, where the density ends like a square root, there are this many points.
FACTOR = 2.5  # Neighbouring points in a gap of the λ_i have at most this ratio.
EMPTY = 1e-9  # A segment of the spectrum with fewer directions than this lies in a gap: they are rounding.
WHOLE = 1e-3  # The number of directions below a gap is whole to 2e-7 in 20 problems, or 0.3 off if quadrature fails.
WIDEST_PIECE = 0.1  # A segment has at most this many directions, relative to those to the nearer end of its band.
MOST_SPLITS = 8  # Segments that are too large are halved in at most this many rounds.
ROOT_STEPS = 60  # Newton's method takes at most this many steps; from below it never overshoots for this function.


class Sketch(NamedTuple):
    """The spectrum and signal of a problem on M random features.

    Attributes:
        eigenvalues: (M,) eigenvalues of the features' covariance.
        signal: (M,) signal in units of y².
        missed: risk of the best predictor on the features, in units of y².
    """

    eigenvalues: np.ndarray
    signal: np.ndarray
    missed: float


class Tail(NamedTuple):
    """Sums over the directions that a sampled sketch does not draw: `Σ λ_i`, `Σ λ_i²`, `Σ λ_i s_i` and `Σ s_i`."""

    trace: float
    squares: float
    product: float
    signal: float


NO_TAIL = Tail(0.0, 0.0, 0.0, 0.0)


def sampled_sketch(
    eigenvalues: np.ndarray, signal: np.ndarray, num_features: int, seed: int, tail: Tail = NO_TAIL
) -> Sketch:
    """Sample one Gaussian sketch.

    By the central limit theorem, a tail of very many directions adds its mean and a symmetric Gaussian matrix of its
    variance to `A Aᵀ`, and a Gaussian vector to `A θ`.

    Args:
        eigenvalues: (d,) λ_i.
        signal: (d,) s_i.
        num_features: M.
        seed: seed of the sketch.
        tail: sums over further directions.
    """
    random, size = np.random.default_rng(seed), num_features
    covariance, correlation = np.zeros((size, size)), np.zeros(size)
    for first in range(0, eigenvalues.size, COLUMNS):
        root = np.sqrt(eigenvalues[first : first + COLUMNS] / size)
        columns = root * random.standard_normal((size, root.size))
        covariance += columns @ columns.T
        correlation += columns @ np.sqrt(signal[first : first + COLUMNS])
    if tail.trace > 0:
        noise = random.standard_normal((size, size))
        covariance += (noise + noise.T) * np.sqrt(tail.squares / 2) / size + tail.trace / size * np.eye(size)
        correlation += np.sqrt(tail.product / size) * random.standard_normal(size)
    values, vectors = np.linalg.eigh(covariance)
    values, vectors = np.maximum(values[::-1], 0.0), vectors[:, ::-1]
    projected = (vectors.T @ correlation) ** 2
    explained = np.divide(projected, values, out=np.zeros(size), where=values > 0)
    total = float(signal.sum()) + tail.signal
    # Dividing by eigenvalues that are rounding errors could explain more than the whole signal.
    explained *= min(1.0, total / explained.sum()) if explained.sum() > 0 else 1.0
    return Sketch(values, explained, max(total - float(explained.sum()), 0.0))


def equivalent_sketch(
    modes: Modes, num_directions: float, num_features: int, upper: np.ndarray, lower: np.ndarray
) -> Sketch:
    """Compute the limit spectrum of sketches for large M, each direction the mean of one M-th of it.

    With κ(ζ) the solution of `ζ = κ (1 − df₁(κ)/M)`, `df₁ = Σ λ_i/(λ_i + κ)`, the counting measure of the Λ_k and the
    signal have the Stieltjes transforms

        Σ_k 1/(Λ_k + ζ) ≈ M/κ,   Σ_k (v_kᵀθ)²/(Λ_k + ζ) + missed/ζ ≈ (κ/ζ) Σ_i s_i/(λ_i + κ),

    and `missed ≈ Σ_i s_i κ_0/(λ_i + κ_0)`, `df₁(κ_0) = M`. A point u of the spectrum corresponds to a point
    `κ = −u + iy` of the curve on which ζ is real: `(1/M) Σ_i λ_i²/|λ_i + κ|² = 1`, or y = 0 in a gap. The densities are
    integrated from one such point to the next along a semicircle above the curve, where they are analytic.

    Args:
        modes: modes of the problem, exact for functions with poles at the distance of the curve.
        num_directions: number of positive λ_i.
        num_features: M, at most the number of directions.
        upper, lower: neighbouring λ_i > λ_j in decreasing order, between which the spectrum is cut.

    Reference:
        Marchenko & Pastur 1967; Silverstein & Choi 1995, for the curve; Bach, arXiv 2303.01372, for the signal.
    """
    many = num_directions > 4 * num_features and lower.size > 0
    equation = _Equation(modes, num_directions, num_features, float(lower[-1]) if many else 0.0)
    points = _points(equation, upper, lower)
    curve = equation.curve(points)
    masses = equation.masses(curve[:-1], curve[1:])
    for _ in range(MOST_SPLITS):
        distance = _directions_to_gap(masses[0], _bands(curve))
        wide = np.flatnonzero(masses[0] > np.maximum(1.5, WIDEST_PIECE * distance))
        if not wide.size:
            break
        middle = (points[wide] + points[wide + 1]) / 2
        half = equation.curve(np.concatenate([points[:1], middle, points[-1:]]))[1:-1]
        second = equation.masses(half, curve[wide + 1])
        masses[:, wide] = equation.masses(curve[wide], half)
        masses = np.insert(masses, wide + 1, second, axis=1)
        points, curve = np.insert(points, wide + 1, middle), np.insert(curve, wide + 1, half)
    (number, trace, signal), band = masses, _bands(curve)
    missed, rank = equation.missed(), int(min(num_features, num_directions))
    explained = max(float(modes.signal.sum()) - missed, 0.0)
    eigenvalues, signals = (
        np.pad(_parts(number, mass, band, total, rank), (0, num_features - rank))
        for mass, total in ((trace, equation.trace), (signal, explained))
    )
    return Sketch(eigenvalues, signals, missed)


def _points(equation: "_Equation", upper: np.ndarray, lower: np.ndarray) -> np.ndarray:
    """Return decreasing points u from beyond the upper edge to the lower edge.

    The integrand of a semicircle has poles at the λ_i, and needs ends at similar distances from the nearest pole.
    """
    low, high = equation.edges()
    wide = upper > FACTOR * lower
    inside = [((upper + lower) / 2)[~wide]]
    for above, below in zip(upper[wide], lower[wide], strict=True):
        first, last = above / FACTOR**0.5, FACTOR**0.5 * max(below, abs(low))
        if first > last:
            inside.append(np.geomspace(first, last, math.ceil(math.log(first / last, FACTOR)) + 1))
        else:
            inside.append(np.array([math.sqrt(first * last)]))
    between = np.unique(np.concatenate(inside))[::-1]
    between = between[(between > low) & (between < high)]
    if not between.size:
        between = np.array([(low + high) / 2])
    top = equation.largest + max(2 * (high - equation.largest), equation.largest - between[0])
    last = between[-1] - (between[-1] - low) * np.sin(np.linspace(0, np.pi / 2, EDGE_POINTS))
    return np.concatenate([[top], between, last[1:]])


class _Equation:
    """The function ζ(κ) of a spectrum and M, the curve on which it is real, and the densities along the curve.

    With more than 4 M directions, κ_0 and the lower edge lie above `least`, any λ_i with i ≥ 4M, as `Σ_{j≤4M} (½)² =
    M`. Below, modes that stand for several directions are not accurate.
    """

    def __init__(self, modes: Modes, num_directions: float, num_features: int, least: float) -> None:
        positive = modes.eigenvalue > 0
        self.eigenvalue, self.multiplicity = modes.eigenvalue[positive], modes.multiplicity[positive]
        self.signal, self.frozen = modes.signal[positive], float(modes.signal[~positive].sum())
        self.dim, self.size = num_directions, num_features
        self.trace = float(self.multiplicity @ self.eigenvalue)
        self.largest, self.smallest = float(self.eigenvalue.max()), float(self.eigenvalue.min())
        self.least = math.log(least) if least > 0 else math.log(self.smallest) - 40

    def missed(self) -> float:
        """Compute the approximation risk `Σ_i s_i κ_0/(λ_i + κ_0)`."""
        level = self._level(1)
        return float(self.signal @ (level / (self.eigenvalue + level))) + self.frozen

    def edges(self) -> tuple[float, float]:
        """Compute u at the lower and the upper edge: `Σ_i (λ_i/(λ_i − u))² = M` below and above all λ_i."""

        def beyond(end: float, sign: float, farthest: float) -> float:
            def excess(log_distance: float) -> float:
                ratio = self.eigenvalue / (self.eigenvalue - end - sign * np.exp(log_distance))
                return float(self.multiplicity @ ratio**2) / self.size - 1

            return end + sign * _exp_of_root(excess, np.log(end) - 30, np.log(farthest))

        high = beyond(self.largest, 1.0, 8 * self.trace)
        if self.dim < self.size:  # The features have rank d < M, so that the lower edge is positive.
            return beyond(self.smallest, -1.0, self.smallest), high
        return -self._level(2), high

    def _level(self, power: int) -> float:
        """Solve `Σ (λ_i/(λ_i + κ))^power = M` for κ ≥ 0; 0 if there are at most M directions."""

        def excess(log: float) -> float:
            return float(self.multiplicity @ (self.eigenvalue / (self.eigenvalue + np.exp(log))) ** power) - self.size

        if self.dim <= self.size:
            return 0.0
        return _exp_of_root(excess, self.least, np.log(self.trace) + 1)

    def curve(self, points: np.ndarray) -> np.ndarray:
        """Compute κ = −u + iy for each u, by Newton's method for y² from below: the sum is convex and falls in it."""
        height = np.zeros_like(points)
        step = max(1, CELLS // self.eigenvalue.size)
        for first in range(1, points.size - 1, step):  # At both ends κ is real.
            rows = slice(first, min(first + step, points.size - 1))
            height[rows] = np.sqrt(self._square(points[rows]))
        return -points + 1j * height

    def _square(self, points: np.ndarray) -> np.ndarray:
        """Compute y² for each u.

        Modes that stand for several directions may have negative weights, and have poles where the true density has
        none. Newton's method must not meet them. It therefore starts from the solution of a sum without negative
        weights, and with the poles smoothed over the distance of the modes.
        """
        distance = (self.eigenvalue - points[:, None]) ** 2
        # A point may coincide with an eigenvalue.
        distance = np.maximum(distance, np.maximum(1e-15 * points[:, None], 1e-150) ** 2)
        apart = np.abs(np.diff(self.eigenvalue, prepend=self.eigenvalue[0], append=0.0))
        smoothing = np.where(self.multiplicity == 1, 0.0, np.maximum(apart[1:], apart[:-1]))
        weight = self.multiplicity * self.eigenvalue**2 / self.size
        below = _root_of_sum(np.maximum(weight, 0.0), distance + smoothing**2, np.zeros(points.size))
        return _root_of_sum(weight, distance, below)

    def masses(self, first: np.ndarray, last: np.ndarray) -> np.ndarray:
        """Integrate number, sum of Λ and signal (3, J) of the eigenvalues between J pairs of points of the curve."""
        nodes, weights = np.polynomial.legendre.leggauss(PATH_NODES)
        turn = np.exp(0.5j * np.pi * (1 + nodes))  # The path goes from 1 to −1 through the upper half plane.
        middle, half = (last + first) / 2, (last - first) / 2
        values = np.stack([self._densities(m + h * turn) for m, h in zip(middle, half, strict=True)])
        step = 0.5j * np.pi * half[:, None] * turn * weights
        return np.einsum("jtk,jk->tj", values, step).imag / np.pi

    def _densities(self, kappa: np.ndarray) -> np.ndarray:
        """Compute the (3, K) transforms of number, Λ and signal, times dζ/dκ."""
        resolvent = 1 / (self.eigenvalue + kappa[:, None])
        weight = self.multiplicity * self.eigenvalue
        zeta = kappa * (1 - (resolvent @ weight) / self.size)  # This form is accurate for κ far below λ_1, too.
        number, signal = self.size / kappa, kappa / zeta * (resolvent @ self.signal)
        return np.stack([number, -zeta * number, signal]) * (
            1 - (resolvent**2 @ (weight * self.eigenvalue)) / self.size
        )


def _root_of_sum(weight: np.ndarray, distance: np.ndarray, root: np.ndarray) -> np.ndarray:
    """Solve `Σ_k weight_k/(distance_k + y²) = 1` for y² ≥ 0 in each row; 0 if there is none.

    The first step may lead down: it ends below the solution of a convex function, as all later steps do.
    """
    for number in range(ROOT_STEPS):
        inverse = 1 / (distance + root[:, None])
        terms = weight * inverse
        step = np.maximum((terms.sum(1) - 1) / (terms * inverse).sum(1), 0.0 if number else -root)
        root = root + step
        if (np.abs(step) <= 1e-14 * root).all():
            break
    return root


def _exp_of_root(function: Callable[[float], float], low: float, high: float) -> float:
    return float(np.exp(brentq(function, low, high, xtol=1e-14)))  # pyright: ignore[reportArgumentType, reportCallIssue]


def _bands(curve: np.ndarray) -> np.ndarray:
    """Number the bands of the spectrum along the (J − 1,) segments: the curve is real at points in a gap."""
    return np.cumsum(np.append(False, np.imag(curve[1:-1]) == 0))


def _directions_to_gap(number: np.ndarray, band: np.ndarray) -> np.ndarray:
    """Count the directions from the nearer end of its band to the far end of each segment.

    The lower end of the spectrum has its own points.
    """
    above = np.cumsum(number)
    first, last = np.searchsorted(band, band), np.searchsorted(band, band, side="right") - 1
    below = np.where(band < band[-1], above[last] - above + number, np.inf)
    return np.minimum(above - above[first] + number[first], below)


def _parts(number: np.ndarray, mass: np.ndarray, band: np.ndarray, total: float, size: int) -> np.ndarray:
    """Divide the spectrum into (size,) parts of one direction each, and return their masses from those of segments.

    The mass has a kink at a gap, so that each band is interpolated by itself. A gap has a whole number of directions
    below it (the residues of the poles above it). Where rounding or merged modes give another number, the
    interpolation goes across the gap. The masses are summed from the small end, so that small ones keep their relative
    accuracy.
    """
    kept = number > EMPTY  # The other segments lie in gaps.
    beyond, rest = (np.concatenate([[0.0], np.cumsum(part[kept][::-1])]) for part in (number, mass))
    beyond *= size / beyond[-1]
    ends = np.append(np.flatnonzero(np.diff(band[kept][::-1])) + 1, beyond.size - 1)
    ends = ends[np.abs(beyond[ends] - np.round(beyond[ends])) < WHOLE]
    counts, index = np.unique(np.append(0, np.round(beyond[ends])).astype(int), return_index=True)
    ends = np.append(0, ends)[index]
    below = np.empty(size + 1)
    below[counts] = rest[ends]
    for i in np.flatnonzero(np.diff(counts) > 1):  # Other bands have one direction, and need no interpolation.
        (low, high), (first, last) = counts[i : i + 2], ends[i : i + 2]
        rows = slice(first, last + 1)
        nodes = np.interp(beyond[rows], beyond[[first, last]], [low, high])
        below[low + 1 : high] = PchipInterpolator(nodes, rest[rows])(np.arange(low + 1.0, high))
    parts = np.maximum(np.diff(below)[::-1], 0.0)
    return total / parts.sum() * parts if parts.sum() > 0 else parts
