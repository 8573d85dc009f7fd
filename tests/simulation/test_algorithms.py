"""Every method, schedule and average: in law, in means, replica by replica, and mistakes that must be found out."""

import jax
import numpy as np
import pytest

import sgdtheory as st
from sgdtheory.algorithms import Course
from sgdtheory.simulation import method_program, tables
from sgdtheory.simulation.deviation import _by_steps, standard_deviation
from sgdtheory.simulation.dynamics import Lane, Spectrum
from sgdtheory.simulation.explicit import Explicit
from sgdtheory.simulation.laws import Gaussian
from sgdtheory.simulation.linear_dynamics import State, Table, step
from sgdtheory.simulation.method_dynamics import Replica
from sgdtheory.simulation.sufficient import Sufficient
from sgdtheory.simulation.tables import make_table
from tests.marks import slow
from tests.simulation import numpy_sgd, textbook
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


@pytest.mark.parametrize(("method", "shape", "average", "sampler"), cases(sufficient=(2,), explicit=()))
def test_mean_is_the_exact_risk(method, shape, average, sampler):
    """False alarm 1e-4 over all cases."""
    one = algorithm(method, shape, average)
    found = simulated(one, sampler=sampler)
    score = found.normal_score(st.excess_risk(PROBLEM, **SETTING, algorithm=one).total)
    assert abs(score) < normal_limit(2 * len(ROWS))


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


def stepped(method, sampler, size, seed=0):
    """(size, k, d) vectors one step (number 2) after a given state, in the coordinates of the eigenbasis."""
    course = Course(st.Algorithm(method), 3.0, 0.4, 9.0)
    spectrum = Spectrum(*(np.asarray(a, np.float64) for a in (PROBLEM.eigenvalues, [0.6, -0.8, 0.3], 0.5**0.5)))
    moved = some_state(method)[1]
    words = np.random.default_rng(seed).integers(0, 2**32, (size, 2), dtype=np.uint32)
    with jax.enable_x64(True):
        row = Table(*(each[0] for each in make_table([course], 1.0, 2, 1)))
        zeros = np.zeros(3)
        state = State(tuple(moved), (zeros,) * len(moved), zeros, zeros)
        lanes = Lane(words, np.zeros(size), np.full(size, 3.0))
        drawn = sampler.draws(lanes, np.uint32(0))[2] if isinstance(sampler, Sufficient) else ()

        def one(key, draw):
            replica = Replica(key, 0, np.uint32(0), 0.0, 1.0, 0.0)
            fixed = sampler, len(moved), spectrum, tables.with_start(method)
            return step(*fixed, replica, state, np.uint32(2), row, draw).moved_low

        added = jax.jit(jax.vmap(one))(lanes.key, drawn)
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
    after = update(vectors, task.gradient(3), 0.4, 2, **settings)
    errors = np.stack([task.whitened(a - task.optimum * b) for a, b in zip(after, begins, strict=True)], axis=1)
    return np.linalg.inv(own) @ errors


def vectors_of_textbook(method):
    """The textbook's vectors from those of the method's state: (x, v) from (y, v − x) of accelerated SGD."""
    if isinstance(method, st.AcceleratedSGD):
        return np.array([[1.0, method.coupling - 1], [1.0, method.coupling]])
    return np.eye(len(method.start))


NAMES = list(METHODS)[:-1]
BATCHES = Explicit(Gaussian(), 4, varying=True)


@pytest.mark.parametrize(
    ("name", "sampler"),
    [
        *((name, Sufficient()) for name in NAMES),
        ("heavy ball", BATCHES),
        *(slow(name, BATCHES) for name in NAMES if name != "heavy ball"),
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
    if name == "heavy ball":
        wrong = textbook_step(method, textbook.nesterov, size)
        assert two_sample_p(columns(mine), columns(wrong)) < 1e-12


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


def test_an_average_that_forgets_everything_is_the_iterate_before_the_last():
    options = {"num_replicas": 6, "dtype": "float64"}
    forgetful = simulated(st.Algorithm(average=st.ExponentialAverage(decay=0)), **options)
    before = simulated(st.Algorithm(), num_samples=SETTING["num_samples"] - 4, **options)
    np.testing.assert_allclose(forgetful.excess_risk, before.last_iterate_risk, rtol=1e-10)


class LaterShare(st.ScheduleFree):
    """c_t = 1/(t + 2)."""

    def coefficients(self, rate, step):
        return super().coefficients(rate, step + 1)


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


def test_averaging_from_the_second_iterate_on_is_found_out():
    setting = {"batch_size": 2, "learning_rate": 0.4, "num_samples": 24}
    found = simulated(st.Algorithm(st.HeavyBall(0)), **setting)
    first, second = (
        numpy_sgd.second_moments(PROBLEM, batch_size=2, learning_rate=0.4, num_steps=12, first=number)[0]
        for number in (0, 1)
    )
    assert abs(found.normal_score(first)) < normal_limit(1)
    assert abs(found.normal_score(second)) > 6


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
    monkeypatch.setattr(method_program.MethodProgram, "TABLE_NUMBERS", 1)  # one block of steps each
    np.testing.assert_allclose(simulated(one, **options).excess_risk, whole.excess_risk, rtol=2e-5)
    parts = simulated(one, **options, memory_limit=2e4)
    np.testing.assert_allclose(parts.excess_risk, whole.excess_risk, rtol=2e-5)


def test_algorithms_of_as_many_vectors_share_a_compiled_program():
    options = {"num_replicas": 37}
    simulated(algorithm("heavy ball", "smooth", "last"), **options)
    before = method_program._compiled_advance._cache_size()
    for method in ("nesterov", "accelerated", "schedule-free"):
        for shape in ("smooth", "staged", "any"):
            simulated(algorithm(method, shape, "tail"), **options, learning_rate=0.05, num_samples=999)
    assert method_program._compiled_advance._cache_size() == before
    simulated(algorithm("sgd", "smooth", "last"), **options)  # control: one vector
    assert method_program._compiled_advance._cache_size() == before + 1


def test_ctrl_c_keeps_what_has_finished(monkeypatch):
    one, calls, original = algorithm("heavy ball", "smooth", "last"), [], method_program._compiled_advance
    whole = simulated(one, num_samples=[40, 4000], num_replicas=37)

    def advance(*arguments):
        calls.append(0)
        if len(calls) > 3:
            raise KeyboardInterrupt
        return original(*arguments)

    monkeypatch.setattr(method_program, "_compiled_advance", advance)
    found = simulated(one, num_samples=[40, 4000], num_replicas=37)
    assert found.interrupted
    np.testing.assert_array_equal(found.excess_risk[0], whole.excess_risk[0])
    assert np.isnan(found.excess_risk[1]).all()


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


def arrays(setting):
    return {name: np.asarray(float(value)) for name, value in setting.items()}


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


@pytest.mark.parametrize("quantity", ["total", "bias", "variance"])
def test_the_deviation_step_by_step_is_that_of_the_closed_form(quantity):
    setting = arrays(INFINITE_SETTING)
    stepwise = _by_steps(INFINITE, setting, st.Algorithm(), quantity)
    assert stepwise == pytest.approx(float(standard_deviation(INFINITE, setting, quantity=quantity)), rel=0.02)


@pytest.mark.parametrize(
    ("method", "shape", "average"),
    [
        ("heavy ball", "smooth", "last"),
        slow("schedule-free", "constant", "last"),
        slow("accelerated", "any", "window"),
        slow("weight decay", "staged", "tail"),
    ],
)
@pytest.mark.parametrize("quantity", ["total", "bias", "variance"])
def test_the_deviation_is_estimated_from_below_but_not_far(method, shape, average, quantity):
    """A standard deviation of 4000 replicas is known to a few per cent."""
    one = algorithm(method, shape, average)
    found = simulated(one, quantity=quantity)
    assert 0.6 < float(standard_deviation(PROBLEM, arrays(SETTING), one, quantity)) / found.excess_risk.std() < 1.1


def test_a_diverging_method_is_reported():
    one = st.Algorithm(st.HeavyBall(0.9), average=LAST)
    assert simulated(one, learning_rate=50.0, num_samples=4000, num_replicas=37).diverged.all()


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
