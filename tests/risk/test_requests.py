"""What is asked of the solvers: kinds of runs, options that change no risk, and bounds of rounding as formulas."""

from types import SimpleNamespace

import numpy as np
import pytest

import sgdtheory as st
from sgdtheory.algorithms import Course
from sgdtheory.risk import choose, rounding, run_risks

PROBLEM = st.LeastSquares([1.0, 0.4, 0.05], [0.5, 0.3, 0.2], 0.3)
SAMPLE = PROBLEM.with_samples(20)
LAST = st.LastIterate()
KINDS = {  # problem, algorithm, and whether panels or equivalents are used
    "averaged": (PROBLEM, st.Algorithm(), False),
    "segments": (PROBLEM, st.Algorithm(st.HeavyBall(0.5), schedule=st.Cosine(), average=LAST), True),
    "delayed": (PROBLEM, st.Algorithm(st.DelayedSGD(5), average=LAST), False),
    "mean_field": (PROBLEM, st.Algorithm(st.SignSGD(), average=LAST), True),
    "sample": (SAMPLE, st.Algorithm(average=LAST), True),
}
BATCH, RATE, STEPS = np.array([2.0, 3.0, 2.0]), np.array([0.05, 0.1, 0.15]), np.array([700.0, 1000.0, 700.0])


@pytest.mark.parametrize("kind", KINDS)
def test_kinds_of_runs(kind):
    """Each with its own solver, whether errors are asked for or not; one run is what several are."""
    problem, algorithm, approximated = KINDS[kind]
    assert choose.kind_of(problem, algorithm=algorithm) == kind
    found = run_risks(problem, algorithm, BATCH, RATE, STEPS)
    assert found.approximated.tolist() == [approximated] * 3
    risk = st.excess_risk(problem, batch_size=BATCH, learning_rate=RATE, num_samples=BATCH * STEPS, algorithm=algorithm)
    np.testing.assert_array_equal(found.parts, [risk.bias, risk.variance])
    np.testing.assert_array_equal(found.error, risk.relative_error)
    assert (found.error.max() > 0) == approximated
    quick = run_risks(problem, algorithm, BATCH, RATE, STEPS, estimate=False, summed=True)
    np.testing.assert_allclose(quick.parts.sum(0), found.parts.sum(0), rtol=1e-7)
    if kind not in ("sample", "mean_field"):  # these state errors of theory as well
        assert quick.error.max() == 0
    alone = choose.course_risk(problem, Course(algorithm, 3.0, 0.1, 1000.0))
    np.testing.assert_allclose(alone.parts, found.parts[:, 1], rtol=1e-7)
    assert bool(alone.approximated) == approximated
    rough = run_risks(problem, algorithm, BATCH, RATE, STEPS, tolerance=1e-5, estimate=False)
    np.testing.assert_allclose(rough.parts.sum(0), found.parts.sum(0), rtol=1e-4)


def test_kinds_beside_their_borders():
    plain = st.Algorithm()
    assert choose.kind_of(SAMPLE, algorithm=st.Algorithm(st.SignSGD())) == "sample"
    assert choose.kind_of(PROBLEM, algorithm=st.Algorithm(st.DelayedSGD(2))) == "segments"
    assert choose.kind_of(PROBLEM, algorithm=st.Algorithm(average=LAST)) == "segments"
    assert choose.kind_of(PROBLEM) == choose.kind_of(PROBLEM, algorithm=plain) == "averaged"
    nothing = run_risks(PROBLEM, plain, *np.empty((3, 0)))
    assert nothing.parts.shape == (2, 0)


def test_samples_read_once_and_twice_in_one_request():
    """Up to 20 samples in a new order are fresh ones; the others state an error of theory."""
    sample = PROBLEM.with_samples(20, replacement=False)
    setting = {"batch_size": 2, "learning_rate": 0.1}
    samples = np.array([20.0, 60.0, 8.0])
    found = run_risks(sample, st.Algorithm(), np.full(3, 2.0), np.full(3, 0.1), samples / 2)
    plain = st.excess_risk(PROBLEM, **setting, num_samples=samples)
    assert found.approximated.tolist() == [False, True, False]
    np.testing.assert_allclose(found.parts[:, [0, 2]], np.array([plain.bias, plain.variance])[:, [0, 2]], rtol=1e-12)
    assert found.error[[0, 2]].tolist() == [0, 0]
    assert found.error[1] > 0
    assert found.parts.sum(0)[1] != pytest.approx(plain.total[1], rel=1e-3)


def test_bounds_of_rounding():
    parts = np.array([[1.0, 0.0, 0.0, 1e-20], [3.0, 0.0, 2.0, 1e-20]])
    others = parts + np.array([[0.4], [-0.8]])
    np.testing.assert_allclose(rounding.change(parts, others)[[0, 2]], [0.3, 0.6])
    assert rounding.change(parts, parts)[1] == 0  # 0/0
    lost = np.array([[1e-9, 1e-9, 3.0, 1e-19], [1e-9, 0.0, 0.0, 0.0]])
    np.testing.assert_array_equal(rounding.bounded(parts, lost), [[1.0, 1e-9, 3.0, 1e-19], [3.0, 0.0, 2.0, 1e-20]])
    stated = rounding.stated_rounding(parts, lost, 1.0)
    np.testing.assert_allclose(stated, [5e-10, np.inf, 1.5, 5.0])
    assert rounding.stated_rounding(parts, lost, 0.0).tolist() == [0.0] * 4
    assert rounding.worth_stating(np.array([1e-10, 1.01e-10, np.inf])).tolist() == [0.0, 1.01e-10, np.inf]
    eps = np.finfo(float).eps
    assert rounding.rounding(np.array([1.0, np.inf])).tolist() == [4 * eps, 0.0]
    for method, ulps in ((st.SGD(), 32), (st.HeavyBall(0.9), 2048), (st.DelayedSGD(2), 8192), (st.DelayedSGD(5), 8192)):
        assert rounding.moved(1.0, st.Algorithm(method)) - 1 == ulps * eps
        assert rounding.shaken(Course(st.Algorithm(method), 2.0, 1.0, 9.0)).rate == 1 + ulps * eps


def test_bounds_of_oscillations_between_modes():
    modes = SimpleNamespace(unresolved=np.array([0.0, 0.1]), signal=np.array([5.0, 2.0]))
    parts = np.array([[1.0, 0.0], [3.0, 0.0]])
    found = rounding.unresolved_oscillation(parts, modes)
    assert found.tolist() == [2 * (0.2 + 0.3) / 4, np.inf]
    assert rounding.unresolved_oscillation(parts, SimpleNamespace(unresolved=None)).tolist() == [0, 0]


def test_runs_next_to_the_edge_are_sensitive():
    """From 0.1% below it on, whatever the schedule's peak; two vectors after more than 128 steps alone."""
    for method, steps in ((st.SGD(), 1.0), (st.HeavyBall(0.5), 129.0)):
        algorithm = st.Algorithm(method)
        edge = float(st.max_stable_learning_rate(PROBLEM, batch_size=3, algorithm=algorithm))
        rates = edge * np.array([0.9, 0.9989, 0.9992, 1.2])

        def told(algorithm, rate, number):
            return rounding.sensitive(PROBLEM, algorithm, np.full(4, 3.0), rate, np.full(4, number)).tolist()

        assert told(algorithm, rates, steps) == [False, False, True, True]
        assert told(algorithm, rates, steps - 1) == [False] * 4
        half = st.Algorithm(method, schedule=st.Stages([0.0, 0.5], [0.25, 0.5]))
        assert told(half, 2 * rates, 1000.0) == [False, False, True, True]
        ramp = st.Algorithm(method, batch_schedule=st.Stages([0.0, 0.5], [2.0, 1.0]))
        assert told(ramp, rates, 1000.0) == [False, False, True, True]


def test_equivalents_without_an_estimate_have_no_error():
    """The risk is the same; only runs with an estimate are interrupted to update it."""
    problem = st.PowerLaw(2.0, 3.0)
    algorithm = st.Algorithm(st.SignSGD(), st.Linear(), average=st.LastIterate())
    setting = np.array([16.0]), np.array([2e-3]), np.array([1000.0])
    with_error = run_risks(problem, algorithm, *setting)
    without = run_risks(problem, algorithm, *setting, estimate=False)
    np.testing.assert_allclose(without.parts, with_error.parts, rtol=1e-5)
    assert 0 < with_error.error[0] < 1
    assert np.isnan(without.error[0])
    for estimate in (True, False):
        setting[1][:] = 1e300
        diverged = run_risks(st.LeastSquares([1.0], [1.0], 1.0), algorithm, *setting, estimate=estimate)
        assert np.isinf(diverged.parts).all()
