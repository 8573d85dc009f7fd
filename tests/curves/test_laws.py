"""Laws of loss curves: their formulas step by step, numbers found again, and a stranger's law."""

import numpy as np
import pytest

import sgdtheory as st
from tests.curves.theory_curves import linear_intervals

NUMBERS = {"floor": 2.8, "size": 0.6, "exponent": 0.45}
GAINS = {"gain": 600.0, "speed": 0.2, "gain_exponent": 0.6, "rate_exponent": 0.55}
MULTI, POWER = st.curves.MultiPowerLaw(), st.curves.PowerOfSum()


def curve(rates, every=8, first=80, loss=None):
    """Rows of a run with these learning rates, from step `first` on, after a warm-up that ends there."""
    step = np.arange(first, len(rates), every)
    return st.LossCurve(step, rates[step], np.ones(step.size) if loss is None else loss, warmup=first)


def values(numbers):
    return {name: np.array([value]) for name, value in numbers.items()}


def rates(kind, steps=2000, first=80):
    u = np.clip((np.arange(steps) - first) / (steps - first), 0, 1)
    after = {"cosine": 0.55 + 0.45 * np.cos(np.pi * u), "drop": np.where(np.arange(steps) < 1000, 1.0, 0.3)}
    warm = (np.arange(steps) + 0.5) / first
    return 3e-4 * np.where(np.arange(steps) < first, np.minimum(warm, 1.0), after[kind])


def by_steps(rate, step, numbers):
    """The law with every step: S_k and the falls at each of them."""
    sums = np.append(0.0, np.cumsum(rate))
    found = numbers["floor"] + numbers["size"] * sums[step] ** -numbers["exponent"]
    for k in range(81, step):
        fall = rate[k - 1] - rate[k]
        since = numbers["speed"] * rate[k] ** -numbers["rate_exponent"] * (sums[step] - sums[k])
        found -= numbers["gain"] * fall * (1 - (1 + since) ** -numbers["gain_exponent"])
    return found


@pytest.mark.parametrize("kind", ["cosine", "drop"])
def test_the_multi_power_law_is_its_sum_over_steps(kind):
    """To what rows, every eight steps, leave out."""
    rate = rates(kind)
    one = curve(rate)
    (found,) = MULTI.losses(values(NUMBERS | GAINS), MULTI.prepared([one]))
    expected = np.array([by_steps(rate, int(step), NUMBERS | GAINS) for step in one.step])
    np.testing.assert_allclose(found[0], expected, rtol=3e-4)
    without = values(NUMBERS | GAINS | {"gain": 1e-12})
    assert np.abs(MULTI.losses(without, MULTI.prepared([one]))[0] / expected - 1).max() > 5e-3, "control"


def test_many_values_at_once_are_those_one_by_one():
    one = curve(rates("cosine"))
    many = {name: value * np.array([1.0, 1.1, 0.8]) for name, value in (NUMBERS | GAINS).items()}
    (found,) = MULTI.losses(many, MULTI.prepared([one]))
    for k in range(3):
        alone = {name: value[[k]] for name, value in many.items()}
        np.testing.assert_allclose(found[k], MULTI.losses(alone, MULTI.prepared([one]))[0][0])


def test_a_power_of_the_sum():
    rate = rates("drop")
    one = curve(rate)
    sums = np.append(0.0, np.cumsum(rate))[one.step.astype(int)]
    (found,) = POWER.losses(values(NUMBERS), POWER.prepared([one]))
    np.testing.assert_allclose(found[0], 2.8 + 0.6 * sums**-0.45, rtol=2e-3)


def made(law, numbers, scatter=1e-3):
    """Curves that follow a law, with scatter."""
    random, found = np.random.default_rng(1), []
    for kind in ("cosine", "drop"):
        one = curve(rates(kind))
        loss = law.losses(values(numbers), law.prepared([one]))[0][0]
        found.append(curve(rates(kind), loss=loss * np.exp(scatter * random.standard_normal(loss.size))))
    return found


def test_numbers_are_found_again():
    """Within four standard errors of a 95% interval: 6e-5 for each of three numbers."""
    curves = made(POWER, NUMBERS)
    found = st.curves.fit_law(curves, POWER)
    for name, truth in NUMBERS.items():
        low, high = found.numbers[name].interval
        assert abs(np.log(found.numbers[name].value / truth)) < 2 * np.log(high / low)
        assert high / low < 2
    assert found.scatter == pytest.approx(1e-3, rel=0.3)
    band = found.predict_curve(curves[0])
    inside = ((band.low < curves[0].loss) & (curves[0].loss < band.high)).mean()
    assert 0.85 < inside < 1
    assert (found.predict_curve(curves[0], 0.5).high < band.high).all()


@pytest.mark.slow
def test_a_law_that_is_another_is_told_by_what_it_leaves():
    """The power of the sum leaves what the multi-power law explains (a minute)."""
    curves = made(MULTI, NUMBERS | GAINS)
    right, wrong = (st.curves.fit_law(curves, law) for law in (MULTI, POWER))
    assert right.scatter == pytest.approx(1e-3, rel=0.3)
    assert wrong.scatter > 2 * right.scatter


class Steps(st.curves.AbstractLaw):
    """A stranger's: a power of the steps."""

    numbers = [st.curves.Number(name, -20, 20) for name in NUMBERS]

    def starts(self, curves):
        return [{"floor": 2.0, "size": 10.0, "exponent": 0.5}]

    def losses(self, values, prepared):
        floor, size, exponent = (values[name][:, None] for name in NUMBERS)
        return [floor + size * one.step**-exponent for one in prepared]


def test_a_law_of_ones_own():
    step = np.arange(100.0, 5000, 100)
    loss = 2 + 30 * step**-0.6 * np.exp(1e-4 * np.random.default_rng(0).standard_normal(step.size))
    found = st.curves.fit_law(st.LossCurve(step, 0.1, loss), Steps())
    assert found.numbers["exponent"].value == pytest.approx(0.6, rel=1e-2)
    later = st.LossCurve([1e4, 2e4, 5e4, 1e5], 0.1, np.ones(4))
    np.testing.assert_allclose(found.predict_curve(later).loss, 2 + 30 * later.step**-0.6, rtol=1e-3)
    assert found.remark == ""


def test_what_tells_nothing_is_said():
    step = np.arange(100.0, 3001, 100)
    loss = 3 * np.exp(1e-3 * np.random.default_rng(0).standard_normal(step.size))
    found = st.curves.fit_law(st.LossCurve(step, 0.1, loss), Steps())
    assert found.remark.startswith("the residuals of the law are as large as the changes of these losses")
    assert all(number.interval == (0, np.inf) for number in found.numbers.values())


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"law": "power"}, "law must be an object such as MultiPowerLaw"),
        ({"curves": []}, "curves must be LossCurves, one or more"),
        ({"level": 2}, "level must lie between 0 and 1"),
        ({"curves": [curve(rates("drop"), every=400)]}, "at least 9 different rows for 3 numbers, got 5"),
    ],
)
def test_bad_input(change, message):
    with pytest.raises(ValueError, match=message):
        st.curves.fit_law(**{"curves": [curve(rates("drop"))], "law": POWER} | change)


def test_numbers_of_the_theory_keep_their_units_at_another_peak():
    """The predictions are those of `fit_loss_curves`: step sizes are at the learning rate of the fitted curves."""
    curves = st.example_loss_curves("25M")
    long = curves["constant_24000"]
    few = slice(None, None, 8)  # 22 rows, which both fit
    fitted = st.LossCurve(long.step[few], long.learning_rate[few], long.loss[few], warmup=long.warmup)
    other = st.LossCurve(fitted.step, 0.5 * fitted.learning_rate, fitted.loss, warmup=fitted.warmup)
    with linear_intervals():
        by_law = st.curves.fit_law(fitted, st.curves.TheoryLaw()).predict_curve(other)
        np.testing.assert_allclose(
            by_law.loss, st.fit_loss_curves(fitted, optimizer="sgd").predict_curve(other).loss, rtol=1e-12
        )
