"""Batch sizes that signSGD can use, against every number of steps and a dense grid of learning rates."""

import numpy as np
import pytest

import sgdtheory as st
from sgdtheory.critical import arrival_minima
from sgdtheory.critical.minima import minima_in_range, minimum
from sgdtheory.critical.tuned_equivalent import TunedEquivalent
from sgdtheory.risk import run_risks
from sgdtheory.risk.mean_field.lion import LionField
from tests.marks import sampled, slow

LAST = st.LastIterate()
LINEAR = st.Algorithm(st.SignSGD(), st.Linear(), average=LAST)
AVERAGED = st.Algorithm(st.SignSGD())
ADAM = st.Algorithm(st.Adam(0.9, 0.95), st.Linear(), average=LAST)
PROBLEM = st.LeastSquares(np.arange(1.0, 13) ** -1.5, np.arange(1.0, 13) ** -2.0, 1.0)

NARROW = st.PowerLaw(2.8234, 4.1127, noise_variance=0.025354)  # one of two valleys is narrow
FAR = st.PowerLaw(2.68588, 1.74287, noise_variance=0.133488)  # from the first minimum to the least one


def test_small_batches_waste_data():
    """T37: with B = 1 some 57% more where noise dominates, and no more from a few on; SGD wastes none."""
    law = st.PowerLaw(1.5, 2.0)
    found = st.critical_batch_size(law, num_samples=1e4, algorithm=LINEAR)
    assert 2 <= found.smallest_batch_size <= 4
    assert found.smallest_batch_size < found.optimal_batch_size < found.batch_size
    assert 0.4 < found.curve.overhead[0] < 0.6
    assert found.curve.risk.argmin() not in (0, found.curve.risk.size - 1)
    near = found.curve.overhead[np.abs(np.log(found.curve.batch_size / found.optimal_batch_size)) < 1]
    assert (near < 0.02).all()
    plain = st.critical_batch_size(law, num_samples=1e4, curve=False)
    assert plain.smallest_batch_size == 1


@pytest.mark.parametrize(
    ("problem", "algorithm", "batch", "steps"),
    [  # with two minima over γ
        slow(
            st.PowerLaw(1.87, 4.25, noise_variance=0.048), st.Algorithm(st.Adam(), st.Linear(), average=LAST), 541, 76
        ),
        (st.PowerLaw(2.0, 1.95, 20, 19.8), ADAM, 837, 54),
        (st.PowerLaw(1.5, 2.0, 16), LINEAR, 200, 2),
        slow(st.PowerLaw(2.5, 3.25), ADAM, 10_000, 120),
        (NARROW, st.Algorithm(st.Adam(0.9, 0.999), st.Linear(), average=LAST), 29_024, 77),
        (FAR, st.Algorithm(st.Adam(0.95, 0.99), st.Linear(), average=LAST), 2862, 20),
    ],
)
def test_the_least_of_several_minima(problem, algorithm, batch, steps):
    best = st.optimal_learning_rate(problem, batch_size=batch, num_samples=batch * steps, algorithm=algorithm)
    rates = best.learning_rate * np.geomspace(1e-2, 1e2, 81)
    setting = {"batch_size": batch, "num_samples": batch * steps, "algorithm": algorithm}
    assert best.risk <= st.excess_risk(problem, **setting, learning_rate=rates).total.min() * (1 + 1e-3)


@pytest.mark.slow
@pytest.mark.parametrize("seed", sampled(range(100, 124), 12))
def test_no_learning_rate_is_better_in_few_steps(seed):
    """To 0.2%, and to 2% of signs with momentum: their steps without noise make the risk a jagged function of γ."""
    random = np.random.default_rng(seed)
    method = (st.Adam(0.9, 0.95), st.Adam(0.9, 0.999), st.Adam(0.95, 0.99), st.SignSGD(0.9))[random.integers(4)]
    schedule = (st.Linear(), st.Cosine(), st.Constant())[random.integers(3)]
    algorithm = st.Algorithm(method, schedule, average=(LAST, st.UniformAverage())[random.integers(2)])
    noise = 10 ** random.uniform(-2, 1)
    problem = st.PowerLaw(random.uniform(1.2, 3), random.uniform(1.2, 4.5), noise_variance=noise)
    steps = np.array([np.floor(10 ** random.uniform(0.7, 2.6))])
    batch = np.array([np.floor(10 ** random.uniform(0, 5))])
    best = TunedEquivalent(problem, algorithm).least(float(batch[0]), float(steps[0]))
    rates = best.rate * np.geomspace(1 / 20, 20, 241)

    def risks(rates, tolerance):
        """With a tolerance all rates go side by side, which takes a tenth of the time."""
        same = np.ones_like(rates)
        options = {"rounded": False, "tolerance": tolerance, "estimate": False}
        return run_risks(problem, algorithm, batch * same, rates, steps * same, **options).parts.sum(0)

    found = risks(rates, 1e-5)
    again = np.append(np.arange(0, 241, 20), np.nanargmin(found))
    np.testing.assert_allclose(found[again], risks(rates[again], 0.0), rtol=5e-4)
    allowed = 0.02 if isinstance(method, st.SignSGD) else 2e-3
    assert best.risk <= np.nanmin(found) * (1 + allowed)


@pytest.mark.parametrize(
    ("exponents", "noise", "schedule", "method", "steps", "batch"),
    [  # Tuned risks were 6, 8, 26, 22, 91 and 41% too high, valleys being closer than the grid.
        ((2.619, 3.295), 0.1677, st.Cosine(), st.Lion(0.9, 0.98), 39, 1313),
        ((1.5658, 1.7588), 0.03859, st.Linear(), st.SignSGD(0.9), 43, 33_478),
        ((2.024, 2.326, 6), 0.013, st.Cosine(), st.SignSGD(), 10, 74_006),
        ((1.815, 3.481, 6), 0.042, st.Cosine(), st.SignSGD(), 11, 13_635),
        ((2.305, 2.478, 14), 0.018, st.Cosine(), st.SignSGD(0.9), 69, 13_684),
        slow((1.954, 3.603), 0.011, st.Linear(), st.NormalizedSGD(), 74, 3235),
    ],
)
def test_minima_that_a_grid_hides(exponents, noise, schedule, method, steps, batch):
    problem = st.PowerLaw(*exponents, noise_variance=noise)
    algorithm = st.Algorithm(method, schedule, average=LAST)
    best = st.optimal_learning_rate(problem, batch_size=batch, num_samples=batch * steps, algorithm=algorithm)
    rates = best.learning_rate * np.exp(np.arange(-0.7, 0.7, 0.002))
    same = np.ones_like(rates)
    options = {"rounded": False, "tolerance": 1e-5, "estimate": False}
    listed = run_risks(problem, algorithm, batch * same, rates, steps * same, **options).parts.sum(0)
    assert best.risk <= listed.min() * (1 + 2e-3)


def test_fewer_steps_than_four_memories_of_lion_after_others():
    """Found alone and after longer runs alike: beside their minima it was 55% too high."""
    problem = st.PowerLaw(2.7347, 3.9613, noise_variance=0.0504)
    algorithm = st.Algorithm(st.Lion(0.9, 0.98), average=LAST)
    tuned = TunedEquivalent(problem, algorithm)
    samples = 5.81e5
    for steps in (6536.0, 4810.0, 3489.0, 1577.0):
        tuned.least(np.round(samples / steps), steps)
    alone = TunedEquivalent(problem, algorithm).least(1963.0, 296.0)
    assert tuned.least(1963.0, 296.0).risk == pytest.approx(alone.risk, rel=1e-3)
    assert alone.risk < 1.567e-4


def test_arrays_of_data_sizes_and_what_is_said_of_them():
    found = st.critical_batch_size(PROBLEM, num_samples=[50, 100], algorithm=LINEAR, curve=False)
    assert found.batch_size.shape == found.smallest_batch_size.shape == (2,)
    assert (found.smallest_batch_size <= found.optimal_batch_size).all()
    assert (found.optimal_batch_size <= found.batch_size).all()
    # Many equal directions average their signs. Steps of one direction end next to a risk of 0 with many batch sizes:
    # which of them is the best, and how well its risk is known, is rounding.
    many = st.LeastSquares(np.ones(500), np.ones(500) / 500, 1.0)
    assert not st.critical_batch_size(many, num_samples=1e3, algorithm=AVERAGED, curve=False).remark
    one = st.LeastSquares([1.0], [1.0], 1.0)
    crossing = st.critical_batch_size(one, num_samples=1e3, algorithm=AVERAGED, curve=False)
    assert crossing.optimal_risk < 1e-13
    two = st.LeastSquares([1.0, 0.5], [1.0, 1.0], 1.0)
    crossing = st.critical_batch_size(two, num_samples=1e3, algorithm=AVERAGED, curve=False)
    assert "single steps overshoot the optimum" in crossing.remark


@pytest.mark.parametrize("least", [-3.0, 0.03, 0.7])
def test_a_minimum_beside_a_cliff(least):
    """Runs of few steps that do not go far enough: parabolas through a point there squeeze the other side alone."""
    place, value = minimum(
        lambda x: np.where(x > least, 0.05 * (x - least), np.log1p(200 * np.maximum(least - x, 0))), 0.0, 0.2, 3e-4
    )
    assert value <= 3e-4
    assert place == pytest.approx(least, abs=0.01)


def test_a_parabola_that_has_foretold_nothing_is_not_believed():
    """The outer two of three points are alike, although the function still falls at the middle one."""

    def function(x):
        return x**2 + 2.5 * x**3 - 0.1 * x

    assert function(0.2) == pytest.approx(function(-0.2))
    _, value = minimum(function, 0.0, 0.2, 3e-4)
    assert value < function(0.0430) + 3e-4


def test_a_minimum_beside_an_end():
    """Beyond it nothing is known."""
    place, value = minimum(lambda x: np.where(x >= 0.3, x, np.inf), 2.0, 0.7, 1e-4)
    assert value == pytest.approx(0.3, abs=0.02)
    assert place >= 0.3


def test_the_smallest_batch_size_is_no_larger_than_the_best():
    """145 steps of 1 are what 121 samples and 20% more allow: 145.2/145 is not rounded up to 2."""
    problem = st.LeastSquares([1.0, 0.3], [1.0, 1.0], 3.0)
    algorithm = st.Algorithm(st.SignSGD(0.9), st.Linear(), average=st.LastIterate())
    found = st.critical_batch_size(problem, num_samples=121, algorithm=algorithm, curve=False)
    assert found.smallest_batch_size == found.optimal_batch_size == 1


def test_a_minimum_that_is_no_parabola():
    """Through three points 1.8 apart the parabola promised nothing, 0.3% above the least risk; the risk is exact."""
    number = np.arange(1.0, 61)
    problem = st.LeastSquares(number**-2.154, number**-0.624, 1.454)
    setting = {"batch_size": 17, "num_samples": 17 * 564, "algorithm": st.Algorithm(st.SignSGD(), average=LAST)}
    best = st.optimal_learning_rate(problem, **setting)
    around = st.excess_risk(problem, **setting, learning_rate=best.learning_rate * np.geomspace(0.9, 1.1, 21)).total
    assert best.risk <= around.min() * (1 + 3e-4)
    assert best.risk == pytest.approx(
        st.excess_risk(problem, **setting, learning_rate=best.learning_rate).total, rel=1e-9
    )


def test_what_is_said_of_a_rate_whose_risk_is_rough():
    """One step of one direction, after which no Gaussian is left; the remark names the worst setting."""
    problem = st.LeastSquares([1.0], [1.0], 1e-2)
    algorithm = st.Algorithm(st.SignSGD(), average=LAST)
    best = st.optimal_learning_rate(problem, batch_size=[1, 64], num_samples=[1, 640], algorithm=algorithm)
    assert best.relative_error.max() > 0.05
    assert "γ*" in best.remark
    assert "at batch_size 1 and 1 steps" in best.remark
    assert best.remark[:20] in str(best)
    smooth = st.optimal_learning_rate(st.PowerLaw(1.5, 2.0), batch_size=16, num_samples=1e4, algorithm=LINEAR)
    assert smooth.remark == ""


@pytest.mark.slow
def test_a_line_that_is_flat_where_it_meets_the_level_gives_no_warning():
    """Two certain steps with γ = ½ end at the optimum, whatever B: B* is the largest batch size of two steps.

    A division by 0 said nothing about B*.
    """
    problem = st.LeastSquares([1.0], [1.0], 1.0)
    algorithm = st.Algorithm(st.SignSGD(), average=LAST)
    found = st.critical_batch_size(problem, num_samples=1e3, algorithm=algorithm, curve=False)
    assert found.optimal_risk < 1e-13
    assert (found.batch_size, found.num_steps) == (600, 2)


@pytest.mark.slow
@pytest.mark.parametrize(
    ("problem", "schedule", "batch", "rate_batch"),
    sampled(
        [
            (st.PowerLaw(2.5, 3.25), st.Linear(), 647, 1468),
            (st.PowerLaw(2.5, 3.25), st.Constant(), 540, 1308),
            (st.PowerLaw(2.0, 3.0), st.Linear(), 150, 654),
        ],
        1,
    ),
)
def test_narrow_minima_of_lion_beside_a_cliff(problem, schedule, batch, rate_batch):
    """Dense lists of γ have no lower risk at these batch sizes, and larger ones do not reach what they reach.

    The minimum next to the cliff, with Σ γ_t near 1, is 1% wide. With linear decay the one beside it is 5% higher. With
    a constant γ the risk of 950 to 935 steps exceeds twice the least one, which that of 930 to 764 steps does not.
    """
    algorithm = st.Algorithm(st.Lion(), schedule, average=st.LastIterate())
    found = st.critical_batch_size(problem, num_samples=1e6, algorithm=algorithm, curve=False)
    assert found.batch_size == pytest.approx(batch, rel=0.01)
    assert found.rate_batch_size == pytest.approx(rate_batch, rel=0.01)

    def least(size, samples):
        steps = np.floor(samples / size)
        rates = np.geomspace(0.97, 1.6, 480) / schedule.factors(np.arange(steps), steps).sum()
        same = np.ones_like(rates)
        options = {"rounded": False, "tolerance": 1e-5, "estimate": False}
        return run_risks(problem, algorithm, size * same, rates, steps * same, **options).parts.sum(0).min()

    assert least(found.batch_size, 1.2e6) < 1.001 * found.optimal_risk < least(1.02 * found.batch_size, 1.2e6)
    assert least(found.rate_batch_size, 1e6) < 2.002 * found.optimal_risk < least(1.02 * found.rate_batch_size, 1e6)


@pytest.mark.parametrize("oscillates", [True, False])
def test_the_least_of_many_minima_does_not_depend_on_what_was_searched_before(monkeypatch, oscillates):
    """From 1,666 to 404 steps of Lion with constant γ the best γ goes from the first minimum to others and back.

    Control: without a search of all minima another one is followed, whose risk is up to 70% higher.
    """
    if not oscillates:
        monkeypatch.setattr(LionField, "minima_memory", 0.0)
    problem = st.PowerLaw(2.5, 3.25)
    algorithm = st.Algorithm(st.Lion(), st.Constant(), average=LAST)
    tuned = TunedEquivalent(problem, algorithm)
    excess = []
    for steps in (1666.0, 1300.0, 990.0, 850.0, 404.0):
        rates = np.geomspace(0.95, 2.8, 240) / steps
        same = np.ones_like(rates)
        size = np.floor(1e6 / steps)
        options = {"rounded": False, "tolerance": 1e-5, "estimate": False}
        listed = run_risks(problem, algorithm, size * same, rates, steps * same, **options).parts.sum(0).min()
        excess.append(tuned.least(size, steps).risk / listed)
    assert max(excess) < 1.001 if oscillates else max(excess) > 1.5


@pytest.mark.slow
def test_no_minima_are_searched_where_fewer_steps_of_larger_batches_have_one(monkeypatch):
    """Of 4,000 steps of Lion one minimum is found among all γ, and then of 8,109 and 10,313 without a list of γ.

    Against lists; control: 2,828 steps have two minima, and none of 4,000 steps of a larger batch size are known.
    """
    problem = st.PowerLaw(2.0, 3.0)
    tuned = TunedEquivalent(problem, st.Algorithm(st.Lion(), st.Linear(), average=LAST))
    scans = []
    scan = minima_in_range
    monkeypatch.setattr(arrival_minima, "minima_in_range", lambda *given: scans.append(given) or scan(*given))
    for batch, steps, number in ((250.0, 4000.0, 1), (148.0, 8109.0, 1), (116.0, 10313.0, 1), (353.0, 2828.0, 2)):
        found = tuned.least(batch, steps)
        assert len(scans) == number
        rates = np.geomspace(1.9, 2.4, 120) / steps
        same = np.ones_like(rates)
        options = {"rounded": False, "tolerance": 1e-5, "estimate": False}
        listed = run_risks(problem, tuned.algorithm, batch * same, rates, steps * same, **options).parts.sum(0).min()
        assert found.risk < 1.0003 * listed
    assert tuned.arrivals.single == [(250.0, 4000.0)]
    assert list(tuned.arrivals.several) == [(353.0, 2828.0)]


def test_a_level_that_the_guessed_learning_rate_reaches_needs_one_risk(monkeypatch):
    """Where it does not, the least risk decides."""
    tuned = TunedEquivalent(PROBLEM, st.Algorithm(st.SignSGD(), average=LAST))
    known = tuned.least(16.0, 1000.0)
    number = []
    risks = tuned._log_risks
    monkeypatch.setattr(tuned, "_log_risks", lambda *given: number.append(given) or risks(*given))
    assert tuned.reaches(17.0, 1000.0, np.log(2 * known.risk))
    assert len(number) == 1
    assert tuned.known.keys() == {(16.0, 1000.0)}
    assert not tuned.reaches(17.0, 1000.0, np.log(known.risk / 2))
    assert tuned.reaches(17.0, 1000.0, np.log(tuned.least(17.0, 1000.0).risk))


def test_the_least_of_several_minima_above_the_rate_below_which_a_coordinate_cannot_arrive(monkeypatch):
    """A search of 500 steps of Lion finds the least risk of a list of γ, which is not in the first minimum it meets.

    Without the search of further minima its risk is 24% higher.
    """
    problem = st.PowerLaw(2.5, 3.25)
    algorithm = st.Algorithm(st.Lion(), st.Linear(), average=LAST)
    size, steps = 2000.0, 500.0
    rates = np.geomspace(1.9, 6.0, 200) / steps
    same = np.ones_like(rates)
    options = {"rounded": False, "tolerance": 1e-5, "estimate": False}
    listed = run_risks(problem, algorithm, size * same, rates, steps * same, **options).parts.sum(0).min()
    assert TunedEquivalent(problem, algorithm).least(size, steps).risk < 1.001 * listed
    monkeypatch.setattr(LionField, "minima_memory", 0.0)
    assert TunedEquivalent(problem, algorithm).least(size, steps).risk > 1.2 * listed
