"""The command line `sgdtheory`: one module a command, flags generated from its dataclass."""

import contextlib
import io
import itertools
import sys
from typing import Protocol

import tyro

from sgdtheory.cli.cbs import CbsCommand
from sgdtheory.cli.coordcheck import CoordcheckCommand
from sgdtheory.cli.fit import FitCommand
from sgdtheory.cli.network import preset_of
from sgdtheory.cli.risk import RiskCommand
from sgdtheory.cli.simulate import SimulateCommand
from sgdtheory.cli.sweep import SweepCommand
from sgdtheory.cli.train import TrainCommand

COMMANDS = {
    "risk": RiskCommand,
    "simulate": SimulateCommand,
    "cbs": CbsCommand,
    "fit": FitCommand,
    "train": TrainCommand,
    "sweep": SweepCommand,
    "coordcheck": CoordcheckCommand,
}


class Command(Protocol):
    """What the arguments are parsed into."""

    def run(self) -> None:
        """Do it and print."""
        ...


def main(arguments: list[str] | None = None) -> None:
    """Entry point. Bad input ends with exit status 2 and one line on standard error."""
    try:
        _parse(arguments).run()
    except BrokenPipeError:  # the reader has seen enough
        sys.stderr.close()
    except KeyboardInterrupt:
        sys.exit(130)
    except (ValueError, OSError) as error:
        print("sgdtheory:", " ".join(str(error).split()), file=sys.stderr)
        sys.exit(2)


def _parse(arguments: list[str] | None) -> Command:
    """The command that the arguments ask for; a usage error as a ValueError of one line."""
    arguments = sys.argv[1:] if arguments is None else arguments
    usage = io.StringIO()
    try:
        with contextlib.redirect_stderr(usage):
            if chosen := preset_of(arguments):  # its fields are the flags' defaults
                kind = COMMANDS[arguments[0]]
                return tyro.cli(kind, prog=f"sgdtheory {arguments[0]}", default=kind(**chosen), args=arguments[1:])
            return tyro.extras.subcommand_cli_from_dict(
                COMMANDS,
                prog="sgdtheory",
                description="Exact theory, bounds, simulation and training: the critical batch size of mini-batch SGD.",
                args=arguments,
            )
    except SystemExit as stop:
        if not stop.code:
            raise
        lines = [line.strip("╭╮╰╯│─ ") for line in usage.getvalue().splitlines()]  # a frame: title, message, details
        title, *message = itertools.takewhile(bool, lines)
        raise ValueError(f"{title}: {' '.join(message)} (see sgdtheory --help)") from None
