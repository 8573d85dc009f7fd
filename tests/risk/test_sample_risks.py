import numpy as np
import pytest

import sgdtheory as st
from sgdtheory.algorithms import Course
from sgdtheory.problems import TrainingProblem, drawn_sample
from sgdtheory.risk import as_one_pass, moved_thresholds, run_risks
from sgdtheory.risk.systems.finite_sample import drivers_of
from sgdtheory.risk.systems.mean_path import responses
from sgdtheory.risk.systems.row_moments import RowMoments, second_risks
from tests.risk.passes import dense, diagonal, enumerated, gradient_steps, rows_of

LAST = st.Algorithm(average=st.LastIterate())
RARE = 3.9  # standard errors that one in 1e4 samples exceeds


def problem(dim=4, noise_variance=0.5):
    return st.PowerLaw(1.2, 1.5, dim=dim, noise_variance=noise_variance)


def both(finite, **setting):
    """Total risks of last iterate and average."""
    return np.array([float(st.excess_risk(finite, **setting, algorithm=each).total) for each in (LAST, st.Algorithm())])


@pytest.mark.parametrize(("size", "batch", "steps"), [(1, 1, 5), (2, 2, 4), (3, 1, 6), (3, 2, 3)])
def test_all_sequences(size, batch, steps):
    """Fewer rows than directions, as many, more: the mean over everything that could be drawn."""
    finite = problem(3).with_samples(size, seed=7)
    sample = drawn_sample(finite)
    expected = enumerated(*rows_of(sample), sample.start, sample.scale, batch, 0.3, steps)
    found = both(finite, batch_size=batch, learning_rate=0.3, num_samples=batch * steps)
    np.testing.assert_allclose(found, expected, rtol=1e-12)


@pytest.mark.parametrize("size", [6, 40])
@pytest.mark.parametrize("rate", [0.05, 0.9])
def test_dense_second_moments(size, rate):
    finite = problem(8).with_samples(size, seed=1)
    sample = drawn_sample(finite)
    given = *rows_of(sample), sample.start, sample.scale, 4
    steps = 300
    found = both(finite, batch_size=4, learning_rate=rate, num_samples=4 * steps)
    np.testing.assert_allclose(found, dense(*given, np.full(steps, rate)), rtol=1e-9)
    wrong = {"drive": False}, {"fourth": False}, {"population": np.diag(sample.scale**2)}
    for each in wrong:
        assert np.abs(found / dense(*given, np.full(steps, rate), **each) - 1).max() > 1e-4, each


def test_schedules_and_batches_step_by_step():
    finite = problem(5).with_samples(9, seed=2)
    sample = drawn_sample(finite)
    algorithm = st.Algorithm(schedule=st.Linear(), average=st.LastIterate())
    found = st.excess_risk(finite, batch_size=2, learning_rate=0.4, num_samples=240, algorithm=algorithm)
    course = Course(algorithm, 2.0, 0.4, 120.0)
    expected = dense(*rows_of(sample), sample.start, sample.scale, 2, course.rates(np.arange(120.0)))
    assert found.total == pytest.approx(expected[0], rel=1e-11)


@pytest.mark.parametrize(
    "average", [st.TailAverage(0.3), st.ExponentialAverage(window=0.2), st.ExponentialAverage(decay=0.5)]
)
def test_averages_in_closed_form_are_those_of_steps(average):
    sample = drawn_sample(problem(5).with_samples(12, seed=3))
    rows = RowMoments(sample)
    end = np.array([500.0])
    closed = second_risks(rows, Course(st.Algorithm(average=average), 3.0, 0.9, 500.0), end)
    stages = st.Algorithm(schedule=np.ones(500), average=average)
    np.testing.assert_allclose(closed, second_risks(rows, Course(stages, 3.0, 0.9, 500.0), end), rtol=1e-11)


def test_the_diagonal_theory_is_its_recursion():
    """With many directions: the recursion has the training loss instead of the risk."""
    finite = st.PowerLaw(1.5, 2.0, dim=400, noise_variance=0.5).with_samples(300, seed=0)
    sample = drawn_sample(finite)
    nodes = sample.weight, sample.count, sample.excess, sample.least_loss, sample.seen
    steps = 500
    expected = diagonal(*nodes, 300, 4, 0.3, steps)
    assert sample.least_loss == 0
    found = both(finite, batch_size=4, learning_rate=0.3, num_samples=4 * steps)
    course = Course(st.Algorithm(), 4.0, 0.3, float(steps))
    answers = responses(course, sample.weight, np.array([float(steps)]))
    mean = [(sample.mean_risk(each) - each**2 @ (sample.excess * sample.seen))[0] for each in answers]
    np.testing.assert_allclose(found, expected + mean, rtol=1e-10)
    ways = st.Algorithm(schedule=np.ones(steps), average=st.LastIterate()), LAST
    one, other = (st.excess_risk(finite, batch_size=4, learning_rate=0.3, num_samples=2000, algorithm=a) for a in ways)
    assert one.total == pytest.approx(other.total, rel=1e-10)


@pytest.mark.parametrize("method", [st.SGD(), st.SGD(weight_decay=0.1), st.HeavyBall(0.8)])
def test_panels_agree_with_steps(method):
    """Smooth schedules on panels, where the loss that drives is not the risk that is asked for."""
    sample = drawn_sample(st.PowerLaw(1.5, 2.0, dim=100, noise_variance=0.5).with_samples(300, seed=0))
    algorithm = st.Algorithm(method, schedule=st.Cosine(), average=st.TailAverage(0.5))
    one = np.ones(1)
    count = 1000.0
    course = Course(algorithm, 4.0, 0.05, count)
    told = st.Algorithm(method, schedule=course.rates(np.arange(count)) / 0.05, average=st.TailAverage(0.5))
    found, expected = (
        run_risks(TrainingProblem(sample), each, 4 * one, 0.05 * one, count * one, rounded=False).parts
        for each in (algorithm, told)
    )
    np.testing.assert_allclose(found, expected, rtol=1e-7)


@pytest.mark.parametrize("dim", [10, 60, 300])
def test_paths_end_in_the_risk(dim):
    finite = problem(dim).with_samples(50, seed=0)
    for algorithm in (st.Algorithm(), st.Algorithm(schedule=st.Cosine(), average=st.TailAverage(0.5))):
        setting = {"batch_size": 2, "learning_rate": 0.2, "num_samples": 1000, "algorithm": algorithm}
        path = st.risk_path(finite, **setting, points=9)
        risk = st.excess_risk(finite, **setting)
        assert path.average.total[-1] == pytest.approx(risk.total, rel=1e-10)
        assert path.average.bias[-1] == pytest.approx(risk.bias, rel=1e-10)
        assert path.iterate.total[0] == pytest.approx(finite.initial_risk, rel=1e-12)
        assert np.isnan(path.average.total[0])


def test_very_many_passes_at_once():
    """Full batches end in the fit; the mean path of 1e8 samples costs what one of 1e3 does."""
    finite = problem(100).with_samples(40, seed=0)
    sample = drawn_sample(finite)
    features, noise = rows_of(sample)
    labels = noise - features @ sample.start
    fitted = sample.start + np.linalg.lstsq(features, labels, rcond=None)[0]
    found = st.excess_risk(finite, batch_size=4, learning_rate=0.2, num_samples=1e10, algorithm=LAST)
    assert found.total == pytest.approx(np.sum((sample.scale * fitted) ** 2), rel=1e-6)


def test_without_replacement_one_pass_is_todays():
    fresh = st.PowerLaw(2.0, 2.5)
    finite = fresh.with_samples(5000, replacement=False)
    setting = {"batch_size": 8, "learning_rate": [0.1, 0.4], "num_samples": 5000}
    one, other = (st.excess_risk(each, **setting) for each in (finite, fresh))
    np.testing.assert_array_equal(one.bias, other.bias)
    np.testing.assert_array_equal(one.variance, other.variance)
    tuned = [st.optimal_learning_rate(each, batch_size=8, num_samples=5000) for each in (finite, fresh)]
    assert tuned[0] == tuned[1]
    assert as_one_pass(finite, np.array([10.0, 5000.0])) is fresh
    assert as_one_pass(finite, np.array([10.0, 5001.0])) is finite


def test_many_samples_are_one_pass():
    fresh = problem(6)
    setting = {"batch_size": 4, "learning_rate": 0.3, "num_samples": 2000}
    drawn = both(fresh.with_samples(100_000, seed=0), **setting)
    mean = both(fresh.with_samples(10**9), **setting)
    expected = both(fresh, **setting)
    np.testing.assert_allclose(drawn, expected, rtol=0.1)
    np.testing.assert_allclose(mean, expected, rtol=1e-5)
    edges = [st.max_stable_learning_rate(each, batch_size=4) for each in (fresh.with_samples(100_000, seed=0), fresh)]
    assert edges[0] == pytest.approx(edges[1], rel=0.03)


def test_the_mean_over_samples_is_that_of_drawn_ones():
    """The plain problem, which knows no second pass, must not pass for it."""
    fresh = problem(10)
    setting = {"batch_size": 2, "learning_rate": 0.2, "num_samples": 400}
    drawn = np.array([both(fresh.with_samples(40, seed=seed), **setting) for seed in range(80)])
    error = drawn.std(0) / np.sqrt(len(drawn))
    found = both(fresh.with_samples(40), **setting)
    assert (np.abs(found - drawn.mean(0)) < RARE * error + 0.02 * found).all()
    assert (np.abs(both(fresh, **setting) - drawn.mean(0)) > 5 * error).all()


@pytest.mark.parametrize("dim", [8, 60, 300])
@pytest.mark.parametrize("batch", [1, 8])
def test_the_edge_is_where_moments_begin_to_grow(dim, batch):
    finite = problem(dim).with_samples(400, seed=0)
    edge = float(st.max_stable_learning_rate(finite, batch_size=batch))
    near = {"batch_size": batch, "num_samples": batch * 20_000, "algorithm": LAST}
    below, beyond = (float(st.excess_risk(finite, learning_rate=share * edge, **near).total) for share in (0.98, 1.02))
    assert below < 200
    assert not beyond < 1e4


def test_the_best_rate_and_batch_size():
    finite = problem(5).with_samples(30, seed=0)
    best = st.optimal_learning_rate(finite, batch_size=2, num_samples=300)
    rates = best.learning_rate * np.geomspace(0.3, 3, 31)
    assert best.risk <= st.excess_risk(finite, batch_size=2, num_samples=300, learning_rate=rates).total.min() * 1.001
    found = st.critical_batch_size(finite, num_samples=300, curve=False)
    assert found.batch_size * found.num_steps <= 1.2 * 300
    at = st.optimal_learning_rate(finite, batch_size=found.batch_size, num_samples=found.batch_size * found.num_steps)
    assert at.risk <= found.optimal_risk * 1.02  # B = 3 for D/n = 3.08
    less = st.optimal_learning_rate(finite, batch_size=1, num_samples=300)
    assert found.optimal_risk <= less.risk * 1.001


def test_reshuffled_full_batches_are_gradient_descent():
    finite = problem(5).with_samples(6, seed=0, replacement=False)
    sample = drawn_sample(finite)
    errors = gradient_steps(*rows_of(sample), sample.start, [range(6)] * 20, 0.3)
    expected = [np.sum((sample.scale * each) ** 2) for each in (errors[-1], errors[:-1].mean(0))]
    np.testing.assert_allclose(both(finite, batch_size=6, learning_rate=0.3, num_samples=120), expected, rtol=1e-9)


REFUSED = [
    ({}, {"algorithm": st.Algorithm(st.Adam())}, "algorithm must be linear"),
    ({"replacement": False}, {"algorithm": st.Algorithm(st.HeavyBall(0.9))}, "reshuffled passes"),
    ({}, {"algorithm": st.Algorithm(st.LocalSGD(4, 8))}, "one worker and gradients in time"),
    ({}, {"algorithm": st.Algorithm(st.DelayedSGD(2))}, "one worker and gradients in time"),
    ({"replacement": False, "num_samples": 5000}, {"num_samples": 9000}, "batch_size must be at least"),
]


@pytest.mark.parametrize(("options", "setting", "message"), REFUSED)
def test_what_is_refused(options, setting, message):
    finite = problem().with_samples(**({"num_samples": 50, "seed": 0} | options))
    usual = {"batch_size": 1, "learning_rate": 0.1, "num_samples": 200}
    with pytest.raises(ValueError, match=message):
        st.excess_risk(finite, **(usual | setting))


def test_an_edge_of_reshuffled_passes_is_refused():
    with pytest.raises(ValueError, match="replacement must be True"):
        st.max_stable_learning_rate(problem().with_samples(50, replacement=False), batch_size=1)


def test_errors_are_stated():
    setting = {"batch_size": 1, "learning_rate": 0.1, "num_samples": 2000, "algorithm": LAST}
    errors = [
        float(st.excess_risk(problem(dim).with_samples(500, seed=0), **setting).relative_error) for dim in (30, 60)
    ]
    assert errors[0] == 0 < errors[1] < 0.2
    assert drivers_of(problem(30).with_samples(500, seed=0)).relative_error_at(1.0) == 0


@pytest.mark.slow
def test_most_errors_are_within_what_is_stated():
    """The diagonal theory and the rows' own diagonals, against exact moments, in random settings."""
    random = np.random.default_rng(0)
    within = []
    for seed in range(60):
        size = int(np.exp(random.uniform(np.log(8), np.log(1000))))
        batch = float(2 ** random.integers(0, 6))
        fresh = st.PowerLaw(random.uniform(0.3, 2.5), random.uniform(1.1, 3), dim=16, noise_variance=0.5)
        rate = random.uniform(0.02, 0.8) * float(
            st.max_stable_learning_rate(fresh.with_samples(size, seed), batch_size=batch)
        )
        steps = int(np.exp(random.uniform(np.log(20), np.log(3000))))
        setting = {"batch_size": batch, "learning_rate": rate, "num_samples": batch * steps, "algorithm": LAST}
        exact = st.excess_risk(fresh.with_samples(size, seed), **setting)
        for limits in ({"whole_sample": 0}, {"whole_sample": 0, "diagonal_sample": 0}):
            with moved_thresholds(**limits):
                found = st.excess_risk(fresh.with_samples(size, seed), **setting)
            within.append(abs(found.total / exact.total - 1) <= found.relative_error)
    assert np.mean(within) > 0.85
