"""`sgdtheory forecast`: where a run under way will end, from its log, once or as it grows."""

import dataclasses
import tempfile
import time
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any, ClassVar

import numpy as np

from sgdtheory import curves as loss_curves
from sgdtheory._common.sheets import Sheet
from sgdtheory.algorithms import Shape, algorithm_settings, make_algorithm
from sgdtheory.cli.flags import File
from sgdtheory.cli.function_command import OWN, Drawn, Progress
from sgdtheory.cli.growing_files import versions, whole_lines
from sgdtheory.cli.log_flags import CurveFlags
from sgdtheory.cli.log_optimizer import UnknownOptimizerError
from sgdtheory.cli.output import print_note
from sgdtheory.curves import LossCurve
from sgdtheory.logs import TrainingLog

SECONDS = 2.0  # A log that grows is read again after this many seconds.
RECENT = 10  # The distance of so many last rows says whether another row will come.
SHAPES = "constant", "cosine", "linear", "wsd"  # The names of these schedules are parts of the names that logs have.


@dataclass(frozen=True, kw_only=True)
class RunFlags(CurveFlags):
    """The flags of a run under way, whose log they name."""

    FLAG_GROUPS: ClassVar[dict[str, tuple[str, ...]]] = {
        OWN: ("log", "num_steps", "schedule", "run_name", "also", "level"),
        **CurveFlags.FLAG_GROUPS,
    }

    log: File
    """Log of the run, of any format that fit-curves reads."""
    num_steps: int | None = None
    """Number of steps of the whole run; None: as the log says."""
    schedule: str | None = None
    """Its learning rates by name, "cosine final=0.1" or "wsd decay=0.2 power=0.5" (1 − √); None: as the log says, or as
    they are now."""
    run_name: str | None = None
    """Which run of a log that holds several; the others are fitted with it."""
    also: tuple[Path, ...] = ()
    """Logs of other runs of the same model, to be fitted with it: several curves determine the numbers better."""
    level: float = 0.95
    """Level of the band."""

    def sheet(self, found: "loss_curves.Forecast", curves: list[LossCurve], log: TrainingLog) -> Sheet:
        """Return the sheet of the forecast, with remarks on the optimizer and on the other curves."""
        sheet = found.sheet()
        taken = [*self.taken_optimizer([log]).notes, *self.taken_weight_decay([log])[1]]
        others = [*taken, *loss_curves.curve_remarks(curves[:-1])]
        return dataclasses.replace(sheet, remarks=[*sheet.remarks, *others])

    def followed(self) -> Iterator[Drawn]:
        """Yield a forecast for each version of the log; each note is printed once, after the line that it is about."""
        if not self.log.exists():
            print_note(f"waiting for {self.log}, which does not exist yet (Ctrl-C ends)")
        printed: set[str] = set()
        shown = None  # step of the last line
        for _ in versions(self.log, lambda: time.sleep(SECONDS)):
            try:
                curves, log = self._read_whole_lines()
                run = curves[-1]
                apart = float(np.median(np.diff(run.step[-RECENT:])))
                if run.step[-1] + apart >= self._steps(log.settings):  # no further row is to be expected
                    print_note(f"the run has ended at step {run.step[-1]:,.0f}, loss {run.loss[-1]:.4g}")
                    return
                found = self.forecast(curves, log)
            except UnknownOptimizerError:  # No later line will say it.
                raise
            except (ValueError, OSError) as error:
                notes = [f"waiting: {error}"]
            else:
                sheet = self.sheet(found, curves, log)
                notes = sheet.notes
                if found.step != shown:
                    early = f"; too early: {found.too_early}" if found.too_early else ""
                    line = f"step {found.step:,}: {found.line}{early}"
                    yield Drawn(dataclasses.replace(sheet, title=line), draw=found.plot)
                shown = found.step
            for note in notes:
                if note not in printed:
                    print_note(note)
                printed.add(note)

    def _read_whole_lines(self) -> tuple[list[LossCurve], TrainingLog]:
        """Read the log without a line that is being written."""
        with tempfile.TemporaryDirectory() as folder:
            log = whole_lines(self.log, Path(folder))
            try:
                return self.read(log)
            except ValueError as error:
                raise ValueError(str(error).replace(str(log), str(self.log))) from None

    def read(self, log: Path) -> tuple[list[LossCurve], TrainingLog]:
        """Return the curves, the run last, and its log."""
        runs = self.read_runs([log])
        curves = [curve for _, curve in runs]
        if len(curves) > 1 and self.run_name is None:
            names = ", ".join(curve.name for curve in curves)
            raise ValueError(f"--run-name must say which run of {log} is meant: {names}")
        logs = {each.name: each for each, _ in runs}
        others = [curve for _, curve in self.read_runs(self.also)] if self.also else []
        curves = loss_curves.run_last(curves, self.run_name)
        return [*others, *curves], logs[curves[-1].name]

    def _steps(self, settings: Mapping[str, Any]) -> int:
        steps = self.num_steps or settings.get("num_steps")
        if not steps:
            raise ValueError("--num-steps must be given: the log does not say how long the run is")
        return int(steps)

    def forecast(self, curves: list[LossCurve], log: TrainingLog) -> "loss_curves.Forecast":
        """Return the forecast of the run, which is the last curve."""
        settings = log.settings
        steps = self._steps(settings)
        return loss_curves.forecast_loss(
            curves,
            num_steps=steps,
            schedule=self._shape(curves[-1], settings, steps),
            weight_decay=self.taken_weight_decay([log])[0],
            optimizer=self.taken_optimizer([log]).optimizer,
            level=self.level,
        )

    def _shape(self, run: LossCurve, settings: Mapping[str, Any], steps: int) -> Shape | None:
        """Return the schedule, with the warm-up of the run where it names none."""
        text = self.schedule
        if text is None:
            logged = str(settings.get("schedule", "")).lower()
            text = next((name for name in SHAPES if name in logged), None)
            if text == "wsd" and settings.get("decay_style") == "minus_sqrt":  # 1 − √x in logs of Megatron-LM
                text = "wsd power=0.5"
        if text is None:
            return None
        shape = make_algorithm(algorithm_settings(text)).schedule
        warmup = max(loss_curves.after_warmup(run).warmup, float(settings.get("warmup") or 0.0)) / steps
        if getattr(shape, "warmup", None) != 0.0 or not 0 < warmup < 1:
            return shape
        return dataclasses.replace(shape, warmup=warmup)  # pyright: ignore[reportCallIssue]


def forecast(progress: Progress, run: RunFlags, follow: bool = False) -> Drawn | Iterator[Drawn]:
    """The final loss of a run under way, with a band, from its log and the learning rates that are planned.

    The theory's numbers start from those of public language models and follow the log as it grows. What the run has not
    shown yet, such as the gain of a decay, makes the band wide; a line then says that it is too early.

    Args:
        follow: Stay, and print a line (with --json an object) each time the log has grown, up to the end of the run or
            Ctrl-C.
    """
    if follow:
        return run.followed()
    progress("forecasting the run")
    curves, read = run.read(run.log)
    found = run.forecast(curves, read)
    return Drawn(run.sheet(found, curves, read), draw=found.plot)
