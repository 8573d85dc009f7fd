"""The command line `sgdtheory`: one function a command, whose parameters are its flags.

What takes time to import is imported within `main`, so that Ctrl-C finds it prepared.
"""

import sys

from sgdtheory.cli import ctrl_c


def main(arguments: list[str] | None = None) -> None:
    """Entry point. Bad input ends with exit status 2 and one line on standard error.

    Args:
        arguments: None: those of the process, which then ends at a Ctrl-C.
    """
    if arguments is None:
        ctrl_c.take_over()
    from sgdtheory.cli.plain import spell_out, write_at_the_end

    spell_out(sys.stdout)
    if arguments is None:  # a caller in Python reads its own output whenever it likes
        write_at_the_end(sys.stdout)
    try:
        status = _run(sys.argv[1:] if arguments is None else arguments)
        sys.stdout.flush()
    except BrokenPipeError:  # the reader has seen enough
        status = 0
        sys.stderr.close()
    ctrl_c.answered(status)
    if status:
        sys.exit(status)


def _run(arguments: list[str]) -> int:
    """The exit status of a command, whose output may still wait in the buffer of standard output."""
    from sgdtheory._common.printable import one_line, shortened
    from sgdtheory.cli.parsing import parse

    try:
        try:
            parse(arguments)()
        finally:
            ctrl_c.answered()
    except KeyboardInterrupt:
        ctrl_c.leave()
    except SystemExit as end:
        return int(end.code or 0)
    except BrokenPipeError:
        raise
    except (ValueError, OSError) as error:
        print("sgdtheory:", one_line(shortened(" ".join(str(error).split()))), file=sys.stderr)
        return 2
    return 0
