"""The replicas of methods that are not linear in the gradient on the devices."""

from collections.abc import Sequence
from functools import partial

import jax
import numpy as np
from jax.sharding import Mesh, NamedSharding

from sgdtheory.algorithms import Coordinates, Course, NonlinearMethod, rotation
from sgdtheory.simulation.dynamics import Sampler, Spectrum
from sgdtheory.simulation.linear_dynamics import Replica
from sgdtheory.simulation.method_program import MethodProgram
from sgdtheory.simulation.nonlinear_dynamics import State, Table, Weights, advance, init, risks
from sgdtheory.simulation.placing import DIVIDED, EVERYWHERE


class NonlinearProgram(MethodProgram):
    """Lanes of runs of a `NonlinearMethod`.

    Spectra are simulated in units in which λ_1 = 1 and Σ s_i + σ² = 1, so that of weights is √(Σ s_i + σ²)/√λ_1 and
    that of gradients √λ_1 √(Σ s_i + σ²).

    Args:
        unit: λ_1.
        scale: √(Σ s_i + σ²).
    """

    def __init__(
        self,
        sampler: Sampler,
        spectrum: Spectrum,
        courses: Sequence[Course],
        unit: float,
        scale: float,
        mesh: Mesh,
        lanes: np.ndarray,
        key: np.ndarray,
    ) -> None:
        method = courses[0].algorithm.method
        root = float(np.sqrt(unit))
        self.weight_unit = scale / root
        alike = method.in_units(scale * root)
        self.method: NonlinearMethod = alike or method
        dtype = spectrum.start.dtype
        dim = spectrum.eigenvalue.size
        given = isinstance(method.basis, Coordinates)
        rows = padded(method.basis.rows, dim) if given else rotation(method.basis, dim, key.tolist())
        basis = None if rows is None else rows.astype(dtype)
        gradient_unit = np.asarray(1.0 if alike else scale * root).astype(dtype)
        self.weights = Weights(np.sqrt(spectrum.eigenvalue), basis, gradient_unit)
        super().__init__(sampler, spectrum, courses, mesh, lanes, key, numbers=2, begin=1.0)

    def started(self) -> State:
        """Nothing has moved."""
        return _compiled_init(self.method, self.mesh, self.spectrum, self.replicas)

    def tabulated(self, first: int, count: int) -> Table:
        """Learning rates in units of the weights, and batch sizes; after a run's last step it repeats."""
        columns = []
        for course in self.courses:
            step = np.minimum(np.arange(first, first + count, dtype=float), course.num_steps - 1)
            batch = np.maximum(np.rint(course.batches(step)), 1.0)
            columns.append((course.rates(step) / self.weight_unit, batch))
        return Table(*(np.stack(each, axis=1) for each in zip(*columns, strict=True)))

    def moved(self, origin: np.uint32, first: np.uint32, count: np.int32) -> State:
        """Through the compiled loop."""
        static = self.sampler, self.method, self.mesh
        fixed = self.spectrum, self.weights, self.table, self.replicas
        return _compiled_advance(*static, *fixed, self.state, origin, first, count)

    def looked(self, iterate: np.ndarray, norm: np.ndarray) -> tuple[jax.Array, jax.Array]:
        """Of all lanes."""
        return _compiled_risks(self.spectrum, self.state, iterate, norm)


def padded(rows: np.ndarray, dim: int) -> np.ndarray:
    """(d, d): what is not simulated, a direction without a gradient, is a coordinate of its own."""
    found = np.eye(dim)
    found[: len(rows), : len(rows)] = rows
    return found


@partial(jax.jit, static_argnums=(0, 1))
def _compiled_init(method: NonlinearMethod, mesh: Mesh, spectrum: Spectrum, replicas: Replica) -> State:
    state = jax.vmap(partial(init, method), in_axes=(None, 0))(spectrum, replicas)
    return jax.lax.with_sharding_constraint(state, NamedSharding(mesh, DIVIDED))


@partial(jax.jit, static_argnums=(0, 1, 2), donate_argnums=(7,))
def _compiled_advance(
    sampler: Sampler,
    method: NonlinearMethod,
    mesh: Mesh,
    spectrum: Spectrum,
    weights: Weights,
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
        in_specs=(EVERYWHERE, EVERYWHERE, EVERYWHERE, DIVIDED, DIVIDED, EVERYWHERE, EVERYWHERE, EVERYWHERE),
        out_specs=DIVIDED,
        check_vma=False,
    )(spectrum, weights, table, replicas, state, origin, first, count)


_compiled_risks = jax.jit(jax.vmap(risks, in_axes=(None, 0, 0, 0)))
