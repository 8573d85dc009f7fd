"""Running many lanes on the devices there are: blocks of lanes that fit into memory, in calls that end soon."""

import contextlib
import time
from collections.abc import Iterator, Sequence
from dataclasses import dataclass

import jax
import numpy as np
from jax.sharding import Mesh

from sgdtheory._common.interrupts import Interrupts
from sgdtheory.simulation.dynamics import Spectrum
from sgdtheory.simulation.program import Program
from sgdtheory.simulation.rows import RowSource
from sgdtheory.simulation.runs import LEAST_ROOM, Resources, Run

CALL_SECONDS = 0.3  # what a call to the devices should take: Ctrl-C and the progress bar wait for it
FIRST_CALL = 16  # steps
LENGTH_RATIO = 2  # of the runs that share a block, at most: a lane whose run has ended walks on
ARRAYS = 8  # as large as w, in a lane of one vector: its state twice, and temporaries; of k, (k + 1)/2 times as many
BLOCK_NUMBERS = {"cpu": 2**16, "gpu": 2**23, "tpu": 2**23}  # weights times the lanes of a fast block, on a device
EXTRA_NUMBERS = 64  # times that may be in use within a step


@dataclass(frozen=True, eq=False)
class Block:
    """Lanes that run together.

    Attributes:
        lanes: (M, 2) run number and replica of each; a run's lanes are neighbours.
        size: L ≥ M lanes with padding: blocks of one size share a compiled program.
        stops: step count → (run number, row of its results) of the runs that want their risk there; increasing.
    """

    lanes: np.ndarray
    size: int
    stops: dict[int, list[tuple[int, int]]]

    @property
    def length(self) -> int:
        """Steps of the longest run."""
        return next(reversed(self.stops))


class Recorder:
    """(K, R) risks of every run, of the average and of the last iterate; nan until they are known."""

    def __init__(self, runs: Sequence[Run], num_replicas: int) -> None:
        self.average, self.last = ([np.full((run.steps.size, num_replicas), np.nan) for run in runs] for _ in range(2))

    def write(self, block: Block, step: int, average: np.ndarray, last: np.ndarray) -> None:
        """Keep what the block's lanes have after `step` steps, where it was asked for."""
        for number, row in block.stops[step]:
            mine = slice(*np.searchsorted(block.lanes[:, 0], [number, number + 1]))
            replica = block.lanes[mine, 1]
            for kept, values in ((self.average, average[mine]), (self.last, last[mine])):
                kept[number][row, replica] = values


def simulate_runs(
    spectrum: Spectrum,
    runs: Sequence[Run],
    num_replicas: int,
    key: np.ndarray,
    resources: Resources,
    source: RowSource | None = None,
) -> tuple[Recorder, bool]:
    """Return the risks of all replicas of all runs, and whether Ctrl-C came before the end; short runs come first.

    Args:
        spectrum: of the problem, NumPy arrays of the dtype to compute in.
        runs: the (B, γ), numbered from 0.
        num_replicas: R.
        key: (2,) uint32 from which the lanes' keys are derived.
        resources: devices, memory and progress.
        source: of the rows, where they are read from a finite sample.
    """
    _check_room(runs, num_replicas, resources.memory_limit)
    recorder = Recorder(runs, num_replicas)
    blocks = make_blocks(spectrum, runs, num_replicas, resources, source)
    work = sum(block.length for block in blocks)
    done = 0
    mesh = Mesh(np.array(resources.devices), ("lanes",))
    with Interrupts() as interrupts, contextlib.suppress(KeyboardInterrupt):
        for block in blocks:
            for step, program in _walk(_program(spectrum, runs, block, key, mesh, source), block):
                resources.report((done + step) / work)
                if step in block.stops:
                    recorder.write(block, step, *program.risks(step))
                if interrupts.pending and done + step < work:
                    return recorder, True
            done += block.length
        return recorder, False
    return recorder, True


def _check_room(runs: Sequence[Run], num_replicas: int, memory_limit: float) -> None:
    """Refuse results that take too much memory: lanes are divided into blocks that fit, but results are not."""
    rows = sum(run.steps.size for run in runs)
    size = 4 * np.dtype(float).itemsize * num_replicas * rows  # of the average and of the last iterate, and a copy
    if size > max(memory_limit, LEAST_ROOM):
        raise ValueError(
            f"num_replicas must be smaller: {num_replicas:.3g} replicas, {rows} times a risk, take {size / 1e9:.3g} GB "
            "of results; lower it, trajectory or the number of settings, or raise memory_limit"
        )


def make_blocks(
    spectrum: Spectrum,
    runs: Sequence[Run],
    num_replicas: int,
    resources: Resources,
    source: RowSource | None = None,
) -> list[Block]:
    """Return blocks of lanes of one sampler and of similar length, as many as are fast and fit into memory."""
    groups: list[list[Run]] = []
    samplers = {run.sampler: number for number, run in enumerate(runs)}
    for run in sorted(runs, key=lambda run: (samplers[run.sampler], run.steps[-1])):
        first = groups[-1][0] if groups else None
        if first is None or first.sampler != run.sampler or run.steps[-1] > LENGTH_RATIO * first.steps[-1]:
            groups.append([])
        groups[-1].append(run)
    groups.sort(key=lambda members: members[-1].steps[-1])
    blocks = []
    for members in groups:
        numbers = np.repeat(np.sort([run.number for run in members]), num_replicas)
        lanes = np.stack([numbers, np.tile(np.arange(num_replicas), len(members))], axis=1)
        size = _block_size(members[0], spectrum, len(lanes), resources, source, exact=len(groups) == 1)
        for start in range(0, len(lanes), size):
            block = lanes[start : start + size]
            blocks.append(Block(block, size, _stops(runs, np.unique(block[:, 0]))))
    return blocks


def _stops(runs: Sequence[Run], numbers: np.ndarray) -> dict[int, list[tuple[int, int]]]:
    """Return the stops of a block of these runs."""
    stops: dict[int, list[tuple[int, int]]] = {}
    for number in numbers.tolist():
        for row, step in enumerate(runs[number].steps.tolist()):
            stops.setdefault(step, []).append((number, row))
    return dict(sorted(stops.items()))


def _block_size(
    run: Run, spectrum: Spectrum, num_lanes: int, resources: Resources, source: RowSource | None, *, exact: bool
) -> int:
    """Return how many lanes a block has: enough to be fast, within the memory limit, as many on each device.

    Where there are several groups of runs the number is a power of two, unless memory or speed decide, so that few
    sizes are compiled.
    """
    size = spectrum.start.size
    devices = len(resources.devices)
    numbers = BLOCK_NUMBERS.get(resources.devices[0].platform, BLOCK_NUMBERS["cpu"])
    workers = run.course.algorithm.workers
    drawn = workers * run.sampler.numbers_a_lane(spectrum)
    fast = min(numbers // (size * workers), EXTRA_NUMBERS * numbers // drawn)
    own = 0 if source is None or source.shared else source.num_rows * (spectrum.eigenvalue.size + 1)
    lane = ARRAYS * size * (run.vectors + 1) // 2 + drawn + own
    allowed = int(resources.memory_limit / (lane * spectrum.start.dtype.itemsize)) // devices
    each = -(-num_lanes // devices)
    wanted = each if exact else 1 << (each - 1).bit_length()
    return devices * max(1, min(fast, allowed, wanted))


def _program(
    spectrum: Spectrum, runs: Sequence[Run], block: Block, key: np.ndarray, mesh: Mesh, source: RowSource | None
) -> Program:
    """Return the block's lanes at their start; padding repeats lanes."""
    number, replica = block.lanes[np.arange(block.size) % len(block.lanes)].T
    mine, where = np.unique(number, return_inverse=True)
    lanes = np.stack([where, number, replica], axis=1)
    return Program([runs[each] for each in mine.tolist()], spectrum, mesh, lanes, key, source)


def _walk(program: Program, block: Block) -> Iterator[tuple[int, Program]]:
    """Yield the block's lanes at every stop, and often enough in between."""
    now = 0
    quantum = FIRST_CALL
    for stop in block.stops:
        while now < stop:
            count = min(stop - now, quantum, program.most(now))
            start = time.perf_counter()
            jax.block_until_ready(program.advance(now, count))
            seconds = time.perf_counter() - start
            if count == quantum:  # shorter calls say little about the time of a step
                quantum = int(np.clip(quantum * CALL_SECONDS / seconds, max(1, quantum // 2), 2 * quantum))
            now += count
            yield now, program
