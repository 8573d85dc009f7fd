"""The command line `sgdtheory`: one module a command, flags generated from its dataclass.

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
    from sgdtheory._common.printable import one_line, shortened
    from sgdtheory.cli.parsing import parse
    from sgdtheory.cli.plain import spell_out

    spell_out(sys.stdout)
    try:
        parse(sys.argv[1:] if arguments is None else arguments).run()
    except BrokenPipeError:  # the reader has seen enough
        sys.stderr.close()
    except KeyboardInterrupt:
        ctrl_c.leave()
    except (ValueError, OSError) as error:
        print("sgdtheory:", one_line(shortened(" ".join(str(error).split()))), file=sys.stderr)
        sys.exit(2)
