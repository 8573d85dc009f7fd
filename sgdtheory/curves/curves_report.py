"""Report on loss curves: the fit of one model, the errors of each curve, and the critical batch size."""

from dataclasses import dataclass, replace

from sgdtheory._common.sheets import Sheet
from sgdtheory._common.shown import Shown
from sgdtheory.curves.curves_fit import CurvesFit
from sgdtheory.curves.fit_sheet import CurvesCriticalBatchSize
from sgdtheory.curves.loss_curve import LossCurve


@dataclass(frozen=True, eq=False)
class CurvesReport(Shown):
    """The fit of one model's loss curves, the errors of each curve, and B*.

    Attributes:
        fit: the numbers of the theory.
        critical: B* of the fit.
        held_out: curves that were predicted and not fitted.
    """

    fit: CurvesFit
    critical: CurvesCriticalBatchSize
    held_out: tuple[LossCurve, ...] = ()

    def sheet(self) -> Sheet:
        """Return B*, the numbers of the fit and a row for each curve; the group stands before title and remarks."""
        group = self.fit.curves[0].group if self.fit.curves else ""
        before = f"{group}: " if group else ""
        fitted, critical = self.fit.sheet(self.held_out), self.critical.sheet()
        sizes = [replace(table, title=critical.title) for table in critical.tables]
        numbers = [replace(table, title=table.title or fitted.title) for table in fitted.tables]
        remarks = [before + remark for remark in (*fitted.remarks, *critical.remarks) if remark]
        settings = {"group": group, **fitted.settings, **critical.settings}
        return Sheet(before + self.critical.answer, [*numbers, *sizes], remarks, settings)
