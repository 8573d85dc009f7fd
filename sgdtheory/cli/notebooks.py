"""A page of a tutorial as a Jupyter notebook.

A page is Markdown. Each `python` block is a cell, and text between `<details>` and `</details>` is the solution of an
exercise. The site's build runs the same cells.
"""

import json
import re
from collections.abc import Iterator
from typing import Any, NamedTuple

FENCE = re.compile(r"^```python\n(?P<code>.*?)^```\n", re.M | re.S)
SOLUTION = re.compile(r"^<details.*?^</details>\n", re.M | re.S)
COMMENT = re.compile(r"^<!--.*?-->\n", re.M | re.S)
LINK = re.compile(r"(?<!!)\[([^\]]+)\]\((?!https?:)[^)]+\)")
NEEDS = (
    '*This needs Python 3.11 or newer and `pip install "sgdtheory[testing]"`, in a notebook `%pip install …`. '
    'Until the first release is on the package index, write `"sgdtheory[testing] @ git+https://…"` with the address '
    "of the repository.*"
)


class Part(NamedTuple):
    """A piece of a page: text, a cell, or a solution, which has text and cells."""

    kind: str
    text: str


def parts(page: str) -> Iterator[Part]:
    """Yield the parts of a page in order, without its comments."""
    page = COMMENT.sub("", page)
    end = 0
    for found in re.finditer(f"(?P<solution>{SOLUTION.pattern})|{FENCE.pattern}", page, re.M | re.S):
        yield Part("text", page[end : found.start()])
        yield Part("solution", found["solution"]) if found["solution"] else Part("cell", found["code"])
        end = found.end()
    yield Part("text", page[end:])


def notebook(page: str, *, solutions: bool = True) -> str:
    """Return a Jupyter notebook (nbformat 4.5) without outputs; a solution is a folded text below an empty cell.

    Links to other pages of the site become plain text, because a notebook is read elsewhere.
    """
    made = []
    for part in parts(page):
        text = part.text.strip("\n")
        if part.kind == "solution":
            made.append(_cell("code", "# your answer"))
        if text and (part.kind != "solution" or solutions):
            made.append(_cell("code" if part.kind == "cell" else "markdown", text))
    made[0]["source"] += f"\n\n{NEEDS}"
    for k, each in enumerate(made):
        each["id"] = f"cell-{k + 1}"
    kernel = {"display_name": "Python 3", "language": "python", "name": "python3"}
    whole = {"cells": made, "metadata": {"kernelspec": kernel}, "nbformat": 4, "nbformat_minor": 5}
    return json.dumps(whole, indent=1, ensure_ascii=False) + "\n"


def notebooks(name: str, page: str) -> dict[str, str]:
    """Return the notebooks of a tutorial by file name: with solutions and, if it has any, without."""
    made = {f"{name}.ipynb": notebook(page)}
    if SOLUTION.search(page):
        made[f"{name}-without-solutions.ipynb"] = notebook(page, solutions=False)
    return made


def _cell(kind: str, text: str) -> dict[str, Any]:
    if kind == "code":
        return {"cell_type": "code", "execution_count": None, "metadata": {}, "outputs": [], "source": text}
    text = LINK.sub(r"\1", text).replace('<details markdown="1">', "<details>")
    return {"cell_type": "markdown", "metadata": {}, "source": text}
