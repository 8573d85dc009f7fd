"""The replicas of any algorithm on the devices, with the table of their next steps."""

from collections.abc import Sequence
from functools import partial

import jax
import numpy as np
from jax.sharding import Mesh, NamedSharding

from sgdtheory.algorithms import Course
from sgdtheory.simulation.dynamics import STEPS, Sampler, Spectrum
from sgdtheory.simulation.linear_dynamics import Replica, State, Table, advance, init, risks
from sgdtheory.simulation.placing import DIVIDED, EVERYWHERE, fetch, lane_keys, place
from sgdtheory.simulation.tables import make_table, table_length, with_start


class LinearProgram:
    """Lanes of runs of one algorithm: a state that moves on, and its risks."""

    def __init__(
        self,
        sampler: Sampler,
        spectrum: Spectrum,
        courses: Sequence[Course],
        unit: float,
        mesh: Mesh,
        lanes: np.ndarray,
        key: np.ndarray,
    ) -> None:
        """Replicas at their start.

        Args:
            sampler: draws their steps.
            spectrum: of the problem.
            courses: of G runs.
            unit: λ_1.
            mesh: the devices.
            lanes: (L, 3) place of the run among the courses, number of the run and replica of each lane.
            key: (2,) uint32.
        """
        self.sampler, self.spectrum, self.unit, self.mesh = sampler, spectrum, unit, mesh
        self.dtype = spectrum.start.dtype
        algorithm = courses[0].algorithm
        self.run = lanes[:, 0]
        self.ways = [(algorithm.average, course.num_steps) for course in courses]
        padding = (1 << (len(courses) - 1).bit_length()) - len(courses)  # so that few shapes are compiled
        self.courses = [*courses, *[courses[-1]] * padding]
        self.output = with_start(algorithm.method).astype(self.dtype)
        self.length = 1 if algorithm.constant else table_length(algorithm.method, len(self.courses))
        self.table: Table | None = None
        self.origin = 0
        kept = np.array([_keeping(course) for course in courses]).T
        first, others = kept[0].astype(np.uint32), kept[1:].astype(self.dtype)
        words = lane_keys(key, lanes[:, 1], lanes[:, 2])
        replicas = Replica(words, self.run.astype(np.uint32), *(each[self.run] for each in (first, *others)))
        self.replicas = place(replicas, mesh)
        self.state = _compiled_init(spectrum, self.replicas, len(algorithm.method.start), mesh)

    def most(self, now: int) -> int:
        """Steps that a call from `now` on may take."""
        return 2**31 if self.length == 1 else self.length - now % STEPS

    def advance(self, now: int, count: int) -> State:
        """Take `count` steps."""
        covered = self.length == 1 or now + count <= self.origin + self.length
        if self.table is None or not covered:
            self.origin = now // STEPS * STEPS
            with np.errstate(over="ignore"):  # a rate beyond the range of the dtype diverges, as it should
                found = make_table(self.courses, self.unit, self.origin, self.length)
                self.table = Table(*(each.astype(self.dtype) for each in found))
        fixed = self.sampler, self.mesh, self.spectrum, self.output, self.table, self.replicas
        steps = np.uint32(self.origin), np.uint32(now), np.int32(count)
        self.state = _compiled_advance(*fixed, self.state, *steps)
        return self.state

    def risks(self, now: int) -> tuple[np.ndarray, np.ndarray]:
        """(L,) risks of what is returned, nan where there is nothing yet, and of the iterate."""
        shares = np.array([average.returned(now, num_steps) for average, num_steps in self.ways])
        with np.errstate(divide="ignore"):
            iterate, norm = shares[self.run, 0], 1 / shares[self.run, 1]
        parts = (each.astype(self.dtype) for each in (iterate, norm))
        returned, last = map(fetch, _compiled_risks(self.spectrum, self.output, self.state, *parts))
        return np.where(np.isnan(norm), np.nan, returned), last


def _keeping(course: Course) -> tuple[float, float, float, float]:
    """First step averaged, 1 − ρ, ω, and S at the start in units of u(0)."""
    average, n = course.algorithm.average, course.num_steps
    begin = with_start(course.algorithm.method)[0] if average.starts_at_iterate() else 0.0
    return course.first_averaged, average.forgetting(n), average.weight(n), begin


@partial(jax.jit, static_argnums=(2, 3))
def _compiled_init(spectrum: Spectrum, replicas: Replica, vectors: int, mesh: Mesh) -> State:
    state = jax.vmap(partial(init, vectors=vectors), in_axes=(None, 0))(spectrum, replicas)
    return jax.lax.with_sharding_constraint(state, NamedSharding(mesh, DIVIDED))


@partial(jax.jit, static_argnums=(0, 1), donate_argnums=(6,))
def _compiled_advance(
    sampler: Sampler,
    mesh: Mesh,
    spectrum: Spectrum,
    output: jax.Array,
    table: Table,
    replicas: Replica,
    state: State,
    origin: jax.Array,
    first: jax.Array,
    count: jax.Array,
) -> State:
    """Every device works on its own lanes: there is no communication."""
    return jax.shard_map(
        partial(advance, sampler),
        mesh=mesh,
        in_specs=(EVERYWHERE, EVERYWHERE, EVERYWHERE, DIVIDED, DIVIDED, EVERYWHERE, EVERYWHERE, EVERYWHERE),
        out_specs=DIVIDED,
        check_vma=False,
    )(spectrum, output, table, replicas, state, origin, first, count)


_compiled_risks = jax.jit(risks)
