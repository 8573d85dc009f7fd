"""What a page shows of answers that come in another order than they were asked for: no browser, no workers."""

import itertools
from dataclasses import replace

import numpy as np
import pytest
from bokeh.document import Document

from sgdtheory.explore.computations import Answer
from sgdtheory.explore.page import Page
from sgdtheory.explore.state import State
from sgdtheory.explore.worker import Message

NAMES = "batch_size", "learning_rate", "num_steps", "optimal_risk", "optimal_batch_size", "num_samples", "overhead"


class Workers:
    """They note what they are to do, and do nothing."""

    def __init__(self):
        self.numbers = itertools.count()

    def submit(self, lane, page, subject, name, arguments, hear, grace):
        return next(self.numbers)

    def stop(self, page, subject=None):
        pass


@pytest.fixture
def page():
    return Page(Document(), Workers(), State(first="cosine last"), [])


def move(page, **parts):
    """Move controls: the numbers of the newest jobs."""
    page.state = replace(page.state, **parts)
    page.refresh()
    return dict(page.newest)


def samples(batch_size, about=False):
    marks = dict.fromkeys(NAMES, 1.0) | {"batch_size": float(batch_size)} | ({"approximate": 1.0} if about else {})
    return Answer("samples", {}, marks)


def risks(height, about=False):
    values = {"batch_size": np.array([1.0, 2.0]), "risk": np.full(2, float(height))}
    return Answer("risk", values if about else values | {"bias": values["risk"], "variance": values["risk"]}, MISSED)


MISSED = {"missed": 0.0}


def tell(page, name, jobs, answer):
    page.take((name, 0), Message(jobs[name, 0], "answer", answer))


def title(page):
    return page.panels["samples"].figure.title.text


def line(page, name="risk"):
    return list(page.panels["risk"].source(name, 0).data["y"])


def test_the_exact_one_replaces_what_came_ahead(page):
    jobs = move(page)
    tell(page, "ahead", jobs, samples(700, about=True))
    assert title(page).startswith("B* ≈ 700:")
    assert "data-about" in page.readings.text
    assert "data-name" not in page.readings.text
    tell(page, "critical", jobs, samples(685))
    assert title(page).startswith("B* = 685:")
    assert "data-about" not in page.readings.text
    tell(page, "ahead", jobs, samples(700, about=True))
    assert title(page).startswith("B* = 685:")


def test_no_older_exact_one_replaces_what_came_ahead(page):
    old = move(page)
    new = move(page, source=3.5)
    tell(page, "critical", old, samples(600))
    assert title(page).startswith("B* = 600:"), "until a newer one comes"
    tell(page, "ahead", new, samples(700, about=True))
    tell(page, "critical", old, samples(601))
    assert title(page).startswith("B* ≈ 700:")
    tell(page, "critical", new, samples(685))
    assert title(page).startswith("B* = 685:")


def test_what_is_exact_already_stays(page):
    jobs = move(page)
    tell(page, "tuned", jobs, risks(0.1))
    jobs = move(page, overhead=0.5)  # of which R(D, B) knows nothing
    tell(page, "ahead", jobs, risks(0.11, about=True))
    tell(page, "ahead", jobs, samples(900, about=True))
    assert line(page) == [0.1, 0.1]
    assert title(page).startswith("B* ≈ 900:")
    jobs = move(page, source=4.0)
    tell(page, "ahead", jobs, risks(0.2, about=True))
    assert line(page) == [0.2, 0.2]
    assert line(page, "bias") == [], "that of another state"


@pytest.mark.parametrize("ahead", [True, False])
def test_waiting_takes_away_what_is_of_another_state(page, ahead):
    jobs = move(page)
    tell(page, "tuned", jobs, risks(0.1))
    jobs = move(page, source=4.0)
    if ahead:
        tell(page, "ahead", jobs, risks(0.2, about=True))
    page.running = {subject: since - 10 for subject, since in page.running.items()}
    page.tell_status()
    assert line(page) == ([0.2, 0.2] if ahead else [])
    tell(page, "ahead", jobs, risks(0.3, about=True))
    assert line(page) == [0.3, 0.3], "late is better than never"


def test_averaged_sgd_has_nothing_ahead(page):
    jobs = move(page)
    new = move(page, first="sgd")
    assert ("ahead", 0) in jobs
    assert ("ahead", 0) not in new
    tell(page, "ahead", jobs, samples(700, about=True))
    assert title(page).strip() == ""
    page.take(("ahead", 0), Message(jobs["ahead", 0], "done"))
    tell(page, "critical", new, samples(228))
    assert title(page).startswith("B* = 228:")


def test_what_refuses_the_exact_one_is_said_once(page):
    jobs = move(page)
    page.take(("ahead", 0), Message(jobs["ahead", 0], "refused", "no"))
    assert page.words.text == ""
    page.take(("critical", 0), Message(jobs["critical", 0], "refused", "overhead must be small"))
    assert "overhead must be small" in page.words.text
