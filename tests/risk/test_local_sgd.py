"""Local SGD and DiLoCo against explicit workers: their exact moments (more in test_regimes), and simulations."""

from dataclasses import replace

import numpy as np
import pytest

import sgdtheory as st
from sgdtheory.risk.systems import periodic as period
from tests import oracle
from tests.marks import slow
from tests.simulation.statistical import normal_limit, standard_score

PROBLEM = st.LeastSquares([1.0, 0.1, 0.01], [0.6, 0.5, 0.4], 0.7)
PAIR = st.LeastSquares([1.0, 0.1], [0.6, 0.5], 0.7)
POWER = st.PowerLaw(2.0, 3.0)
AVERAGES = (st.LastIterate(), st.UniformAverage(), st.TailAverage(0.3), st.ExponentialAverage(0.99))


def risk_of(method, average, batch, rate, steps, problem=PROBLEM, **shapes):
    algorithm = st.Algorithm(method, average=average, **shapes)
    samples = method.num_workers * batch * steps
    return st.excess_risk(problem, batch_size=batch, learning_rate=rate, num_samples=samples, algorithm=algorithm)


@pytest.mark.parametrize("wrong", [{"local_steps": 5}, {"num_workers": 3}, {"outer_momentum": 0.55}], ids=str)
def test_wrong_numbers_are_noticed(wrong):
    """Controls of the exact moments of explicit workers."""
    method = st.LocalSGD(2, 4, outer_learning_rate=0.8, outer_momentum=0.5)
    right, other = (st.Algorithm(each, average=AVERAGES[0]) for each in (method, replace(method, **wrong)))
    found = float(risk_of(method, AVERAGES[0], 2, 0.3, 403, PAIR).total)
    assert abs(found / oracle.risk(PAIR, right, [(2, 0.3, 403)]) - 1) < 1e-10
    assert abs(found / oracle.risk(PAIR, other, [(2, 0.3, 403)]) - 1) > 3e-4


def test_schedules_and_batch_ramps_are_those_of_every_step():
    shapes = {"schedule": st.Cosine(), "batch_schedule": st.Stages([0.0, 0.4], [1.0, 3.0])}
    method = st.LocalSGD(2, 3, outer_learning_rate=0.8, outer_momentum=0.5, inner_momentum=0.4)
    setting = {"batch_size": 2, "learning_rate": 0.3, "num_samples": 260}
    path = st.risk_path(PAIR, **setting, algorithm=st.Algorithm(method, average=AVERAGES[1], **shapes), points=4)
    steps = int(path.num_steps[-1])
    rates = 0.3 * (1 + np.cos(np.pi * np.arange(steps) / steps)) / 2
    batches = np.where(np.arange(steps) / steps < 0.4, 2, 6)
    assert 2 * batches.sum() == path.num_samples[-1] <= 260 < path.num_samples[-1] + 12
    for average, found in ((AVERAGES[1], path.average), (AVERAGES[0], path.iterate)):
        segments = list(zip(batches, rates, np.ones(steps, int).tolist(), strict=True))
        exact = oracle.risk(PAIR, st.Algorithm(method, average=average), segments)
        np.testing.assert_allclose(found.total[-1], exact, rtol=1e-11)


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
