"""Estimate of the time that a sweep still takes: steps left times the measured time of a step of each kind."""

import heapq
import itertools
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np
from scipy.optimize import nnls

from sgdtheory.training import TrainConfig, side_by_side

Unit = tuple[TrainConfig, ...]
OVERDUE = 0.1  # A unit that should have ended already is assumed to need this fraction of its age.


@dataclass(frozen=True)
class Taken:
    """Steps and time that a unit took.

    Attributes:
        steps: steps of the unit's longest run.
        setup: seconds until the first step, which is mostly compilation.
        stepping: seconds after the first step, including evaluations and files.
        worker: name of the worker that ran the unit.
    """

    steps: int
    setup: float
    stepping: float
    worker: str = ""


@dataclass
class Pace:
    """Measured times of units by kind, where a kind is one compiled program with one number of runs side by side.

    The time of a step of a kind without measurement is predicted as α + β·operations with α, β ≥ 0, fitted to the
    kinds that were measured. Beyond these it grows at most with the square root of the operations, because few noisy
    measurements would extrapolate to times that are far too long.
    """

    taken: dict[Any, list[Taken]] = field(default_factory=dict)
    operations: dict[Any, float] = field(default_factory=dict)
    shares: dict[Any, list[float]] = field(default_factory=dict)

    def learn(self, unit: Unit, taken: Taken, *, whole: bool = True) -> None:
        """Record the time that a unit took; `whole` means that its runs ended and were not stopped."""
        self.taken.setdefault(kind(unit), []).append(taken)
        self.operations[kind(unit)] = _operations(unit)
        if whole:
            self.shares.setdefault(kind(unit), []).append(taken.steps / unit[0].max_steps)

    def knows(self, units: Sequence[Unit]) -> bool:
        """Return whether these units' times can be predicted: every kind of them was measured, or any two kinds."""
        return len(self.taken) > 1 or bool(self.taken) and all(kind(unit) in self.taken for unit in units)

    def seconds_of(self, unit: Unit, *, again: bool = False) -> float:
        """Predict the seconds of a unit: set-up, which is less if its kind was compiled before (`again`), and steps."""
        return self._setup(kind(unit), again) + self.steps_of(unit) * self.step_seconds(unit)

    def steps_of(self, unit: Unit) -> float:
        """Predict the steps of a unit: max_steps times the mean share that units of its kind, or of all kinds, took."""
        shares = self.shares.get(kind(unit)) or list(itertools.chain(*self.shares.values()))
        return unit[0].max_steps * (float(np.mean(shares)) if shares else 1.0)

    def step_seconds(self, unit: Unit) -> float:
        """Return the seconds of one step of all runs of a unit."""
        seconds = {each: _per_step(rows) for each, rows in self.taken.items()}
        if kind(unit) in seconds:
            return seconds[kind(unit)]
        work, times = (np.array([source[each] for each in seconds]) for source in (self.operations, seconds))
        scale = 1 / times  # The fit is weighted so that relative errors count equally.
        (alpha, beta), _ = nnls(np.stack([scale, work / work.max() * scale], axis=1), np.ones(times.size))
        ratio = _operations(unit) / work.max()
        return float(min(alpha + beta * ratio, times.max() * max(1.0, ratio) ** 0.5))

    def _setup(self, of: Any, again: bool) -> float:
        """Predict the set-up time of a kind, whose units share one compilation, for which only the first waits."""
        own, everything = self.taken.get(of, []), list(self.taken.values())
        if own or again:
            later = [taken.setup for rows in ([own] if len(own) > 1 else everything) for taken in rows[1:]]
            return float(np.mean(later)) if later else 0.0
        return float(np.mean([rows[0].setup for rows in everything]))


@dataclass
class Countdown:
    """The estimated time until the last unit of a sweep ends.

    Attributes:
        left: units that have not ended, in the order in which workers take them.
        workers: number of units that run at once.
        pace: measured times.
        clock: function that returns the time in seconds.
    """

    left: list[Unit]
    workers: int = 1
    pace: Pace = field(default_factory=Pace)
    clock: Callable[[], float] = time.perf_counter
    _began: dict[Unit, float] = field(default_factory=dict)
    _seen: set[str] = field(default_factory=set)

    def began(self, unit: Unit) -> None:
        """Record that a unit is running, if that is not known yet."""
        self._began.setdefault(unit, self.clock())

    def ended(self, unit: Unit, taken: Taken | None) -> None:
        """Record that a unit has ended or, with None, was not run."""
        self._began.pop(unit, None)
        if taken is None:
            return
        self.left.remove(unit)
        if taken.steps:
            self.pace.learn(unit, taken)
        self._seen.add(taken.worker)

    @property
    def seconds_left(self) -> float:
        """Seconds until the last unit ends, if each goes to the first free worker; nan if times cannot be predicted."""
        if not self.left:
            return 0.0
        if not self.pace.knows(self.left):
            return float("nan")
        now, workers = self.clock(), max(self.workers, len(self._seen))
        running = [unit for unit in self.left if unit in self._began][:workers]
        free = sorted(self._rest(unit, now - self._began[unit]) for unit in running)
        free += [0.0] * (workers - len(free))
        heapq.heapify(free)
        before = {kind(unit) for unit in running}
        for unit in self.left:
            if unit not in running:
                heapq.heapreplace(free, free[0] + self.pace.seconds_of(unit, again=kind(unit) in before))
                before.add(kind(unit))
        return max(free)

    def _rest(self, unit: Unit, age: float) -> float:
        return max(self.pace.seconds_of(unit) - age, OVERDUE * age)


def kind(unit: Sequence[TrainConfig]) -> Any:
    """Return a key that units share if a step takes them the same time."""
    return side_by_side(unit[0]), len(unit)


def _operations(unit: Unit) -> float:
    return sum(config.operations for config in unit)


def _per_step(rows: list[Taken]) -> float:
    return sum(taken.stepping for taken in rows) / max(1, sum(taken.steps for taken in rows))
