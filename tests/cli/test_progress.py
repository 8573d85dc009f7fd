"""Signs of life: notes at growing distances where there is no terminal, and none after the work."""

import io
import time

from rich.console import Console

from sgdtheory.cli import progress
from sgdtheory.cli.progress import phases


def test_notes_name_the_time_and_the_phase(monkeypatch, capsys):
    monkeypatch.setattr(progress, "FIRST", 0.02)
    with phases("reading") as show:
        time.sleep(0.05)
        show("fitting")
        time.sleep(0.3)
    err = capsys.readouterr().err
    notes = err.splitlines()
    assert notes[0] == "sgdtheory: note: 0 s: reading"
    assert notes[-1] == "sgdtheory: note: 0 s: fitting"
    assert 2 <= len(notes) <= 5  # they become rarer
    time.sleep(0.1)
    assert capsys.readouterr().err == ""


def test_quick_work_is_silent(monkeypatch, capsys):
    monkeypatch.setattr(progress, "FIRST", 3.0)
    with phases("reading"):
        pass
    assert capsys.readouterr().err == ""


def test_a_terminal_has_one_line(monkeypatch):
    screen = io.StringIO()
    monkeypatch.setattr(progress, "Console", lambda **_: Console(file=screen, force_terminal=True, width=60))
    with phases("reading") as show:
        show("fitting the curves")
        time.sleep(0.2)
    assert "s: fitting the curves" in screen.getvalue()
