"""Record of the jobs and answers of one page: a subject shows its newest job's answer, until then an older one's."""

import time
from typing import Any

Subject = tuple[str, int]  # a computation, and the place of the algorithm


class Ledger:
    """Jobs that one page has handed to the workers, and the answers that have come.

    Attributes:
        computed: subject → the inputs for which it was last computed.
        newest: subject → number of its newest job.
        running: subject → time at which its newest job was handed over.
    """

    def __init__(self) -> None:
        self.computed: dict[Subject, Any] = {}
        self.newest: dict[Subject, int] = {}
        self.running: dict[Subject, float] = {}
        self._shown: dict[Subject, int] = {}  # number of the job whose answer is shown
        self._oldest: dict[Subject, int] = {}  # number of the oldest job whose answer may still be shown

    def begun(self, subject: Subject, number: int) -> None:
        """Record that a job has been handed to the workers."""
        self.newest[subject] = number
        self.running[subject] = time.monotonic()

    def ended(self, subject: Subject, number: int, whole: bool) -> bool:
        """Record that a job has ended, its work done (`whole`) or not; return whether it was the newest one."""
        if number != self.newest.get(subject):
            return False
        self.running.pop(subject, None)
        if not whole:
            self.computed.pop(subject, None)  # so that it is done anew
        return True

    def admits(self, subject: Subject, number: int) -> bool:
        """Return whether an answer is to be shown; no answer of an older job is shown after it."""
        if subject not in self.newest or number < max(self._shown.get(subject, -1), self._oldest.get(subject, -1)):
            return False
        if subject[0] == "simulated" and number != self.newest[subject]:
            return False
        self._shown[subject] = number
        return True

    def without_older(self, subject: Subject) -> None:
        """Admit no more answers of a subject that were computed for an earlier state."""
        self._oldest[subject] = self.newest[subject]

    def waited(self) -> dict[Subject, float]:
        """Return for how many seconds the page has waited for each subject."""
        now = time.monotonic()
        return {subject: now - since for subject, since in self.running.items()}

    def showing_older(self, seconds: float) -> list[Subject]:
        """Return the subjects that show an older state's answer after more than so many seconds of waiting."""
        return [subject for subject, waited in self.waited().items() if waited > seconds and self.is_older(subject)]

    def is_older(self, subject: Subject) -> bool:
        """Return whether the answer that a subject shows was computed for another state than the controls have."""
        return self.newest[subject] not in (self._shown.get(subject), self._oldest.get(subject))

    def is_awaited(self, subject: Subject) -> bool:
        """Return whether no answer of a subject's newest job has come."""
        return self.newest[subject] != self._shown.get(subject)

    def forget(self, subject: Subject) -> None:
        """Remove a subject that is no part of the page any more."""
        for each in (self.computed, self.running, self.newest):
            each.pop(subject, None)

    def clear(self) -> None:
        """Forget all jobs."""
        self.computed.clear()
        self.running.clear()
