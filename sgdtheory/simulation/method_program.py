"""The replicas of an algorithm on the devices, with the table of their next steps."""

from collections.abc import Sequence
from functools import partial
from typing import Any, ClassVar

import jax
import numpy as np
from jax.sharding import Mesh, NamedSharding

from sgdtheory.algorithms import Course
from sgdtheory.simulation.dynamics import STEPS, Sampler, Spectrum
from sgdtheory.simulation.method_dynamics import Dynamics, RateTable, Replica, advance
from sgdtheory.simulation.placing import DIVIDED, EVERYWHERE, fetch, lane_keys, place


class MethodProgram:
    """Lanes of runs of one algorithm: a state that moves on, and its risks.

    Args:
        dynamics: of the method.
        how: what it is compiled for; hashable.
        shared: arrays that all lanes have in common, or None.
        unit: λ_1.
        sampler: draws their steps.
        spectrum: of the problem.
        courses: of G runs.
        mesh: the devices.
        lanes: (L, 3) place of the run among the courses, number of the run and replica of each lane.
        key: (2,) uint32.
        numbers: about how many a step of a run takes in the table.
        begin: the iterate at the start, in units of u(0).
    """

    TABLE_NUMBERS: ClassVar[int] = 2**21  # of a table, about: 8 MB in float32
    MOST_BLOCKS: ClassVar[int] = 64

    def __init__(
        self,
        dynamics: Dynamics,
        how: Any,
        shared: Any,
        unit: float,
        sampler: Sampler,
        spectrum: Spectrum,
        courses: Sequence[Course],
        mesh: Mesh,
        lanes: np.ndarray,
        key: np.ndarray,
        *,
        numbers: int = 2,
        begin: float = 1.0,
    ) -> None:
        self.dynamics = dynamics
        self.how = how
        self.shared = shared
        self.unit = unit
        self.sampler = sampler
        self.spectrum = spectrum
        self.mesh = mesh
        self.dtype = spectrum.start.dtype
        self.run = lanes[:, 0]
        self.ways = [(course.algorithm.average, course.num_steps) for course in courses]
        padding = (1 << (len(courses) - 1).bit_length()) - len(courses)  # so that few shapes are compiled
        self.courses = [*courses, *[courses[-1]] * padding]
        blocks = int(np.clip(self.TABLE_NUMBERS // (STEPS * len(self.courses) * numbers), 1, self.MOST_BLOCKS))
        self.length = 1 if courses[0].algorithm.constant else STEPS * blocks
        self.table: Any = None
        self.origin = 0
        kept = np.array([_keeping(course, begin) for course in courses]).T
        first, others = kept[0].astype(np.uint32), kept[1:].astype(self.dtype)
        words = lane_keys(key, lanes[:, 1], lanes[:, 2])
        replicas = Replica(words, self.run.astype(np.uint32), *(each[self.run] for each in (first, *others)))
        self.replicas = place(replicas, mesh)
        self.state = _compiled_init(dynamics, how, mesh, spectrum, self.replicas)

    def rates(self, course: Course, step: np.ndarray) -> np.ndarray:
        """Learning rates in the units of the simulation, in which λ_1 = 1."""
        return course.rates(step) * self.unit

    def tabulated(self, first: int, count: int) -> Any:
        """What the steps first … first + count − 1 of the runs do, in float64; after a run's last step it repeats."""
        columns = []
        for course in self.courses:
            step = np.minimum(np.arange(first, first + count, dtype=float), course.num_steps - 1)
            columns.append((self.rates(course, step), np.maximum(np.rint(course.batches(step)), 1.0)))
        return RateTable(*(np.stack(each, axis=1) for each in zip(*columns, strict=True)))

    def most(self, now: int) -> int:
        """Steps that a call from `now` on may take."""
        return 2**31 if self.length == 1 else self.length - now % STEPS

    def advance(self, now: int, count: int) -> Any:
        """Take `count` steps."""
        covered = self.length == 1 or now + count <= self.origin + self.length
        if self.table is None or not covered:
            self.origin = now // STEPS * STEPS
            with np.errstate(over="ignore"):  # a rate beyond the range of the dtype diverges, as it should
                found = self.tabulated(self.origin, self.length)
                self.table = jax.tree.map(lambda each: each.astype(self.dtype), found)
        static = self.dynamics, self.sampler, self.how, self.mesh
        fixed = self.spectrum, self.shared, self.table, self.replicas
        when = np.uint32(self.origin), np.uint32(now), np.int32(count)
        self.state = _compiled_advance(*static, *fixed, self.state, *when)
        return self.state

    def risks(self, now: int) -> tuple[np.ndarray, np.ndarray]:
        """(L,) risks of what is returned, nan where there is nothing yet, and of the iterate."""
        shares = np.array([average.returned(now, num_steps) for average, num_steps in self.ways])
        with np.errstate(divide="ignore"):
            iterate, norm = shares[self.run, 0], 1 / shares[self.run, 1]
        shares = iterate.astype(self.dtype), norm.astype(self.dtype)
        returned, last = map(fetch, _compiled_risks(self.dynamics, self.spectrum, self.shared, self.state, *shares))
        return np.where(np.isnan(norm), np.nan, returned), last


def _keeping(course: Course, begin: float) -> tuple[float, float, float, float]:
    """First step averaged, 1 − ρ, ω, and S at the start in units of u(0)."""
    average, n = course.algorithm.average, course.num_steps
    return course.first_averaged, average.forgetting(n), average.weight(n), begin * average.starts_at_iterate()


@partial(jax.jit, static_argnums=(0, 1, 2))
def _compiled_init(dynamics: Dynamics, how: Any, mesh: Mesh, spectrum: Spectrum, replicas: Replica) -> Any:
    state = jax.vmap(partial(dynamics.init, how), in_axes=(None, 0))(spectrum, replicas)
    return jax.lax.with_sharding_constraint(state, NamedSharding(mesh, DIVIDED))


@partial(jax.jit, static_argnums=(0, 1, 2, 3), donate_argnums=(8,))
def _compiled_advance(
    dynamics: Dynamics,
    sampler: Sampler,
    how: Any,
    mesh: Mesh,
    spectrum: Spectrum,
    shared: Any,
    table: Any,
    replicas: Replica,
    state: Any,
    origin: jax.Array,
    first: jax.Array,
    count: jax.Array,
) -> Any:
    """Every device works on its own lanes: there is no communication."""
    return jax.shard_map(
        partial(advance, dynamics, sampler, how),
        mesh=mesh,
        in_specs=(EVERYWHERE, EVERYWHERE, EVERYWHERE, DIVIDED, DIVIDED, EVERYWHERE, EVERYWHERE, EVERYWHERE),
        out_specs=DIVIDED,
        check_vma=False,
    )(spectrum, shared, table, replicas, state, origin, first, count)


@partial(jax.jit, static_argnums=0)
def _compiled_risks(
    dynamics: Dynamics, spectrum: Spectrum, shared: Any, state: Any, iterate: jax.Array, norm: jax.Array
) -> tuple[jax.Array, jax.Array]:
    """Of all lanes."""
    return jax.vmap(dynamics.risks, in_axes=(None, None, 0, 0, 0))(spectrum, shared, state, iterate, norm)
