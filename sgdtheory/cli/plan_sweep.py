"""`sgdtheory plan-sweep`: what a sweep will take on this machine, and whether it will decide."""

from pathlib import Path
from typing import Annotated

import tyro

from sgdtheory._common.arguments import positive_number
from sgdtheory._common.sheets import Quantity, Sheet, Table
from sgdtheory.cli.output import announce_models
from sgdtheory.cli.sweep import STORE
from sgdtheory.sweep import Design, Plan, Scatter, pilot_scatter, plan, read_grid
from sgdtheory.training import TrainConfig

FEW = "a verdict needs three widths and three batch sizes, or more"


def plan_sweep(
    grid: Annotated[Path, tyro.conf.Positional],
    store: Path = STORE,
    scatter: float | None = None,
    target_loss: float | None = None,
    margin: float = 0.2,
) -> Sheet:
    """Train nothing: say how many runs, steps and minutes a grid asks for, and how likely it is to decide.

    Args:
        grid: TOML file of the sweep, as of sgdtheory sweep.
        store: Folder of the sweep; finished runs of the same task in it are the pilot, and counted as finished.
        scatter: Scatter of the log steps of one seed; None: that of the pilot, if there is one.
        target_loss: Target loss of the pilot; None: its runs' own.
        margin: Largest |slope| of log B* on log width with which B* counts as constant.
    """
    configs = read_grid(grid)
    announce_models(config.value("entry_point") for config in configs)
    assumed, unknown = _scatter(configs, store, scatter, target_loss)
    found = plan(configs, store, scatter=assumed, margin=margin)
    quantities = [
        Quantity("runs", "runs", found.runs),
        Quantity("finished", f"finished in {store}", found.finished),
        Quantity("steps", "steps left, at most", found.steps),
        Quantity("seconds", "seconds on this machine, if no run reaches its target early", found.seconds, digits=3),
    ]
    tables = [Table(quantities)]
    if assumed is not None and found.verdicts is not None:
        tables.append(_verdicts(found, assumed, margin))
    settings = {
        "scatter": vars(assumed) if assumed else None,
        "verdicts": found.verdicts._asdict() if found.verdicts else None,
        "enough": found.enough._asdict() if found.enough else None,
    }
    remark = unknown or (_design(found.enough) if found.verdicts else FEW)
    return Sheet("what the sweep takes", tables, [remark], settings)


def _scatter(
    configs: list[TrainConfig], store: Path, scatter: float | None, target_loss: float | None
) -> tuple[Scatter | None, str]:
    """Return the scatter to predict with, or why there is none and what to do."""
    if scatter is not None:
        batches = [config.batch_size for config in configs]
        balance = (min(batches) * max(batches)) ** 0.5
        return Scatter(positive_number("scatter", scatter), 0.0, 0.0, balance), ""
    if not store.is_dir():
        return None, f"no verdict is predicted: there are no pilot runs in {store}; train some, or give --scatter 0.05"
    try:
        return pilot_scatter(store, target_loss, like=configs), ""
    except ValueError as error:
        return None, f"no verdict is predicted: {error}; --scatter 0.05 assumes a scatter"


def _verdicts(found: Plan, scatter: Scatter, margin: float) -> Table:
    """Return the table of the scatter and of the probabilities of the sweep's verdicts."""
    assert found.verdicts is not None
    quantities = [
        Quantity("", "scatter of one seed's log steps", scatter.seeds, digits=3),
        Quantity("", "scatter that more seeds do not average away", scatter.rest, digits=3),
        Quantity("", "scatter of log B* between widths", scatter.between, digits=3),
        Quantity("", "b/a of the law a + b/B", scatter.balance, digits=3),
        *(Quantity("", f"verdict {name}", f"{value:.0%}") for name, value in found.verdicts._asdict().items()),
    ]
    title = f"if B* does not move: probability of each verdict (|slope| < {margin:g}, by the law)"
    return Table(quantities, title=title, legend=f"scatter {scatter.source}")


def _design(design: Design | None) -> str:
    """Return the cheapest design that decides."""
    if design is None:
        most = "12 widths, 8 batch sizes and 8 seeds"
        return f"no sweep of up to {most} in these ranges decides four times out of five: take a wider range of widths"
    widths, batches = (", ".join(map(str, each)) for each in (design.widths, design.batch_sizes))
    return (
        f"enough for {design.power:.0%}: widths {widths}; batch sizes {batches}; {design.num_seeds} "
        f"seed{'s' * (design.num_seeds > 1)}"
    )
