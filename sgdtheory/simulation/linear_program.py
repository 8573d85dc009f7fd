"""The replicas of any linear method on the devices."""

from collections.abc import Sequence
from functools import partial

import jax
import numpy as np
from jax.sharding import Mesh, NamedSharding

from sgdtheory.algorithms import Course
from sgdtheory.simulation.dynamics import Sampler, Spectrum
from sgdtheory.simulation.linear_dynamics import Replica, State, Table, advance, init, risks
from sgdtheory.simulation.method_program import MethodProgram
from sgdtheory.simulation.placing import DIVIDED, EVERYWHERE
from sgdtheory.simulation.tables import make_table, with_start


class LinearProgram(MethodProgram):
    """Lanes of runs whose steps are linear in the gradient; `unit` is λ_1."""

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
        method = courses[0].algorithm.method
        self.vectors = len(method.start)
        output = with_start(method)
        self.output = output.astype(spectrum.start.dtype)
        numbers = (self.vectors + 1) ** 2
        super().__init__(sampler, spectrum, courses, mesh, lanes, key, numbers=numbers, begin=output[0])

    def started(self) -> State:
        """Nothing has moved."""
        return _compiled_init(self.spectrum, self.replicas, self.vectors, self.mesh)

    def tabulated(self, first: int, count: int) -> Table:
        """Coefficients."""
        return make_table(self.courses, self.unit, first, count)

    def moved(self, origin: np.uint32, first: np.uint32, count: np.int32) -> State:
        """Through the compiled loop."""
        fixed = self.sampler, self.mesh, self.spectrum, self.output, self.table, self.replicas
        return _compiled_advance(*fixed, self.state, origin, first, count)

    def looked(self, iterate: np.ndarray, norm: np.ndarray) -> tuple[jax.Array, jax.Array]:
        """Of all lanes."""
        return _compiled_risks(self.spectrum, self.output, self.state, iterate, norm)


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


_compiled_risks = jax.jit(jax.vmap(risks, in_axes=(None, None, 0, 0, 0)))
