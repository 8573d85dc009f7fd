"""The replicas of workers with local steps on the devices."""

from functools import partial

import jax
import numpy as np
from jax.sharding import Mesh, NamedSharding

from sgdtheory.algorithms import Course, LocalSGD
from sgdtheory.simulation.dynamics import Sampler, Spectrum
from sgdtheory.simulation.linear_dynamics import Replica
from sgdtheory.simulation.method_program import MethodProgram
from sgdtheory.simulation.placing import DIVIDED, EVERYWHERE
from sgdtheory.simulation.worker_dynamics import State, Table, advance, init, risks


class WorkerProgram(MethodProgram):
    """Lanes of runs of `LocalSGD`, all K workers of a replica in one; `unit` is λ_1."""

    def __init__(
        self,
        sampler: Sampler,
        spectrum: Spectrum,
        courses: list[Course],
        unit: float,
        mesh: Mesh,
        lanes: np.ndarray,
        key: np.ndarray,
    ) -> None:
        self.unit = unit
        self.method: LocalSGD = courses[0].algorithm.method
        super().__init__(sampler, spectrum, courses, mesh, lanes, key, numbers=2, begin=1.0)

    def started(self) -> State:
        """Nothing has moved."""
        return _compiled_init(self.method, self.mesh, self.spectrum, self.replicas)

    def tabulated(self, first: int, count: int) -> Table:
        """Learning rates and a worker's batch sizes; after a run's last step it repeats."""
        columns = []
        for course in self.courses:
            step = np.minimum(np.arange(first, first + count, dtype=float), course.num_steps - 1)
            columns.append((course.rates(step) * self.unit, np.maximum(np.rint(course.batches(step)), 1.0)))
        return Table(*(np.stack(each, axis=1) for each in zip(*columns, strict=True)))

    def moved(self, origin: np.uint32, first: np.uint32, count: np.int32) -> State:
        """Through the compiled loop."""
        fixed = self.sampler, self.method, self.mesh, self.spectrum, self.table, self.replicas
        return _compiled_advance(*fixed, self.state, origin, first, count)

    def looked(self, iterate: np.ndarray, norm: np.ndarray) -> tuple[jax.Array, jax.Array]:
        """Of all lanes."""
        return _compiled_risks(self.spectrum, self.state, iterate, norm)


@partial(jax.jit, static_argnums=(0, 1))
def _compiled_init(method: LocalSGD, mesh: Mesh, spectrum: Spectrum, replicas: Replica) -> State:
    state = jax.vmap(partial(init, workers=method.num_workers), in_axes=(None, 0))(spectrum, replicas)
    return jax.lax.with_sharding_constraint(state, NamedSharding(mesh, DIVIDED))


@partial(jax.jit, static_argnums=(0, 1, 2), donate_argnums=(6,))
def _compiled_advance(
    sampler: Sampler,
    method: LocalSGD,
    mesh: Mesh,
    spectrum: Spectrum,
    table: Table,
    replicas: Replica,
    state: State,
    origin: jax.Array,
    first: jax.Array,
    count: jax.Array,
) -> State:
    """Every device works on its own lanes: there is no communication."""
    return jax.shard_map(
        partial(advance, sampler, method),
        mesh=mesh,
        in_specs=(EVERYWHERE, EVERYWHERE, DIVIDED, DIVIDED, EVERYWHERE, EVERYWHERE, EVERYWHERE),
        out_specs=DIVIDED,
        check_vma=False,
    )(spectrum, table, replicas, state, origin, first, count)


_compiled_risks = jax.jit(jax.vmap(risks, in_axes=(None, 0, 0, 0)))
