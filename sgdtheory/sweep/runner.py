"""Running a sweep: units of runs side by side, on threads, processes or machines, with results in a store."""

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

LANES, LANE_WEIGHTS = 16, 1 << 23  # At most this many runs, and this many of their weights together, are side by side.
POLL_SECONDS = 0.5  # Runs of other processes, and Ctrl-C, are checked at this interval.
Configs = tuple[TrainConfig, ...]


@dataclass(frozen=True)
class Progress:
    """Progress of a sweep.

    Attributes:
        finished, total: numbers of runs, including those that earlier sweeps have finished.
        seconds: time since the start.
        seconds_left: estimate, from the steps that are left and the measured time of a step of their kind
            (`Countdown`); nan until a unit of runs has finished.
    """

    finished: int
    total: int
    seconds: float
    seconds_left: float

    def __str__(self) -> str:
        """Return the numbers of runs, and the time that is left if it is known."""
        counted = f"{self.finished} of {self.total} runs finished"
        if not self.seconds_left > 0:  # or nan
            return counted
        minutes, seconds = divmod(round(self.seconds_left), 60)
        hours, minutes = divmod(minutes, 60)
        left = f"{hours} h {minutes} min" if hours else f"{minutes} min {seconds} s" if minutes else f"{seconds} s"
        return f"{counted}, about {left} left"


@dataclass(frozen=True)
class Report:
    """Result of a unit: whether all its runs have ended (else another process has one), notes, and the time taken."""

    done: bool
    notes: tuple[str, ...] = ()
    taken: Taken | None = None


class Deadline(Interrupts):
    """A context in which Ctrl-C or a deadline sets `pending`.

    Args:
        ends: deadline in seconds since the epoch, which is the same for workers in other processes; None: no deadline.
    """

    def __init__(self, ends: float | None = None) -> None:
        self._ends = math.inf if ends is None else ends
        super().__init__()

    @property
    def pending(self) -> bool:
        """Return whether to stop."""
        return self._came or time.time() >= self._ends

    @pending.setter
    def pending(self, came: bool) -> None:
        self._came = came


class Options(NamedTuple):
    """Settings with which the units of a sweep are run.

    Attributes:
        checkpoint_seconds: time between checkpoints.
        keep_states: whether runs that have ended keep their last checkpoint.
        ends: deadline in seconds since the epoch; None: no deadline.
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
    """Train every config once, with a store that keeps finished runs and resumes unfinished ones.

    >>> import tempfile
    >>> from sgdtheory.sweep import sweep
    >>> from sgdtheory.training import TrainConfig
    >>> configs = [TrainConfig(width=4, batch_size=4, max_steps=4, holdout_size=8, seed=seed) for seed in (0, 1)]
    >>> with tempfile.TemporaryDirectory() as store:  # doctest: +SKIP
    ...     table = sweep(configs, store)
    >>> table.columns()["num_steps"]  # doctest: +SKIP
    [4, 4]

    Runs of one compiled program advance side by side, `lanes` of them as one unit of work. Units do not depend on which
    runs are finished or where they run, so that the table is the same bit for bit on machines of one kind. If the store
    has a run with the same iterates (`TrainConfig.trajectory`) but other targets, averages or duration, the new run is
    read off that run or continues from its checkpoint, and is then the same up to rounding.

    Args:
        configs: configs of the runs; duplicates are run once.
        store: folder of the runs.
        executor: any `concurrent.futures` executor whose workers see the store (processes need the start method
            "spawn", for JAX); None: threads of this process, one per core on a CPU. It is not shut down.
        lanes: number of runs side by side; None: 16, or fewer for networks of more than half a million weights.
        checkpoint_seconds: time between checkpoints of a run.
        progress: called with the `Progress` at least every half second or so.
        max_seconds: time after which the sweep stops as after Ctrl-C, that is, within a second plus the time to write
            checkpoints or to finish a compilation. The same call continues the sweep.
        keep_states: keep the last weights and optimizer states of runs that have ended, so that longer runs can
            continue from them; False: keep only config, curve and result, a few kilobytes per run.

    Returns:
        Results in the order of the configs. A run that diverged has a result; one that was stopped has none yet.

    Raises:
        ValueError: if there are no configs, the data refuse one, a custom model lies in the store or is only named by
            a file of the store (name it with `SweepTable.from_store(store, entry_point=…)`), or a time is not
            positive.
        OSError: if the store cannot be written, or a worker died; finished runs are kept.
    """
    ends = None if max_seconds is None else time.time() + positive_number("max_seconds", max_seconds)
    configs = [config.imported(store) for config in {config.fingerprint: config for config in configs}.values()]
    if not configs:
        raise ValueError("configs must be at least one, got none")
    runs = Store(store)
    set_aside = runs.prepare()
    runs.adopt(configs)
    results = {config.fingerprint: runs.result(config) for config in configs}
    with Deadline(ends) as interrupts:
        options = Options(checkpoint_seconds, keep_states, ends)
        work = _Work(runs, units(configs, lanes), results, interrupts, options, progress)
        if executor is not None:
            notes = work.on(executor)
        else:
            with ThreadPoolExecutor(num_threads(jax.devices())) as own:
                notes = work.on(own, in_process=True)
        stopped = interrupts.pending
    ordered = tuple(results[config.fingerprint] for config in configs)
    return SweepTable(tuple(configs), ordered, (*set_aside, *notes), stopped and None in ordered)


def units(configs: Sequence[TrainConfig], lanes: int | None = None) -> list[Configs]:
    """Divide the configs into units that advance side by side; this depends only on the configs and `lanes`.

    Runs with similar learning rates share a unit, because they reach a target at similar times.
    """
    together: dict[Any, list[TrainConfig]] = {}
    for config in configs:
        together.setdefault(side_by_side(config), []).append(config)
    divided = []
    for group in together.values():
        size = _lanes(group[0]) if lanes is None else whole_number("lanes", lanes, 1)
        group.sort(key=lambda config: (config.learning_rate, config.data_seed, config.seed, config.fingerprint))
        # The units have at most two different lengths: units of the same length share a compiled program.
        number = -(-len(group) // size)
        ends = [len(group) * part // number for part in range(number + 1)]
        divided += [tuple(group[start:end]) for start, end in itertools.pairwise(ends)]
    return divided


def _lanes(config: TrainConfig) -> int:
    room = LANE_WEIGHTS // config.network.num_weights
    return max(1, min(LANES, 1 << max(room, 1).bit_length() - 1))


def run_unit(
    folder: str | Path, configs: Configs, options: Options = DEFAULTS, interrupts: Interrupts | None = None
) -> Report:
    """Advance the runs of one unit in a store until they end; do nothing if another process works on one of them."""
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
    """The units of a sweep and their progress through an executor."""

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
        """Run all units, and return notes on directories that were set aside."""
        stop = self._interrupts if in_process else None
        # Other executors do not state their number of workers: the countdown counts those that have reported.
        self._countdown.workers = getattr(executor, "_max_workers", 1)
        running: dict[Future, Configs] = {}
        notes: list[str] = []
        self._report_progress()
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
                    self._report_progress()
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
            self._interrupts.pending |= bool(running)  # Threads that still work on units stop at their next call.
            for future in running:
                future.cancel()
        return notes

    def _take(self, future: Future, unit: Configs, notes: list[str]) -> bool:
        """Read the results of a unit, and return whether all its runs have ended."""
        report: Report = future.result()
        notes += report.notes
        self._open(unit)
        self._countdown.ended(unit, report.taken if report.done else None)
        if report.done:
            self._report_progress()
        return report.done

    def _open(self, unit: Configs) -> bool:
        """Return whether a run of the unit still has no result in the store."""
        for config in unit:
            if self._results[config.fingerprint] is None:
                self._results[config.fingerprint] = self._store.result(config)
        return any(self._results[config.fingerprint] is None for config in unit)

    def _report_progress(self) -> None:
        if self._report is not None:
            seconds = time.perf_counter() - self._start
            finished = sum(result is not None for result in self._results.values())
            self._report(Progress(finished, len(self._results), seconds, self._countdown.seconds_left))
