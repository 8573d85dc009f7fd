"""`sgdtheory sweep`: a grid of training runs into a store."""

from dataclasses import dataclass
from pathlib import Path
from typing import Annotated, ClassVar

import tyro

from sgdtheory.cli.sweep_run import STORE, SweepingCommand
from sgdtheory.sweep import read_grid


@dataclass(frozen=True, kw_only=True)
class SweepCommand(SweepingCommand):
    """Train every run of a grid, in a store that keeps what is finished and resumes what is not."""

    FLAG_GROUPS: ClassVar[dict[str, tuple[str, ...]]] = {
        "runs": ("grid", "store"),
        "how they run": ("cluster", "jobs", "lanes", "checkpoint_seconds"),
        "output": ("csv", "json"),
    }

    grid: Annotated[Path, tyro.conf.Positional]
    """TOML file: [fixed] fields of a training run, [grid] lists of values, [[cases.NAME]] fields that go together."""
    store: Path = STORE
    """Folder of the runs."""

    def run(self) -> None:
        """Sweep and print."""
        self.show(self.sweep(read_grid(self.grid), self.store), self.store)
