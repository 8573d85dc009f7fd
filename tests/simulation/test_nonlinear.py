"""Methods that are not linear, and clipped gradients: limits, special cases, and what is refused."""

from dataclasses import replace

import jax
import jax.numpy as jnp
import numpy as np
import pytest

import sgdtheory as st
from sgdtheory.algorithms import NonlinearMethod
from sgdtheory.algorithms.coordinates import random_rotation
from sgdtheory.simulation.simulator import key_words
from tests.simulation import textbook
from tests.simulation.small import PROBLEM, columns
from tests.simulation.statistical import FALSE_ALARM, two_sample_p
from tests.simulation.test_methods import REPLICAS, SHORT, simulated

LAST = st.LastIterate()


def nonlinear(method, **options):
    """A few steps of a method that is not linear."""
    setting = SHORT | {"num_replicas": 8, "dtype": "float64"} | options
    return simulated(st.Algorithm(method, average=LAST), **setting)


def test_a_given_basis_is_that_rotation():
    """The one that the key draws, and one whose coordinates are the eigenvectors in another order."""
    drawn = random_rotation(3, key_words(jax.random.key(0)).tolist())
    for kind in (st.SignSGD, st.Adam):
        one, other = (nonlinear(kind(basis=basis)) for basis in ("random", drawn))
        np.testing.assert_array_equal(columns(one), columns(other))
        one, other = (nonlinear(kind(basis=basis)) for basis in ("eigenvectors", np.eye(3)[[2, 0, 1]]))
        np.testing.assert_allclose(columns(one), columns(other), rtol=1e-9)


def test_what_is_not_simulated_is_a_coordinate_of_its_own():
    options = {"problem": st.PowerLaw(2.0, 3.0), "dim": 6}
    one, other = (nonlinear(st.SignSGD(basis=basis), **options) for basis in ("eigenvectors", np.eye(6)))
    np.testing.assert_allclose(columns(one), columns(other), rtol=1e-9)


def test_adam_without_memory_is_the_sign():
    """And a small β₂ is close to it."""
    sign, adam, close = (
        nonlinear(method).excess_risk for method in (st.SignSGD(), st.Adam(0.0, 0.0), st.Adam(0.0, 1e-13))
    )
    np.testing.assert_allclose(adam, sign, rtol=1e-12)
    np.testing.assert_allclose(close, sign, rtol=1e-6)


def test_a_huge_batch_is_the_path_without_noise():
    """signSGD on the mean gradient λδ, by hand: every weight moves by γ towards its optimum, and then to and fro."""
    found = nonlinear(st.SignSGD(), batch_size=2.0**99, num_samples=2.0**99 * 12, num_replicas=2)
    weights = np.sqrt(PROBLEM.signal / PROBLEM.eigenvalues)
    for _ in range(12):
        weights = weights - 0.2 * np.sign(weights)
    np.testing.assert_allclose(found.excess_risk, PROBLEM.eigenvalues @ weights**2, rtol=1e-9)


@pytest.mark.slow
def test_frozen_directions():
    """Directions outside the simulation keep their risk and shake the others; the shift of the mean is not known."""
    law = st.PowerLaw(2.0, 3.0)
    with pytest.raises(ValueError, match="dim must be given for a method without an exact risk and infinitely many"):
        nonlinear(st.SignSGD(), problem=law)
    found = nonlinear(st.SignSGD(), problem=law, dim=20, num_replicas=4)
    assert np.isnan(found.truncation.shift).all()
    assert (found.excess_risk > found.truncation.tail_risk).all()


def test_clipped_gradients():
    """SGD, momentum and Adam whose ε tells long gradients from short ones, against the textbook, clipped there.

    False alarm 1e-4 over all three; the control does not clip.
    """
    for method in (st.SGD(), st.HeavyBall(0.5), st.Adam(0.5, 0.9, 0.3)):
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
    setting = {"num_replicas": 4, "learning_rate": 0.1}
    for method in (st.SignSGD(), st.NormalizedSGD(), st.Adam()):
        found = nonlinear(method, problem=problem, **setting)
        assert (found.excess_risk >= 2.0).all()
        assert (found.excess_risk < 3.0).all()
        assert (nonlinear(method, problem=nothing, **setting).excess_risk == 0).all()


def test_methods_are_called_with_arrays_of_the_weights_shape():
    shapes = []

    class Watched(NonlinearMethod):
        kept = 2

        def direction(self, gradient, kept, number):
            shapes.append((gradient.shape, [each.shape for each in kept]))
            return jnp.zeros_like(gradient), kept

    found = nonlinear(Watched(), num_replicas=2)
    np.testing.assert_allclose(found.excess_risk, PROBLEM.initial_risk, rtol=1e-6)
    assert set(map(str, shapes)) == {"((3,), [(3,), (3,)])"}


@pytest.mark.parametrize(
    ("make", "message"),
    [
        (lambda: simulated(st.HeavyBall(0.9)), "algorithm must be an Algorithm"),
        (
            lambda: simulated(
                st.Algorithm(batch_schedule=st.Stages([0, 0.5], [1, 1e6])),
                batch_size=2000,
                num_samples=1e10,
                sampler="explicit",
            ),
            "batch_schedule must keep batch sizes up to 1.07374e.09 for this sampler, got 2e.09; lower it",
        ),
        (
            lambda: simulated(st.Algorithm(batch_schedule=st.Linear(final=2)), num_samples=1e12),
            "at most 2147483647 steps",
        ),
        (lambda: st.SignSGD(1.0), "momentum must be at least 0 and below 1, got 1"),
        (lambda: st.Adam(beta2=-0.1), "beta2 must be at least 0 and below 1, got -0.1"),
        (lambda: st.Adam(epsilon=np.inf), "epsilon must be at least 0 and finite, got inf"),
        (lambda: st.Adam(basis="mine"), "basis must be one of 'eigenvectors', 'random', got 'mine'"),
        (lambda: nonlinear(st.SignSGD(basis="random"), problem=st.PowerLaw(2, 3, 5000)), "dim must be at most 4096"),
        (lambda: nonlinear(st.SignSGD(basis=np.eye(4))), "one row for each of the 3 directions simulated, got 4"),
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
            lambda: st.critical_batch_size(PROBLEM, num_samples=9, algorithm=st.Adam()),
            r"algorithm must be an Algorithm, got a method; write Algorithm\(Adam\(",
        ),
    ],
)
def test_what_is_refused(make, message):
    with pytest.raises(ValueError, match=message):
        make()
