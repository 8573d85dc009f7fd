"""What the commands that train one network share: the live line, the way on after Ctrl-C, and what they print."""

import contextlib
import shlex
import sys
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

from rich.table import Table

from sgdtheory.cli.distributed import DistributedFlags
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

ROWS = 12  # of the curve that are printed


@dataclass(frozen=True, kw_only=True)
class RunCommand(DistributedFlags):
    """A command that trains one network."""

    if TYPE_CHECKING:
        directory: Path | None
        entry_point: str | None
        plot: Path | None
        json: bool

    def train(self, report: Any) -> Any:
        """The run's result; `report` is called as it goes."""
        raise NotImplementedError

    def run(self) -> None:
        """Train and print; process 0 alone prints."""
        require_figure_suffix(self.plot)
        with native_output_on_stderr() if self.distributed else contextlib.nullcontext():
            first = self.join()
            with live_line("compiling", _progress) if first else contextlib.nullcontext() as report:
                result = self.train(report)
        if first:
            show_result(result, self.plot, as_json=self.json)
        if result.interrupted:
            if first:
                print_note(f"interrupted; {self._way_on()}")
            sys.exit(130)

    def _way_on(self) -> str:
        """How a run that Ctrl-C stopped goes on."""
        if self.directory is None:
            return "nothing of it was kept: with --directory a run can go on"
        words = ["sgdtheory", "resume", str(self.directory)]
        words += ["--entry-point", self.entry_point] if self.entry_point else []
        return f"to go on: {shlex.join(words)}"


def show_result(result: Any, plot: Path | None, *, as_json: bool) -> None:
    """Draw the curve if asked to, and print the result."""
    if plot:
        from sgdtheory import plotting  # matplotlib is slow to import

        write_figure(plotting.loss_curves(result), plot)
    if as_json:
        print_json(result.summary() | {"config": result.config.as_fields(), "curve": result.columns()})
        return
    print_tables(_curve_table(result))
    for line in _sentences(result):
        print_text(line)


def _curve_table(result: Any) -> Table:
    columns = {name: column for name, column in result.columns().items() if "gradient" not in name}
    table = Table(title=f"{result.config.value('model')}, width {result.config.width}: {result.num_weights:,} weights")
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
        on_text = result.config.data.kind == "tokens"
        tokens = f", {result.tokens_per_second:.4g} tokens/s" if on_text else ""
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
