"""`sgdtheory show-sweep`: what a store of runs holds."""

from dataclasses import dataclass
from pathlib import Path
from typing import Annotated, ClassVar

import tyro

from sgdtheory._common.files import csv_columns, write_atomically
from sgdtheory.cli.sweep_run import STORE, TableCommand


@dataclass(frozen=True, kw_only=True)
class ShowSweepCommand(TableCommand):
    """Print what a store of runs holds, and run nothing."""

    FLAG_GROUPS: ClassVar[dict[str, tuple[str, ...]]] = {
        "runs": ("store", "where"),
        "output": ("csv", "losses", "by", "json"),
    }

    store: Annotated[Path, tyro.conf.Positional] = STORE
    """Folder of the runs."""
    where: tuple[str, ...] = ()
    """Only the runs with these fields, as width=32,64 optimizer=adam."""

    losses: Path | None = None
    """Write the runs' loss curves here, a grid of losses that `sgdtheory fit-grid` reads."""
    by: tuple[str, ...] = ("width",)
    """Fields that tell groups of loss curves apart; the first is the size."""

    def run(self) -> None:
        """Read the store and print."""
        from sgdtheory.sweep import SweepTable, conditions, loss_columns

        table = SweepTable.from_store(self.store).where(**conditions(self.where))
        if self.losses:
            write_atomically(self.losses, csv_columns(loss_columns(table, self.by)))
        self.show(table, self.store)
