"""Steps to one loss or to several, interpolated in the logs that a command is given."""

from collections.abc import Sequence
from dataclasses import dataclass, replace
from pathlib import Path

import numpy as np

from sgdtheory._common.sheets import Quantity, Sheet, Table, shared
from sgdtheory.cli.log_flags import LogFlags, remarks_of_logs
from sgdtheory.fits import StepsLaw, StepsMeasurement, fit_steps_law
from sgdtheory.logs import RunEnd, StepsToTarget, TrainingLog, steps_to_target


@dataclass(frozen=True)
class TargetSteps:
    """Steps at several batch sizes to each of several losses."""

    logs: list[TrainingLog]  # that were read
    found: tuple[StepsToTarget, ...]  # of each loss, the steps of the runs

    @property
    def named(self) -> list[tuple[float, StepsMeasurement]]:
        """Return (loss, measurement) of each loss and group; several losses are in the names of the groups."""
        pairs = [(each.target_loss, one) for each in self.found for one in each.measurements]
        if len(self.found) == 1:
            return pairs
        return [(loss, replace(one, group=f"{one.group} loss {loss:g}".strip())) for loss, one in pairs]

    @property
    def measurements(self) -> list[StepsMeasurement]:
        """Return the measurement of each loss and group."""
        return [each for _, each in self.named]

    @property
    def best_runs(self) -> dict[float, RunEnd]:
        """Return the run at each batch size that reaches the lowest loss first."""
        best: dict[float, RunEnd] = {}
        for run in self.found[-1].runs:
            if np.isfinite(run.crossing.step):
                first = best.get(run.batch_size)
                best[run.batch_size] = run if first is None or run.crossing.step < first.crossing.step else first
        return best

    def of_one_group(self) -> list[StepsMeasurement]:
        """Return the measurement of each loss, all of one group of runs; several groups are a ValueError."""
        groups = sorted({one.group for each in self.found for one in each.measurements})
        if len(groups) > 1:
            raise ValueError(f"the logs hold runs of {len(groups)} groups, {', '.join(groups)}: name the logs of one")
        return self.measurements

    def sheet(self) -> Sheet:
        """Return the steps of each run, and the remarks on logs and runs."""
        sheets = [each.sheet() for each in self.found]
        remarks = [*(remark for each in sheets for remark in each.remarks), *remarks_of_logs(self.logs)]
        if len(sheets) == 1:
            return replace(sheets[0], remarks=remarks)
        tables = [each.tables[0] for each in sheets]
        count = len(tables[0].quantities[0].value)
        losses = [each.target_loss for each in self.found for _ in range(count)]
        joined = [
            parts[0]._replace(value=[value for part in parts for value in part.value])
            for parts in zip(*(table.quantities for table in tables), strict=True)
        ]
        title = f"steps to each loss{tables[0].title.removeprefix(f'steps to loss {self.found[0].target_loss:g}')}"
        quantities = [Quantity("target_loss", "loss", losses), *joined]
        return Sheet("", [Table(quantities, "runs", title, hidden=tables[0].hidden)], remarks)


def law_of(measured: StepsMeasurement) -> StepsLaw:
    """Return the law of measured steps."""
    return fit_steps_law(measured.batch_sizes, measured.steps, standard_errors=measured.standard_errors)


def once_for_all(remarks: Sequence[str], groups: Sequence[str]) -> list[str]:
    """Return remarks on groups, of which one that several groups have is said once.

    >>> once_for_all(["loss 3: three batch sizes", "loss 2: three batch sizes", "other"], ["loss 3", "loss 2"])
    ['2 targets: three batch sizes', 'other']
    """
    named = [(next((name for name in groups if each.startswith(f"{name}: ")), ""), each) for each in remarks]
    return shared(((name, each.removeprefix(f"{name}: ") if name else each) for name, each in named), "targets")


def steps_of_logs(flags: LogFlags, paths: Sequence[Path], targets: Sequence[float]) -> TargetSteps:
    """Read logs, and return the steps to each loss, the highest first.

    Raises:
        ValueError: no logs, losses that repeat, or a loss that too few batch sizes reach.
    """
    if not paths:
        raise ValueError("target_loss needs logs: name files or folders")
    if len(set(targets)) < len(targets):
        raise ValueError(f"target_loss must not repeat a loss, got {' '.join(f'{each:g}' for each in targets)}")
    logs, options = flags.read_several(paths)
    ordered = sorted(targets, reverse=True)
    return TargetSteps(logs, tuple(steps_to_target(logs, target_loss=each, **options) for each in ordered))
