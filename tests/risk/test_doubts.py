"""Stated errors of equivalents, carried to the end of a run, against simulations in another program."""

import numpy as np
import pytest

import sgdtheory as st
from benchmarks.equivalents import one_of_all
from sgdtheory.risk.mean_field.closure import MOST_FLUCTUATION, Closure, decay_of, shares
from sgdtheory.risk.mean_field.ensemble import Ensemble
from sgdtheory.risk.mean_field.lion import Mixture, fourth_moment
from sgdtheory.risk.mean_field.stated_error import LATTICE, Carried, ErrorTerms, Lag

LAST = st.LastIterate()
HALVES = 2.0 ** -np.arange(30.0), np.full(30, 1 / 30)
GAP = np.append(np.ones(5), np.full(3, 1e-6)), np.append(np.full(5, 0.2), np.full(3, 0.1))
TWENTY = np.append(np.ones(20), np.full(20, 1e-6)), np.full(40, 1 / 40)
POWER = np.arange(1.0, 101) ** -1.2, np.arange(1.0, 101) ** -2.0
ONE = [1.0], [1.0]
CLIFF = np.arange(1.0, 21) ** -0.9, np.arange(1.0, 21) ** -0.72
# Mean risks, with standard errors below 0.5%, of a program in C that draws from the law of a batch: eigenvalues and
# signal, σ², B, n, method, schedule, γ (the product's best one, or given), mean.
CASES = [
    (HALVES, 1.0, 16, 1000, st.SignSGD(), st.Cosine(), 5.71, 0.13618),
    (HALVES, 0.1, 16, 1000, st.SignSGD(), st.Linear(), 5.0, 0.10522),
    (GAP, 0.1, 16, 1000, st.SignSGD(), st.Cosine(), 3.55, 0.0016206),
    (GAP, 0.01, 16, 1000, st.SignSGD(), st.Linear(), 2.66, 0.00087587),
    (TWENTY, 0.1, 16, 1000, st.SignSGD(), st.Linear(), 1.36, 0.15268),
    (ONE, 1.0, 24, 149, st.SignSGD(0.95), st.Constant(warmup=0.1), 0.02, 0.011416),
    (CLIFF, 1e-4, 16, 120, st.SignSGD(), st.Linear(), 0.0377, 9.0e-5),  # the mean of few replicas that lag behind
    (POWER, 0.1, 1, 300, st.NormalizedSGD(), st.Linear(), 0.209, 0.052318),
]


@pytest.mark.parametrize("case", CASES)
def test_errors_are_within_what_is_stated(case):
    """Each of them stated 2% where it was off by 3% to 930%."""
    spectrum, noise, batch, steps, method, schedule, rate, mean = case
    problem = st.LeastSquares(*spectrum, noise)
    algorithm = st.Algorithm(method, schedule, average=LAST)
    risk = st.excess_risk(problem, batch_size=batch, learning_rate=rate, num_samples=batch * steps, algorithm=algorithm)
    assert abs(risk.total / mean - 1) < risk.relative_error + 0.015


def test_steps_that_lead_exactly_to_and_fro():
    """Averages are next to nothing: what is left is rounding of integrals, or of rare signs that are wrong.

    The first is ((a + b)/2)², the second a mean of 10⁶ replicas of the program in C. Stated were 0.2% and 7%.
    """
    start = 1.98419368**0.5
    exact = ((start + start - 2.81199161) / 2) ** 2
    eight = np.ones(8), np.full(8, 0.3104631)
    cases = [
        (([1.0], [start**2]), 10.461647, 235, 5, st.NormalizedSGD(), 2.81199161, exact),
        (eight, 0.1729484, 197, 10, st.SignSGD(), 0.38891681, 4.77e-5),
    ]
    for spectrum, noise, batch, steps, method, rate, mean in cases:
        algorithm = st.Algorithm(method, average=st.TailAverage(0.7))
        setting = {"batch_size": batch, "learning_rate": rate, "num_samples": batch * steps}
        found = st.excess_risk(st.LeastSquares(*spectrum, noise), **setting, algorithm=algorithm)
        assert abs(found.total / mean - 1) < found.relative_error + 0.03


def test_the_mean_of_replicas_that_lag_behind():
    """Against a sum over ξ: a² = e^{−cτ} and Δ = ½ Σ γ √q have E a² = a² e^{(cΔ)²/2}, if replicas are ahead as well."""
    slope, spread = np.array([[0.5, 1.0]]), np.array([[0.3, 0.1]])
    found = Lag.at_start(np.ones((1, 2)))
    for step in range(1, 101):
        found = found.moved(np.exp(-slope * 0.2 * step), spread, 0.2, 1.0, None)
    delay = 20 * spread / 2
    np.testing.assert_allclose(found.delay, delay)
    expected = np.exp(-slope * 20) * np.expm1((slope * delay) ** 2 / 2)
    np.testing.assert_allclose(found.excess(), expected, rtol=2e-3)
    still = Lag.at_start(np.ones((1, 2))).moved(np.ones((1, 2)), spread, 1.0, 1.0, None)
    assert still.excess().max() == 0  # who does not move cannot be late


def test_an_average_has_the_mean_lag_of_its_steps():
    spread = np.full((1, 1), 0.2)
    for kept in (1.0, 0.9):
        found = Lag.at_start(np.ones((1, 1)))
        weights, values = [], []
        for step in range(1, 9):
            found = found.moved(np.array([[np.exp(-0.3 * step)]]), spread, 1.0, 1.0, kept if step > 2 else None)
            weights, values = [kept * each for each in weights] + [step > 2], [*values, found.excess()[0, 0]]
        assert found.past[0, 0] == pytest.approx(np.average(values, weights=weights))
        assert found.of(np.full(1, 3.0), True)[0] == pytest.approx(3 * found.past[0, 0])


def test_little_is_stated_where_noise_dominates_and_directions_are_many():
    setting = {"batch_size": 16, "learning_rate": 0.004, "num_samples": 16000}
    for method in (st.SignSGD(), st.Adam(0.9, 0.999), st.NormalizedSGD()):
        algorithm = st.Algorithm(method, st.Linear(), average=LAST)
        found = st.excess_risk(st.PowerLaw(1.5, 2.0, 300), **setting, algorithm=algorithm)
        assert found.relative_error < 0.015


def look(square, variance, decay, pull=0.0, scatter=0.0, loss=1e12, by_mean=0.0, by_variance=0.0):
    """Return the error terms of one direction, with so large a loss that nothing feeds back."""
    closure = Closure(*(np.array([[each]]) for each in (pull, scatter, by_mean, by_variance)))
    return ErrorTerms(*(np.array([[each]]) for each in (square, variance, decay)), closure, np.array([loss]))


def doubtful(mean, variance):
    nothing = Carried.at_start((1, 1))
    return nothing._replace(mean=np.full((1, 1), mean), variance=np.full((1, 1), variance))


def carried(before, after, steps):
    return doubtful(0.0, 0.0).moved(before, after, steps, np.ones(1), None)


def test_slow_directions_carry_errors_and_fast_ones_forget():
    """Against the two recursions with the pull changed by ε: to first order in ε."""
    error = 1e-4
    for decay, steps in ((1e-4, 200), (0.2, 200)):

        def run(pull, steps=steps):
            mean, variance = 1.0, 0.0
            for _ in range(steps):
                mean, variance = mean * np.exp(-pull), variance * np.exp(-2 * pull) + 1e-3
            return mean**2, variance

        (square, variance), (wrong_square, wrong_variance) = run(decay), run(decay * (1 + error))
        before, after = look(1.0, 0.0, decay, error), look(square, variance, decay, error)
        found = carried(before, after, steps)
        assert found.mean[0, 0] == pytest.approx(abs(np.log(wrong_square / square)), rel=0.01)
        stated = found.variance[0, 0]
        assert abs(wrong_variance / variance - 1) < 1.01 * stated < 5 * abs(wrong_variance / variance - 1)
    # What was in doubt once: a slow direction keeps it, a fast one has forgotten its variance's.
    for decay, kept in ((1e-4, True), (1.0, False)):
        quiet = look(0.0, 1e-3, decay)
        later = doubtful(0.5, 0.5).moved(quiet, quiet, 100.0, np.ones(1), None)
        assert (later.variance[0, 0] > 0.4) == kept


@pytest.mark.parametrize("steps", [10, 60, 1000])
def test_weight_decay_forgets_errors_of_means(steps):
    """Against `a ← a − k (1 + ε) a − p (a − 1)`: the error of a² ends at 2ε k/(k + p) instead of growing."""
    error, pull, shrink = 1e-4, 0.01, 0.02

    def run(pull, number):
        mean = 1.0
        for _ in range(number):
            mean = mean - pull * mean - shrink * (mean - 1)
        return mean**2

    def terms(number):
        found = look(run(pull, number), 0.0, -np.log1p(-pull - shrink), error)
        return found._replace(pulled=np.array([[pull / (pull + shrink)]]))

    found = doubtful(0.0, 0.0)
    for low in range(0, steps, 10):
        found = found.moved(terms(low), terms(low + 10), 10.0, np.ones(1), None)
    exact = abs(np.log(run(pull * (1 + error), steps) / run(pull, steps)))
    assert exact < 1.05 * found.mean[0, 0] < 1.5 * exact


def test_a_single_step_is_as_wrong_as_the_state_before_it():
    """A first step is exact: nothing fluctuates before it. What fluctuates after it matters to later ones only."""
    certain, fluctuating = look(1.0, 0.0, 0.1), look(0.8, 0.2, 0.1, pull=0.3, scatter=0.5)
    for steps, wrong in ((1.0, False), (2.0, True)):
        found = carried(certain, fluctuating, steps)
        assert (found.mean[0, 0] > 0) == (found.variance[0, 0] > 0) == wrong


def test_a_pull_follows_the_direction_itself():
    """Against `r ← r − 2 k r^{1 − p} + 2k` near its fixed point 1, and a likewise: errors of (1 − p) k forget."""
    decay, power = 0.01, 0.4
    still = look(1.0, 1.0, decay, by_variance=power)
    found = doubtful(0.0, 0.1).moved(still, still, 1.0, np.ones(1), None).variance[0, 0]
    variance = 1.1
    assert found == pytest.approx(variance - 2 * decay * variance ** (1 - power) + 2 * decay - 1, rel=2e-3)
    still = look(1.0, 0.0, decay, by_mean=power)
    found = doubtful(0.1, 0.0).moved(still, still, 1.0, np.ones(1), None).mean[0, 0]
    assert found == pytest.approx(0.1 + 2 * decay * power * 0.1)


@pytest.mark.parametrize("kept", [1.0, 0.9])
def test_an_average_has_the_mean_errors_of_its_steps(kept):
    """A direction gone in the end does not count as it is then, and means to and fro cancel, but not their errors."""
    found, sums = doubtful(0.0, 0.0), np.zeros(4)
    for step in range(1, 7):
        before, after = (look(np.exp(-each), 0.1 * each, 0.5, pull=0.1, scatter=0.2) for each in (step - 1, step))
        old, found = found, found.moved(before, after, 1.0, np.ones(1), kept if step > 2 else None)
        size, spread = np.sqrt([before.square, after.square]), np.array([before.variance, after.variance])
        wrong = size * [old.mean, found.mean] + LATTICE * 0.1 * np.sqrt(spread)
        new = wrong.sum(), (spread * [old.variance, found.variance]).sum(), spread.sum(), 2
        sums = kept * sums + np.array(new) / 2 if step > 2 else sums
    parts = np.full((1, 1), 3.0), np.full((1, 1), 5.0)  # of two directions, S² = 1.5 each
    expected = 2 * 1.5**0.5 * sums[0] / sums[3] + 5 * sums[1] / sums[2]
    assert found.of(*parts, np.full(1, 2.0), True)[0] == pytest.approx(expected)
    last = 3 * found.mean + 5 * found.variance
    assert found.of(*parts, np.full(1, 2.0), False)[0] == pytest.approx(last[0, 0])


def test_an_error_of_the_loss_feeds_back_by_half_of_it():
    wrong = Carried.at_start((1, 2))._replace(variance=np.array([[0.4, 0.0]]))
    exact = Closure(*np.zeros((4, 1, 2)))
    parts = (np.array([each]) for each in ([0.0, 1.0], [1.0, 0.0], [9.0, 0.01]))
    before = ErrorTerms(*parts, exact, np.array([2.0]))
    found = wrong.moved(before, before, 1.0, np.ones(2), None)
    assert found.mean[0, 1] == pytest.approx(2 * 0.01 * 0.5 * 0.4 / 2)


def test_shares_of_what_directions_see():
    """q against sampled variances of what the others hold of T."""
    random = np.random.default_rng(5)
    mean = np.array([0.3, 0.5, 0.0])
    variance = np.array([0.2, 0.1, 0.05])
    many = Ensemble(np.ones(3), np.ones(3), np.ones(3), np.ones(3), 0.0, 1.0)
    loss = 1 + (mean**2 + variance).sum()
    found = shares(many, np.stack([mean, variance])[:, None], np.array([[loss]]), np.array([[4.0]]))
    squares = (mean + np.sqrt(variance) * random.standard_normal((400_000, 3))) ** 2
    for place in range(3):
        others = loss - mean[place] ** 2 - variance[place]
        expected = np.delete(squares, place, axis=1).sum(1).var() / others**2
        assert found.fluctuation[0, place] == pytest.approx(expected, rel=0.02)
        assert found.spread[0, place] == pytest.approx(4 * variance[place] / (others + 4 * variance[place]))
    alone = np.array([[[9.0, 0.0, 0.0]], [[9.0, 1e-9, 0.0]]])
    assert shares(many, alone, np.array([[1.0]]), np.array([[4.0]])).fluctuation.max() == MOST_FLUCTUATION


@pytest.mark.parametrize(("gain", "slope", "beta"), [(0.1, 0.3, 0.9), (0.5, 3.0, 0.5), (0.02, 0.05, 0.99)])
def test_decay_is_that_of_the_slowest_eigenvalue(gain, slope, beta):
    matrix = np.array([[1 - slope * gain, -slope * beta], [gain, beta]])
    expected = -np.log(np.abs(np.linalg.eigvals(matrix)).max())
    assert decay_of(matrix[..., None, None])[0, 0] == pytest.approx(expected, abs=1e-12)


def test_the_fourth_moment_of_weights():
    for seen in (1, 3, 200):
        weights = 0.8 ** np.arange(seen)
        expected = (weights**4).sum() / (weights**2).sum() ** 2
        assert fourth_moment(Mixture(0.8, 0.8), np.array(seen - 1.0)) == pytest.approx(expected, rel=1e-12)


@pytest.mark.slow
def test_random_settings_are_within_what_is_stated():
    """Over all that is accepted. 1% of settings may be beyond it and three standard errors: 4 of 24 by chance 9e-5.

    A flat 2%, as was stated once, fails.
    """
    found = [one_of_all(seed, 256)[1] for seed in range(10_000, 10_024)]
    excess = np.array([abs(each.error) - 3 * each.noise for each in found])
    stated = np.array([each.stated for each in found])
    assert (excess > stated + 1e-6).sum() <= 3
    assert (excess > 0.02).sum() > 3
    assert np.isfinite(stated).mean() > 0.6
