"""`sgdtheory fit-sweep`: from a store of runs to the critical batch size, its exponent, and a test of it."""

import shlex
from collections.abc import Callable, Sequence
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import tyro

from sgdtheory._common.files import csv_text, write_atomically
from sgdtheory.cli.function_command import Drawn
from sgdtheory.cli.settings import ConventionFlags
from sgdtheory.cli.sweep import STORE
from sgdtheory.fits import Convention

if TYPE_CHECKING:
    from sgdtheory.sweep import SweepTable


def fit_sweep(
    definition: ConventionFlags,
    store: Annotated[Path, tyro.conf.Positional] = STORE,
    target_loss: tuple[float, ...] = (),
    by: tuple[str, ...] = ("width",),
    where: tuple[str, ...] = (),
    edges: bool = False,
    margin: float = 0.2,
    steps_csv: Path | None = None,
    *,
    progress: Callable[[str], None],
) -> Drawn:
    """Critical batch sizes from a store of runs: tune, fit a + b/B, and test whether B* depends on the size.

    Args:
        store: Folder of the runs (`sgdtheory sweep`).
        target_loss: Losses to reach; None: the runs' own.
        by: Fields that separate groups; the first is the size.
        where: Only runs with these fields, as width=32,64 optimizer=adam.
        edges: Use batch sizes whose best choice is at an end of the grid too.
        reference: Reference batch size of B*, in the regime of linear scaling; None: the smallest of the runs.
        margin: |slope| of log B* on log size above which B* depends on the size; "holds" excludes it.
        steps_csv: Write the tuned steps here, in columns that `sgdtheory fit` reads.
    """
    from sgdtheory.sweep import SweepFits, SweepTable, conditions, fit_sweep

    table = SweepTable.from_store(store).where(**conditions(where))
    if not table.finished:
        raise ValueError(f"nothing to fit in {store}: none of its {len(table.configs)} runs has ended; sweep first")
    own = {config.target_loss for config in table.configs if config.target_loss is not None}
    targets = sorted(target_loss or own, reverse=True)
    if not targets:
        raise ValueError("target_loss must be given: the runs of the store have none of their own")
    progress("tuning and fitting every group and target")
    convention = Convention(definition.reference, definition.overhead)
    options: dict[str, Any] = {"edges": edges, "margin": margin, "level": definition.level, "convention": convention}
    fits = [fit_sweep(table, target_loss=target, by=by, **options) for target in targets]
    found = SweepFits(tuple(fits), margin, definition.level)
    if steps_csv:
        write_atomically(steps_csv, _csv(fits))
    advice = _advice(store, targets, by, where)
    if not any(fit.laws for fit in fits):
        raise ValueError(f"nothing to fit in {store}: {_nothing(fits, advice)}")
    sheet = found.sheet()
    remarks = [*table.notes, *_unfinished(table), *sheet.remarks]
    if any(fit.tuned.notes() for fit in fits):
        remarks.append(advice)
    return Drawn(replace(sheet, remarks=remarks), draw=found.plot)


def _nothing(fits: list[Any], advice: str) -> str:
    """Return why no law can be fitted, and the remedy."""
    points = [point for fit in fits for point in fit.tuned.points]
    tuned = sum(point.tuned for point in points)
    unreached = sum(not point.steps.size for point in points)
    need = "a group needs three tuned batch sizes"
    if not any(fit.tuned.notes() for fit in fits):
        return f"{need}, it has {tuned}; add batch sizes to the sweep"
    counts = f"of {len(points)} batch sizes {tuned} are tuned, {len(points) - tuned - unreached} have their best "
    counts += f"choice at the grid's end, {unreached} did not reach the target"
    return f"{need}; {counts}; {advice}"


def _advice(store: Path, targets: Sequence[float], by: tuple[str, ...], where: tuple[str, ...]) -> str:
    """Return the command that adds the runs that are missing."""
    words = ["sgdtheory", "extend-sweep", str(store), "--target-loss", *(f"{target:g}" for target in targets)]
    words += ["--by", *by] if by != ("width",) else []
    words += ["--where", *where] if where else []
    return f"to add what is missing and then fit again: {shlex.join(words)}"


def _unfinished(table: "SweepTable") -> list[str]:
    number = len(table.configs) - len(table.finished)
    return [f"{number} of {len(table.configs)} runs have not ended: sweep again to finish them"] if number else []


def _csv(fits: list[Any]) -> str:
    """Tuned steps, one row a target, group and batch size, in columns that `sgdtheory fit` reads."""
    by = fits[0].tuned.by
    names = list(dict.fromkeys(name for fit in fits for point in fit.tuned.points for name in point.choice))
    header = ["target_loss", *by, "batch_size", "steps", "num_seeds", "tuned", *names]
    rows = []
    for fit in fits:
        for point in fit.tuned.points:
            choice = [point.choice.get(name) for name in names]
            head = [fit.tuned.target_loss, *point.group, point.batch_size, point.mean]
            rows.append([*head, point.steps.size, int(point.tuned), *choice])
    return csv_text(header, rows)
