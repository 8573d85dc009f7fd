"""The page's results equal direct calls of the library; answers come in order; simulation agrees."""

import time
from dataclasses import replace

import numpy as np
import pytest
from scipy.stats import t as student

import sgdtheory as st
from sgdtheory.explore.panels.path import REPLICAS
from sgdtheory.explore.registry import JOBS
from sgdtheory.explore.state import State
from tests.marks import slow

STATE = State(1.5, 4.0, 0.5, 2000.0, None, 8, 0.05, 0.3, second="heavy-ball momentum=0.5 last")
BOTH = st.Algorithm(), st.Algorithm(method=st.HeavyBall(0.5), average=st.LastIterate())
LAW = st.PowerLaw(1.5, 4.0, noise_variance=0.5)


def told(name, state, slot=0):
    found = []
    JOBS[name].compute(state, slot, found.append)
    return found


@pytest.mark.parametrize("slot", [0, 1])
@pytest.mark.parametrize("features", [None, 16])
def test_run(slot, features):
    state = replace(STATE, num_features=features)
    problem = LAW if features is None else LAW.with_features(features)
    setting = {"batch_size": 8, "learning_rate": 0.05, "num_samples": 2000, "algorithm": BOTH[slot]}
    (answer,) = told("run", state, slot)
    risk = st.excess_risk(problem, **setting)
    for part in ("bias", "variance", "total"):
        assert answer.marks[part] == pytest.approx(float(getattr(risk, part)), rel=1e-12)
    steady = st.Algorithm(method=BOTH[slot].method)
    assert answer.marks["edge"] == st.max_stable_learning_rate(problem, batch_size=8, algorithm=steady)
    assert answer.marks["num_steps"] == 250
    assert answer.columns["num_samples"][-1] == 2000
    end = "average" if slot == 0 else "iterate"
    assert answer.columns[end][-1] == pytest.approx(float(risk.total), rel=1e-10)
    assert answer.marks["missed"] == (0.0 if features is None else pytest.approx(problem.approximation_risk))
    assert ("theorem7" in answer.marks) == (slot == 0)


def test_the_best_rate_is_the_librarys():
    state = replace(STATE, learning_rate=None)
    for slot in range(2):
        best = st.optimal_learning_rate(LAW, batch_size=8, num_samples=2000, algorithm=BOTH[slot])
        (answer,) = told("run", state, slot)
        assert answer.marks["learning_rate"] == pytest.approx(float(best.learning_rate), rel=1e-12)
        assert answer.marks["total"] == pytest.approx(float(best.risk), rel=1e-9)
        assert answer.words == ()


@pytest.mark.parametrize(
    ("first", "words"), [("sgd", "grows without bound: lower γ"), ("linear last", "grows until γ has decayed")]
)
def test_a_rate_beyond_the_edge_is_told(first, words):
    (answer,) = told("run", replace(STATE, first=first, learning_rate=5.0))
    assert answer.marks["edge"] < 5.0
    assert answer.words[0].endswith(words)


@pytest.mark.parametrize("slot", [0, 1])
def test_rates(slot):
    found = told("rates", STATE, slot)
    assert [each.columns["risk"].size for each in found] == sorted(each.columns["risk"].size for each in found)
    assert len(found) == 1 + slot
    columns, edge = found[-1].columns, found[-1].marks["edge"]
    assert np.all(np.diff(columns["learning_rate"]) > 0)
    assert columns["learning_rate"][-1] == edge
    one = st.excess_risk(
        LAW, batch_size=8, learning_rate=columns["learning_rate"][30], num_samples=2000, algorithm=BOTH[slot]
    )
    assert columns["risk"][30] == pytest.approx(float(one.total), rel=1e-9)
    assert columns["bias"][30] + columns["variance"][30] == pytest.approx(float(one.total), rel=1e-9)


@pytest.mark.parametrize("slot", [0, 1])
def test_tuned(slot):
    answer = told("tuned", STATE, slot)[-1]
    sizes = answer.columns["batch_size"]
    assert np.all(np.diff(sizes) > 0)
    assert (sizes[0], sizes[-1]) == (1, 1000)
    place = sizes.size // 2
    best = st.optimal_learning_rate(LAW, batch_size=sizes[place], num_samples=2000, algorithm=BOTH[slot])
    assert answer.columns["risk"][place] == pytest.approx(float(best.risk), rel=1e-6)


SIGN = replace(STATE, num_samples=400.0, num_features=16, first="sign linear last", rate_factor=2.0, second="")
OF_SIGN = st.Algorithm(st.SignSGD(), st.Linear(), average=st.LastIterate())
AT_SIGN = {"num_samples": 400, "algorithm": OF_SIGN}


def test_a_method_that_is_not_linear_runs_at_a_multiple_of_its_best_rate():
    """Whatever the γ of the slider is, which has another unit; it has no edge, and is not exact."""
    (answer,) = told("run", SIGN)
    problem = LAW.with_features(16)
    best = st.optimal_learning_rate(problem, batch_size=8, **AT_SIGN).learning_rate
    assert answer.marks["learning_rate"] == 2 * best
    risk = st.excess_risk(problem, batch_size=8, learning_rate=2 * best, **AT_SIGN)
    assert answer.marks["total"] == risk.total
    assert "edge" not in answer.marks
    assert answer.words == (
        "sign linear last: its risk is that of a deterministic equivalent, accurate to about 0.7% here",
    )


@pytest.mark.slow
def test_its_risk_is_shown_around_its_best_rate():
    few, every = told("rates", SIGN)
    best = st.optimal_learning_rate(LAW.with_features(16), batch_size=8, **AT_SIGN).learning_rate
    rates = every.columns["learning_rate"]
    assert (rates[0], rates[9], rates[-1]) == pytest.approx(best * np.array([0.03, 0.03 * 1000**0.5, 30]), rel=1e-12)
    assert set(few.columns["learning_rate"]) < set(rates)
    assert every.marks == {}
    assert np.argmin(every.columns["risk"]) == 9


def test_its_least_batch_size_is_told():
    first, second = told("critical", SIGN)
    direct = st.critical_batch_size(LAW.with_features(16), overhead=0.3, **AT_SIGN)
    assert first.marks == second.marks
    assert first.marks["smallest_batch_size"] == direct.smallest_batch_size > 1
    assert first.marks["batch_size"] == direct.batch_size
    assert second.columns["overhead"].tolist() == direct.curve.overhead.tolist()


def test_its_risks_come_at_a_few_batch_sizes_first():
    few, every = told("tuned", SIGN)
    assert set(few.columns["batch_size"]) < set(every.columns["batch_size"])
    known = dict(zip(every.columns["batch_size"], every.columns["risk"], strict=True))
    for size, risk in zip(few.columns["batch_size"], few.columns["risk"], strict=True):
        if size < 100:  # with two or three steps the risk has more than one minimum over γ
            assert risk == pytest.approx(known[size], rel=1e-3)


@pytest.mark.parametrize(("name", "also"), [("normalized", " momentum=0.5"), slow("muon", "")])
def test_a_method_without_a_risk_is_simulated_at_sgds_steps(name, also):
    """γ is SGD's best times the length of the noise's gradient."""
    state = replace(SIGN, first=f"{name} linear last{also}", batch_size=40)
    answer = told("simulated", state)[-1]
    problem = LAW.with_features(16)
    linear = st.Algorithm(schedule=st.Linear(), average=st.LastIterate())
    best = st.optimal_learning_rate(problem, batch_size=40, num_samples=400, algorithm=linear).learning_rate
    rate = 2 * best * (problem.noise_variance * problem.trace / 40) ** 0.5
    assert answer.words == (f"{name}{also} linear last: simulated with γ = {rate:.3g}",)
    assert answer.columns["num_samples"].tolist() == (40 * answer.columns["num_steps"]).tolist()
    with pytest.raises(ValueError, match="only with a finite number of features; untick “all features”"):
        told("simulated", replace(state, num_features=None))


@pytest.mark.parametrize("slot", [0, slow(1)])
def test_critical(slot):
    found = told("critical", STATE, slot)
    direct = st.critical_batch_size(LAW, num_samples=2000, overhead=0.3, algorithm=BOTH[slot])
    for answer in found:  # the curve comes later, the numbers are the same
        assert answer.marks["batch_size"] == direct.batch_size
        assert answer.marks["optimal_risk"] == pytest.approx(float(direct.optimal_risk), rel=1e-12)
    assert [bool(each.columns) for each in found] == ([True] if slot == 0 else [False, True])
    assert found[-1].columns["samples_needed"] == pytest.approx(direct.curve.samples_needed, rel=1e-12)


def test_growth_is_told_from_the_nearest_data_size_on():
    found = told("growth", STATE)
    assert [each.columns["num_samples"].size for each in found] == list(range(1, len(found) + 1))
    assert found[0].columns["num_samples"].tolist() == [2000]
    assert found[-1].marks["share"] == 1
    sizes = found[-1].columns["num_samples"]
    assert (sizes[0], sizes[-1]) == (20, 2e6), "no fewer than 20 samples"
    direct = st.critical_batch_size(LAW, num_samples=sizes[-2:], overhead=0.3, curve=False)
    assert found[-1].columns["critical"][-2:] == pytest.approx(direct.real_batch_size, rel=1e-9)
    assert found[-1].marks["exponent"] == st.predicted_exponent(1.5, 4.0)


@pytest.mark.parametrize("slot", [0, 1])
def test_simulated_means_are_the_exact_risks(slot):
    """At most 16 points; Student's t of 127 degrees beyond 6.2 has probability 8e-9, so 16 fail once in 1e7 runs."""
    state = replace(STATE, num_samples=512.0)
    found = told("simulated", state, slot)
    shares = [each.marks["share"] for each in found]
    assert shares == sorted(shares)
    assert (shares[0], shares[-1]) == (0, 1)
    assert all(not each.columns for each in found[:-1])
    answer = found[-1]
    assert answer.marks["replicas"] == REPLICAS
    steps = answer.columns["num_steps"]
    assert 2 * student.sf(6.2, REPLICAS - 1) * steps.size < 1e-6
    exact = st.risk_path(LAW, batch_size=8, learning_rate=0.05, num_samples=512, algorithm=BOTH[slot], points=1000)
    curve = exact.average.total if slot == 0 else exact.iterate.total
    expected = np.exp(np.interp(np.log(steps), np.log(exact.num_steps[1:]), np.log(curve[1:])))
    assert set(steps) <= set(exact.num_steps.tolist()), "every step is there"
    error = answer.columns["high"] - answer.columns["risk"]
    assert np.all(np.abs(answer.columns["risk"] - expected) <= 6.2 * error + 1e-6 * expected)  # and what float32 rounds
    assert answer.columns["num_samples"] == pytest.approx(8 * steps)


def test_a_simulation_that_is_stopped_tells_what_has_finished():
    stop_at, raised = 0.3, []

    def tell(answer):
        found.append(answer)
        if stop_at <= answer.marks["share"] < 1 and not raised:
            raised.append(True)
            raise KeyboardInterrupt

    found = []
    JOBS["simulated"].compute(replace(STATE, num_samples=1e4), 0, tell)
    answer = found[-1]
    assert answer.marks["share"] == 1
    finished = answer.marks["replicas"]
    assert finished <= REPLICAS
    assert answer.words or answer.columns


def test_a_simulation_that_takes_long_is_refused():
    begun = time.monotonic()
    with pytest.raises(ValueError, match="steps would take long to simulate; raise B or lower D"):
        told("simulated", replace(STATE, num_samples=1e9, batch_size=1))
    assert time.monotonic() - begun < 100
