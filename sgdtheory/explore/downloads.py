"""Files of a panel: its figure, made by the Python that the page shows, and its numbers as CSV."""

import io
from typing import Any

from sgdtheory._common.files import csv_columns
from sgdtheory.explore.registry import JOBS, PROGRAMS
from sgdtheory.explore.sources import python_source
from sgdtheory.explore.spec import Answer
from sgdtheory.explore.state import State

FORMATS = {"pdf": "application/pdf", "png": "image/png", "csv": "text/csv; charset=utf-8"}


def figure_file(state: State, panel: str, suffix: str) -> bytes:
    """Return the figure that `python_source` makes, as PDF or PNG."""
    program = python_source(state, panel).rsplit("\n", 1)[0]  # without the line that saves it
    names: dict[str, Any] = {}
    exec(compile(program, f"{panel}.py", "exec"), names)
    import matplotlib

    from sgdtheory.plotting.style import STYLE

    buffer = io.BytesIO()
    with matplotlib.rc_context(STYLE):
        names["figure"].savefig(buffer, format=suffix)
    return buffer.getvalue()


def table_file(state: State, panel: str) -> bytes:
    """Return the numbers that the panel shows, one row per point, each with the algorithm and the query of the link."""
    tables = []
    job = JOBS[PROGRAMS[panel].job]
    for slot, name in enumerate(state.names):
        if job.needs_risk and not state.has_risk(slot):
            continue
        answers: list[Answer] = []
        job.compute(state, slot, answers.append)
        columns = [each for each in answers if each.panel == panel][-1].columns
        points = len(next(iter(columns.values())))
        tables.append({"algorithm": [name] * points, **columns, "query": [state.query] * points})
    if not tables:
        raise ValueError("; ".join(state.unknown))
    joined = {name: [value for table in tables for value in table[name]] for name in tables[0]}
    return csv_columns(joined).encode()


FILES = {"figure": figure_file, "table": table_file}
