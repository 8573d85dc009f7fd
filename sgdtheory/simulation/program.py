"""The replicas of runs of one algorithm on the devices, with the table of their next steps."""

from collections.abc import Sequence
from functools import partial
from typing import Any, TypeVar

import jax
import numpy as np
from jax.experimental import multihost_utils
from jax.sharding import Mesh, NamedSharding, PartitionSpec

from sgdtheory._common.counter_random import threefry
from sgdtheory.algorithms import Course
from sgdtheory.simulation.dynamics import (
    STEPS,
    Dynamics,
    Replica,
    Sampler,
    Spectrum,
    State,
    Table,
    advance,
    begin,
    risks,
)
from sgdtheory.simulation.methods import make_table, setup_of
from sgdtheory.simulation.rows import RowReader, RowSource
from sgdtheory.simulation.runs import Run
from sgdtheory.simulation.task import Task

T = TypeVar("T")
EVERYWHERE, DIVIDED = PartitionSpec(), PartitionSpec("lanes")
# A table has about this many numbers: 8 MB in float32. Smaller ones are made and copied more often.
TABLE_NUMBERS = 2**21
# A table has at most this many blocks of `STEPS` steps: a short run does not wait for steps it never takes.
MOST_BLOCKS = 64


class Program:
    """Replicas of runs of one algorithm: a state that moves on, and its risks.

    Args:
        task: problem and samplers.
        runs: of a call; those of the lanes, G of them, have one sampler and one method.
        mesh: the devices.
        lanes: (L, 2) run number and replica of each lane.
        key: (2,) uint32.
    """

    def __init__(self, task: Task, runs: Sequence[Run], mesh: Mesh, lanes: np.ndarray, key: np.ndarray) -> None:
        number, replica = lanes.T
        numbers, self.run = np.unique(number, return_inverse=True)  # self.run is the index among the G runs
        courses = [runs[each].course for each in numbers.tolist()]
        self.sampler = runs[numbers[0]].sampler
        self.dynamics, self.spectrum, self.steps, self.unit = setup_of(task, courses[0], key)
        self.mesh = mesh
        self.source = task.source
        self.dtype = self.spectrum.start.dtype
        padding = (1 << (len(courses) - 1).bit_length()) - len(courses)  # so that few shapes are compiled
        self.courses = [*courses, *[courses[-1]] * padding]
        self.readers = []
        stream = np.zeros(len(lanes), dtype=np.uint32)
        if self.source is not None:
            replicas = np.unique(replica)
            rows = self.source.rows(replicas.tolist(), self.dtype, task.scale)
            self.filler = len(rows.noise) - 1
            self.spectrum = self.spectrum._replace(rows=_placed(rows, mesh, EVERYWHERE))
            stream = self._open(self.source, np.searchsorted(replicas, replica), replicas)
        self.length = self._table_length(constant=courses[0].algorithm.constant)
        self.origin = -1  # The first step of the table; there is no table before the first call.
        begin = float(np.dot(self.steps.output, self.steps.start))
        first, forgetting, weight, begins = np.array([_averaging(course, begin) for course in courses]).T[:, self.run]
        words = np.stack(threefry((key[:1], key[1:]), number.astype(np.uint32), replica.astype(np.uint32)), axis=1)
        lane = Replica(
            key=words,
            run=self.run.astype(np.uint32),
            first=first.astype(np.uint32),
            forgetting=forgetting.astype(self.dtype),
            weight=weight.astype(self.dtype),
            begin=begins.astype(self.dtype),
            stream=stream,
        )
        self.replicas = _placed(lane, mesh, DIVIDED)
        self.state = _compiled_begin(self.dynamics, mesh, self.spectrum, self.replicas)

    def _open(self, source: RowSource, place: np.ndarray, replicas: np.ndarray) -> np.ndarray:
        """Make the readers of the lanes' rows; return (L,) which of them each lane follows.

        Runs of one constant batch size read alike, so that their replicas compare with less noise than each has.
        """
        opened = {}
        stream = np.zeros(place.size, dtype=np.uint32)
        for lane, (run, of_lane) in enumerate(zip(self.run.tolist(), place.tolist(), strict=True)):
            course = self.courses[run]
            alike = of_lane, ("batch", course.batch) if course.constant_batch else ("run", run)
            if alike not in opened:
                opened[alike] = len(self.readers)
                self.readers.append((run, RowReader(source, course, int(replicas[of_lane]), of_lane)))
            stream[lane] = opened[alike]
        return stream

    def _table_length(self, *, constant: bool) -> int:
        """Return how many steps a table has: 1 if all are alike, else a multiple of `STEPS`."""
        numbers = len(self.courses) * (self.dynamics.vectors + 1) ** 2
        if self.source is None:
            return 1 if constant else STEPS * int(np.clip(TABLE_NUMBERS // (STEPS * numbers), 1, MOST_BLOCKS))
        # Reading rows that no step needs takes longer than a short run. Powers of two are few shapes to compile.
        numbers += len(self.readers) * self.sampler.width
        blocks = -(-max(course.num_steps for course in self.courses) // STEPS)
        needed = 1 << (int(blocks) - 1).bit_length()
        return STEPS * int(np.clip(TABLE_NUMBERS // (STEPS * numbers), 1, min(needed, MOST_BLOCKS)))

    def most(self, now: int) -> int:
        """Return how many steps a call from `now` on may take: no call needs two tables."""
        return 2**31 if self.length == 1 else self.length - now % self.length

    def advance(self, now: int, count: int) -> State:
        """Take `count` steps."""
        origin = 0 if self.length == 1 else now // self.length * self.length
        if origin != self.origin:
            self.origin = origin
            self.table = self._table()
        static = self.dynamics, self.sampler, self.mesh
        when = np.uint32(self.origin), np.uint32(now), np.int32(count)
        self.state = _compiled_advance(*static, self.spectrum, self.table, self.replicas, self.state, *when)
        return self.state

    def _table(self) -> Table:
        """Return the table of the steps from `origin` on."""
        with np.errstate(over="ignore"):  # a rate beyond the range of the dtype diverges, as it should
            table = make_table(self.courses, self.steps, self.origin, self.length, unit=self.unit)
            index = None
            if self.source is not None:
                # Without replacement a batch has each row once at most, and its mean is over as many.
                batch = np.minimum(table.batch, self.source.largest_batch)
                parts = [reader.table(batch[:, run], self.sampler.width, self.filler) for run, reader in self.readers]
                index = np.stack(parts, axis=1)
                table = table._replace(batch=batch)
            return jax.tree.map(lambda each: each.astype(self.dtype), table)._replace(index=index)

    def risks(self, now: int) -> np.ndarray:
        """Return (2, L) risks of what is returned, nan where there is nothing yet, and of the iterate."""
        shares = np.array([each.algorithm.average.returned(now, each.num_steps) for each in self.courses])
        with np.errstate(divide="ignore"):  # the last iterate has no sum, and norm inf
            norm = 1 / shares[self.run, 1]
        weights = shares[self.run, 0].astype(self.dtype), norm.astype(self.dtype)
        found = _compiled_risks(self.dynamics, self.spectrum, self.state, *weights)
        returned, last = map(_fetched, found)
        return np.stack([np.where(np.isnan(norm), np.nan, returned), last])


def _averaging(course: Course, begin: float) -> tuple[float, float, float, float]:
    """Return the first step averaged, 1 − ρ, ω, and S at the start in units of u(0), of which w_0 has `begin`."""
    average = course.algorithm.average
    n = course.num_steps
    return course.first_averaged, average.forgetting(n), average.weight(n), begin * average.starts_at_iterate()


def _placed(arrays: T, mesh: Mesh, spec: PartitionSpec) -> T:
    """Return the arrays on the devices; every process knows all of them and places its part."""
    sharding = NamedSharding(mesh, spec)
    place = jax.make_array_from_callback
    return jax.tree.map(lambda a: place(a.shape, sharding, lambda index, a=a: a[index]), arrays)


def _fetched(risks: Any) -> np.ndarray:
    """Return the risks of all lanes, on every process; `inf` where one left the range of a float."""
    if not risks.is_fully_addressable:
        risks = multihost_utils.process_allgather(risks, tiled=True)
    risks = np.asarray(risks, dtype=float)
    return np.where(np.isfinite(risks), risks, np.inf)


@partial(jax.jit, static_argnums=(0, 1))
def _compiled_begin(dynamics: Dynamics, mesh: Mesh, spectrum: Spectrum, replicas: Replica) -> State:
    state = jax.vmap(partial(begin, dynamics), in_axes=(None, 0))(spectrum, replicas)
    return jax.lax.with_sharding_constraint(state, NamedSharding(mesh, DIVIDED))


@partial(jax.jit, static_argnums=(0, 1, 2), donate_argnums=(6,))
def _compiled_advance(
    dynamics: Dynamics,
    sampler: Sampler,
    mesh: Mesh,
    spectrum: Spectrum,
    table: Table,
    replicas: Replica,
    state: State,
    origin: jax.Array,
    first: jax.Array,
    count: jax.Array,
) -> State:
    """Return the state of all lanes. Every device works on its own: there is no communication."""
    return jax.shard_map(
        partial(advance, dynamics, sampler),
        mesh=mesh,
        in_specs=(EVERYWHERE, EVERYWHERE, DIVIDED, DIVIDED, EVERYWHERE, EVERYWHERE, EVERYWHERE),
        out_specs=DIVIDED,
        check_vma=False,
    )(spectrum, table, replicas, state, origin, first, count)


@partial(jax.jit, static_argnums=0)
def _compiled_risks(
    dynamics: Dynamics, spectrum: Spectrum, state: State, share: jax.Array, norm: jax.Array
) -> tuple[jax.Array, jax.Array]:
    """Return those of all lanes."""
    return jax.vmap(partial(risks, dynamics), in_axes=(None, 0, 0, 0))(spectrum, state, share, norm)
