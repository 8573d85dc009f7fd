"""`sgdtheory --print-completion SHELL`: a script that completes commands and flags on the Tab key."""

import contextlib
import io

import tyro

from sgdtheory._common.arguments import checked_name
from sgdtheory.cli.commands import COMMANDS, command_class

SHELLS = "bash", "zsh"


def completion(shell: str = "") -> str:
    """The script for a shell, which `source <(sgdtheory --print-completion bash)` or a start-up file reads.

    Raises:
        ValueError: an unknown shell.
    """
    checked_name("print-completion", shell or "nothing", SHELLS)
    script, kinds = io.StringIO(), {name: command_class(name) for name in COMMANDS}
    with contextlib.redirect_stdout(script), contextlib.suppress(SystemExit):
        arguments = ["--tyro-print-completion", shell]
        tyro.extras.subcommand_cli_from_dict(kinds, prog="sgdtheory", args=arguments, sort_subcommands=False)
    return script.getvalue().rstrip()
