"""A command is one function: flags from its signature and docstring, its sheet and its figure."""

import sys
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Annotated, Any, ClassVar

import pytest
from matplotlib.figure import Figure

from sgdtheory import cli
from sgdtheory._common.sheets import Quantity, Sheet, Table
from sgdtheory.cli import commands
from sgdtheory.cli.flags import File
from sgdtheory.cli.function_command import Drawn, Keywords, command_of


@dataclass(frozen=True, kw_only=True)
class ScaleFlags:
    """Flags that commands share."""

    FLAG_GROUPS: ClassVar = {"scale": ("unit",)}
    NEEDED_WITHOUT: ClassVar = {"--name": ("--unit",)}

    unit: float | None = None
    """Unit of the result."""
    name: str = ""
    """Name of the scale."""


def scaled(scale: ScaleFlags, place: File, num_steps: int = 3, *, drawn: bool) -> Drawn:
    """Multiply steps by a unit.

    A second paragraph.

    Args:
        place: File that nobody
            reads.
        num_steps: Number of steps; None: three.
    """
    if num_steps < 1:
        raise ValueError(f"num_steps must be at least 1, got {num_steps}")
    table = Table([Quantity("steps", "steps", num_steps * (scale.unit or 1.0)), Quantity("drawn", "drawn", drawn)])
    return Drawn(Sheet(place.name, [table], ["a remark"]), draw=Figure)


@pytest.fixture(autouse=True)
def _registered(monkeypatch):
    entry = commands.Entry("multiply", "scaled x", main="num_steps json")
    monkeypatch.setitem(commands.COMMANDS, "scaled", entry)
    monkeypatch.setitem(sys.modules, "sgdtheory.cli.scaled", sys.modules[__name__])


def test_flags_are_the_parameters_and_those_of_shared_dataclasses():
    flags = {flag.name: flag for flag in command_of(scaled).flags}
    assert set(flags) == {"place", "num_steps", "unit", "name", "plot", "json"}
    assert (flags["place"].required, flags["place"].text) == (True, "File that nobody reads.")
    assert (flags["num_steps"].kind.metavar, flags["num_steps"].shown) == ("INT", "3")
    assert flags["unit"].group == "scale"
    assert command_of(scaled).description == "Multiply steps by a unit.\n\nA second paragraph."


def multiplied(steps: int, *, times: int = 2, rounds: Sequence[int] = (1, 2)) -> int:
    """Multiply steps, as a function of a library.

    Args:
        steps: number of steps.
        times: how many times
            they are taken.
        rounds: numbers of rounds; None: two.

    Raises:
        ValueError: never.
    """
    return steps * times * sum(rounds)


def repeated(steps: int, **options: Annotated[Any, Keywords(multiplied, "times rounds")]) -> Sheet:
    """Repeat steps.

    Args:
        steps: Number of steps.
        rounds: Rounds in words of its own.
    """
    return Sheet("", [Table([Quantity("total", "total", multiplied(steps, **options))])])


def test_keywords_of_a_function_of_the_library_are_flags_with_its_sentences(run, monkeypatch):
    flags = {flag.name: flag for flag in command_of(repeated).flags}
    assert list(flags) == ["steps", "times", "rounds", "json"]
    assert (flags["steps"].required, flags["times"].required) == (True, False)
    assert (flags["times"].text, flags["times"].shown) == ("How many times they are taken.", "2")
    assert (flags["rounds"].text, flags["rounds"].shown) == ("Rounds in words of its own.", "1 2")
    assert flags["rounds"].kind.metavar == "INT ..."
    monkeypatch.setitem(commands.COMMANDS, "repeated", commands.Entry("repeat", "repeated x"))
    monkeypatch.setitem(sys.modules, "sgdtheory.cli.repeated", sys.modules[__name__])
    assert run.json("repeated", "--steps", 3)["total"] == 18
    assert run.json("repeated", "--steps", 3, "--times", 1, "--rounds", 1, 1, 3)["total"] == 15


def test_it_is_called_and_what_it_returns_is_printed(run, fails, tmp_path, capsys):
    assert run.json("scaled", "file", "--unit", 2.5, "--num-steps", "1e1") == {
        "steps": 25,
        "drawn": False,
        "notes": ["a remark"],
    }
    figure = tmp_path / "figure.png"
    assert "yes" in run("scaled", "file", "--unit", 2, "--plot", figure)
    assert figure.stat().st_size > 100
    assert "scaled needs --unit too" in fails("scaled", "file")
    assert "--num-steps must be at least 1, got 0" in fails("scaled", "file", "--name", "x", "--num-steps", 0)
    cli.main(["scaled", "--help"])
    assert "--num-steps INT" in (out := capsys.readouterr().out)
    assert "A second paragraph" not in out
    assert "sgdtheory scaled --help-all: 3 more flags." in out
