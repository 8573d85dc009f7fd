"""Workers that take the jobs of a page and compute nothing."""

import itertools
from typing import Any, NamedTuple


class Submitted(NamedTuple):
    """A job that a page has asked for."""

    number: int
    lane: str
    subject: tuple[str, int]
    state: Any
    hear: Any
    grace: float


class SilentWorkers:
    """They note what they are to do, and do nothing.

    Attributes:
        jobs: those asked for, the newest last.
        stopped: subjects that were to stop; None stands for all of a page.
    """

    def __init__(self):
        self.numbers = itertools.count()
        self.jobs, self.stopped = [], []

    def submit(self, lane, page, subject, name, arguments, hear, grace):
        assert (name, arguments[1]) == subject
        self.jobs.append(Submitted(next(self.numbers), lane, subject, arguments[0], hear, grace))
        return self.jobs[-1].number

    def stop(self, page, subject=None):
        self.stopped.append(subject)
