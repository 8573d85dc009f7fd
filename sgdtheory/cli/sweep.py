"""`sgdtheory sweep`: a grid of training runs into a store."""

from pathlib import Path
from typing import Annotated

import tyro

from sgdtheory.cli.function_command import Output
from sgdtheory.cli.sweep_run import STORE, SweepingFlags, output
from sgdtheory.sweep import read_grid


def sweep(
    sweeping: SweepingFlags,
    grid: Annotated[Path, tyro.conf.Positional],
    store: Path = STORE,
    csv: Path | None = None,
) -> Output:
    """Train every run of a grid, in a store that keeps what is finished and resumes what is not.

    Args:
        grid: TOML file: [fixed] fields of a training run, [grid] lists of values, [[cases.NAME]] fields that go
            together.
        store: Folder of the runs.
        csv: Write the table of runs to this CSV file.
    """
    return output(sweeping.sweep(read_grid(grid), store), store, csv)
