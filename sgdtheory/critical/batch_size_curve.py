"""The curve of batch sizes: the risk that each attains with D samples, and the samples that it needs for the best."""

from dataclasses import dataclass

import numpy as np
from scipy.interpolate import PchipInterpolator

from sgdtheory._common.arguments import positive_number, single_number

SMALLEST_OVERHEAD = 1e-6  # A smaller overhead, or a smaller risk_factor − 1, counts as this much on the curve.


@dataclass(frozen=True)
class BatchSizeCurve:
    """The risk that each batch size attains with D samples, and the samples that it needs for the best. Arrays (K,).

    Attributes:
        batch_size: B, increasing whole numbers.
        learning_rate: the best γ with D samples.
        risk: `R(D, B) = min_γ Δ(B, γ, D)`, in units of y².
        num_steps: `f_D(B)`, the fewest steps that reach R_opt(D); inf where none do: a few large steps of another B may
            cancel what an average keeps of w_0.
        learning_rate_needed: a γ with which they do; nan where none do.
        samples_needed: `B f_D(B)`.
        overhead: `B f_D(B)/D − 1`, the extra data relative to linear scaling.
    """

    batch_size: np.ndarray
    learning_rate: np.ndarray
    risk: np.ndarray
    num_steps: np.ndarray
    learning_rate_needed: np.ndarray
    samples_needed: np.ndarray
    overhead: np.ndarray

    def batch_size_at(self, overhead: float) -> float:
        """Largest B whose overhead is at most this, interpolated between the batch sizes of the curve.

        To some 3% as a rule, worse where few steps or resonances make the curve jump; `critical_batch_size` is exact.

        Raises:
            ValueError: not positive, or beyond the end of the curve.
        """
        overhead = positive_number("overhead", overhead)
        return self._last_below(np.maximum(self.overhead, SMALLEST_OVERHEAD), overhead, "overhead")

    def batch_size_within(self, risk_factor: float) -> float:
        """Largest B with `R(D, B) ≤ risk_factor · R_opt(D)`, interpolated between the batch sizes of the curve.

        To some 3% as a rule, worse where few steps or resonances make the curve jump; `critical_batch_size` is exact.

        Raises:
            ValueError: not above 1, or beyond the end of the curve.
        """
        excess = np.maximum(self.risk / self.risk.min() - 1, SMALLEST_OVERHEAD)
        return self._last_below(excess, checked_risk_factor(risk_factor) - 1, "risk_factor")

    def _last_below(self, values: np.ndarray, limit: float, name: str) -> float:
        """Return where the interpolant of log values in log B last crosses the limit from below."""
        limit = max(limit, SMALLEST_OVERHEAD)
        finite = np.isfinite(values)
        sizes = self.batch_size[finite]
        values = values[finite]
        last = int(np.flatnonzero(values <= limit)[-1])
        if last == values.size - 1:
            raise ValueError(
                f"{name} must be below {values[-1] + (name == 'risk_factor'):.4g}, where this curve ends at B = "
                f"{sizes[-1]:g}; give a larger one to critical_batch_size itself"
            )
        x = np.log(sizes)
        y = np.log(values)
        crossing = PchipInterpolator(x, y, extrapolate=False).solve(np.log(limit))
        inside = crossing[(crossing >= x[last] - 1e-9) & (crossing <= x[last + 1])]
        return float(np.exp(inside[-1] if inside.size else x[last]))


def checked_risk_factor(value: float) -> float:
    """A finite number above 1.

    Raises:
        ValueError: it is not one.
    """
    number = single_number("risk_factor", value)
    if not (np.isfinite(number) and number > 1):
        raise ValueError(f"risk_factor must be finite and greater than 1, got {number:g}")
    return number
