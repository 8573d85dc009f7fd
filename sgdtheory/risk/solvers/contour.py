"""The contour on which coefficients of generating functions are integrated, and the modes that it needs.

The n-th coefficient of a function of `z = e^−p` whose poles are real, `p ≤ growth`, is the integral of `e^{np}` times
the function over a parabola `np = n·growth + μ(1 + iu)²` (Weideman & Trefethen 2007, "Parabolic and hyperbolic contours
for computing the Bromwich integral"). A `Resolution` says which contour, and how fine panels are, for a tolerance.
"""

from typing import NamedTuple

import numpy as np

from sgdtheory.problems import AbstractProblem, Modes

# Below this value of nγλ a sum over directions on the contour is, to rounding, a polynomial in λ, because the points
# keep a distance of at least 4 from the poles. `problem.modes` merges such directions.
CONTOUR_RESOLVED = 0.5
# A larger reach nγ lies at the end of the range of a float.
LARGEST_REACH = 1e300
# e^−45 is below the rounding unit: residues and oscillations that are smaller than this times the rest are left out.
NEGLIGIBLE = 45.0
LARGEST_EXPONENT = 709.0  # e^709 is about the largest float.
# Temporaries of the closed form of averaged SGD have at most this many numbers, 384 kB, which stay in a core's cache
# (benchmarks.algorithms).
PIECE = 48_000


class Contour(NamedTuple):
    """Points `n p = μ(1 + iu)²` and weights of `(1/2πi) ∫ e^{np} f dp`, (C,) each: the upper half."""

    points: np.ndarray
    weights: np.ndarray


def _parabola(mu: float, h: float, num: int) -> Contour:
    """Return the trapezoidal rule with step h in u.

    It converges like e^{−2π/h} times (2π/h)^7 for the strongest pole that occurs, p^−4; what lies beyond the last point
    is of the order e^{−μ(uh)²}, and rounding is amplified by e^μ.
    """
    side = 1 + 1j * h * (np.arange(num) + 0.5)
    points = mu * side**2
    return Contour(points, 2 * mu * h / np.pi * side * np.exp(points))


CONTOUR = _parabola(4.8, 0.125, 21)  # The error is 3e-15 for poles up to p^−4, by measurement.
QUIET_CONTOUR = _parabola(4.0, 0.12, 27)  # Rounding grows least here, for coefficients that may have decayed.
# These contours have the measured relative error of their key. They are for searches, and as smooth in all arguments as
# the risk itself.
FAST_CONTOURS = {3e-9: _parabola(5.4, 0.19, 10), 1e-6: _parabola(4.5, 0.245, 7)}


def contour_within(tolerance: float) -> Contour:
    """Return the contour with the fewest points whose relative error is below a tolerance, else `CONTOUR`."""
    return next((each for error, each in reversed(FAST_CONTOURS.items()) if error <= tolerance), CONTOUR)


class Points(NamedTuple):
    """z, n(1 − z) and weights of the contours of S settings, (S, C) each; what they are scaled by and n, (S,)."""

    z: np.ndarray
    y: np.ndarray
    weight: np.ndarray
    scale: np.ndarray
    num_steps: np.ndarray

    @property
    def t(self) -> np.ndarray:
        """(S, C) n(1/z − 1)."""
        return self.y / self.z

    @property
    def kernel(self) -> np.ndarray:
        """(S, C) weights over z."""
        return self.weight / self.z


def contour_points(contour: Contour, num_steps: np.ndarray, rate: np.ndarray, mirrored: bool) -> Points:
    """Return the points of the parabola, moved by the rate of growth, and of its mirror image if asked for."""
    p = rate[:, None] + contour.points / num_steps[:, None]
    z = np.exp(-p)
    y = -num_steps[:, None] * np.expm1(-p)
    weight = np.broadcast_to(contour.weights, z.shape)
    if mirrored:
        sign = np.where(num_steps % 2 == 1, -1.0, 1.0)[:, None]
        y = np.concatenate([y, num_steps[:, None] * (1 + z)], axis=1)
        z = np.concatenate([z, -z], axis=1)
        weight = np.concatenate([weight, sign * weight], axis=1)
    exponent = num_steps * rate
    scale = np.where(exponent < LARGEST_EXPONENT, np.exp(np.minimum(exponent, LARGEST_EXPONENT)), np.inf)
    return Points(z, y, weight, scale, num_steps)


def contour_modes(problem: AbstractProblem, rate: np.ndarray, steps: np.ndarray, tolerance: float = 0.0) -> Modes:
    """Return the modes with which sums over directions hold on the contours of all these γ and n of plain SGD."""
    return modes_within((steps * rate).max(initial=1.0), problem, tolerance, decaying=True)


def modes_within(reach: float, problem: AbstractProblem, tolerance: float = 0.0, *, decaying: bool = False) -> Modes:
    """Return the modes with which sums over directions hold in runs that move a weight by nγ = `reach` gradients.

    Moments of runs without momentum are `decaying`: they do not oscillate in λ, so that fewer modes hold their sums.
    """
    modes = problem.decaying_modes if decaying else problem.modes
    return modes(smallest_resolved(reach), tolerance)


def smallest_resolved(reach: float) -> float:
    """Return the λ below which sums are polynomials in λ to rounding."""
    return CONTOUR_RESOLVED / min(max(reach, 1.0), LARGEST_REACH)


class Resolution(NamedTuple):
    """Resolution with which smooth segments are followed.

    Attributes:
        order: p, points on a panel.
        ratio: of the distances of a panel's ends from the kink before it.
        modes: relative error that sums over directions may have.
        tail: share that the two highest Legendre coefficients of second moments may have on a panel; with more it is
            halved.
        turn: radians by which moments may oscillate on a panel (`mesh.Oscillation`).
        still: error of the way that is left to the end, which may then be a single panel.
        contour: of closed forms.
    """

    order: int
    ratio: float
    modes: float
    tail: float
    turn: float
    still: float
    contour: Contour


# The stated errors are measured (tests/risk/test_algorithm_steps.py, tests/risk/test_tolerances.py).

# The error is 1e-11 as a rule, 1e-8 next to the edge, 1e-7 beyond it, and 7e-7 where the risk grows by a factor of a
# million.
FINE = Resolution(9, 2.0, 0.0, 1e-6, 2.5, 1e-12, QUIET_CONTOUR)
# The error is at least three times that of `FINE`, forty times as a rule, and so bounds that error.
ROUGH = Resolution(7, 2.0, 0.0, 1e-4, 2.5, 1e-11, QUIET_CONTOUR)
CLOSE = Resolution(8, 2.0, 1e-8, 1e-5, 3.0, 1e-10, contour_within(1e-8))  # Searches take this; its error is about 1e-8.
# Searches begin with this; its error is about 1e-5.
FAST = Resolution(5, 3.0, 1e-8, np.inf, 2.5, 1e-7, contour_within(1e-5))
# Grids of methods that change with the step take this. Its error is 1e-6 to 1e-3 as a rule, and up to 4e-2 under an
# exponential average.
COARSE = Resolution(3, 3.0, 1e-8, 1.0, 2.0, 1e-7, contour_within(1e-5))

RESOLUTIONS = {0.0: FINE, 1e-8: CLOSE, 1e-5: FAST, 1e-2: COARSE}  # The keys are relative errors.


def resolution_within(tolerance: float) -> Resolution:
    """Return the roughest one whose relative error is below a tolerance."""
    return RESOLUTIONS[max(error for error in RESOLUTIONS if error <= tolerance)]
