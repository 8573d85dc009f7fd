"""One run on its way: its config, directory, history, and the state that a checkpoint kept; which can go together."""

from collections.abc import Sequence
from pathlib import Path
from typing import Any

import jax

from sgdtheory.training.checkpoint import (
    read_checkpoint,
    remove_checkpoint,
    write_checkpoint,
    write_config,
    write_result,
)
from sgdtheory.training.config import TrainConfig
from sgdtheory.training.contents import check_contents, write_contents
from sgdtheory.training.engine import State, side_by_side
from sgdtheory.training.history import History
from sgdtheory.training.result import TrainResult


class Run:
    """One run: its config, directory and history, and its state where that was read from a checkpoint.

    With `keep_state=False` nothing but config, curve and result stays in the directory when the run has ended.
    """

    def __init__(self, config: TrainConfig, directory: Path | None, *, keep_state: bool = True):
        self.config, self.directory, self._keep_state = config, directory, keep_state
        self.history = History(config)
        self.state: State | None = None
        self.num_steps = 0
        if directory is None:
            return
        try:
            check_contents(directory, config)
        except ValueError as error:
            raise ValueError(f"{directory} has a run for which {error}; take another directory") from None
        found = read_checkpoint(directory, config)
        if found is not None:
            self.state, history = found
            self.num_steps = int(self.state.step)
            self.history = history.continued(config)
        if not jax.process_index():
            if found is None:
                write_contents(directory, config)
            write_config(directory, config)

    @property
    def ended(self) -> bool:
        """Whether there is nothing left to do."""
        return self.history.outcome is not None

    @property
    def saves_state(self) -> bool:
        """Whether `save` writes the state."""
        return self.directory is not None and (self._keep_state or not self.ended)

    def save(self, state: State | None) -> None:
        """Write a checkpoint, where the state is to be kept, and, if the run has ended, its result."""
        if self.directory is None or jax.process_index():  # one process of several writes
            return
        if state is not None and self.saves_state:
            write_checkpoint(self.directory, state, self.history)
        if self.ended:
            self.save_result()

    def save_result(self) -> None:
        """Write the result alone, of a run whose checkpoint says that it has ended."""
        if self.directory is None:
            return
        write_result(self.directory, self.result())
        if not self._keep_state:
            remove_checkpoint(self.directory)

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
