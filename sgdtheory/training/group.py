"""Runs that advance side by side on the devices there are, from evaluation to evaluation."""

import time
from collections.abc import Callable, Sequence
from math import gcd
from pathlib import Path
from typing import Any

import jax
import numpy as np
from jax.sharding import Mesh, NamedSharding, PartitionSpec

from sgdtheory._common.interrupts import Interrupts
from sgdtheory.training.checkpoint import read_checkpoint, write_checkpoint, write_config, write_result
from sgdtheory.training.config import TrainConfig
from sgdtheory.training.engine import State, advance, evaluate, evaluation_program, init, program, side_by_side, stacked
from sgdtheory.training.evaluation import is_scheduled, next_evaluation
from sgdtheory.training.history import History
from sgdtheory.training.result import TrainResult
from sgdtheory.training.streams import stream

CALL_SECONDS = 0.5  # what a call to the devices should take: Ctrl-C and the progress line wait for it
CHUNK_BYTES = 1 << 25  # of data for one call
LONGEST_CHUNK = 1024  # steps of one call
Report = Callable[["Group"], None]


class Run:
    """One run: its config, directory and history, and its state where that was read from a checkpoint."""

    def __init__(self, config: TrainConfig, directory: Path | None):
        self.config, self.directory = config, directory
        self.history = History(config)
        self.state: State | None = None
        self.num_steps = 0
        if directory is None:
            return
        found = read_checkpoint(directory, config)
        if found is not None:
            self.state, history = found
            self.num_steps = int(self.state.step)
            self.history = history.continued(config)
        if not jax.process_index():
            write_config(directory, config)

    @property
    def ended(self) -> bool:
        """Whether there is nothing left to do."""
        return self.history.outcome is not None

    def save(self, state: State) -> None:
        """Write a checkpoint and, if the run has ended, its result."""
        if self.directory is not None and not jax.process_index():  # one process of several writes
            write_checkpoint(self.directory, state, self.history)
            if self.ended:
                write_result(self.directory, self.result())

    def result(self) -> TrainResult:
        """What the run hands back."""
        return self.history.result(self.num_steps, self.config.network.num_weights)


def group_runs(runs: Sequence[Run], parts: int = 1) -> list[list[Run]]:
    """Runs that have not ended by what can advance side by side: one program, one protocol, one step.

    Each group is divided into at most `parts`.
    """
    groups: dict[Any, list[Run]] = {}
    for run in runs:
        config = run.config
        if not run.ended:
            place = run.num_steps, run.history.step  # at step 0 some may have been evaluated, and others not
            groups.setdefault((side_by_side(config), *place), []).append(run)
    return [group[part::parts] for group in groups.values() for part in range(min(parts, len(group)))]


class Group:
    """Runs that advance side by side until all have ended.

    A run's bits depend on how many run beside it: `lanes` are all runs that its program was compiled for, in their
    order. Those of them that are not in `runs`, since they have ended or are at another step, are computed from a
    state of a run that is, and what comes of them is thrown away.

    Attributes:
        runs: the runs.
        lanes: the runs and their company.
        step: steps that all have done.
        steps_per_second: of each run, without compilation and evaluation; 0 until it is known.
        setup_seconds: until the first call has ended, which compiles.
    """

    def __init__(self, runs: list[Run], devices: Sequence[Any], lanes: list[Run] | None = None):
        self._begin, self.setup_seconds = time.perf_counter(), 0.0
        self.runs, self.lanes = runs, runs if lanes is None else lanes
        self.step, self.steps_per_second = runs[0].num_steps, 0.0
        self._config = runs[0].config
        self._program = program(self._config)
        self._stream = stream(self._config)
        self._device, self._mesh = devices[0], _mesh(self._config, devices)
        stack = stacked([run.config for run in self.lanes])
        self._shared = stack.data_seed.ndim == 0
        self._state = self._put(self._start(stack))
        self._stack = self._put(stack)
        self._holdout = self._put(self._stream.holdout())
        one = self._stream.chunk(0, 0, 1)
        rows = one.nbytes * (1 if self._shared else len(self.lanes))
        self._rows = max(1, min(LONGEST_CHUNK, self._config.eval_every, CHUNK_BYTES // rows))
        self._fixed = jax.process_count() > 1  # all processes have to make the same calls

    @property
    def open(self) -> list[Run]:
        """Runs that have not ended."""
        return [run for run in self.runs if not run.ended]

    def advance(self, interrupts: Interrupts, checkpoint_seconds: float, report: Report | None) -> None:
        """Go on until all runs have ended or Ctrl-C is pending."""
        start = saved = time.perf_counter()
        if not self.runs[0].history.steps:
            self._evaluate()
        pieces, number, timed = *self._pieces(1), False
        while self.open and not interrupts.pending:
            begun = time.perf_counter()
            self._state = advance(
                self._state, self._stack, pieces, np.int32(number), config=self._program, mesh=self._mesh
            )
            self.step += (done := number)
            pieces, number = self._pieces(self._length())  # while the devices work
            jax.block_until_ready(self._state.step)
            if timed:  # the first call compiles
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

    def _start(self, stack: Any) -> State:
        """States of all lanes: the runs' checkpoints', or those before the first step."""
        if any(run.state is None for run in self.runs):
            return init(stack, config=evaluation_program(self._config))
        states = [(run if run in self.runs else self.runs[0]).state for run in self.lanes]
        return jax.tree.map(lambda *parts: np.stack(parts), *states)

    def _put(self, tree: Any) -> Any:
        """Arrays on the device, or copied to all devices of the mesh."""
        if self._mesh is None:
            return jax.device_put(tree, self._device)
        everywhere = NamedSharding(self._mesh, PartitionSpec())

        def copy(array: Any) -> Any:
            array = np.asarray(array)
            return jax.make_array_from_callback(array.shape, everywhere, lambda index: array[index])

        return jax.tree.map(copy, tree)

    def _length(self) -> int:
        """Steps of the next call."""
        if self._fixed:
            return self._rows
        return max(1, min(self._rows, int(CALL_SECONDS * self.steps_per_second)))

    def _pieces(self, length: int) -> tuple[Any, int]:
        """Data of the next call, padded to a fixed number of rows, and its number of steps."""
        number = min(length, self._rows, next_evaluation(self._config, self.step) - self.step)
        if number <= 0:
            return None, 0
        seeds = [run.config.data_seed for run in self.lanes][: 1 if self._shared else None]
        chunks = np.stack([self._stream.chunk(seed, self.step, number) for seed in seeds])
        padding = [(0, 0), (0, self._rows - number)] + [(0, 0)] * (chunks.ndim - 2)
        padded = np.pad(chunks, padding)
        return self._put(padded[0] if self._shared else padded), number

    def _time(self, speed: float) -> None:
        """Average the speed over the last few calls."""
        self.steps_per_second = 0.8 * self.steps_per_second + 0.2 * speed if self.steps_per_second else speed
        for run in self.open:
            run.history.steps_per_second = self.steps_per_second

    def _spend(self, start: float) -> float:
        """Count the time since `start` as the open runs'; now."""
        now = time.perf_counter()
        for run in self.open:
            run.history.seconds += now - start
        return now

    def _evaluate(self) -> None:
        """Evaluate the open runs; those that have ended are saved."""
        losses = np.asarray(
            evaluate(self._state, *self._holdout, config=evaluation_program(self._config), mesh=self._mesh)
        )
        sums, failed = np.asarray(self._state.sums), np.asarray(self._state.failed)
        was_open = self.open
        for row, run in enumerate(self.lanes):
            if run in was_open:
                run.history.add(self.step, losses[row], sums[row], int(failed[row]))
        if is_scheduled(self._config, self.step):
            self._state = self._state._replace(sums=self._put(np.zeros_like(sums)))
        self._save([run for run in was_open if run.ended])

    def _save(self, runs: list[Run]) -> None:
        """Write checkpoints of some of the runs, as they are now."""
        for run in runs:
            run.num_steps = self.step
        if any(run.directory is not None for run in runs):
            state = jax.device_get(self._state)
            for row, run in enumerate(self.lanes):
                if run in runs:
                    run.save(jax.tree.map(lambda part, row=row: part[row], state))


def _mesh(config: TrainConfig, devices: Sequence[Any]) -> Mesh | None:
    """Devices that share each micro-batch: as many as divide it."""
    size = config.batch_size // config.accumulated
    number = gcd(len(devices), size)
    if jax.process_count() > 1 and number < len(devices):
        raise ValueError(
            f"{'micro_batch' if config.micro_batch else 'batch_size'} must be a multiple of the number of devices, "
            f"{len(devices)}, with several processes, got {size}"
        )
    return Mesh(np.array(devices[:number]), ("data",)) if number > 1 else None
