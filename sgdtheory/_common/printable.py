"""Text from files as it may be printed: what moves a terminal's cursor, or turns text around, is spelt out."""

import re

# The pattern matches control characters but tab and line feed, line and paragraph separators, marks and overrides of
# the direction of writing, and halves of characters, which names of files that are no UTF-8 hold.
CONTROL = re.compile("[\x00-\x08\x0b-\x1f\x7f-\x9f\u061c\u200e\u200f\u2028-\u202e\u2066-\u2069\ud800-\udfff]")
BREAKS = re.compile("[\t\n]")
LONGEST_WORD = 400  # A longer word is shortened; no path that a terminal shows as a whole is as long.
ENDS = 150, 50  # A longer word shows this many characters of its beginning and its end.


def printable(text: str) -> str:
    r"""Return the text with its control characters spelt out, as `\x1b`.

    Names of runs, groups, columns and files come from others: an escape sequence in one could clear the screen, and
    write on it what was never found.
    """
    return CONTROL.sub(_spelled, text)


def one_line(text: str) -> str:
    """Return printable text without line breaks, which a name might hold to begin a line of its own."""
    return BREAKS.sub(_spelled, printable(text))


def shortened(text: str) -> str:
    """Return the text with the middle of overlong words left out, as of a file's name that is thousands of letters."""
    return re.sub(rf"\S{{{LONGEST_WORD},}}", _ends, text)


def _ends(found: re.Match[str]) -> str:
    first, last = ENDS
    return f"{found[0][:first]}…{found[0][-last:]}"


def _spelled(found: re.Match[str]) -> str:
    return repr(found[0])[1:-1]
