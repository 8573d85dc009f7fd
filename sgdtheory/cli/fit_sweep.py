"""`sgdtheory fit-sweep`: from a store of runs to the critical batch size, its exponent, and a test of it."""

import shlex
from dataclasses import dataclass
from pathlib import Path
from typing import Annotated, Any, ClassVar

import numpy as np
import tyro
from rich.table import Table

from sgdtheory._common.files import csv_text, write_atomically
from sgdtheory.cli.output import (
    interval_text,
    print_json,
    print_note,
    print_tables,
    require_figure_suffix,
    write_figure,
)
from sgdtheory.cli.settings import Overhead
from sgdtheory.fits import METHODS, Convention, SizeDependence, interpolated_critical_batch_size


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
    """Fields that tell groups apart; the first is the size."""
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
    """|slope| of log B* on log size above which B* is said to move; "holds" excludes it."""
    steps_csv: Path | None = None
    """Write the tuned steps here, in columns that `sgdtheory fit` reads."""
    plot: Path | None = None
    """Write a figure here (.png, .pdf or .svg)."""
    json: bool = False
    """Print JSON; null stands for what is absent, "inf" for what is infinite."""

    def run(self) -> None:
        """Read, tune, fit and print."""
        require_figure_suffix(self.plot)
        from sgdtheory.sweep import SweepTable, conditions, fit_sweep

        table = SweepTable.from_store(self.store).where(**conditions(self.where))
        if not table.finished:
            raise ValueError(
                f"nothing to fit in {self.store}: none of its {len(table.configs)} runs has ended; sweep first"
            )
        targets = self._targets(table)
        options: dict[str, Any] = {name: getattr(self, name) for name in ("edges", "margin", "level")}
        options["convention"] = Convention(self.reference, self.overhead)
        fits = [fit_sweep(table, target_loss=target, by=self.by, **options) for target in targets]
        if self.steps_csv:
            write_atomically(self.steps_csv, _csv(fits))
        if not any(fit.laws for fit in fits):
            raise ValueError(self._nothing(fits))
        by_data = self._by_data(fits)
        notes = [*table.notes, *self._unfinished(table), *(note for fit in fits for note in fit.notes)]
        notes += [self._advice(targets)] if any(fit.tuned.notes() for fit in fits) else []
        if self.plot:
            self._draw(self.plot, fits, by_data)
        report = self._report(fits, by_data) | {"notes": notes}
        if self.json:
            print_json(report)
        else:
            self._print(report)
        for note in notes:
            print_note(note)

    def _targets(self, table: Any) -> list[float]:
        found = self.target_loss or {config.target_loss for config in table.configs} - {None}
        if not found:
            raise ValueError("target-loss must be given: the runs of the store have none of their own")
        return sorted(found, reverse=True)

    def _nothing(self, fits: list[Any]) -> str:
        """Why there is no law to show, and what to do."""
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

    def _by_data(self, fits: list[Any]) -> dict[str, SizeDependence]:
        """Group → how its B* depends on the data that the targets take."""
        from sgdtheory.sweep import data_dependence

        found = {}
        for group in dict.fromkeys(each.group for fit in fits for each in fit.measurements):
            same = [fit for fit in fits if any(each.group == group for each in fit.measurements)]
            if len(same) > 1:
                try:
                    found[group] = data_dependence(same, group, margin=self.margin, level=self.level)
                except ValueError:  # a B* that is not finite; the notes have it
                    continue
        return found

    def _report(self, fits: list[Any], by_data: dict[str, SizeDependence]) -> dict[str, Any]:
        rows, exponents = [], []
        for fit in fits:
            intervals = fit.critical_intervals(self.level)
            for measurement, law, interval in zip(fit.measurements, fit.laws, intervals, strict=True):
                rows.append(self._row(fit, measurement, law) | {"critical_batch_size_interval": interval})
            for dependence in fit.dependence.values():
                where = {"target_loss": fit.tuned.target_loss, "size": self.by[0]}
                exponents.append(where | _exponent(dependence))
        exponents += [{"group": group, "size": "data"} | _exponent(each) for group, each in by_data.items()]
        convention = {"reference": [fit.reference for fit in fits], "overhead": self.overhead}
        convention |= {"margin": self.margin, "level": self.level}
        return {"groups": rows, "exponents": exponents, "convention": convention}

    def _row(self, fit: Any, measurement: Any, law: Any) -> dict[str, Any]:
        row = {"target_loss": fit.tuned.target_loss, "group": measurement.group, "a": law.a, "b": law.b}
        row["batch_sizes"], row["steps"] = measurement.batch_sizes, measurement.steps
        row["critical_batch_size"] = law.critical_batch_size(convention=fit.convention)
        steps = measurement.batch_sizes, measurement.steps
        row["interpolated"] = interpolated_critical_batch_size(*steps, fit.convention)
        return row

    def _print(self, report: dict[str, Any]) -> None:
        level = f"{self.level:.0%}"
        references = ", ".join(f"{value:g}" for value in dict.fromkeys(report["convention"]["reference"]))
        title = f"steps = a + b/B;  B*: {self.overhead:.0%} more data than at B = {references};  {level} intervals"
        laws = Table(title=title)
        for header in ("target loss", "group", "a", "b", "B*", "B*, interpolated"):
            laws.add_column(header, justify="left" if header == "group" else "right")
        for row in report["groups"]:
            ends = row["critical_batch_size_interval"]
            critical = f"{row['critical_batch_size']:.4g} ({interval_text(ends)})"
            numbers = f"{row['a']:.4g}", f"{row['b']:.4g}", critical, f"{row['interpolated']:.4g}"
            laws.add_row(f"{row['target_loss']:g}", row["group"], *numbers)
        margin = f"{self.margin:g}"
        moves = Table(title=f"B* ∝ size^slope; holds: |slope| < {margin} by two one-sided tests; fails: slope ≠ 0")
        for header in ("of", "at", "by", "slope", level, "verdict"):
            moves.add_column(header, justify="right" if header in ("slope", level) else "left")
        for row in report["exponents"]:
            where = row.get("group") or f"loss {row['target_loss']:g}"
            cells = f"{row['slope']:+.3f}", interval_text(row["interval"]), row["verdict"]
            moves.add_row(row["size"], where, row["method"], *cells)
        print_tables(laws, *([moves] if report["exponents"] else []))

    def _bars(self, fits: list[Any], group: str) -> tuple[np.ndarray, np.ndarray]:
        """Ends of the intervals of a group's B* at the targets, as the table has them."""
        found = []
        for fit in fits:
            intervals = fit.critical_intervals(self.level)
            found += [each for one, each in zip(fit.measurements, intervals, strict=True) if one.group == group]
        low, high = np.array(found).T
        return low, high

    def _draw(self, path: Path, fits: list[Any], by_data: dict[str, SizeDependence]) -> None:
        from sgdtheory import plotting

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


def _exponent(dependence: SizeDependence) -> dict[str, Any]:
    return {
        "method": METHODS[dependence.method],
        "slope": dependence.slope,
        "interval": dependence.interval,
        "equivalence_interval": dependence.equivalence_interval,
        "verdict": dependence.verdict,
        "critical_batch_sizes": dependence.critical,
        "sizes": dependence.sizes,
        "scatter": dependence.scatter,
    }


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
