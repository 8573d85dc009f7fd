"""Methods that are more than a linear step: delayed gradients, nonlinear methods, workers; and the table of any."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
from jax import Array, lax

from sgdtheory._common.counter_random import symmetric_uniform, threefry
from sgdtheory.algorithms import SGD, Coordinates, Course, LinearMethod, LocalSGD, NonlinearMethod, rotation
from sgdtheory.simulation.dynamics import Dynamics, Sampler, Spectrum, State, Step, Table
from sgdtheory.simulation.task import Task

BESIDE = np.uint32(0xFFFFFFFF)  # No index of a normal reaches this counter word, of delays and workers' keys.


@dataclass(frozen=True, kw_only=True)
class Delayed(Dynamics):
    """Gradients that are taken at cᵀu of some steps ago (THEORY.md T41).

    The last τ + 1 points are kept, (τ + 1, d), that of step t at t modulo τ + 1. The method's array is (τ + 1,)
    P(delay ≤ j).

    Attributes:
        longest: τ.
    """

    longest: int

    def begin(self, spectrum: Spectrum) -> tuple[tuple[Array, ...], Any]:
        """Return the start, which all points before it are, too."""
        vectors, _ = super().begin(spectrum)
        return vectors, jnp.broadcast_to(spectrum.start, (self.longest + 1, *spectrum.start.shape))

    def direction(self, step: Step, point: Array, kept: Any) -> tuple[Array, Any]:
        """Return the gradient at the point of a random number of steps ago."""
        length = np.uint32(self.longest + 1)
        number = step.draw.number
        kept = kept.at[number % length].set(point)
        words = threefry((step.draw.key[0], step.draw.key[1]), number, BESIDE)
        # One delay for all coordinates of a replica: a batch is late as a whole.
        uniform = (1 + symmetric_uniform(words, point.dtype)) / 2
        # The last probability may round to less than 1: a uniform number above it still means the longest delay.
        delay = jnp.minimum((uniform >= step.spectrum.method).sum(), self.longest).astype(np.uint32)
        return self.gradient(step, kept[(number + length - delay) % length]), kept


class Weights(NamedTuple):
    """The map between u and the coordinates of a nonlinear method, the same for all replicas.

    Attributes:
        root: (d,) √λ_i.
        basis: (d, d) Q with w = Qᵀ(the method's coordinates), or None for the identity.
        unit: of the simulated gradients, in those of the method.
        weight_decay: κ in the simulated units of 1/γ, or None for no weight decay.
    """

    root: Any
    basis: Any
    unit: Any
    weight_decay: Any


@dataclass(frozen=True, kw_only=True)
class Nonlinear(Dynamics):
    """`w ← (1 − γκ) w − γ d(g, k)` (THEORY.md T35): k is kept beside u; the method's arrays are `Weights`."""

    method: NonlinearMethod

    def begin(self, spectrum: Spectrum) -> tuple[tuple[Array, ...], Any]:
        """Return the start, and k = 0."""
        vectors, _ = super().begin(spectrum)
        return vectors, (jnp.zeros_like(vectors[0]),) * self.method.kept

    def direction(self, step: Step, point: Array, kept: Any) -> tuple[Array, Any]:
        """Return `H^{1/2} d`, from the gradient at cᵀu; 0 where λ is."""
        weights: Weights = step.spectrum.method
        slope = weights.unit * self.gradient(step, point) / jnp.where(weights.root > 0, weights.root, 1)
        if weights.basis is not None:
            slope = jnp.matmul(slope, weights.basis.T, precision=lax.Precision.HIGHEST)
        found, kept = self.method.direction(slope, kept, step.draw.number)
        if weights.basis is not None:
            found = jnp.matmul(found, weights.basis, precision=lax.Precision.HIGHEST)
        return weights.root * found, kept

    def change(self, step: Step, vectors: tuple[Array, ...], kept: Any) -> tuple[tuple[Array, ...], Any]:
        """Return the change of u, with the decay of `H^{1/2} w`, which is u minus the u of w_0 = 0."""
        (added,), kept = super().change(step, vectors, kept)
        decay = step.spectrum.method.weight_decay
        if decay is not None:
            added = added - step.row.gain[0] * decay * (vectors[0] - step.spectrum.start)
        return (added,), kept


@dataclass(frozen=True, kw_only=True)
class Workers(Dynamics):
    """K workers that take local steps, and an outer step after every H-th (THEORY.md T40).

    The two vectors are how far the workers (K, d) and the common weights (d,) have moved. The inner buffers (K, d) and
    the outer buffer (d,) are kept beside them. Distances from the start, and not u, because the outer step takes the
    difference of the workers' mean from the common weights: of K equal numbers the mean may be rounded.
    """

    method: LocalSGD

    def begin(self, spectrum: Spectrum) -> tuple[tuple[Array, ...], Any]:
        """Return vectors that have not moved, and empty buffers."""
        zeros = jnp.zeros_like(spectrum.start)
        each = jnp.zeros((self.method.num_workers, *zeros.shape), zeros.dtype)
        return (each, zeros), (each, zeros)

    def iterate(self, spectrum: Spectrum, vectors: tuple[Array, ...]) -> Array:
        """Return the mean of the workers' weights."""
        return spectrum.start + vectors[0].mean(0)

    def change(self, step: Step, vectors: tuple[Array, ...], kept: Any) -> tuple[tuple[Array, ...], Any]:
        """Return one inner step of all workers."""
        moved, common = vectors
        inner, outer = kept
        draw = step.draw

        def of_worker(key: Array, ahead: Any, place: Array) -> Array:
            return self.gradient(step._replace(draw=draw._replace(key=key, ahead=ahead)), place)

        keys = worker_keys(draw.key, self.method.num_workers)
        inner = self.method.inner_momentum * inner + jax.vmap(of_worker)(keys, draw.ahead, step.spectrum.start + moved)
        return (-step.row.gain[0] * inner, jnp.zeros_like(common)), (inner, outer)

    def ended(self, state: State, number: Array) -> State:
        """Return the state after an outer step, `p ← μp + Δ, m ← m − η(Δ + μp)`, all workers at m, if one is due."""
        method = self.method
        (moved, common), (moved_low, common_low) = state.vectors, state.vectors_low
        inner, outer = state.kept
        # High and low parts are subtracted apart: their sums have lost the digits in which the workers differ.
        gap = (common - moved.mean(0)) + (common_low - moved_low.mean(0))
        outer = method.outer_momentum * outer + gap
        common_low = common_low - method.outer_learning_rate * (gap + method.outer_momentum * outer)
        vectors, low = ((jnp.broadcast_to(each, moved.shape), each) for each in (common, common_low))
        after = state._replace(vectors=vectors, vectors_low=low, kept=(inner, outer))
        due = (number + np.uint32(1)) % np.uint32(method.local_steps) == 0
        return jax.tree.map(lambda then, before: jnp.where(due, then, before), after, state)

    def ahead(self, sampler: Sampler, key: Array, batch: Array, first: Array) -> Any:
        """Return what is drawn for all workers, (STEPS, L, K, …)."""
        workers = self.method.num_workers
        each = jax.vmap(worker_keys, in_axes=(0, None))(key, workers).reshape(-1, 2)
        drawn = super().ahead(sampler, each, jnp.repeat(batch, workers, axis=1), first)
        return jax.tree.map(lambda a: a.reshape(a.shape[0], batch.shape[1], workers, *a.shape[2:]), drawn)


def worker_keys(key: Array, workers: int) -> Array:
    """Return (K, 2) keys of the workers of a replica; a single one has the replica's."""
    if workers == 1:
        return jnp.stack([key])
    return jnp.stack(threefry((key[0], key[1]), jnp.arange(workers, dtype=np.uint32), BESIDE), axis=1)


def setup_of(task: Task, course: Course, key: np.ndarray) -> tuple[Dynamics, Spectrum, LinearMethod, float]:
    """Return how a course's method is run in the units of a `Task`, in which λ_1 = 1 and Σ s_i + σ² = 1.

    Returns:
        The dynamics of the method, the spectrum with the method's arrays, the linear method whose coefficients are
        tabulated, and the unit by which learning rates are multiplied.
    """
    method = course.algorithm.method
    spectrum, unit, scale = task.spectrum, task.unit, task.scale
    dtype = spectrum.start.dtype
    root = float(np.sqrt(unit))  # gradients g are simulated in units of √λ_1 √(Σ s_i + σ²)
    clip = course.algorithm.clip_norm
    clip = None if clip is None else float(clip / (scale * root))
    if isinstance(method, NonlinearMethod):
        # In the units of the simulation gradients neither over- nor underflow, if the method can be given in them.
        alike = method.in_units(scale * root)
        gradients = np.asarray(1.0 if alike else scale * root).astype(dtype)
        # Weights are simulated in units of √(Σ s_i + σ²)/√λ_1, and so is γ, which multiplies a d without a unit.
        decay = np.asarray(method.weight_decay * scale / root).astype(dtype) if method.weight_decay else None
        weights = Weights(np.sqrt(spectrum.eigenvalue), _basis(method, spectrum, key), gradients, decay)
        dynamics = Nonlinear(clip=clip, method=alike or method)
        return dynamics, spectrum._replace(method=weights), SGD(), root / scale
    if isinstance(method, LocalSGD):
        return Workers(vectors=2, clip=clip, method=method), spectrum, SGD(), unit
    if method.late:
        within = np.cumsum(method.delays).astype(dtype)
        return Delayed(clip=clip, longest=method.longest_delay), spectrum._replace(method=within), SGD(), unit
    if method == SGD():
        return Dynamics(clip=clip), spectrum, method, unit
    output = _with_start(method, np.asarray(method.output, dtype=float)).astype(dtype)
    return Dynamics(method.vectors, clip, _moved(method)), spectrum._replace(output=output), method, unit


def _basis(method: NonlinearMethod, spectrum: Spectrum, key: np.ndarray) -> np.ndarray | None:
    """Return (d, d) Q. What is not simulated, a direction without a gradient, is a coordinate of its own."""
    dim = spectrum.eigenvalue.size
    if not isinstance(method.basis, Coordinates):
        rows = rotation(method.basis, dim, key.tolist())
        return None if rows is None else rows.astype(spectrum.start.dtype)
    found = np.eye(dim, dtype=spectrum.start.dtype)
    found[: len(method.basis.rows), : len(method.basis.rows)] = method.basis.rows
    return found


def _moved(method: LinearMethod) -> bool:
    """Return whether the program keeps how far vectors have moved; a single one that begins at u(0) is kept itself."""
    return tuple(method.start) != (1.0,)


def _with_start(method: LinearMethod, coefficients: np.ndarray) -> np.ndarray:
    """Return (…, K) coefficients from those of the k vectors, with that of u(0) in front where it is one of K."""
    if not _moved(method):
        return coefficients
    of_start = coefficients @ np.asarray(method.start, dtype=float)
    return np.concatenate([of_start[..., None], coefficients], axis=-1)


def make_table(courses: Sequence[Course], method: LinearMethod, first: int, count: int, *, unit: float) -> Table:
    """Return the steps first … first + count − 1 of G runs in float64; after a run's last step it repeats.

    Args:
        courses: of the runs.
        method: whose coefficients are taken.
        first: number of the first step.
        count: T.
        unit: by which learning rates are multiplied, for SGD λ_1, the unit of the simulated spectrum.
    """
    parts = []
    for course in courses:
        # Lanes whose run has ended go on beside others; their risks have been read, and what they do is of no account.
        last = min(first + count, int(course.num_steps))
        found = _steps(course, method, unit, np.arange(min(first, last - 1), last, dtype=float))
        missing = count - found[-1].shape[0]
        parts.append([np.pad(each, [(0, missing)] + [(0, 0)] * (each.ndim - 1), mode="edge") for each in found])
    table = Table(*(np.stack(each, axis=1) for each in zip(*parts, strict=True)))
    return table._replace(decay=None, point=None) if method == SGD() else table


def _steps(course: Course, method: LinearMethod, unit: float, step: np.ndarray) -> tuple[np.ndarray, ...]:
    """Return I − A, b, c and batch sizes of T steps of one run.

    In units of λ_1 gradients are smaller by that factor. A vector that begins at 0 and is no part of the iterate may
    have any unit (momentum has that of gradients). It is given the one in which its b is 1, so that none over- or
    underflows.
    """
    start = np.asarray(method.start, dtype=float)
    reach = unit * np.abs(method.matrices(np.array([course.rate]), np.zeros(1)).b[0])
    free = (start == 0) & (np.asarray(method.output) == 0) & (reach > 0)
    scale = np.where(free, 1 / np.where(free, reach, 1), 1.0)
    decay, gain, point = method.matrices(course.rates(step), step)
    decay = _with_start(method, decay / scale) * scale[:, None]
    return (
        decay,
        gain * (scale * unit),
        _with_start(method, point / scale),
        np.maximum(np.rint(course.batches(step)), 1.0),
    )
