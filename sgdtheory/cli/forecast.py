"""`sgdtheory forecast`: where a run under way will end, from its log, once or as it grows."""

import dataclasses
import tempfile
import time
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, ClassVar

import numpy as np
import tyro

from sgdtheory._common.sheets import Sheet
from sgdtheory.algorithms import Shape, algorithm_settings, make_algorithm
from sgdtheory.cli.following import versions, whole_lines
from sgdtheory.cli.log_flags import LOG_GROUPS, LogFlags
from sgdtheory.cli.output import print_json_line, print_note, print_sheet, require_figure_suffix, write_figures
from sgdtheory.cli.progress import phases

if TYPE_CHECKING:
    from sgdtheory.curves import Forecast, LossCurve

SECONDS = 2.0  # between looks at a log that grows
RECENT = 10  # rows that say how far apart they are
SHAPES = "constant", "cosine", "linear", "wsd"  # whose names stand in what logs call their schedules


@dataclass(frozen=True, kw_only=True)
class ForecastCommand(LogFlags):
    """The final loss of a run under way, with a band, from its log and the learning rates that are planned.

    The theory's numbers start from those of public language models and follow the log as it grows. What the run has not
    shown yet, such as the gain of a decay, makes the band wide; a line then says that it is too early.
    """

    FLAG_GROUPS: ClassVar[dict[str, tuple[str, ...]]] = {
        "run": ("log", "num_steps", "schedule", "run_name", "also"),
        "training": ("weight_decay", "optimizer"),
        **LOG_GROUPS,
        "output": ("follow", "level", "plot", "json"),
    }

    log: Annotated[Path, tyro.conf.Positional]
    """Log of the run, of any format that fit-curves reads."""
    num_steps: int | None = None
    """Number of steps of the whole run; None: as the log says."""
    schedule: str | None = None
    """Its learning rates by name, "cosine final=0.1" or "wsd decay=0.2"; None: as the log says, or as they are now."""
    run_name: str | None = None
    """Which run of a log that holds several; the others are fitted with it."""
    also: tuple[Path, ...] = ()
    """Logs of other runs of the same model, to be fitted with it: several curves determine the numbers better."""
    weight_decay: float | None = None
    """Weight decay of AdamW; None: as the log says, or none."""
    follow: bool = False
    """Stay, and print a line each time the log has grown, up to the end of the run or Ctrl-C."""
    level: float = 0.95
    """Level of the band."""
    plot: Path | None = None
    """Draw the run and its band to this .png, .pdf or .svg."""
    json: bool = False
    """Print JSON, with --follow an object a line; null stands for what is absent, "inf" for what is infinite."""

    def run(self) -> None:
        """Forecast and print, once or again and again."""
        require_figure_suffix(self.plot)
        if self.preview:
            self.print_preview([self.log, *self.also])
        elif self.follow:
            self._follow()
        else:
            with phases("forecasting the run"):
                curves, settings = self._read()
                found = self._forecast(curves, settings)
            if self.plot:
                write_figures(found.plot(), self.plot)
            print_sheet(self._sheet(found, curves, settings), self.json)

    def _sheet(self, found: "Forecast", curves: "list[LossCurve]", settings: dict[str, Any]) -> Sheet:
        """Return the sheet of the forecast, with remarks on the optimizer and on the other curves."""
        from sgdtheory.curves import curve_remarks

        sheet = found.sheet()
        others = [*self.taken_optimizer([settings]).notes, *curve_remarks(curves[:-1])]
        return dataclasses.replace(sheet, remarks=[*sheet.remarks, *others])

    def _follow(self) -> None:
        """A line for each version of the log; what cannot be forecast yet is a note, once."""
        if not self.log.exists():
            print_note(f"waiting for {self.log}, which does not exist yet (Ctrl-C ends)")
        printed: set[str] = set()
        shown = None  # step of the last line
        for _ in versions(self.log, lambda: time.sleep(SECONDS)):
            try:
                curves, settings = self._read_whole_lines()
                if self._ended(curves[-1], settings):
                    run = curves[-1]
                    print_note(f"the run has ended at step {run.step[-1]:,.0f}, loss {run.loss[-1]:.4g}")
                    return
                found = self._forecast(curves, settings)
            except (ValueError, OSError) as error:
                notes = [f"waiting: {error}"]
            else:
                sheet = self._sheet(found, curves, settings)
                notes = sheet.notes
                if found.step != shown:
                    self._print_line(found, sheet)
                shown = found.step
            for note in notes:
                if note not in printed:
                    print_note(note)
                printed.add(note)

    def _read_whole_lines(self) -> "tuple[list[LossCurve], dict[str, Any]]":
        """The log without a line that is being written."""
        with tempfile.TemporaryDirectory() as folder:
            log = whole_lines(self.log, Path(folder))
            try:
                return dataclasses.replace(self, log=log)._read()
            except ValueError as error:
                raise ValueError(str(error).replace(str(log), str(self.log))) from None

    def _read(self) -> "tuple[list[LossCurve], dict[str, Any]]":
        """Curves, the run last, and the settings that its log has."""
        from sgdtheory.curves import run_last

        runs = self.read_runs([self.log])
        curves = [curve for _, curve in runs]
        if len(curves) > 1 and self.run_name is None:
            names = ", ".join(curve.name for curve in curves)
            raise ValueError(f"run-name must say which run of {self.log} is meant: {names}")
        settings = {log.name: log.settings for log, _ in runs}
        others = self.read_curves(self.also) if self.also else []
        curves = run_last(curves, self.run_name)
        return [*others, *curves], dict(settings.get(curves[-1].name, {}))

    def _steps(self, settings: dict[str, Any]) -> int:
        steps = self.num_steps or settings.get("num_steps")
        if not steps:
            raise ValueError("num-steps must be given: the log does not say how long the run is")
        return int(steps)

    def _ended(self, run: "LossCurve", settings: dict[str, Any]) -> bool:
        """Return whether no further row is to be expected."""
        apart = float(np.median(np.diff(run.step[-RECENT:])))
        return bool(run.step[-1] + apart >= self._steps(settings))

    def _forecast(self, curves: "list[LossCurve]", settings: dict[str, Any]) -> "Forecast":
        from sgdtheory.curves import forecast_loss

        steps = self._steps(settings)
        decay = self.weight_decay if self.weight_decay is not None else settings.get("weight_decay")
        return forecast_loss(
            curves,
            num_steps=steps,
            schedule=self._shape(curves[-1], settings, steps),
            weight_decay=float(decay) if decay else None,
            optimizer=self.taken_optimizer([settings]).optimizer,
            level=self.level,
        )

    def _shape(self, run: "LossCurve", settings: dict[str, Any], steps: int) -> Shape | None:
        """The schedule, with the warm-up of the run where it names none."""
        from sgdtheory.curves import after_warmup

        text = self.schedule
        if text is None:
            told = str(settings.get("schedule", "")).lower()
            text = next((name for name in SHAPES if name in told), None)
        if text is None:
            return None
        shape = make_algorithm(algorithm_settings(text)).schedule
        warmup = max(after_warmup(run).warmup, float(settings.get("warmup") or 0.0)) / steps
        if getattr(shape, "warmup", None) != 0.0 or not 0 < warmup < 1:
            return shape
        return dataclasses.replace(shape, warmup=warmup)  # pyright: ignore[reportCallIssue]

    def _print_line(self, found: "Forecast", sheet: Sheet) -> None:
        if self.plot:
            write_figures(found.plot(), self.plot)
        if self.json:
            print_json_line(sheet.json())
        else:
            early = f"; too early: {found.too_early}" if found.too_early else ""
            print(f"step {found.step:,}: {found.line}{early}", flush=True)
