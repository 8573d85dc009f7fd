"""Run the experiments: `python -m experiments [--scale quick|full] [--only NAME] [--output results]`."""

import importlib
import sys
import time
from dataclasses import dataclass
from pathlib import Path
from typing import Literal

import tyro
from rich.console import Console
from rich.progress import Progress, SpinnerColumn, TextColumn, TimeElapsedColumn
from rich.table import Table

from experiments.report import write_report
from experiments.results import COLORS, Verdict, write_result

EXPERIMENTS = (
    "theorem7",
    "scaling_laws",
    "simulation_vs_theory",
    "ratio_law",
    "heavy_tails",
    "corollary8",
    "corollary8_simulated",
    "why",
    "overhead_convention",
    "width_limit",
    "learning_rate_transfer",
    "averaging",
    "width_invariance",
    "data_scaling",
    "theory_meets_network",
    "precision",
    "accumulation",
)
# Some minutes together: by name, or at full scale.
LONGER = "learning_rate_transfer", "averaging", "data_scaling", "theory_meets_network", "precision", "accumulation"


@dataclass(frozen=True)
class Arguments:
    """Run the experiments, write their results and print a table of verdicts."""

    scale: Literal["quick", "full"] = "quick"
    """Quick: under eight minutes on two cores, without the six that run by name. Full: all, hours."""
    only: str | None = None
    """Run this experiment alone."""
    output: Path = Path("results")
    """Folder for the results."""


def main() -> int:
    """Exit status: 0, 1 if a claim that should hold fails, 2 on bad input."""
    arguments = tyro.cli(Arguments, prog="python -m experiments")
    if arguments.only is not None and arguments.only not in EXPERIMENTS:
        print(f"experiments: only must be one of {', '.join(EXPERIMENTS)}, got {arguments.only}", file=sys.stderr)
        return 2
    names = tuple(name for name in EXPERIMENTS if arguments.scale == "full" or name not in LONGER)
    names = (arguments.only,) if arguments.only else names
    console = Console()
    verdicts: list[Verdict] = []
    columns = SpinnerColumn(), TextColumn("{task.description}"), TimeElapsedColumn()
    try:
        arguments.output.mkdir(parents=True, exist_ok=True)
        write_report(arguments.output, EXPERIMENTS)  # find out now whether results can be written
        for number, name in enumerate(names, start=1):
            module = importlib.import_module(f"experiments.{name}")
            config = module.SCALES[arguments.scale]
            start = time.perf_counter()
            with Progress(*columns, console=console, transient=True, disable=not console.is_terminal) as progress:
                progress.add_task(f"{name} ({number} of {len(names)})", total=None)
                result = module.run(config)
            write_result(arguments.output / name, config, result)
            verdicts += result.verdicts
            console.print(f"{name}: {time.perf_counter() - start:.1f} s, results in {arguments.output / name}")
        report = write_report(arguments.output, EXPERIMENTS)
    except OSError as error:
        print(f"experiments: cannot write results to {arguments.output}: {error.strerror or error}", file=sys.stderr)
        return 2
    except KeyboardInterrupt:
        print("experiments: interrupted; finished experiments are in place", file=sys.stderr)
        return 130
    _print(console, verdicts)
    console.print(f"report: {report}")
    return int(any(verdict.verdict == "fails" for verdict in verdicts))


def _print(console: Console, verdicts: list[Verdict]) -> None:
    if not console.is_terminal:
        console.width = 160
    table = Table(show_lines=True)
    for header in ("claim", "predicted", "measured", "verdict"):
        table.add_column(header, overflow="fold")
    for verdict in verdicts:
        cells = [f"{v:.4g}" if isinstance(v, float) else str(v) for v in (verdict.predicted, verdict.measured)]
        table.add_row(verdict.claim, *cells, f"[{COLORS[verdict.verdict]}]{verdict.verdict}[/]")
    console.print(table)


if __name__ == "__main__":
    sys.exit(main())
