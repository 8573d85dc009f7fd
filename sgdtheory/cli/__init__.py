"""The command line `sgdtheory`: one module a command, flags generated from its dataclass."""

import contextlib
import io
import itertools
import sys

import tyro

from sgdtheory.cli.cbs import CbsCommand
from sgdtheory.cli.fit import FitCommand
from sgdtheory.cli.risk import RiskCommand
from sgdtheory.cli.simulate import SimulateCommand

COMMANDS = {"risk": RiskCommand, "simulate": SimulateCommand, "cbs": CbsCommand, "fit": FitCommand}


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


def _parse(arguments: list[str] | None) -> RiskCommand | SimulateCommand | CbsCommand | FitCommand:
    """The command that the arguments ask for; a usage error as a ValueError of one line."""
    usage = io.StringIO()
    try:
        with contextlib.redirect_stderr(usage):
            return tyro.extras.subcommand_cli_from_dict(
                COMMANDS,
                prog="sgdtheory",
                description="Exact theory, bounds and scaling laws of mini-batch SGD.",
                args=arguments,
            )
    except SystemExit as stop:
        if not stop.code:
            raise
        lines = [line.strip("╭╮╰╯│─ ") for line in usage.getvalue().splitlines()]  # a frame: title, message, details
        title, *message = itertools.takewhile(bool, lines)
        raise ValueError(f"{title}: {' '.join(message)} (see sgdtheory --help)") from None
