"""Run the cells of tutorials one after another, as a notebook does, and keep what each of them shows.

`python -m docs._hooks.run_cells` reads a JSON list of programs from standard input, a program being a list of cells,
and writes a list of what they show. A notebook's own machinery does the same, with 100 MB and a process for each.
"""

import ast
import base64
import contextlib
import io
import json
import sys
import tempfile
from collections.abc import Sequence
from typing import Any


def run(cells: Sequence[str]) -> list[list[dict[str, str]]]:
    """What each cell shows: a list of {type: content}, printed text as "stdout". Files go into a temporary folder.

    Raises:
        RuntimeError: a cell raises; which one, its code, and the error.
    """
    names: dict[str, Any] = {"__name__": "__main__"}
    shown = []
    with tempfile.TemporaryDirectory() as folder, contextlib.chdir(folder):
        for k, code in enumerate(cells):
            try:
                shown.append(run_cell(code, names))
            except Exception as error:
                raise RuntimeError(f"cell {k + 1} raises {type(error).__name__}: {error}\n{code}") from error
    return shown


def run_cell(code: str, names: dict[str, Any]) -> list[dict[str, str]]:
    """What one cell prints, and what its last line is worth if that is an expression."""
    body = ast.parse(code).body
    last = body.pop() if body and isinstance(body[-1], ast.Expr) else None
    printed = io.StringIO()
    value = None
    with contextlib.redirect_stdout(printed):
        exec(compile(ast.Module(body, []), "cell", "exec"), names)
        if isinstance(last, ast.Expr):
            value = eval(compile(ast.Expression(last.value), "cell", "eval"), names)
    shown = [{"stdout": printed.getvalue()}] if printed.getvalue() else []
    return shown if value is None else [*shown, shown_as(value)]


def shown_as(value: Any) -> dict[str, str]:
    """A value by type of content, as a notebook asks for it: a picture, HTML, text."""
    if hasattr(value, "_repr_png_"):
        return {"image/png": base64.b64encode(value._repr_png_()).decode(), "text/plain": repr(value)}
    if hasattr(value, "_repr_html_"):
        return {"text/html": value._repr_html_(), "text/plain": str(value)}
    return {"text/plain": repr(value)}


if __name__ == "__main__":
    json.dump([run(cells) for cells in json.load(sys.stdin)], sys.stdout)
