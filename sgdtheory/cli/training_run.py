"""Common parts of the commands that train one network: the progress, the answer, and how to go on after Ctrl-C."""

import contextlib
import shlex
from collections.abc import Callable
from pathlib import Path
from typing import Any

from sgdtheory.cli.distributed import DistributedFlags
from sgdtheory.cli.function_command import Drawn
from sgdtheory.cli.output import native_output_on_stderr, print_note
from sgdtheory.cli.progress import phases


def trained(
    train: Callable[[Any], Any], processes: DistributedFlags, directory: Path | None, entry_point: str | None = None
) -> Drawn | None:
    """Train a network, in one process or several, and return what process 0 prints.

    Args:
        train: called with the function that shows how far the run is; returns a TrainResult.
        processes: that train it together.
        directory: where the run is kept, None: nowhere.
        entry_point: of a model of the user's own.
    """
    with native_output_on_stderr() if processes.distributed else contextlib.nullcontext():
        prints = processes.join()
        with phases("compiling") if prints else contextlib.nullcontext() as show:
            result = train(show and (lambda group: show(_progress(group))))

    def end() -> None:
        if result.interrupted:
            if prints:
                print_note(f"interrupted; {_way_on(directory, entry_point)}")
            processes.leave()

    if not prints:
        end()
        return None

    def draw() -> Any:
        from sgdtheory import plotting  # matplotlib is slow to import

        return plotting.loss_curves(result)

    return Drawn(result.sheet(), end, draw)


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
