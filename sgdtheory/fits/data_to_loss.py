"""Samples at which L*(B, D) of one batch size reaches a loss: monotone interpolation in log D."""

import numpy as np
from scipy import interpolate, optimize

BISECTIONS = 50  # of an interval between two data sizes


class LossCurves:
    """log L against log D of several curves over the same data sizes, never rising, smooth between them.

    Where noise makes a loss rise with D, neighbours are pooled to their mean (isotonic regression); between data sizes
    log L is a monotone cubic of log D (Fritsch and Carlson's, as SciPy's PCHIP has it).

    Args:
        samples: (k,) D, increasing.
        log_losses: (R, k) finite.
    """

    def __init__(self, samples: np.ndarray, log_losses: np.ndarray) -> None:
        self.log_samples = np.log(samples)
        falling = [bool(each.all()) for each in np.diff(log_losses) <= 0]
        pooled = [
            each if falls else optimize.isotonic_regression(each, increasing=False).x
            for each, falls in zip(log_losses, falling, strict=True)
        ]
        self.knots = np.array(pooled)

    def samples_to(self, log_target: float) -> np.ndarray:
        """(R,) fewest D with log L ≤ `log_target`; nan where the curve does not reach it or begins below."""
        found = np.full(len(self.knots), np.nan)
        rows = np.flatnonzero((self.knots[:, 0] >= log_target) & (self.knots[:, -1] <= log_target))
        if rows.size:
            found[rows] = np.exp(self._solve(rows, log_target))
        return found

    def log_loss_at(self, samples: float) -> np.ndarray:
        """(R,) log L at D; nan outside of the data sizes."""
        place = np.log(samples)
        if not self.log_samples[0] <= place <= self.log_samples[-1]:
            return np.full(len(self.knots), np.nan)
        if place in self.log_samples:
            return self.knots[:, int(np.flatnonzero(self.log_samples == place)[0])]
        return self._cubics(slice(None))(place)

    def _cubics(self, rows: np.ndarray | slice) -> interpolate.PchipInterpolator:
        return interpolate.PchipInterpolator(self.log_samples, self.knots[rows].T)

    def _solve(self, rows: np.ndarray, log_target: float) -> np.ndarray:
        """log D of the crossings of `rows`, by bisection of the cubic around each."""
        first = (self.knots[rows] <= log_target).argmax(1)  # the first data size at or below the target
        if self.log_samples.size == 1:
            return np.full(rows.size, self.log_samples[0])
        piece = np.maximum(first - 1, 0)
        c3, c2, c1, c0 = self._cubics(rows).c[:, piece, np.arange(rows.size)]
        low, high = np.zeros(rows.size), np.diff(self.log_samples)[piece]
        for _ in range(BISECTIONS):
            middle = (low + high) / 2
            above = ((c3 * middle + c2) * middle + c1) * middle + c0 > log_target
            low, high = np.where(above, middle, low), np.where(above, high, middle)
        return self.log_samples[piece] + (low + high) / 2
