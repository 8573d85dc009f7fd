"""`sgdtheory fit-sweep`: from a store of runs to the critical batch size, its exponent, and a test of it."""

import shlex
from collections.abc import Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, ClassVar

import numpy as np
import tyro

from sgdtheory._common.files import csv_text, write_atomically
from sgdtheory.cli.output import print_sheet, require_figure_suffix, write_figure
from sgdtheory.cli.progress import phases
from sgdtheory.cli.settings import Overhead
from sgdtheory.fits import Convention

if TYPE_CHECKING:
    from sgdtheory.sweep import SweepFits


@dataclass(frozen=True)
class FitSweepCommand:
    """Critical batch sizes from a store of runs: tune, fit a + b/B, and test whether B* depends on the size."""

    FLAG_GROUPS: ClassVar[dict[str, tuple[str, ...]]] = {
        "runs": ("store", "target_loss", "by", "where", "edges"),
        "definition of B* and of the test": ("reference", "overhead", "level", "margin"),
        "output": ("steps_csv", "plot", "json"),
    }

    store: Annotated[Path, tyro.conf.Positional] = Path("runs")
    """Folder of the runs (`sgdtheory sweep`)."""
    target_loss: tuple[float, ...] = ()
    """Losses to reach; by default the runs' own."""
    by: tuple[str, ...] = ("width",)
    """Fields that separate groups; the first is the size."""
    where: tuple[str, ...] = ()
    """Only runs with these fields, as width=32,64 optimizer=adam."""
    edges: bool = False
    """Use batch sizes whose best choice is at an end of the grid too."""
    reference: float | None = None
    """Reference batch size of B*, inside the regime of linear scaling; by default the smallest of the runs."""
    overhead: Overhead = 0.2
    """Extra data, relative to the reference batch size, that defines B*: 0.2 or 20%."""
    level: float = 0.95
    """Level of the confidence intervals."""
    margin: float = 0.2
    """|slope| of log B* on log size above which B* depends on the size; "holds" excludes it."""
    steps_csv: Path | None = None
    """Write the tuned steps here, in columns that `sgdtheory fit` reads."""
    plot: Path | None = None
    """Write a figure here (.png, .pdf or .svg)."""
    json: bool = False
    """Print JSON; null stands for what is absent, "inf" for what is infinite."""

    def run(self) -> None:
        """Read, tune, fit and print."""
        require_figure_suffix(self.plot)
        from sgdtheory.sweep import SweepFits, SweepTable, conditions, fit_sweep

        table = SweepTable.from_store(self.store).where(**conditions(self.where))
        if not table.finished:
            raise ValueError(
                f"nothing to fit in {self.store}: none of its {len(table.configs)} runs has ended; sweep first"
            )
        targets = self._targets(table)
        options: dict[str, Any] = {name: getattr(self, name) for name in ("edges", "margin", "level")}
        options["convention"] = Convention(self.reference, self.overhead)
        with phases("tuning and fitting every group and target"):
            fits = [fit_sweep(table, target_loss=target, by=self.by, **options) for target in targets]
            found = SweepFits(tuple(fits), self.margin, self.level)
            if self.steps_csv:
                write_atomically(self.steps_csv, _csv(fits))
            if not any(fit.laws for fit in fits):
                raise ValueError(self._nothing(fits))
            sheet = found.sheet()
        advice = [self._advice(targets)] if any(fit.tuned.notes() for fit in fits) else []
        if self.plot:
            self._draw(self.plot, found)
        remarks = [*table.notes, *self._unfinished(table), *sheet.remarks, *advice]
        print_sheet(replace(sheet, remarks=remarks), self.json)

    def _targets(self, table: Any) -> list[float]:
        found = self.target_loss or {config.target_loss for config in table.configs} - {None}
        if not found:
            raise ValueError("target-loss must be given: the runs of the store have none of their own")
        return sorted(found, reverse=True)

    def _nothing(self, fits: list[Any]) -> str:
        """Return why no law can be fitted, and the remedy."""
        where = f"nothing to fit in {self.store}"
        points = [point for fit in fits for point in fit.tuned.points]
        tuned = sum(point.tuned for point in points)
        unreached = sum(not point.steps.size for point in points)
        counts = f"of {len(points)} batch sizes {tuned} are tuned, {len(points) - tuned - unreached} have their best "
        counts += f"choice at the grid's end, {unreached} did not reach the target"
        need = "a group needs three tuned batch sizes"
        if not any(fit.tuned.notes() for fit in fits):
            return f"{where}: {need}, it has {tuned}; add batch sizes to the sweep"
        return f"{where}: {need}; {counts}; {self._advice([fit.tuned.target_loss for fit in fits])}"

    def _advice(self, targets: list[float]) -> str:
        """The command that adds what is missing."""
        words = ["sgdtheory", "extend-sweep", str(self.store)]
        words += ["--target-loss", *(f"{target:g}" for target in targets)]
        words += ["--by", *self.by] if self.by != ("width",) else []
        words += ["--where", *self.where] if self.where else []
        return f"to add what is missing and then fit again: {shlex.join(words)}"

    def _unfinished(self, table: Any) -> list[str]:
        number = len(table.configs) - len(table.finished)
        return [f"{number} of {len(table.configs)} runs have not ended: sweep again to finish them"] if number else []

    def _bars(self, fits: Sequence[Any], group: str) -> tuple[np.ndarray, np.ndarray]:
        """Ends of the intervals of a group's B* at the targets, as the table has them."""
        found = []
        for fit in fits:
            intervals = fit.critical_intervals(self.level)
            found += [each for one, each in zip(fit.measurements, intervals, strict=True) if one.group == group]
        low, high = np.array(found).T
        return low, high

    def _draw(self, path: Path, found: "SweepFits") -> None:
        from sgdtheory import plotting

        fits, by_data = found.fits, found.by_data
        dependent = [fit for fit in fits if "law" in fit.dependence]
        figure, axes = plotting.new_figure(1, 1 + bool(dependent) + bool(by_data), width=4.8, height=3.9)
        last = fits[-1]
        if last.measurements:
            title = f"Steps to loss {last.tuned.target_loss:g} leave linear scaling at $B^*$"
            plotting.steps_laws(last.measurements, last.laws, convention=last.convention, title=title, axes=axes[0, 0])
        if dependent:
            size = self.by[0].replace("_", " ")
            curves = {f"loss {fit.tuned.target_loss:g}": fit.dependence["law"] for fit in dependent}
            title = f"Does $B^*$ move with the {size}? margin ±{self.margin:g}"
            plotting.size_dependence(curves, size_label=size, title=title, verdicts=True, axes=axes[0, 1])
        if by_data:
            bars = {group: self._bars(fits, group) for group in by_data}
            title = "$B^*$ against the data to the target"
            label = r"data $D = B_\mathrm{ref}\,Y(B_\mathrm{ref})$ (samples)"
            plotting.size_dependence(by_data, size_label=label, intervals=bars, title=title, axes=axes[0, -1])
        write_figure(figure, path)


def _csv(fits: list[Any]) -> str:
    """Tuned steps, one row a target, group and batch size, in columns that `sgdtheory fit` reads."""
    by = fits[0].tuned.by
    names = list(dict.fromkeys(name for fit in fits for point in fit.tuned.points for name in point.choice))
    header = ["target_loss", *by, "batch_size", "steps", "num_seeds", "tuned", *names]
    rows = []
    for fit in fits:
        for point in fit.tuned.points:
            choice = [point.choice.get(name) for name in names]
            head = [fit.tuned.target_loss, *point.group, point.batch_size, point.mean]
            rows.append([*head, point.steps.size, int(point.tuned), *choice])
    return csv_text(header, rows)
