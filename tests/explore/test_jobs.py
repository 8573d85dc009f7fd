"""Which jobs a page asks for, which workers get them, and what the page says of them meanwhile."""

from dataclasses import replace
from types import SimpleNamespace

import pytest
from bokeh.document import Document

from sgdtheory.explore import ledger
from sgdtheory.explore.page import Page
from sgdtheory.explore.spec import Answer
from sgdtheory.explore.state import State
from sgdtheory.explore.worker import Message
from sgdtheory.explore.workers import GRACE
from tests.explore.silent_workers import SilentWorkers

ALL = ["run", "rates", "tuned", "critical", "growth"]  # in the order in which they are asked for
AT_THE_SETTING = ["run", "rates"]
OF_EVERY_BATCH_SIZE = ["critical", "growth"]
RUN = Answer("path", {}, {"total": 0.5, "bias": 0.25, "learning_rate": 0.1})


@pytest.fixture
def page():
    """A new page of averaged SGD."""
    return Page(Document(), SilentWorkers(), State(), [])


def move(page, **parts):
    """The jobs that the page asks for when the state becomes another one."""
    before = len(page.workers.jobs)
    page.state = replace(page.state, **parts)
    page.refresh()
    return page.workers.jobs[before:]


def take(page, subject, kind, content=None):
    """A message of a subject's newest job."""
    page.take(subject, Message(page.ledger.newest[subject], kind, content))


@pytest.fixture
def clock(monkeypatch):
    """`clock(seconds)` lets time pass for what pages wait for."""
    now = [0.0]

    def pass_time(seconds):
        now[0] += seconds

    monkeypatch.setattr(ledger, "time", SimpleNamespace(monotonic=lambda: now[0]))
    return pass_time


def test_quick_jobs_have_workers_of_their_algorithm(page):
    """Both loss curves, and all but B* of averaged SGD. Jobs of an older position have time to end, but for growth."""
    quick = {"run", "rates", "tuned"}
    assert [job.subject for job in page.workers.jobs] == [(name, 0) for name in ALL]
    assert {job.subject[0]: job.lane for job in page.workers.jobs} == {
        name: "first" if name in quick else "long" for name in ALL
    }
    assert {job.subject[0]: job.grace for job in page.workers.jobs} == dict.fromkeys(ALL, GRACE) | {"growth": 0.0}
    jobs = move(page, first="last", second="sgd")
    assert {job.subject: job.lane for job in jobs if job.lane != "long"} == {("run", 0): "first"} | {
        (name, 1): "second" for name in quick
    }
    assert {job.subject for job in jobs} == {(name, slot) for name in ALL for slot in range(2)}
    assert {job.state for job in jobs} == {State(first="last", second="sgd")}


MOVES = {
    ("capacity", 1.5): ALL,
    ("source", 4.0): ALL,
    ("noise_variance", 0.5): ALL,
    ("precondition", 0.1): ALL,
    ("num_features", 16): ALL,
    ("num_samples", 1e5): ALL,
    ("batch_size", 8): AT_THE_SETTING,
    ("learning_rate", 0.1): ["run"],
    ("rate_factor", 2.0): ["run"],
    ("overhead", 0.3): OF_EVERY_BATCH_SIZE,
    ("colours", "dark"): [],
    ("text", "large"): [],
}


def test_a_move_asks_for_what_depends_on_it(page):
    for (name, value), jobs in MOVES.items():
        assert [job.subject for job in move(page, **{name: value})] == [(job, 0) for job in jobs], name
        assert move(page) == []


def test_what_failed_is_asked_for_again_and_what_was_refused_is_not(page):
    for name, kind in (("run", "failed"), ("rates", "stopped"), ("tuned", "refused"), ("critical", "done")):
        take(page, (name, 0), kind, f"{name} is {kind}")
    assert "loss curve: run is failed" in page.words.text
    assert "risk against batch size: tuned is refused" in page.words.text
    assert "stopped" not in page.words.text
    assert "done" not in page.words.text
    again = move(page)
    assert [job.subject[0] for job in again] == ["run", "rates"]
    assert "failed" not in page.words.text
    move(page, source=3.5)
    page.take(("run", 0), Message(again[0].number, "failed", "of an older position"))
    assert "older" not in page.words.text


def test_an_algorithm_that_is_removed_is_stopped_and_taken_away(page):
    move(page, second="last")
    take(page, ("run", 1), "answer", RUN)
    assert 'data-name="path-total-1"' in page.readings.text
    page.workers.stopped.clear()
    assert move(page, second="") == []
    assert page.workers.stopped == [(name, 1) for name in ALL]
    assert "path-total-1" not in page.readings.text
    assert not any(slot for _, slot in page.ledger.newest)


def test_the_status_names_what_takes_more_than_seven_tenths_of_a_second(clock, page):
    assert page.status.text == "Computing"
    for name in ("run", "rates", "tuned"):
        take(page, (name, 0), "done")
    for seconds, text in (
        (0.69, "Computing"),
        (0.02, "Computing: critical batch size (1 s), growth of B* (1 s)"),
        (2.0, "Computing: critical batch size (3 s), growth of B* (3 s)"),
    ):
        clock(seconds)
        page.tell_status()
        assert page.status.text == text
    for name in OF_EVERY_BATCH_SIZE:
        take(page, (name, 0), "done")
    page.simulate_or_stop()
    clock(3.0)
    page.tell_status()  # the share of a simulation is said beside its button
    assert (page.status.text, page.share.text) == ("Computing", "0% simulated")
    take(page, ("simulated", 0), "done")
    page.tell_status()
    assert (page.status.text, page.share.text) == ("Ready", "")


def test_lines_of_an_older_position_disappear_after_seven_tenths_of_a_second(clock, page):
    take(page, ("run", 0), "answer", RUN)
    move(page, source=3.5)
    for seconds, shown in ((0.69, True), (0.02, False)):
        clock(seconds)
        page.tell_status()
        assert ("path-total-0" in page.readings.text) == shown


def test_simulations_have_workers_of_their_own(page):
    """One for each algorithm; the share is that of the slower one, and the button stops both."""
    move(page, second="last")
    before = len(page.workers.jobs)
    page.simulate_or_stop()
    asked = page.workers.jobs[before:]
    assert [(job.subject, job.lane, job.grace) for job in asked] == [(("simulated", k), "asked", 0.0) for k in range(2)]
    for slot, share in enumerate((0.5, 0.25)):
        take(page, ("simulated", slot), "answer", Answer("simulated", {}, {"share": share}))
    assert page.share.text == "25% simulated"
    page.workers.stopped.clear()
    page.simulate_or_stop()
    assert page.workers.stopped == [("simulated", 0), ("simulated", 1)]
    points = dict.fromkeys(("num_samples", "risk", "low", "high"), [1.0, 2.0])
    for slot in range(2):
        answer = Answer("simulated", points, {"share": 1.0, "replicas": 100.0 + slot})
        take(page, ("simulated", slot), "answer", answer)
        take(page, ("simulated", slot), "done")
    page.tell_status()
    assert page.share.text == "Means of 100 and 101 simulated runs"
    move(page, capacity=0.9)
    before = len(page.workers.jobs)
    page.simulate_or_stop()
    assert len(page.workers.jobs) == before, "of a state that is refused there is nothing to simulate"


def test_a_simulation_stays_while_its_curve_does(page):
    """ω is nothing to a loss curve, but B is, and γ of either algorithm."""
    move(page, second="last")
    page.simulate_or_stop()
    number = page.ledger.newest["simulated", 1]
    move(page, overhead=0.4)
    assert page.ledger.newest["simulated", 1] == number
    page.workers.stopped.clear()
    move(page, second="tail")
    assert {("simulated", 0), ("simulated", 1)} <= set(page.workers.stopped)
    assert "simulated" not in {name for name, _ in page.ledger.newest}


def test_messages_of_workers_are_taken_when_the_page_looks(page):
    """A worker's message comes in another thread, and is shown at the next tick or at the next look around."""
    (run, *_) = page.workers.jobs
    before = len(page.document.session_callbacks)
    run.hear(Message(run.number, "answer", RUN))
    assert len(page.document.session_callbacks) == before + 1
    assert "path-total-0" not in page.readings.text
    page.look_around()
    assert 'data-name="path-total-0" data-value="0.5"' in page.readings.text


def test_numbers_that_a_move_has_changed_are_marked(page):
    """They are compared with the last numbers that were not pale, whatever positions were passed on the way."""

    def total(number, value):
        page.take(("run", 0), Message(number, "answer", Answer("path", {}, RUN.marks | {"total": value})))
        return page.readings.text.count('class="changed" data-name="path-total-0"')

    assert total(page.workers.jobs[0].number, 0.5) == 0
    assert total(move(page, source=3.1)[0].number, 0.6) == 1
    passed = move(page, source=3.2)[0].number
    move(page, source=3.3)
    assert total(passed, 0.7) == 0
    newest = move(page, source=3.4)[0].number
    assert total(newest, 0.7) == 1
    assert total(newest, 0.6) == 0


def test_a_page_that_was_left_is_stopped_and_shows_nothing_more(page):
    page.close()
    assert page.workers.stopped[-1] is None
    take(page, ("run", 0), "answer", RUN)
    assert page.readings.text == ""


def test_moves_that_come_together_are_computed_once(page):
    before = len(page.document.session_callbacks)
    for name, place in (("capacity", 1.5), ("source", 4.0), ("capacity", 1.6)):
        page.controls.numbers[name].slider.value = place
    assert len(page.document.session_callbacks) == before + 1
    asked = len(page.workers.jobs)
    page.refresh()
    assert [job.subject[0] for job in page.workers.jobs[asked:]] == ALL
    assert page.workers.jobs[-1].state == State(capacity=1.6, source=4.0)
    assert page.signals["link"].value == "a=1.6&b=4"
    page.controls.numbers["source"].slider.value = 3.0
    assert len(page.document.session_callbacks) == before + 2, "the next move"
    move(page, capacity=2.0)
    assert page.signals["link"].value == "?", "a link to the default"
