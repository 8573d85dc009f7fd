"""`sgdtheory extend-sweep`: add to a store the runs that its fit lacks."""

from dataclasses import dataclass
from pathlib import Path
from typing import Annotated, Any, ClassVar

import tyro

from sgdtheory.cli.output import print_text
from sgdtheory.cli.sweep_run import STORE, SweepingCommand


@dataclass(frozen=True, kw_only=True)
class ExtendSweepCommand(SweepingCommand):
    """Add to a store what its fit lacks: values beyond the grid's ends, longer runs where the target was missed."""

    FLAG_GROUPS: ClassVar[dict[str, tuple[str, ...]]] = {
        "runs": ("store", "target_loss", "by", "where", "entry_point"),
        "how they run": ("cluster", "jobs", "lanes", "checkpoint_seconds"),
        "output": ("csv", "json"),
    }

    store: Annotated[Path, tyro.conf.Positional] = STORE
    """Folder of the runs."""
    target_loss: tuple[float, ...] = ()
    """Losses to reach; by default the runs' own."""
    by: tuple[str, ...] = ("width",)
    """Fields that tell groups apart."""
    where: tuple[str, ...] = ()
    """Only the store's runs with these fields, as width=32,64 optimizer=adam."""
    entry_point: str | None = None
    """Model of your own that these runs train, module:name. The store names it too, but runs no code by itself."""

    def run(self) -> None:
        """Read the store, train what is missing, and print."""
        from sgdtheory.sweep import SweepTable, conditions

        table = SweepTable.from_store(self.store, entry_point=self.entry_point)
        configs = self._missing(table.where(**conditions(self.where)))
        if not configs:
            why = "every batch size is tuned, or more of the same would not help"
            print_text(f"nothing to add to {self.store}: {why}")
            return
        self.show(self.sweep(configs, self.store), self.store)

    def _missing(self, table: Any) -> list[Any]:
        """The runs that have not ended, and those that a fit of the table lacks."""
        from sgdtheory.sweep import missing_runs

        targets = self.target_loss or sorted({config.target_loss for config in table.configs} - {None})
        if not targets:
            raise ValueError("target-loss must be given: the runs of the store have none of their own")
        open_runs = [config for config, result in zip(table.configs, table.results, strict=True) if result is None]
        found = [config for target in targets for config in missing_runs(table, target, self.by)]
        return [*open_runs, *found]
