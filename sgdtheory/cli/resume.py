"""`sgdtheory resume`: go on with a run from its checkpoint, to more steps or a lower target."""

from dataclasses import dataclass
from pathlib import Path
from typing import Annotated, Any, ClassVar

import tyro

from sgdtheory.cli.output import announce_model
from sgdtheory.cli.training_run import RunCommand
from sgdtheory.training import CHECKPOINT_SECONDS


@dataclass(frozen=True, kw_only=True)
class ResumeCommand(RunCommand):
    """Go on with the run in a directory, bit for bit as if it had never stopped.

    With more --max-steps or a lower --target-loss it goes on beyond its end; warm-up, decay and evaluations stay those
    of its first duration.
    """

    FLAG_GROUPS: ClassVar[dict[str, tuple[str, ...]]] = {
        "run": ("directory", "max_steps", "target_loss", "entry_point", "checkpoint_seconds"),
        "several processes": ("distributed", "coordinator", "num_processes", "process_id"),
        "output": ("plot", "json"),
    }

    directory: Annotated[Path, tyro.conf.Positional]
    """Of the run, as sgdtheory train --directory wrote it, or one of a store."""
    max_steps: int | None = None
    """More steps than it had."""
    target_loss: float | None = None
    """A lower loss than it had."""
    entry_point: str | None = None
    """Model of your own that the run trains, module:name. The directory names it too, but runs no code by itself."""
    checkpoint_seconds: float = CHECKPOINT_SECONDS
    """Time between checkpoints."""
    plot: Path | None = None
    """Draw a figure to this .png, .pdf or .svg."""
    json: bool = False
    """Print JSON; null stands for what is absent, "inf" for what is infinite."""

    def train(self, report: Any) -> Any:
        """Go on."""
        from sgdtheory.training import resume

        announce_model(self.entry_point)
        return resume(
            self.directory,
            entry_point=self.entry_point,
            max_steps=self.max_steps,
            target_loss=self.target_loss,
            checkpoint_seconds=self.checkpoint_seconds,
            progress=report,
        )
