"""`sgdtheory show-sweep`: the runs that a store holds."""

from pathlib import Path
from typing import Annotated

import tyro

from sgdtheory._common.files import csv_columns, write_atomically
from sgdtheory.cli.function_command import Output
from sgdtheory.cli.sweep_run import STORE, output


def show_sweep(
    store: Annotated[Path, tyro.conf.Positional] = STORE,
    where: tuple[str, ...] = (),
    csv: Path | None = None,
    losses: Path | None = None,
    by: tuple[str, ...] = ("width",),
) -> Output:
    """Print the runs that a store holds, and train nothing.

    Args:
        store: Folder of the runs.
        where: Only the runs with these fields, as width=32,64 optimizer=adam.
        csv: Write the table of runs to this CSV file.
        losses: Write the runs' loss curves to this CSV file, a grid of losses that `sgdtheory fit-grid` reads.
        by: Fields that tell groups of loss curves apart; the first is the size.
    """
    from sgdtheory.sweep import SweepTable, conditions, loss_columns

    table = SweepTable.from_store(store).where(**conditions(where))
    if losses:
        write_atomically(losses, csv_columns(loss_columns(table, by)))
    return output(table, store, csv)
