"""The critical batch size against its definition: by brute force for few samples, with tuned risks for many."""

import dataclasses
import functools

import numpy as np
import pytest

import sgdtheory as st
from sgdtheory._common.arguments import Values
from tests import brute_force
from tests.critical.answers import brute, least_risk, risk_at
from tests.marks import sampled, slow

BUDGET = 1 + 1e-12  # (1 + overhead) D is not lowered by rounding
PER_DATA_SIZE = [entry.name for entry in dataclasses.fields(st.critical.CriticalBatchSize) if entry.type is Values]


def random_problem(rng):
    """Few directions, or a power law of at most 30; noise from none to 100."""
    noise = 0.0 if rng.random() < 0.15 else 10.0 ** rng.uniform(-5, 2)
    if rng.random() < 0.5:
        d = int(rng.integers(1, 5))
        return st.LeastSquares(10.0 ** -(3 * rng.random(d)), 10.0 ** -(4 * rng.random(d)), noise)
    return st.PowerLaw(rng.uniform(1.05, 3), rng.uniform(1.05, 6), int(rng.integers(2, 31)), noise)


def assert_equal(found, answer):
    """Assert that the search found the answer of brute force."""
    for name in ("batch_size", "num_steps", "rate_batch_size", "optimal_batch_size"):
        assert getattr(found, name) == getattr(answer, name), name
    assert found.optimal_risk == pytest.approx(answer.optimal_risk, rel=1e-8)


@pytest.mark.parametrize("seed", [*range(6), *map(slow, range(6, 20))])
def test_every_batch_size_and_every_number_of_steps(seed):
    rng = np.random.default_rng(seed)
    problem, samples = random_problem(rng), int(rng.integers(2, 23))
    overhead, factor = rng.choice([0.05, 0.2, 0.5, 1.0]), rng.choice([1.3, 2.0, 5.0])
    found = st.critical_batch_size(
        problem, num_samples=samples, overhead=overhead, risk_factor=factor, curve=bool(seed % 4)
    )
    assert_equal(found, brute(problem, samples, overhead, factor))


ONE = [st.LeastSquares([1.0], [1.0], noise) for noise in (0.0, 1.0)]
TWO = st.LeastSquares([1.0, 0.1], [1.0, 0.3], 0.5)
TEN = [st.PowerLaw(2, 3, 10, noise) for noise in (0.0, 1.0)]
LISTED = [
    *((problem, samples, 0.05) for problem in ONE for samples in (2, 3, 4, 5)),
    *((problem, samples, 1.0) for problem in TEN for samples in (2, 3, 4, 5)),
    (st.PowerLaw(1.5, 4.0, 3, 0.3), 101, 0.2),
    *((st.PowerLaw(1.5, 2.5, 6), samples, 0.2) for samples in (15.0, 15.7)),
    # b > 2a+1 and noise above the signal: with an even number of steps near q = −1 the first direction cancels
    *((st.PowerLaw(2, 10, 6, 30.0), samples, 0.2) for samples in (8, 12, 16)),
    # (1 + ω) D is whole, but for rounding: a batch that uses it up counts
    *((TWO, samples, overhead) for samples in (10, 20) for overhead in (0.2, 0.1 + 0.2, 0.7 / 7 * 2)),
]


@pytest.mark.parametrize(("problem", "samples", "overhead"), LISTED)
def test_chosen_problems_against_brute_force(problem, samples, overhead):
    found = st.critical_batch_size(problem, num_samples=samples, overhead=overhead, curve=False)
    assert_equal(found, brute(problem, int(samples), overhead))


def noisy_problem(rng):
    """σ² over 1e-2 … 1e4: few directions, one strong before many weak ones, or a power law."""
    noise, kind = 10.0 ** rng.uniform(-2, 4), rng.random()
    if kind < 0.35:
        d = int(rng.integers(1, 6))
        return st.LeastSquares(10.0 ** -(3 * rng.random(d)), 10.0 ** -(4 * rng.random(d)), noise)
    if kind < 0.55:
        weak = int(rng.integers(1, 40))
        eigenvalues, signal = 10.0 ** -rng.uniform(0.3, 3), 10.0 ** -rng.uniform(0, 4)
        return st.LeastSquares([1.0] + weak * [eigenvalues], [10.0 ** rng.uniform(-1, 1)] + weak * [signal], noise)
    return st.PowerLaw(rng.uniform(1.05, 4), rng.uniform(1.05, 10), int(rng.integers(2, 13)), noise)


def assert_between_brute_answers(problem, samples):
    """The answer lies between those for risks that may be `tie` lower or higher: brute force knows them to 1e-8."""
    found = st.critical_batch_size(problem, num_samples=samples, curve=False)
    low, high = (
        brute_force.critical_batch_size(
            *problem.directions(), problem.noise_variance, samples, 0.2, 2.0, tie=sign * brute_force.ACCURACY
        )
        for sign in (-1, 1)
    )
    assert low.batch_size <= found.batch_size <= high.batch_size
    assert low.rate_batch_size <= found.rate_batch_size <= high.rate_batch_size
    assert found.optimal_risk == pytest.approx(low.optimal_risk, rel=1e-7)


SEEDS = [
    *((5000 + seed, 1, 60) for seed in range(4)),
    *(slow(5000 + seed, 1, 60) for seed in range(4, 10)),
    *(slow(6000 + seed, 20, 600) for seed in sampled(range(5), 3)),
]


@pytest.mark.parametrize(("seed", "problems", "most"), SEEDS)
def test_noise_of_any_size_against_brute_force(seed, problems, most):
    rng = np.random.default_rng(seed)
    for _ in range(problems):
        assert_between_brute_answers(noisy_problem(rng), int(10 ** rng.uniform(np.log10(5), np.log10(most))))


@pytest.mark.parametrize(("noise", "samples"), [(8.0, 4), (30.0, 24), (100.0, 40)])
def test_a_few_samples_with_much_noise(noise, samples):
    assert_between_brute_answers(st.PowerLaw(2, 3, 30, noise), samples)


def test_values_where_noise_outweighs_the_signal():
    """By brute force in another language: 7, 45."""
    assert st.critical_batch_size(st.PowerLaw(2, 3, noise_variance=30.0), num_samples=24, curve=False).batch_size == 7
    assert (
        st.critical_batch_size(st.PowerLaw(2, 3, noise_variance=100.0), num_samples=150, curve=False).batch_size == 45
    )


def test_a_batch_size_that_divides_the_data_better_than_one_does():
    """Noise of 180 times the signal: every B attains nearly the same, and B = 9 with 373 steps the least."""
    problem = st.LeastSquares([1.0] + 37 * [0.01818754], [5.24375] + 37 * [5.19492e-4], 932.83)
    found = st.critical_batch_size(problem, num_samples=3357, curve=False)
    sizes = np.arange(1.0, 100)
    assert found.optimal_risk <= least_risk(problem, sizes, np.floor(3357 / sizes)).min() * (1 + 1e-9)
    assert found.optimal_batch_size == 9
    assert found.optimal_risk == pytest.approx(
        brute_force.best_risks(*problem.directions(), problem.noise_variance, 9, 373)[-1], rel=1e-8
    )


# ------------------------------------------------------------------ negative controls


@pytest.mark.slow
def test_another_overhead_is_another_answer():
    """Brute force tells a wrong convention apart."""
    problems = [random_problem(np.random.default_rng(seed)) for seed in range(5)]
    found = [st.critical_batch_size(problem, num_samples=20, curve=False).batch_size for problem in problems]
    assert found == [brute(problem, 20).batch_size for problem in problems]
    for wrong in (0.25, 0.1):
        assert found != [brute(problem, 20, wrong).batch_size for problem in problems]


def test_a_fixed_learning_rate_is_another_answer():
    """γ = a quarter of the edge, and γ = what is best at B = 1, without tuning: other critical batch sizes."""
    problem, samples = st.PowerLaw(2, 3), 1e4
    found = st.critical_batch_size(problem, num_samples=samples, curve=False)
    sizes = np.arange(1.0, 400)
    edges = st.max_stable_learning_rate(problem, batch_size=sizes)
    for rates in (edges / 4, np.full(sizes.size, found.optimal_learning_rate)):
        optimal = risk_at(problem, 1, rates[0], samples)
        within = risk_at(problem, sizes, rates, np.floor(1.2 * samples / sizes)) <= optimal * (1 + 1e-9)
        assert abs(sizes[within].max() / found.batch_size - 1) > 0.1


# ------------------------------------------------------------------ more samples: the definition with tuned risks


SMOOTH = [
    (st.PowerLaw(2, 3), 1e3),
    (st.PowerLaw(1.3, 2.2, noise_variance=0.1), 1e5),
    (st.PowerLaw(1.5, 1.2), 1e4),
    (st.PowerLaw(3, 9, noise_variance=1e-3), 1e8),
    (st.PowerLaw(1.5, 4.0, 20, 10.0), 3e4),
    (st.LeastSquares([1.0, 0.1, 0.01], [0.2, 1.0, 0.3], 2.0), 1e6),
]


SOME_SMOOTH = pytest.mark.parametrize(
    ("problem", "samples"), [slow(*case) if number in (1, 2, 5) else case for number, case in enumerate(SMOOTH)]
)


@functools.lru_cache
def solved(problem, samples, overhead=0.2, curve=False):
    """Computed once for all tests."""
    return st.critical_batch_size(problem, num_samples=samples, overhead=overhead, curve=curve)


HELD = [(*SMOOTH[0], 0.2), (*SMOOTH[3], 0.2), (*SMOOTH[4], 0.7)]
RARELY_HELD = [*((*SMOOTH[k], 0.2) for k in (1, 2, 4, 5)), (*SMOOTH[0], 0.7)]


@pytest.mark.parametrize(("problem", "samples", "overhead"), [*HELD, *(slow(*case) for case in RARELY_HELD)])
def test_the_definition_holds_at_the_critical_batch_size_and_fails_beyond(problem, samples, overhead):
    found = solved(problem, samples, overhead)
    batch, steps, limit = found.batch_size, found.num_steps, (1 + overhead) * samples * BUDGET
    assert batch * steps <= limit
    beyond = batch + np.array([1, 2, 3, np.ceil(0.01 * batch), np.ceil(0.3 * batch), 3 * batch])
    risk = least_risk(problem, np.array([batch, batch, *beyond]), np.array([steps, steps - 1, *(limit // beyond)]))
    assert risk[0] <= found.optimal_risk * (1 + 1e-7)
    assert (risk[1:] > found.optimal_risk).all()
    assert risk_at(problem, batch, found.learning_rate, steps) <= found.optimal_risk * (1 + 1e-7)


@SOME_SMOOTH
def test_the_optimum_is_no_worse_than_any_batch_size(problem, samples):
    found = solved(problem, samples)
    sizes = np.unique(np.floor(np.geomspace(1, samples / 2, 25)))
    assert found.optimal_risk <= least_risk(problem, sizes, np.floor(samples / sizes)).min() * (1 + 1e-7)
    at_optimum = least_risk(problem, found.optimal_batch_size, np.floor(samples / found.optimal_batch_size))
    assert found.optimal_risk == pytest.approx(at_optimum, rel=1e-9)
    again = risk_at(problem, found.optimal_batch_size, found.optimal_learning_rate, samples // found.optimal_batch_size)
    assert found.optimal_risk == pytest.approx(again, rel=1e-9)


@SOME_SMOOTH
def test_the_rate_batch_size_keeps_the_factor_and_the_next_does_not(problem, samples):
    found, factor = solved(problem, samples), 2.0
    keeping = found.rate_batch_size
    sizes = keeping + np.array([0, 1, 2, np.ceil(0.1 * keeping), keeping])
    risk = least_risk(problem, sizes, np.floor(samples / sizes)) / found.optimal_risk
    assert risk[0] <= factor * (1 + 1e-9)
    assert (risk[1:] > factor).all()


@pytest.mark.parametrize(
    ("problem", "samples"),
    [
        (st.PowerLaw(2, 3), 1e12),
        (st.PowerLaw(2, 8), 1e12),
        (st.PowerLaw(20, 41, noise_variance=0.0), 1e18),  # a spectrum that falls off at once
        slow(st.PowerLaw(2, 3, noise_variance=0.0), 1e20),
        (st.PowerLaw(2, 3), 1e20),
    ],
)
def test_very_many_samples(problem, samples):
    """Numbers of steps to 1e-8, as promised; above 2^53 one step more is none. The promised D end at 1e20."""
    found = st.critical_batch_size(problem, num_samples=samples, curve=False)
    assert 1 <= found.batch_size <= found.real_batch_size * (1 + 1e-7)
    assert found.batch_size * found.num_steps <= 1.2 * samples * (1 + 1e-7)
    fewer = min(found.num_steps - 1, np.round(found.num_steps * (1 - 1e-5)))
    risk = least_risk(problem, found.batch_size, np.array([found.num_steps, fewer]))
    assert risk[0] <= found.optimal_risk * (1 + (1e-7 if samples < 2**53 else 1e-6))
    assert samples > 2**53 or risk[1] > found.optimal_risk
    further = np.ceil(1.001 * found.batch_size + 1)
    assert least_risk(problem, further, np.floor(1.2 * samples / further)) > found.optimal_risk


@pytest.mark.parametrize("scale", [1e-5, 1e4])
def test_scaling_symmetry(scale):
    """Neither the unit of the data nor that of y matters."""
    eigenvalues, signal = np.array([1.0, 0.2, 0.01]), np.array([1.0, 0.1, 0.3])
    problems = (
        st.LeastSquares(eigenvalues, signal, 0.5),
        st.LeastSquares(scale * eigenvalues, signal, 0.5),
        st.LeastSquares(eigenvalues, scale * signal, scale * 0.5),
    )
    found = [st.critical_batch_size(problem, num_samples=500, curve=False) for problem in problems]
    assert found[0].batch_size == found[1].batch_size == found[2].batch_size
    assert found[1].optimal_risk == pytest.approx(found[0].optimal_risk, rel=1e-8)
    assert found[2].optimal_risk == pytest.approx(scale * found[0].optimal_risk, rel=1e-8)


@pytest.mark.parametrize(("problem", "samples"), SMOOTH[:3])
def test_real_batch_size_is_the_critical_one_without_its_rounding(problem, samples):
    found = solved(problem, samples)
    assert found.batch_size <= found.real_batch_size < found.batch_size + 1
    steps = 1.2 * samples / found.real_batch_size
    assert steps == pytest.approx(round(steps), rel=1e-9)
    assert found.num_steps >= round(steps)


def test_without_label_noise_there_is_a_remark():
    quiet = st.critical_batch_size(st.PowerLaw(2, 3, noise_variance=0.0), num_samples=50, curve=False)
    assert "without label noise" in quiet.remark
    assert solved(*SMOOTH[0]).remark == ""


# ------------------------------------------------------------------ interface


def test_an_array_of_data_sizes_equals_one_by_one():
    problem, samples = st.PowerLaw(2, 3, 10), np.array([[10.0, 100.0]])
    found = st.critical_batch_size(problem, num_samples=samples, overhead=0.3, risk_factor=1.5)
    one = st.critical_batch_size(problem, num_samples=100.0, overhead=0.3, risk_factor=1.5)
    for name in PER_DATA_SIZE:
        assert getattr(found, name).shape == (1, 2)
        assert isinstance(getattr(one, name), float)
        assert getattr(found, name)[0, 1] == getattr(one, name)
    np.testing.assert_array_equal(found.curves[1].samples_needed, one.curve.samples_needed)
    assert (found.overhead, found.risk_factor) == (0.3, 1.5)
    with pytest.raises(ValueError, match="curve is that of a single num_samples, got 2; use curves, one for each"):
        _ = found.curve
    alone = st.critical_batch_size(problem, num_samples=[50.0])
    assert alone.batch_size.shape == (1,)
    assert alone.curve is alone.curves[0]


def test_without_the_curve_the_answer_is_the_same():
    full, short = (solved(*SMOOTH[0], curve=curve) for curve in (True, False))
    for name in PER_DATA_SIZE:
        tolerance = 1e-4 if "learning_rate" in name else 1e-9  # of what the risk hardly depends on
        assert getattr(short, name) == pytest.approx(getattr(full, name), rel=tolerance)
    assert short.curves == ()
    with pytest.raises(ValueError, match="curve was not computed, got curve=False"):
        _ = short.curve


def test_an_optimal_batch_size_above_one_is_remarked():
    """The leading direction's bias cancels after an even number of steps: seen with much noise and b > 2a + 1."""
    problem = st.PowerLaw(1.2, 5.0, noise_variance=100.0)
    found = st.critical_batch_size(problem, num_samples=1e4, curve=False)
    alone = st.optimal_learning_rate(problem, batch_size=1, num_samples=1e4).risk
    assert found.optimal_batch_size > 100
    assert found.optimal_risk < 0.9 * alone
    assert "above 1" in found.remark


@pytest.mark.parametrize(
    ("problem", "arguments", "message"),
    [
        (st.PowerLaw(2, 3), {"num_samples": 1}, r"num_samples must be at least 2 \(a single step learns nothing\)"),
        (st.PowerLaw(2, 3), {"num_samples": [5, 1.5]}, r"num_samples must be at least 2 .*, got 1.5"),
        (st.PowerLaw(2, 3), {"num_samples": np.inf}, "num_samples must be positive and finite, got inf"),
        (st.PowerLaw(2, 3), {"num_samples": "all"}, "num_samples must be a number or an array of numbers, got 'all'"),
        (st.PowerLaw(2, 3), {"num_samples": 9, "overhead": 0}, "overhead must be positive and finite, got 0"),
        (st.PowerLaw(2, 3), {"num_samples": 9, "overhead": [0.1, 0.2]}, "overhead must be a single number"),
        (st.PowerLaw(2, 3), {"num_samples": 9, "risk_factor": 1.0}, "risk_factor must be finite and greater than 1"),
        (st.PowerLaw(2, 3), {"num_samples": 9, "risk_factor": np.inf}, "risk_factor must be finite and greater than"),
        (st.LeastSquares([1.0, 0.0], [0.0, 1.0]), {"num_samples": 9}, "problem must have signal in a direction with a"),
        (st.PowerLaw(2, 3, noise_variance=1e30), {"num_samples": 9}, "num_samples must be large enough to learn any"),
        ("power law", {"num_samples": 9}, "problem must be a PowerLaw, a LeastSquares or your own AbstractProblem"),
        (
            st.PowerLaw(2, 3),
            {"num_samples": 10, "overhead": 1000.0},
            "overhead must leave a critical batch size of at most num_samples, got 1000, .*; up to 1 it always does",
        ),
        (st.PowerLaw(2, 3), {"num_samples": []}, "num_samples must hold at least one value, .* got none"),
        (st.PowerLaw(2, 3), {"num_samples": 1.1e20}, r"none above 1e\+20, got 1.1e\+20"),
    ],
)
def test_bad_input(problem, arguments, message):
    with pytest.raises(ValueError, match=message):
        st.critical_batch_size(problem, **arguments)


@pytest.mark.slow
def test_a_risk_that_falls_below_the_limit_again_at_larger_batch_sizes():
    """Even numbers of steps resonate at the edge: B keeps the rate up to 5.9e6, and again from 1e7 to 2.6e7."""
    problem, samples = st.PowerLaw(1.3731143088741837, 7.831794226293617, None, 0.15645599135697302), 27834095886.0
    critical = st.critical_batch_size(problem, num_samples=samples, curve=False)

    def least_risk(steps):
        batch = np.floor(samples / steps)
        edge = st.max_stable_learning_rate(problem, batch_size=batch)
        share = np.concatenate([np.geomspace(1e-3, 0.5, 500), 1 - np.geomspace(1e-7, 0.5, 3000)])
        risk = st.excess_risk(problem, batch_size=batch, learning_rate=share * edge, num_samples=batch * steps).total
        return risk.min() / (2 * critical.optimal_risk)

    steps = samples // critical.rate_batch_size
    assert steps == 1058
    assert least_risk(steps) < 1 < min(least_risk(steps - 1), least_risk(steps - 2))


def test_a_critical_batch_size_that_falls_is_explained():
    """If the remaining signal has small eigenvalues, γ is at the threshold and B* falls with D; not on a power law."""
    problem = st.LeastSquares([1.0] * 10 + [1e-5], [0.1] * 10 + [0.2], 0.3)
    found = st.critical_batch_size(problem, num_samples=[1e6, 1e3, 1e4, 1e5], curve=False)
    assert found.real_batch_size[0] < 0.9 * found.real_batch_size.max()
    assert "B* falls from" in found.remark
    assert "of the stability limit" in found.remark
    assert st.critical_batch_size(st.PowerLaw(2, 3), num_samples=[1e3, 1e4, 1e5], curve=False).remark == ""
