"""Which answers may be shown: of each subject the newest job's, and until that has come an older one's."""

import time
from typing import Any

Subject = tuple[str, int]  # a computation, and the place of the algorithm


class Ledger:
    """What one page has had computed, and what of it has come.

    Attributes:
        computed: subject → what of the state it was last computed for.
        newest: subject → number of its newest job.
        running: subject → since when its newest job has been waited for.
    """

    def __init__(self) -> None:
        self.computed: dict[Subject, Any] = {}
        self.newest: dict[Subject, int] = {}
        self.running: dict[Subject, float] = {}
        self._shown: dict[Subject, int] = {}  # number of the job whose answer is shown
        self._oldest: dict[Subject, int] = {}  # number of the oldest job whose answer may still be shown

    def begun(self, subject: Subject, number: int) -> None:
        """A job has been handed to the workers."""
        self.newest[subject] = number
        self.running[subject] = time.monotonic()

    def ended(self, subject: Subject, number: int, whole: bool) -> bool:
        """A job has ended, its work done or not; whether it was the newest one."""
        if number != self.newest.get(subject):
            return False
        self.running.pop(subject, None)
        if not whole:
            self.computed.pop(subject, None)  # so that it is done anew
        return True

    def admits(self, subject: Subject, number: int) -> bool:
        """Whether an answer is to be shown; from then on none of an older job is."""
        if subject not in self.newest or number < max(self._shown.get(subject, -1), self._oldest.get(subject, -1)):
            return False
        if subject[0] == "simulated" and number != self.newest[subject]:
            return False
        self._shown[subject] = number
        return True

    def without_older(self, subject: Subject) -> None:
        """Show nothing of it that was computed for another state."""
        self._oldest[subject] = self.newest[subject]

    def waited(self) -> dict[Subject, float]:
        """For how many seconds each has been waited for."""
        now = time.monotonic()
        return {subject: now - since for subject, since in self.running.items()}

    def showing_older(self, seconds: float) -> list[Subject]:
        """What has been waited for so long while an older position's answer is shown."""
        return [subject for subject, waited in self.waited().items() if waited > seconds and self.is_older(subject)]

    def is_older(self, subject: Subject) -> bool:
        """Whether what is shown of it is of another state than that of the controls."""
        return self.newest[subject] not in (self._shown.get(subject), self._oldest.get(subject))

    def is_awaited(self, subject: Subject) -> bool:
        """Whether nothing of its newest job has come."""
        return self.newest[subject] != self._shown.get(subject)

    def forget(self, subject: Subject) -> None:
        """It is no part of the page any more."""
        for each in (self.computed, self.running, self.newest):
            each.pop(subject, None)

    def clear(self) -> None:
        """Nothing is computed or waited for."""
        self.computed.clear()
        self.running.clear()
