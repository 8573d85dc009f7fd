"""Plans against brute force, McCandlish et al.'s trade, and by simulation."""

import numpy as np
import pytest
from scipy import stats

import sgdtheory as st

BATCHES = 2.0 ** np.arange(6, 13)
A, B = 2000.0, 3e6
FALSE_ALARM = 1e-4
TABLE = {1: 10.0, 4: 30.0, 16: 60.0, 64: 70.0}


def law(noise=0.0, seed=0, alpha=1.0):
    steps = (A + B / BATCHES**alpha) * np.exp(noise * np.random.default_rng(seed).standard_normal(BATCHES.size))
    return st.fit_steps_law(BATCHES, steps, alpha=alpha, alpha_range=(alpha, alpha))


class Curve:
    """A law of another kind, by predict alone."""

    def __init__(self, predict):
        self.predict = predict


# ------------------------------------------------------------------ one batch size


@pytest.mark.parametrize("devices", [None, 16])
def test_a_row_by_hand(devices):
    plan = st.plan(law(), 25, devices=devices, micro_batch=8, price=3)
    row = plan.at(512)
    used = devices or 64
    steps = A + B / 512
    assert (row.batch_size, row.devices) == (512, used)
    assert row.steps == pytest.approx(steps)
    assert row.samples == pytest.approx(512 * steps)
    assert row.hours == pytest.approx(512 * steps / (25 * used) / 3600)
    assert row.device_hours == pytest.approx(row.hours * used)
    assert row.cost == pytest.approx(3 * row.device_hours)
    assert row.extra_data == pytest.approx(512 * steps / (64 * (A + B / 64)) - 1)


def test_throughput_from_a_table_is_by_samples_a_device_and_step():
    plan = st.plan(law(), TABLE, devices=16)
    assert plan.at(256).device_hours == pytest.approx(plan.at(256).samples / 60 / 3600)
    assert plan.at(64).device_hours == pytest.approx(plan.at(64).samples / 30 / 3600)
    assert np.isnan(plan.at(64).cost)


@pytest.mark.parametrize(
    ("devices", "micro", "size", "nearest"),
    [
        (None, 8, 101, 104),
        (None, 8, 3, 8),
        (16, 8, 101, 104),
        (16, 8, 130, 128),
        (16, 8, 190, 128),
        (16, 8, 193, 256),
    ],
)
def test_batch_sizes_that_devices_can_share(devices, micro, size, nearest):
    assert st.plan(law(), 1, devices=devices, micro_batch=micro).feasible(size) == nearest


def test_fewer_devices_work_on_a_batch_that_does_not_feed_all():
    plan = st.plan(law(), 25, devices=64, micro_batch=8, batch_sizes=(64, 256), deadline=1e6)
    assert plan.choice.devices == 8
    assert any("feeds 8 of 64 devices" in note for note in plan.notes)
    assert not any("save no time" in note for note in plan.notes)  # larger ones feed more


# ------------------------------------------------------------------ knee and B*


@pytest.mark.parametrize("alpha", [0.8, 1.0, 1.3])
def test_the_knee_has_the_least_steps_times_samples(alpha):
    fitted = law(alpha=alpha)
    knee = st.plan(fitted, 1).knee
    grid = np.geomspace(knee / 30, knee * 30, 20_001)
    assert grid[np.argmin(grid * fitted.predict(grid) ** 2)] == pytest.approx(knee, rel=1e-3)
    assert st.plan(Curve(fitted.predict), 1, batch_sizes=(64, 4096)).knee == pytest.approx(knee, rel=1e-6)


@pytest.mark.parametrize("alpha", [0.4, 0.5])
def test_exponents_up_to_a_half_have_no_knee(alpha):
    """S E grows with the batch size everywhere: the knee and the lower end of its interval are 0."""
    plan = st.plan(st.fit_steps_law(BATCHES, A + B / BATCHES**alpha, alpha=alpha), 1)
    assert plan.knee == plan.knee_interval[0] == 0


@pytest.mark.parametrize("alpha", [0.8, 0.55, 1.3])
def test_the_interval_of_the_knee_admits_other_exponents(alpha):
    """The steps reject α = 1, so that a caller who claims to know it gets the same interval."""
    steps = A + B / BATCHES**alpha * np.exp(0.01 * np.random.default_rng(1).standard_normal(BATCHES.size))
    for assumed in (1.0, None):
        low, high = st.fit_steps_law(BATCHES, steps, alpha=assumed).interval("knee")
        assert low < st.fits.StepsLaw(A, B, alpha, True, BATCHES, steps).knee < high
    known = st.fit_steps_law(BATCHES, steps, alpha_range=(1, 1))
    assert known.wider_law is not None
    assert known.interval("knee") == st.fit_steps_law(BATCHES, steps).interval("knee")


def test_the_interval_of_the_knee_has_the_knees_of_the_laws_at_the_ends_of_the_ratio():
    steps = (A + B / BATCHES**1.3) * np.exp(0.02 * np.random.default_rng(0).standard_normal(BATCHES.size))
    fitted = st.fit_steps_law(BATCHES, steps, alpha=1.3, alpha_range=(1.3, 1.3))
    found = st.plan(fitted, 1, level=0.8).knee_interval
    for end, ratio in zip(found, fitted.interval("b/a", 0.8), strict=True):
        grid = end * np.geomspace(0.5, 2, 20_001)
        assert grid[np.argmin(grid * (1 + ratio / grid**1.3) ** 2)] == pytest.approx(end, rel=1e-3)


def test_knees_are_looked_for_up_to_ten_thousand_times_beyond():
    for beyond, found in ((0.9e4, 4096 * 0.9e4), (1.1e4, np.inf)):
        curve = Curve(lambda batch, knee=4096 * beyond: 1 + knee / np.asarray(batch))
        assert st.plan(curve, 1, batch_sizes=(64, 4096)).knee == pytest.approx(found, rel=1e-6)
    for below, found in ((0.9e4, 64 / 0.9e4), (1.1e4, 0)):
        curve = Curve(lambda batch, knee=64 / below: 1 + knee / np.asarray(batch))
        assert st.plan(curve, 1, batch_sizes=(64, 4096)).knee == pytest.approx(found, rel=1e-6)


@pytest.mark.parametrize(
    ("predict", "knee"), [(lambda batch: 1e6 / np.asarray(batch), np.inf), (lambda batch: 5 + 0 * np.asarray(batch), 0)]
)
def test_no_knee(predict, knee):
    assert st.plan(Curve(predict), 1, batch_sizes=(64, 4096)).knee == knee
    measured = st.fit_steps_law(BATCHES, predict(BATCHES))
    assert st.plan(measured, 1).knee == knee


# ------------------------------------------------------------------ the choice


@pytest.mark.parametrize("deadline", [None, 0.5, 3.0, 30.0])
@pytest.mark.parametrize("devices", [None, 4, 32])
@pytest.mark.parametrize("throughput", [20.0, TABLE])
def test_the_choice_is_the_best_of_all_batch_sizes(throughput, devices, deadline):
    micro = 4
    plan = st.plan(law(), throughput, devices=devices, micro_batch=micro, deadline=deadline)
    every = np.unique(plan.feasible(np.arange(64, 4097, 1.0)))
    rows = plan.columns(every[(every >= 64) & (every <= 4096)])
    cost, hours = rows.device_hours, rows.hours
    choice = plan.choice
    if deadline is None:
        assert choice.hours * choice.device_hours == pytest.approx((cost * hours).min(), rel=1e-4)
    elif (hours <= deadline).any():
        assert plan.reachable
        assert choice.hours <= deadline
        assert choice.device_hours == pytest.approx(cost[hours <= deadline].min(), rel=1e-3)
    else:
        assert not plan.reachable
        assert choice.hours == pytest.approx(hours.min(), rel=1e-4)
        assert any(f"meets the deadline of {deadline:g} h: the fastest takes" in note for note in plan.notes)


def test_a_deadline_that_is_just_met_is_met():
    hours = st.plan(law(), 20).at(512).hours
    plan = st.plan(law(), 20, deadline=hours)
    assert plan.choice.batch_size == 512
    fastest = st.plan(law(), 20, deadline=st.plan(law(), 20).at(4096).hours)
    assert fastest.reachable
    assert fastest.choice.batch_size == 4096
    assert not any("lies outside of those measured" in note for note in fastest.notes)  # it is the largest of them


def test_one_batch_size_leaves_no_choice():
    plan = st.plan(law(), 20, batch_sizes=(64, 64))
    assert (plan.choice.batch_size, plan.notes) == (64.0, ())
    assert [row.batch_size for row in plan.rows] == [64]


def test_rows_reach_to_both_ends_of_the_range():
    """The knee is the largest batch size that may be taken, and no doubling of the smallest."""
    knee_at_100 = st.fits.StepsLaw(1.0, 100.0, 1.0, False, BATCHES, 1 + 100 / BATCHES)
    plan = st.plan(knee_at_100, 20, batch_sizes=(64, 100), deadline=1e9)
    assert [row.batch_size for row in plan.rows] == [64, 97, 100]  # B* is 96.8


def test_on_fixed_devices_larger_batches_pay_as_far_as_throughput_grows():
    flat, growing = (st.plan(law(), throughput, devices=16) for throughput in (20.0, TABLE))
    assert flat.choice.batch_size == 64
    assert any("larger batches on the same devices save no time" in note for note in flat.notes)
    assert 64 < growing.choice.batch_size < 16 * 64
    assert growing.notes == ()


def test_notes_on_what_was_not_measured():
    plan = st.plan(law(), TABLE, devices=1, batch_sizes=(8192, 16384), deadline=1e9)
    assert any("lie outside of the table of throughput" in note for note in plan.notes)
    assert any("lies outside of those measured, 64 … 4096" in note for note in plan.notes)
    cheap = st.plan(law(), 20, batch_sizes=(64, 128))
    assert any("128 is the largest batch size that was looked at" in note for note in cheap.notes)


def test_rows_have_the_choice_the_knee_and_critical_batch_size():
    plan = st.plan(law(0.02), 20, micro_batch=8, deadline=20.0)
    sizes = {row.batch_size for row in plan.rows}
    wanted = (plan.choice.batch_size, plan.knee, plan.critical_batch_size, *BATCHES)
    assert sizes == {float(plan.feasible(size)) for size in wanted}


# ------------------------------------------------------------------ uncertainty


def test_intervals_are_those_of_the_steps():
    fitted = law(0.03)
    plan = st.plan(fitted, 20, price=2, level=0.9)
    row, (low, high) = plan.at(300), fitted.steps_interval(300, 0.9)
    assert low < row.steps < high
    assert row.hours_interval == pytest.approx((row.hours * low / row.steps, row.hours * high / row.steps))
    assert row.cost_interval == pytest.approx((row.cost * low / row.steps, row.cost * high / row.steps))
    assert plan.knee_interval == pytest.approx(fitted.interval("b/a", 0.9))
    assert plan.critical_interval == pytest.approx(fitted.interval(reference=64, level=0.9))


def test_steps_are_as_uncertain_as_the_terms_that_make_them():
    """At the ends one term alone is left."""
    fitted = law(0.03)
    low, high = fitted.steps_interval([1e-6, 1e12])
    np.testing.assert_allclose([low[0] * 1e-6, high[0] * 1e-6], fitted.interval("b"), rtol=1e-4)
    np.testing.assert_allclose([low[1], high[1]], fitted.interval("a"), rtol=1e-4)


@pytest.mark.slow
def test_coverage_of_the_time():
    """400 replicas at 95%; the band of a binomial is left by a right interval in at most one of 10⁴ seeds, and an
    interval of half the width must fall below it.
    """
    fewest, most = stats.binom.ppf([FALSE_ALARM / 2, 1 - FALSE_ALARM / 2], 400, 0.95)
    truth = 700 * (A + B / 700) / 20 / 3600 / 700
    covered = narrow = 0
    for seed in range(400):
        row = st.plan(law(0.04, 5000 + seed), 20).at(700)
        low, high = row.hours_interval
        covered += low <= truth <= high
        narrow += np.sqrt(low * row.hours) <= truth <= np.sqrt(high * row.hours)
    assert fewest <= covered <= most
    assert narrow < fewest


def test_a_late_end_of_the_interval_is_told():
    plan = st.plan(law(0.05), 20, micro_batch=8, deadline=3.0)
    assert plan.choice.hours <= 3 < plan.choice.hours_interval[1]
    assert any("past the deadline of 3 h" in note for note in plan.notes)


def test_a_law_of_your_own_needs_no_intervals():
    plan = st.plan(Curve(law().predict), 20, batch_sizes=(64, 4096), deadline=30)
    assert plan.choice.batch_size == st.plan(law(), 20, deadline=30).choice.batch_size
    ends = (*plan.choice.hours_interval, *plan.knee_interval, *plan.critical_interval, plan.critical_batch_size)
    assert np.isnan(ends).all()
    assert plan.notes == ()


# ------------------------------------------------------------------ what it is given


def u_shaped():
    """Least data at B_opt = 400."""
    steps = (500 + 4e5 / BATCHES + 500 * 400**2 / BATCHES**2) * np.exp(
        0.01 * np.random.default_rng(0).standard_normal(BATCHES.size)
    )
    return st.fits.StepsMeasurement("", np.nan, BATCHES, steps)


def test_a_law_with_an_optimal_batch_size_has_a_useful_range():
    plan = st.plan(u_shaped(), 20, optimal_batch_size=True)
    fitted = st.fit_steps_law(BATCHES, u_shaped().steps, optimal_batch_size=True)
    low, best, high = plan.smallest_batch_size, plan.optimal_batch_size, plan.critical_batch_size
    assert 64 < low < best < high < 4096
    assert plan.reference == best
    for end in (low, high):  # 20% more data than at B_opt
        assert end * fitted.predict(end) == pytest.approx(1.2 * best * fitted.predict(best))
    assert plan.interval("smallest useful") == fitted.interval("smallest_batch_size", convention=st.fits.SMALLEST)
    assert plan.interval("B_opt") == fitted.interval("optimal_batch_size")
    assert plan.interval("B*") == fitted.interval("critical_batch_size")
    assert np.isnan(plan.interval("knee")).all()
    extra = {row.batch_size: row.extra_data for row in plan.rows}
    assert extra[64.0] > 0.2 > extra[256.0] > 0
    assert {float(plan.feasible(end)) for end in (low, best, high)} <= set(extra)


def test_batch_sizes_below_the_useful_range_are_not_taken_without_a_note():
    plan = st.plan(u_shaped(), 20, optimal_batch_size=True)
    assert plan.choice.batch_size > plan.smallest_batch_size
    assert not any("below the useful range" in note for note in plan.notes)
    small = st.plan(u_shaped(), 20, optimal_batch_size=True, batch_sizes=(64, 100), deadline=1e6)
    assert small.choice.batch_size == 100  # more data and more steps below it
    (note,) = small.notes
    assert note == (
        f"batch size 100 lies below the useful range, which begins at {small.smallest_batch_size:.4g}: a larger one "
        "takes fewer steps and less data"
    )


def test_measured_steps_count_by_their_errors():
    errors = np.array([0.01, 0.01, 0.01, 0.01, 0.1, 0.1, 0.1])
    steps = law(0.05).steps
    measured = st.fits.StepsMeasurement("", np.nan, BATCHES, steps, errors)
    fitted = st.fit_steps_law(BATCHES, steps, standard_errors=errors)
    plan = st.plan(measured, 20)
    assert plan.critical_batch_size == fitted.critical_batch_size(convention=st.fits.SMALLEST)
    assert plan.critical_interval == fitted.interval(convention=st.fits.SMALLEST)
    assert plan.critical_batch_size != st.plan(law(0.05), 20).critical_batch_size


def test_steps_of_a_theory_with_errors_are_a_table():
    measured = st.fits.StepsMeasurement("", np.nan, BATCHES, A + B / BATCHES, np.full(7, 0.02), computed=True)
    plan = st.plan(measured, 20)
    table = st.fits.StepsTable(BATCHES, A + B / BATCHES, standard_errors=0.02)
    assert plan.critical_interval == table.interval()
    assert (plan.smallest_batch_size, plan.optimal_batch_size) == (0, 0)  # smaller batch sizes never take more data
    assert plan.at(256).hours_interval[1] / plan.at(256).hours == pytest.approx(np.exp(0.02 * stats.norm.ppf(0.975)))


@pytest.mark.parametrize("computed", [True, False])
def test_the_critical_batch_size_that_a_fit_has_found_stands(computed):
    """B* keeps the interval, convention and level of its fit, none of which the steps have by themselves."""
    critical = st.fits.FittedCriticalBatchSize(700.0, 500.0, 1000.0, st.Convention(128, 0.3), 0.9)
    measured = st.fits.StepsMeasurement("", np.nan, BATCHES, A + B / BATCHES, None, computed, critical)
    plan = st.plan(measured, 20)
    assert (plan.critical_batch_size, plan.critical_interval) == (700.0, (500.0, 1000.0))
    assert (plan.reference, plan.level, plan.convention.overhead) == (128, 0.9, 0.3)
    other = st.plan(measured, 20, convention=st.Convention(64, 0.3))
    assert other.critical_batch_size == pytest.approx(other.law.critical_batch_size(convention=st.Convention(64, 0.3)))
    with pytest.raises(ValueError, match=r"level must be 0.9, at which these steps were fitted, got 0.95"):
        _ = st.plan(measured, 20, level=0.95).critical_interval


def test_the_form_of_the_law_is_that_of_the_fit():
    critical = st.fits.FittedCriticalBatchSize(700.0, 500.0, 1000.0, st.fits.SMALLEST, 0.95, u_shaped=True)
    steps = u_shaped().steps
    plan = st.plan(st.fits.StepsMeasurement("", np.nan, BATCHES, steps, critical=critical), 20)
    assert isinstance(plan.law, st.fits.UShapedLaw)


class Theory:
    """A fitted theory."""

    def steps_law(self, num_samples, *, overhead):
        critical = st.fits.FittedCriticalBatchSize(600.0, 300.0, 1500.0, st.Convention(None, overhead), 0.9)
        return st.fits.StepsTable(BATCHES, num_samples * (1 / BATCHES + 1 / 3000), critical=critical)


def test_a_fitted_theory_gives_its_steps():
    plan = st.plan(Theory(), 20, num_samples=1e7, convention=st.Convention(None, 0.1))
    assert plan.at(64).samples == pytest.approx(1e7 * (1 + 64 / 3000))
    assert (plan.critical_batch_size, plan.fitted.convention.overhead, plan.level) == (600.0, 0.1, 0.9)


# ------------------------------------------------------------------ bad input


@pytest.mark.parametrize(
    ("settings", "message"),
    [
        ({"throughput": 0}, "throughput must be positive and finite, got 0.0"),
        ({"throughput": "fast"}, "throughput must be a number"),
        ({"devices": 1.5}, "devices must be a whole number of at least 1, got 1.5"),
        ({"micro_batch": 0}, "micro_batch must be a whole number of at least 1, got 0"),
        ({"price": -1}, "price must be positive and finite, got -1.0"),
        ({"deadline": 0}, "deadline must be positive and finite, got 0.0"),
        ({"level": 1}, "level must lie between 0 and 1, got 1.0"),
        ({"batch_sizes": (128, 64)}, r"batch_sizes must be the smallest and the largest, got \[128, 64\]"),
        (
            {"batch_sizes": (65, 70), "devices": 8, "micro_batch": 8},
            "batch_sizes from 65 to 70 hold no multiple of 8 samples on each of 8 devices: widen them",
        ),
        ({"law": 3}, r"law must have predict\(batch_size\), as a StepsLaw has, got 3"),
        ({"law": Curve(abs)}, "batch_sizes must be given, smallest and largest"),
        ({"law": Theory()}, "num_samples must be given: steps of a theory are to the least loss"),
        ({"law": Theory(), "num_samples": 0}, "num_samples must be positive and finite, got 0.0"),
        ({"num_samples": 1e6}, "num_samples is of a fitted theory: measured steps have their target, leave it out"),
        ({"optimal_batch_size": True}, "optimal_batch_size is of a law that is fitted to measured steps"),
    ],
)
def test_bad_plans(settings, message):
    with pytest.raises(ValueError, match=message):
        st.plan(**({"law": law(), "throughput": 20} | settings))


def test_the_first_line_says_that_b_star_is_not_determined():
    """Steps that fall like 1/B everywhere bound B* from below only; the control has a plateau."""
    open_end = st.plan(st.fit_steps_law(BATCHES, 1e6 / BATCHES), 20, batch_sizes=(64, 4096), deadline=1e6)
    assert open_end.critical_interval[1] == np.inf
    assert open_end.sheet().answer.startswith("B* is not determined: its 95% interval is ")
    assert st.plan(law(), 20, deadline=1e6).sheet().answer.startswith("Batch size ")
