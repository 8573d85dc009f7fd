"""A straight line through points whose errors in x and in y are known, and that scatter about it beyond them."""

from typing import NamedTuple

import numpy as np
from scipy import optimize, special

STEEPEST = 50.0  # slope that the search looks at, either way
NUMBER = 4001  # slopes of the search


class Line(NamedTuple):
    """`y = α + β x`, weighted by errors of both.

    Attributes:
        slope: β; infinite where data do not bound it.
        interval: of β; infinite where points do not bound it.
        intercept: α.
        scatter: τ, standard deviation of y about the line beyond the known errors.
        correlation: of x and y.
    """

    slope: float
    interval: tuple[float, float]
    intercept: float
    scatter: float
    correlation: float

    @property
    def text(self) -> str:
        """Slope and interval, "1.02 (0.41 … 1.63)"."""
        slope, low, high = (f"{each:.2f}".replace("inf", "∞") for each in (self.slope, *self.interval))
        return f"{slope} ({low} … {high})".replace("-", "−")


def fit_line(x: np.ndarray, y: np.ndarray, x_error: np.ndarray, y_error: np.ndarray, level: float) -> Line:
    """Line with least `Σ r²/(s_y² + β² s_x² + τ²)`, r = y − α − βx, and the β that data do not exclude.

    τ² is where that sum is K − 2 at its least, or 0 (Mandel and Paule 1970); the interval has the β whose sum is at
    most F_{1,K−2} above the least, as that of a steps law (THEORY.md T13). With x_error = 0 and τ ≫ y_error it is
    Student's interval of ordinary least squares.

    Args:
        x, y: (K,), K ≥ 3.
        x_error, y_error: (K,) standard errors.
        level: of the interval.

    Reference:
        York et al. 2004 (American Journal of Physics 72) for the line.
    """
    points = x, y, x_error, y_error
    freedom = len(x) - 2
    slopes = np.sinh(np.linspace(-np.arcsinh(STEEPEST), np.arcsinh(STEEPEST), NUMBER))

    def excess(square: float) -> float:
        return float(_sums(slopes, points, square).min()) - freedom

    largest = float(np.var(y)) * len(y)
    square = 0.0 if excess(0.0) <= 0 else float(optimize.brentq(excess, 0.0, largest))  # pyright: ignore[reportArgumentType]
    sums = _sums(slopes, points, square)
    best = int(sums.argmin())
    inside = slopes[sums <= sums[best] + special.fdtri(1, freedom, level)]
    slope, low, high = (
        float(each if abs(each) < 0.99 * STEEPEST else np.sign(each) * np.inf)
        for each in (slopes[best], inside[0], inside[-1])
    )
    weight = 1 / (y_error**2 + slopes[best] ** 2 * x_error**2 + square)
    intercept = float(weight @ (y - slopes[best] * x) / weight.sum())
    return Line(slope, (low, high), intercept, square**0.5, float(np.corrcoef(x, y)[0, 1]))


def _sums(slopes: np.ndarray, points: tuple[np.ndarray, ...], square: float) -> np.ndarray:
    """Least weighted sum of squares over α, of every slope."""
    x, y, x_error, y_error = points
    beta = slopes[:, None]
    weight = 1 / (y_error**2 + beta**2 * x_error**2 + square)
    residual = y - beta * x
    centre = (weight * residual).sum(1) / weight.sum(1)
    return (weight * (residual - centre[:, None]) ** 2).sum(1)


def share_as_high(x: np.ndarray, y: np.ndarray, number: int, seed: int = 0) -> float:
    """Share of random orders of x whose correlation with y is at least that of the order given, itself among them."""
    rng, centred = np.random.default_rng(seed), y - y.mean()
    shuffled = np.array([rng.permutation(x) for _ in range(number)])
    return float((1 + (shuffled @ centred >= x @ centred - 1e-12).sum()) / (1 + number))
