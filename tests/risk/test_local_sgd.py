"""Local SGD and DiLoCo against powers of the map of all second moments of K explicit workers, and against sampling."""

from dataclasses import replace

import numpy as np
import pytest

import sgdtheory as st
from sgdtheory.algorithms import algorithm_settings, make_algorithm
from sgdtheory.risk.systems import mean_path
from sgdtheory.risk.systems import periodic as period
from tests.marks import slow
from tests.risk.test_mean_path import by_steps
from tests.simulation.statistical import normal_limit, standard_score

PROBLEM = st.LeastSquares([1.0, 0.1, 0.01], [0.6, 0.5, 0.4], 0.7)
POWER = st.PowerLaw(2.0, 3.0)
METHODS = (
    st.LocalSGD(3, 4),
    st.LocalSGD(1, 6, outer_learning_rate=1.2, outer_momentum=0.3),
    st.LocalSGD(2, 5, outer_learning_rate=0.7, outer_momentum=0.9),
    st.LocalSGD(3, 3, outer_learning_rate=0.8, outer_momentum=0.5, inner_momentum=0.4),
    st.LocalSGD(2, 1, outer_learning_rate=0.7, outer_momentum=0.5, inner_momentum=0.5),
)
AVERAGES = (st.LastIterate(), st.UniformAverage(), st.TailAverage(0.3), st.ExponentialAverage(0.99))


class Workers:
    """E u uᵀ of each direction, u = (m, p, v_1 … v_K, b_1 … b_K, S): a linear map of these moments and of σ².

    Args:
        method: whose numbers are taken; none of its functions.
        wrong: "independent workers" drops their covariance where they talk, "one batch" gives all the same noise.
    """

    def __init__(self, problem, method, batch, wrong=""):
        self.eigenvalue, self.signal = np.array(problem.eigenvalues), np.array(problem.signal)
        self.noise = problem.noise_variance
        self.method, self.batch, self.wrong = method, batch, wrong
        self.k = method.num_workers
        self.v, self.b = slice(2, 2 + self.k), slice(2 + self.k, 2 + 2 * self.k)
        self.size = 3 + 2 * self.k
        self.shape = self.eigenvalue.size, self.size, self.size

    def start(self, averaged_iterate=False):
        vector = np.zeros(self.size)
        vector[[0, *range(2, 2 + self.k)]] = 1
        vector[-1] = averaged_iterate
        return np.multiply.outer(self.signal / self.eigenvalue, np.outer(vector, vector))

    def after(self, moments, noise, rate, talks, keep=1.0, weight=0.0, batch=None):
        """One step, from the moments (…, d, N, N) and σ² (…)."""
        found = np.empty_like(moments)
        own = np.einsum("...kk->...k", moments[..., self.v, self.v])
        risks = np.einsum("i,...ik->...k", self.eigenvalue, own)
        for i, eigenvalue in enumerate(self.eigenvalue):
            matrix = np.eye(self.size)
            matrix[self.b, self.b] *= self.method.inner_momentum
            matrix[self.b, self.v] = eigenvalue * np.eye(self.k)
            matrix[self.v] -= rate * matrix[self.b]
            matrix[-1, -1] = keep
            matrix[-1, self.v] = weight / self.k
            drawn = (eigenvalue**2 * own[..., i, :] + eigenvalue * (risks + noise[..., None])) / (batch or self.batch)
            spread = np.zeros((self.size, self.k))
            spread[self.v] = -rate * np.eye(self.k)
            spread[self.b] = np.eye(self.k)
            between = np.ones((self.k, self.k)) if self.wrong == "one batch" else np.eye(self.k)
            between = between * drawn[..., None]  # the same for all workers
            found[..., i, :, :] = matrix @ moments[..., i, :, :] @ matrix.T + spread @ between @ spread.T
        return self.outer(found) if talks else found

    def outer(self, moments):
        if self.wrong == "independent workers":
            moments = moments.copy()
            moments[..., self.v, self.v] *= np.eye(self.k)
        gap = np.zeros(self.size)
        gap[0], gap[self.v] = 1, -1 / self.k
        push = gap.copy()
        push[1] = self.method.outer_momentum
        common = -self.method.outer_learning_rate * (gap + self.method.outer_momentum * push)
        common[0] += 1
        matrix = np.eye(self.size)
        matrix[1], matrix[0], matrix[self.v] = push, common, common
        return matrix @ moments @ matrix.T

    def map(self, *arguments):
        """`after` as a matrix on moments and σ²."""
        units = np.eye(int(np.prod(self.shape)) + 1)
        ended = self.after(units[:, :-1].reshape(-1, *self.shape), units[:, -1], *arguments)
        return np.hstack([ended.reshape(len(units), -1), units[:, -1:]]).T

    def risk(self, average, rate, steps):
        """After so many steps, by powers of the map of a round."""
        h = self.method.local_steps
        first = int(min(average.first(steps), steps))
        state = np.array([*self.start(average.starts_at_iterate()).ravel(), self.noise])
        keeping = 1 - average.forgetting(steps), average.weight(steps)
        for low, high, kept in ((0, first, (1.0, 0.0)), (first, steps, keeping)):
            plain, last = (self.map(rate, talks, *kept) for talks in (False, True))
            while low < high and low % h:
                state = (last if (low + 1) % h == 0 else plain) @ state
                low += 1
            rounds, left = divmod(high - low, h)
            whole = np.linalg.matrix_power(last @ np.linalg.matrix_power(plain, h - 1), rounds)
            state = np.linalg.matrix_power(plain, left) @ (whole @ state)
        return self.returned(state[:-1].reshape(self.shape), average, steps)

    def returned(self, moments, average, steps):
        shares = average.returned(steps, steps)
        shown = np.zeros(self.size)
        shown[self.v], shown[-1] = shares.iterate / self.k, shares.total
        return self.eigenvalue @ np.einsum("inm,n,m->i", moments, shown, shown)


def risk_of(method, average, batch, rate, steps, problem=PROBLEM, **shapes):
    algorithm = st.Algorithm(method, average=average, **shapes)
    samples = method.num_workers * batch * steps
    return st.excess_risk(problem, batch_size=batch, learning_rate=rate, num_samples=samples, algorithm=algorithm)


@pytest.mark.parametrize("average", AVERAGES, ids=lambda each: type(each).__name__)
@pytest.mark.parametrize("method", [METHODS[0], slow(METHODS[1]), *METHODS[2:4], slow(METHODS[4])], ids=str)
def test_a_few_steps_and_a_million_rounds_are_those_of_explicit_workers(method, average):
    workers = Workers(PROBLEM, method, 2)
    for steps in (7, 1003, 10**6 * method.local_steps + 2):
        found = float(risk_of(method, average, 2, 0.15, steps).total)
        assert abs(found / workers.risk(average, 0.15, steps) - 1) < 1e-8


@pytest.mark.parametrize(
    "wrong",
    ["independent workers", "one batch", {"local_steps": 5}, {"num_workers": 2}, {"outer_momentum": 0.55}],
    ids=str,
)
def test_wrong_laws_are_noticed(wrong):
    """Controls."""
    method = st.LocalSGD(3, 4, outer_learning_rate=0.8, outer_momentum=0.5)
    found = float(risk_of(method, AVERAGES[0], 2, 0.3, 403).total)
    named = isinstance(wrong, str)
    other = Workers(PROBLEM, method, 2, wrong) if named else Workers(PROBLEM, replace(method, **wrong), 2)
    assert abs(found / Workers(PROBLEM, method, 2).risk(AVERAGES[0], 0.3, 403) - 1) < 1e-10
    assert abs(found / other.risk(AVERAGES[0], 0.3, 403) - 1) > 3e-4


def test_schedules_and_batch_ramps_are_those_of_every_step():
    shapes = {"schedule": st.Cosine(), "batch_schedule": st.Stages([0.0, 0.4], [1.0, 3.0])}
    algorithm = st.Algorithm(METHODS[3], average=AVERAGES[1], **shapes)
    setting = {"batch_size": 2, "learning_rate": 0.3, "num_samples": 1500}
    path = st.risk_path(PROBLEM, **setting, algorithm=algorithm, points=4)
    steps = int(path.num_steps[-1])
    workers = Workers(PROBLEM, METHODS[3], 2)
    moments, used = workers.start(), 0
    for step in range(steps):
        rate = 0.3 * (1 + np.cos(np.pi * step / steps)) / 2
        batch = 2 if step / steps < 0.4 else 6
        moments = workers.after(moments, np.array(0.7), rate, (step + 1) % 3 == 0, 1.0, 1.0, batch)
        used += 3 * batch
    assert used == path.num_samples[-1] <= 1500 < used + 18
    np.testing.assert_allclose(path.average.total[-1], workers.returned(moments, AVERAGES[1], steps), rtol=1e-11)
    np.testing.assert_allclose(path.iterate.total[-1], workers.returned(moments, AVERAGES[0], steps), rtol=1e-11)


@pytest.mark.parametrize("average", AVERAGES, ids=lambda each: type(each).__name__)
@pytest.mark.parametrize("steps", [5, 900, 10**8])
def test_one_worker_that_always_talks_is_sgd_and_more_of_them_are_a_larger_batch(steps, average):
    for workers in (1, 6):
        found = risk_of(st.LocalSGD(workers, 1), average, 4, 0.3, steps, POWER)
        plain = risk_of(st.LocalSGD(1, 1), average, 4 * workers, 0.3, steps, POWER)
        algorithm = st.Algorithm(average=average)
        setting = {"batch_size": 4 * workers, "learning_rate": 0.3, "num_samples": 4 * workers * steps}
        expected = st.excess_risk(POWER, **setting, algorithm=algorithm)
        for part in ("bias", "variance"):
            np.testing.assert_allclose(getattr(found, part), getattr(expected, part), rtol=1e-10)
            np.testing.assert_allclose(getattr(plain, part), getattr(expected, part), rtol=1e-10)


def test_one_worker_that_seldom_talks_is_sgd_too():
    """Its outer step is none with η = 1, and so is its risk within a round."""
    for steps in (300, 30_011):
        found = risk_of(st.LocalSGD(1, 17), AVERAGES[1], 4, 0.3, steps, POWER)
        expected = st.excess_risk(POWER, batch_size=4, learning_rate=0.3, num_samples=4 * steps)
        np.testing.assert_allclose(found.total, expected.total, rtol=1e-10)


def test_long_rounds_need_some_of_their_steps_alone(monkeypatch):
    """Noise at some 90 of 300 steps says what it does at all of them; at some 40, not."""
    method = st.LocalSGD(4, 300, outer_learning_rate=0.7, outer_momentum=0.6)
    found = risk_of(method, AVERAGES[1], 2, 0.2, 300 * 1000 + 7, POWER).total
    assert period.told_apart(300, period.EVERY_STEP)[0].size < 90
    with monkeypatch.context() as fewer:
        fewer.setattr(period, "STEPS_A_DOUBLING", 4)
        few = risk_of(method, AVERAGES[1], 2, 0.2, 300 * 1000 + 7, POWER).total
    monkeypatch.setattr(period, "EVERY_STEP", 300)
    every = risk_of(method, AVERAGES[1], 2, 0.2, 300 * 1000 + 7, POWER).total
    assert abs(found / every - 1) < 1e-12
    assert abs(few / every - 1) > 1e-9


@pytest.mark.parametrize("method", METHODS[1:3], ids=str)
def test_paths_pass_by_the_risks_of_shorter_runs(method):
    algorithm = st.Algorithm(method, average=AVERAGES[3])
    setting = {"batch_size": 2, "learning_rate": 0.2}
    samples = 2 * method.num_workers * 1500
    path = st.risk_path(PROBLEM, **setting, num_samples=samples, algorithm=algorithm, points=9)
    assert path.num_samples[-1] == samples
    alone = st.excess_risk(PROBLEM, **setting, num_samples=path.num_samples[1:], algorithm=algorithm)
    np.testing.assert_allclose(path.average.total[1:], alone.total, rtol=1e-10)


@pytest.mark.parametrize("method", METHODS[:4], ids=str)
def test_at_the_edge_a_round_leaves_some_moment_as_it_is(method):
    edge = float(st.max_stable_learning_rate(PROBLEM, batch_size=2, algorithm=st.Algorithm(method)))
    workers = Workers(PROBLEM, method, 2)
    for rate, low, high in ((edge, 1 - 1e-9, 1 + 1e-9), (1.01 * edge, 1 + 1e-4, 9), (0.99 * edge, 0, 1 - 1e-4)):
        plain, last = (workers.map(rate, talks)[:-1, :-1] for talks in (False, True))
        largest = last @ np.linalg.matrix_power(plain, method.local_steps - 1)
        kept = np.arange(workers.shape[0] * workers.size**2).reshape(workers.shape)[:, :-1, :-1].ravel()  # without S
        assert low <= np.abs(np.linalg.eigvals(largest[np.ix_(kept, kept)])).max() <= high


def test_the_edge_lies_between_those_of_a_worker_and_of_all():
    alone, together = st.max_stable_learning_rate(POWER, batch_size=[4, 32])
    edges = [
        float(st.max_stable_learning_rate(POWER, batch_size=4, algorithm=st.Algorithm(st.LocalSGD(8, steps))))
        for steps in (1, 4, 30)
    ]
    assert edges[0] == pytest.approx(together, rel=1e-10)
    assert together > edges[1] > edges[2] > alone
    single = st.max_stable_learning_rate(POWER, batch_size=4, algorithm=st.Algorithm(st.LocalSGD(1, 30)))
    assert single == pytest.approx(alone, rel=1e-10)
    grown = risk_of(st.LocalSGD(8, 4), AVERAGES[0], 4, edges[1] * 1.05, 20_000, POWER)
    assert float(grown.total) > 1e20


@pytest.mark.parametrize("average", AVERAGES, ids=lambda each: type(each).__name__)
@pytest.mark.parametrize("steps", [3, 26, 101])
def test_mean_paths_by_rounds_are_those_by_steps(steps, average):
    algorithm = st.Algorithm(METHODS[3], average=average)
    arguments = algorithm, np.array([1.0, 0.1]), np.array([0.1, 0.5]), steps
    np.testing.assert_allclose(mean_path.mean_paths(*arguments), by_steps(*arguments), rtol=1e-11)


def sampled(method, batch, rate, steps, replicas, seed):
    """(R,) risks of w̄ and of v̄ at the end, with every sample drawn."""
    rng = np.random.default_rng(seed)
    root = np.sqrt(PROBLEM.eigenvalues)
    workers = np.broadcast_to(np.sqrt(PROBLEM.signal) / root, (replicas, method.num_workers, 3)).copy()
    common, push, inner = workers[:, 0].copy(), 0.0, 0.0
    total = np.zeros((replicas, 3))
    for step in range(steps):
        total += workers.mean(1)
        x = rng.standard_normal((*workers.shape[:2], batch, 3)) * root
        noise = np.sqrt(0.7) * rng.standard_normal(x.shape[:3])
        residual = np.einsum("rkbd,rkd->rkb", x, workers) - noise
        inner = method.inner_momentum * inner + np.einsum("rkb,rkbd->rkd", residual, x) / batch
        workers = workers - rate * inner
        if (step + 1) % method.local_steps == 0:
            gap = common - workers.mean(1)
            push = method.outer_momentum * push + gap
            common = common - method.outer_learning_rate * (gap + method.outer_momentum * push)
            workers = np.repeat(common[:, None], method.num_workers, axis=1)
    found = total / steps, workers.mean(1)
    return [(each * root) ** 2 @ np.ones(3) for each in found]


@pytest.mark.parametrize("method", [METHODS[2], METHODS[3]], ids=str)
def test_sampled_workers_have_this_risk(method):
    mean, last = sampled(method, 2, 0.25, 23, 10_000, seed=1)
    for values, average in ((mean, AVERAGES[1]), (last, AVERAGES[0])):
        assert abs(standard_score(values, float(risk_of(method, average, 2, 0.25, 23).total))) < normal_limit(4)
    wrong = replace(method, num_workers=method.num_workers + 1)
    assert abs(standard_score(last, float(risk_of(wrong, AVERAGES[0], 2, 0.25, 23).total))) > normal_limit(4)


@pytest.mark.parametrize("sampler", ["sufficient", slow("explicit")])
def test_simulated_workers_have_this_risk(sampler):
    import jax

    method = st.LocalSGD(4, 6, outer_learning_rate=0.7, outer_momentum=0.5, inner_momentum=0.3)
    algorithm = st.Algorithm(method, average=AVERAGES[1])
    setting = {"batch_size": 2, "learning_rate": 0.2, "num_samples": 4 * 2 * 26}
    found = st.simulate(jax.random.key(1), PROBLEM, **setting, num_replicas=2000, algorithm=algorithm, sampler=sampler)
    last = float(risk_of(method, AVERAGES[0], 2, 0.2, 26).total)
    assert abs(found.z_score(float(risk_of(method, AVERAGES[1], 2, 0.2, 26).total))) < normal_limit(2)
    assert abs(standard_score(found.last_iterate_risk, last)) < normal_limit(2)
    wrong = float(risk_of(replace(method, num_workers=2), AVERAGES[0], 2, 0.2, 26).total)
    assert abs(standard_score(found.last_iterate_risk, wrong)) > normal_limit(2)


@pytest.mark.slow
def test_one_simulated_worker_is_simulated_sgd():
    import jax

    setting = {"batch_size": 4, "learning_rate": 0.2, "num_samples": 4000, "num_replicas": 8, "dtype": "float64"}
    found = [
        st.simulate(jax.random.key(2), PROBLEM, **setting, algorithm=st.Algorithm(method)).excess_risk
        for method in (st.SGD(), st.LocalSGD(1, 1), st.LocalSGD(1, 7))
    ]
    np.testing.assert_allclose(found[1], found[0], rtol=1e-12)
    np.testing.assert_allclose(found[2], found[0], rtol=1e-12)


def test_words_make_it():
    algorithm = make_algorithm(algorithm_settings("local num_workers=4 local_steps=10 outer_momentum=0.9 last"))
    assert algorithm == st.Algorithm(st.LocalSGD(4, 10, outer_momentum=0.9), average=AVERAGES[0])


@pytest.mark.parametrize(
    ("values", "message"),
    [
        ({"num_workers": 0}, "num_workers must be a whole number of at least 1, got 0"),
        ({"local_steps": 2.5}, "local_steps must be a whole number of at least 1, got 2.5"),
        ({"outer_learning_rate": 0.0}, "outer_learning_rate must be positive and finite, got 0"),
        ({"outer_momentum": 1.0}, "outer_momentum must be at least 0 and below 1, got 1"),
        ({"inner_momentum": -0.1}, "inner_momentum must be at least 0 and below 1, got -0.1"),
    ],
)
def test_numbers_out_of_range(values, message):
    with pytest.raises(ValueError, match=message):
        st.LocalSGD(**{"num_workers": 2, "local_steps": 3} | values)


def test_samples_have_to_be_enough_for_a_step_of_all_workers():
    algorithm = st.Algorithm(st.LocalSGD(8, 3))
    setting = {"batch_size": 4, "num_samples": 31, "algorithm": algorithm}
    message = "one step of all 8 workers, got 31 with batch_size 4 of each"
    with pytest.raises(ValueError, match=message):
        st.excess_risk(PROBLEM, learning_rate=0.1, **setting)
    with pytest.raises(ValueError, match=message):
        st.optimal_learning_rate(PROBLEM, **setting)
    with pytest.raises(ValueError, match="at least 2 for each of 8 workers"):
        st.critical_batch_size(PROBLEM, num_samples=15, algorithm=algorithm)
    with pytest.raises(ValueError, match="method must be SGD"):
        st.optimal_schedule(PROBLEM, num_samples=400, num_steps=100, method=st.LocalSGD(8, 3))
