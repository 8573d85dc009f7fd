"""`python -m experiments`: run, write, say how far it is, and print a table of verdicts."""

import os
import sys
import time
from dataclasses import dataclass
from importlib.metadata import version
from pathlib import Path
from typing import Annotated

import tyro

from experiments._lib.display import Display, print_list
from experiments._lib.interruption import finishing, interruptible
from experiments._lib.processes import WorkerError
from experiments._lib.registry import EXPERIMENTS, Scale, names, seconds
from experiments._lib.report import write_report
from experiments._lib.results import Verdict, write_result
from experiments._lib.schedule import duration

RESULTS = Path("results")
SCALES = (
    f"Quick: {duration(seconds('quick'))} on two cores, without {len(EXPERIMENTS) - len(names('quick'))} that run by "
    f"name. Full: all, {duration(seconds('full'))}."
)
# At quick scale half of the time would go into compiling programs that then run for seconds. These flags halve it; the
# programs take a quarter longer, so that full scale compiles as users do.
QUICK_FLAGS = "--xla_cpu_use_fusion_emitters=false --xla_backend_optimization_level=1"


@dataclass(frozen=True)
class Arguments:
    """Run the experiments, write their results and print a table of verdicts; `--list` says which there are."""

    scale: Annotated[Scale, tyro.conf.arg(help=SCALES)] = "quick"
    only: str | None = None
    """Run this experiment alone."""
    output: Path | None = None
    """Folder for the results; `results` if none is given."""
    list: bool = False
    """Run nothing: print what each experiment asks, and how long it takes."""
    redraw: bool = False
    """Run nothing: draw the recorded figures again from the recorded tables, in their place or all into OUTPUT."""
    findings: bool = False
    """Run nothing: write the tables of docs/findings again from the recorded results, and the verdicts of the index."""


def main() -> int:
    """Exit status: 0, 1 if a claim that should hold fails, 2 on bad input, 130 on Ctrl-C."""
    arguments = tyro.cli(Arguments, prog="python -m experiments", config=(tyro.conf.FlagCreatePairsOff,))
    if arguments.only is not None and arguments.only not in EXPERIMENTS:
        return _refuse(f"only must be one of {', '.join(EXPERIMENTS)}, got {arguments.only}")
    output = arguments.output or RESULTS
    try:
        if arguments.list:
            print_list((arguments.only,) if arguments.only else tuple(EXPERIMENTS))
            return 0
        if arguments.redraw:
            from experiments._lib.redraw import redraw  # imports what trains

            print(*redraw(arguments.output), sep="\n")
            return 0
        if arguments.findings:
            from experiments._lib.findings import update

            print(*update(), sep="\n")
            return 0
        if arguments.scale == "quick":
            _compile_quickly()
        chosen = (arguments.only,) if arguments.only else names(arguments.scale)
        verdicts = _run(chosen, arguments.scale, output)
    except WorkerError as error:
        return _refuse(str(error))
    except OSError as error:
        return _refuse(f"cannot write results to {output}: {error.strerror or error}")
    return int(any(verdict.verdict == "fails" for verdict in verdicts))


def _compile_quickly() -> None:
    """Set XLA's flags for this process, which has not imported JAX yet, and those that it starts."""
    release = tuple(map(int, version("jax").split(".")[:2]))
    if release < (0, 11):  # an XLA that does not know a flag ends the process
        os.environ.setdefault("XLA_FLAGS", QUICK_FLAGS)  # whoever has chosen keeps the choice


def _refuse(words: str) -> int:
    print(f"experiments: {words}", file=sys.stderr)
    return 2


def _run(names: tuple[str, ...], scale: Scale, output: Path) -> list[Verdict]:
    """Run the experiments `names` one after the other, and print what they found."""
    display = Display(names, scale)
    verdicts: list[Verdict] = []
    kept: list[str] = []

    def interrupted() -> str:
        place = f"interrupted in {names[len(kept)]}" if len(kept) < len(names) else "interrupted at the end"
        what = f"finished and kept: {', '.join(kept)}" if kept else "no experiment had finished"
        return f"{place}; {what}" + (f"; report: {output / 'report.md'}" if kept else "")

    with interruptible(interrupted):
        output.mkdir(parents=True, exist_ok=True)
        with finishing():
            report = write_report(output)  # find out now whether results can be written
        display.start()
        try:
            for name in names:
                start = time.perf_counter()
                with display.running(name):
                    module = EXPERIMENTS[name].load()
                    config = module.SCALES[scale]
                    result = module.run(config)
                    write_result(output / name, config, result, lambda name=name: kept.append(name))
                verdicts += result.verdicts
                display.finished(name, result.verdicts, time.perf_counter() - start)
        finally:
            with finishing():
                write_report(output)
        display.table(verdicts)
        display.line(f"report: {report}")
    return verdicts
