"""SignSGD, normalized SGD, Adam and a stranger's method against textbook updates on explicit batches."""

from dataclasses import replace

import jax
import jax.numpy as jnp
import numpy as np
import pytest

import sgdtheory as st
from sgdtheory.algorithms import Adam, Course, NonlinearMethod, NormalizedSGD, SignSGD
from sgdtheory.algorithms.coordinates import random_rotation
from sgdtheory.simulation.simulator import key_words
from tests.marks import slow
from tests.simulation import textbook
from tests.simulation.statistical import FALSE_ALARM, two_sample_p

PROBLEM = st.LeastSquares([1.0, 0.5, 0.1], [1.0, 0.5, 2.0], 0.5)
LAST = st.LastIterate()
METHODS = {
    "sign": SignSGD(),
    "signum": SignSGD(0.7),
    "rotated sign": SignSGD(0.5, basis="random"),
    "normalized": NormalizedSGD(0.6),
    "adam": Adam(0.8, 0.9, 0.01),
    "rotated adam": Adam(0.5, 0.95, basis="random"),
    "adam, large epsilon": Adam(0.5, 0.9, 2.0),
}
SHAPES = {
    "constant": (st.Constant(), st.Constant()),
    "shaped": (st.Cosine(final=0.1, warmup=0.2), st.Stages([0, 0.5], [0.5, 2])),
}
AVERAGES = {
    "uniform": (st.UniformAverage(), lambda path: np.mean(path[:-1], 0)),
    "tail": (st.TailAverage(0.4), lambda path: np.mean(path[-1 - int(np.ceil(0.4 * (len(path) - 1))) : -1], 0)),
    "last": (LAST, lambda path: path[-1]),
}
ROWS = [
    ("sign", "constant", "uniform", "sufficient"),
    ("signum", "shaped", "tail", "sufficient"),
    ("rotated sign", "constant", "last", "sufficient"),
    ("normalized", "shaped", "uniform", "sufficient"),
    ("adam", "shaped", "last", "sufficient"),
    ("rotated adam", "constant", "tail", "sufficient"),
    slow("adam, large epsilon", "constant", "uniform", "sufficient"),
    slow("sign", "shaped", "last", "explicit"),
    slow("adam", "constant", "tail", "explicit"),
    slow("rotated adam", "shaped", "uniform", "explicit"),
]
WRONG = {  # what a method must be told from
    "sign": SignSGD(0.7),
    "signum": SignSGD(0.6),
    "rotated sign": SignSGD(0.5),
    "normalized": NormalizedSGD(0.4),
    "adam": Adam(0.8, 0.5, 0.01),
    "rotated adam": Adam(0.5, 0.95),
    "adam, large epsilon": Adam(0.5, 0.9, 3.0),
}
REPLICAS = 4000


def simulated(method, shape="constant", average=LAST, problem=PROBLEM, key=0, **options):
    setting = {"batch_size": 3, "learning_rate": 0.2, "num_samples": 30, "num_replicas": REPLICAS} | options
    algorithm = st.Algorithm(method, *SHAPES[shape], average)
    return st.simulate(jax.random.key(key), problem, **setting, algorithm=algorithm)


def columns(found):
    return np.column_stack([found.excess_risk, found.last_iterate_risk])


@pytest.mark.parametrize(("name", "shape", "average", "sampler"), ROWS)
def test_risks_have_the_law_of_the_textbook(name, shape, average, sampler):
    """The returned and the last iterate after some ten steps; false alarm 1e-4 over all cases."""
    method = METHODS[name]
    algorithm = st.Algorithm(method, *SHAPES[shape], AVERAGES[average][0])
    samples = 30 if shape == "constant" else 36
    options = {"sampler": sampler, "num_samples": samples, "dtype": "float64"}
    found = simulated(method, shape, AVERAGES[average][0], **options)
    course = Course(algorithm, 3.0, 0.2, float(found.num_steps))
    steps = np.arange(course.num_steps)
    rotated = method.basis == "random"
    basis = random_rotation(3, key_words(jax.random.key(0)).tolist()) if rotated else np.eye(3)
    rest = course.rates(steps), course.batches(steps), AVERAGES[average][1], REPLICAS, basis

    def dense(which):
        return np.column_stack(textbook.risks(np.random.default_rng(1), PROBLEM, which, *rest)).round(9)

    mine = columns(found).round(9)  # signs lead to places of a lattice, whose risks may be rounded up or down
    assert two_sample_p(mine, dense(method)) > FALSE_ALARM / len(ROWS)
    rest = *rest[:-1], np.eye(3)  # the control: other numbers, or the other basis
    assert two_sample_p(mine, dense(WRONG[name])) < 1e-6


def test_a_given_basis_is_that_rotation():
    """The one that the key draws, and one whose coordinates are the eigenvectors in another order."""
    options = {"num_replicas": 8, "dtype": "float64"}
    drawn = random_rotation(3, key_words(jax.random.key(0)).tolist())
    for kind in (SignSGD, Adam):
        one, other = (simulated(kind(basis=basis), **options) for basis in ("random", drawn))
        np.testing.assert_array_equal(columns(one), columns(other))
        one, other = (simulated(kind(basis=basis), **options) for basis in ("eigenvectors", np.eye(3)[[2, 0, 1]]))
        np.testing.assert_allclose(columns(one), columns(other), rtol=1e-9)


def test_what_is_not_simulated_is_a_coordinate_of_its_own():
    options = {"problem": st.PowerLaw(2.0, 3.0), "dim": 6, "num_replicas": 8, "dtype": "float64"}
    one, other = (simulated(SignSGD(basis=basis), **options) for basis in ("eigenvectors", np.eye(6)))
    np.testing.assert_allclose(columns(one), columns(other), rtol=1e-9)


@pytest.mark.parametrize("scale", [1e-20, 1e12])
@pytest.mark.parametrize("unit", [1e-30, 1e9])
@pytest.mark.parametrize("name", ["sign", "normalized", "adam", "rotated adam"])
def test_units_do_not_matter(name, scale, unit):
    """In other units of y² and of λ, weights are √(scale/unit) times as large, gradients √(scale unit) times."""
    method = METHODS[name]
    there = replace(method, epsilon=method.epsilon * np.sqrt(scale * unit)) if name == "adam" else method
    other = st.LeastSquares(unit * PROBLEM.eigenvalues, scale * PROBLEM.signal, scale * PROBLEM.noise_variance)
    setting = {"num_replicas": 8, "dtype": "float64"}
    found = simulated(there, problem=other, learning_rate=0.2 * np.sqrt(scale / unit), **setting)
    np.testing.assert_allclose(found.excess_risk, scale * simulated(method, **setting).excess_risk, rtol=1e-6)


class Plain(NonlinearMethod):
    """SGD, said in this way."""

    def direction(self, gradient, kept, number):
        return gradient, kept


class HeavyBall(NonlinearMethod):
    kept = 1

    def direction(self, gradient, kept, number):
        moved = 0.7 * kept[0] + gradient
        return moved, (moved,)


@pytest.mark.slow
@pytest.mark.parametrize(("mine", "linear"), [(Plain(), st.SGD()), (HeavyBall(), st.HeavyBall(0.7))])
@pytest.mark.parametrize("shape", SHAPES)
def test_a_linear_method_is_the_same_in_both_ways(mine, linear, shape):
    options = {"num_replicas": 6, "dtype": "float64", "num_samples": 240, "trajectory": 5}
    one, other = (simulated(method, shape, st.TailAverage(0.5), **options) for method in (mine, linear))
    np.testing.assert_allclose(columns(one), columns(other), rtol=1e-9)
    np.testing.assert_allclose(one.trajectory.last_iterate_risk, other.trajectory.last_iterate_risk, rtol=1e-9)


def test_adam_without_memory_is_the_sign():
    """And a small β₂ is close to it."""
    sign, adam, close = (
        simulated(method, num_replicas=8, dtype="float64").excess_risk
        for method in (SignSGD(), Adam(0.0, 0.0), Adam(0.0, 1e-13))
    )
    np.testing.assert_allclose(adam, sign, rtol=1e-12)
    np.testing.assert_allclose(close, sign, rtol=1e-6)


def test_a_huge_batch_is_the_path_without_noise():
    """signSGD on the mean gradient λδ, by hand: every weight moves by γ towards its optimum, and then to and fro."""
    found = simulated(SignSGD(), batch_size=2.0**99, num_samples=2.0**99 * 12, num_replicas=2, dtype="float64")
    weights = np.sqrt(PROBLEM.signal / PROBLEM.eigenvalues)
    for _ in range(12):
        weights = weights - 0.2 * np.sign(weights)
    np.testing.assert_allclose(found.excess_risk, PROBLEM.eigenvalues @ weights**2, rtol=1e-9)


@pytest.mark.slow
def test_frozen_directions():
    """Directions outside the simulation keep their risk and shake the others; the shift of the mean is not known."""
    law = st.PowerLaw(2.0, 3.0)
    with pytest.raises(ValueError, match="dim must be given for a method without an exact risk and infinitely many"):
        simulated(SignSGD(), problem=law)
    found = simulated(SignSGD(), problem=law, dim=20, num_replicas=4)
    assert np.isnan(found.truncation.shift).all()
    assert (found.excess_risk > found.truncation.tail_risk).all()


@pytest.mark.parametrize(
    ("make", "sentence"),
    [
        (lambda: SignSGD(1.0), "momentum must be at least 0 and below 1, got 1"),
        (lambda: Adam(beta2=-0.1), "beta2 must be at least 0 and below 1, got -0.1"),
        (lambda: Adam(epsilon=np.inf), "epsilon must be at least 0 and finite, got inf"),
        (lambda: Adam(basis="mine"), "basis must be one of 'eigenvectors', 'random', got 'mine'"),
        (lambda: simulated(SignSGD(basis="random"), problem=st.PowerLaw(2, 3, 5000)), "dim must be at most 4096"),
        (lambda: simulated(SignSGD(basis=np.eye(4))), "one row for each of the 3 directions simulated, got 4"),
        (
            lambda: st.excess_risk(
                PROBLEM, batch_size=1, learning_rate=0.1, num_samples=9, algorithm=st.Algorithm(st.Muon())
            ),
            r"algorithm must be linear in the gradient where risks are exact, got Muon\(",
        ),
        (
            lambda: st.optimal_learning_rate(PROBLEM, batch_size=1, num_samples=9, algorithm=st.Algorithm(clip_norm=2)),
            r"where risks are exact, got SGD\(weight_decay=0.0\) with clip_norm=2;",
        ),
        (lambda: st.Algorithm(clip_norm=0), "clip_norm must be positive and finite, got 0"),
        (lambda: st.Algorithm(clip_norm=np.inf), "got inf; leave it out not to clip"),
        (
            lambda: st.critical_batch_size(PROBLEM, num_samples=9, algorithm=Adam()),
            r"algorithm must be an Algorithm, got a method; write Algorithm\(Adam\(",
        ),
    ],
)
def test_what_is_refused(make, sentence):
    with pytest.raises(ValueError, match=sentence):
        make()


def test_clipped_gradients():
    """SGD, momentum and Adam whose ε tells long gradients from short ones, against the textbook, clipped there.

    False alarm 1e-4 over all three; the control does not clip.
    """
    for method in (st.SGD(), st.HeavyBall(0.5), Adam(0.5, 0.9, 0.3)):
        algorithm = st.Algorithm(method, average=st.TailAverage(0.5), clip_norm=1.2)
        setting = {"batch_size": 2, "learning_rate": 0.3, "num_samples": 16, "num_replicas": REPLICAS}
        found = columns(st.simulate(jax.random.key(3), PROBLEM, **setting, algorithm=algorithm))
        rest = [0.3] * 8, [2] * 8, lambda path: np.mean(path[-5:-1], 0), REPLICAS, np.eye(3)
        dense = [
            np.column_stack(textbook.risks(np.random.default_rng(1), PROBLEM, method, *rest, clip_norm=clip))
            for clip in (1.2, np.inf)
        ]
        assert two_sample_p(found, dense[0]) > FALSE_ALARM / 3
        assert two_sample_p(found, dense[1]) < 1e-12


def test_clipping_to_a_norm_that_no_gradient_has():
    algorithm = st.Algorithm(st.HeavyBall(0.5), average=LAST)
    setting = {"batch_size": 2, "learning_rate": 0.1, "num_samples": 160, "num_replicas": 5, "dtype": "float64"}
    found, clipped = (
        st.simulate(jax.random.key(3), PROBLEM, **setting, algorithm=each)
        for each in (algorithm, replace(algorithm, clip_norm=1e9))
    )
    np.testing.assert_allclose(clipped.excess_risk, found.excess_risk, rtol=1e-12)


def test_a_direction_without_a_gradient_stays():
    """λ = 0: no gradient, and none divided by nothing."""
    problem = st.LeastSquares([1.0, 0.0], [1.0, 2.0], 0.0)
    nothing = st.LeastSquares([1.0, 0.5], [0.0, 0.0], 0.0)
    setting = {"num_replicas": 4, "dtype": "float64", "learning_rate": 0.1}
    for method in (SignSGD(), NormalizedSGD(), Adam()):
        found = simulated(method, problem=problem, **setting)
        assert (found.excess_risk >= 2.0).all()
        assert (found.excess_risk < 3.0).all()
        assert (simulated(method, problem=nothing, **setting).excess_risk == 0).all()


def test_methods_are_called_with_arrays_of_the_weights_shape():
    shapes = []

    class Watched(NonlinearMethod):
        kept = 2

        def direction(self, gradient, kept, number):
            shapes.append((gradient.shape, [each.shape for each in kept]))
            return jnp.zeros_like(gradient), kept

    found = simulated(Watched(), num_replicas=2)
    np.testing.assert_allclose(found.excess_risk, PROBLEM.initial_risk, rtol=1e-6)
    assert set(map(str, shapes)) == {"((3,), [(3,), (3,)])"}
