"""`sgdtheory resume`: go on with a run from its checkpoint, to more steps or a lower target."""

from pathlib import Path
from typing import Annotated

import tyro

from sgdtheory.cli.distributed import DistributedFlags
from sgdtheory.cli.function_command import Drawn
from sgdtheory.cli.output import announce_model
from sgdtheory.cli.training_run import trained
from sgdtheory.training import CHECKPOINT_SECONDS


def resume(
    processes: DistributedFlags,
    directory: Annotated[Path, tyro.conf.Positional],
    max_steps: int | None = None,
    target_loss: float | None = None,
    entry_point: str | None = None,
    checkpoint_seconds: float = CHECKPOINT_SECONDS,
) -> Drawn | None:
    """Go on with the run in a directory, bit for bit as if it had never stopped.

    With more --max-steps or a lower --target-loss it goes on beyond its end; warm-up, decay and evaluations stay those
    of its first duration.

    Args:
        directory: Of the run, as sgdtheory train --directory wrote it, or one of a store.
        max_steps: More steps than it had.
        target_loss: A lower loss than it had.
        entry_point: Model of your own that the run trains, module:name. The directory names it too, but runs no code
            by itself.
        checkpoint_seconds: Time between checkpoints.
    """
    from sgdtheory.training import resume

    announce_model(entry_point)
    options = {"entry_point": entry_point, "max_steps": max_steps, "target_loss": target_loss}
    return trained(
        lambda report: resume(directory, **options, checkpoint_seconds=checkpoint_seconds, progress=report),
        processes,
        directory,
        entry_point,
    )
