"""`sgdtheory noise-scale`: the gradient noise scale from squared gradient norms in a log."""

from dataclasses import dataclass
from pathlib import Path
from typing import Annotated, Any, ClassVar

import numpy as np
import tyro
from rich.table import Table

from sgdtheory.cli.log_flags import remarks_of_logs
from sgdtheory.cli.output import interval_text, print_json, print_note, print_tables
from sgdtheory.fits import NoiseScaleFit, fit_noise_scale

WINDOWS = 8  # at most; each has as many rows as the fit asks for
ROWS = 32  # of a window


@dataclass(frozen=True, kw_only=True)
class NoiseScaleCommand:
    """Gradient noise scale tr Σ/‖G‖² along a run, from squared gradient norms at two batch sizes.

    It is not the critical batch size: the guide "From your logs" says how far the two are apart.
    """

    FLAG_GROUPS: ClassVar[dict[str, tuple[str, ...]]] = {
        "log": ("log", "small_norms", "large_norms", "unsquared", "step"),
        "batch sizes": ("small_batch", "large_batch"),
        "output": ("level", "json"),
    }

    log: Annotated[Path, tyro.conf.Positional]
    """CSV file or any other log of one run that `sgdtheory fit-curves` reads."""
    small_norms: str = "small_norm"
    """Column with the squared norm of a micro batch's gradient, or its mean over micro batches."""
    large_norms: str = "large_norm"
    """Column with the squared norm of the whole batch's gradient, before clipping."""
    unsquared: bool = False
    """The columns have norms, not their squares (then of one micro batch: a mean of norms will not do)."""
    step: str | None = None
    """Column with the step; None: guessed."""
    small_batch: float
    """Samples of a micro batch."""
    large_batch: float
    """Samples of the whole batch, over all devices and accumulated micro batches."""
    level: float = 0.95
    """Level of the intervals."""
    json: bool = False
    """Print JSON; null stands for what is absent, "inf" for what is infinite."""

    def run(self) -> None:
        """Read, fit and print."""
        steps, small, large, remarks = self._norms()
        power = 2 if self.unsquared else 1
        found = fit_noise_scale(
            small**power, large**power, small_batch=self.small_batch, large_batch=self.large_batch, steps=steps
        )
        report = self._report(found, remarks)
        if self.json:
            print_json(report)
        else:
            self._print(report)
        for note in report["notes"]:
            print_note(note)

    def _norms(self) -> tuple[np.ndarray, np.ndarray, np.ndarray, list[str]]:
        """(steps, small, large) of the rows that have either, which may differ in steps; remarks of the log."""
        from sgdtheory.logs import read_logs

        columns: list[dict[float, float]] = []
        remarks: list[str] = []
        for name in (self.small_norms, self.large_norms):
            logs = read_logs(self.log, loss=name, step=self.step)  # any column, read in the place of a loss
            if len(logs) != 1:
                runs = ", ".join(each.name for each in logs)
                raise ValueError(f"{self.log} holds {len(logs)} runs ({runs}): give the log of one")
            remarks += remarks_of_logs(logs)
            columns.append(dict(zip(logs[0].step.tolist(), logs[0].loss.tolist(), strict=True)))
        small, large = columns
        steps = sorted(small.keys() | large.keys())
        nowhere = float("nan")
        return (
            np.array(steps),
            np.array([small.get(step, nowhere) for step in steps]),
            np.array([large.get(step, nowhere) for step in steps]),
            list(dict.fromkeys(remarks)),
        )

    def _report(self, found: NoiseScaleFit, remarks: list[str]) -> dict[str, Any]:
        path = found.path(max(1, min(WINDOWS, found.steps.size // ROWS)), self.level)
        notes = [*filter(None, [found.remark]), *remarks]
        if found.left_out:
            notes.append(f"{found.left_out} rows have no norm of one kind and were left out")
        return {
            "noise_scale": found.noise_scale,
            "interval": found.interval(self.level),
            "level": self.level,
            "rows": int(found.steps.size),
            "left_out": found.left_out,
            "squared_gradient": found.squared_gradient,
            "trace": found.trace,
            "drift": found.drift,
            "path": {name: list(values) for name, values in vars(path).items()},
            "notes": notes,
        }

    def _print(self, report: dict[str, Any]) -> None:
        whole = f"{report['noise_scale']:.4g} ({interval_text(report['interval'])}), {report['rows']} rows"
        table = Table(title=f"gradient noise scale: {whole}")
        for name in ("mean step", "noise scale", f"{report['level']:.0%} interval", "‖G‖²", "tr Σ"):
            table.add_column(name, justify="right")
        path = report["path"]
        columns = ("steps", "noise_scale", "low", "high", "squared_gradient", "trace")
        for step, scale, low, high, squared, trace in zip(*(path[name] for name in columns), strict=True):
            table.add_row(f"{step:.0f}", f"{scale:.4g}", interval_text((low, high)), f"{squared:.4g}", f"{trace:.4g}")
        drift = report["drift"]
        table.caption = "" if np.isnan(drift) else f"p = {drift:.2g} if it stood still; in the unit of the batch sizes"
        print_tables(table)
