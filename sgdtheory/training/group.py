"""Groups of runs that advance side by side on the devices, from evaluation to evaluation, until all have ended."""

import time
from collections.abc import Callable, Sequence
from typing import Any, Protocol

import jax

from sgdtheory.training.evaluation import is_scheduled, next_evaluation
from sgdtheory.training.lanes import Lanes, Pieces
from sgdtheory.training.run import Run, group_runs

CALL_SECONDS = 0.5  # A call to the devices aims at this duration, because Ctrl-C and the progress line wait for it.
Report = Callable[["Group"], None]


class Stop(Protocol):
    """Signal to stop, from Ctrl-C or a clock."""

    @property
    def pending(self) -> bool:
        """Return whether to stop before the next call to the devices."""
        ...


class Group:
    """Runs that advance side by side until all have ended.

    The rounding of a run depends on how many runs are beside it, so that a run that continues needs the same `lanes`:
    all runs that its program was compiled for, in their order. Lanes that are not in `runs`, because they have ended or
    are at another step, are computed from the state of a run that is, and their results are discarded.

    Attributes:
        runs: the runs to advance.
        lanes: all runs that the program is compiled for.
        steps_per_second: speed of each run, without compilation and evaluation; 0 until it is known.
        setup_seconds: time until the end of the first call, which compiles.
    """

    def __init__(self, runs: list[Run], devices: Sequence[Any], lanes: list[Run] | None = None):
        self._begin, self.setup_seconds = time.perf_counter(), 0.0
        self.runs, self.lanes = runs, runs if lanes is None else lanes
        self.steps_per_second = 0.0
        self._config = runs[0].config
        states: Any = [(run if run in runs else runs[0]).state for run in self.lanes]
        fresh = any(run.state is None for run in runs)
        self._lanes = Lanes([run.config for run in self.lanes], devices=devices, states=None if fresh else states)
        self._fixed = jax.process_count() > 1  # All processes have to make the same calls, whatever their speed.

    @property
    def step(self) -> int:
        """Number of steps that all runs have done."""
        return self._lanes.step

    @property
    def open(self) -> list[Run]:
        """The runs that have not ended."""
        return [run for run in self.runs if not run.ended]

    def advance(self, stop: Stop, checkpoint_seconds: float, report: Report | None) -> None:
        """Advance until all runs have ended or the stop signal comes."""
        start = saved = time.perf_counter()
        if not self.runs[0].history.steps:
            self._evaluate()
        pieces, timed = self._pieces(1), False
        while self.open and not stop.pending:
            begun, done = time.perf_counter(), pieces.number
            self._lanes.run(pieces)
            pieces = self._pieces(self._length())  # The host makes the next data while the devices work.
            self._lanes.wait()
            if timed:  # The first call compiles, so that its time is no measure of speed.
                self._time(done / (time.perf_counter() - begun))
            else:
                self.setup_seconds = time.perf_counter() - self._begin
            timed = True
            if is_scheduled(self._config, self.step) or self.step >= self._config.max_steps:
                start = self._spend(start)
                self._evaluate()
            start = self._spend(start)
            if report is not None:
                report(self)
            if time.perf_counter() - saved > checkpoint_seconds:
                self._save(self.open)
                saved = time.perf_counter()
        self._save(self.open)

    def _length(self) -> int:
        """Return the number of steps of the next call."""
        if self._fixed:
            return self._lanes.longest
        return max(1, int(CALL_SECONDS * self.steps_per_second))

    def _pieces(self, length: int) -> Pieces:
        """Make the data of the next call, up to the next evaluation at most."""
        return self._lanes.pieces(min(length, next_evaluation(self._config, self.step) - self.step))

    def _time(self, speed: float) -> None:
        """Average the speed exponentially over the last few calls."""
        self.steps_per_second = 0.8 * self.steps_per_second + 0.2 * speed if self.steps_per_second else speed
        for run in self.open:
            run.history.steps_per_second = self.steps_per_second

    def _spend(self, start: float) -> float:
        """Add the time since `start` to the open runs, and return the present time."""
        now = time.perf_counter()
        for run in self.open:
            run.history.seconds += now - start
        return now

    def _evaluate(self) -> None:
        """Evaluate the open runs, and save those that have ended with it."""
        losses, (sums, failed), was_open = self._lanes.evaluate(), self._lanes.sums(), self.open
        for row, run in enumerate(self.lanes):
            if run in was_open:
                run.history.add(self.step, losses[row], sums[row], int(failed[row]))
        if is_scheduled(self._config, self.step):
            self._lanes.clear_sums()
        self._save([run for run in was_open if run.ended])

    def _save(self, runs: list[Run]) -> None:
        """Write checkpoints of these runs at the present step."""
        for run in runs:
            run.num_steps = self.step
        wanted = any(run.saves_state for run in runs)
        # Large states take seconds to fetch from the devices.
        states = self._lanes.states() if wanted else [None] * len(self.lanes)
        for run, state in zip(self.lanes, states, strict=True):
            if run in runs:
                run.save(state)


def advance_runs(
    runs: Sequence[Run],
    stop: Stop,
    *,
    lanes: Sequence[Run] | None = None,
    devices: Sequence[Any] | None = None,
    checkpoint_seconds: float = float("inf"),
    report: Report | None = None,
) -> float:
    """Advance runs of one program until all have ended or are to stop; runs at different steps take turns.

    Args:
        runs: runs that have not ended.
        stop: signal that is read between calls to the devices.
        lanes: all runs that the program is compiled for, in their order, because the rounding of a run depends on
            them; None: the runs at the same step.
        devices: as for `Lanes`.
        checkpoint_seconds: time between checkpoints.
        report: called after each call to the devices with the `Group` that advances.

    Returns:
        Seconds until the first steps had ended, which is mostly compilation.
    """
    setup = 0.0
    for part in group_runs(runs):
        if not stop.pending:
            used = jax.devices()[:1] if devices is None else devices
            group = Group(part, used, None if lanes is None else list(lanes))
            group.advance(stop, checkpoint_seconds, report)
            setup += group.setup_seconds
    return setup
