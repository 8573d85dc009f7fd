"""`sgdtheory noise-scale`: the gradient noise scale from squared gradient norms in a log."""

from dataclasses import dataclass, replace
from pathlib import Path
from typing import Annotated, ClassVar

import numpy as np
import tyro

from sgdtheory.cli.log_flags import remarks_of_logs
from sgdtheory.cli.output import print_sheet
from sgdtheory.fits import fit_noise_scale


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
        sheet = found.sheet(self.level)
        print_sheet(replace(sheet, remarks=[*sheet.remarks, *remarks]), self.json)

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
