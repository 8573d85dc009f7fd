"""An excess risk and its two parts."""

from dataclasses import dataclass

import numpy as np

from sgdtheory._common.shown import Sheet, Shown, columns_sheet


@dataclass(frozen=True)
class Risk(Shown):
    """Expected excess risk `Δ = E R(w̄) − σ²` and its two parts, in units of y².

    Attributes:
        bias: the part that is linear in the signal (σ = 0); of a nonlinear method, and of passes over a finite sample,
            that of the mean weights.
        variance: the part that is linear in σ² (w_0 = w*); of these that of the weights' variance.
        relative_error: bound of the relative error of their sum. It is 0 where rounding of at most 1e-10 separates the
            sum from the exact value, and the difference of two orders where a smooth schedule was followed on panels.
            Where rounding leaves fewer digits (within 0.1% of the edge and beyond it, or far below the initial risk
            with weight decay), it bounds the rounding (THEORY.md T25): 1 if no digit is left and the risk is given as a
            bound, inf if the risk is 0, below the range of a float. Of a nonlinear method it is an estimate of the
            equivalent's error, and inf where the error may be as large as the risk (T37). Random settings that were not
            used to fit it exceeded it in 0.8% of cases, with a 95% interval of 0.1 to 2.9% (docs/optimizers.md). It is
            about Gaussian rows. Of passes over a finite sample it is what theory was measured to be
            right to (T42), inf where theory does not know a reshuffled risk to within its own size: `simulate` does.
    """

    bias: np.ndarray | float
    variance: np.ndarray | float
    relative_error: np.ndarray | float = 0.0

    @property
    def total(self) -> np.ndarray | float:
        """bias + variance."""
        return self.bias + self.variance

    def sheet(self) -> Sheet:
        """bias, variance and their sum."""
        columns = {"bias": self.bias, "variance": self.variance, "total": self.total}
        if np.any(np.asarray(self.relative_error) > 0):
            columns["within"] = self.relative_error
        notes = ["within: bound of the relative error of the total"] if "within" in columns else []
        if np.any(np.isinf(self.relative_error) & np.isfinite(self.total)):
            notes.append("within ∞: theory does not know the size of this risk; simulate it")
        return columns_sheet("expected excess risk, units of y²", columns, notes)
