"""Running a sweep: units of runs side by side, on threads, processes or machines, from and into a store."""

import itertools
import math
import os
import platform
import threading
import time
from collections import deque
from collections.abc import Callable, Sequence
from concurrent.futures import FIRST_COMPLETED, Executor, Future, ThreadPoolExecutor, wait
from concurrent.futures.process import BrokenProcessPool
from dataclasses import dataclass
from pathlib import Path
from typing import Any, NamedTuple

import jax

from sgdtheory._common.arguments import positive_number, whole_number
from sgdtheory._common.interrupts import Interrupts
from sgdtheory.sweep.pace import Countdown, Taken
from sgdtheory.sweep.store import Store
from sgdtheory.sweep.table import SweepTable
from sgdtheory.training import (
    CHECKPOINT_SECONDS,
    Run,
    TrainConfig,
    TrainResult,
    advance_runs,
    num_threads,
    side_by_side,
)

LANES, LANE_WEIGHTS = 16, 1 << 23  # runs side by side, and their weights together
POLL_SECONDS = 0.5  # between looks at runs that another process works on
Configs = tuple[TrainConfig, ...]


@dataclass(frozen=True)
class Progress:
    """How far a sweep is.

    Attributes:
        finished, total: runs, those of earlier sweeps too.
        seconds: since the start.
        seconds_left: estimate, from the steps that are left and the measured time of a step of their kind
            (`Countdown`); nan until a unit of runs has finished.
    """

    finished: int
    total: int
    seconds: float
    seconds_left: float


@dataclass(frozen=True)
class Report:
    """What a unit hands back: whether it could be run (else another process has it), notes, and what it took."""

    done: bool
    notes: tuple[str, ...] = ()
    taken: Taken | None = None


class Deadline(Interrupts):
    """A context in which Ctrl-C, or the clock, sets `pending`.

    Args:
        ends: seconds since the epoch, which workers of other processes know as well; None: never.
    """

    def __init__(self, ends: float | None = None) -> None:
        self._ends = math.inf if ends is None else ends
        super().__init__()

    @property
    def pending(self) -> bool:
        """Whether to stop."""
        return self._came or time.time() >= self._ends

    @pending.setter
    def pending(self, came: bool) -> None:
        self._came = came


class Options(NamedTuple):
    """How the units of a sweep are run.

    Attributes:
        checkpoint_seconds: time between checkpoints.
        keep_states: whether runs that have ended keep their last checkpoint.
        ends: when to stop, in seconds since the epoch; None: when all is done.
    """

    checkpoint_seconds: float = CHECKPOINT_SECONDS
    keep_states: bool = True
    ends: float | None = None


DEFAULTS = Options()


def sweep(
    configs: Sequence[TrainConfig],
    store: str | Path,
    *,
    executor: Executor | None = None,
    lanes: int | None = None,
    checkpoint_seconds: float = CHECKPOINT_SECONDS,
    progress: Callable[[Progress], None] | None = None,
    max_seconds: float | None = None,
    keep_states: bool = True,
) -> SweepTable:
    """Train every config once, in a store that keeps what is finished and resumes what is not.

    >>> import tempfile
    >>> from sgdtheory.sweep import sweep
    >>> from sgdtheory.training import TrainConfig
    >>> configs = [TrainConfig(width=4, batch_size=4, max_steps=4, holdout_size=8, seed=seed) for seed in (0, 1)]
    >>> with tempfile.TemporaryDirectory() as store:  # doctest: +SKIP
    ...     table = sweep(configs, store)
    >>> table.columns()["num_steps"]  # doctest: +SKIP
    [4, 4]

    Runs of one compiled program advance side by side, `lanes` of them as one unit of work. Units are the same whatever
    is finished and wherever they run, and so is every bit of the table, on machines of one kind. A run whose iterates
    the store has under another config (`TrainConfig.trajectory`: other targets, fewer averages, more steps) is read off
    that run or goes on from its checkpoint, and is then the same to rounding.

    Args:
        configs: of the runs; one that occurs twice is run once.
        store: folder of the runs.
        executor: any `concurrent.futures` executor whose workers see the store (with processes: start method "spawn",
            for JAX); None: threads of this process, one a core on a CPU. It is not shut down.
        lanes: runs side by side; None: 16, fewer for networks of more than half a million weights.
        checkpoint_seconds: time between checkpoints of runs that go on.
        progress: called with the `Progress` now and then.
        max_seconds: time after which the sweep stops, as after Ctrl-C: within a second and what it takes to write the
            checkpoints of the runs that go on, or to end a compilation. The same call goes on.
        keep_states: keep the last weights and optimizer of runs that have ended, from which longer ones go on; False:
            their config, curve and result alone, a few kilobytes a run.

    Returns:
        Results in the order of the configs. A run that diverged has one; one that was stopped has none yet.

    Raises:
        ValueError: no configs, one that its data refuse, a model of your own that lies in the store or that a file of
            the store names alone (`SweepTable.from_store(store, entry_point=…)` names it), or a time that is not
            positive.
        OSError: the store cannot be written, or a worker died; what is finished stays.
    """
    ends = None if max_seconds is None else time.time() + positive_number("max_seconds", max_seconds)
    configs = [config.imported(store) for config in {config.fingerprint: config for config in configs}.values()]
    if not configs:
        raise ValueError("configs must be at least one, got none")
    place = Store(store)
    set_aside = place.prepare()
    place.adopt(configs)
    results = {config.fingerprint: place.result(config) for config in configs}
    with Deadline(ends) as interrupts:
        options = Options(checkpoint_seconds, keep_states, ends)
        work = _Work(place, units(configs, lanes), results, interrupts, options, progress)
        if executor is not None:
            notes = work.on(executor)
        else:
            with ThreadPoolExecutor(num_threads(jax.devices())) as own:
                notes = work.on(own, in_process=True)
        stopped = interrupts.pending
    found = tuple(results[config.fingerprint] for config in configs)
    return SweepTable(tuple(configs), found, (*set_aside, *notes), stopped and None in found)


def units(configs: Sequence[TrainConfig], lanes: int | None = None) -> list[Configs]:
    """The configs divided into those that advance side by side; a function of the configs and `lanes` alone.

    Runs of near learning rates are together, since they end together.
    """
    together: dict[Any, list[TrainConfig]] = {}
    for config in configs:
        together.setdefault(side_by_side(config), []).append(config)
    found = []
    for group in together.values():
        size = _lanes(group[0]) if lanes is None else whole_number("lanes", lanes, 1)
        group.sort(key=lambda config: (config.learning_rate, config.data_seed, config.seed, config.fingerprint))
        number = -(-len(group) // size)  # of units, of two lengths at most: those of one share a compiled program
        ends = [len(group) * part // number for part in range(number + 1)]
        found += [tuple(group[start:end]) for start, end in itertools.pairwise(ends)]
    return found


def _lanes(config: TrainConfig) -> int:
    room = LANE_WEIGHTS // config.network.num_weights
    return max(1, min(LANES, 1 << max(room, 1).bit_length() - 1))


def run_unit(
    folder: str | Path, configs: Configs, options: Options = DEFAULTS, interrupts: Interrupts | None = None
) -> Report:
    """Finish the runs of one unit in a store, as a worker does; not done if another process has one of them."""
    store, begin = Store(folder), time.perf_counter()
    with store.locked(configs) as free:
        if not free:
            return Report(False)
        lanes, notes = [], []
        for config in configs:
            finished = store.result(config) is not None
            run, note = (Run(config, None), None) if finished else store.run(config, keep_state=options.keep_states)
            lanes.append(run)
            notes += [note] if note else []
        open_runs = [run for run in lanes if run.directory is not None and not run.ended]
        done = max((run.num_steps for run in open_runs), default=0)
        with Deadline(options.ends) as own:
            stop = interrupts or own
            setup = advance_runs(open_runs, stop, lanes=lanes, checkpoint_seconds=options.checkpoint_seconds)
    steps = max((run.num_steps for run in open_runs), default=0) - done
    worker = f"{platform.node()} {os.getpid()} {threading.get_ident()}"
    taken = Taken(steps, setup, time.perf_counter() - begin - setup, worker)
    return Report(all(run.ended for run in open_runs), tuple(notes), taken)


class _Work:
    """A sweep's units on their way through an executor."""

    def __init__(
        self,
        store: Store,
        everything: list[Configs],
        results: dict[str, TrainResult | None],
        interrupts: Interrupts,
        options: Options,
        report: Callable[[Progress], None] | None,
    ):
        self._store, self._results, self._interrupts = store, results, interrupts
        self._options, self._report = options, report
        self._queue = deque(unit for unit in everything if self._open(unit))
        self._countdown = Countdown(list(self._queue))
        self._start = time.perf_counter()

    def on(self, executor: Executor, *, in_process: bool = False) -> list[str]:
        """Run all units; notes on what was set aside."""
        stop = self._interrupts if in_process else None
        self._countdown.workers = getattr(executor, "_max_workers", 1)  # of other executors, those that are seen
        running: dict[Future, Configs] = {}
        notes: list[str] = []
        self._tell()
        try:
            while (self._queue or running) and not (self._interrupts.pending and not running):
                while self._queue and not self._interrupts.pending:
                    unit = self._queue.popleft()
                    arguments = self._store.folder, unit, self._options, stop
                    running[executor.submit(run_unit, *arguments)] = unit
                done, _ = wait(running, POLL_SECONDS, FIRST_COMPLETED)
                for future in running.keys() - done:
                    if future.running():
                        self._countdown.began(running[future])
                if not done:
                    self._tell()
                busy = [unit for future in done if not self._take(future, unit := running.pop(future), notes)]
                if self._interrupts.pending:
                    running = {future: unit for future, unit in running.items() if not future.cancel()}
                    continue
                if busy:
                    time.sleep(POLL_SECONDS)
                self._queue.extend(unit for unit in busy if self._open(unit))
        except BrokenProcessPool:
            raise OSError(
                f"a worker process died; finished runs are in {self._store.folder}, run the sweep again to go on"
            ) from None
        except OSError as error:
            raise OSError(f"the sweep stopped, finished runs in {self._store.folder} are intact: {error}") from None
        finally:
            self._interrupts.pending |= bool(running)  # threads that still work on units stop
            for future in running:
                future.cancel()
        return notes

    def _take(self, future: Future, unit: Configs, notes: list[str]) -> bool:
        """Read what a unit has finished; whether it is done."""
        found: Report = future.result()
        notes += found.notes
        self._open(unit)
        self._countdown.ended(unit, found.taken if found.done else None)
        if found.done:
            self._tell()
        return found.done

    def _open(self, unit: Configs) -> bool:
        """Whether a run of the unit has no result yet, by the store."""
        for config in unit:
            if self._results[config.fingerprint] is None:
                self._results[config.fingerprint] = self._store.result(config)
        return any(self._results[config.fingerprint] is None for config in unit)

    def _tell(self) -> None:
        if self._report is not None:
            seconds = time.perf_counter() - self._start
            finished = sum(result is not None for result in self._results.values())
            self._report(Progress(finished, len(self._results), seconds, self._countdown.seconds_left))
