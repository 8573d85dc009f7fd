"""The runs that a sweep lacks: what is not tuned, or did not reach the target, says which."""

from collections.abc import Sequence
from dataclasses import replace

from sgdtheory.sweep.table import SweepTable
from sgdtheory.sweep.tuning import BestSteps, best_steps, cell_of, stopped_above
from sgdtheory.training import ENDING, TrainConfig, TrainResult, extended

LONGER = 2  # times as many steps for runs that did not reach the target


def missing_runs(table: SweepTable, target_loss: float, by: Sequence[str] = ("width",)) -> list[TrainConfig]:
    """The runs to add to a sweep so that it is tuned at a target, as `TunedSteps.notes` asks for; empty if it is.

    >>> import tempfile
    >>> from sgdtheory.sweep import missing_runs, sweep
    >>> from sgdtheory.training import TrainConfig
    >>> shared = {"width": 8, "holdout_size": 32, "averages": (), "max_steps": 200}
    >>> pairs = [(batch, rate) for batch in (4, 8, 16) for rate in (0.01, 0.03, 0.1)]
    >>> configs = [TrainConfig(batch_size=batch, learning_rate=rate, **shared) for batch, rate in pairs]
    >>> with tempfile.TemporaryDirectory() as store:  # doctest: +SKIP
    ...     table = sweep(configs, store)
    >>> more = missing_runs(table, target_loss=1e-9)  # twice as many steps  # doctest: +SKIP
    >>> {config.max_steps for config in more}  # doctest: +SKIP
    {400}

    A value beyond the grid's end is added to the best choice, with every seed. An average is added to all runs of
    its batch size and group that did not diverge, which have to be trained again: an average cannot be had from the end
    of a run. Where the target was not reached, runs get twice as many steps and go on from their checkpoints, unless
    their schedule ends: sweep longer ones of these yourself. Runs that stopped at a higher target go on to
    this one, before anything else is asked for.

    Args:
        table, target_loss, by: as of `best_steps`.

    Raises:
        ValueError: as of `best_steps`.
    """
    if stopped := stopped_above(table.finished, target_loss):
        return [replace(result.config, target_loss=target_loss) for result in stopped]
    cells: dict[tuple, dict[str, TrainResult]] = {}
    for result in table.finished:
        of_cell = cells.setdefault(cell_of(result.config, by), {})
        other = of_cell.setdefault(result.config.trajectory, result)
        of_cell[result.config.trajectory] = max(other, result, key=_observed)
    known = {config.fingerprint for config in table.configs}
    found = {}
    for point in best_steps(table, target_loss=target_loss, by=by).points:
        for config in _of_point(point, list(cells[point.group, point.batch_size].values())):
            if config.fingerprint not in known:
                found[config.fingerprint] = config
    return list(found.values())


def _observed(result: TrainResult) -> tuple[int, int]:
    """How much of its iterates a run shows."""
    return len(result.names), result.num_steps


def _of_point(point: BestSteps, cell: list[TrainResult]) -> list[TrainConfig]:
    """What one batch size of a group lacks."""
    if not point.steps.size:
        endless = [
            each.config for each in cell if each.outcome == "steps" and not isinstance(each.config.schedule, ENDING)
        ]
        return [extended(config, LONGER * config.max_steps, None) for config in endless]
    fields = {name: value for name, value in point.choice.items() if name != "average"}
    best = [each.config for each in cell if all(each.config.value(name) == fields[name] for name in fields)]
    found = []
    for name, value in point.edges.items():
        if name == "average":
            steady = [result.config for result in cell if not result.diverged]
            found += [replace(config, averages=(*config.averages, float(value))) for config in steady]
        else:
            found += [config.with_fields(**{name: float(value)}) for config in best]
    return found
