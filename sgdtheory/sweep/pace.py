"""How long the units of a sweep still take: steps left times the measured time of a step of that kind."""

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
OVERDUE = 0.1  # of its age, what a unit that should have ended is thought to have left


@dataclass(frozen=True)
class Taken:
    """What a unit took.

    Attributes:
        steps: of its longest run.
        setup: seconds until its first step, compilation above all.
        stepping: seconds from there on, evaluations and files too.
        worker: who ran it.
    """

    steps: int
    setup: float
    stepping: float
    worker: str = ""


@dataclass
class Pace:
    """What units have taken, kind by kind; a kind is one compiled program: runs of one shape side by side.

    The time of a step of a kind that was not measured yet is a line in its operations, α + β·operations with α, β ≥ 0,
    through those that were; beyond them it grows at most like their square root, since few and noisy ones would put it
    too high by far.
    """

    taken: dict[Any, list[Taken]] = field(default_factory=dict)
    operations: dict[Any, float] = field(default_factory=dict)
    shares: dict[Any, list[float]] = field(default_factory=dict)

    def learn(self, unit: Unit, taken: Taken, *, whole: bool = True) -> None:
        """Note what a unit took; `whole` if its runs ended, and were not stopped."""
        self.taken.setdefault(kind(unit), []).append(taken)
        self.operations[kind(unit)] = _operations(unit)
        if whole:
            self.shares.setdefault(kind(unit), []).append(taken.steps / unit[0].max_steps)

    def knows(self, units: Sequence[Unit]) -> bool:
        """Whether there is enough to go by: every kind of these units was measured, or two kinds were."""
        return len(self.taken) > 1 or bool(self.taken) and all(kind(unit) in self.taken for unit in units)

    def seconds_of(self, unit: Unit, *, again: bool = False) -> float:
        """What a unit will take: its set-up, less if one of its kind came before (`again`), and its expected steps."""
        return self._setup(kind(unit), again) + self.steps_of(unit) * self.step_seconds(unit)

    def steps_of(self, unit: Unit) -> float:
        """Expected steps: max_steps times the share of them that units of its kind, or of all kinds, took so far."""
        shares = self.shares.get(kind(unit)) or list(itertools.chain(*self.shares.values()))
        return unit[0].max_steps * (float(np.mean(shares)) if shares else 1.0)

    def step_seconds(self, unit: Unit) -> float:
        """Seconds of a step of all runs of a unit."""
        seconds = {each: _per_step(rows) for each, rows in self.taken.items()}
        if kind(unit) in seconds:
            return seconds[kind(unit)]
        work, times = (np.array([source[each] for each in seconds]) for source in (self.operations, seconds))
        scale = 1 / times  # errors are relative
        (alpha, beta), _ = nnls(np.stack([scale, work / work.max() * scale], axis=1), np.ones(times.size))
        ratio = _operations(unit) / work.max()
        return float(min(alpha + beta * ratio, times.max() * max(1.0, ratio) ** 0.5))

    def _setup(self, of: Any, again: bool) -> float:
        """Of a unit of a kind: those of one kind share the compilation, which the first has to wait for."""
        own, everything = self.taken.get(of, []), list(self.taken.values())
        if own or again:
            later = [taken.setup for rows in ([own] if len(own) > 1 else everything) for taken in rows[1:]]
            return float(np.mean(later)) if later else 0.0
        return float(np.mean([rows[0].setup for rows in everything]))


@dataclass
class Countdown:
    """The time that the units of a sweep still take, by a clock.

    Attributes:
        left: units that have not ended, in the order in which they are taken.
        workers: how many run at once.
        pace: what is known of their times.
        clock: seconds.
    """

    left: list[Unit]
    workers: int = 1
    pace: Pace = field(default_factory=Pace)
    clock: Callable[[], float] = time.perf_counter
    _began: dict[Unit, float] = field(default_factory=dict)
    _seen: set[str] = field(default_factory=set)

    def began(self, unit: Unit) -> None:
        """A unit is being run, if it was not before."""
        self._began.setdefault(unit, self.clock())

    def ended(self, unit: Unit, taken: Taken | None) -> None:
        """A unit has ended, or, with None, was not run."""
        self._began.pop(unit, None)
        if taken is None:
            return
        self.left.remove(unit)
        if taken.steps:
            self.pace.learn(unit, taken)
        self._seen.add(taken.worker)

    @property
    def seconds_left(self) -> float:
        """Until the last unit has ended, each taken by the first worker that is free; nan before enough is known."""
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
    """What units have in common that take the same time for a step."""
    return side_by_side(unit[0]), len(unit)


def _operations(unit: Unit) -> float:
    return sum(config.operations for config in unit)


def _per_step(rows: list[Taken]) -> float:
    return sum(taken.stepping for taken in rows) / max(1, sum(taken.steps for taken in rows))
