"""The law of the best learning rate: made rates, exact risks, bounds, intervals, and no kink where there is none."""

import numpy as np
import pytest
from scipy import integrate, optimize, stats

import sgdtheory as st
from sgdtheory.fits import rate_intervals
from sgdtheory.fits.rate_intervals import RateIntervals, chance_without_kink
from sgdtheory.fits.rate_law import (
    FALL,
    KINK,
    KINK_POWER,
    LEAST_DEVIATION,
    RISE,
    SHARPNESS,
    SIZE_POWER,
    BestRates,
    Likelihood,
)
from sgdtheory.fits.rates_fit import REFUTED
from tests.fits.test_loss_grid import SAMPLES, joined, table

FALL_OF_D, RISE_OF_B, GROWTH, KINK_AT = 0.3, 0.7, 0.6, 60.0  # c, p, κ and B_k of made rates


def made_rates(seed, *, durations=4, batches=8, deviation=0.15, groups=1, shared=0.0, growth=GROWTH):
    """Best learning rates with a sharp kink and normal errors, a part shared by all of a group and duration."""
    axes = np.arange(groups), np.arange(durations) * np.log(2.5), np.log(4) + np.arange(batches) * np.log(2)
    group, data, batch = (each.ravel() for each in np.meshgrid(*axes, indexing="ij"))
    rate = -FALL_OF_D * data + RISE_OF_B * np.minimum(batch, np.log(KINK_AT) + growth * (data - data.mean())) + group
    draw = np.random.default_rng(seed)
    error = deviation * draw.standard_normal(rate.size)
    error += shared * np.repeat(draw.standard_normal(groups * durations), batches)
    zero = np.zeros(rate.size)
    return BestRates(group, batch, data, zero, rate + error, zero.astype(int), zero)


def likelihood_of(rates):
    return Likelihood(rates, float(rates.log_samples.mean()))


BATCHES, DURATIONS = 2.0 ** np.arange(11), 10 ** np.arange(4.0, 6.1, 0.5)


def exact_table(capacity, source, *, batches=BATCHES, samples=DURATIONS):
    """Exact risks of averaged SGD as losses."""
    axes = batches, samples, 2.0 ** np.arange(-11, 3.0, 0.5)
    batch, data, rate = (each.ravel() for each in np.meshgrid(*axes, indexing="ij"))
    some = 8 * batch <= data
    batch, data, rate = batch[some], data[some], rate[some]
    risk = st.excess_risk(st.PowerLaw(capacity, source), batch_size=batch, learning_rate=rate, num_samples=data)
    return {"batch_size": batch, "samples": data, "learning_rate": rate, "loss": risk.total}


def test_exact_rates_are_found():
    found = likelihood_of(made_rates(0, deviation=1e-3, groups=2))
    _, parameters, _ = found.best()
    np.testing.assert_allclose(parameters[-6:-2], [FALL_OF_D, RISE_OF_B, np.log(KINK_AT), GROWTH], atol=0.03)
    assert parameters[1] - parameters[0] == pytest.approx(1.0, abs=0.01)


@pytest.mark.parametrize(("capacity", "source"), [(2.0, 3.0), (1.5, 2.5)])
def test_kink_of_exact_risks_is_where_the_two_limits_of_the_best_rate_meet(capacity, source):
    """γ* of B = 1 times B meets γ* of large B, both by the exact search; learning rates run are a factor √2 apart."""
    found = st.fit_rates(exact_table(capacity, source), compare=False)
    problem, samples = st.PowerLaw(capacity, source), np.array([1e4, 1e5, 1e6])
    small, large = (
        st.optimal_learning_rate(problem, batch_size=batch, num_samples=samples).learning_rate for batch in (1, 1024)
    )
    assert found.has_kink
    np.testing.assert_allclose(found.critical_batch_size(samples), large / small, rtol=0.2)
    assert found.batch_exponent == pytest.approx(1.0, abs=0.03)
    assert found.duration_exponent == pytest.approx(1 - capacity / source, abs=0.04)
    assert found.kink_exponent == pytest.approx(1 - capacity / source, abs=0.08)


def test_the_kink_moves_with_the_model_size():
    """ν = −0.4 at three sizes whose durations overlap; without sizes in the table κ alone is wrong."""
    rates = made_rates(0, deviation=0.05, groups=3)
    log_size = np.array([-1.0, 0.0, 1.0])[rates.group]
    own = np.log(KINK_AT) + GROWTH * (rates.log_samples - rates.log_samples.mean())
    shift = np.minimum(rates.log_batch, own - 0.4 * log_size) - np.minimum(rates.log_batch, own)
    moved = rates._replace(log_size=log_size, log_rate=rates.log_rate + RISE_OF_B * shift)
    likelihood = likelihood_of(moved)
    least, parameters, sharpness = likelihood.best()
    low, high = RateIntervals(likelihood, least, parameters, sharpness, 0.95, True).of(
        np.eye(parameters.size)[SIZE_POWER]
    )
    assert low < -0.4 < high < -0.2
    assert likelihood.number_fitted == 8
    together = likelihood_of(moved._replace(log_samples=moved.log_samples[0] + log_size))
    assert not together.several_sizes  # D grows with N


def test_likelihood_is_that_of_normal_errors_and_of_bounds():
    """Each setting by itself: the density of ln γ*, or its integral up to the bound."""
    rates = made_rates(1, durations=3, batches=5)
    side = np.random.default_rng(2).integers(-1, 2, rates.side.size)
    rates = rates._replace(log_size=np.random.default_rng(3).standard_normal(side.size))
    found = likelihood_of(rates._replace(side=side))
    parameters = np.array([0.1, 0.25, 0.6, np.log(50.0), 0.5, -0.3, np.log(0.2)])
    law = found.law(parameters, 4.0)
    expected = 0.0
    for k, each in enumerate(side):
        kink = 50.0 * np.exp(0.5 * (rates.log_samples[k] - found.centre) - 0.3 * rates.log_size[k])
        batch = (np.exp(-4 * rates.log_batch[k]) + kink**-4.0) ** -0.25
        middle = 0.1 - 0.25 * (rates.log_samples[k] - found.centre) + 0.6 * np.log(batch)
        density = stats.norm(middle, np.hypot(0.2, LEAST_DEVIATION))
        ends = {-1: (-np.inf, rates.log_rate[k]), 1: (rates.log_rate[k], np.inf)}.get(int(each))
        chance = integrate.quad(density.pdf, *ends)[0] if ends else density.pdf(rates.log_rate[k]) * np.sqrt(2 * np.pi)
        expected -= np.log(chance)
    value, slope = found.loss(parameters, law.sharpness)
    assert value == pytest.approx(expected, rel=1e-8)
    np.testing.assert_allclose(
        slope, optimize.approx_fprime(parameters, lambda each: found.loss(each, 4.0)[0], 1e-7), rtol=1e-4, atol=1e-4
    )


def test_variances_are_those_of_weighted_least_squares():
    """Below a far kink ln γ* is linear: a level, c and p, with errors that differ between the rates."""
    rates = made_rates(1, durations=3, batches=5)
    error = np.random.default_rng(4).uniform(0.1, 1.0, rates.error.size)
    likelihood = likelihood_of(rates._replace(error=error))
    parameters = np.array([0.0, FALL_OF_D, RISE_OF_B, 50.0, 0.0, 0.0, np.log(1e-3)])
    found = RateIntervals(likelihood, 0.0, parameters, 16.0, 0.95, True)._variances[0]
    data = rates.log_samples - rates.log_samples.mean()
    root = np.sqrt(error**2 + 1e-6 + LEAST_DEVIATION**2)
    design = np.column_stack([np.ones(data.size), -data, rates.log_batch]) / root[:, None]
    off = rates.log_rate / root - design @ parameters[:3]
    expected = off @ off / (data.size - likelihood.number_fitted) * np.linalg.inv(design.T @ design)
    np.testing.assert_allclose(found[:3, :3], expected, rtol=1e-6)


@pytest.mark.parametrize("seed", range(4))
def test_no_law_on_a_grid_is_more_likely(seed):
    """Brute force over kink, κ and sharpness, with least squares of the rest."""
    rates = made_rates(seed, deviation=0.4)
    found = likelihood_of(rates)
    least, *_ = found.best()
    data = rates.log_samples - found.centre
    for kink in np.linspace(0, 8, 41):
        for power in np.linspace(-1, 2, 31):
            for sharpness in SHARPNESS:
                over = rates.log_batch - kink - power * data
                below = rates.log_batch - np.logaddexp(0, sharpness * over) / sharpness
                design = np.column_stack([np.ones_like(data), data, below])
                off = rates.log_rate - design @ np.linalg.lstsq(design, rates.log_rate)[0]
                assert least <= off.size / 2 * (1 + np.log(off @ off / off.size)) + 1e-6


def test_bounds_take_part():
    """Rates beyond the range that was run: without their bounds p would come out too small."""
    whole = table(samples=SAMPLES[::3], curvature=0.05, balance=1e9)
    narrow = {name: each[whole["learning_rate"] >= 2**-3] for name, each in whole.items()}
    found = st.fit_rates(narrow, compare=False)
    assert (found.rates.side == -1).any()
    assert found.batch_exponent == pytest.approx(0.5, abs=0.02)
    assert "they count as bounds" in " ".join(found.remarks)


def test_no_kink_where_there_is_none():
    """A power law with errors: the first line says so, and intervals are open."""
    rough = table(samples=SAMPLES[::3], curvature=0.05, balance=1e9)
    rough["loss"] = rough["loss"] * np.exp(1e-3 * np.random.default_rng(3).standard_normal(rough["loss"].size))
    found = st.fit_rates(rough)
    assert not found.has_kink
    assert "no kink seen" in str(found).splitlines()[0]
    assert np.isinf(found.kink_intervals[:, 1]).all()
    assert np.isinf(found.critical_batch_size(1e6))
    assert np.isnan(found.kink_exponent)
    assert found.kink_exponent_interval == (-np.inf, np.inf)
    assert found.duration_interval[0] <= 0.25 <= found.duration_interval[1]


def rates_with_a_kink(kink, seed):
    """Losses whose γ* ∝ D^−0.35 B^0.5 below the kink `kink` D^0.4, at learning rates a factor √2 apart."""
    axes = 2.0 ** np.arange(4, 12), np.array([1e5, 3e5, 1e6, 3e6]), 2.0 ** np.arange(-18, 2, 0.5)
    batch, samples, rate = (each.ravel() for each in np.meshgrid(*axes, indexing="ij"))
    off = np.log(rate) - np.log(0.002 * (samples / 1e5) ** -0.35 * (np.minimum(batch, kink * samples**0.4) / 64) ** 0.5)
    noise = np.exp(0.003 * np.random.default_rng(seed).standard_normal(off.size))
    near = np.abs(off) < 1.5
    loss = (1.9 + 300 * samples**-0.6) * (1 + np.where(off < 0, 0.12, 0.18) * off**2) * noise
    columns = {"batch_size": batch, "samples": samples, "learning_rate": rate, "loss": loss}
    return {name: column[near] for name, column in columns.items()}


def test_intervals_allow_for_a_kink_that_is_not_seen():
    """The power law alone has intervals of c and p that miss both."""
    found = st.fit_rates(rates_with_a_kink(4.0, seed=3), compare=False)
    assert not found.has_kink
    assert found.batch_exponent < 0.45
    assert found.duration_interval[0] <= 0.35 <= found.duration_interval[1]
    assert found.batch_interval[0] <= 0.5 <= found.batch_interval[1]
    assert "the intervals allow for a kink" in str(found)


def test_batch_sizes_beyond_the_kink_do_not_determine_it():
    """Also where the power law is refuted by chance, as with the second seed."""
    for seed in (0, 2):
        found = st.fit_rates(rates_with_a_kink(0.02, seed), compare=False)
        assert (found.kink_intervals == (0, np.inf)).all()
        assert str(found).startswith("B* is not determined: the best learning rate need not depend on B")
        assert found.has_kink == (seed == 2)
        assert ("c and p below it may be anything" in str(found)) == (not found.has_kink)
        assert not found.remarks


def test_one_duration_has_a_kink_and_no_exponents_of_duration():
    found = st.fit_rates(exact_table(2.0, 3.0, samples=[1e5]), compare=False)
    assert np.isnan([found.duration_exponent, found.kink_exponent]).all()
    assert found.kink_intervals[0, 0] < found.kinks[0] < found.kink_intervals[0, 1]
    assert "all runs have one duration" in found.remarks[0]


def test_groups_have_levels_of_their_own():
    one = exact_table(2.0, 3.0, samples=[1e4, 1e5])
    two = one | {"learning_rate": one["learning_rate"] / 4}
    names = {"group": np.repeat(["a", "b"], one["loss"].size)}
    found = st.fit_rates(joined(one, two) | names, compare=False)
    assert found.learning_rate(16, 1e5, "a") / found.learning_rate(16, 1e5, "b") == pytest.approx(4.0)
    with pytest.raises(ValueError, match="group must be one of a, b, got c"):
        found.learning_rate(16, 1e5, "c")


def test_comparison_has_the_kink_at_the_data_of_the_target():
    found = st.fit_rates(exact_table(2.0, 3.0))
    assert found.comparisons
    for each in found.comparisons:
        assert each.kink == pytest.approx(float(found.critical_batch_size(each.samples)))
        assert each.interval[0] <= each.critical_batch_size <= each.interval[1]
    assert "kink/B*" in str(found.sheet())


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"batch_size": [1, 2, 4]}, "at 4 batch sizes"),
        ({"learning_rate": [0.25, 0.5]}, "got 0 of"),
    ],
)
def test_too_few_rates_are_refused(change, message):
    whole = exact_table(2.0, 3.0)
    ((name, values),) = change.items()
    some = np.isin(whole[name], values)
    with pytest.raises(ValueError, match=message):
        st.fit_rates({each: column[some] for each, column in whole.items()})


@pytest.mark.parametrize("first", [True, False])
def test_a_group_of_one_rate_is_left_out(first):
    whole = exact_table(2.0, 3.0, samples=[1e4, 1e5])
    alone = whole["learning_rate"] == 2**-3
    single = {name: column[alone] for name, column in whole.items()}
    names = [("b", single), ("a", whole)] if first else [("a", whole), ("b", single)]
    rows = joined(*(part | {"group": np.full(part["loss"].size, name)} for name, part in names))
    found = st.fit_rates(rows, compare=False)
    plain = st.fit_rates(whole, compare=False)
    assert found.learning_rate(16, 1e5) == pytest.approx(plain.learning_rate(16, 1e5), rel=1e-4)
    assert "b is left out" in found.remarks[0]


def test_batch_sizes_that_follow_the_duration_leave_exponents_unknown():
    batch, data = 2.0 ** np.arange(2, 14), 4.0 ** np.arange(8, 20)
    rate = 2.0 ** np.arange(-14, 2)
    best = data**-0.3 * batch**0.5
    columns = np.repeat(batch, rate.size), np.repeat(data, rate.size), np.tile(rate, batch.size)
    loss = 2 + 0.02 * np.log(columns[2] / np.repeat(best, rate.size)) ** 2
    names = "batch_size", "samples", "learning_rate"
    found = st.fit_rates(dict(zip(names, columns, strict=True)) | {"loss": loss})
    assert np.isnan([found.duration_exponent, found.batch_exponent]).all()
    assert "batch size and duration vary together" in " ".join(found.remarks)


SETS = 30  # The control holds in 21 of 30 where 23 are asked for; with 24 sets it would pass, in 17 of 17.


@pytest.mark.slow
@pytest.mark.parametrize(
    ("made", "open_share"),
    [
        ({"deviation": 0.15}, 0.05),
        ({"deviation": 0.15, "groups": 3}, 0.0),
        ({"deviation": 0.1, "groups": 3, "shared": 0.15}, 0.05),
        ({"deviation": 0.5}, 1.0),
    ],
)
def test_intervals_hold(made, open_share):
    """Of 30 sets of rates with a sharp kink at least 23 of nominally 28.5 intervals hold: fewer with chance 9e-5."""
    truths = {FALL: FALL_OF_D, RISE: RISE_OF_B, KINK: np.log(KINK_AT), KINK_POWER: GROWTH}
    hold = dict.fromkeys(truths, 0)
    opened = 0
    for seed in range(SETS):
        found = likelihood_of(made_rates(seed, **made))
        intervals = RateIntervals(found, *found.best(), 0.95, True)
        unit = np.eye(intervals.parameters.size)
        for place, truth in truths.items():
            low, high = intervals.of(unit[place])
            hold[place] += low <= truth <= high
            opened += place in (KINK, KINK_POWER) and np.isinf(high)
    print(made, hold, opened)
    assert min(hold.values()) >= stats.binom.ppf(1e-4, SETS, 0.95)
    assert opened <= 2 * SETS * open_share


@pytest.mark.slow
@pytest.mark.parametrize("made", [{}, {"groups": 3}, {"groups": 3, "shared": 0.1}])
def test_a_power_law_seldom_seems_to_have_a_kink(made):
    """Of 60 power laws at most 11 are refuted at 5%: more with chance 1e-4 or less."""
    refuted = 0
    for seed in range(60):
        rates = made_rates(seed, **made)
        off = rates.log_rate - made_rates(seed, **made | {"deviation": 0.0, "shared": 0.0}).log_rate
        power = rates.group - FALL_OF_D * rates.log_samples + RISE_OF_B * rates.log_batch
        found = likelihood_of(rates._replace(log_rate=power + off))
        _, parameters, sharpness = found.best()
        refuted += chance_without_kink(found, found.law(parameters, sharpness), seed) <= REFUTED
    print(made, refuted)
    assert refuted <= stats.binom.isf(1e-4, 60, 0.05)


@pytest.mark.slow
def test_intervals_that_ignore_shared_errors_do_not_hold(monkeypatch):
    """The control: errors of 15% that all batch sizes of a model and duration share, taken for independent ones."""
    monkeypatch.setattr(rate_intervals, "FEWEST_CLUSTERS", np.inf)
    hold = 0
    for seed in range(SETS):
        found = likelihood_of(made_rates(seed, deviation=0.1, groups=3, shared=0.15))
        intervals = RateIntervals(found, *found.best(), 0.95, True)
        low, high = intervals.of(np.eye(intervals.parameters.size)[FALL])
        hold += low <= FALL_OF_D <= high
    print(hold)
    assert hold < stats.binom.ppf(1e-4, SETS, 0.95)
