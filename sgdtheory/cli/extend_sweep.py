"""`sgdtheory extend-sweep`: add to a store the runs that its fit lacks."""

from pathlib import Path
from typing import Annotated, Any

import tyro

from sgdtheory._common.sheets import Sheet
from sgdtheory.cli.function_command import Output
from sgdtheory.cli.sweep_run import STORE, SweepingFlags, output


def extend_sweep(
    sweeping: SweepingFlags,
    store: Annotated[Path, tyro.conf.Positional] = STORE,
    target_loss: tuple[float, ...] = (),
    by: tuple[str, ...] = ("width",),
    where: tuple[str, ...] = (),
    entry_point: str | None = None,
    csv: Path | None = None,
) -> Output:
    """Add to a store what its fit lacks: values beyond the grid's ends, longer runs where the target was missed.

    Args:
        store: Folder of the runs.
        target_loss: Losses to reach; None: the runs' own.
        by: Fields that tell groups apart.
        where: Only the store's runs with these fields, as width=32,64 optimizer=adam.
        entry_point: Model of your own that these runs train, module:name. The store names it too, but runs no code by
            itself.
        csv: Write the table of runs to this CSV file.
    """
    from sgdtheory.sweep import SweepTable, conditions

    table = SweepTable.from_store(store, entry_point=entry_point)
    configs = _missing(table.where(**conditions(where)), target_loss, by)
    if not configs:
        why = "every batch size is tuned, or more of the same would not help"
        return Output(Sheet("", [], answer=f"nothing to add to {store}: {why}"))
    return output(sweeping.sweep(configs, store), store, csv)


def _missing(table: Any, target_loss: tuple[float, ...], by: tuple[str, ...]) -> list[Any]:
    """Return the runs that have not ended, and those that a fit of the table lacks."""
    from sgdtheory.sweep import missing_runs

    targets = target_loss or sorted({config.target_loss for config in table.configs} - {None})
    if not targets:
        raise ValueError("target_loss must be given: the runs of the store have none of their own")
    open_runs = [config for config, result in zip(table.configs, table.results, strict=True) if result is None]
    return [*open_runs, *(config for target in targets for config in missing_runs(table, target, by))]
