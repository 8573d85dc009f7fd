"""The approximate critical batch size against the exact one, which finds whole batch sizes by another search."""

import numpy as np
import pytest

import sgdtheory as st
from tests.marks import slow

LAST = st.LastIterate()
ALGORITHMS = {
    "sgd": st.Algorithm(),
    "last": st.Algorithm(average=LAST),
    "tail": st.Algorithm(average=st.TailAverage(0.5)),
    "cosine": st.Algorithm(schedule=st.Cosine(), average=LAST),
    "cosine, averaged": st.Algorithm(schedule=st.Cosine()),
    "decay at the end": st.Algorithm(schedule=st.WSD(), average=LAST),
    "ramp": st.Algorithm(batch_schedule=st.Stages.from_text("0:0.25,0.5:1"), average=LAST),
    "heavy ball": st.Algorithm(method=st.HeavyBall(0.9)),
    "nesterov": st.Algorithm(method=st.Nesterov(0.8), schedule=st.Linear(), average=LAST),
}
SETTINGS = [(1.5, 2.5, 1.0, 3e4, 0.2), (2.0, 5.0, 0.1, 2e5, 0.5), (3.0, 4.0, 10.0, 1e4, 0.1)]


@pytest.mark.parametrize(
    ("name", "setting"),
    [
        (name, setting) if setting is SETTINGS[0] and name in ("sgd", "cosine") else slow(name, setting)
        for name in ALGORITHMS
        for setting in SETTINGS
    ],
)
def test_it_is_near_the_exact_one(name, setting):
    capacity, source, noise, samples, overhead = setting
    problem = st.PowerLaw(capacity, source, noise_variance=noise)
    given = {"num_samples": samples, "overhead": overhead, "algorithm": ALGORITHMS[name]}
    found = st.approximate_critical_batch_size(problem, **given)
    exact = st.critical_batch_size(problem, curve=False, **given)
    assert found.batch_size == pytest.approx(exact.real_batch_size, rel=max(0.02, 2 / exact.num_steps))
    assert found.optimal_risk == pytest.approx(exact.optimal_risk, rel=2e-3)
    assert found.batch_size * found.num_steps == pytest.approx((1 + overhead) * samples)
    assert found.learning_rate == pytest.approx(exact.learning_rate, rel=0.2)


@pytest.mark.parametrize("name", ["sgd", "tail", "cosine"])
def test_its_risks_are_those_of_the_best_learning_rates(name):
    problem, samples, algorithm = st.PowerLaw(1.5, 3.0), 2.0**17, ALGORITHMS[name]
    found = st.approximate_critical_batch_size(problem, num_samples=samples, algorithm=algorithm)
    assert (np.diff(found.batch_sizes) > 0).all()
    assert found.optimal_risk == found.risks.min()
    assert found.batch_sizes[0] == 1
    sizes = 2.0 ** np.arange(13)  # up to 32 steps
    best = st.optimal_learning_rate(problem, batch_size=sizes, num_samples=samples, algorithm=algorithm)
    assert found.risk_at(sizes) == pytest.approx(best.risk, rel=0.1)
    rate = np.exp(np.interp(np.log(sizes), np.log(found.batch_sizes), np.log(found.learning_rates)))
    assert rate == pytest.approx(best.learning_rate, rel=0.25)
    assert np.isnan(found.risk_at([0.5, 2 * samples])).all()


def test_model_sizes_and_few_samples():
    problem = st.PowerLaw(2.0, 3.0).with_features(32)
    found = st.approximate_critical_batch_size(problem, num_samples=1e5)
    exact = st.critical_batch_size(problem, num_samples=1e5, curve=False)
    assert found.batch_size == pytest.approx(exact.real_batch_size, rel=0.02)
    few = st.approximate_critical_batch_size(st.PowerLaw(2.0, 3.0), num_samples=2)
    assert few.num_steps == 2
    assert few.batch_size == pytest.approx(1.2)


@pytest.mark.slow
def test_a_first_guess_far_off_is_mended():
    """The best γ of fewer steps is not that of more: there the risk at the same γ says little."""
    problem, algorithm = st.PowerLaw(4.0, 1.24, noise_variance=5.4), st.Algorithm(method=st.HeavyBall(0.9))
    given = {"num_samples": 1e5, "overhead": 1.0, "algorithm": algorithm}
    found = st.approximate_critical_batch_size(problem, **given)
    exact = st.critical_batch_size(problem, curve=False, **given)
    assert found.batch_size == pytest.approx(exact.real_batch_size, rel=0.02)


@pytest.mark.parametrize(
    ("setting", "words"),
    [
        ({"num_samples": 1}, "num_samples must be at least 2"),
        ({"num_samples": [100.0, 1000.0]}, "num_samples must be a single number"),
        ({"num_samples": 100, "overhead": 0.0}, "overhead must be"),
    ],
)
def test_bad_input(setting, words):
    with pytest.raises(ValueError, match=words):
        st.approximate_critical_batch_size(st.PowerLaw(2.0, 3.0), **setting)


# ------------------------------------------------------------------ a known risk
