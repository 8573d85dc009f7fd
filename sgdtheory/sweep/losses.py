"""The loss curves of a sweep as a grid of losses, for `fit_loss_grid`: no target has to be chosen beforehand."""

from collections.abc import Sequence
from typing import Any

import numpy as np

from sgdtheory._common.arguments import checked_name
from sgdtheory.sweep.table import SweepTable, varying
from sgdtheory.sweep.tuning import ASIDE, SEEDS, cells_of
from sgdtheory.training import FIELDS, TrainResult


def loss_columns(table: SweepTable, by: Sequence[str] = ("width",)) -> dict[str, list[Any]]:
    """Make columns for `fit_loss_grid` from the curves of a sweep's runs, one row per point of a curve.

    The loss is the lowest of the iterate's and the averages' losses at that step. Each group and batch size has the
    steps at which all its runs were evaluated. All curves therefore end where the first run stopped at its target, as
    the best learning rate would be missing from there on. A run that diverged has an infinite loss afterwards. With
    several workers the batch size is that of all workers, K B.

    >>> import tempfile
    >>> import sgdtheory as st
    >>> from sgdtheory.sweep import loss_columns, sweep
    >>> from sgdtheory.training import TrainConfig
    >>> shared = {"width": 8, "holdout_size": 32, "averages": (), "max_steps": 200}
    >>> pairs = [(batch, rate) for batch in (4, 8, 16) for rate in (0.01, 0.03, 0.1)]
    >>> configs = [TrainConfig(batch_size=batch, learning_rate=rate, **shared) for batch, rate in pairs]
    >>> with tempfile.TemporaryDirectory() as store:  # doctest: +SKIP
    ...     table = sweep(configs, store)
    >>> grid = st.fit_loss_grid(loss_columns(table), edges=True)  # doctest: +SKIP
    >>> grid.groups[0].batch_sizes  # doctest: +SKIP
    array([ 4.,  8., 16.])

    Args:
        table: table of a sweep.
        by: fields that distinguish groups; the first, if it is a number, is their size.

    Raises:
        ValueError: if a field is unknown, no run has ended, or a field varies besides the batch size, the learning
            rate, the seed and those in `by`.
    """
    by = tuple(checked_name("by", name, FIELDS) for name in by)
    results = table.finished
    if not results:
        raise ValueError("table must have runs that have ended, got none: sweep first")
    for name in varying([result.config for result in results]):
        if name not in (*by, *SEEDS, *ASIDE, "batch_size", "learning_rate"):
            raise ValueError(
                f"{name} varies between the runs, but a grid only has learning rates: add it to by, or filter runs "
                "(--where FIELD=VALUE)"
            )
    cells = cells_of(results, by)
    names = ["batch_size", "samples", "learning_rate", "loss", "group", "size", "seed"]
    sized = all(group and isinstance(group[0], int | float) for group, _ in cells)
    names = names if sized else [name for name in names if name != "size"]
    columns: dict[str, list[Any]] = {name: [] for name in names}
    for (group, batch_size), runs in cells.items():
        batch_size *= runs[0].config.num_workers
        shared = {"batch_size": batch_size, "group": ", ".join(f"{k} {v}" for k, v in zip(by, group, strict=True))}
        shared |= {"size": group[0]} if sized else {}
        steps = _common_steps(runs)
        for run in runs:
            seed = " ".join(str(run.config.value(name)) for name in SEEDS)
            for step, loss in zip(steps, _losses(run, steps), strict=True):
                row = {**shared, "samples": batch_size * step, "loss": loss, "seed": seed}
                row["learning_rate"] = run.config.learning_rate
                for name in names:
                    columns[name].append(row[name])
    return columns


def _common_steps(runs: Sequence[TrainResult]) -> list[int]:
    """List the steps from 1 on at which all runs that did not diverge were evaluated."""
    ended = [run for run in runs if not run.diverged] or list(runs)
    common = set.intersection(*(set(run.steps.tolist()) for run in ended))
    return sorted(common - {0})


def _losses(run: TrainResult, steps: Sequence[int]) -> list[float]:
    """Return the lowest of a run's losses at each of these steps; inf after it diverged."""
    with np.errstate(invalid="ignore"):
        lowest = np.nanmin(np.where(np.isnan(run.losses), np.inf, run.losses), axis=1)
    at = dict(zip(run.steps.tolist(), lowest.tolist(), strict=True))
    return [at.get(step, float("inf")) for step in steps]
