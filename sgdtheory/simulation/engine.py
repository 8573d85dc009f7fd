"""Running many lanes on the devices there are: blocks of lanes that fit into memory, in calls that end soon."""

import contextlib
import time
from collections.abc import Iterator, Sequence
from dataclasses import dataclass

import jax
import numpy as np
from jax.sharding import Mesh

from sgdtheory._common.interrupts import Interrupts
from sgdtheory.simulation.program import Program
from sgdtheory.simulation.result import Simulation, Trajectory, Truncation
from sgdtheory.simulation.runs import ARRAYS, LEAST_ROOM, Plan, Resources, Run
from sgdtheory.simulation.task import Task

CALL_SECONDS = 0.3  # A call to the devices takes about this many seconds, for which Ctrl-C and the progress bar wait.
# The first call takes this many steps, as the time of a step is unknown; later ones grow at most twofold.
FIRST_CALL = 16
LENGTH_RATIO = 2  # Runs in one block have lengths of at most this ratio: lanes whose run has ended go on to its end.
# A block on a device has at most this many weights times lanes. A block on a CPU stays within its cache; an accelerator
# needs enough lanes to be busy (`benchmarks._gpu.sizes`).
BLOCK_NUMBERS = {"cpu": 2**16, "gpu": 2**23, "tpu": 2**23}
# A sampler may use at most this many times the numbers of a block within a step. On rows (d = 100, B = 256, 256 lanes
# on a CPU) a quarter of it takes a third longer, and 8 times as many twice as long.
EXTRA_NUMBERS = 64


def simulation_of(
    task: Task,
    plan: Plan,
    num_replicas: int,
    key: np.ndarray,
    resources: Resources,
    truncation: Truncation | None = None,
) -> Simulation:
    """Return the result of the runs of a plan."""
    runs = plan.runs(task.sampler)
    risks, interrupted = simulate_runs(task, runs, num_replicas, key, resources)
    average, last = (task.scale**2 * plan.gather(runs, each) for each in zip(*risks, strict=True))
    steps = plan.steps.reshape(*plan.shape, -1)
    path = Trajectory(steps[..., :-1], average[..., :-1, :], last[..., :-1, :]) if steps.shape[-1] > 1 else None
    dtype = task.spectrum.start.dtype.name
    return Simulation(average[..., -1, :], last[..., -1, :], steps[..., -1], dtype, truncation, path, interrupted)


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


def simulate_runs(
    task: Task, runs: Sequence[Run], num_replicas: int, key: np.ndarray, resources: Resources
) -> tuple[list[np.ndarray], bool]:
    """Return the risks of all replicas of all runs, and whether Ctrl-C came before the end; short runs come first.

    The risks of a run are (2, K, R), of the average and of the last iterate, and nan until they are known.

    Args:
        task: problem and samplers.
        runs: the (B, γ), numbered from 0.
        num_replicas: R.
        key: (2,) uint32 from which the lanes' keys are derived.
        resources: devices, memory and progress.
    """
    _check_room(runs, num_replicas, resources.memory_limit)
    risks = [np.full((2, run.steps.size, num_replicas), np.nan) for run in runs]
    blocks = make_blocks(task, runs, num_replicas, resources)
    work = sum(block.length for block in blocks)
    done = 0
    mesh = Mesh(np.array(resources.devices), ("lanes",))
    with Interrupts() as interrupts, contextlib.suppress(KeyboardInterrupt):
        for block in blocks:
            lanes = block.lanes[np.arange(block.size) % len(block.lanes)]  # padding repeats lanes
            program = Program(task, runs, mesh, lanes, key)
            for step in _walk(program, block):
                resources.report((done + step) / work)
                if step in block.stops:
                    _record(risks, block, step, program.risks(step))
                # What this step gave has been recorded: a first Ctrl-C loses no result.
                if interrupts.pending and done + step < work:
                    return risks, True
            done += block.length
        return risks, False
    return risks, True


def _record(risks: Sequence[np.ndarray], block: Block, step: int, values: np.ndarray) -> None:
    """Write the (2, L) risks that the block's lanes have after `step` steps into those of the runs that want them."""
    for number, row in block.stops[step]:
        mine = slice(*np.searchsorted(block.lanes[:, 0], [number, number + 1]))
        risks[number][:, row, block.lanes[mine, 1]] = values[:, mine]


def _check_room(runs: Sequence[Run], num_replicas: int, memory_limit: float) -> None:
    """Refuse results that take too much memory: lanes are divided into blocks that fit, but results are not."""
    rows = sum(run.steps.size for run in runs)
    size = 4 * np.dtype(float).itemsize * num_replicas * rows  # of the average and of the last iterate, and a copy
    if size > max(memory_limit, LEAST_ROOM):
        raise ValueError(
            f"num_replicas must be smaller: {num_replicas:.3g} replicas, {rows} times a risk, take {size / 1e9:.3g} GB "
            "of results; lower it, trajectory or the number of settings, or raise memory_limit"
        )


def make_blocks(task: Task, runs: Sequence[Run], num_replicas: int, resources: Resources) -> list[Block]:
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
        # The lanes of a run are found by bisection: they are sorted by its number.
        numbers = np.repeat(np.sort([run.number for run in members]), num_replicas)
        lanes = np.stack([numbers, np.tile(np.arange(num_replicas), len(members))], axis=1)
        size = _block_size(members[0], task, len(lanes), resources, exact=len(groups) == 1)
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


def _block_size(run: Run, task: Task, num_lanes: int, resources: Resources, *, exact: bool) -> int:
    """Return how many lanes a block has: enough to be fast, within the memory limit, as many on each device.

    Where there are several groups of runs the number is a power of two, unless memory or speed decide, so that few
    sizes are compiled.
    """
    spectrum, source = task.spectrum, task.source
    size = spectrum.start.size
    algorithm = run.course.algorithm
    devices = len(resources.devices)
    numbers = BLOCK_NUMBERS.get(resources.devices[0].platform, BLOCK_NUMBERS["cpu"])
    workers = algorithm.workers
    drawn = workers * run.sampler.numbers_a_lane(spectrum)
    fast = min(numbers // (size * workers), EXTRA_NUMBERS * numbers // drawn)
    own = 0 if source is None or source.shared else source.num_rows * (spectrum.eigenvalue.size + 1)
    lane = ARRAYS * size * (algorithm.method.vectors + 1) // 2 + drawn + own
    allowed = int(resources.memory_limit / (lane * spectrum.start.dtype.itemsize)) // devices
    each = -(-num_lanes // devices)
    wanted = each if exact else 1 << (each - 1).bit_length()
    return devices * max(1, min(fast, allowed, wanted))


def _walk(program: Program, block: Block) -> Iterator[int]:
    """Advance the block's lanes and yield the number of steps done, at every stop and often enough in between."""
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
            yield now
