"""The optimal learning rate against dense scans of a risk computed otherwise."""

from types import SimpleNamespace

import numpy as np
import pytest

import sgdtheory as st
from sgdtheory.critical.tuned_risk import TunedRisk
from tests import brute_force

MARGIN = 1e-6  # the promise: the risk found is at most this far above the least one
FEW = 300  # up to here the recursion is the oracle, above `excess_risk`, itself tested, at thousands of γ


def random_problem(rng):
    noise = (0.0, 10.0 ** rng.uniform(-8, -3), 10.0 ** rng.uniform(-3, 2), 10.0 ** rng.uniform(2, 8))[rng.integers(4)]
    if rng.random() < 0.6:
        d = int(rng.integers(1, 5))
        eigenvalues = 10.0 ** -(rng.choice([1.0, 6.0, 10.0]) * rng.random(d))
        return st.LeastSquares(eigenvalues * 10.0 ** rng.uniform(-3, 3), 10.0 ** -(8 * rng.random(d)), noise)
    dim = None if rng.random() < 0.4 else int(rng.integers(2, 31))
    return st.PowerLaw(rng.uniform(1.05, 4), rng.uniform(1.05, 6), dim, noise)


def risk_of_rates(problem, batch, steps):
    """The oracle's risk, a function of an array of γ."""
    if steps > FEW or problem.dim is None:
        return lambda rate: (
            st.excess_risk(problem, batch_size=batch, learning_rate=rate, num_samples=float(steps) * batch).total
        )
    spectrum = problem.directions()
    return lambda rate: brute_force.risks(*spectrum, problem.noise_variance, batch, rate, steps)[-1]


EXAMPLES = {
    # the first direction is learnt by γ = 1e-3, the second never: in between the risk hardly changes
    "flat for decades": (st.LeastSquares([1.0, 1e-10], [1.0, 1e-3], 1e-12), 16, 10**6),
    "next to the edge, few steps": (st.LeastSquares([1.0, 0.01], [1.0, 1.0], 0.0), 10**6, 7),
    "next to the edge, many steps": (st.LeastSquares([1.0, 0.01], [1.0, 1.0], 0.0), 10**6, 10**5),
    "smooth, with noise": (st.PowerLaw(2, 6, noise_variance=1.0), 10**6, 10**6),
    "a tiny signal": (st.LeastSquares([1.0, 0.3], [1e-30, 1e-29], 1.0), 4, 1000),
}


def check(problem, batch, steps):
    """No γ of a dense scan is better; γ lies in its range; the risk is that at γ. Returns what was found."""
    samples = float(steps) * batch
    edge = st.max_stable_learning_rate(problem, batch_size=batch)
    found = st.optimal_learning_rate(problem, batch_size=batch, num_samples=samples)
    assert 0 < found.learning_rate <= edge
    least = brute_force.best_risk(risk_of_rates(problem, batch, steps), edge)
    assert found.risk / least - 1 < MARGIN
    again = st.excess_risk(problem, batch_size=batch, learning_rate=found.learning_rate, num_samples=samples)
    assert found.risk == pytest.approx(again.total, rel=1e-9)
    return found


@pytest.mark.parametrize("seed", range(45))
def test_no_learning_rate_of_a_dense_scan_is_better(seed):
    rng = np.random.default_rng(seed)
    problem, batch, steps = random_problem(rng), int(10.0 ** (6 * rng.random())), int(2 * 5e5 ** rng.random())
    check(problem, batch, steps)


def test_a_minimum_at_the_edge():
    """Directions that are slow and hold almost everything: the faster the better, up to the edge itself."""
    problem, steps = st.LeastSquares([1.0, 1e-3], [1e-9, 1.0], 0.0), 20
    found = check(problem, 1000, steps)
    edge = st.max_stable_learning_rate(problem, batch_size=1000)
    assert found.learning_rate == pytest.approx(edge, rel=1e-6)
    rates = edge * np.array([0.5, 0.9, 0.99, 0.999, 1.0])
    assert (np.diff(risk_of_rates(problem, 1000, steps)(rates)) < 0).all()


@pytest.mark.parametrize("name", EXAMPLES)
def test_no_learning_rate_is_better_in(name):
    check(*EXAMPLES[name])


def least_on_both_sides(parts, signal):
    """Least risk at γ < 1e-4 and at γ > 1e-4 when the second direction holds `signal`."""
    rates, fixed, unit = parts
    risk = fixed + signal * unit
    return float(risk[rates < 1e-4].min()), float(risk[rates > 1e-4].min())


@pytest.mark.parametrize("offset", [-0.1, -1e-3, -2e-5, 2e-5, 1e-3, 0.1])
def test_the_better_of_two_minima_is_found_on_both_sides_of_their_crossing(offset):
    """Eigenvalues 1 and 1e-6, n = 1e8. A weak signal is best learnt halfway: past nγ ≈ 1 noise costs more than it
    brings; to learn the second direction, nγ ≈ 1e6, that price has to be paid.
    """
    steps, noise = 10**8, 1.0

    def problem(signal):
        return st.LeastSquares([1.0, 1e-6], [0.3 * noise / steps, signal], noise)

    rates = brute_force.stability_edge(np.array([1.0, 1e-6]), 1) * np.geomspace(1e-11, 1, 1500)
    fixed = risk_of_rates(problem(0.0), 1, steps)(rates)
    unit = (risk_of_rates(problem(1e-8), 1, steps)(rates) - fixed) / 1e-8
    low, high = 1e-10, 1e-6
    for _ in range(60):
        middle = np.sqrt(low * high)
        slow, fast = least_on_both_sides((rates, fixed, unit), middle)
        low, high = (middle, high) if slow < fast else (low, middle)
    crossing = low * (1 + offset)
    slow, fast = least_on_both_sides((rates, fixed, unit), crossing)
    assert (slow < fast) is (offset < 0)
    found = check(problem(crossing), 1, steps)
    assert bool(found.learning_rate < 1e-4) is (offset < 0)


@pytest.mark.parametrize(
    ("problem", "batch", "steps", "gap"),
    [
        (st.PowerLaw(2.1915201831235116, 2.503541415767745, dim=3, noise_variance=0.0), 84217, 5760, 9.6e-5),
        (st.PowerLaw(1.6452484465991986, 2.1291922535743932, dim=5, noise_variance=1.6), 19930, 962, 8.2e-4),
        (st.LeastSquares([1.0], [1.0], 0.0), 717178, 56830, 6.7e-6),
        (st.LeastSquares([1.0], [1.0], 0.0), 204456, 4, 9.8e-6),
    ],
    ids=["without noise", "with noise", "one direction", "four steps"],
)
def test_the_best_of_several_minima_next_to_the_edge(problem, batch, steps, gap):
    """With a large batch there are features at 1 − γ/edge of 1/n and of 1/B."""
    found = check(problem, batch, steps)
    edge = st.max_stable_learning_rate(problem, batch_size=batch)
    assert 1 - found.learning_rate / edge == pytest.approx(gap, rel=0.1)


@pytest.mark.parametrize("samples", [5, 6.5, 9])
def test_a_single_step_learns_nothing_at_any_rate(samples):
    problem = st.PowerLaw(2, 3)
    found = st.optimal_learning_rate(problem, batch_size=5, num_samples=samples)
    assert found.risk == pytest.approx(1.2020569031595942, rel=1e-14)
    assert found.learning_rate == pytest.approx(st.max_stable_learning_rate(problem, batch_size=5), rel=1e-14)


@pytest.mark.parametrize("steps", [2, 30, 1000, 10**6])
def test_enormous_noise_makes_the_best_rate_tiny(steps):
    """To second order in γ, Δ = Σ s − (n−1)γ Σ sλ + γ² (n−1)(2n−1)/(6n) σ² Σ λ²."""
    problem = st.LeastSquares([1.0, 0.3], [1e-3, 1e-2], 1e8)
    found = check(problem, 1, steps)
    assert 1 - found.risk / problem.initial_risk < 1e-4
    best = 3 * steps * (1e-3 + 0.3 * 1e-2) / ((2 * steps - 1) * 1e8 * (1 + 0.3**2))
    assert 0.5 < found.learning_rate / best < 2  # Δ hardly depends on γ


def test_two_steps_in_closed_form():
    """d = 1, n = 2: 4Δ = s [1 + 2q + q² + 2x²/B] + σ² x²/B is least at `x = 2s/(s (1 + 2/B) + σ²/B)`, if stable."""
    signal, noise, batch = 0.7, np.array([0.0, 0.4, 3.0, 50.0]), 3
    x = 2 * signal / (signal * (1 + 2 / batch) + noise / batch)
    for value, best in zip(noise, np.minimum(x, 2 * batch / (batch + 2)), strict=True):
        problem = st.LeastSquares([4.0], [signal], value)
        found = st.optimal_learning_rate(problem, batch_size=batch, num_samples=2 * batch)
        assert 4 * found.learning_rate == pytest.approx(best, rel=1e-4)
        risk = (signal * ((2 - best) ** 2 + 2 * best**2 / batch) + value * best**2 / batch) / 4
        assert found.risk == pytest.approx(risk, rel=1e-9)


@pytest.mark.parametrize("steps", [2, 3, 4, 5, 9, 14])
@pytest.mark.parametrize(("noise", "batch"), [(8.0, 1), (0.5, 3), (300.0, 40), (1e4, 1)])
def test_a_few_steps_with_more_noise_than_signal(noise, batch, steps):
    """Steps may resonate so far below the edge that what is of interest begins above the first fine place."""
    check(st.LeastSquares([1.0, 0.25, 0.11], [1.0, 0.12, 0.04], noise), batch, steps)
    check(st.PowerLaw(2, 3, noise_variance=noise), batch, steps)


def test_a_basin_between_two_places_that_are_scanned():
    """A second minimum, 7e-4 below the one that the places of a coarse scan show."""
    problem = st.LeastSquares([1.0, 0.0483, 0.00184], [0.2538, 0.00018366, 11.576], 1.67e-6)
    found = check(problem, 1, 44)
    assert found.learning_rate == pytest.approx(0.2662, rel=1e-3)
    assert found.risk == pytest.approx(11.67996, rel=1e-6)


@pytest.mark.parametrize("seed", range(40))
def test_two_scales_with_nearly_equal_minima(seed):
    """A strong direction to be learnt at once and weak ones that need more: where a scan may take the wrong basin."""
    rng = np.random.default_rng(1000 + seed)
    gaps, weak = 10.0 ** -rng.uniform(0.5, 2.5, 2), 10.0 ** rng.uniform(-5, 2, 2)
    problem = st.LeastSquares(np.cumprod([1.0, *gaps]), [1.0, *weak], 10.0 ** rng.uniform(-6, 3))
    check(problem, int(10 ** rng.uniform(0, 3)), int(10 ** rng.uniform(0.4, 2.4)))


def test_a_minimum_that_its_mirror_image_beyond_the_edge_undercuts_by_a_rounding():
    problem, setting = st.PowerLaw(1.98393, 8.28328), {"batch_size": 2171, "num_samples": 1e4}
    algorithm = st.Algorithm(method=st.Nesterov(0.5))
    best = st.optimal_learning_rate(problem, **setting, algorithm=algorithm)
    rates = np.linspace(0.02, 1.49, 500)
    dense = st.excess_risk(problem, **setting, learning_rate=rates, algorithm=algorithm).total
    assert best.risk <= dense.min()
    assert best.risk == pytest.approx(dense.min(), rel=1e-3)


def test_a_nan_does_not_travel(monkeypatch):
    """Comparisons with nan are false: a search that met one would go on and find something."""
    problem = st.LeastSquares([1.0, 0.5], [1.0, 0.5])

    def lost(problem, algorithm, batch, *_, **__):
        return SimpleNamespace(parts=np.full((2, batch.size), np.nan))

    monkeypatch.setattr("sgdtheory.critical.tuned_risk.run_risks", lost)
    with pytest.raises(AssertionError, match="a risk is a number"):
        st.optimal_learning_rate(problem, batch_size=1, num_samples=100)


# ------------------------------------------------------------------ interface


def test_broadcasting_equals_one_by_one():
    problem = st.PowerLaw(1.6, 2.5, 20)
    batch, samples = np.array([1, 8, 64])[:, None], np.array([64, 5e3, 1e7])
    found = st.optimal_learning_rate(problem, batch_size=batch, num_samples=samples)
    assert found.learning_rate.shape == found.risk.shape == (3, 3)
    one = st.optimal_learning_rate(problem, batch_size=8, num_samples=1e7)
    assert isinstance(one.learning_rate, float)
    assert isinstance(one.risk, float)
    assert found.risk[1, 2] == pytest.approx(one.risk, rel=1e-8)
    assert found.learning_rate[1, 2] == pytest.approx(one.learning_rate, rel=1e-3)


@pytest.mark.parametrize("scale", [1e-6, 1e8])
def test_equivariance(scale):
    """γλ alone matters; Δ is linear in (s, σ²)."""
    eigenvalues, signal = np.array([1.0, 0.2, 0.01]), np.array([1.0, 0.1, 0.3])
    settings = {"batch_size": [1, 20], "num_samples": [300, 5000]}
    found = st.optimal_learning_rate(st.LeastSquares(eigenvalues, signal, 0.5), **settings)
    faster = st.optimal_learning_rate(st.LeastSquares(scale * eigenvalues, signal, 0.5), **settings)
    np.testing.assert_allclose(scale * faster.learning_rate, found.learning_rate, rtol=1e-4)
    np.testing.assert_allclose(faster.risk, found.risk, rtol=1e-9)
    larger = st.optimal_learning_rate(st.LeastSquares(eigenvalues, scale * signal, scale * 0.5), **settings)
    np.testing.assert_allclose(larger.learning_rate, found.learning_rate, rtol=1e-4)
    np.testing.assert_allclose(larger.risk, scale * found.risk, rtol=1e-9)


@pytest.mark.parametrize(
    ("problem", "batch", "samples", "message"),
    [
        (st.LeastSquares([1.0, 0.5], [0.0, 0.0]), 1, 10, "problem must have signal in a direction with a positive"),
        (st.LeastSquares([1.0, 0.0], [0.0, 1.0]), 1, 10, "problem must have signal in a direction with a positive"),
        (st.PowerLaw(2, 3), 16, 15, "num_samples must be at least batch_size"),
        (st.PowerLaw(2, 3), 2.5, 15, "batch_size must be a whole number of at least 1, got 2.5"),
        (st.PowerLaw(2, 3), 1, np.nan, "num_samples must be positive and finite, got nan"),
        (None, 1, 10, "problem must be a PowerLaw, a LeastSquares or your own AbstractProblem, got None"),
    ],
)
def test_bad_input(problem, batch, samples, message):
    with pytest.raises(ValueError, match=message):
        st.optimal_learning_rate(problem, batch_size=batch, num_samples=samples)


# ------------------------------------------------------------------ following one basin


def test_batches_that_are_not_whole():
    """Δ is a polynomial in 1/B: the best risk falls with B between the whole numbers too."""
    best = TunedRisk(st.PowerLaw(2, 3, 10)).least(np.array([4.0, 4.3, 4.7, 5.0]), np.full(4, 200.0))
    assert (np.diff(best.risk) < 0).all()
    assert (np.diff(best.risk) > -0.1 * best.risk[0]).all()


class _Slow(st.LinearMethod):
    """Plain SGD, three times as fast in its first two steps as later, and then very slow."""

    start, output = (1,), (1,)
    step_dependence = "any"

    def coefficients(self, rate, step):
        return st.Coefficients([[1]], [rate * np.where(step < 2, 3.0, 0.05)], [1])


@pytest.mark.parametrize(
    "algorithm",
    [
        st.Algorithm(schedule=st.Stages([0], [0.1]), average=st.LastIterate()),
        st.Algorithm(schedule=st.Stages([0, 0.5], [0.1, 0.02]), average=st.LastIterate()),
        st.Algorithm(schedule=lambda step: 0.05 + 0 * step, average=st.LastIterate()),
        st.Algorithm(schedule=lambda step: 0.01 * (step + 1.0), average=st.LastIterate()),
        st.Algorithm(st.HeavyBall(0.9), schedule=lambda step: 0.05 + 0 * step, average=st.LastIterate()),
        st.Algorithm(_Slow(), average=st.LastIterate()),
    ],
    ids=["small factor", "small factors", "small", "growing", "momentum", "own method"],
)
def test_rates_go_on_to_where_runs_diverge(algorithm):
    """Not to the stability threshold of a step with factor 1, or of the first one: up to 13 times the least risk."""
    problem = st.LeastSquares([1.0, 0.3, 0.05], [0.5, 0.4, 0.3], 0.1)
    rates = np.geomspace(1e-3, 1e3, 1000)
    for batch, steps in ((64, 12), (8, 60)):
        setting = {"batch_size": batch, "num_samples": batch * steps, "algorithm": algorithm}
        best = st.optimal_learning_rate(problem, **setting)
        dense = np.nan_to_num(st.excess_risk(problem, learning_rate=rates, **setting).total, nan=np.inf)
        assert best.risk <= dense.min()
        assert best.risk == pytest.approx(dense.min(), rel=2e-3)


@pytest.mark.parametrize(
    ("eigenvalues", "signal", "noise", "number", "seed", "batch", "samples", "average"),
    [
        (
            [0.53125, 0.323283, 0.316709, 0.265229, 0.060457, 0.018894, 0.0143268],
            [0.257809, 0.0234712, 0.45026, 0.399763, 0.04629, 0.0479252, 0.0166396],
            0.159516,
            14,
            688,
            2,
            180,
            st.UniformAverage(),
        ),
        (
            [0.878633, 0.779582, 0.473691, 0.473013, 0.22343, 0.0165185, 0.013335],
            [0.0104609, 0.0883442, 0.150781, 0.597032, 0.101279, 0.0142774, 0.736294],
            3.71267,
            53,
            931,
            16,
            3616,
            st.UniformAverage(),
        ),
        ([0.715132], [0.524244], 0.0670256, 11, None, 1, 12, st.LastIterate()),
    ],
)
def test_passes_over_samples(eigenvalues, signal, noise, number, seed, batch, samples, average):
    """A minimum far from the first one found had up to 23% less risk, and what was found was known to 10⁻³."""
    problem = st.LeastSquares(eigenvalues, signal, noise).with_samples(number, seed=seed)
    setting = {"batch_size": batch, "num_samples": samples, "algorithm": st.Algorithm(average=average)}
    best = st.optimal_learning_rate(problem, **setting)
    rates = best.learning_rate * np.union1d(np.geomspace(0.01, 100, 150), np.geomspace(0.8, 1.25, 30))
    risk = np.nan_to_num(st.excess_risk(problem, learning_rate=rates, **setting).total, nan=np.inf)
    assert best.risk <= np.where(risk > 0, risk, np.inf).min() * (1 + 2e-5)
