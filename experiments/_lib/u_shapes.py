"""Risk and data against the batch size, and the shape of steps, from the table of `small_batches`."""

from typing import NamedTuple

import numpy as np
from scipy.special import gammaln

HALF_LIFE = "Adam, half-life of v fixed in samples"  # a method of the table
SIGN_LIMIT = np.pi / 2  # κ_1/κ_∞ of T37, and κ_∞ itself


class Row(NamedTuple):
    """Row with the columns in the `UNITS` of the experiment."""

    kind: str
    method: str
    memory: float
    noise_variance: float
    num_samples: float
    batch_size: float
    risk: float
    samples_needed: float = np.nan
    smallest_batch_size: float = np.nan
    optimal_batch_size: float = np.nan


class Curve(NamedTuple):
    """One method at one D, at increasing B (K,)."""

    batch: np.ndarray
    risk: np.ndarray
    samples: np.ndarray

    @property
    def lost(self) -> float:
        """Risk at the smallest B over the least, less 1."""
        return float(self.risk[0] / self.risk.min() - 1)

    @property
    def wasted(self) -> float:
        """Data that the smallest B needs over the fewest, less 1."""
        return float(self.samples[0] / np.nanmin(self.samples) - 1)


def curve_of(rows: list[Row], name: str, samples: float) -> Curve:
    """Return a curve from the table."""
    mine = sorted(
        (row.batch_size, row.risk, row.samples_needed)
        for row in rows
        if row.kind != "ends" and row.method == name and row.num_samples == samples
    )
    return Curve(*np.array(mine).reshape(-1, 3).T)


class Shape(NamedTuple):
    """Fits of `steps = a + b/B` and `a + b/B + c/B²`.

    Attributes:
        law, longer: root mean square of relative errors without and with c.
        share: c/b.
    """

    law: float
    longer: float
    share: float


def shape_of(curve: Curve, most: float) -> Shape:
    """Least squares of relative errors, up to a batch size."""
    used = (curve.batch <= most) & np.isfinite(curve.samples)
    steps = curve.samples[used] / curve.batch[used]
    powers = curve.batch[used, None] ** -np.arange(3.0) / steps[:, None]
    one = np.ones(steps.size)
    short, long = (np.linalg.lstsq(powers[:, :number], one, rcond=None)[0] for number in (2, 3))
    law, longer = (float(np.sqrt(np.mean((powers[:, : fit.size] @ fit - 1) ** 2))) for fit in (short, long))
    return Shape(law, longer, float(long[2] / long[1]))


def waste(batch: np.ndarray) -> np.ndarray:
    """`κ_B/κ_∞`, κ_B = B/c_B², c_B = Γ(B) 2^{2−B}/Γ(B/2)² (T37)."""
    log_slope = gammaln(batch) + (2 - batch) * np.log(2) - 2 * gammaln(batch / 2)
    return batch * np.exp(-2 * log_slope) / SIGN_LIMIT
