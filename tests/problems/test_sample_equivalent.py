"""Deterministic equivalents of N samples (T42): against Wick's theorem, closed forms, 50 digits and drawn samples."""

import math
from dataclasses import replace

import mpmath
import numpy as np
import pytest

import sgdtheory as st
from sgdtheory.problems import sample_equivalent
from sgdtheory.problems.sample_equivalent import averaged_drivers
from sgdtheory.problems.sample_resolvent import SampleResolvent
from tests.marks import slow
from tests.wick import word

Z = 3.9  # false alarms of two sides: 1e-4
INFINITE = st.PowerLaw(2.0, 1.8)
SMALL = st.LeastSquares([1.0, 0.7, 0.2, 0.05], [0.5, 2.0, 0.3, 0.4], noise_variance=0.8)


# --- the ridge κ(z) ---


@pytest.mark.parametrize("num_samples", [1, 30, 1e6])
@pytest.mark.parametrize("z", [1e-9, 0.3, -0.2 + 0.05j, -1e-5 + 2.6e-6j, 0.01j])
def test_the_ridge_of_a_power_law_to_fifty_digits(num_samples, z):
    """`Σ_i i^−2/(i^−2 + κ) = π coth(π/√κ)/(2√κ) − ½`: the z of the κ found, which is the one above the axis."""
    resolvent = SampleResolvent(INFINITE.modes(1e-13), num_samples)
    kappa = complex(resolvent.kappa(np.array([z]))[0])
    with mpmath.workdps(50):
        root = mpmath.sqrt(mpmath.mpc(kappa))
        degrees = mpmath.pi * mpmath.coth(mpmath.pi / root) / (2 * root) - 0.5
        slope = 1 - (degrees - root**2 * mpmath.diff(lambda k: -_degrees(k), root**2)) / num_samples
        step = (root**2 * (1 - degrees / num_samples) - z) / slope
    assert abs(complex(step)) < 1e-11 * abs(kappa)
    assert kappa.imag * np.imag(z) > 0 or (np.imag(z) == 0 and kappa.real > 0 and abs(kappa.imag) < 1e-13 * kappa.real)


@pytest.mark.parametrize("num_samples", [1, 30, 1e6])
def test_real_ridges_are_solved_together(num_samples):
    """Newton's method needs different numbers of steps for them: the z of each κ found."""
    resolvent = SampleResolvent(INFINITE.modes(1e-13), num_samples)
    z = np.geomspace(1e-9, 1.0, 7)
    np.testing.assert_allclose(resolvent.ridge(resolvent.real_kappa(z)), z, rtol=1e-9, atol=1e-14)


def _degrees(kappa):
    root = mpmath.sqrt(kappa)
    return mpmath.pi * mpmath.coth(mpmath.pi / root) / (2 * root) - 0.5


# --- moments, by Wick's theorem ---


def moments(problem, num_samples, planar):
    """`δᵀ Ĥ^j H Ĥ^k δ` and `δᵀ Ĥ^k δ` of what drives two steps."""
    eigenvalues, signal = problem.directions()
    delta = np.sqrt(signal / eigenvalues)
    both = {
        (j, k): word(eigenvalues, delta, [0] * (j - 1) + [1] + [0] * (k - 1), num_samples, planar)
        for j, k in ((1, 1), (1, 2), (2, 2))
    }
    one = [word(eigenvalues, delta, [0] * k, num_samples, planar) for k in range(4)]
    return both, one


@pytest.mark.parametrize("num_samples", [1, 3, 40])
def test_one_and_two_steps_are_the_planar_terms_of_wicks_theorem(num_samples):
    """T42 leaves out the other terms, of relative order 1/N."""
    drivers = averaged_drivers(SMALL, num_samples)
    w = drivers.weight

    def form(j, k):
        """`δᵀ Ĥ^j H Ĥ^k δ`: powers are 0 at 0."""
        squares = [drivers.signal_risk(1 + w**j + sign * w**k) for sign in (1, -1)]
        linear = drivers.signal_risk(1 + w**k) - drivers.signal_risk(1 - w**k)
        return (squares[0] - squares[1] - linear) / 4

    exact, planar = (moments(SMALL, num_samples, planar) for planar in (False, True))
    for powers in planar[0]:
        assert form(*powers) == pytest.approx(planar[0][powers], rel=2e-9)
        assert abs(planar[0][powers] / exact[0][powers] - 1) < 6 / num_samples
        assert num_samples > 3 or planar[0][powers] < 0.9 * exact[0][powers]  # it sees a term left out
    for power, value in enumerate(planar[1]):
        assert drivers.learnt @ w**power == pytest.approx(value, rel=1e-10)


# --- closed forms ---


def ridge_risk(problem, num_samples, z):
    """`(κ² Σ λδ²/(λ + κ)² , df₂/N)/(1 − df₂/N)`: signal and noise of ridge regression (Hastie et al. 2022)."""
    eigenvalues, signal = problem.directions()
    low, high = 1e-30, 1e6
    for _ in range(300):
        kappa = math.sqrt(low * high)
        excess = kappa * (1 - (eigenvalues / (eigenvalues + kappa)).sum() / num_samples) - z
        low, high = (low, kappa) if excess > 0 else (kappa, high)
    share = (eigenvalues / (eigenvalues + kappa)) ** 2
    rest = 1 - share.sum() / num_samples
    return (kappa / (eigenvalues + kappa)) ** 2 @ signal / rest, share.sum() / num_samples / rest


@pytest.mark.parametrize("z", [1e-4, 1.0])
@pytest.mark.parametrize("num_samples", [1, 20, 100, 150, 5000])
def test_ridge_regression(num_samples, z):
    """Any analytic function of Ĥ will do: z/(Ĥ + z), whose risk is known in closed form."""
    problem = st.PowerLaw(1.3, 1.7, dim=100, noise_variance=0.7)
    drivers = averaged_drivers(problem, num_samples, reach=30 / z)
    response = z / (drivers.weight + z)
    signal, noise = ridge_risk(problem, num_samples, z)
    assert drivers.signal_risk(response) == pytest.approx(signal, rel=1e-8)
    assert drivers.noise_risk(response) == pytest.approx(0.7 * noise, rel=1e-8)


def test_long_lists_are_summed_in_bins():
    """A power law as a list of its directions, which is thinned, and by its own modes."""
    law = st.PowerLaw(1.3, 1.7, dim=3000)
    both = [averaged_drivers(problem, 700, 1e3) for problem in (law, st.LeastSquares(*law.directions()))]
    response = 1e-3 / (both[0].weight + 1e-3)
    np.testing.assert_allclose(both[0].weight, both[1].weight, rtol=1e-8)
    for part in ("signal_risk", "noise_risk"):
        one, other = (getattr(drivers, part)(response) for drivers in both)
        assert one == pytest.approx(other, rel=1e-7)
    signal, noise = ridge_risk(law, 700, 1e-3)
    assert both[0].signal_risk(response) == pytest.approx(signal, rel=1e-8)
    assert both[0].noise_risk(response) == pytest.approx(noise, rel=1e-8)


@pytest.mark.parametrize(("dim", "num_samples"), [(30, 60), (30, 20), (100, 1)])
def test_equal_eigenvalues_to_the_end(dim, num_samples):
    """Least squares by Marchenko & Pastur: σ² d/(N − d); (1 − N/d) of the signal and σ² N/(d − N)."""
    problem = st.LeastSquares(np.full(dim, 2.0), np.full(dim, 1 / dim), 0.5)
    drivers = averaged_drivers(problem, num_samples)
    nothing = np.zeros_like(drivers.weight)
    few = num_samples < dim
    assert drivers.signal_risk(nothing) == pytest.approx(1 - num_samples / dim if few else 0.0, rel=1e-9, abs=1e-12)
    noise = 0.5 * (num_samples / (dim - num_samples) if few else dim / (num_samples - dim))
    assert drivers.noise_risk(nothing) == pytest.approx(noise, rel=1e-9)
    assert drivers.count.sum() == pytest.approx(min(dim, num_samples), rel=1e-9)
    assert drivers.least_loss == pytest.approx(0.5 * max(0.0, 1 - dim / num_samples), rel=1e-12)


@pytest.mark.parametrize("problem", [SMALL, st.PowerLaw(1.5, 2.5), st.PowerLaw(1.2, 1.1, dim=3000)])
def test_infinitely_many_samples_are_the_population_and_are_reached_like_1_over_n(problem):
    steps = np.array([1.0, 30.0, 3000.0])
    rate = 0.4 / problem.largest_eigenvalue

    def sums(num_samples):
        drivers = averaged_drivers(problem, num_samples, rate * 3000)
        decay = (1 - rate * drivers.weight) ** steps[:, None]
        return np.array([
            drivers.signal_risk(decay),
            decay**2 @ drivers.learnt,
            decay**2 @ (drivers.test * drivers.weight),
            decay**2 @ (drivers.count * drivers.weight**2),
        ])  # fmt: skip

    modes = problem.modes(1e-6)
    decay = (1 - rate * modes.eigenvalue) ** (2 * steps[:, None])
    signal = decay @ modes.signal
    kernel = decay @ (modes.multiplicity * modes.eigenvalue**2)
    limit = sums(math.inf)
    np.testing.assert_allclose(limit, [signal, signal, kernel, kernel], rtol=1e-7, atol=1e-12 * limit.max())
    gaps = np.array([sums(num_samples) - limit for num_samples in (1e7, 1e8)])
    np.testing.assert_allclose(gaps[0], 10 * gaps[1], rtol=0.1, atol=1e-9 * limit.max())


# --- against drawn samples ---


def drawn(problem, num_samples, rate, steps, seeds):
    """(draws, 6, T): the drivers of one sample each, from its eigenvectors."""
    eigenvalues, signal = problem.directions()
    found = []
    for seed in range(seeds):
        rng = np.random.default_rng([seed, num_samples])
        rows = rng.standard_normal((num_samples, eigenvalues.size)) * np.sqrt(eigenvalues)
        w, vectors = np.linalg.eigh(rows.T @ rows / num_samples)
        w = np.maximum(w, 1e-15)
        turned = vectors.T @ (np.sqrt(signal / eigenvalues) * rng.choice([-1, 1], eigenvalues.size))
        held = eigenvalues @ vectors**2
        decay = (1 - rate * w) ** steps[:, None]
        errors = (decay * turned) @ vectors.T
        found.append([
            errors**2 @ eigenvalues,
            ((1 - decay) ** 2 / w) @ held / num_samples,
            decay**2 @ (w * turned**2),
            1 + (decay**2 - 1).sum(1) / num_samples,
            decay**2 @ (held * w),
            decay**2 @ w**2,
        ])  # fmt: skip
    return np.array(found)


def predicted(problem, num_samples, rate, steps):
    drivers = averaged_drivers(problem, num_samples, rate * steps.max())
    w = drivers.weight
    decay = (1 - rate * w) ** steps[:, None]
    return np.array([
        drivers.signal_risk(decay),
        ((1 - decay) ** 2 / w) @ drivers.test / num_samples,
        decay**2 @ drivers.learnt,
        1 + (decay**2 - 1) @ drivers.count / num_samples,
        decay**2 @ (drivers.test * w),
        decay**2 @ (drivers.count * w**2),
    ])  # fmt: skip


CASES = [(st.PowerLaw(1.5, 2.0, dim=80), 60), (st.PowerLaw(1.2, 1.3, dim=60), 150)]
STEPS = np.array([1, 10, 100, 1000])


def scores(problem, num_samples, rate=0.3, seeds=80):
    sample = drawn(problem, num_samples, rate, STEPS, seeds)
    error = sample.mean(0) - predicted(problem, num_samples, rate, STEPS)
    left_out = 2 / num_samples * np.abs(sample.mean(0))  # a relative 1/N, with room
    return np.maximum(np.abs(error) - left_out, 0) / (sample.std(0, ddof=1) / math.sqrt(seeds))


@pytest.mark.parametrize(("problem", "num_samples"), CASES)
def test_means_of_drawn_samples(problem, num_samples):
    assert scores(problem, num_samples).max() < Z


def test_laws_that_leave_something_out_are_refused(monkeypatch):
    """One resolvent after the other; and samples that are no ridge."""
    problem, num_samples = CASES[0]
    both = SampleResolvent.both

    def alone(self, kappa, other):
        infinite = SampleResolvent(problem.modes(1e-9), math.inf)
        return both(infinite, kappa, other)

    with monkeypatch.context() as patch:
        patch.setattr(SampleResolvent, "both", alone)
        assert scores(problem, num_samples)[0].max() > 2 * Z
    with monkeypatch.context() as patch:
        patch.setattr(
            sample_equivalent, "SampleResolvent", lambda modes, _, resolved: SampleResolvent(modes, math.inf, resolved)
        )
        assert (scores(problem, num_samples).max(1)[[0, 1, 3, 5]] > 2 * Z).all()


# --- what else is known of them ---


@pytest.mark.parametrize(("dim", "num_samples"), [(40, 90), (40, 40), (60, 20)])
def test_effective_samples(dim, num_samples):
    """N − df₂ at the ridge 1/reach."""
    problem = st.PowerLaw(1.4, 2.0, dim=dim)
    for reach in (1.0, 1e2, 1e4):
        drivers = averaged_drivers(problem, num_samples, reach)
        noise = ridge_risk(problem, num_samples, 1 / reach)[1]
        expected = num_samples / (1 + noise)  # df₂/N = noise/(1 + noise)
        assert drivers.effective_samples(reach) == pytest.approx(expected, rel=1e-8)


def test_the_error_of_noise_and_of_a_power_of_the_reach():
    """1/N_eff for noise alone, `(1 + β(β + 1))/N_eff` for a signal that falls like reach^−β, here β = (b − 1)/a."""
    problem = st.LeastSquares(SMALL.eigenvalues, np.zeros(4), 0.8)
    for reach in (1.0, 1e2):
        drivers = averaged_drivers(problem, 9, reach)
        effective = 9 / (1 + ridge_risk(problem, 9, 1 / reach)[1])  # N − df₂
        assert drivers.relative_error_at(reach) == pytest.approx(1 / effective, rel=1e-8)
    for capacity, source in ((2.0, 3.0), (2.0, 5.0)):
        drivers = averaged_drivers(st.PowerLaw(capacity, source, noise_variance=0.0), 1e9, 1e6)
        beta = (source - 1) / capacity
        assert 1e9 * drivers.relative_error_at(1e4) == pytest.approx(1 + beta * (beta + 1), rel=0.01)


def test_a_directions_loss_in_risk():
    """`Σ_j (v_jᵀδ)² v_jᵀHv_j F(w_j)` of what gradient noise of a direction makes of itself; 1 for many samples."""
    problem, num_samples, rate = st.PowerLaw(1.2, 1.3, dim=100), 20, 0.1
    eigenvalues, signal = problem.directions()
    steps = np.array([[1], [5], [20]])

    def own(w):
        return ((1 - rate * w) ** 2 + (rate * w) ** 2) ** steps - (1 - rate * w) ** (2 * steps)

    rng = np.random.default_rng(5)
    found = []
    for _ in range(120):
        rows = rng.standard_normal((num_samples, 100)) * np.sqrt(eigenvalues)
        w, vectors = np.linalg.eigh(rows.T @ rows / num_samples)
        turned = vectors.T @ (np.sqrt(signal / eigenvalues) * rng.choice([-1, 1], 100))
        found.append(own(np.maximum(w, 0.0)) @ (turned**2 * (eigenvalues @ vectors**2)))
    drivers = averaged_drivers(problem, num_samples)
    expected = np.mean(found, 0)
    np.testing.assert_allclose(own(drivers.weight) @ (drivers.learnt * drivers.seen), expected, rtol=0.25)
    assert (own(drivers.weight) @ drivers.learnt > 1.35 * expected).all()  # as if samples showed every direction
    np.testing.assert_allclose(averaged_drivers(SMALL, 1e9).seen, 1.0, rtol=1e-6)


def test_units_and_directions_without_an_eigenvalue():
    """H in other units is γ in others; signal that no direction explains is label noise."""
    plain = averaged_drivers(SMALL, 20)
    scaled = averaged_drivers(st.LeastSquares(1e200 * SMALL.eigenvalues, SMALL.signal, 0.8), 20)
    response = np.exp(-3 * plain.weight)
    np.testing.assert_allclose(scaled.weight, 1e200 * plain.weight, rtol=1e-10)
    assert scaled.mean_risk(response) == pytest.approx(plain.mean_risk(response), rel=1e-9)
    mute = averaged_drivers(st.LeastSquares([*SMALL.eigenvalues, 0.0], [*SMALL.signal, 0.3], 0.5), 20)
    assert mute.mean_risk(response) == pytest.approx(plain.mean_risk(response) + 0.3, rel=1e-9)
    assert mute.least_loss == pytest.approx(plain.least_loss, rel=1e-12)


@pytest.mark.parametrize(("capacity", "source"), [slow(1.5, 2.0), (3.0, 2.0)])
def test_best_stopping_of_passes(capacity, source):
    """`R ∝ N^−(1 − 1/b)` after Σγ ∝ N^{a/b}, more than a pass for a > b: fitted on N = 1e3 and 1e4."""
    risks = []
    reaches = []
    for num_samples in (1e3, 1e4):
        reach = num_samples ** (capacity / source)
        tried = reach * np.geomspace(0.05, 5, 120)
        drivers = averaged_drivers(st.PowerLaw(capacity, source), num_samples, 5 * reach)
        risk = drivers.mean_risk(np.exp(-np.multiply.outer(tried, drivers.weight)))
        assert 0 < risk.argmin() < tried.size - 1
        risks.append(risk.min())
        reaches.append(tried[risk.argmin()])
    assert math.log10(risks[1] / risks[0]) == pytest.approx(1 / source - 1, abs=0.01)
    assert math.log10(reaches[1] / reaches[0]) == pytest.approx(capacity / source, abs=0.03)


def random_setting(rng):
    dim = int(np.exp(rng.uniform(np.log(5), np.log(120))))
    num_samples = int(np.exp(rng.uniform(np.log(3), np.log(300))))
    if rng.random() < 0.6:
        return st.PowerLaw(rng.uniform(1.05, 2.5), rng.uniform(1.05, 3.5), dim=dim), num_samples
    eigenvalues = 10.0 ** -(rng.uniform(0, 2) * rng.random(dim))
    return st.LeastSquares(eigenvalues, rng.random(dim)), num_samples


@pytest.mark.slow
@pytest.mark.parametrize("seed", range(25))
def test_the_error_that_is_stated(seed):
    """Signal and noise, of means of 400 drawn samples, where N_eff > 2."""
    problem, num_samples = random_setting(np.random.default_rng([20, seed]))
    drivers = averaged_drivers(problem, num_samples)
    rate = 0.4 / drivers.weight.max()
    steps = np.array([1, 10, 100, 1000])
    sample = drawn(problem, num_samples, rate, steps, 400)[:, :2]
    signal, noise = predicted(problem, num_samples, rate, steps)[:2]
    mean = sample.mean(0)
    scatter = Z * sample.std(0, ddof=1) / 20
    for k, reach in enumerate(rate * steps):
        if drivers.effective_samples(reach) > 2 and mean[0, k] > 1e-8 * mean[0, 0]:
            total = replace(drivers, noise_variance=1.0)
            for variance, value in ((1.0, signal + noise), (1e-12, signal)):
                error = abs(mean[0, k] + variance * mean[1, k] - value[k]) - scatter[0, k] - variance * scatter[1, k]
                assert error <= 1.1 * replace(total, noise_variance=variance).relative_error_at(reach) * value[k]


def heavy_ball(w, rate, beta, steps):
    velocity = np.zeros_like(w)
    error = np.ones_like(w)
    for _ in range(steps):
        velocity = beta * velocity + w * error
        error = error - rate * velocity
    return error


def test_responses_that_turn_take_more_nodes_and_are_noticed():
    """Averages and schedules do with the plain ones; heavy ball oscillates; against the sum over all directions."""
    problem = st.PowerLaw(1.5, 2.0, dim=300, noise_variance=0.0)
    eigenvalues, signal = problem.directions()
    plain, fine = (averaged_drivers(problem, math.inf, turning=turning) for turning in (False, True))

    def error(drivers, response):
        exact = signal @ response(eigenvalues) ** 2
        values = response(drivers.weight)
        return abs(drivers.mean_risk(values) / exact - 1), drivers.interpolation_error(values)

    for steps in (10, 1000):
        found, stated = error(plain, lambda w, n=steps: (1 - (1 - 1.9 * w) ** n) / (n * 1.9 * w))
        assert found < 1e-9
        assert found < stated < 1e-6
    found, stated = error(plain, lambda w: heavy_ball(w, 0.5, 0.9, 100))
    assert 1e-5 < found < stated
    assert stated > 0.1
    # A response that is wrong by a share s of the root of the risk has the risk wrong by (1 + s)² − 1; s ∝ √Σ s_i.
    larger = error(replace(plain, whole=9 * plain.whole), lambda w: heavy_ball(w, 0.5, 0.9, 100))[1]
    assert math.sqrt(1 + larger) - 1 == pytest.approx(3 * (math.sqrt(1 + stated) - 1), rel=1e-10)
    found, stated = error(fine, lambda w: heavy_ball(w, 0.5, 0.9, 100))
    assert found < 1e-6
    assert stated < 1e-6
    assert error(fine, lambda w: heavy_ball(w, 0.05, 0.99, 1000))[1] > 0.1
