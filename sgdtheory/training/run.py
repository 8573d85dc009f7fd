"""One run on its way: its config, directory, history, and the state that a checkpoint kept; which can go together."""

from collections.abc import Sequence
from pathlib import Path
from typing import Any

import jax

from sgdtheory.training.checkpoint import read_checkpoint, write_checkpoint, write_config, write_result
from sgdtheory.training.config import TrainConfig
from sgdtheory.training.engine import State, side_by_side
from sgdtheory.training.history import History
from sgdtheory.training.result import TrainResult


class Run:
    """One run: its config, directory and history, and its state where that was read from a checkpoint."""

    def __init__(self, config: TrainConfig, directory: Path | None):
        self.config, self.directory = config, directory
        self.history = History(config)
        self.state: State | None = None
        self.num_steps = 0
        if directory is None:
            return
        found = read_checkpoint(directory, config)
        if found is not None:
            self.state, history = found
            self.num_steps = int(self.state.step)
            self.history = history.continued(config)
        if not jax.process_index():
            write_config(directory, config)

    @property
    def ended(self) -> bool:
        """Whether there is nothing left to do."""
        return self.history.outcome is not None

    def save(self, state: State) -> None:
        """Write a checkpoint and, if the run has ended, its result."""
        if self.directory is not None and not jax.process_index():  # one process of several writes
            write_checkpoint(self.directory, state, self.history)
            if self.ended:
                write_result(self.directory, self.result())

    def save_result(self) -> None:
        """Write the result alone, of a run whose checkpoint says that it has ended."""
        if self.directory is not None:
            write_result(self.directory, self.result())

    def result(self) -> TrainResult:
        """What the run hands back."""
        return self.history.result(self.num_steps, self.config.network.num_weights)


def group_runs(runs: Sequence[Run], parts: int = 1) -> list[list[Run]]:
    """Runs that have not ended by what can advance side by side: one program, one protocol, one step.

    Where there are fewer groups than `parts`, each is divided; not otherwise, for the parts of a group compile its
    program once each.
    """
    groups: dict[Any, list[Run]] = {}
    for run in runs:
        config = run.config
        if not run.ended:
            place = run.num_steps, run.history.step  # at step 0 some may have been evaluated, and others not
            groups.setdefault((side_by_side(config), *place), []).append(run)
    pieces = -(-parts // max(1, len(groups)))
    return [group[part::pieces] for group in groups.values() for part in range(min(pieces, len(group)))]
