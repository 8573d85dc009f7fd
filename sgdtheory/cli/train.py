"""`sgdtheory train` and `sgdtheory resume`: one network to a target loss."""

import contextlib
import shlex
from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import Any

from sgdtheory import training
from sgdtheory.cli.distributed import DistributedFlags
from sgdtheory.cli.flags import File
from sgdtheory.cli.function_command import Drawn
from sgdtheory.cli.network import NetworkFlags
from sgdtheory.cli.output import announce_models, print_note
from sgdtheory.cli.progress import phases
from sgdtheory.training import CHECKPOINT_SECONDS


def train(
    network: NetworkFlags,
    processes: DistributedFlags,
    directory: Path | None = None,
    checkpoint_seconds: float = CHECKPOINT_SECONDS,
) -> Drawn | None:
    """Train a network to --target-loss or through --max-steps; print its curve, steps to the target and throughput.

    With --directory the run is kept there and survives being killed; sgdtheory resume goes on with it.

    Args:
        directory: Keep config, checkpoints, curve and result here; a run that is here goes on.
        checkpoint_seconds: Time between checkpoints.
    """
    config = network.config
    run = partial(training.train, config, directory=directory, checkpoint_seconds=checkpoint_seconds)
    return _trained(run, processes, directory, config.value("entry_point"))


def resume(
    processes: DistributedFlags,
    directory: File,
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
    run = partial(
        training.resume,
        directory,
        entry_point=entry_point,
        max_steps=max_steps,
        target_loss=target_loss,
        checkpoint_seconds=checkpoint_seconds,
    )
    return _trained(run, processes, directory, entry_point)


def _trained(
    train: Callable[..., Any], processes: DistributedFlags, directory: Path | None, entry_point: str | None
) -> Drawn | None:
    """Train a network, in one process or several, and return what process 0 prints.

    `train` returns a TrainResult, and its `progress` is the function that shows how far the run is.
    """
    announce_models([entry_point])
    with processes.joined() as prints, phases("compiling") if prints else contextlib.nullcontext() as show:
        result = train(progress=show and (lambda group: show(_progress(group))))

    def end() -> None:
        if result.interrupted:
            if prints:
                print_note(f"interrupted; {_way_on(directory, entry_point)}")
            processes.leave()

    if not prints:
        end()
        return None
    return Drawn(result.sheet(), end, result.plot)


def _way_on(directory: Path | None, entry_point: str | None) -> str:
    """Return how a run that Ctrl-C stopped goes on."""
    if directory is None:
        return "nothing of it was kept: with --directory a run can go on"
    words = ["sgdtheory", "resume", str(directory), *(["--entry-point", entry_point] if entry_point else [])]
    return f"to go on: {shlex.join(words)}"


def _progress(group: Any) -> str:
    """Return how far a run is."""
    run = group.runs[0]
    losses = run.history.losses[-1]
    return (
        f"step {group.step} of {run.config.max_steps}, loss {losses[0]:.4g}, best {min(losses):.4g}"
        f" at {run.history.step}, {group.steps_per_second:.3g} steps/s"
    )
