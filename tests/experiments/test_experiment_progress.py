"""Progress, schedule and display of the experiments."""

import io
import re
from dataclasses import replace

import pytest
from rich.console import Console

from experiments._lib import display as display_module
from experiments._lib import schedule as schedule_module
from experiments._lib.display import Display, summary
from experiments._lib.progress import listening, report, stage, tracked
from experiments._lib.registry import EXPERIMENTS
from experiments._lib.results import Verdict
from experiments._lib.schedule import Schedule, duration


def verdict(claim, name):
    return Verdict(claim, "statement", 1.0, 2.0, None, name)


@pytest.fixture
def heard():
    said = []
    with listening(lambda name, share: said.append((name, round(share, 6)))):
        yield said


def test_stages_and_loops_are_spans_within_spans(heard):
    with stage("first", 0.0, 0.5):
        for _ in tracked("ab"):
            for _ in tracked([1, 2]):
                pass
    with stage("second", 0.5, 1.0):
        report(0.5)
    shares = [share for _, share in heard]
    assert shares == sorted(shares)
    assert {0.125, 0.25, 0.375} < set(shares)
    assert heard[-2:] == [("second", 0.75), ("second", 1.0)]


def test_items_take_their_share_of_the_work(heard):
    list(tracked("ab", [1, 3]))
    assert [share for _, share in heard] == [0.0, 0.25, 1.0]


def test_nobody_needs_to_listen():
    assert list(tracked(zip("ab", "cd", strict=True))) == [("a", "c"), ("b", "d")]


def test_time_left_is_learned(monkeypatch):
    now = 0.0
    monkeypatch.setattr(schedule_module.time, "perf_counter", lambda: now)
    names, (first, second) = ("theorem7", "corollary8"), (60.0, 40.0)
    for name, seconds in zip(names, (first, second), strict=True):
        monkeypatch.setitem(EXPERIMENTS, name, replace(EXPERIMENTS[name], quick=seconds))
    plan = Schedule(names, "quick")
    whole = first + second
    assert plan.seconds_left == whole
    now = 3 * first  # a machine three times slower than the table's
    plan.set("theorem7", 1.0)
    assert plan.share == pytest.approx(first / whole)
    assert 2 * second < plan.seconds_left < 3 * second
    plan.set("theorem7", 0.5)  # a worker that hears late
    plan.set("corollary8", 1.0)
    assert (plan.share, plan.seconds_left) == (1.0, 0.0)


@pytest.mark.parametrize(("seconds", "text"), [(0.4, "0 s"), (99, "99 s"), (100, "2 min"), (8000, "2 h 13 min")])
def test_durations(seconds, text):
    assert duration(seconds) == text


def test_a_finished_line_names_the_verdicts():
    assert summary([verdict("x", "holds"), verdict("y", "holds"), verdict("z", "inconclusive")]) == (
        "2 hold, 1 inconclusive"
    )
    assert summary([verdict("x", "fails"), verdict("y", "holds")]) == "1 holds, 1 fails: x"
    assert summary([]) == "no claims"


def shown(monkeypatch, *, terminal, names=("theorem7", "scaling_laws")):
    """Return the display of a run whose first experiment reports three times, the second never."""
    file = io.StringIO()
    width = {"width": 150} if terminal else {}
    monkeypatch.setattr(display_module, "Console", lambda: Console(file=file, force_terminal=terminal, **width))
    monkeypatch.setattr(display_module, "PIPE_SECONDS", 0.0)
    display = Display(names, "quick")
    display.start()
    for name in names:
        with display.running(name), stage("search", 0.0, 1.0):
            report(0.5)
        display.finished(name, [verdict("x", "holds")], 100.0)
    return file.getvalue()


def test_a_pipe_gets_plain_lines(monkeypatch):
    lines = shown(monkeypatch, terminal=False).splitlines()
    assert lines[0].startswith("2 experiments, about")
    assert re.fullmatch(r"  theorem7 \(1 of 2\), search: 50%, all: \d+%, about .* left", lines[2])
    assert lines[4].startswith("theorem7 (1 of 2): 1 holds (2 min; ")
    assert lines[4].endswith(" left)")
    assert lines[-1] == "scaling_laws (2 of 2): 1 holds (2 min)"
    assert "\x1b" not in "".join(lines)


def test_a_terminal_gets_a_live_line(monkeypatch):
    text = shown(monkeypatch, terminal=True)
    assert "theorem7 (1 of 2), search: " in text
    assert "left" in text
    assert "\x1b[?25h" in text  # the cursor comes back


def test_every_experiment_has_a_time():
    assert all(each.quick > 0 and each.full > 0 for each in EXPERIMENTS.values())
