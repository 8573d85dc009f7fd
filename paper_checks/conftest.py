"""Collects one row a check, says in a line what they found, and writes results/paper_checks.md.

`pytest paper_checks` prints the table as well; in a run with other tests it has only the checks that fail.
"""

from collections import Counter
from collections.abc import Callable, Sequence
from dataclasses import astuple, dataclass
from pathlib import Path

import pytest
from rich.console import Console
from rich.table import Table

from experiments._lib.results import COLORS, VerdictName
from sgdtheory._common.files import write_atomically

HERE = Path(__file__).resolve().parent
Record = Callable[[str, str, VerdictName], None]


@dataclass(frozen=True)
class Row:
    """One check: the claim (the test's docstring), what the paper says, what was measured, the verdict."""

    claim: str
    paper: str
    measured: str
    verdict: VerdictName
    seconds: float


ROWS: list[Row] = []
ROW = "paper check"
RECORDED = pytest.StashKey[tuple[str, str, VerdictName]]()


@pytest.fixture
def record(request) -> Record:
    """`record(paper, measured, verdict)`: to be called once, with numbers computed in the test."""

    def add(paper: str, measured: str, verdict: VerdictName) -> None:
        request.node.stash[RECORDED] = (paper, measured, verdict)

    return add


@pytest.hookimpl(wrapper=True)
def pytest_runtest_makereport(item, call):
    """Turn a finished check into a row; a check whose assertions fail has the verdict `fails`."""
    report = yield
    if call.when == "call" or (call.when == "setup" and report.failed):
        paper, measured, verdict = item.stash.get(RECORDED, ("", "no number recorded", "fails"))
        if not report.passed:
            verdict = "fails"
        claim = (item.function.__doc__ or item.name).strip().splitlines()[0].rstrip(".")
        if hasattr(item, "callspec"):
            claim += f" [{item.callspec.id}]"
        report.user_properties.append((ROW, astuple(Row(claim, paper, measured, verdict, call.duration))))
    return report


def pytest_runtest_logreport(report):
    """Gather the rows; of tests that ran in other processes too."""
    ROWS.extend(Row(*value) for name, value in report.user_properties if name == ROW and report.when != "teardown")


def pytest_terminal_summary(terminalreporter, config):
    """Write the report; print how many checks have which verdict, and what is worth a table."""
    if not ROWS:
        return
    rows = sorted(ROWS, key=lambda row: row.claim)  # whatever order they ran in
    paths = [Path(argument.partition("::")[0]).resolve() for argument in config.args]
    alone = all(path.is_relative_to(HERE) for path in paths)
    shown = rows if alone else [row for row in rows if row.verdict == "fails"]
    terminalreporter.write_line("")
    if shown:
        terminalreporter.write(_table(shown))
    if config.option.keyword or any(".py" in argument for argument in config.args):
        where = "a part of the checks: results/paper_checks.md is left as it was"
    else:
        path = write_atomically(Path(config.rootpath) / "results" / "paper_checks.md", _markdown(rows))
        where = f"written to {path.relative_to(config.rootpath)}"
    counts = Counter(row.verdict for row in rows)
    verdicts = ", ".join(f"{counts[verdict]} {verdict}" for verdict in COLORS if counts[verdict])
    terminalreporter.write_line(f"{len(rows)} checks of the paper: {verdicts}; {where}")


def _table(rows: Sequence[Row]) -> str:
    table = Table(title="the paper, checked", show_lines=True)
    for header in ("claim", "paper", "measured", "verdict"):
        table.add_column(header, overflow="fold")
    for row in rows:
        table.add_row(row.claim, row.paper, row.measured, f"[{COLORS[row.verdict]}]{row.verdict}[/]")
    console = Console(width=150)
    with console.capture() as captured:
        console.print(table)
    return captured.get()


def _markdown(rows: list[Row]) -> str:
    lines = [
        "# The paper, checked",
        "",
        '"How Does Critical Batch Size Scale in Pre-training?", arXiv 2410.21676. Written by `pytest paper_checks`.',
        "",
        "| claim | paper | measured | verdict | seconds |",
        "| --- | --- | --- | --- | --- |",
    ]
    for row in rows:
        cells = (row.claim, row.paper, row.measured, f"**{row.verdict}**", f"{row.seconds:.2f}")
        lines.append("| " + " | ".join(cell.replace("|", "\\|") for cell in cells) + " |")
    return "\n".join(lines) + "\n"
