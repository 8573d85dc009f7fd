"""Order of jobs, turns of visitors, messages at the end, and workers that are free again after anything."""

import contextlib
import os
import random
import signal
import threading
import time
from collections import defaultdict

import pytest

from sgdtheory.explore import workers as module
from sgdtheory.explore.state import State
from sgdtheory.explore.worker import Job, work
from sgdtheory.explore.workers import Workers
from tests.explore.busy_worker import run_worker
from tests.marks import slow

PATIENCE = 120.0  # seconds: many times what anything takes
ENDLESS = 10**9
LANES = "first", "second", "long"


class Listener:
    """Hears all messages, in order, and can be waited for."""

    def __init__(self):
        self.changed = threading.Condition()
        self.messages = []

    def __call__(self, message):
        with self.changed:
            self.messages.append(message)
            self.changed.notify_all()

    def wait(self, condition):
        """Until it holds of the messages."""
        with self.changed:
            assert self.changed.wait_for(lambda: condition(self.messages), PATIENCE), self.messages[-5:]

    def wait_for_end(self, number):
        """Wait for the end of the job and return how it ended."""
        self.wait(lambda messages: any(each.number == number and each.kind != "answer" for each in messages))
        return next(each for each in self.messages if each.number == number and each.kind != "answer")

    def wait_for_answer(self, number):
        self.wait(lambda messages: any(each.number == number for each in messages))

    def of(self, number):
        return [each for each in self.messages if each.number == number]


@pytest.fixture
def listen():
    return Listener()


def processes(workers, lane):
    return [each.process for each in workers.lanes[lane]._workers]


@pytest.fixture(scope="module")
def workers():
    """Workers of `busy_worker`, one of them for long jobs."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(module, "work", run_worker)
        patch.setattr(module, "RESTARTED_AFTER", 0.2)
        patch.setattr(module.os, "cpu_count", lambda: 2)
        with contextlib.closing(Workers()) as own:
            yield own


@pytest.fixture
def submit(workers, listen):
    """`submit(subject, times, page=, lane=, name=, grace=)`: a job's number; at the end each has ended once at most."""

    def submit(subject, what=ENDLESS, page="page", lane="first", name="count", grace=0.0):
        return workers.submit(lane, page, subject, name, (what, subject), listen, grace)

    yield submit
    for page in {"page", "other", *"ab"}:
        workers.stop(page)
    for lane in LANES:
        listen.wait_for_end(submit("at the end", 1, lane=lane))
    by_number = defaultdict(list)
    for message in list(listen.messages):
        by_number[message.number].append(message.kind)
    for kinds in by_number.values():
        assert set(kinds[:-1]) <= {"answer"}, "nothing is told of a job after its end"


def test_answers_come_in_order_and_then_the_end(submit, listen):
    number = submit("x", 50)
    listen.wait_for_end(number)
    told = listen.of(number)
    assert [each.content for each in told[:-1]] == [("x", place) for place in range(50)]
    assert told[-1].kind == "done"


def test_what_waits_is_overtaken_by_newer_work_and_never_runs(submit, listen, workers):
    running = submit("running")
    listen.wait_for_answer(running)
    overtaken, other, newest = submit("moved"), submit("other", 3), submit("moved", 3)
    workers.stop("page", "running")
    assert listen.wait_for_end(newest).kind == "done"
    assert listen.wait_for_end(other).kind == "done"
    assert listen.wait_for_end(running).kind == "stopped"
    assert listen.of(overtaken) == []


def test_what_runs_is_stopped_by_newer_work(submit, listen):
    running = submit("moved")
    listen.wait_for_answer(running)
    newest = submit("moved", 3)
    assert listen.wait_for_end(running).kind == "stopped"
    assert listen.wait_for_end(newest).kind == "done"


def test_but_only_after_its_grace(submit, listen):
    running = submit("moved", 200, grace=1e6)
    listen.wait_for_answer(running)
    newest = submit("moved", 3)
    assert listen.wait_for_end(newest).kind == "done"
    assert [each.kind for each in listen.of(running)] == ["answer"] * 200 + ["done"]


def test_a_grace_ends(submit, listen):
    running = submit("moved", grace=0.3)
    listen.wait_for_answer(running)
    submit("moved", 3)
    assert listen.wait_for_end(running).kind == "stopped"


def test_a_visitor_who_leaves_waits_for_no_grace(submit, listen, workers):
    running = submit("moved", grace=1e6)
    listen.wait_for_answer(running)
    submit("moved", 3, grace=1e6)
    workers.stop("page")
    assert listen.wait_for_end(running).kind == "stopped"


def test_jobs_of_other_pages_subjects_and_lanes_are_not_touched(submit, listen, workers):
    others = [
        submit("moved", 100, page="other"),
        submit("moved", 100, lane="second"),
        submit("moved", 100, lane="long"),
    ]
    listen.wait_for_answer(others[0])
    mine = submit("moved", 100)
    submit("moved", 5)
    workers.stop("page", "another subject")
    assert [listen.wait_for_end(each).kind for each in others[:1]] == ["done"]
    assert [len(listen.of(each)) for each in others[:1]] == [101]
    assert listen.of(mine) == []
    assert [listen.wait_for_end(each).kind for each in others[1:]] == ["done", "done"]


def test_pages_take_turns(submit, listen):
    first = submit("running", 300, page="greedy")
    listen.wait_for_answer(first)
    greedy = [submit(subject, 1, page="greedy") for subject in range(5)]
    modest = submit("only one", 1, page="modest")
    for number in (*greedy, modest):
        listen.wait_for_end(number)
    ends = [each.number for each in listen.messages if each.kind == "done"]
    assert ends == [first, modest, *greedy]


@pytest.mark.parametrize(
    ("name", "kind", "words"), [("refuse", "refused", "no B"), ("fail", "failed", "RuntimeError: no B")]
)
def test_a_job_that_raises_is_told_in_words(submit, listen, name, kind, words):
    number = submit("x", "no B", name=name)
    assert listen.wait_for_end(number)[1:] == (kind, words)
    assert listen.wait_for_end(submit("x", 1)).kind == "done"


def test_stopping_a_page_drops_all_of_it_and_tells(submit, listen, workers):
    running = [submit("running", lane=lane) for lane in LANES]
    for number in running:
        listen.wait_for_answer(number)
    waiting = [submit(subject, lane=lane) for lane in LANES for subject in range(3)]
    stays = submit("stays", 1, page="other")
    workers.stop("page")
    assert [listen.wait_for_end(number).kind for number in (*running, *waiting)] == ["stopped"] * 12
    assert all(len(listen.of(number)) == 1 for number in waiting)
    assert listen.wait_for_end(stays).kind == "done"


def test_a_job_can_be_stopped_while_it_tells(submit, listen, workers):
    for _ in range(40):
        number = submit("x", name="flood")
        listen.wait_for_answer(number)
        workers.stop("page")
        assert listen.wait_for_end(number).kind == "stopped"


ONCE = """
import sys, time

assert not hasattr(sys, "begun"), "some modules cannot be begun twice"
sys.begun = True
for _ in range(50):
    time.sleep(0.01)
end = "whole"
"""


def test_half_an_import_is_not_left(submit, listen, tmp_path):
    """JAX is one of those: where the first moves of a slider interrupted its import, the worker failed ever after."""
    (tmp_path / "half_a_second.py").write_text(ONCE)
    number = submit("x", str(tmp_path), name="importing")
    listen.wait_for_answer(number)
    submit("x", 1)
    assert listen.wait_for_end(number).kind == "stopped"
    again = submit("y", str(tmp_path), name="importing")
    assert listen.wait_for_end(again).kind == "done"


def test_a_stop_that_comes_after_the_end_of_its_job_stops_nothing(submit, listen, workers):
    (worker,) = workers.lanes["first"]._workers
    process = worker.process
    for _ in range(3):
        number = submit("x", 1)
        listen.wait_for_end(number)
        for late in (0, 1, number):
            worker.connection.send(late)
    assert listen.wait_for_end(submit("x", 30)).kind == "done"
    assert worker.process is process


@pytest.mark.slow  # two seconds: another process begins
def test_a_job_that_does_not_stop_in_time_loses_its_process(submit, listen, workers, monkeypatch):
    """Others of the page lose nothing, and the next job has a new process."""
    (worker,) = workers.lanes["second"]._workers
    process = worker.process
    monkeypatch.setattr(workers.lanes["second"], "patience", 0.1)
    number = submit("x", 60, lane="second", name="deaf")
    listen.wait_for_answer(number)
    newer = submit("x", 1, lane="second")
    end = listen.wait_for_end(number)
    assert (end.kind, end.content) == ("failed", module.DIED)
    assert worker.process is not process
    assert not process.is_alive()
    assert listen.wait_for_end(newer).kind == "done"


@pytest.mark.skipif(not hasattr(os, "getpriority"), reason="priorities of processes are of Unix")
def test_long_jobs_leave_the_cores_to_quick_ones(submit, listen, workers):
    own = os.getpriority(os.PRIO_PROCESS, 0)
    for lane in ("first", "second", "long"):
        listen.wait_for_end(submit("x", 1, lane=lane))  # so that it has begun
        (worker,) = workers.lanes[lane]._workers
        found = os.getpriority(os.PRIO_PROCESS, worker.process.pid)
        assert found == own if lane != "long" else found > own or own == 19


@pytest.mark.parametrize(("cores", "long"), [(1, 1), (2, 1), (3, 2), (5, 4), (64, 4), (None, 1)])
def test_one_core_is_left_to_the_quick_workers(cores, long, monkeypatch):
    """At most four processes have long jobs, and two those that a visitor waits for."""
    monkeypatch.setattr(module.os, "cpu_count", lambda: cores)
    monkeypatch.setattr(module, "Lane", lambda number, nice=False, patience=module.PATIENCE: (number, nice))
    assert Workers().lanes == {"first": (1, False), "second": (1, False), "asked": (2, True), "long": (long, True)}


def test_a_worker_that_is_killed_is_replaced_and_says_so(submit, listen, workers):
    """A job can be stopped before the new one has warmed up, which then does not begin it."""
    number = submit("x")
    listen.wait_for_answer(number)  # so that it is this job of which the end of the process is told
    os.kill(processes(workers, "first")[0].pid, signal.SIGKILL)
    end = listen.wait_for_end(number)
    assert (end.kind, end.content) == ("failed", "the computing process ended; move a control to try again")
    stopped = submit("x")
    workers.stop("page")
    assert listen.wait_for_end(stopped).kind == "stopped"
    assert len(listen.of(stopped)) == 1
    assert listen.wait_for_end(submit("x", 1)).kind == "done"


@pytest.mark.parametrize("pause", [0.0, 0.1, slow(0.3)])
def test_work_that_comes_while_a_worker_is_replaced_is_done_or_told(submit, listen, workers, pause):
    assert listen.wait_for_end(submit("x", 1)).kind == "done"
    os.kill(processes(workers, "first")[0].pid, signal.SIGKILL)
    time.sleep(pause)
    number = submit("x", 1)
    workers.stop("page", "y")
    assert listen.wait_for_end(number).kind in ("done", "failed")
    assert listen.wait_for_end(submit("x", 1)).kind == "done"


@pytest.mark.parametrize("seconds", [0.3, slow(20.0)])
def test_after_any_number_of_moves_and_stops_every_worker_is_free(submit, listen, workers, seconds):
    dice, end = random.Random(7), time.monotonic() + seconds
    while time.monotonic() < end:
        lane, page, subject = dice.choice(LANES), dice.choice("ab"), dice.choice("xyz")
        if dice.random() < 0.2:
            workers.stop(page, dice.choice((None, subject)))
        else:
            name = dice.choice(("count", "flood", "refuse"))
            submit(subject, "no" if name == "refuse" else dice.choice((1, 30, ENDLESS)), page, lane, name)
        time.sleep(dice.choice((0.0, 0.0, 0.001, 0.004)))
    for page in "ab":
        workers.stop(page)
    for lane in LANES:
        assert listen.wait_for_end(submit("again", 1, "a", lane)).kind == "done"


def test_a_real_worker_computes_and_takes_problems_that_there_are_none_of(listen, monkeypatch):
    monkeypatch.setattr(module, "work", work)
    with contextlib.closing(module.Lane(1)) as lane:  # warming up takes a second of a core for each worker
        for number, state in enumerate((State(capacity=0.9), State(num_samples=1e3))):
            lane.submit(module.Task("page", number, Job(number, "run", (state, 0)), listen, 0.0))
        assert listen.wait_for_end(0).kind == "refused"
        assert listen.wait_for_end(1).kind == "done"
        assert [each.kind for each in listen.of(1)] == ["answer", "done"]
    assert all(each.process.exitcode is not None for each in lane._workers)
