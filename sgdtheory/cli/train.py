"""`sgdtheory train`: one network to a target loss, with a live line, checkpoints and a figure."""

import contextlib
import shlex
import sys
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from rich.table import Table

from sgdtheory.cli.distributed import DistributedCommand
from sgdtheory.cli.network import NetworkCommand
from sgdtheory.cli.output import (
    live_line,
    native_output_on_stderr,
    print_json,
    print_note,
    print_tables,
    print_text,
    require_figure_suffix,
    write_figure,
)
from sgdtheory.training.config import CHECKPOINT_SECONDS, TrainConfig

ROWS = 12  # of the curve that are printed


@dataclass(frozen=True, kw_only=True)
class TrainCommand(NetworkCommand, DistributedCommand):
    """Train a network to --target-loss or through --max-steps; print its curve, steps to the target and throughput.

    With --directory the run is kept there and survives being killed; --resume goes on with it, to more --max-steps or a
    lower --target-loss too.
    """

    directory: Path | None = None
    """Keep config, checkpoints, curve and result here; a run that is here goes on."""
    resume: Path | None = None
    """Go on with the run in this directory; only --max-steps and --target-loss may change."""
    checkpoint_seconds: float = CHECKPOINT_SECONDS
    """Time between checkpoints."""

    def run(self) -> None:
        """Train and print; process 0 alone prints."""
        require_figure_suffix(self.plot)
        with native_output_on_stderr() if self.distributed else contextlib.nullcontext():
            first = self.join()
            with live_line("compiling", _progress) if first else contextlib.nullcontext() as report:
                result = self._train(report)
        if first:
            self._show(result)
        if result.interrupted:
            if first:
                print_note(f"interrupted; {self._way_on()}")
            sys.exit(130)

    def _way_on(self) -> str:
        """How a run that Ctrl-C stopped goes on."""
        directory = self.resume or self.directory
        if directory is None:
            return "nothing of it was kept: with --directory a run can go on"
        return f"to go on: sgdtheory train --resume {shlex.quote(str(directory))}"

    def _train(self, report: Any) -> Any:
        from sgdtheory.training.trainer import resume, train

        options = {"checkpoint_seconds": self.checkpoint_seconds, "report": report}
        if self.resume is None:
            return train(self.config, self.directory, **options)
        default = TrainConfig()
        changed = [name for name, value in vars(self.config).items() if value != getattr(default, name)]
        for name in changed:
            if name not in ("max_steps", "target_loss"):
                flag = name.replace("_", "-")
                raise ValueError(f"{flag} cannot change with --resume, which takes it from {self.resume}; leave it out")
        steps = self.max_steps if "max_steps" in changed else None
        return resume(self.resume, max_steps=steps, target_loss=self.target_loss, **options)

    def _show(self, result: Any) -> None:
        if self.plot:
            from sgdtheory import plotting  # matplotlib is slow to import

            write_figure(plotting.loss_curves(result), self.plot)
        if self.json:
            print_json(result.summary() | {"config": result.config.as_fields(), "curve": result.columns()})
            return
        print_tables(_curve_table(result))
        for line in _sentences(result):
            print_text(line)


def _curve_table(result: Any) -> Table:
    columns = {name: column for name, column in result.columns().items() if "gradient" not in name}
    table = Table(title=f"{result.config.model}, width {result.config.width}: {result.num_weights:,} weights")
    for name in columns:
        heading = name.replace("loss_", "loss, τ = " if name[-1].isdigit() else "loss, ").replace("_", " ")
        table.add_column(heading, justify="right")
    rows = list(zip(*columns.values(), strict=True))
    every = max(1, len(rows) // ROWS)
    for row in (row for number, row in enumerate(rows) if number % every == 0 or number == len(rows) - 1):
        table.add_row(f"{row[0]:.0f}", *("—" if value != value else f"{value:.5g}" for value in row[1:]))
    return table


def _sentences(result: Any) -> list[str]:
    best, loss = result.best
    ended = {
        "target": "reached the target",
        "steps": "did all its steps",
        "diverged": "diverged",
        "interrupted": "was interrupted",
    }
    lines = [f"{ended[result.outcome]} at step {result.num_steps}; best loss {loss:.5g} ({best})"]
    if result.config.target_loss is not None:
        steps = ", ".join(f"{name} {'—' if n != n else f'{n:.0f}'}" for name, n in result.steps_to_target.items())
        lines.append(f"steps to loss {result.config.target_loss:g}: {steps}")
    if result.steps_per_second:
        tokens = f", {result.tokens_per_second:.4g} tokens/s" if result.config.model == "transformer" else ""
        lines.append(f"{result.steps_per_second:.4g} steps/s{tokens}, {result.seconds:.1f} s in all")
    return lines


def _progress(group: Any) -> str:
    """How far a run is."""
    run = group.runs[0]
    losses = run.history.losses[-1]
    return (
        f"step {group.step} of {run.config.max_steps}, loss {losses[0]:.4g}, best {min(losses):.4g}"
        f" at {run.history.step}, {group.steps_per_second:.3g} steps/s"
    )
