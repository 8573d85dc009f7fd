"""`sgdtheory show-sweep`: what a store of runs holds."""

from dataclasses import dataclass
from pathlib import Path
from typing import Annotated, ClassVar

import tyro

from sgdtheory.cli.sweep_run import STORE, TableCommand


@dataclass(frozen=True, kw_only=True)
class ShowSweepCommand(TableCommand):
    """Print what a store of runs holds, and run nothing."""

    FLAG_GROUPS: ClassVar[dict[str, tuple[str, ...]]] = {"runs": ("store", "where"), "output": ("csv", "json")}

    store: Annotated[Path, tyro.conf.Positional] = STORE
    """Folder of the runs."""
    where: tuple[str, ...] = ()
    """Only the runs with these fields, as width=32,64 optimizer=adam."""

    def run(self) -> None:
        """Read the store and print."""
        from sgdtheory.sweep import SweepTable, conditions

        self.show(SweepTable.from_store(self.store).where(**conditions(self.where)), self.store)
