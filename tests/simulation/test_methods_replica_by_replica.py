"""Whole runs of every kind of method, replica by replica, against NumPy: the noise of each step is a known number.

Tests of samplers and of laws compile random numbers, which takes most of their time. These runs compile in a third of a
second, and leave nothing to chance.
"""

from dataclasses import dataclass

import jax
import jax.numpy as jnp
import numpy as np
import pytest

import sgdtheory as st
from sgdtheory._common.counter_random import threefry
from sgdtheory.algorithms import Course, NonlinearMethod
from sgdtheory.algorithms.coordinates import random_rotation
from sgdtheory.simulation.dynamics import STEPS
from sgdtheory.simulation.engine import simulation_of
from sgdtheory.simulation.methods import worker_keys
from sgdtheory.simulation.runs import Resources, make_plan
from sgdtheory.simulation.task import of_population
from tests.simulation import textbook
from tests.simulation.test_methods import AVERAGES, METHODS, SHAPES

PROBLEM = st.LeastSquares([4.0, 1.0, 0.2], [1.0, 0.5, 2.0], 0.5)
ROOT = np.sqrt(PROBLEM.eigenvalues)
KEY = np.array([7, 8], np.uint32)
NUMBER = STEPS + 6  # Steps of a run: they end within the second block.
BATCH, RATES, REPLICAS = 4.0, (0.01, 0.02, 0.03), 2


def noise(number, word, batch):
    """Return the noise of a step, in units of σ, of the replica whose key begins with `word`."""
    numpy = np if isinstance(word, np.ndarray) else jnp
    return numpy.sin(number + word % 64) / batch


@dataclass(frozen=True)
class Known:
    """The gradient at the error u is `Λ (u + σ ε)`, with the same known ε in every direction."""

    def numbers_a_lane(self, spectrum):
        return STEPS

    def ahead(self, key, batch, first):
        return noise((first + jnp.arange(STEPS, dtype=np.uint32))[:, None], key[:, 0], batch)

    def gradient(self, spectrum, error, draw):
        return spectrum.eigenvalue * (error + spectrum.noise * draw.ahead)


class Bounded(NonlinearMethod):
    """Directions that depend on the size of gradients, in a method that is given in no other units."""

    kept = 0

    def direction(self, gradient, kept, number):
        return gradient / (1 + abs(gradient)), kept


def bounded(vectors, gradient, rate, step):
    (w,) = vectors
    g = gradient(w)
    return (w - rate * g / (1 + abs(g)),)


def simulated(algorithm):
    """Return the risks (3, …) of the learning rates at steps on the way and at the end."""
    values = np.broadcast_arrays(BATCH, np.array(RATES), 1e9)
    settings = dict(zip(("batch_size", "learning_rate", "num_samples"), values, strict=True))
    batches = Course(algorithm, BATCH, 1.0, float(NUMBER)).batches(np.arange(NUMBER))
    settings["num_samples"] = np.full(3, algorithm.workers * batches.sum())
    with jax.enable_x64(True):
        task = of_population(PROBLEM, None, "total", "float64", np.ones((1, 3)), lambda course: Known())
        resources = Resources(tuple(jax.devices()), 1e9, lambda share: None)
        return simulation_of(task, make_plan(settings, 6, algorithm), REPLICAS, KEY, resources)


def keys_of(run, replica):
    return np.stack(threefry((KEY[:1], KEY[1:]), *np.uint32([[run], [replica]])), axis=1)[0]


def delayed(gradient, rates, start, delay):
    """Gradients are taken at the weights of some steps ago."""
    path = [start]
    for step, rate in enumerate(rates):
        path.append(path[-1] - rate * gradient(step)(path[max(step - delay, 0)]))
    return path


def local(gradients, rates, start, method):
    """Local steps with momentum, and Nesterov's momentum in the outer step (DiLoCo)."""
    workers = [start] * method.num_workers
    inner = [0 * start] * method.num_workers
    common, outer, path = start, 0 * start, [start]
    for step, rate in enumerate(rates):
        inner = [method.inner_momentum * m + g(step)(w) for m, g, w in zip(inner, gradients, workers, strict=True)]
        workers = [w - rate * m for w, m in zip(workers, inner, strict=True)]
        if (step + 1) % method.local_steps == 0:
            change = common - np.mean(workers, 0)
            outer = method.outer_momentum * outer + change
            common = common - method.outer_learning_rate * (change + method.outer_momentum * outer)
            workers = [common] * method.num_workers
        path.append(np.mean(workers, 0))
    return path


def path_by_hand(algorithm, run, replica):
    """Return the errors w_t − w* of one replica, t = 0 … n, in the eigenbasis."""
    method = algorithm.method
    course, steps = Course(algorithm, BATCH, RATES[run], float(NUMBER)), np.arange(NUMBER)
    rates, batches = course.rates(steps), course.batches(steps)
    basis = random_rotation(3, KEY.tolist()) if getattr(method, "basis", "") == "random" else np.eye(3)
    away = basis @ (np.sqrt(PROBLEM.signal) / ROOT)  # w_0 = 0, and w* is as far from it in the other direction

    def gradient_of(word):
        def of_step(step):
            each = np.sqrt(PROBLEM.noise_variance) * noise(step, word, np.rint(batches[step]))
            return lambda weights: (ROOT * (ROOT * ((weights + away) @ basis) + each)) @ basis.T

        return of_step

    key = keys_of(run, replica)
    if isinstance(method, st.LocalSGD):
        keys = np.asarray(worker_keys(jnp.asarray(key), method.num_workers))
        path = local([gradient_of(each[:1]) for each in keys], rates, np.zeros(3), method)
    elif isinstance(method, st.DelayedSGD):
        path = delayed(gradient_of(key[:1]), rates, np.zeros(3), 2)
    else:
        update, settings, begins, place = textbook.method_of(method)
        vectors = (np.zeros((1, 3)),) * len(begins)
        path = [vectors[place][0]]
        for step, rate in enumerate(rates):
            gradient = textbook.clipped(gradient_of(key[:1])(step), algorithm.clip_norm or np.inf)
            vectors = update(vectors, gradient, rate, step, **settings)
            path.append(vectors[place][0])
    return (np.array(path) + away) @ basis


@pytest.mark.parametrize(
    ("method", "shape", "average", "clip"),
    [
        (METHODS["sgd"], "smooth", "tail", None),
        (METHODS["weight decay"], "constant", "exponential", None),
        (METHODS["nesterov"], "any", "window", 1.5),
        (METHODS["schedule-free"], "staged", "halfway", None),
        (METHODS["rotated sign"], "constant", "uniform", None),
        (METHODS["adam, weight decay"], "shaped", "last", None),
        (Bounded(), "constant", "last", None),
        (st.DelayedSGD(2), "constant", "last", None),
        (st.LocalSGD(3, 4, 0.7, 0.5, 0.3), "constant", "uniform", None),
    ],
    ids=lambda each: each if isinstance(each, str) else type(each).__name__,
)
def test_risks_are_those_of_the_textbook(monkeypatch, method, shape, average, clip):
    monkeypatch.setitem(textbook.UPDATES, Bounded, (bounded, (True,), 0))
    algorithm = st.Algorithm(method, *SHAPES[shape], AVERAGES[average][0], clip)
    found = simulated(algorithm)
    assert found.num_steps.tolist() == [NUMBER] * 3
    for run, replica in np.ndindex(3, REPLICAS):
        path = path_by_hand(algorithm, run, replica)
        last = found.trajectory.last_iterate_risk[run, :, replica]
        np.testing.assert_allclose(last, ((path * ROOT) ** 2).sum(1)[found.trajectory.num_steps[run]], rtol=1e-9)
        returned = AVERAGES[average][1](path)
        np.testing.assert_allclose(found.excess_risk[run, replica], ((returned * ROOT) ** 2).sum(), rtol=1e-9)
    assert np.unique(found.excess_risk).size == 3 * REPLICAS
