"""`sgdtheory train`: one network to a target loss, with a live line, checkpoints and a figure."""

from dataclasses import dataclass
from pathlib import Path
from typing import Any

from sgdtheory.cli.network import NetworkCommand
from sgdtheory.cli.output import announce_model
from sgdtheory.cli.training_run import RunCommand
from sgdtheory.training import CHECKPOINT_SECONDS


@dataclass(frozen=True, kw_only=True)
class TrainCommand(NetworkCommand, RunCommand):
    """Train a network to --target-loss or through --max-steps; print its curve, steps to the target and throughput.

    With --directory the run is kept there and survives being killed; sgdtheory resume goes on with it.
    """

    directory: Path | None = None
    """Keep config, checkpoints, curve and result here; a run that is here goes on."""
    checkpoint_seconds: float = CHECKPOINT_SECONDS
    """Time between checkpoints."""

    def train(self, report: Any) -> Any:
        """Train."""
        from sgdtheory.training import train

        announce_model(self.config.value("entry_point"))
        return train(self.config, self.directory, checkpoint_seconds=self.checkpoint_seconds, progress=report)
