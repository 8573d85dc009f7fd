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

ANGLE = 0.25  # of the contour: interpolants grow with it, its points become fewer
DIGITS = 30.0  # of e, that the contour is right to
POINTS = 16  # of a panel
WIDTH = 1.0  # of a panel in v, at most


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


def contour(lens: Lens) -> Contour:
    """The trapezoidal rule on an ellipse in v whose foci are the ends of the spectrum: it converges geometrically."""
    first = lens.v(lens.low)
    last = lens.v(lens.high)
    focus = (last - first) / 2
    spread = math.asinh(ANGLE / focus)
    count = math.ceil(DIGITS / 2 / spread) + 2
    turn = np.pi * (np.arange(count) + 0.5) / count
    length = focus * math.cosh(spread)
    v = (first + last) / 2 + length * np.cos(turn) + 1j * ANGLE * np.sin(turn)
    slope = -length * np.sin(turn) + 1j * ANGLE * np.cos(turn)
    zeta = np.exp(v)
    steps = (lens.end - lens.begin) * zeta / (1 + zeta) ** 2 * slope / (2j * count)
    return Contour(v, lens.w(v), steps)


def real_nodes(lens: Lens, points: np.ndarray) -> RealNodes:
    """Panels from one end of the spectrum to the other, for (C,) points v of a contour around it."""
    first = lens.v(lens.low)
    last = lens.v(lens.high)
    count = math.ceil((last - first) / WIDTH)
    half = (last - first) / count / 2
    unit, weights = legendre.leggauss(POINTS)
    middles = first + half * (2 * np.arange(count) + 1)
    panel = np.clip(((points.real - first) / (2 * half)).astype(int), 0, count - 1)
    degrees = np.arange(POINTS)
    to_coefficients = (degrees + 0.5)[:, None] * (legendre.legvander(unit, POINTS - 1) * weights[:, None]).T
    values = legendre.legvander((points - middles[panel]) / half, POINTS - 1) @ to_coefficients
    places = panel[:, None] * POINTS + degrees
    rows = np.repeat(np.arange(points.size), POINTS)
    shape = points.size, count * POINTS
    interpolation = sparse.csr_array((values.ravel(), (rows, places.ravel())), shape=shape)
    return RealNodes(lens.w((middles[:, None] + half * unit).ravel()), interpolation)
