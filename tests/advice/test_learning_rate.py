"""The learning rate after a change of batch size: its laws, its range, and what the row says of them."""

import numpy as np
import pytest

import sgdtheory as st
from sgdtheory.advice.best_rates import SLOPES, factor_at, factor_range, rate_curves
from sgdtheory.advice.learning_rate import AVERAGED, FAMILIES, sorted_powers
from sgdtheory.advice.row import Estimate
from tests.marks import slow

NOW = {"batch_size": 64, "learning_rate": 0.01}


def rate(new, optimizer, **more):
    return st.change_batch_size(NOW | more, new_batch_size=new, optimizer=optimizer)["learning_rate"]


@pytest.mark.parametrize("optimizer", FAMILIES)
@pytest.mark.parametrize("factor", [1 / 8, 1.0, 8.0])
def test_without_b_star_the_rate_follows_the_law_of_noise(optimizer, factor):
    """B for SGD, √B for signs and Adam; the range is that of the curves, and of language models but for SGD."""
    row = rate(64 * factor, optimizer)
    family = FAMILIES[optimizer]
    value = factor if family == "sgd" else factor**0.5
    averaged = optimizer in AVERAGED
    ends = [factor, value] if averaged else [*factor_range(family, 64, 64 * factor), value]
    if family != "sgd":
        ends += [factor**-0.07, factor**0.73]
    assert (row.new, row.low, row.high) == pytest.approx((0.01 * value, 0.01 * min(ends), 0.01 * max(ends)))
    assert row.old == 0.01
    law = "√(B ν)" if averaged else "B" if family == "sgd" else "√B"
    assert row.reason.startswith(f"γ* ∝ {law} while noise dominates")
    assert ("language-model runs, B^0.73 below" in row.reason) == (family != "sgd")
    papers = {"sgd": "T5; arXiv 1706.02677", "sign": "T37, T39", "adam": "T38; arXiv 2205.10287"}
    if averaged:
        papers["sign"] = "T37, T54" + ("; for Muon by analogy" if optimizer == "muon" else "")
    assert row.source == papers[family] + ("" if family == "sgd" else "; finding: step-law's grid")


@pytest.mark.parametrize("optimizer", ["sgd", "sign", "adam"])
@pytest.mark.parametrize(("critical", "new"), [(300.0, 1024.0), (20.0, 8.0), (1e4, 128.0)])
def test_with_b_star_the_rate_is_the_median_over_the_curves(optimizer, critical, new):
    row = rate(new, optimizer, critical_batch_size=critical)
    changes = [
        np.exp(curve.at(np.log(new / critical)) - curve.at(np.log(64 / critical))) for curve in rate_curves(optimizer)
    ]
    assert row.new == pytest.approx(0.01 * np.exp(np.median(np.log(changes))))
    ends = changes if optimizer == "sgd" else [*changes, (new / 64) ** -0.07, (new / 64) ** 0.73]
    assert (row.low, row.high) == pytest.approx((0.01 * min(ends), 0.01 * max(ends)))
    assert f"at {64 / critical:.2g} B* and {new / critical:.2g} B*, where" in row.reason
    assert row.source.startswith("your B*; best rates of theory, ")


def step_weights(optimizer, beta1, beta2):
    """Weights p_k of past gradients in the average along which a step goes, by the steps' own recursion."""
    average, weights = 0.0, []
    for gradient in (1.0, *np.zeros(5000)):
        if optimizer == "lion":
            weights.append(beta1 * average + (1 - beta1) * gradient)
            average = beta2 * average + (1 - beta2) * gradient
        else:
            average = beta1 * average + (1 - beta1) * gradient
            weights.append(average)
    return np.array(weights)


@pytest.mark.parametrize("ratio", [0.25, 4.0])
@pytest.mark.parametrize("optimizer", AVERAGED)
def test_half_lives_kept_change_the_noise_of_averages(optimizer, ratio):
    """γ ∝ √(B ν) with ν the sum of squared weights; the range has √B, for β kept, and B."""
    betas = (0.9, 0.99) if optimizer == "lion" else (0.9, None)
    given = {name: beta for name, beta in zip(("beta1", "beta2"), betas, strict=True) if beta is not None}
    row = rate(64 * ratio, optimizer, **given)
    kept = [beta and beta**ratio for beta in betas]
    before, after = ((step_weights(optimizer, *each) ** 2).sum() for each in (betas, kept))
    value = (ratio * after / before) ** 0.5
    ends = [value, ratio, ratio**0.5, ratio**-0.07, ratio**0.73]
    assert row[2:5] == pytest.approx((0.01 * value, 0.01 * min(ends), 0.01 * max(ends)))
    assert f"{value:.3g} times, with half-lives kept" in row.reason
    assert "B^½, with β kept" in rate(64 * ratio, optimizer).reason


@pytest.mark.parametrize("optimizer", ["sgd", "adam"])
@pytest.mark.parametrize("critical", [20.0, 300.0])
def test_advice_does_not_hang_on_the_unit_of_batch_sizes(optimizer, critical):
    """Sequences or tokens: batch sizes and B* in a unit a million times smaller."""
    rows = [
        st.change_batch_size(
            {"batch_size": 64 * unit, "learning_rate": 0.01, "critical_batch_size": critical * unit},
            new_batch_size=256 * unit,
            optimizer=optimizer,
        )["learning_rate"]
        for unit in (1.0, 1e6)
    ]
    assert rows[0][1:5] == pytest.approx(rows[1][1:5])


@slow
@pytest.mark.parametrize("optimizer", ["signum", "lion"])
def test_signs_of_averages_follow_the_noise_of_the_average(optimizer):
    """Optimal learning rates in theory, half-lives kept or β kept; √B for the latter is the control."""
    problem = st.PowerLaw(1.5, 2)

    def optimal(batch, beta1, beta2):
        method = st.SignSGD(momentum=beta1) if optimizer == "signum" else st.Lion(beta1=beta1, beta2=beta2)
        algorithm = st.Algorithm(method, schedule=st.Linear(), average=st.LastIterate())
        found = st.optimal_learning_rate(problem, batch_size=batch, num_samples=2**17, algorithm=algorithm)
        return float(found.learning_rate)

    setup = {"batch_size": 16, "learning_rate": 1.0, "beta1": 0.9} | ({"beta2": 0.99} if optimizer == "lion" else {})
    now, same_betas = (optimal(batch, 0.9, 0.99) for batch in (16, 64))
    new = st.change_batch_size(setup, new_batch_size=64, optimizer=optimizer)
    advised = optimal(64, new["beta1"].new, new["beta2"].new if optimizer == "lion" else None) / now
    assert new["learning_rate"].new == pytest.approx(advised, rel=0.05)
    assert advised > 3.5
    assert same_betas / now == pytest.approx(2, rel=0.2)


@pytest.mark.parametrize("optimizer", AVERAGED)
def test_b_star_is_not_used_where_nothing_says_what_it_does(optimizer):
    """The theory of signs without memory is not that of their averages: the row is the same with and without B*."""
    more = {"beta1": 0.9, "beta2": 0.99}
    assert rate(512, optimizer, **more)[:5] == rate(512, optimizer, **more, critical_batch_size=100)[:5]
    assert f"near B* is not known for {optimizer}" in rate(512, optimizer, **more).reason


def law_with_an_interval():
    return st.fit_steps_law([32, 128, 512, 2048], [94_900, 25_500, 9_050, 3_870])


def test_an_interval_of_b_star_widens_the_range():
    law = law_with_an_interval()
    low, high = (max(0.0, end - 1.2 * 32) for end in law.interval())  # B* − (1 + ω) B_ref = ω b/a
    for optimizer in ("sgd", "adam"):
        row = st.change_batch_size(NOW, new_batch_size=512, optimizer=optimizer, fit=law)["learning_rate"]
        ends = [*factor_range(optimizer, 64, 512, low, high)]
        if optimizer == "adam":
            ends += [8**-0.07, 8**0.73]
        assert (row.low, row.high) == pytest.approx((0.01 * min(ends), 0.01 * max(ends)))
        assert row.low < row.new < row.high


def test_a_law_without_a_plateau_leaves_noise_dominant():
    """B* without an upper end, whose best value is infinite: the rate grows like B, whatever the scale of B."""
    batches = np.array([64.0, 256, 1024, 4096])
    law = st.fit_steps_law(batches, 3e6 / batches * np.exp([0.01, -0.01, 0.01, -0.012]))
    assert law.a == 0
    row = st.change_batch_size(NOW, new_batch_size=128, optimizer="sgd", fit=law)["learning_rate"]
    assert row.new == pytest.approx(0.02, rel=1e-6)
    assert row.low <= row.new <= row.high


@pytest.mark.parametrize(
    ("new", "critical", "warned"), [(128, None, True), (32, None, False), (128, 100, True), (128, 200, False)]
)
def test_larger_batches_of_sgd_beyond_b_star_come_with_a_warning(new, critical, warned):
    more = {} if critical is None else {"critical_batch_size": critical}
    assert ("may diverge" in rate(new, "sgd", **more).reason) is warned
    assert "may diverge" not in rate(new, "adam", **more).reason


def test_a_measured_exponent_has_its_ends_in_order_both_ways():
    exponent = Estimate(0.5, 0.25, 1.0)
    assert sorted_powers(16, exponent) == (4, 2, 16)
    assert sorted_powers(1 / 16, exponent) == (1 / 4, 1 / 16, 1 / 2)


@pytest.mark.parametrize("family", SLOPES)
def test_a_curve_goes_on_with_the_slope_of_noise_below_and_with_its_last_one_above(family):
    for curve in rate_curves(family):
        first, last = curve.log_batch[[0, -1]]
        assert curve.change(first - 3, first - 1) == pytest.approx(2 * SLOPES[family])
        slope = (curve.log_rate[-1] - curve.log_rate[-2]) / (curve.log_batch[-1] - curve.log_batch[-2])
        assert curve.change(last + 1, last + 4) == pytest.approx(3 * slope)
        np.testing.assert_allclose([curve.at(each) for each in curve.log_batch], curve.log_rate)
        middle = (curve.log_batch[1] + curve.log_batch[2]) / 2
        assert curve.at(middle) == pytest.approx((curve.log_rate[1] + curve.log_rate[2]) / 2)
        for outside, end in ((first - 1e-9, first), (last + 1e-9, last)):
            assert curve.at(outside) == pytest.approx(curve.at(end), abs=1e-7)
        assert curve.slope == SLOPES[family] == (1.0 if family == "sgd" else 0.5)


def test_factors_are_of_the_median_problem_and_of_the_extreme_ones():
    for family in SLOPES:
        changes = sorted(np.exp(curve.change(np.log(0.1), np.log(3.0))) for curve in rate_curves(family))
        assert len(changes) == 6
        found = factor_at(family, 0.1, 3.0)
        assert (found.low, found.high) == pytest.approx((changes[0], changes[-1]))
        assert found.value == pytest.approx((changes[2] * changes[3]) ** 0.5)
        logs = [curve.log_batch for curve in rate_curves(family)]
        assert min(each[0] for each in logs) < -0.5
        assert max(each[-1] for each in logs) > 0.5


def test_the_range_without_limits_is_that_of_wide_limits():
    for family in SLOPES:
        for old, new in ((4.0, 64.0), (64.0, 4.0)):
            everywhere = factor_range(family, old, new)
            assert everywhere == pytest.approx(factor_range(family, old, new, 1e-12, 1e12))
            inner = factor_range(family, old, new, 10.0, 20.0)
            assert everywhere[0] <= inner[0] <= inner[1] <= everywhere[1]


def test_an_estimate_keeps_its_ends_in_order():
    estimate = Estimate(4.0, 1.0, 16.0)
    assert estimate.times(3) == (12, 3, 48)
    assert estimate.power(0.5) == (2, 1, 4)
    assert estimate.power(-0.5) == (1 / 2, 1 / 4, 1)
    assert (estimate.least, estimate.most) == (1, 16)
    alone = Estimate(4.0, np.nan, np.nan)
    assert (alone.least, alone.most) == (4, 4)


@pytest.mark.parametrize("family", SLOPES)
@pytest.mark.parametrize(("old", "new"), [(4.0, 64.0), (64.0, 4.0)])
def test_the_range_of_all_b_star_does_not_hang_on_the_unit_of_batch_sizes(family, old, new):
    """It holds the law of noise exactly, of B* above both batch sizes, and what curves have far beyond B*."""
    found = factor_range(family, old, new)
    for unit in (1e-6, 1e-2, 1e4):
        assert factor_range(family, old * unit, new * unit) == pytest.approx(found, rel=1e-9)
    beyond = [np.exp(curve.change(60 + np.log(old), 60 + np.log(new))) for curve in rate_curves(family)]
    noise = (new / old) ** SLOPES[family]
    assert found[0] <= min(noise, *beyond) * (1 + 1e-9)
    assert found[1] >= max(noise, *beyond) * (1 - 1e-9)
    assert factor_range(family, old, new, 1e9) == pytest.approx((noise, noise), rel=1e-9)
    for least, largest in ((2.0, 3.0), (10.0, 20.0), (40.0, 80.0)):
        low, high = factor_range(family, old, new, least, largest)
        within = [factor_at(family, old / size, new / size) for size in np.linspace(least, largest, 50)]
        assert low == pytest.approx(min(each.low for each in within), rel=0.01)
        assert high == pytest.approx(max(each.high for each in within), rel=0.01)
