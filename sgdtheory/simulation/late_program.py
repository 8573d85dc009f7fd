"""The replicas of SGD with late gradients on the devices."""

from collections.abc import Sequence
from functools import partial

import jax
import numpy as np
from jax.sharding import Mesh, NamedSharding

from sgdtheory.algorithms import Course, LinearMethod
from sgdtheory.simulation.dynamics import Sampler, Spectrum
from sgdtheory.simulation.late_dynamics import State, Table, advance, init, risks
from sgdtheory.simulation.linear_dynamics import Replica
from sgdtheory.simulation.method_program import MethodProgram
from sgdtheory.simulation.placing import DIVIDED, EVERYWHERE


class LateProgram(MethodProgram):
    """Lanes of runs of plain steps with late gradients; `unit` is λ_1."""

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
        self.unit = unit
        method: LinearMethod = courses[0].algorithm.method
        self.vectors = method.longest_delay + 1
        self.shares = np.cumsum(method.delays).astype(spectrum.start.dtype)
        super().__init__(sampler, spectrum, courses, mesh, lanes, key, numbers=2, begin=1.0)

    def started(self) -> State:
        """Nothing has moved."""
        return _compiled_init(self.spectrum, self.replicas, self.vectors, self.mesh)

    def tabulated(self, first: int, count: int) -> Table:
        """Learning rates in units of 1/λ_1, and batch sizes; after a run's last step it repeats."""
        columns = []
        for course in self.courses:
            step = np.minimum(np.arange(first, first + count, dtype=float), course.num_steps - 1)
            rates = np.broadcast_to(course.rates(step), step.shape)
            batch = np.maximum(np.rint(np.broadcast_to(course.batches(step), step.shape)), 1.0)
            columns.append((rates * self.unit, batch))
        return Table(*(np.stack(each, axis=1) for each in zip(*columns, strict=True)))

    def moved(self, origin: np.uint32, first: np.uint32, count: np.int32) -> State:
        """Through the compiled loop."""
        fixed = self.sampler, self.mesh, self.spectrum, self.shares, self.table, self.replicas
        return _compiled_advance(*fixed, self.state, origin, first, count)

    def looked(self, iterate: np.ndarray, norm: np.ndarray) -> tuple[jax.Array, jax.Array]:
        """Of all lanes."""
        return _compiled_risks(self.spectrum, self.state, iterate, norm)


@partial(jax.jit, static_argnums=(2, 3))
def _compiled_init(spectrum: Spectrum, replicas: Replica, vectors: int, mesh: Mesh) -> State:
    state = jax.vmap(partial(init, vectors=vectors), in_axes=(None, 0))(spectrum, replicas)
    return jax.lax.with_sharding_constraint(state, NamedSharding(mesh, DIVIDED))


@partial(jax.jit, static_argnums=(0, 1), donate_argnums=(6,))
def _compiled_advance(
    sampler: Sampler,
    mesh: Mesh,
    spectrum: Spectrum,
    shares: jax.Array,
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
    )(spectrum, shares, table, replicas, state, origin, first, count)


_compiled_risks = jax.jit(jax.vmap(risks, in_axes=(None, 0, 0, 0)))
