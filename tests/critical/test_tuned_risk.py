"""What the tuned risk is made of, each part against its definition."""

import numpy as np
import pytest

import sgdtheory as st
from sgdtheory.critical.tuned_risk import TunedRisk, _gains, _leading, _Peaks

PROBLEM = st.LeastSquares([1.0, 0.3, 0.05], [0.5, 0.4, 0.3], noise_variance=0.5)
LAST = st.LastIterate()


def one(*values):
    return [np.array([float(value)]) for value in values]


# ------------------------------------------------------------------ what needs no tuning


def quiet_risk(algorithm, rates, steps):
    """Of batches so large, and targets without noise, that the mean path is all there is."""
    quiet = st.LeastSquares(PROBLEM.eigenvalues, PROBLEM.signal, 0.0)
    setting = {"batch_size": 1e15, "learning_rate": rates, "num_samples": 1e15 * steps}
    return st.excess_risk(quiet, **setting, algorithm=algorithm).total


@pytest.mark.parametrize("method", [st.HeavyBall(0.7), st.Nesterov(0.6)], ids=str)
@pytest.mark.parametrize("average", [LAST, st.UniformAverage(), st.TailAverage(0.5), st.ExponentialAverage(window=0.2)])
def test_the_mean_risk_is_that_without_noise_and_with_infinite_batches(method, average):
    """Σ s (mean of the path)²: also under a schedule."""
    rates = np.array([0.03, 0.2, 0.5])
    for schedule in (st.Constant(), st.Cosine()):
        algorithm = st.Algorithm(method, schedule=schedule, average=average)
        found = TunedRisk(PROBLEM, algorithm).mean_risk(rates, 11.0)
        np.testing.assert_allclose(found, quiet_risk(algorithm, rates, 11), rtol=1e-9)


@pytest.mark.parametrize(
    ("method", "steps", "close"),
    [
        (st.ScheduleFree(), 4000, 0.02),  # depends on them: a thousand stand for more
        (st.HeavyBall(0.9), 2000, 1e-6),  # does not: they are counted as they are
    ],
    ids=str,
)
def test_the_mean_risk_of_many_steps(method, steps, close):
    algorithm, rates = st.Algorithm(method, average=LAST), np.array([1e-4, 3e-4, 1e-3])
    found = TunedRisk(PROBLEM, algorithm).mean_risk(rates, float(steps))
    np.testing.assert_allclose(found, quiet_risk(algorithm, rates, steps), rtol=close)


def test_directions_with_most_of_the_signal_lead():
    eigenvalue, signal = np.arange(30.0), np.random.default_rng(0).permutation(30) + 1.0
    found = _leading(eigenvalue, signal)
    assert sorted(found[1].tolist()) == list(range(23, 31))
    np.testing.assert_array_equal(signal[found[0].astype(int)], found[1])


def test_momentum_goes_farther_than_sgd():
    """With gradient 1, by 1/(1 − β) after many steps; numbers of steps are powers of two, others are rounded up."""
    assert _gains(st.SGD(), np.array([64.0])) == pytest.approx([1.0])
    gains = _gains(st.HeavyBall(0.9), np.array([2.0**20, 1.0, 2.0]))
    assert gains == pytest.approx([10.0, 1.0, (1 + 1.9) / 2], rel=1e-3)  # in two steps w moves by 1, then by 1.9


# ------------------------------------------------------------------ the range of γ


def test_a_schedule_may_pass_the_edge_by_what_lets_moments_grow_by_e_cubed():
    """Until the growth over a run, to first order in how far γ is beyond the edge, is 3."""
    problem = st.LeastSquares([1.0], [1.0], noise_variance=1.0)
    algorithm = st.Algorithm(schedule=st.Linear(), average=LAST)
    tuned, batch = TunedRisk(problem, algorithm), 10.0
    plain = float(st.max_stable_learning_rate(problem, batch_size=10))
    u = (np.arange(200_000) + 0.5) / 200_000

    def growth(rate):  # log of the factor of one step, one direction: (1 − γ)² + 2γ²/B
        return np.log((1 - rate) ** 2 + 2 * rate**2 / batch)

    slope = growth(1.01 * plain) / 0.01
    for steps in (50.0, 1000.0):
        end = tuned.edge(*one(batch, steps))[0]
        beyond = np.maximum(end / plain * (1 - u) - 1, 0).mean()
        assert steps * slope * beyond == pytest.approx(3.0, rel=0.05)
    assert tuned.edge(*one(batch, 1e-3))[0] == pytest.approx(4 * plain)
    constant = TunedRisk(problem, st.Algorithm(average=LAST))
    assert constant.edge(*one(batch, 50.0))[0] == pytest.approx(plain)


def test_how_far_a_linear_decay_passes_the_edge_in_closed_form():
    """The mean of ((1 + δ)(1 − u) − 1)₊ is δ²/(2(1 + δ))."""
    algorithm = st.Algorithm(schedule=st.Linear(), average=LAST)
    tuned = TunedRisk(st.LeastSquares([1.0], [1.0], noise_variance=1.0), algorithm)
    beyond = np.array([0.01, 0.02, 0.1, 0.5, 2.5])
    speed = 3 * 2 * (1 + beyond) / beyond**2
    np.testing.assert_allclose(tuned._overshoot(speed), beyond, rtol=3e-4)


# ------------------------------------------------------------------ batches of a schedule


def test_a_peak_for_every_mean():
    """The mean of max(1, B g) over the run."""
    u = (np.arange(20_000) + 0.5) / 20_000
    ramp, stages = st.Linear(final=3.0), (st.Stages([0, 0.5], [0.02, 1.0]), st.Stages([0, 0.5], [1.0, 2.0]))
    for shape in (ramp, st.Linear(0.0, 1.0), *stages, st.Stages([0], [0.4])):
        peaks = _Peaks(st.Algorithm(batch_schedule=shape, average=LAST))
        for mean in (1.0, 1.5, 2.0, 40.0):
            (peak,) = peaks(np.array([mean]))
            assert np.maximum(peak * shape.at(u), 1.0).mean() == pytest.approx(mean, rel=2e-5)
        np.testing.assert_array_equal(peaks(np.array([7.0, 2.0])), [*peaks(np.array([7.0])), *peaks(np.array([2.0]))])


@pytest.mark.parametrize(
    ("schedule", "message"),
    [(lambda step: 1.0 + 0 * step, "shape of fractions"), (st.Stages([0, 0.5], [0.0, 0.0]), "positive somewhere")],
)
def test_batch_schedules_that_are_refused(schedule, message):
    with pytest.raises(ValueError, match=message):
        TunedRisk(PROBLEM, st.Algorithm(batch_schedule=schedule, average=LAST))


def test_a_batch_schedule_may_be_zero_somewhere():
    """No batch is smaller than 1: a mean of 3 is that of ones and fives."""
    half = st.Algorithm(batch_schedule=st.Stages([0, 0.5], [0.0, 1.0]), average=LAST)
    assert TunedRisk(PROBLEM, half)._peaks(np.array([3.0])) == pytest.approx(5.0)


# ------------------------------------------------------------------ tuned


def test_a_single_step_of_an_average_is_taken_at_the_edge():
    tuned = TunedRisk(PROBLEM)
    found = tuned.least(np.array([5.0, 5.0]), np.array([1.0, 30.0]))
    edge = float(st.max_stable_learning_rate(PROBLEM, batch_size=5))
    assert (found.share[0], found.rate[0]) == pytest.approx((1.0, edge))
    assert found.risk[0] == pytest.approx(PROBLEM.initial_risk)
    assert 0 < found.share[1] < 1
    assert found.rate[1] == pytest.approx(found.share[1] * edge)
    last = TunedRisk(PROBLEM, st.Algorithm(average=LAST)).least(*one(5, 1))
    assert last.share[0] < 1  # which learns something in one step


@pytest.mark.parametrize("algorithm", [st.Algorithm(), st.Algorithm(average=LAST)], ids=["average", "last"])
def test_roughly_is_near_the_least(algorithm):
    """Also from a guess of γ, and with few steps among many; beyond the edge it never goes."""
    index = np.arange(1.0, 11)
    tuned = TunedRisk(st.LeastSquares(50 * index**-2, index**-3), algorithm)
    batch, steps = np.array([1.0, 20.0, 3.0, 2.0, 7.0]), np.array([40.0, 8.0, 30.0, 5.0, 25.0])
    best, edge = tuned.least(batch, steps), tuned.edge(batch, steps)
    for rate in (None, 0.5 * best.rate):
        found = tuned.roughly(batch, steps, rate)
        np.testing.assert_allclose(found.risk, best.risk, rtol=1e-3)
        np.testing.assert_allclose(found.rate, found.share * edge)
    assert (tuned.roughly(batch, steps, 3 * edge).rate <= edge).all()
    assert found.risk[1] == pytest.approx(best.risk[1], rel=1e-9)


def test_risks_are_at_most_huge():
    """Where a peak beyond the edge diverges; and exact unless an error is allowed."""
    tuned = TunedRisk(PROBLEM, st.Algorithm(schedule=st.Cosine(), average=LAST))
    assert tuned.parts(*one(1, 50, 3000)).max() == pytest.approx(1e9 * PROBLEM.initial_risk, rel=1e-12)
    assert np.isfinite(tuned.risk(*one(1, 50, 3000))).all()
    exact = st.excess_risk(PROBLEM, batch_size=4, learning_rate=0.3, num_samples=1200, algorithm=tuned.algorithm)
    assert tuned.risk(*one(4, 0.3, 300))[0] == pytest.approx(exact.total, rel=1e-9)
    default = st.excess_risk(PROBLEM, batch_size=4, learning_rate=0.3, num_samples=1200).total
    assert TunedRisk(PROBLEM).risk(*one(4, 0.3, 300))[0] == pytest.approx(default, rel=1e-13)


def test_a_search_begins_below_the_best_rate_of_the_first_order():
    """A tenth of the γ that is best for nγλ ≪ 1, or of 1/(nλ_1)."""
    for noise, batch in ((400.0, 2.0), (1e6, 1.0), (0.0, 50.0)):
        problem = st.LeastSquares([2.0], [0.7], noise)
        tuned = TunedRisk(problem)
        curve = tuned._curve(*one(batch, 100.0))
        wanted = min(1.5 * 0.7 * batch / (2 * 0.7 + noise), 1.0) / (100 * 2.0)
        assert tuned._least_rate(curve)[0] == pytest.approx(0.1 * wanted)
    two = TunedRisk(st.LeastSquares([2.0, 0.5], [0.7, 0.4], 400.0))
    gain = 1.5 * (0.7 + 0.4 / 4) / ((1 + 1 / 16) * (2 * 1.1 + 400))
    assert two._least_rate(two._curve(*one(3.0, 100.0)))[0] == pytest.approx(0.1 * 3 * gain / 200)
    heavy = TunedRisk(st.LeastSquares([2.0], [0.7], 0.0), st.Algorithm(st.HeavyBall(0.9), average=LAST))
    curve = heavy._curve(*one(50.0, 2.0**17))
    assert heavy._least_rate(curve)[0] == pytest.approx(0.1 / (2.0**17 * 2.0) / 10, rel=1e-3)


def test_a_basin_is_followed_without_a_scan(monkeypatch):
    """A scan comes where it is lost alone, for those that are."""
    tuned, scanned = TunedRisk(PROBLEM), []
    batch, before = np.array([1.0, 30.0, 4.0, 1e6]), np.array([400.0, 60.0, 5000.0, 301.0])
    steps = np.array([900.0, 51.0, 4000.0, 303.0])
    start, best = tuned.least(batch, before), tuned.least(batch, steps)
    nearby = np.where(start.share < 0.5, start.share * before / steps, start.share)  # nγ or, near the edge, γ
    assert 0 < (start.share < 0.5).sum() < 4
    least = tuned.least
    monkeypatch.setattr(tuned, "least", lambda b, n: scanned.append(b.tolist()) or least(b, n))
    found = tuned.least_near(batch, steps, nearby)
    assert not scanned
    np.testing.assert_allclose(found.risk, best.risk, rtol=1e-8)
    np.testing.assert_allclose(found.rate, best.rate, rtol=1e-3)
    np.testing.assert_allclose(found.share * tuned.edge(batch, steps), found.rate, rtol=1e-12)
    astray = nearby * np.array([1.0, 1.0, 1e-3, 1.0])
    np.testing.assert_allclose(tuned.least_near(batch, steps, astray).risk, best.risk, rtol=1e-8)
    assert scanned == [[4.0]]


def test_which_runs_still_swing():
    """Up to as many steps as it is said; all of schedule-free's, none of the plain average of plain steps."""
    steps = np.array([2.0, 40.0, 41.0, 1e6])
    for algorithm, expected in (
        (st.Algorithm(average=LAST), [True, True, False, False]),
        (st.Algorithm(st.ScheduleFree(0.9), average=LAST), [True] * 4),
    ):
        curve = TunedRisk(PROBLEM, algorithm)._curve(np.full(4, 3.0), steps)
        assert curve.swings.lasting(np.full(4, 1e-9)).tolist() == expected
    assert TunedRisk(PROBLEM)._curve(np.full(4, 3.0), steps).swings is None


def test_momentum_is_seen_for_longer_beside_a_smaller_risk():
    """0.9^n as long as it is a thousandth of the share of the initial risk, or a millionth."""
    tuned = TunedRisk(PROBLEM, st.Algorithm(st.HeavyBall(0.9), average=LAST))
    steps = np.arange(1.0, 400)
    curve = tuned._curve(np.ones(399), steps)
    for left, wanted in ((1.0, 1e-6), (1e-2, 1e-6), (2.0**-20, 2.0**-20 * 1e-3), (1.3 * 2.0**-30, 2.0**-30 * 1e-3)):
        last = np.log(wanted) / np.log(0.9)
        lasting = curve.swings.lasting(np.full(399, left * tuned.initial_risk))
        np.testing.assert_array_equal(lasting, steps <= last, str(left))
        assert tuned.patterns_at(left * tuned.initial_risk).rippling == pytest.approx(last)
    plain = TunedRisk(PROBLEM)
    assert plain.patterns_at(1e-9) is plain.patterns


def test_roughly_looks_at_all_rates_where_momentum_is_still_seen():
    """Beside a risk of 3e-8 a basin of its own would be wrong by half at 160 steps."""
    problem = st.LeastSquares([1.0, 0.2, 0.01], [1.0, 0.1, 0.3], 0.1)
    tuned = TunedRisk(problem, st.Algorithm(st.HeavyBall(0.9), average=LAST))
    given = np.array([7.4e6, 6.25e6]), np.array([135.0, 160.0])
    np.testing.assert_allclose(tuned.roughly(*given).risk, tuned.least(*given).risk, rtol=1e-3)
