"""`sgdtheory fit-rates`: from a grid of losses to the best learning rate in batch size and duration, and its kink."""

from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Annotated

import tyro

from sgdtheory import fits
from sgdtheory.cli.function_command import Drawn, Output
from sgdtheory.cli.log_flags import GridFlags


def fit_rates(
    logs: GridFlags,
    files: Annotated[tuple[Path, ...], tyro.conf.Positional] = (),
    rates_alone: bool = False,
    level: float = 0.95,
    *,
    progress: Callable[[str], None],
) -> Drawn | Output:
    """Best learning rate as a law of batch size and duration, and the critical batch size at its kink.

    Losses stand in a CSV file, or are the ends of logs of runs of any program, files and folders. Each batch size and
    duration needs several learning rates.

    Args:
        files: CSV file with a header, one row a run, an empty loss of a run that diverged; or logs, or folders of them.
        group: Column that separates models, each with a level of learning rates of its own.
        rates_alone: Leave out B* from losses, which is counted from the smallest batch size and from the best one.
        level: Level of the confidence intervals.
    """
    if logs.preview:
        return Output(logs.preview_of(files, "grid"))
    if not files:
        raise ValueError("fit-rates needs a CSV file of losses, or logs: name files or folders")
    losses, remarks = logs.losses(files)
    progress("fitting the law of the best learning rate, and its intervals")
    found = fits.fit_rates(losses, level=level, compare=not rates_alone)
    sheet = found.sheet()
    return Drawn(replace(sheet, remarks=[*sheet.remarks, *remarks]), draw=found.plot)
