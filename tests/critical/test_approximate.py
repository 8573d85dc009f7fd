"""The approximate critical batch size against the exact one, which finds whole batch sizes by another search."""

from types import SimpleNamespace

import numpy as np
import pytest

import sgdtheory as st
from sgdtheory.critical import approximate
from tests.critical.known_risk import alternating, smooth
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


KNOWN = {"smooth": smooth(1.2, 0.5), "noisy": smooth(2.0, 30.0), "alternating": alternating(1.3, 1.0)}


@pytest.mark.parametrize("name", KNOWN)
@pytest.mark.parametrize(("samples", "overhead"), [(7.0, 0.4), (300.0, 0.2), (5003.0, 0.5), (1e6, 0.2)])
@pytest.mark.parametrize("misled", [1.0, 0.5, 0.05])
def test_steps_and_batch_size_of_a_known_risk(monkeypatch, name, samples, overhead, misled):
    """The least of ρ over n, and the fewest even steps that reach it with the budget; a first guess may be far off."""
    known = KNOWN[name]
    monkeypatch.setattr(known, "risk", lambda b, rate, n, tolerance: misled * known.of(b, n), raising=False)
    monkeypatch.setattr(approximate, "TunedRisk", lambda *_: known)
    found = st.approximate_critical_batch_size(st.PowerLaw(2, 3), num_samples=samples, overhead=overhead)
    every = np.append(np.arange(2.0, samples, 2), samples)  # even ones, and B = 1
    attained, budget = known.of(samples / every, every), (1 + overhead) * samples
    assert attained.min() <= found.optimal_risk * (1 + 1e-12)
    assert found.optimal_risk == pytest.approx(attained.min(), rel=1e-2)
    assert found.optimal_risk == pytest.approx(
        float(known.of(found.optimal_batch_size, samples / found.optimal_batch_size)), rel=1e-9
    )
    fewest = every[known.of(budget / every, every) <= found.optimal_risk][0]
    assert found.num_steps == pytest.approx(fewest, rel=0.01, abs=2)
    assert found.batch_size == pytest.approx(budget / found.num_steps, rel=1e-12)
    assert found.learning_rate == pytest.approx(1 / found.num_steps, rel=0.1 if samples > 7 else 0.3)
    assert (np.diff(found.batch_sizes) > 0).all()
    assert (found.batch_sizes[0], found.batch_sizes[-1]) == pytest.approx((1.0, samples / 2), rel=0.01)
    steps = samples / found.batch_sizes
    np.testing.assert_allclose(found.risks, known.of(found.batch_sizes, steps), rtol=1e-9)
    np.testing.assert_allclose(found.learning_rates, 1 / steps, rtol=1e-9)
    assert (found.num_samples, found.overhead) == (samples, overhead)
    np.testing.assert_allclose(found.risk_at(found.batch_sizes), found.risks)
    assert np.isnan(found.risk_at(2 * samples))


def of_steps(guess):
    """In the place of `TunedRisk` and of `RelaxedRisk`: log ρ = 8/n, and the fewest steps guessed."""

    def roughly(batch, steps, rate=None):
        return SimpleNamespace(risk=np.exp(8 / steps), rate=1 / steps)

    steps = np.array([2.0, 4.0, 8.0, 16.0, 1000.0])
    relaxed = SimpleNamespace(steps=steps, rate=1 / steps, steps_about=lambda *_: guess)
    return SimpleNamespace(roughly=roughly), relaxed


@pytest.mark.parametrize(("guess", "wanted"), [(6.5, 5.0), (6.5, 7.0), (6.5, 7.5), (40.0, 37.0)])
def test_between_three_numbers_of_steps_or_more_a_curve_is_bent(guess, wanted):
    """About n = 4, 6 and 8 straight lines would be 1 to 2% off."""
    found, rate = approximate._fewest_steps(*of_steps(guess), 1000.0, np.exp(8 / wanted))
    assert found == pytest.approx(wanted, rel=4e-3)
    assert rate == pytest.approx(1 / wanted, rel=0.05)


def test_between_two_numbers_of_steps_it_is_straight():
    """log ρ is 2 and 4/3 at n = 4 and 6, and is to be 8/5: three fifths of the way, in log n."""
    found, rate = approximate._fewest_steps(*of_steps(4.0), 1000.0, np.exp(8 / 5))
    assert found == pytest.approx(4 * 1.5**0.6, rel=1e-3)
    assert rate == pytest.approx(1 / 4 + (found - 4) / 2 * (1 / 6 - 1 / 4))


def test_where_nothing_reaches_the_target_the_most_steps_that_were_looked_at_are_taken():
    """700 · 1.2^1.5, made even."""
    found = approximate._fewest_steps(*of_steps(700.0), 1000.0, np.exp(8 / 2000))
    assert found == pytest.approx((920, 1 / 920), rel=1e-9)


def test_numbers_of_steps_are_even_and_at_least_two():
    np.testing.assert_array_equal(approximate._even(np.array([0.3, 1.0, 2.9, 3.1, 5.0, 7.2])), [2, 4, 8])
