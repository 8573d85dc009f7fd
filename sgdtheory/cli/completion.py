"""`sgdtheory --print-completion SHELL`: a script that completes commands and flags on the Tab key."""

import contextlib
import dataclasses
import io
from typing import Annotated

from sgdtheory._common.arguments import checked_name
from sgdtheory.cli.commands import COMMANDS, command_named

SHELLS = "bash", "zsh"


def completion(shell: str = "") -> str:
    """The script for a shell, which `source <(sgdtheory --print-completion bash)` or a start-up file reads.

    Raises:
        ValueError: an unknown shell.
    """
    checked_name("print-completion", shell or "nothing", SHELLS)
    import tyro  # is slow to import

    kinds = {}
    for name in COMMANDS:
        fields = []
        for flag in command_named(name).flags:
            hint = Annotated[flag.hint, tyro.conf.Positional] if flag.positional else flag.hint
            default = {} if flag.required else {"default": flag.default}
            fields.append((flag.name, hint, dataclasses.field(**default)))
        kinds[name] = dataclasses.make_dataclass(name.replace("-", "_"), fields, kw_only=True)
    script = io.StringIO()
    with contextlib.redirect_stdout(script), contextlib.suppress(SystemExit):
        arguments = ["--tyro-print-completion", shell]
        tyro.extras.subcommand_cli_from_dict(kinds, prog="sgdtheory", args=arguments, sort_subcommands=False)
    return script.getvalue().rstrip()
