"""A run in progress, with its config, directory, history and saved state; and groups of runs that advance together."""

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
    """One run: its config, directory and history, and its state if a checkpoint was read.

    With `keep_state=False` only config, curve and result stay in the directory when the run has ended.
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
        checkpoint = read_checkpoint(directory, config)
        if checkpoint is not None:
            self.state, history = checkpoint
            self.num_steps = int(self.state.step)
            self.history = history.continued(config)
        if not jax.process_index():
            if checkpoint is None:
                write_contents(directory, config)
            write_config(directory, config)

    @property
    def ended(self) -> bool:
        """Return whether the run has ended."""
        return self.history.outcome is not None

    @property
    def saves_state(self) -> bool:
        """Return whether `save` writes the state."""
        return self.directory is not None and (self._keep_state or not self.ended)

    def save(self, state: State | None) -> None:
        """Write a checkpoint if the state is to be kept, and the result if the run has ended."""
        if self.directory is None or jax.process_index():  # Only the first of several processes writes.
            return
        if state is not None and self.saves_state:
            write_checkpoint(self.directory, state, self.history)
        if self.ended:
            self.save_result()

    def save_result(self) -> None:
        """Write the result of a run that has ended."""
        if self.directory is None:
            return
        write_result(self.directory, self.result())
        if not self._keep_state:
            remove_checkpoint(self.directory)

    def result(self) -> TrainResult:
        """Return the result of the run so far."""
        return self.history.result(self.num_steps, self.config.network.num_weights)


def group_runs(runs: Sequence[Run], parts: int = 1) -> list[list[Run]]:
    """Group the runs that have not ended by what can advance side by side: the same program, evaluations and step.

    If there are fewer groups than `parts`, each is divided. Otherwise it is not, because each part of a group would
    compile its program again.
    """
    groups: dict[Any, list[Run]] = {}
    for run in runs:
        config = run.config
        if not run.ended:
            at = run.num_steps, run.history.step  # At step 0 some may have been evaluated, and others not.
            groups.setdefault((side_by_side(config), *at), []).append(run)
    pieces = -(-parts // max(1, len(groups)))
    return [group[part::pieces] for group in groups.values() for part in range(min(pieces, len(group)))]
