"""The experiments, in the order in which they run, and how long they take."""

import time
from collections.abc import Sequence

# Seconds on two cores, (quick, full); what this machine needs is learned from what has run.
SECONDS: dict[str, tuple[float, float]] = {
    "theorem7": (60, 1500),
    "scaling_laws": (5, 5),
    "simulation_vs_theory": (50, 400),
    "ratio_law": (15, 60),
    "heavy_tails": (40, 200),
    "corollary8": (60, 700),
    "corollary8_simulated": (60, 1500),
    "why": (5, 8),
    "overhead_convention": (12, 30),
    "width_limit": (40, 1200),
    "learning_rate_transfer": (60, 1200),
    "averaging": (90, 3600),
    "width_invariance": (60, 1600),
    "data_scaling": (60, 20),
    "theory_meets_network": (60, 550),
    "precision": (60, 350),
    "accumulation": (60, 600),
}
EXPERIMENTS = tuple(SECONDS)
# Some minutes together: by name, or at full scale.
LONGER = "learning_rate_transfer", "averaging", "data_scaling", "theory_meets_network", "precision", "accumulation"
TRUST_SECONDS = 20.0  # of work after which this machine's pace counts as much as the table's


class Schedule:
    """What is done of a list of experiments, and when the rest should be."""

    def __init__(self, names: Sequence[str], scale: str):
        self._seconds = {name: SECONDS[name][scale == "full"] for name in names}
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
        """Of the whole that is done, by the time that it takes."""
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
