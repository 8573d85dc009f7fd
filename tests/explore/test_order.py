"""Display of answers that come in another order than requested: no browser, no workers."""

import re
import time
from dataclasses import replace

import numpy as np
import pytest
from bokeh.document import Document

from sgdtheory.explore.page import Page
from sgdtheory.explore.spec import Answer
from sgdtheory.explore.state import State
from sgdtheory.explore.worker import Message
from tests.explore.silent_workers import SilentWorkers

NAMES = "batch_size", "learning_rate", "num_steps", "optimal_risk", "optimal_batch_size", "num_samples", "overhead"


@pytest.fixture
def page():
    return Page(Document(), SilentWorkers(), State(first="cosine last"), [])


def move(page, **parts):
    """Move controls: the numbers of the newest jobs."""
    page.state = replace(page.state, **parts)
    page.refresh()
    return dict(page.ledger.newest)


def samples(batch_size):
    return Answer("samples", {}, dict.fromkeys(NAMES, 1.0) | {"batch_size": float(batch_size)})


def risks(height):
    values = dict.fromkeys(("risk", "bias", "variance"), np.full(2, float(height)))
    return Answer("risk", {"batch_size": np.array([1.0, 2.0])} | values, MISSED)


MISSED = {"missed": 0.0}


def tell(page, name, jobs, answer):
    page.take((name, 0), Message(jobs[name, 0], "answer", answer))


def title(page):
    return re.sub("<[^>]*>", "", page.panels["samples"].caption.text)


def line(page, name="risk"):
    return list(page.panels["risk"].source(name, 0).data["y"])


def test_no_older_answer_replaces_a_newer_one(page):
    old = move(page)
    new = move(page, source=3.5)
    tell(page, "critical", old, samples(600))
    assert title(page).startswith("B* = 600:"), "until a newer one comes"
    tell(page, "critical", new, samples(685))
    tell(page, "critical", old, samples(601))
    assert title(page).startswith("B* = 685:")


def test_what_does_not_depend_on_a_slider_stays(page):
    jobs = move(page)
    tell(page, "tuned", jobs, risks(0.1))
    jobs = move(page, overhead=0.5)  # of which R(D, B) knows nothing
    tell(page, "critical", jobs, samples(900))
    assert line(page) == [0.1, 0.1]
    assert title(page).startswith("B* = 900:")


def test_waiting_takes_away_what_is_of_another_state(page):
    jobs = move(page)
    tell(page, "tuned", jobs, risks(0.1))
    jobs = move(page, source=4.0)
    page.ledger.running = {subject: since - 10 for subject, since in page.ledger.running.items()}
    page.tell_status()
    assert line(page) == []
    tell(page, "tuned", jobs, risks(0.3))
    assert line(page) == [0.3, 0.3], "late is better than never"


def test_a_refusal_is_shown(page):
    jobs = move(page)
    page.take(("critical", 0), Message(jobs["critical", 0], "refused", "overhead must be small"))
    assert "overhead must be small" in page.words.text


def panel_is_pale(page):
    """Return whether the browser is told to draw star, line and title pale, as `page.css` does."""
    return "samples:stale" in page.signals["awaited"].value.split()


def test_what_is_of_another_setting_is_pale_until_the_newer_comes(page):
    """No number in bold, no star and no title in full that do not belong to where the sliders stand."""
    jobs = move(page)
    tell(page, "critical", jobs, samples(685))
    assert not panel_is_pale(page)
    assert "data-name" in page.readings.text
    new = move(page, source=3.5)
    for _ in range(2):  # at once, and where an answer of an older position comes meanwhile
        assert panel_is_pale(page)
        assert "data-name" not in page.readings.text
        assert 'data-old="samples-batch_size-0"' in page.readings.text
        assert page.status.text == "Computing"
        tell(page, "critical", jobs, samples(684))
    tell(page, "critical", new, samples(690))
    assert not panel_is_pale(page)
    assert "data-old" not in page.readings.text
    assert 'data-name="samples-batch_size-0"' in page.readings.text


def test_of_another_kind_of_algorithm_nothing_stays(page):
    """Its name is new at once: what stood beside the old one goes. A number of the same kind makes it pale alone."""
    jobs = move(page)
    tell(page, "tuned", jobs, risks(0.1))
    tell(page, "critical", jobs, samples(685))
    new = move(page, first="cosine final=0.1 last")
    assert line(page) == [0.1, 0.1]
    assert title(page).startswith("B* = 685:")
    newer = move(page, first="linear last")
    assert line(page) == []
    assert (title(page), page.readings.text) == ("", "")
    tell(page, "tuned", new, risks(0.2))
    assert line(page) == [], "of the other one"
    tell(page, "tuned", newer, risks(0.3))
    assert line(page) == [0.3, 0.3]


def test_ready_is_said_when_all_has_come(page):
    jobs = move(page)
    page.ledger.running = dict.fromkeys(page.ledger.running, time.monotonic())  # on a slow machine it was long ago
    page.tell_status()
    assert page.status.text == "Computing"
    for name, slot in jobs:
        page.take((name, slot), Message(jobs[name, slot], "done"))
    page.tell_status()
    assert page.status.text == "Ready"


def test_of_a_refused_state_nothing_is_shown_and_all_is_computed_anew_after_it(page):
    jobs = move(page)
    tell(page, "tuned", jobs, risks(0.1))
    move(page, capacity=1.0)
    assert "move a up" in page.words.text
    tell(page, "tuned", jobs, risks(0.2))
    assert line(page) == []
    new = move(page, capacity=2.0)
    assert all(new[subject] > number for subject, number in jobs.items())
    assert page.words.text == ""


def test_a_simulation_is_of_the_state_that_it_was_asked_for(page):
    """A move takes it away, and what still comes of it; the button stops it."""

    def told(number, share):
        tell(page, "simulated", {("simulated", 0): number}, Answer("simulated", {}, {"share": share}))
        return page.share.text

    move(page)
    page.simulate_or_stop()
    assert page.simulation.label.startswith("Stop")
    number = page.ledger.newest["simulated", 0]
    assert told(number, 0.5) == "50% simulated"
    page.simulate_or_stop()
    page.take(("simulated", 0), Message(number, "stopped"))
    page.tell_status()
    assert page.simulation.label.startswith("Simulate")
    page.simulate_or_stop()
    assert told(number, 0.75) != "75% simulated", "of the one before"
    assert told(page.ledger.newest["simulated", 0], 0.25) == "25% simulated"
    move(page, source=3.5)
    assert ("simulated", 0) not in page.ledger.newest
    assert (page.share.text, page.simulation.label) == ("", "Simulate the loss curves")


def test_a_slider_that_is_not_in_force_has_no_number(page):
    """The number is written anew when the title changes."""
    slider = page.controls.numbers["num_features"].slider
    before = slider.title
    assert slider.format.code == "return 'all'"
    page.controls.show(replace(page.state, num_features=128))
    assert "all" not in slider.format.code
    assert slider.title != before


def test_every_entry_of_a_legend_has_its_symbol_and_its_whole_name(page):
    name = "heavy-ball momentum=0.9 cosine final=0.05 warmup=0.1 tail"
    move(page, second=name)
    for panel in page.panels.values():
        if panel.entries:
            symbols = re.findall("<svg.*?</svg>", panel.key.text)
            assert len(symbols) == len(panel.entries) + 1  # "" stands for both algorithms
            assert all("<path" in symbol for symbol in symbols)
            assert name in panel.key.text
    assert "simulated" not in page.panels["path"].key.text
