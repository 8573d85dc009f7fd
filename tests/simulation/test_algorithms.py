"""Every method, schedule and average: in law, in means, replica by replica, and mistakes that must be found out."""

import jax
import numpy as np
import pytest

import sgdtheory as st
from sgdtheory.algorithms import Course
from sgdtheory.simulation import program
from tests.marks import slow
from tests.simulation import textbook
from tests.simulation.statistical import FALSE_ALARM, normal_limit, two_sample_p

PROBLEM = st.LeastSquares([1.0, 0.5, 0.1], [1.0, 0.5, 2.0], 0.5)
SETTING = {"batch_size": 4, "learning_rate": 0.12, "num_samples": 160}
LAST = st.LastIterate()

METHODS = {
    "sgd": st.SGD(),
    "heavy ball": st.HeavyBall(0.7),
    "nesterov": st.Nesterov(0.7),
    "schedule-free": st.ScheduleFree(0.8),
    "accelerated": st.AcceleratedSGD(0.8, 0.2, 2.0),
    "weight decay": st.SGD(weight_decay=0.3),
}
SHAPES = {  # learning rate and batch size
    "constant": (st.Constant(), st.Constant()),
    "smooth": (st.Cosine(final=0.1, warmup=0.2), st.Linear(final=2.5)),
    "staged": (st.Stages([0, 0.3, 0.8], [1, 0.6, 0.2]), st.Stages([0, 0.5], [0.5, 2])),
    "any": (lambda t: 1 / (1 + t / 9), lambda t: 1 + t % 3 / 2),
}
AVERAGES = {
    "uniform": (st.UniformAverage(), lambda path: np.mean(path[:-1], 0)),
    "tail": (st.TailAverage(0.4), lambda path: np.mean(path[-1 - int(np.ceil(0.4 * (len(path) - 1))) : -1], 0)),
    "exponential": (st.ExponentialAverage(0.7), lambda path: exponential(path, 0.7)),
    "window": (st.ExponentialAverage(window=0.3), lambda path: exponential(path, 1 - 1 / (0.3 * (len(path) - 1)))),
    "last": (LAST, lambda path: path[-1]),
}
ROWS = [  # every method with every average and every kind of shape at least once among the first six
    ("sgd", "smooth", "last"),
    ("heavy ball", "constant", "uniform"),
    ("nesterov", "staged", "tail"),
    ("schedule-free", "constant", "last"),
    ("accelerated", "constant", "tail"),
    ("weight decay", "any", "exponential"),
    ("sgd", "staged", "uniform"),
    ("sgd", "constant", "tail"),
    ("heavy ball", "smooth", "last"),
    ("heavy ball", "any", "window"),
    ("nesterov", "constant", "last"),
    ("schedule-free", "smooth", "last"),
    ("accelerated", "smooth", "window"),
    ("weight decay", "constant", "uniform"),
    ("weight decay", "smooth", "last"),
]
SAMPLERS = "sufficient", "explicit"


def cases(**quick):
    """All rows with both samplers; those that are not among the places of each sampler are slow."""
    return [
        (*row, sampler) if place in quick[sampler] else slow(*row, sampler)
        for place, row in enumerate(ROWS)
        for sampler in SAMPLERS
    ]


def exponential(path, decay):
    mean = path[0]
    for iterate in path[:-1]:
        mean = decay * mean + (1 - decay) * iterate
    return mean


def algorithm(method, shape, average):
    return st.Algorithm(METHODS[method], *SHAPES[shape], AVERAGES[average][0])


def simulated(algorithm, seed=0, problem=PROBLEM, **options):
    return st.simulate(
        jax.random.key(seed), problem, **({"num_replicas": 4000} | SETTING | options), algorithm=algorithm
    )


@pytest.mark.parametrize(("method", "shape", "average", "sampler"), cases(sufficient=(1, 3, 4), explicit=(0, 2, 5)))
def test_risks_have_the_law_of_the_textbook(method, shape, average, sampler):
    """Average and last iterate after eight steps; false alarm 1e-4 over all cases."""
    samples = 32 if shape == "constant" else 40
    one = algorithm(method, shape, average)
    found = simulated(one, num_samples=samples, sampler=sampler)
    n = float(found.num_steps)
    assert 5 <= n <= 12
    course = Course(one, 4.0, SETTING["learning_rate"], n)
    steps = np.arange(n)
    settings = METHODS[method], course.rates(steps), course.batches(steps), AVERAGES[average][1]
    dense = textbook.risks(np.random.default_rng(1), PROBLEM, *settings, 4000)
    mine = np.column_stack([found.excess_risk, found.last_iterate_risk])
    assert two_sample_p(mine, np.column_stack(dense)) > FALSE_ALARM / (2 * len(ROWS))


@pytest.mark.slow
@pytest.mark.parametrize(
    ("name", "one", "other"),
    [
        ("heavy ball without momentum", st.Algorithm(st.HeavyBall(0)), st.Algorithm()),
        slow("nesterov without momentum", st.Algorithm(st.Nesterov(0)), st.Algorithm()),
        slow("stages of one value", st.Algorithm(schedule=st.Stages([0, 0.5], [1, 1])), st.Algorithm()),
        slow("batches of one value", st.Algorithm(batch_schedule=st.Stages([0, 0.5], [1, 1])), st.Algorithm()),
        ("a tail of everything", st.Algorithm(average=st.TailAverage(1.0)), st.Algorithm()),
        (
            "a function",
            st.Algorithm(st.HeavyBall(0.5), lambda t: 1 - t / 40, average=LAST),
            st.Algorithm(st.HeavyBall(0.5), st.Linear(), average=LAST),
        ),
    ],
)
@pytest.mark.parametrize("sampler", ["sufficient", slow("explicit")])
def test_equal_algorithms_are_equal_replica_by_replica(name, one, other, sampler):
    options = {"num_replicas": 6, "dtype": "float64", "sampler": sampler}
    first, second = simulated(one, **options), simulated(other, **options)
    np.testing.assert_allclose(first.excess_risk, second.excess_risk, rtol=1e-10)
    np.testing.assert_allclose(first.last_iterate_risk, second.last_iterate_risk, rtol=1e-10)


def test_schedule_free_without_interpolation_is_the_mean_of_what_follows_the_start():
    """From w_0 = w* on the start does not count: Σ_{t=1}^n w_t is the sum of n + 1 iterates."""
    n, options = 30, {"num_replicas": 6, "dtype": "float64", "quantity": "variance"}
    mean = simulated(st.Algorithm(st.ScheduleFree(0), average=LAST), num_samples=4 * n, **options)
    sums = simulated(st.Algorithm(), num_samples=4 * (n + 1), **options)
    np.testing.assert_allclose(mean.excess_risk, ((n + 1) / n) ** 2 * sums.excess_risk, rtol=1e-10)


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


class TwiceAsLong(st.LinearMethod):
    """SGD with weights that are kept at twice their size; of a user."""

    start, output = (2,), (0.5,)

    def coefficients(self, rate, step):
        return st.Coefficients([[1]], [2 * rate], [0.5])


@pytest.mark.slow
def test_a_single_vector_may_begin_anywhere():
    options = {"num_replicas": 6, "dtype": "float64"}
    found, sgd = (simulated(st.Algorithm(method, st.Cosine()), **options) for method in (TwiceAsLong(), st.SGD()))
    np.testing.assert_allclose(found.excess_risk, sgd.excess_risk, rtol=1e-10)
    np.testing.assert_allclose(found.last_iterate_risk, sgd.last_iterate_risk, rtol=1e-10)


@pytest.mark.parametrize("quantity", [slow("bias"), "variance"])
def test_parts_of_the_risk(quantity):
    one = algorithm("weight decay", "smooth", "window")
    found = simulated(one, quantity=quantity)
    assert abs(found.normal_score(getattr(st.excess_risk(PROBLEM, **SETTING, algorithm=one), quantity))) < normal_limit(
        2
    )


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


@pytest.mark.parametrize("unit", [slow(1e-40), slow(1e9), 1e100])
@pytest.mark.parametrize(
    "method", ["heavy ball", *(slow(name) for name in ("nesterov", "accelerated", "weight decay"))]
)
def test_units_do_not_matter(method, unit):
    decay = 0.3 * unit if method == "weight decay" else None
    scaled = METHODS[method] if decay is None else st.SGD(weight_decay=decay)
    other = st.LeastSquares(unit * PROBLEM.eigenvalues, PROBLEM.signal, PROBLEM.noise_variance)
    options = {"num_replicas": 37}
    found = simulated(st.Algorithm(METHODS[method], st.Cosine()), **options)
    again = simulated(st.Algorithm(scaled, st.Cosine()), problem=other, **options, learning_rate=0.12 / unit)
    np.testing.assert_allclose(again.excess_risk, found.excess_risk, rtol=1e-5)


@pytest.mark.slow
@pytest.mark.parametrize(
    "method",
    ["schedule-free", "accelerated", *(slow(name) for name in ("sgd", "heavy ball", "nesterov", "weight decay"))],
)
def test_a_direction_in_which_nothing_happens_stays_where_it_is(method):
    """20,000 steps in float32; A of the accelerated method has rows that rounding keeps from adding up to 1."""
    problem = st.LeastSquares([1.0, 0.0], [0.0, 2.0], 0.0)
    one = st.Algorithm(METHODS[method], average=LAST)
    batch = 2.0**80  # and so no noise
    found = simulated(one, problem=problem, num_replicas=1, batch_size=batch, num_samples=20_000 * batch)
    np.testing.assert_allclose(found.excess_risk, 2.0, rtol=3e-7)


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
    ("algorithm", "options", "message"),
    [
        (st.HeavyBall(0.9), {}, "algorithm must be an Algorithm"),
        (
            st.Algorithm(batch_schedule=st.Stages([0, 0.5], [1, 1e6])),
            {"batch_size": 2000, "num_samples": 1e10},
            "batch_schedule must keep batch sizes up to 1.07374e.09 for this sampler, got 2e.09; lower it",
        ),
        (st.Algorithm(batch_schedule=st.Linear(final=2)), {"num_samples": 1e12}, "at most 2147483647 steps"),
    ],
)
def test_what_is_refused(algorithm, options, message):
    with pytest.raises(ValueError, match=message):
        simulated(algorithm, **options, sampler="explicit")
