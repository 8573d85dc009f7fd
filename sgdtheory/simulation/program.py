"""The replicas of an algorithm on the devices, with the table of their next steps."""

from collections.abc import Callable, Sequence
from functools import partial
from typing import Any, ClassVar, NamedTuple

import jax
import numpy as np
from jax.sharding import Mesh, NamedSharding

from sgdtheory.algorithms import SGD, Coordinates, Course, LocalSGD, NonlinearMethod, rotation
from sgdtheory.simulation.dynamics import (
    STEPS,
    Dynamics,
    RateTable,
    Replica,
    Sampler,
    Spectrum,
    State,
    advance,
    begin,
    risks,
)
from sgdtheory.simulation.linear_dynamics import LinearDynamics
from sgdtheory.simulation.nonlinear_dynamics import NonlinearDynamics, Weights
from sgdtheory.simulation.placing import DIVIDED, EVERYWHERE, fetch, lane_keys, place
from sgdtheory.simulation.runs import Run
from sgdtheory.simulation.sgd_dynamics import DelayedDynamics
from sgdtheory.simulation.tables import make_table, with_start
from sgdtheory.simulation.worker_dynamics import WorkerDynamics


class Setup(NamedTuple):
    """Dynamics of an algorithm, with its arrays and tables.

    Attributes:
        dynamics: of the method.
        shared: arrays that all replicas have in common, or None.
        tabulated: (courses, first, count) → the table of these steps in float64.
        begin: the iterate at the start, in units of u(0).
        numbers: about how many numbers a step of a run takes in the table.
    """

    dynamics: Dynamics
    shared: Any
    tabulated: Callable[[Sequence[Course], int, int], Any]
    begin: float = 1.0
    numbers: int = 2


def setup_of(run: Run, spectrum: Spectrum, key: np.ndarray) -> Setup:
    """Return the dynamics of a run's method and its tables, in units in which λ_1 = 1 and Σ s_i + σ² = 1."""
    method = run.course.algorithm.method
    dtype = spectrum.start.dtype
    if isinstance(method, NonlinearMethod):
        return _nonlinear(run, spectrum, key)
    rates = partial(rate_table, unit=run.unit)
    if isinstance(method, LocalSGD):
        return Setup(WorkerDynamics(method), None, rates)
    if method == SGD():
        return Setup(DelayedDynamics(), None, rates)
    if method.late:
        return Setup(DelayedDynamics(method.longest_delay), np.cumsum(method.delays).astype(dtype), rates)
    output = with_start(method)
    vectors = len(method.start)
    table = partial(make_table, unit=run.unit)
    return Setup(LinearDynamics(vectors), output.astype(dtype), table, output[0], (vectors + 1) ** 2)


def _nonlinear(run: Run, spectrum: Spectrum, key: np.ndarray) -> Setup:
    """Weights are in units of √(Σ s_i + σ²)/√λ_1, and gradients in units of √λ_1 √(Σ s_i + σ²)."""
    method = run.course.algorithm.method
    dtype = spectrum.start.dtype
    root = float(np.sqrt(run.unit))
    alike = method.in_units(run.scale * root)
    dim = spectrum.eigenvalue.size
    given = isinstance(method.basis, Coordinates)
    rows = padded(method.basis.rows, dim) if given else rotation(method.basis, dim, key.tolist())
    basis = None if rows is None else rows.astype(dtype)
    unit = np.asarray(1.0 if alike else run.scale * root).astype(dtype)
    weights = Weights(np.sqrt(spectrum.eigenvalue), basis, unit)
    return Setup(NonlinearDynamics(alike or method), weights, partial(rate_table, unit=root / run.scale))


def padded(rows: np.ndarray, dim: int) -> np.ndarray:
    """Return (d, d): what is not simulated, a direction without a gradient, is a coordinate of its own."""
    found = np.eye(dim)
    found[: len(rows), : len(rows)] = rows
    return found


def rate_table(courses: Sequence[Course], first: int, count: int, *, unit: float) -> RateTable:
    """Return learning rates in the units of the simulation and batch sizes; after a run's last step it repeats."""
    columns = []
    for course in courses:
        step = np.minimum(np.arange(first, first + count, dtype=float), course.num_steps - 1)
        columns.append((course.rates(step) * unit, np.maximum(np.rint(course.batches(step)), 1.0)))
    return RateTable(*(np.stack(each, axis=1) for each in zip(*columns, strict=True)))


class Program:
    """Replicas of runs of one algorithm: a state that moves on, and its risks.

    Args:
        setup: of the algorithm.
        sampler: draws their steps.
        spectrum: of the problem.
        courses: of G runs.
        mesh: the devices.
        lanes: (L, 3) index of the run among the courses, number of the run and replica of each lane.
        key: (2,) uint32.
    """

    TABLE_NUMBERS: ClassVar[int] = 2**21  # of a table, about: 8 MB in float32
    MOST_BLOCKS: ClassVar[int] = 64

    def __init__(
        self,
        setup: Setup,
        sampler: Sampler,
        spectrum: Spectrum,
        courses: Sequence[Course],
        mesh: Mesh,
        lanes: np.ndarray,
        key: np.ndarray,
    ) -> None:
        self.setup = setup
        self.sampler = sampler
        self.spectrum = spectrum
        self.mesh = mesh
        self.dtype = spectrum.start.dtype
        self.run = lanes[:, 0]
        self.averages = [(course.algorithm.average, course.num_steps) for course in courses]
        padding = (1 << (len(courses) - 1).bit_length()) - len(courses)  # so that few shapes are compiled
        self.courses = [*courses, *[courses[-1]] * padding]
        blocks = int(np.clip(self.TABLE_NUMBERS // (STEPS * len(self.courses) * setup.numbers), 1, self.MOST_BLOCKS))
        self.length = 1 if courses[0].algorithm.constant else STEPS * blocks
        self.table: Any = None
        self.origin = 0
        kept = np.array([_keeping(course, setup.begin) for course in courses]).T
        first = kept[0].astype(np.uint32)
        others = kept[1:].astype(self.dtype)
        words = lane_keys(key, lanes[:, 1], lanes[:, 2])
        replicas = Replica(words, self.run.astype(np.uint32), *(each[self.run] for each in (first, *others)))
        self.replicas = place(replicas, mesh)
        self.state = _compiled_begin(setup.dynamics, mesh, spectrum, self.replicas)

    def most(self, now: int) -> int:
        """Return how many steps a call from `now` on may take."""
        return 2**31 if self.length == 1 else self.length - now % STEPS

    def advance(self, now: int, count: int) -> State:
        """Take `count` steps."""
        covered = self.length == 1 or now + count <= self.origin + self.length
        if self.table is None or not covered:
            self.origin = now // STEPS * STEPS
            with np.errstate(over="ignore"):  # a rate beyond the range of the dtype diverges, as it should
                found = self.setup.tabulated(self.courses, self.origin, self.length)
                self.table = jax.tree.map(lambda each: each.astype(self.dtype), found)
        static = self.setup.dynamics, self.sampler, self.mesh
        fixed = self.spectrum, self.setup.shared, self.table, self.replicas
        when = np.uint32(self.origin), np.uint32(now), np.int32(count)
        self.state = _compiled_advance(*static, *fixed, self.state, *when)
        return self.state

    def risks(self, now: int) -> tuple[np.ndarray, np.ndarray]:
        """Return (L,) risks of what is returned, nan where there is nothing yet, and of the iterate."""
        shares = np.array([average.returned(now, num_steps) for average, num_steps in self.averages])
        with np.errstate(divide="ignore"):
            norm = 1 / shares[self.run, 1]
        given = self.setup.dynamics, self.spectrum, self.setup.shared, self.state
        found = _compiled_risks(*given, shares[self.run, 0].astype(self.dtype), norm.astype(self.dtype))
        returned, last = map(fetch, found)
        return np.where(np.isnan(norm), np.nan, returned), last


def _keeping(course: Course, begin: float) -> tuple[float, float, float, float]:
    """Return the first step averaged, 1 − ρ, ω, and S at the start in units of u(0)."""
    average = course.algorithm.average
    n = course.num_steps
    return course.first_averaged, average.forgetting(n), average.weight(n), begin * average.starts_at_iterate()


@partial(jax.jit, static_argnums=(0, 1))
def _compiled_begin(dynamics: Dynamics, mesh: Mesh, spectrum: Spectrum, replicas: Replica) -> State:
    state = jax.vmap(partial(begin, dynamics), in_axes=(None, 0))(spectrum, replicas)
    return jax.lax.with_sharding_constraint(state, NamedSharding(mesh, DIVIDED))


@partial(jax.jit, static_argnums=(0, 1, 2), donate_argnums=(7,))
def _compiled_advance(
    dynamics: Dynamics,
    sampler: Sampler,
    mesh: Mesh,
    spectrum: Spectrum,
    shared: Any,
    table: Any,
    replicas: Replica,
    state: State,
    origin: jax.Array,
    first: jax.Array,
    count: jax.Array,
) -> State:
    """Every device works on its own lanes: there is no communication."""
    return jax.shard_map(
        partial(advance, dynamics, sampler),
        mesh=mesh,
        in_specs=(EVERYWHERE, EVERYWHERE, EVERYWHERE, DIVIDED, DIVIDED, EVERYWHERE, EVERYWHERE, EVERYWHERE),
        out_specs=DIVIDED,
        check_vma=False,
    )(spectrum, shared, table, replicas, state, origin, first, count)


@partial(jax.jit, static_argnums=0)
def _compiled_risks(
    dynamics: Dynamics, spectrum: Spectrum, shared: Any, state: State, share: jax.Array, norm: jax.Array
) -> tuple[jax.Array, jax.Array]:
    """Return those of all lanes."""
    return jax.vmap(partial(risks, dynamics), in_axes=(None, None, 0, 0, 0))(spectrum, shared, state, share, norm)
