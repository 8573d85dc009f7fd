"""Where lines of help and of tables break, how numbers are spelt in JSON, and when notes on progress come."""

import io
import json
import re
from types import SimpleNamespace

import pytest
from rich.console import Console

from sgdtheory._common import sheets
from sgdtheory.cli import output, progress, tables
from sgdtheory.cli.commands import COMMANDS, command_named
from sgdtheory.cli.help import command_help, overview


def lines_of(name, width, **options):
    command = command_named(name)
    return command_help(name, command, command.flags, width, **options).splitlines()


@pytest.mark.parametrize(("width", "column"), [(40, 6), (59, 6), (60, 26), (80, 26), (100, 26)])
def test_texts_of_flags_begin_in_one_column(width, column):
    """Beside the flag where two blanks remain between the two, below it otherwise, and always on narrow screens."""
    lines = lines_of("cbs", width, every_flag=True)
    usages = {flag.spellings[0]: flag.usage for flag in command_named("cbs").flags}
    heads = [place for place, line in enumerate(lines) if line.startswith("  --")]
    assert len(heads) == len(usages)
    for place in heads:
        usage = usages[lines[place].split()[0]]
        if column == 26 and len(usage) <= 22:
            assert re.fullmatch(re.escape(f"  {usage}".ljust(26)) + r"\S.*", lines[place])
        else:
            below = next(line for line in lines[place + 1 :] if line.startswith(" " * 6))
            assert re.fullmatch(" " * column + r"\S.*", below)
            assert f"  {usage}".startswith(lines[place])
    assert max(map(len, lines)) <= width


def test_lines_are_at_most_a_hundred_wide_on_the_widest_screen():
    for lines in (lines_of("cbs", 500, every_flag=True), overview(500).splitlines()):
        assert max(map(len, lines)) <= 100
    assert lines_of("cbs", 500, every_flag=True) == lines_of("cbs", 100, every_flag=True)
    assert max(map(len, lines_of("cbs", 500, every_flag=True))) > 95


def test_the_overview_has_its_texts_in_one_column():
    listed = [line for line in overview(80).splitlines() if line.startswith("  ")]
    for name, entry in COMMANDS.items():
        for line in listed:
            if line.split()[0] == name:
                assert line == f"  {name}".ljust(20) + entry.summary
    assert "\n  risk\n      exact risk, beside" in overview(50)


def test_short_help_has_the_main_flags_in_their_order_and_counts_the_others():
    lines = lines_of("cbs", 80, every_flag=False)
    shown = [line.split()[0] for line in lines if line.startswith("  --")]
    assert shown == [f"--{name.replace('_', '-')}" for name in COMMANDS["cbs"].main.split()]
    assert lines[-1] == f"sgdtheory cbs --help-all: {len(command_named('cbs').flags) - len(shown)} more flags."
    assert lines[0] == "usage: sgdtheory cbs --capacity FLOAT --source FLOAT --num-samples FLOAT ..."
    assert lines[1] == "    [FLAGS]"
    assert lines_of("advise", 200, every_flag=False)[0] == "usage: sgdtheory advise [FILES] [FLAGS]"


def table_at(width, grid):
    """Lines of a table of texts, as a screen of this width shows them."""
    console = Console(file=io.StringIO(), width=width, highlight=False)
    columns = [sheets.Quantity("", name, list(cells)) for name, *cells in zip(*grid, strict=True)]
    tables.print_table(console, sheets.Table(columns))
    return console.file.getvalue().splitlines()


def test_a_table_is_whole_as_long_as_it_fits_and_then_takes_the_width_that_there_is():
    grid = [["name", "remark"], ["one", "a b c d e f"], ["two", "some words of a long remark"]]
    whole = table_at(200, grid)
    width = len(whole[0])
    assert len(whole) == 6
    assert table_at(width, grid) == whole
    for narrower in range(width - 1, width - 9, -1):
        folded = table_at(narrower, grid)
        assert set(map(len, folded)) == {narrower}
        assert len(folded) == 7
    assert set(map(len, table_at(17, grid))) == {17}  # every word of it on a line of its own
    assert "name: two" in table_at(16, grid)


def test_as_many_records_stand_beside_each_other_as_fit():
    """Of eight records of nine numbers each, at widths of a table of six of them, and of one less."""
    grid = [[f"n{k}" for k in range(9)], *([str(10**6 + k)] * 9 for k in range(8))]
    six = 5 + 6 * 10 + 1
    for width, counts in ((six, [6, 2]), (six - 1, [5, 3]), (25, [1] * 8)):
        heads = [line for line in table_at(width, grid) if re.search("[│┃] n0 ", line)]
        assert [line.count("1000") for line in heads] == counts


def test_json_has_integers_as_long_as_floats_count(capsys):
    output.print_json({"a": [2.0**53 - 1, 2.0**53, 1 - 2.0**53, -(2.0**53), 0.5]})
    found = json.loads(capsys.readouterr().out)["a"]
    assert [type(each) for each in found] == [int, float, int, float, float]
    assert found == [2**53 - 1, 2**53, 1 - 2**53, -(2**53), 0.5]


def test_the_width_of_what_is_printed(monkeypatch):
    """160 columns in a pipe, and never fewer than 20."""
    monkeypatch.setattr(output.shutil, "get_terminal_size", lambda fallback: SimpleNamespace(columns=fallback[0]))
    assert output.screen_width() == 160
    for columns, width in ((19, 20), (20, 20), (21, 21)):
        monkeypatch.setattr(output.shutil, "get_terminal_size", lambda _, own=columns: SimpleNamespace(columns=own))
        assert output.screen_width() == width


@pytest.mark.usefixtures("_no_terminal")
def test_notes_come_after_three_seconds_and_ever_more_rarely(monkeypatch, capsys):
    monkeypatch.setattr(progress, "FIRST", 3.0)
    pauses = []

    def wait(pause):
        pauses.append(pause)
        return len(pauses) == 7

    progress._print_notes(progress._Phase("fitting"), SimpleNamespace(wait=wait))
    assert pauses == [3, 6, 12, 24, 30, 30, 30]
    assert progress.LONGEST == 30
    assert capsys.readouterr().err.count("note: 0 s: fitting") == 6
