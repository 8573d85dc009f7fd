"""The runs that a sweep still lacks, from what is not tuned or did not reach the target."""

from collections.abc import Sequence
from dataclasses import replace

from sgdtheory.sweep.table import SweepTable
from sgdtheory.sweep.tuning import BestSteps, best_steps, cells_of, stopped_above
from sgdtheory.training import ENDING, TrainConfig, TrainResult, extended

LONGER = 2  # The max_steps of runs that did not reach the target grow by this factor.


def missing_runs(table: SweepTable, target_loss: float, by: Sequence[str] = ("width",)) -> list[TrainConfig]:
    """List the runs to add to a sweep so that it is tuned at a target, following `TunedSteps.notes`; empty if it is.

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

    Where the best value of a field is at an end of the grid, the value beyond it is added to the best choice, with
    every seed. An average is added to all runs of its batch size and group that did not diverge. These have to be
    trained again, because the last iterate does not determine an average. Runs that did not reach the target get twice
    as many steps and continue from their checkpoints, unless their schedule ends at max_steps; such runs are not
    extended. If any runs stopped at a higher target, only these are returned, with this target.

    Args:
        table, target_loss, by: as for `best_steps`.

    Raises:
        ValueError: as for `best_steps`.
    """
    if stopped := stopped_above(table.finished, target_loss):
        return [replace(result.config, target_loss=target_loss) for result in stopped]
    cells = cells_of(table.finished, by)
    known = {config.fingerprint for config in table.configs}
    missing = {}
    for point in best_steps(table, target_loss=target_loss, by=by).points:
        for config in _missing_at(point, _recorded_most(cells[point.group, point.batch_size])):
            if config.fingerprint not in known:
                missing[config.fingerprint] = config
    return list(missing.values())


def _recorded_most(results: list[TrainResult]) -> list[TrainResult]:
    """Return one of the runs with the same iterates each, the one that records most of them."""
    recorded: dict[str, TrainResult] = {}
    for result in results:
        other = recorded.setdefault(result.config.trajectory, result)
        recorded[result.config.trajectory] = max(other, result, key=lambda each: (len(each.names), each.num_steps))
    return list(recorded.values())


def _missing_at(point: BestSteps, cell: list[TrainResult]) -> list[TrainConfig]:
    """List the runs that one batch size of a group lacks."""
    if not point.steps.size:
        endless = [
            each.config for each in cell if each.outcome == "steps" and not isinstance(each.config.schedule, ENDING)
        ]
        return [extended(config, LONGER * config.max_steps, None) for config in endless]
    fields = {name: value for name, value in point.choice.items() if name != "average"}
    best = [each.config for each in cell if all(each.config.value(name) == fields[name] for name in fields)]
    missing = []
    for name, value in point.edges.items():
        if name == "average":
            steady = [result.config for result in cell if not result.diverged]
            missing += [replace(config, averages=(*config.averages, float(value))) for config in steady]
        else:
            missing += [config.with_fields(**{name: float(value)}) for config in best]
    return missing
