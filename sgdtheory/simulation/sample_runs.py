"""Simulation of passes over a finite sample: rows of Gaussian data, drawn again and again (THEORY.md T42)."""

from collections.abc import Callable, Iterator
from functools import partial
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
from jax import Array, lax

from sgdtheory.algorithms import Algorithm, Course, numbers_of_steps
from sgdtheory.problems import FiniteSampleProblem, RowSample, drawn_sample

ROWS_AT_ONCE = 2**21  # indices of rows that are held: of all replicas together
NUMBERS_AT_ONCE = 2e8  # of rows of features that are held, where every replica has its own
MOST_STEPS_AT_ONCE = 2**12


class Rows(NamedTuple):
    """What SGD is run on: of all replicas, or of each, with R in front.

    Attributes:
        features: (N, d) or (R, N, d) x, in the eigenbasis of H.
        noise: (N,) or (R, N) ε.
    """

    features: Any
    noise: Any


class Lanes(NamedTuple):
    """Errors of R replicas: (k, R, d) u and (R, d) the average's sum."""

    state: Array
    total: Array


class Table(NamedTuple):
    """T steps: decay (T, k, k), b and c (T, k), and ρ and ω of the average (T,)."""

    decay: Any
    b: Any
    c: Any
    rho: Any
    omega: Any


def simulate_sample(
    words: np.ndarray,
    problem: FiniteSampleProblem,
    settings: dict[str, np.ndarray],
    algorithm: Algorithm,
    num_replicas: int,
    dtype: str,
    report: Callable[[float], None],
) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Risks of averages and last iterates, (…, R), and numbers of steps (…), of every setting.

    Replica r of a sample with a seed draws its batches from (key, r); without one its rows, too.
    """
    batch, rate, samples = settings.values()
    steps = numbers_of_steps(algorithm.batch_schedule, batch, samples)
    risks = np.empty((2, *batch.shape, num_replicas))
    own = problem.seed is None and problem.rows is None
    size = drawn_sample(problem.drawn(0) if own else problem).scale.size * problem.num_samples
    block = num_replicas if not own else int(np.clip(NUMBERS_AT_ONCE // size, 1, num_replicas))
    places = list(np.ndindex(batch.shape))
    for first in range(0, num_replicas, block):
        replicas = np.arange(first, min(first + block, num_replicas))
        samples_of = [_seed(words, int(replica)) for replica in replicas] if own else [problem.seed]
        drawn = [drawn_sample(problem.drawn(int(seed or 0))) for seed in samples_of]
        rows = _rows(drawn, own, dtype)
        for number, place in enumerate(places):
            course = Course(algorithm, float(batch[place]), float(rate[place]), float(steps[place]))
            streams = [np.random.default_rng([*words.tolist(), 1, int(replica)]) for replica in replicas]
            epoch = problem.num_samples
            if course.constant_batch and batch[place] <= epoch:  # rows that do not fill a batch are left out
                epoch -= epoch % int(course.batches(np.zeros(1))[0])
            order = [_order(stream, problem.num_samples, problem.replacement, epoch) for stream in streams]
            most = np.inf if problem.replacement else problem.num_samples  # of a batch: all rows once
            found = _run(rows, drawn[0], course, order, most, dtype)
            risks[:, *place, first : first + replicas.size] = found
            report((first / num_replicas) + block / num_replicas * (number + 1) / len(places))
    return (*np.where(np.isfinite(risks), risks, np.inf), steps)


def _seed(words: np.ndarray, replica: int) -> int:
    return int(np.random.SeedSequence([*words.tolist(), 0, int(replica)]).generate_state(1, np.uint64)[0])


def _rows(drawn: list[RowSample], own: bool, dtype: str) -> Rows:
    parts = [[np.concatenate(each) for each in zip(*sample.rows(), strict=True)] for sample in drawn]
    found = parts[0] if not own else [np.stack(each) for each in zip(*parts, strict=True)]
    return Rows(*(jnp.asarray(each.astype(dtype)) for each in found))


def _order(stream: np.random.Generator, size: int, replacement: bool, epoch: int) -> Callable[[int], np.ndarray]:
    """A function that gives the next rows: of N, so many of each permutation."""
    if replacement:
        return lambda count: stream.integers(size, size=count)
    left = np.empty(0, dtype=int)

    def following(count: int) -> np.ndarray:
        nonlocal left
        while left.size < count:
            left = np.concatenate([left, stream.permutation(size)[:epoch]])
        here, left = left[:count], left[count:]
        return here

    return following


def _run(
    rows: Rows,
    sample: RowSample,
    course: Course,
    order: list[Callable[[int], np.ndarray]],
    most: float,
    dtype: str,
) -> np.ndarray:
    """(2, R) risks of average and iterate at the end."""
    algorithm = course.algorithm
    average = algorithm.average
    output = np.asarray(algorithm.method.output, dtype=float)
    begin = np.multiply.outer(np.asarray(algorithm.method.start, dtype=float), sample.start)
    state = np.repeat(begin[:, None], len(order), axis=1)
    shown = np.einsum("k,krd->rd", output, state)
    total = shown if average.starts_at_iterate() else np.zeros_like(shown)
    lanes = Lanes(jnp.asarray(state.astype(dtype)), jnp.asarray(total.astype(dtype)))
    for size, table in _tables(course, len(order), most):
        count = len(table.rho)
        drawn = np.stack([each(count * size).reshape(count, size) for each in order], axis=1)
        typed = jax.tree.map(lambda each: np.asarray(each, dtype), table)
        lanes = _walk(rows, lanes, typed, drawn.astype(np.int32), tuple(output.tolist()))
    iterate = np.einsum("k,krd->rd", output, np.asarray(lanes.state, float))
    share = average.returned(course.num_steps, course.num_steps)
    returned = share.iterate * iterate + share.total * np.asarray(lanes.total, float)
    with np.errstate(all="ignore"):
        return ((np.array([returned, iterate]) * sample.scale) ** 2).sum(-1) + sample.frozen


def _tables(course: Course, replicas: int, largest: float) -> Iterator[tuple[int, Table]]:
    """Batch size and coefficients of some steps at a time, all with one batch size."""
    average = course.algorithm.average
    number = int(course.num_steps)
    first = 0
    while first < number:
        told = course.batches(np.array([float(first)]))[0]
        size = int(min(told, largest))
        most = max(min(MOST_STEPS_AT_ONCE, ROWS_AT_ONCE // (size * replicas)), 1)
        steps = np.arange(float(first), min(first + most, number))
        other = np.flatnonzero(course.batches(steps) != told)
        steps = steps[: other[0]] if other.size else steps
        averaged = steps >= course.first_averaged
        rho = np.where(averaged, 1 - average.forgetting(course.num_steps), 1.0)
        omega = np.where(averaged, average.weight(course.num_steps), 0.0)
        yield size, Table(*course.matrices(steps), rho, omega)
        first += steps.size


@partial(jax.jit, static_argnames="output")
def _walk(rows: Rows, lanes: Lanes, table: Table, drawn: Array, output: tuple[float, ...]) -> Lanes:
    """T steps of R replicas, with rows (T, R, B)."""
    own = rows.noise.ndim == 2
    shown = jnp.asarray(output, lanes.total.dtype)

    def one(lanes: Lanes, step: tuple[Table, Array]) -> tuple[Lanes, None]:
        here, index = step
        if own:
            x = jax.vmap(lambda features, place: features[place])(rows.features, index)
            noise = jnp.take_along_axis(rows.noise, index, axis=1)
        else:
            x, noise = rows.features[index], rows.noise[index]
        looked = jnp.einsum("k,krd->rd", here.c, lanes.state)
        residual = jnp.einsum("rbd,rd->rb", x, looked, precision="highest") - noise
        gradient = jnp.einsum("rbd,rb->rd", x, residual, precision="highest") / index.shape[1]
        total = here.rho * lanes.total + here.omega * jnp.einsum("k,krd->rd", shown, lanes.state)
        state = lanes.state - jnp.einsum("ij,jrd->ird", here.decay, lanes.state) - here.b[:, None, None] * gradient
        return Lanes(state, total), None

    return lax.scan(one, lanes, (table, drawn))[0]
