"""One step of every linear method against the textbook's, with real weights and dense batches."""

import jax
import numpy as np
import pytest

import sgdtheory as st
from sgdtheory.algorithms import Course, registry
from sgdtheory.simulation.dynamics import Replica, Spectrum, State, step
from sgdtheory.simulation.explicit import Explicit
from sgdtheory.simulation.laws import Gaussian
from sgdtheory.simulation.methods import make_table, setup_of
from sgdtheory.simulation.sufficient import Sufficient
from sgdtheory.simulation.task import Task
from tests.marks import slow
from tests.registered import instance
from tests.simulation import textbook
from tests.simulation.small import PROBLEM
from tests.simulation.statistical import FALSE_ALARM, two_sample_p

METHODS = {  # whose steps are alike and whose gradients come in time: these have no step of their own in the simulator
    name: instance(kind)
    for name, kind in registry.METHODS.items()
    if issubclass(kind, st.LinearMethod) and instance(kind).sequential
}
RATE = 0.4


def stepped(method, sampler, size, seed=0):
    """(size, k, d) vectors one step (number 2) after a given state, in the coordinates of the eigenbasis."""
    course = Course(st.Algorithm(method), 3.0, RATE, 9.0)
    spectrum = Spectrum(*(np.asarray(a, np.float64) for a in (PROBLEM.eigenvalues, [0.6, -0.8, 0.3], 0.5**0.5)))
    moved = some_state(method)[1]
    words = np.random.default_rng(seed).integers(0, 2**32, (size, 2), dtype=np.uint32)
    with jax.enable_x64(True):
        setup = setup_of(Task(spectrum, 1.0, 1.0, lambda course: sampler), course, np.zeros(2, np.uint32))
        row = jax.tree.map(lambda each: each[0], make_table([course], method, 2, 1, unit=1.0))
        zeros = np.zeros(3)
        # one vector is kept as it is, of several how far each has moved
        kept = tuple(moved if setup.dynamics.moved else some_state(method)[0])
        state = State(kept, (zeros,) * len(moved), (), zeros, zeros)
        drawn = sampler.ahead(words, np.full(size, 3.0), np.uint32(0))
        drawn = drawn[2] if isinstance(sampler, Sufficient) else drawn

        def one(key, ahead):
            replica = Replica(key, 0, np.uint32(0), 0.0, 1.0, 0.0, np.uint32(0))
            fixed = setup.dynamics, sampler, spectrum, setup.shared
            return step(*fixed, replica, state, np.uint32(2), row, ahead).vectors_low

        added = jax.jit(jax.vmap(one))(words, drawn)
    after = np.asarray(moved) + np.stack([np.asarray(each) for each in added], axis=1)
    return after + np.multiply.outer(np.asarray(method.start, float), spectrum.start)


def some_state(method):
    """Vectors of errors (k, d), and by how much they have moved."""
    k = len(method.start)
    moved = np.array([[0.2, 0.1, -0.4], [-0.3, 0.5, 0.2]])[:k]
    return np.multiply.outer(np.asarray(method.start, float), [0.6, -0.8, 0.3]) + moved, moved


def textbook_step(method, update, size):
    """The same by real weights and dense batches; with weight decay w* stays."""
    task = textbook.Regression(np.random.default_rng(5), PROBLEM)
    own = vectors_of_textbook(method)
    errors = own @ some_state(method)[0] / np.sqrt(PROBLEM.eigenvalues) @ task.basis.T
    _, settings, begins, _ = textbook.method_of(method)
    vectors = tuple(np.tile(e + task.optimum * b, (size, 1)) for e, b in zip(errors, begins, strict=True))
    after = update(vectors, task.gradient(3), RATE, 2, **settings)
    errors = np.stack([task.whitened(a - task.optimum * b) for a, b in zip(after, begins, strict=True)], axis=1)
    return np.linalg.inv(own) @ errors


def vectors_of_textbook(method):
    """Return the matrix from the simulator's vectors to the textbook's.

    It turns (y, v − x) of accelerated SGD into (x, v). The simulator keeps momentum in the unit in which |b| = 1.
    """
    if isinstance(method, st.AcceleratedSGD):
        return np.array([[1.0, method.coupling - 1], [1.0, method.coupling]])
    unit = np.abs(method.matrices(np.array([RATE]), np.zeros(1)).b[0])
    free = (np.asarray(method.start) == 0) & (np.asarray(method.output) == 0)
    return np.diag(np.where(free, unit, 1.0))


NAMES = list(METHODS)
BATCHES = Explicit(Gaussian(), 4, varying=True)


@pytest.mark.parametrize(
    ("name", "sampler"),
    [
        *((name, Sufficient()) for name in NAMES),
        ("heavy-ball", BATCHES),
        *(slow(name, BATCHES) for name in NAMES if name != "heavy-ball"),
        *(slow(name, Explicit(Gaussian(), 3)) for name in NAMES),
    ],
)
def test_a_step_has_the_law_of_the_textbook(name, sampler):
    """Every coordinate of every vector, and every product of two of them (T20); Nesterov is not heavy ball."""
    method, size = METHODS[name], 6000
    mine, dense = stepped(method, sampler, size), textbook_step(method, textbook.method_of(method)[0], size)

    def columns(vectors):
        flat = vectors.reshape(size, -1)
        pairs = np.triu_indices(flat.shape[1], 1)
        return np.concatenate([flat, flat[:, pairs[0]] * flat[:, pairs[1]]], axis=1)

    assert two_sample_p(columns(mine), columns(dense)) > FALSE_ALARM / 15
    if name == "heavy-ball":
        wrong = textbook_step(method, textbook.nesterov, size)
        assert two_sample_p(columns(mine), columns(wrong)) < 1e-12
