"""Tables, sentences and help at any width: no number is cut, no word is broken."""

import io
import re
from collections import Counter

import pytest
from rich.console import Console
from rich.table import Table

from sgdtheory._common import sheets
from sgdtheory.cli import output
from sgdtheory.cli.commands import COMMANDS
from sgdtheory.cli.output import print_tables, print_text
from tests.cli.made import GRID
from tests.cli.text import numbers
from tests.marks import slow

WIDTHS = 40, 60, 80, 120, 200
WIDE = 1000
PROBLEM = ["--capacity", 2, "--source", 3]
SETTINGS = [*PROBLEM, "--batch-size", 16, "--learning-rate", 0.3, "--num-samples"]
NETWORK = ["--width", 8, "--base-width", 8, "--input-dim", 4, "--batch-size", 4, "--holdout-size", 16]
LINES = {  # one command a line; STORE is a folder of runs
    "risk": ["risk", *SETTINGS, 1e3, 123456, 1e6, 1e9, 1e12],
    "bounds": ["bounds", *PROBLEM, "--batch-size", 16, "--learning-rate", 0.3, "--num-samples", 1e4],
    "risk, unstable": ["risk", *SETTINGS[:-2], 5, "--num-samples", 1e4],
    "simulate": ["simulate", *SETTINGS, 400, 1000, "--dim", 20, "--num-replicas", 16],
    "cbs": ["cbs", *PROBLEM, "--num-samples", 100, 1234, "--dim", 30],
    "fit": ["fit", "--forecast", 7000, 123456],
    "fit with alpha's interval": ["fit", "--level", 0.9, "--overhead", "50%"],
    "fit-sweep": ["fit-sweep", "STORE", "--target-loss", 2.0, "--edges"],
    "show-sweep": ["show-sweep", "STORE"],
    "train": ["train", *NETWORK, "--max-steps", 40, "--target-loss", 0.1, "--averages", 0.5, 0.9],
    "coordcheck": ["coordcheck", *NETWORK, "--widths", 8, 16, "--steps", 1, 2, "--seeds", 3, "--tolerance", 0.001],
    "parametrizations": ["parametrizations"],
}


COSTLY = "coordcheck", "fit-sweep", "show-sweep", "train"  # their tables are made by the same function


@pytest.fixture(scope="module")
def store(tmp_path_factory):
    """A sweep over four batch sizes at two widths."""
    from sgdtheory import cli

    folder = tmp_path_factory.mktemp("sweep")
    fixed = re.sub(r"\n(width|batch_size) = .*", "", GRID.format(steps=40))
    (folder / "grid.toml").write_text(fixed + "width = [8, 16]\nbatch_size = [2, 4, 8, 16]\n")
    cli.main(["sweep", str(folder / "grid.toml"), "--store", str(folder / "store"), "--json"])
    return folder / "store"


@pytest.fixture
def at(monkeypatch, capsys):
    """Return the text that a function prints on a screen of this width."""

    def print_at(width, function, *arguments):
        monkeypatch.setenv("COLUMNS", str(width))
        capsys.readouterr()
        function(*arguments)
        return capsys.readouterr().out

    return print_at


@pytest.mark.parametrize("name", [slow(name) if name in COSTLY else name for name in LINES])
def test_every_number_of_the_wide_output_is_whole_in_the_narrow_one(name, request, at, monkeypatch):
    """The command runs once; what it hands over to be printed is printed again at every width."""
    from sgdtheory import cli

    printed = []
    monkeypatch.setattr(output, "print_table", lambda console, table: printed.append((print_tables, table)))
    monkeypatch.setattr("builtins.print", lambda *words, **_: printed.append((print_text, " ".join(map(str, words)))))
    arguments = [str(request.getfixturevalue("store") if word == "STORE" else word) for word in LINES[name]]
    try:
        cli.main(arguments)
    except SystemExit as stop:
        assert (name, stop.code) == ("coordcheck", 1)  # noqa: PT017
    monkeypatch.undo()

    def show():
        for function, content in printed:
            function(content)

    wide = at(WIDE, show)
    assert numbers(wide)
    for width in WIDTHS:
        narrow = at(width, show)
        assert not numbers(wide) - numbers(narrow)
        assert "…" not in re.sub(r" …(\s|$)", "", narrow)  # but for "low … high"
        assert all(len(line) <= width or " " not in line for line in narrow.splitlines())  # a path keeps whole


def test_a_cut_number_would_be_seen():
    """Negative control: the library's own way with a table that is too wide."""
    table = Table("D", "risk")
    table.add_row("123456789", "6.081234e-06")
    console = Console(width=20, record=True, file=io.StringIO())
    console.print(table)
    assert numbers("123456789 6.081234e-06") - numbers(console.export_text())


@pytest.mark.parametrize("width", WIDTHS)
def test_tables_of_every_shape(at, width):
    """Many columns, many rows, long cells, cells of two lines, no rows at all."""
    shapes = (30, 2, "1.2345e-06"), (3, 50, "1.5"), (3, 3, "1.25 … 2.5 at step 30"), (4, 2, "1\n2 … 3"), (9, 0, "")
    for columns, rows, cell in shapes:
        first = sheets.Quantity("", "column 0", [str(1000 + row) for row in range(rows)])
        others = [sheets.Quantity("", f"column {number}", [cell] * rows) for number in range(1, columns)]
        table = sheets.Table([first, *others], title="t 1 " * 30, legend="c 2 " * 30)
        wide, narrow = at(WIDE, print_tables, table), at(width, print_tables, table)
        assert not numbers(wide) - numbers(narrow) if rows else not numbers("1 2") - numbers(narrow)
        assert max(map(len, narrow.splitlines())) <= width


def test_a_table_that_fits_is_drawn_as_it_is(at):
    table = sheets.Table([sheets.Quantity("", "a", ["1"]), sheets.Quantity("", "b", ["2"])])
    lines = at(40, print_tables, table).splitlines()
    assert len(lines) == 5
    assert re.fullmatch(r"│ 1 +│ 2 +│", lines[3])


def words(text):
    return Counter(re.findall(r"[\w*<>=^+.-]+", text))


@pytest.mark.parametrize("command", [[], *([name] for name in COMMANDS)], ids=["overview", *COMMANDS])
def test_help_breaks_no_word(run, monkeypatch, command):
    shown = {}
    for width in (40, 80, WIDE):
        monkeypatch.setenv("COLUMNS", str(width))
        shown[width] = run(*command, "--help-all" if command else "--help")
        assert max(map(len, shown[width].splitlines())) <= width
    assert words(shown[40]) == words(shown[80]) == words(shown[WIDE])
