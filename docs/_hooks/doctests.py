"""Examples in docstrings (`>>>` up to a blank line) become code blocks of the reference."""

from collections.abc import Iterator
from typing import Any

from griffe import Extension


class Doctests(Extension):
    """Fences what stands behind `>>>`, which Markdown would take for a quotation."""

    def on_object(self, *, obj: Any, **_: Any) -> None:
        """Change the docstring of a module, class, function or attribute."""
        if obj.docstring is not None:
            obj.docstring.value = "\n".join(fenced(obj.docstring.value.splitlines()))


def fenced(lines: list[str]) -> Iterator[str]:
    """The lines with a fence around every example."""
    indent = None  # of the example that the line belongs to
    for line in [*lines, ""]:
        text = line.lstrip()
        if indent is None and text.startswith(">>>"):
            indent = line[: len(line) - len(text)]
            yield f"{indent}```pycon"
        elif indent is not None and not text:
            yield f"{indent}```"
            indent = None
        yield line
