"""Spectral sums over the eigenvalues of Ĥ: a contour around them, and real nodes to which the contour gives weights.

The map `ζ = (w − begin)/(end − w)` takes a lens around `begin < w < end` to a sector around the positive ζ, and
v = log ζ takes the sector to a strip around the real axis. In the lens `|1 − γw| ≤ 1` for γ ≤ 2/end, up to an angle of
π/2. The feature of a risk path at w ~ 1/(γt) has the same width in v for every t.
"""

import math
from typing import NamedTuple

import numpy as np
from numpy.polynomial import legendre
from scipy import sparse

DIGITS = 30.0  # The contour rule has a relative error of e^−DIGITS.
WIDTH = 1.0  # A collocation panel has at most this width in v.


class Rule(NamedTuple):
    """Resolution of the contour and of the collocation panels.

    Attributes:
        angle: angle of the contour. A larger one needs fewer points, but amplifies errors of interpolants more.
        points: number of nodes of a panel.
    """

    angle: float
    points: int

    @property
    def growth(self) -> float:
        """Growth of the Legendre polynomial of the last degree from a panel to the contour."""
        ratio = 2 * self.angle / WIDTH
        return (ratio + math.hypot(1, ratio)) ** self.points

    def to_coefficients(self) -> np.ndarray:
        """Return the (points, points) map from values at a panel's nodes to coefficients of Legendre polynomials."""
        unit, weights = legendre.leggauss(self.points)
        basis = legendre.legvander(unit, self.points - 1) * weights[:, None]
        return (np.arange(self.points) + 0.5)[:, None] * basis.T


PLAIN = Rule(0.25, 16)
TURNING = Rule(0.125, 32)  # Responses that oscillate, as with momentum, need this rule; it costs four times as much.


class Lens(NamedTuple):
    """The interval `low ≤ w ≤ high` of the eigenvalues of Ĥ, inside the lens `begin < w < end`."""

    begin: float
    low: float
    high: float
    end: float

    def w(self, v: np.ndarray) -> np.ndarray:
        """Return the eigenvalue w at v."""
        zeta = np.exp(v)
        return (self.end * zeta + self.begin) / (1 + zeta)

    def v(self, w: float) -> float:
        """Return the coordinate v = log((w − begin)/(end − w)) of an eigenvalue."""
        return math.log((w - self.begin) / (self.end - w))


class Contour(NamedTuple):
    """The upper half of a contour, counterclockwise around the eigenvalues; the lower half is conjugate.

    Attributes:
        v, w: (C,) points in both coordinates.
        steps: (C,) quadrature weights dw/(2πi).
    """

    v: np.ndarray
    w: np.ndarray
    steps: np.ndarray


class RealNodes(NamedTuple):
    """Gauss–Legendre nodes of collocation panels in v.

    Attributes:
        w: (J,) nodes as eigenvalues.
        interpolation: (C, J) sparse map from values of an analytic function at the nodes to a contour's points.
    """

    w: np.ndarray
    interpolation: sparse.csr_array


def contour(lens: Lens, rule: Rule) -> Contour:
    """Return the trapezoidal rule, which converges geometrically, on an ellipse in v around the spectrum."""
    first = lens.v(lens.low)
    last = lens.v(lens.high)
    focus = (last - first) / 2
    spread = math.asinh(rule.angle / focus)
    count = math.ceil(DIGITS / 2 / spread) + 2
    turn = np.pi * (np.arange(count) + 0.5) / count
    length = focus * math.cosh(spread)
    v = (first + last) / 2 + length * np.cos(turn) + 1j * rule.angle * np.sin(turn)
    slope = -length * np.sin(turn) + 1j * rule.angle * np.cos(turn)
    zeta = np.exp(v)
    steps = (lens.end - lens.begin) * zeta / (1 + zeta) ** 2 * slope / (2j * count)
    return Contour(v, lens.w(v), steps)


def real_nodes(lens: Lens, points: np.ndarray, rule: Rule) -> RealNodes:
    """Return panels that cover the spectrum, and their interpolation to (C,) points v of a contour around it."""
    first = lens.v(lens.low)
    last = lens.v(lens.high)
    count = math.ceil((last - first) / WIDTH)
    half = (last - first) / count / 2
    unit, _ = legendre.leggauss(rule.points)
    middles = first + half * (2 * np.arange(count) + 1)
    panel = np.clip(((np.real(points) - first) / (2 * half)).astype(int), 0, count - 1)
    degrees = np.arange(rule.points)
    values = legendre.legvander((points - middles[panel]) / half, rule.points - 1) @ rule.to_coefficients()
    columns = panel[:, None] * rule.points + degrees
    rows = np.repeat(np.arange(points.size), rule.points)
    shape = points.size, count * rule.points
    interpolation = sparse.csr_array((values.ravel(), (rows, columns.ravel())), shape=shape)
    return RealNodes(lens.w((middles[:, None] + half * unit).ravel()), interpolation)


def interpolation_error(values: np.ndarray, rule: Rule) -> np.ndarray:
    """Bound the errors (…) at the contour of interpolants of values (…, J) at real nodes, from their last degrees."""
    panels = values.reshape(*values.shape[:-1], -1, rule.points)
    return rule.growth * np.abs(panels @ rule.to_coefficients()[-2:].T).max((-2, -1))
