"""Every method, schedule and average: in law by its textbook, in means, replica by replica; mistakes are found out."""

from dataclasses import replace

import jax
import numpy as np
import pytest

import sgdtheory as st
from sgdtheory.algorithms import Course, registry
from sgdtheory.algorithms.coordinates import random_rotation
from sgdtheory.simulation import program
from sgdtheory.simulation.simulator import key_words
from tests.marks import slow
from tests.registered import instance
from tests.simulation import textbook
from tests.simulation.small import PROBLEM, columns
from tests.simulation.statistical import FALSE_ALARM, normal_limit, two_sample_p

LAST = st.LastIterate()
METHODS = {
    "sgd": st.SGD(),
    "heavy ball": st.HeavyBall(0.7),
    "nesterov": st.Nesterov(0.7),
    "schedule-free": st.ScheduleFree(0.8),
    "accelerated": st.AcceleratedSGD(0.8, 0.2, 2.0),
    "dana": st.DANA(0.5, 2.0, 0.5),
    "weight decay": st.SGD(weight_decay=0.3),
    "sign": st.SignSGD(),
    "signum": st.SignSGD(0.7),
    "rotated sign": st.SignSGD(0.5, basis="random"),
    "normalized": st.NormalizedSGD(0.6),
    "adam": st.Adam(0.8, 0.9, 0.01),
    "rotated adam": st.Adam(0.5, 0.95, basis="random"),
    "adam, large epsilon": st.Adam(0.5, 0.9, 2.0),
    "adam, weight decay": st.Adam(0.5, 0.9, 0.01, "random", weight_decay=0.6),
}
WRONG = {  # what a nonlinear method must be told from
    "sign": st.SignSGD(0.7),
    "signum": st.SignSGD(0.6),
    "rotated sign": st.SignSGD(0.5),
    "normalized": st.NormalizedSGD(0.4),
    "adam": st.Adam(0.8, 0.5, 0.01),
    "rotated adam": st.Adam(0.5, 0.95),
    "adam, large epsilon": st.Adam(0.5, 0.9, 3.0),
    "adam, weight decay": st.Adam(0.5, 0.9, 0.01, "random", weight_decay=0.2),
}
SHAPES = {  # learning rate and batch size
    "constant": (st.Constant(), st.Constant()),
    "smooth": (st.Cosine(final=0.1, warmup=0.2), st.Linear(final=2.5)),
    "staged": (st.Stages([0, 0.3, 0.8], [1, 0.6, 0.2]), st.Stages([0, 0.5], [0.5, 2])),
    "shaped": (st.Cosine(final=0.1, warmup=0.2), st.Stages([0, 0.5], [0.5, 2])),
    "any": (lambda t: 1 / (1 + t / 9), lambda t: 1 + t % 3 / 2),
}


def exponential(path, decay):
    mean = path[0]
    for iterate in path[:-1]:
        mean = decay * mean + (1 - decay) * iterate
    return mean


class Halfway(st.AbstractAverage):
    """Halfway between the mean of the iterates and the last one; of a user."""

    def first(self, num_steps):
        return 0.0

    def forgetting(self, num_steps):
        return 0.0

    def weight(self, num_steps):
        return 1.0

    def returned(self, step, num_steps):
        return st.Returned(0.5, 0.5 / step)


AVERAGES = {
    "uniform": (st.UniformAverage(), lambda path: np.mean(path[:-1], 0)),
    "tail": (st.TailAverage(0.4), lambda path: np.mean(path[-1 - int(np.ceil(0.4 * (len(path) - 1))) : -1], 0)),
    "exponential": (st.ExponentialAverage(0.7), lambda path: exponential(path, 0.7)),
    "window": (st.ExponentialAverage(window=0.3), lambda path: exponential(path, 1 - 1 / (0.3 * (len(path) - 1)))),
    "last": (LAST, lambda path: path[-1]),
    "halfway": (Halfway(), lambda path: (np.mean(path[:-1], 0) + path[-1]) / 2),
}
ROWS = [  # every method with every average and every kind of shape at least once
    ("heavy ball", "constant", "uniform", "sufficient"),
    ("schedule-free", "constant", "last", "sufficient"),
    ("dana", "constant", "last", "sufficient"),
    ("weight decay", "any", "exponential", "explicit"),
    ("rotated sign", "constant", "last", "sufficient"),
    ("adam, weight decay", "constant", "uniform", "sufficient"),
    slow("sgd", "smooth", "last", "explicit"),
    slow("nesterov", "staged", "tail", "explicit"),
    slow("accelerated", "constant", "tail", "sufficient"),
    slow("signum", "shaped", "tail", "sufficient"),
    slow("normalized", "shaped", "uniform", "sufficient"),
    slow("adam", "shaped", "last", "sufficient"),
    slow("rotated adam", "constant", "tail", "sufficient"),
    slow("sgd", "staged", "uniform", "explicit"),
    slow("sgd", "constant", "tail", "sufficient"),
    slow("heavy ball", "smooth", "last", "sufficient"),
    slow("heavy ball", "any", "window", "explicit"),
    slow("nesterov", "constant", "last", "sufficient"),
    slow("schedule-free", "smooth", "last", "explicit"),
    slow("accelerated", "smooth", "window", "explicit"),
    slow("dana", "smooth", "tail", "explicit"),
    slow("weight decay", "constant", "uniform", "sufficient"),
    slow("weight decay", "smooth", "last", "explicit"),
    slow("sign", "constant", "uniform", "sufficient"),
    slow("sign", "shaped", "last", "explicit"),
    slow("adam, large epsilon", "constant", "uniform", "sufficient"),
    slow("adam", "constant", "tail", "explicit"),
    slow("rotated adam", "shaped", "uniform", "explicit"),
    slow("adam, weight decay", "shaped", "last", "explicit"),
]
SETTING = {"batch_size": 4, "learning_rate": 0.12, "num_samples": 160}
SHORT = {"batch_size": 3, "learning_rate": 0.2, "num_samples": 30}
REPLICAS = 4000


def algorithm(method, shape, average):
    return st.Algorithm(METHODS[method], *SHAPES[shape], AVERAGES[average][0])


def simulated(algorithm, seed=0, problem=PROBLEM, **options):
    setting = {"num_replicas": REPLICAS} | SETTING | options
    return st.simulate(jax.random.key(seed), problem, **setting, algorithm=algorithm)


@pytest.mark.parametrize(("method", "shape", "average", "sampler"), ROWS)
def test_risks_have_the_law_of_the_textbook(method, shape, average, sampler):
    """Average and last iterate after about eight steps; false alarm 1e-4 over all cases."""
    one, chosen = algorithm(method, shape, average), METHODS[method]
    batch, rate = (4, 0.12) if one.linear else (3, 0.2)
    number = (8 if one.linear else 10) + 2 * (shape != "constant")
    setting = {"batch_size": batch, "learning_rate": rate, "num_samples": batch * number}
    found = simulated(one, **setting, sampler=sampler, dtype="float32" if one.linear else "float64")
    n = float(found.num_steps)
    assert 5 <= n <= 12
    course, steps = Course(one, float(batch), rate, n), np.arange(n)
    basis = None if one.linear else np.eye(3)
    if getattr(chosen, "basis", "") == "random":
        basis = random_rotation(3, key_words(jax.random.key(0)).tolist())
    rest = course.rates(steps), course.batches(steps), AVERAGES[average][1], REPLICAS

    def dense(which, basis):
        return np.column_stack(textbook.risks(np.random.default_rng(1), PROBLEM, which, *rest, basis)).round(9)

    mine = columns(found).round(9)  # signs lead to places of a lattice, whose risks may be rounded up or down
    assert two_sample_p(mine, dense(chosen, basis)) > FALSE_ALARM / len(ROWS)
    if method in WRONG:  # the control: other numbers, or the other basis
        other = basis if getattr(chosen, "weight_decay", 0.0) else np.eye(3)
        assert two_sample_p(mine, dense(WRONG[method], other)) < 1e-6


def test_every_registered_method_whose_steps_are_alike_is_among_them():
    """No other test notices a wrong A, b or c of a new method."""
    alike = [
        kind for kind in registry.METHODS.values() if issubclass(kind, st.LinearMethod) and instance(kind).sequential
    ]
    rows = {type(METHODS[getattr(row, "values", row)[0]]) for row in ROWS}
    assert {kind for kind in alike if kind is not st.DelayedSGD} <= rows


class LaterShare(st.ScheduleFree):
    """c_t = 1/(t + 2)."""

    def coefficients(self, rate, step):
        return super().coefficients(rate, step + 1)


@pytest.mark.slow
@pytest.mark.parametrize(
    ("right", "wrong"),
    [
        (st.HeavyBall(0.9), st.HeavyBall(0.87)),
        slow(st.HeavyBall(0.9), st.HeavyBall(0.882)),
        slow(st.HeavyBall(0.7), st.Nesterov(0.7)),
        slow(st.ScheduleFree(0.5), LaterShare(0.5)),
        slow(st.DANA(0.5, 2.0, 0.5), st.DANA(0.5, 2.0, 0.3)),
    ],
)
def test_another_method_is_found_out(right, wrong):
    """β off by 3% or 2%, Nesterov for heavy ball, c_t shifted by a step."""
    setting = {"batch_size": 64, "learning_rate": 0.2, "num_samples": 64 * 25}
    number = 4000 if wrong == st.HeavyBall(0.87) else 20_000
    exact, other = (
        st.excess_risk(PROBLEM, **setting, algorithm=st.Algorithm(method, average=LAST)).total
        for method in (right, wrong)
    )
    found = simulated(st.Algorithm(right, average=LAST), **setting, num_replicas=number)
    assert abs(found.normal_score(exact)) < normal_limit(4)
    assert abs(found.normal_score(other)) > 6


class LookAhead(st.LinearMethod):
    """Gradients are taken at the iterate plus half of the last step, and weights shrink; of a user."""

    start, output, step_dependence = (1, 0), (1, 0), "any"

    def coefficients(self, rate, step):
        return st.Coefficients([[1 - 0.1 * rate, 0], [0, 0]], [rate, rate * (1 + step % 2)], [1, -0.5])


@pytest.mark.parametrize("average", ["tail", slow("last")])
def test_a_users_method_has_its_exact_risk(average):
    """`(I − A) s` is not 0 here."""
    one = st.Algorithm(LookAhead(), st.Linear(), average=AVERAGES[average][0])
    found, exact = simulated(one), st.excess_risk(PROBLEM, **SETTING, algorithm=one).total
    assert abs(found.normal_score(exact)) < normal_limit(2)


@pytest.mark.parametrize("average", ["tail", slow("last")])
def test_on_the_way_means_are_those_of_the_path(average):
    one = st.Algorithm(st.HeavyBall(0.7), st.Cosine(), st.Linear(final=3), AVERAGES[average][0])
    found = simulated(one, trajectory=6).trajectory
    path = st.risk_path(PROBLEM, **SETTING, algorithm=one, points=7)
    where = np.searchsorted(path.num_steps, found.num_steps)
    np.testing.assert_array_equal(path.num_steps[where], found.num_steps)
    pairs = (found.excess_risk, path.average.total), (found.last_iterate_risk, path.iterate.total)
    for values, exact in pairs:
        error = values.std(1, ddof=1) / np.sqrt(values.shape[1])
        begun = ~np.isnan(exact[where])
        np.testing.assert_array_equal(np.isfinite(values.mean(1)), begun)
        off = np.abs(values.mean(1) - exact[where])[begun]
        assert (off <= normal_limit(24) * error[begun] + 1e-6 * exact[where][begun]).all()


def test_settings_of_a_grid_are_what_they_are_alone():
    one = algorithm("heavy ball", "smooth", "tail")
    grid = simulated(one, batch_size=[[4], [9]], num_samples=[100, 300], num_replicas=37)
    assert grid.excess_risk.shape == (2, 2, 37)
    alone = simulated(one, num_samples=100, num_replicas=37)
    np.testing.assert_allclose(grid.excess_risk[0, 0], alone.excess_risk, rtol=1e-5)
    assert not np.isclose(grid.excess_risk[0, 1], alone.excess_risk, rtol=1e-5).any()


def test_lengths_share_a_run_where_steps_do_not_depend_on_them():
    one = st.Algorithm(st.HeavyBall(0.5), average=st.ExponentialAverage(0.9))
    long, short = (simulated(one, num_samples=n, num_replicas=37) for n in ([80, 400], 80))
    np.testing.assert_allclose(long.excess_risk[0], short.excess_risk, rtol=1e-5)
    path = simulated(one, num_samples=400, num_replicas=37)
    np.testing.assert_allclose(long.excess_risk[1], path.excess_risk, rtol=1e-5)


@pytest.mark.parametrize("shape", ["smooth", slow("constant")])
def test_tables_and_blocks_of_any_size_give_the_same_numbers(monkeypatch, shape):
    one = algorithm("heavy ball", shape, "tail")
    options = {"batch_size": [[4], [9], [30]], "num_samples": 3000, "num_replicas": 6}
    whole = simulated(one, **options)
    monkeypatch.setattr(program, "TABLE_NUMBERS", 1)  # one block of steps each
    np.testing.assert_allclose(simulated(one, **options).excess_risk, whole.excess_risk, rtol=2e-5)
    parts = simulated(one, **options, memory_limit=2e4)
    np.testing.assert_allclose(parts.excess_risk, whole.excess_risk, rtol=2e-5)


def test_algorithms_of_as_many_vectors_share_a_compiled_program():
    options = {"num_replicas": 37}
    simulated(algorithm("heavy ball", "smooth", "last"), **options)
    before = program._compiled_advance._cache_size()
    for method in ("nesterov", "accelerated", "schedule-free"):
        for shape in ("smooth", "staged", "any"):
            simulated(algorithm(method, shape, "tail"), **options, learning_rate=0.05, num_samples=999)
    assert program._compiled_advance._cache_size() == before
    simulated(algorithm("sgd", "smooth", "last"), **options)  # control: one vector
    assert program._compiled_advance._cache_size() == before + 1


@pytest.mark.parametrize("steps", [20_000, slow(1_000_000)])
@pytest.mark.parametrize("method", [slow("heavy ball"), "accelerated", slow("schedule-free")])
def test_many_steps_in_float32(method, steps):
    """Four directions over six decades and next to no noise; replicas follow the mean."""
    eigenvalues, batch = np.array([1.0, 1e-2, 1e-4, 1e-6]), 2.0**66
    problem = st.LeastSquares(eigenvalues, np.ones(4), 0.0)
    setting = {"batch_size": batch, "learning_rate": 0.1, "num_samples": batch * steps}
    one = st.Algorithm(METHODS[method], st.Cosine(final=0.1), average=st.TailAverage(0.5))
    found = simulated(one, problem=problem, **setting, num_replicas=1)
    np.testing.assert_allclose(found.excess_risk, st.excess_risk(problem, **setting, algorithm=one).total, rtol=2e-5)


INFINITE = st.PowerLaw(2.0, 1.5)
INFINITE_SETTING = {"batch_size": 8, "learning_rate": 0.05, "num_samples": 800}


@pytest.mark.parametrize("method", [slow("heavy ball"), "weight decay"])
def test_an_infinite_problem_is_truncated_and_keeps_its_risk(method):
    one = st.Algorithm(METHODS[method], st.Cosine(), average=LAST)
    found = simulated(one, problem=INFINITE, **INFINITE_SETTING, num_replicas=2000)
    exact = st.excess_risk(INFINITE, **INFINITE_SETTING, algorithm=one).total
    assert found.truncation.dim % 64 == 0
    assert abs(found.normal_score(exact + float(found.truncation.shift))) < normal_limit(2)
    assert abs(float(found.truncation.shift)) < 0.2 * found.standard_error
    with pytest.raises(ValueError, match=r"dim must be at least \d+ for these settings"):
        simulated(one, problem=INFINITE, **INFINITE_SETTING, dim=2)


@pytest.mark.parametrize(
    ("method", "unit", "scale"),
    [
        slow("heavy ball", 1e100, 1e-60),
        slow("accelerated", 1e9, 1.0),
        slow("weight decay", 1e-40, 1e30),
        slow("sign", 1e-30, 1e12),
        slow("normalized", 1e-30, 1e-20),
        slow("adam", 1e9, 1e12),
        slow("adam", 1e-30, 1e-20),
        slow("rotated adam", 1e9, 1e-20),
    ],
)
def test_units_do_not_matter(method, unit, scale):
    """In other units of y² and of λ, weights are √(scale/unit) times as large, gradients √(scale unit) times."""
    here = there = METHODS[method]
    linear = isinstance(here, st.LinearMethod)
    if method == "weight decay":
        there = st.SGD(weight_decay=0.3 * unit)
    if method == "adam":
        there = replace(here, epsilon=here.epsilon * np.sqrt(scale * unit))
    other = st.LeastSquares(unit * PROBLEM.eigenvalues, scale * PROBLEM.signal, scale * PROBLEM.noise_variance)
    options = {"num_replicas": 8} if linear else SHORT | {"num_replicas": 8, "dtype": "float64"}
    rate = 0.12 / unit if linear else 0.2 * np.sqrt(scale / unit)
    found = simulated(st.Algorithm(here, st.Cosine()), **options)
    again = simulated(st.Algorithm(there, st.Cosine()), problem=other, **options | {"learning_rate": rate})
    np.testing.assert_allclose(again.excess_risk, scale * found.excess_risk, rtol=1e-5 if linear else 1e-6)
