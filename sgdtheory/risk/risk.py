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
        relative_error: bound of the relative error of their sum where a smooth schedule was followed on panels, or the
            risk has grown a million times; inf where it has grown so far beyond the stability edge that it is lost, and
            given as inf; 0 where nothing but rounding, some 1e-10, separates it from the exact value. Of a nonlinear
            method, and of passes over a finite sample, what theory was measured to be right to (THEORY.md T37, T42). Of
            reshuffled epochs it is inf where theory does not know the risk to within its own size: `simulate` does.
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
