"""Standard output as it is: γ spelt out as gamma where it cannot hold every character, and written whole."""

import codecs
import unicodedata
from typing import Any

from sgdtheory._common.printable import printable

SPELLING = {
    "…": "...",
    "±": "+-",
    "≤": "<=",
    "≥": ">=",
    "≠": "!=",
    "→": "->",
    "∞": "infinity",
    "√": "sqrt ",
    "‖": "||",
    "½": "1/2",
    "⌊": "floor(",
    "⟨": "<",
    "⟩": ">",
    "²": "^2",
    "³": "^3",
    "⁶": "^6",
    "⁹": "^9",
    "ᵀ": "^T",
    "µ": "mu",
    "λ": "lambda",
    "Λ": "Lambda",
    **dict(zip("−–—·•×≈∝⌋“”’", '---**x~~)""\'', strict=True)),
    **dict.fromkeys("│┃║", "|"),
    **dict.fromkeys("─━═", "-"),
    **dict.fromkeys("┌┐└┘├┤┬┴┼╭╮╰╯┏┓┗┛┡┩╇", "+"),
}
HANDLER = "sgdtheory.spell_out"
# Streams with these error handlers fail on characters that an encoding lacks; the C locale has the second.
FAILING = "strict", "surrogateescape"


def spell_out(stream: Any) -> None:
    """Make a text stream spell out characters that its encoding lacks, instead of failing."""
    if getattr(stream, "errors", None) in FAILING and hasattr(stream, "reconfigure"):
        codecs.register_error(HANDLER, _replace)
        stream.reconfigure(errors=HANDLER)


def write_at_the_end(stream: Any) -> None:
    """Keep what is printed in the buffer until the command flushes it or ends; a terminal shows each line at once.

    Without it PYTHONUNBUFFERED writes each line at once, and a Ctrl-C before the last one leaves some of an answer.
    """
    if hasattr(stream, "reconfigure") and not stream.isatty():
        stream.reconfigure(write_through=False)


def plain(text: str, stream: Any) -> str:
    """The text as the stream will have it: as wide as it will be, and without control characters of a name in it."""
    text = printable(text)
    encoding = getattr(stream, "encoding", None) or "utf-8"
    return text.encode(encoding, HANDLER).decode(encoding) if getattr(stream, "errors", None) == HANDLER else text


def _replace(error: UnicodeError) -> tuple[str, int]:
    if not isinstance(error, UnicodeEncodeError):
        raise error
    return "".join(map(_spelled, error.object[error.start : error.end])), error.end


def _spelled(character: str) -> str:
    """Greek letters by name, letters without their accents, a question mark where nothing is known."""
    if character in SPELLING:
        return SPELLING[character]
    name = unicodedata.name(character, "")
    if name.startswith("GREEK"):
        letter = name.split(" LETTER ")[-1].split(" ")[0]
        return letter.capitalize() if "CAPITAL" in name else letter.lower()
    bare = unicodedata.normalize("NFKD", character).encode("ascii", "ignore").decode()
    return bare or "?"
