"""What the commands print: strict JSON and tables."""

import contextlib
import json
import math
import os
import sys
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import numpy as np
from rich.console import Console
from rich.table import Table


def print_json(value: Any) -> None:
    """Print `value` as JSON; null where a number is not finite."""
    print(json.dumps(_jsonable(value), indent=2, allow_nan=False))


def _jsonable(value: Any) -> Any:
    if isinstance(value, dict):
        return {name: _jsonable(entry) for name, entry in value.items()}
    if isinstance(value, list | tuple):
        return [_jsonable(entry) for entry in value]
    if isinstance(value, np.ndarray | np.generic):
        return _jsonable(value.tolist())
    if isinstance(value, float) and not math.isfinite(value):
        return None
    return value


@contextlib.contextmanager
def native_output_on_stderr() -> Iterator[None]:
    """What libraries print from compiled code goes to standard error: standard output is for results."""
    sys.stdout.flush()
    kept = os.dup(1)
    os.dup2(2, 1)
    try:
        yield
    finally:
        os.dup2(kept, 1)
        os.close(kept)


@contextlib.contextmanager
def live_line(begin: str, describe: Callable[[Any], str]) -> Iterator[Callable[[Any], None] | None]:
    """A function that shows how far work is, in `describe`'s words, on a terminal; None where there is none."""
    console = Console(stderr=True)
    if not console.is_terminal:
        yield None
        return
    with console.status(begin) as status:
        yield lambda progress: status.update(describe(progress))


def interval_text(ends: tuple[float, float]) -> str:
    """Low … high."""
    return f"{ends[0]:.4g} … {ends[1]:.4g}"


def require_figure_suffix(path: Path | None) -> None:
    """A path for a figure, if there is one, ends in a format that figures are written in.

    Raises:
        ValueError: it does not.
    """
    if path and path.suffix.lower() not in (".png", ".pdf", ".svg"):
        raise ValueError(f"plot must end in .png, .pdf or .svg, got {path}")


def print_tables(*tables: Table) -> None:
    """Print tables as wide as the terminal, or wide enough for a pipe."""
    console = Console()
    if not console.is_terminal:
        console.width = 160  # a pipe has no width of its own; do not fold numbers
    for table in tables:
        console.print(table)
