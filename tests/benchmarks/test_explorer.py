"""The explorer's benchmark at toy size: it times every computation, and a real page where there is a browser."""

import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest

from benchmarks import explorer
from sgdtheory.explore import State
from sgdtheory.explore.spec import Answer
from tests.explore.conftest import CHROMIUM

ROOT = Path(__file__).parents[2]


@pytest.mark.slow  # half a minute
def test_the_whole_command():
    command = [sys.executable, "-m", "benchmarks.explorer", "--toy", "--repeats", "1"]
    done = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, timeout=600)
    assert done.returncode == 0, done.stderr
    rows = [line.split("│") for line in done.stdout.splitlines() if line.startswith("│")]
    computed = [row for row in rows if row[1].strip() == "2, 3, D = 1e3"]
    assert [row[2].strip() for row in computed] == ["sgd, averaged", "last"]
    assert all(number(cell) > 0 for row in computed for cell in row[3:-1])
    if CHROMIUM is None:
        assert "there is no Chromium" in done.stdout
        return
    pressed = {tuple(cell.strip() for cell in row[1:4]): number(row[4]) for row in rows if row not in computed}
    of_sgd = {("sgd", "source", "risk"), ("sgd", "source", "B*"), ("sgd", "learning_rate", "risk")}
    assert set(pressed) == of_sgd | {("last", "source", "risk"), ("last", "source", "B* to 1%")}
    assert all(0 < milliseconds < 1000 * explorer.LONGEST for milliseconds in pressed.values())


def number(cell):
    return float(cell.replace(",", ""))


def test_problems_are_not_seen_before_and_long_ones_are_computed_twice(monkeypatch):
    seen = []

    def compute(state, slot, tell):
        seen.append(state.capacity)
        tell(Answer("first"))
        tell(Answer("last"))

    first, last = explorer.times(compute, State(), 4)
    assert 0 < first <= last
    assert len(set(seen)) == len(seen) == 5
    monkeypatch.setattr(explorer, "LONG", -1.0)
    seen.clear()
    explorer.times(compute, State(), 4)
    assert len(seen) == 2


def test_a_number_that_did_not_change_is_not_given_a_time():
    assert explorer.milliseconds(np.nan) == "more than 60,000"
    assert explorer.milliseconds(0.0123) == "12"
