"""Spectral sums over the sampled eigenvalues: a contour around them, and real nodes that it gives weights to.

The map `ζ = (w − begin)/(end − w)` makes of a lens around `begin < w < end` a sector around the positive ζ, and of
its inside a strip around the real v = log ζ. `|1 − γw| ≤ 1` on all of it for γ ≤ 2/end, up to the angle π/2, and what
a path does at w ~ 1/(γt) has the same width in v for every t.
"""

import math
from typing import NamedTuple

import numpy as np
from numpy.polynomial import legendre
from scipy import sparse

DIGITS = 30.0  # of e, that the contour is right to
WIDTH = 1.0  # of a panel in v, at most


class Rule(NamedTuple):
    """How finely responses are followed.

    Attributes:
        angle: of the contour: interpolants grow with it, its points become fewer.
        points: of a panel.
    """

    angle: float
    points: int

    @property
    def growth(self) -> float:
        """Of the last degree on a panel, to the contour."""
        ratio = 2 * self.angle / WIDTH
        return (ratio + math.hypot(1, ratio)) ** self.points

    def to_coefficients(self) -> np.ndarray:
        """(points, points): from values at a panel's nodes to coefficients of Legendre polynomials."""
        unit, weights = legendre.leggauss(self.points)
        basis = legendre.legvander(unit, self.points - 1) * weights[:, None]
        return (np.arange(self.points) + 0.5)[:, None] * basis.T


PLAIN = Rule(0.25, 16)
TURNING = Rule(0.125, 32)  # for responses that oscillate, as momentum's: four times the work


class Lens(NamedTuple):
    """Where eigenvalues are sought: `begin < low ≤ w ≤ high < end`."""

    begin: float
    low: float
    high: float
    end: float

    def w(self, v: np.ndarray) -> np.ndarray:
        """The eigenvalue at v."""
        zeta = np.exp(v)
        return (self.end * zeta + self.begin) / (1 + zeta)

    def v(self, w: float) -> float:
        """`log((w − begin)/(end − w))`."""
        return math.log((w - self.begin) / (self.end - w))


class Contour(NamedTuple):
    """Points of the upper half plane, counterclockwise around the eigenvalues; the lower half is conjugate.

    Attributes:
        v, w: (C,) points.
        steps: (C,) dw/(2πi).
    """

    v: np.ndarray
    w: np.ndarray
    steps: np.ndarray


class RealNodes(NamedTuple):
    """Gauss–Legendre nodes of panels in v.

    Attributes:
        w: (J,) eigenvalues.
        interpolation: (C, J) sparse, values at the points of a contour of what is known at the nodes, and analytic.
    """

    w: np.ndarray
    interpolation: sparse.csr_array


def contour(lens: Lens, rule: Rule) -> Contour:
    """The trapezoidal rule on an ellipse in v whose foci are the ends of the spectrum: it converges geometrically."""
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
    """Panels from one end of the spectrum to the other, for (C,) points v of a contour around it."""
    first = lens.v(lens.low)
    last = lens.v(lens.high)
    count = math.ceil((last - first) / WIDTH)
    half = (last - first) / count / 2
    unit, _ = legendre.leggauss(rule.points)
    middles = first + half * (2 * np.arange(count) + 1)
    panel = np.clip(((np.real(points) - first) / (2 * half)).astype(int), 0, count - 1)
    degrees = np.arange(rule.points)
    values = legendre.legvander((points - middles[panel]) / half, rule.points - 1) @ rule.to_coefficients()
    places = panel[:, None] * rule.points + degrees
    rows = np.repeat(np.arange(points.size), rule.points)
    shape = points.size, count * rule.points
    interpolation = sparse.csr_array((values.ravel(), (rows, places.ravel())), shape=shape)
    return RealNodes(lens.w((middles[:, None] + half * unit).ravel()), interpolation)


def interpolation_error(values: np.ndarray, rule: Rule) -> np.ndarray:
    """(…) by how much interpolants of values (…, J) at real nodes may be off at the contour, from the last degrees."""
    panels = values.reshape(*values.shape[:-1], -1, rule.points)
    return rule.growth * np.abs(panels @ rule.to_coefficients()[-2:].T).max((-2, -1))
