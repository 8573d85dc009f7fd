"""`python -m experiments`: run, write, say how far it is, and print a table of verdicts."""

import importlib
import sys
import time
from dataclasses import dataclass
from pathlib import Path
from typing import Literal

import tyro

from experiments._lib.display import Display
from experiments._lib.interruption import finishing, interruptible
from experiments._lib.processes import WorkerError
from experiments._lib.report import write_report
from experiments._lib.results import Verdict, write_result
from experiments._lib.schedule import EXPERIMENTS, LONGER


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
    """Exit status: 0, 1 if a claim that should hold fails, 2 on bad input, 130 on Ctrl-C."""
    arguments = tyro.cli(Arguments, prog="python -m experiments")
    if arguments.only is not None and arguments.only not in EXPERIMENTS:
        print(f"experiments: only must be one of {', '.join(EXPERIMENTS)}, got {arguments.only}", file=sys.stderr)
        return 2
    names = tuple(name for name in EXPERIMENTS if arguments.scale == "full" or name not in LONGER)
    names = (arguments.only,) if arguments.only else names
    try:
        verdicts = _run(arguments, names)
    except WorkerError as error:
        print(f"experiments: {error}", file=sys.stderr)
        return 2
    except OSError as error:
        print(f"experiments: cannot write results to {arguments.output}: {error.strerror or error}", file=sys.stderr)
        return 2
    return int(any(verdict.verdict == "fails" for verdict in verdicts))


def _run(arguments: Arguments, names: tuple[str, ...]) -> list[Verdict]:
    """Run the experiments `names` one after the other, and print what they found."""
    display = Display(names, arguments.scale)
    verdicts: list[Verdict] = []
    kept: list[str] = []

    def interrupted() -> str:
        place = f"interrupted in {names[len(kept)]}" if len(kept) < len(names) else "interrupted at the end"
        what = f"finished and kept: {', '.join(kept)}" if kept else "no experiment had finished"
        return f"{place}; {what}" + (f"; report: {arguments.output / 'report.md'}" if kept else "")

    with interruptible(interrupted):
        arguments.output.mkdir(parents=True, exist_ok=True)
        with finishing():
            report = write_report(arguments.output)  # find out now whether results can be written
        display.start()
        try:
            for name in names:
                start = time.perf_counter()
                with display.running(name):
                    module = importlib.import_module(f"experiments.{name}")
                    config = module.SCALES[arguments.scale]
                    result = module.run(config)
                    write_result(arguments.output / name, config, result, lambda name=name: kept.append(name))
                verdicts += result.verdicts
                display.finished(name, result.verdicts, time.perf_counter() - start)
        finally:
            with finishing():
                write_report(arguments.output)
        display.table(verdicts)
        display.line(f"report: {report}")
    return verdicts
