"""Workers that take local steps and communicate after every H-th (THEORY.md T40)."""

from dataclasses import dataclass
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
from jax import Array

from sgdtheory._common.counter_random import threefry
from sgdtheory.algorithms import LocalSGD
from sgdtheory.simulation.dynamics import Dynamics, Sampler, Spectrum, State, Step

WORKER = np.uint32(0xFFFFFFFF)  # the second word of the counter from which a worker's key is made: no index of a number


@dataclass(frozen=True)
class WorkerDynamics(Dynamics):
    """K workers and an outer step; vectors are how far the workers (K, d) and the common weights (d,) have moved.

    The inner buffers (K, d) and the outer buffer (d,) are kept beside them.
    """

    method: LocalSGD

    def begin(self, spectrum: Spectrum) -> tuple[tuple[Array, ...], Any]:
        """Return vectors that have not moved, and empty buffers."""
        zeros = jnp.zeros_like(spectrum.start)
        each = jnp.zeros((self.method.num_workers, *zeros.shape), zeros.dtype)
        return (each, zeros), (each, zeros)

    def iterate(self, spectrum: Spectrum, shared: Any, vectors: tuple[Array, ...]) -> Array:
        """Return the mean of the workers' weights."""
        return spectrum.start + vectors[0].mean(0)

    def change(self, step: Step, vectors: tuple[Array, ...], kept: Any) -> tuple[tuple[Array, ...], Any]:
        """Return one inner step of all workers."""
        moved, common = vectors
        inner, outer = kept
        keys = worker_keys(step.key, self.method.num_workers)
        slopes = jax.vmap(lambda key, draw, error: step._replace(key=key, draw=draw).gradient(error))(
            keys, step.draw, step.spectrum.start + moved
        )
        inner = self.method.inner_momentum * inner + slopes
        return (-step.row.rate * inner, jnp.zeros_like(common)), (inner, outer)

    def ended(self, state: State, number: Array) -> State:
        """Return the state after an outer step, `p ← μp + Δ, m ← m − η(Δ + μp)`, all workers at m, if one is due."""
        method = self.method
        (moved, common), (moved_low, common_low) = state.vectors, state.vectors_low
        inner, outer = state.kept
        gap = (common - moved.mean(0)) + (common_low - moved_low.mean(0))
        outer = method.outer_momentum * outer + gap
        common_low = common_low - method.outer_learning_rate * (gap + method.outer_momentum * outer)
        vectors, low = ((jnp.broadcast_to(each, moved.shape), each) for each in (common, common_low))
        after = state._replace(vectors=vectors, vectors_low=low, kept=(inner, outer))
        due = (number + np.uint32(1)) % np.uint32(method.local_steps) == 0
        return jax.tree.map(lambda then, before: jnp.where(due, then, before), after, state)

    def draws(self, sampler: Sampler, keys: Array, batch: Array, dtype: Any, start: Array) -> Any:
        """Return those of all workers, (STEPS, L, K)."""
        workers = self.method.num_workers
        each = jax.vmap(worker_keys, in_axes=(0, None))(keys, workers).reshape(-1, 2)
        drawn = super().draws(sampler, each, jnp.repeat(batch, workers, axis=1), dtype, start)
        return jax.tree.map(lambda a: a.reshape(a.shape[0], batch.shape[1], workers, *a.shape[2:]), drawn)


def worker_keys(key: Array, workers: int) -> Array:
    """Return (K, 2) keys of the workers of a replica; a single one has the replica's."""
    if workers == 1:
        return jnp.stack([key])
    return jnp.stack(threefry((key[0], key[1]), jnp.arange(workers, dtype=np.uint32), WORKER), axis=1)
