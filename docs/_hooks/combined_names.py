"""Arguments and attributes that share a line of a docstring, "low, high: ends", have one each in the reference.

The parser of the reference takes "low, high" for the name "low," of the type "high".
"""

import re
from collections.abc import Iterator
from typing import Any

from griffe import Extension

SECTION = re.compile(r"(Args|Attributes):\s*")
ITEM = re.compile(r"    (?P<names>\*{0,2}\w+(?:, \*{0,2}\w+)+): (?P<text>.*)")


class CombinedNames(Extension):
    """Gives every name a line of its own, with the text that they share."""

    def on_object(self, *, obj: Any, **_: Any) -> None:
        """Change the docstring of a module, class, function or attribute."""
        if obj.docstring is not None:
            obj.docstring.value = "\n".join(separated(obj.docstring.value.splitlines()))


def separated(lines: list[str]) -> Iterator[str]:
    """The lines of a docstring without its indent, each item of several names repeated for every one of them."""
    inside = False  # of a section of names
    names: list[str] = []  # that the lines of `text` belong to
    text: list[str] = []
    for line in [*lines, ""]:
        deeper = line.startswith(" " * 5)
        if names and deeper:
            text.append(line)
            continue
        yield from (part for name in names for part in (f"    {name}: {text[0]}", *text[1:]))
        names = []
        if line and not line.startswith(" "):
            inside = SECTION.fullmatch(line) is not None
        found = ITEM.fullmatch(line) if inside else None
        if found:
            names = found["names"].split(", ")
            text = [found["text"]]
        else:
            yield line
