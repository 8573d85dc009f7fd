"""Progress of a list of experiments, and its expected end."""

import time
from collections.abc import Sequence

from experiments._lib.registry import EXPERIMENTS, Scale

TRUST_SECONDS = 20.0  # of work after which this machine's pace counts as much as the table's


class Schedule:
    """Finished part of a list of experiments, and the expected time of the rest."""

    def __init__(self, names: Sequence[str], scale: Scale):
        self._seconds = {name: EXPERIMENTS[name].seconds(scale) for name in names}
        self._share = dict.fromkeys(names, 0.0)
        self._start = time.perf_counter()

    def set(self, name: str, share: float) -> None:
        """`share` of an experiment is done; what was done stays done."""
        self._share[name] = max(self._share[name], min(share, 1.0))

    @property
    def elapsed(self) -> float:
        """Seconds since the start."""
        return time.perf_counter() - self._start

    @property
    def share(self) -> float:
        """Return the finished fraction of the whole, by the time that it takes."""
        return self._done / sum(self._seconds.values())

    @property
    def seconds_left(self) -> float:
        """Estimate: the table's, at the pace of this machine so far."""
        left = sum(self._seconds.values()) - self._done
        return left * (TRUST_SECONDS + self.elapsed) / (TRUST_SECONDS + self._done)

    @property
    def _done(self) -> float:
        return sum(self._share[name] * seconds for name, seconds in self._seconds.items())


def duration(seconds: float) -> str:
    """40 s, 5 min, 2 h 10 min."""
    if seconds < 99.5:
        return f"{seconds:.0f} s"
    minutes = round(seconds / 60)
    return f"{minutes} min" if minutes < 100 else f"{minutes // 60} h {minutes % 60} min"
