"""Sheets of a fit to loss curves: its numbers, how far off it is on each curve, and its critical batch size."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from sgdtheory._common.sheets import Quantity, Sheet, Table
from sgdtheory._common.shown import Shown
from sgdtheory.curves.equal_loss import EqualLoss
from sgdtheory.curves.loss_curve import LossCurve, curve_remarks

LABELS = {  # The sheet describes the theory's parameters in these words.
    "capacity": "capacity exponent a, λ_i ∝ i^−a",
    "source": "source exponent b, s_i ∝ i^−b",
    "signal": "signal A, s_i = A i^−b (loss)",
    "noise": "noise σ² of a sample (loss)",
    "step_size": "γλ_1 at the largest learning rate",
    "irreducible_loss": "irreducible loss L0",
    "growth": "growth g of the weights' squared norm in a step",
}


@dataclass(frozen=True, eq=False)
class CurvesCriticalBatchSize(Shown):
    """Critical batch size B* of loss curves at K data sizes; arrays (K,).

    Attributes:
        num_samples: D.
        batch_size: B*, not rounded, in the unit of the batch size of the curves, or in batches of theirs.
        interval: (K, 2) of it, 0 and inf where the curves do not determine an end.
        loss: the least loss with D samples: by comparison, or R_opt(D) + L0 of the fitted theory.
        max_learning_rate: the largest that was allowed, of SGD below the stability threshold γλ_1 = 2.
        remark: where B* is a lower bound: runs of fewer than eight steps are not looked at; empty if nowhere.
        overhead: ω that defines B*.
        level: of the interval.
        knows_batch_size: whether the curves have batch sizes; otherwise D and B* count in batches of theirs.
        compared: of each D, B* by comparing runs at equal loss; None where B* is that of the fitted theory.
        open_because: why an end of the first interval is open; empty if it is closed.
    """

    num_samples: np.ndarray
    batch_size: np.ndarray
    interval: np.ndarray
    loss: np.ndarray
    max_learning_rate: float
    remark: str
    overhead: float = 0.2
    level: float = 0.95
    knows_batch_size: bool = True
    compared: tuple[EqualLoss | None, ...] = ()
    open_because: str = ""

    @property
    def answer(self) -> str:
        """Return B* at the first data size in one line, or why it is not known."""
        size, (low, high) = float(self.batch_size[0]), self.interval[0].tolist()
        where = f"at D = {self.num_samples[0]:.6g}"
        because = f": {self.open_because}" if self.open_because else ""
        if low == 0 and not np.isfinite(high):
            return f"B* is not determined {where}{because}"
        if low == 0 or not np.isfinite(high):
            bound = f"at most {high:.4g}" if low == 0 else f"at least {low:.4g}"
            return f"B* is {bound} ({self.level:.0%}) {where}{because}"
        return f"B* = {size:.4g} ({low:.4g} … {high:.4g}) {where}"

    def sheet(self) -> Sheet:
        """Return B* at each data size, with its interval and the least loss."""
        unit = "" if self.knows_batch_size else ", in batches of these runs"
        top = f"{self.max_learning_rate:.3g}"
        quantities = [
            Quantity("num_samples", "D", self.num_samples, digits=6),
            Quantity("", f"B*, γ ≤ {top}", self.batch_size, self.interval),
        ]
        compared = [each for each in self.compared if each is not None]
        if compared:
            counted = np.array([each.from_smallest for each in compared])
            ends = np.array([each.from_smallest_interval for each in compared])
            quantities.append(Quantity("from_smallest", f"B*, from B = {compared[0].smallest:g}", counted, ends))
        quantities.append(Quantity("least_loss", "least loss", self.loss, digits=5))
        table = Table(quantities, interval=f"{self.level:.0%}", legend=self._legend(compared, top))
        found = {"critical_batch_size": self.batch_size, "interval": self.interval}
        settings = found | {"max_learning_rate": self.max_learning_rate, "open_because": self.open_because}
        title = f"critical batch size at {100 * self.overhead:.3g}% overhead{unit}"
        return Sheet(title, [table], [self.remark, self._untuned(compared)], settings)

    def _legend(self, compared: Sequence[EqualLoss], top: str) -> str:
        """Return the definition of the B* of the table."""
        if not compared:
            return (
                "The value is that of the fitted theory: the learning rate decays to 0 from a peak that is tuned up "
                f"to {top}. B* grows with this limit."
            )
        sizes = ", ".join(f"{size:g}" for size in compared[0].compared)
        return (
            f"B* is the largest batch size that needs at most {self.overhead:.0%} more samples than vanishing batch "
            f"sizes for the same loss, at the best learning rate of these runs, up to {top}; from runs at batch sizes "
            f"{sizes}. Counted from B = {compared[0].smallest:g} it is what `sgdtheory fit` means by B*."
        )

    def _untuned(self, compared: Sequence[EqualLoss]) -> str:
        """Return the remark on learning rates that were not tuned."""
        if not compared or compared[0].tuned:
            return ""
        return "not every batch size has several learning rates: the interval of B* allows for rates that are not best"


def sheet_of_fit(fit: Any, others: Sequence[LossCurve]) -> Sheet:
    """Return the numbers of a fit with their intervals, and a row for each curve, fitted or held out."""
    numbers = {name: getattr(fit, name) for name in LABELS if getattr(fit, name) is not None}
    labels = LABELS if fit.knows_batch_size else LABELS | {"noise": "noise σ²/B of a batch (loss)"}
    quantities = [Quantity("", labels[name], each.value, each.interval) for name, each in numbers.items()]
    legend = "intervals hold if the losses follow the theory"
    tables = [Table(quantities, interval=f"{fit.level:.0%}", legend=legend)]
    tables += [errors_table(fit, fit.curves)] if fit.curves else []
    tables += [errors_table(fit, others, held_out=True)] if others else []
    settings = {
        "fitted": [curve.name for curve in fit.curves],
        "cut": {curve.name: curve.remark for curve in (*fit.curves, *others) if curve.remark},
        **{name: vars(each) for name, each in numbers.items()},
        "scatter": fit.scatter,
        "not_identified": fit.not_identified,
        "held_out": [],
        "level": fit.level,
    }
    count, rows = len(fit.curves), sum(curve.step.size for curve in fit.curves)
    error = f"the theory is off by {fit.scatter:.2%} (standard deviation of log loss)"
    remarks = [fit.remark, *curve_remarks([*fit.curves, *others])]
    return Sheet(f"{count} curve{'s' * (count != 1)}, {rows} rows: {error}", tables, remarks, settings)


def errors_table(fit: Any, curves: Sequence[LossCurve], *, held_out: bool = False) -> Table:
    """Return a row for each curve: its last loss, and how far off the theory is."""
    errors = np.array([errors_of(fit, curve) for curve in curves]).T
    quantities = [
        Quantity("curve", "curve", [curve.name for curve in curves]),
        Quantity("rows", "rows", [curve.step.size for curve in curves]),
        Quantity("last_step", "last step", [curve.step[-1] for curve in curves]),
        Quantity("last_loss", "loss", [curve.loss[-1] for curve in curves], digits=5),
        Quantity("predicted", "theory", errors[0], digits=5),
        Quantity("r_square", "R²", errors[1], digits=5),
        Quantity("largest_error", "", errors[2]),
        Quantity("", "largest error", [f"{error:.2%}" for error in errors[2]]),
    ]
    name, title = ("held_out", "curves held out") if held_out else ("curves", "curves fitted")
    return Table(quantities, name, title, hidden=["largest_error"])


def errors_of(fit: Any, curve: LossCurve) -> tuple[float, float, float]:
    """Predicted last loss, R² of the curve (nan where its loss is constant), and the largest relative error."""
    predicted = fit.predict_curve(curve).loss
    residual = ((curve.loss - predicted) ** 2).sum()
    spread = ((curve.loss - curve.loss.mean()) ** 2).sum()
    r_square = 1 - residual / spread if spread else np.nan
    return float(predicted[-1]), float(r_square), float(np.abs(predicted / curve.loss - 1).max())
