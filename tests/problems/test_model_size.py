"""M features of a problem (T31): against a dense simulation, sampled sketches and sums that must be kept."""

import numpy as np
import pytest
from numpy.polynomial import Polynomial
from scipy.optimize import brentq

import sgdtheory as st
from sgdtheory.problems.model_size import checked_model
from sgdtheory.problems.sketch import Tail, sampled_sketch

Z = 3.9  # false alarms of two sides: 1e-4


def test_the_first_directions_keep_theirs_and_hear_the_others_as_noise():
    index = np.arange(1.0, 200_001)
    for problem in (st.PowerLaw(2, 3, 200_000, 0.5), st.LeastSquares(index**-2, index**-3, 0.5)):
        model = problem.with_features(7)
        missed = (index[7:] ** -3.0).sum()
        assert model.approximation_risk == pytest.approx(missed, rel=1e-10)
        assert model.noise_variance == pytest.approx(0.5 + missed, rel=1e-12)
        np.testing.assert_allclose(model.directions(), [index[:7] ** -2, index[:7] ** -3], rtol=1e-14)
        alone = st.LeastSquares(index[:7] ** -2, index[:7] ** -3, 0.5 + missed)
        setting = {"batch_size": 4, "learning_rate": 0.3, "num_samples": [1e2, 1e6]}
        found, expected = (st.excess_risk(one, **setting).total for one in (model, alone))
        np.testing.assert_allclose(found, expected, rtol=1e-10)


def everything_of(problem):
    return [
        problem.trace, problem.initial_risk, problem.largest_eigenvalue, problem.dim, problem.noise_variance,
        problem.count_above(0.1), problem.head_signal(2, 1), problem.tail_signal(2), problem.tail_squares(2),
        *problem.truncated(2).directions()[0], *problem.modes(0.01).signal,
    ]  # fmt: skip


def test_its_modes_are_exact_unless_less_is_asked_for():
    """Sums over 5,000 directions, of functions that are smooth below the smallest scale; a loose rule is none."""
    model = st.PowerLaw(2, 3, 10_000).with_features(5000)
    eigenvalues, signal = model.directions()

    def sums(modes):
        response = 1 / (1 + 1e3 * modes.eigenvalue)
        return [(modes.multiplicity * modes.eigenvalue * response).sum(), (modes.signal * response).sum()]

    exact = [(eigenvalues / (1 + 1e3 * eigenvalues)).sum(), (signal / (1 + 1e3 * eigenvalues)).sum()]
    np.testing.assert_allclose(sums(model.modes(1e-3)), exact, rtol=1e-12)
    assert np.abs(np.array(sums(model.modes(1e-3, 1.0))) / exact - 1).max() > 1e-10


@pytest.mark.parametrize("options", [{}, {"kind": "gaussian"}, {"kind": "gaussian", "seed": 3}])
def test_what_takes_a_problem_takes_it(options):
    """Bounds, searches and the simulator see the features' problem."""
    model = st.PowerLaw(2, 3).with_features(6, **options)
    plain = st.LeastSquares(*model.directions(), model.noise_variance)
    np.testing.assert_allclose(everything_of(model), everything_of(plain), rtol=1e-12)
    setting = {"batch_size": 4, "learning_rate": 0.2, "num_samples": 1e3}
    for function in (st.excess_risk, st.theorem7):
        assert function(model, **setting).total == pytest.approx(function(plain, **setting).total, rel=1e-10)
    critical = (st.critical_batch_size(one, num_samples=1e4, curve=False).batch_size for one in (model, plain))
    assert next(critical) == next(critical)


def test_features_of_features():
    """The first of the first, and their approximation risks add up."""
    problem = st.PowerLaw(1.5, 2.5, noise_variance=0.2)
    twice, once = problem.with_features(20).with_features(5), problem.with_features(5)
    assert twice.approximation_risk == pytest.approx(once.approximation_risk, rel=1e-12)
    assert twice.noise_variance == pytest.approx(once.noise_variance, rel=1e-12)
    assert twice.dim == 5


def trained_on_features(random, eigenvalues, signal, mixing, noise, batch, rate, steps, replicas):
    """Mean and standard error of the risk above the best of all, of SGD on z = Sx of dense Gaussian data."""
    root, target = np.sqrt(eigenvalues), np.sqrt(signal)
    weights = np.zeros((replicas, len(mixing)))
    total = np.zeros_like(weights)
    for _ in range(steps):
        total += weights
        white = random.standard_normal((replicas, batch, eigenvalues.size))
        labels = white @ target + np.sqrt(noise) * random.standard_normal((replicas, batch))
        features = (white * root) @ mixing.T
        residual = np.einsum("rbm,rm->rb", features, weights) - labels
        weights = weights - rate / batch * np.einsum("rb,rbm->rm", residual, features)
    error = (total / steps) @ (mixing * root) - target
    risks = (error**2).sum(1)
    return risks.mean(), risks.std(ddof=1) / np.sqrt(replicas)


@pytest.mark.parametrize("options", [{}, {"kind": "gaussian", "seed": 5}])
def test_a_dense_simulation_on_features_has_that_risk(options):
    """All of the data are drawn; SGD sees M features of them. Control: without the others as noise it must fail."""
    eigenvalues, signal = np.array([1.0, 0.6, 0.5, 0.3, 0.2, 0.1]), np.array([0.3, 1.0, 0.2, 2.0, 1.0, 0.7])
    model = st.LeastSquares(eigenvalues, signal, 0.3).with_features(3, **options)
    mixing = np.eye(3, 6)
    if options:
        mixing = np.random.default_rng(5).standard_normal((3, 6)) / np.sqrt(3)
    setting = {"batch_size": 2, "learning_rate": 0.2, "num_samples": 60}
    mean, error = trained_on_features(
        np.random.default_rng(1), eigenvalues, signal, mixing, 0.3, 2, 0.2, 30, replicas=20_000
    )
    exact = st.excess_risk(model, **setting).total + model.approximation_risk
    assert abs(mean - exact) < Z * error
    deaf = st.LeastSquares(*model.directions(), 0.3)
    wrong = st.excess_risk(deaf, **setting).total + model.approximation_risk
    assert abs(mean - wrong) > 2 * Z * error


def rests(model):
    """Eigenvalues and signal that are left after the first k, k = 0, 1, …, and the missed risk; logs."""
    eigenvalues, signal = (np.cumsum(part[::-1])[::-1] for part in model.directions())
    return np.log(np.concatenate([eigenvalues, signal, [model.approximation_risk]]))


def averaged_sketches(problem, size, count):
    """Mean of their logs, and its standard error."""
    found = [rests(problem.with_features(size, kind="gaussian", seed=seed)) for seed in range(count)]
    return np.mean(found, axis=0), np.std(found, axis=0, ddof=1) / np.sqrt(count)


@pytest.mark.parametrize(
    ("problem", "size"),
    [
        (st.PowerLaw(2, 3), 100),
        (st.PowerLaw(1.2, 1.5), 60),
        (st.PowerLaw(2, 3, 300), 100),
        (st.LeastSquares(np.repeat([1.0, 0.2, 0.01], 80), np.repeat([1.0, 0.5, 2.0], 80) / 80), 120),
    ],
)
def test_sampled_sketches_tend_to_the_equivalent(problem, size):
    """All but the last tenth of the directions agree to 3/M and five standard errors; the first ones are far off."""
    mean, error = averaged_sketches(problem, size, 48)
    kept = np.concatenate([np.tile(np.arange(size) < 0.9 * size, 2), [True]])

    def distance(model):
        return ((np.abs(mean - rests(model)) - 5 * error)[kept]).max() * size

    assert distance(problem.with_features(size, kind="gaussian")) < 3
    assert distance(problem.with_features(size)) > 20


@pytest.mark.parametrize("whole", [True, False])
def test_moments_of_a_sampled_tail(whole):
    """Of C = A Aᵀ with many small directions: `E tr C² = (tr H)²/M + (M + 1) tr H²/M`, `E |A θ|² = Σ λ_i s_i`."""
    size, index = 300, np.arange(3001.0, 9001)
    eigenvalues, signal = index**-1.3, index**-1.1
    tail = Tail(eigenvalues.sum(), (eigenvalues**2).sum(), eigenvalues @ signal, signal.sum())
    directions = (eigenvalues, signal) if whole else (np.zeros(0), np.zeros(0))
    found = sampled_sketch(*directions, size, 7, *([] if whole else [tail]))
    spread = (found.eigenvalues**2).sum() - tail.trace**2 / size
    deviation = 2 * tail.trace / size * (2 * tail.squares / size) ** 0.5  # of tr C² because tr C varies
    assert spread == pytest.approx((size + 1) * tail.squares / size, abs=Z * deviation)
    assert Z * deviation < 0.2 * tail.squares
    assert found.eigenvalues @ found.signal == pytest.approx(tail.product, rel=Z * (2 / size) ** 0.5)


def ridge_ratios(problem, size, zeta):
    """Return `Σ_k Λ_k/(Λ_k + ζ)` and the signal that is left at ζ, relative to what the transform at κ(ζ) predicts."""
    eigenvalues, signal = problem.directions()
    model = problem.with_features(size, kind="gaussian")
    found, own_signal = model.directions()
    kappa = brentq(lambda k: k * (1 - (eigenvalues / (eigenvalues + k)).sum() / size) - zeta, zeta, 1e3, xtol=1e-25)
    left = (own_signal * zeta / (found + zeta)).sum() + model.approximation_risk
    return (
        (found / (found + zeta)).sum() / (size - zeta * size / kappa),
        left / (signal * kappa / (eigenvalues + kappa)).sum(),
    )


@pytest.mark.parametrize(
    ("problem", "size", "error"),
    [
        (st.PowerLaw(1.2, 1.5, 3000), 300, 5e-4),
        (st.LeastSquares(np.repeat([1.0, 0.2, 0.01], 80), np.repeat([1.0, 0.5, 2.0], 80) / 80), 120, 3e-5),
    ],
)
def test_ridge_sums_of_the_equivalent_are_those_of_its_transform(problem, size, error):
    """As each Λ_k is a mean, sums are off to one side (Jensen)."""
    for zeta in np.geomspace(1e-4, 1, 5):
        degrees, left = ridge_ratios(problem, size, zeta)
        assert 0 < degrees - 1 < error
        assert -error < left - 1 < 0
        if zeta == 1e-4:  # Every Λ_k is much larger, and the means lose nothing.
            assert degrees == pytest.approx(1, rel=1e-6)


def test_more_features_than_directions_that_vary():
    """Directions with λ = 0 are not learnt. The smallest Λ_k > 0 is next to the lower edge −ζ(κ), where dζ/dκ = 0."""
    index, size = np.arange(1.0, 201), 400
    problem = st.LeastSquares(np.append(index**-1.2, np.zeros(200)), np.append(index**-1.5, np.full(200, 1e-3)))
    found, signal = problem.with_features(size, kind="gaussian").directions()
    assert not found[200:].any()
    assert not signal[200:].any()
    values = index**-1.2
    kappa = -brentq(lambda u: ((values / (values - u)) ** 2).sum() - size, 0, values[-1] * (1 - 1e-9))
    edge = -kappa * (1 - (values / (values + kappa)).sum() / size)
    assert edge < found[199] < 1.1 * edge
    for zeta in np.geomspace(1e-4, 1, 5):
        degrees, left = ridge_ratios(problem, size, zeta)
        assert 0 < degrees - 1 < 5e-4
        assert -5e-4 < left - 1 < 0


@pytest.mark.parametrize("eigenvalues", [[1.0, *[1e-20] * 40], 10.0 ** -np.arange(41), np.ones(41)])
def test_each_feature_explains_one_of_equal_signals(eigenvalues):
    """`Σ_i κ_0/(λ_i + κ_0) = d − df₁(κ_0) = d − M` for any eigenvalues, however small."""
    problem = st.LeastSquares(eigenvalues, np.ones(41))
    for size in (1, 2, 11, 40, 41):
        missed = problem.with_features(size, kind="gaussian").approximation_risk
        assert missed == pytest.approx(41 - size, rel=1e-12, abs=1e-12)


@pytest.mark.parametrize("problem", [st.PowerLaw(1.2, 1.5, 700), st.PowerLaw(4, 2, 6000)])
def test_the_spectrum_of_the_equivalent_ends_where_its_transform_does(problem):
    """The ridge is a tenth of the smallest Λ_k, which is next to the edge where the curve meets the real axis."""
    smallest = problem.with_features(300, kind="gaussian").directions()[0][-1]
    degrees, left = ridge_ratios(problem, 300, smallest / 10)
    assert 0 < degrees - 1 < 3e-6
    assert -1e-4 < left - 1 < 0


def direction_means(values, counts, size, points=600):
    """Return the means of the limit spectrum over each direction, from the roots κ of a polynomial on a grid of Λ."""
    factors = [Polynomial([value, 1.0]) for value in values]
    others = [np.prod(factors[:i] + factors[i + 1 :]) for i in range(len(values))]
    whole, traces, weights = np.prod(factors), np.multiply(counts, values) / size, np.array(counts) / size
    zeta = Polynomial([0.0, 1.0]) * (whole - sum(traces * others))
    turning = (
        whole**2 - sum(weight * (v * o) ** 2 for weight, v, o in zip(weights, values, others, strict=True))
    ).roots()
    turning = turning[np.abs(turning.imag) < 1e-9 * np.abs(turning)].real
    edges = np.sort(-zeta(turning) / whole(turning))
    angle = (np.arange(points) + 0.5) * np.pi / points
    found = []
    for low, high in edges.reshape(-1, 2)[::-1]:
        spectrum = (low + high) / 2 + (high - low) / 2 * np.cos(angle)
        density = [np.abs((size / (zeta + value * whole).roots()).imag).max() for value in spectrum]
        number = np.cumsum(density * np.sin(angle)) * (high - low) / 2 / points
        assert number[-1] == pytest.approx(round(number[-1]), abs=1e-6)  # So many eigenvalues are above each gap.
        mass = np.append(0, np.cumsum(np.diff(number, prepend=0) * spectrum))
        found.extend(np.diff(np.interp(np.arange(round(number[-1]) + 1), np.append(0, number), mass)))
    return np.array(found)


@pytest.mark.parametrize(
    ("values", "counts", "size"), [([1.0, 1e-4], [200, 4000], 1000), ([1.0, 0.5, 0.01], [20, 2, 300], 200)]
)
def test_eigenvalues_next_to_a_gap(values, counts, size):
    """The last tenth is next to the lower end of the spectrum, where single eigenvalues depend on the rule."""
    problem = st.LeastSquares(np.repeat(values, counts), np.ones(sum(counts)))
    found, kept = problem.with_features(size, kind="gaussian").directions()[0], slice(0, round(0.9 * size))
    np.testing.assert_allclose(found[kept], direction_means(values, counts, size)[kept], rtol=6e-3)


@pytest.mark.parametrize("small", [1e-12, 1e-16, 1e-20, 1e-100])
def test_small_eigenvalues_beside_a_large_one(small):
    """Where κ ≪ 1 is next to the small ones, `ζ = (1 − 1/M) κ (1 − Σ_{i>1} λ_i/(λ_i + κ)/(M − 1))`.

    This is the equation of M − 1 features of the others, times 1 − 1/M: their trace is `(1 − 1/M) Σ_{i>1} λ_i`.
    """
    for size in (2, 5):
        eigenvalues, signal = np.append(1.0, np.full(9, small)), np.append(3.0, np.ones(9))
        found, explained = st.LeastSquares(eigenvalues, signal).with_features(size, kind="gaussian").directions()
        assert found[0] == pytest.approx(1, rel=1e-11)
        assert found[1:].sum() == pytest.approx((1 - 1 / size) * 9 * small, rel=1e-6)
        assert explained[0] == pytest.approx(3, rel=1e-6)
        assert explained[1:].sum() == pytest.approx(size - 1, rel=1e-6)


def whole_risk(model):
    risk = st.excess_risk(model, batch_size=4, learning_rate=0.1, num_samples=[1e3, 1e5]).total
    return np.log(risk + model.approximation_risk)


@pytest.mark.parametrize("size", [4, 16, 64])
def test_training_on_the_equivalent_is_nearer_the_more_features(size):
    """Mean log risk over sketches: to 1/M and four standard errors; on the first directions it is far lower."""
    problem, count = st.PowerLaw(1.5, 2.0), 100
    found = [whole_risk(problem.with_features(size, kind="gaussian", seed=seed)) for seed in range(count)]
    error = np.std(found, axis=0, ddof=1) / np.sqrt(count)
    gaps = np.abs(np.mean(found, axis=0) - whole_risk(problem.with_features(size, kind="gaussian")))
    assert (gaps < 1 / size + 4 * error).all()
    if size == 64:
        assert (np.mean(found, axis=0) - whole_risk(problem.with_features(size)) > 0.03 + 4 * error).all()


RANDOM = np.random.default_rng(2)
SPECTRA = [
    st.PowerLaw(1.01, 1.2), st.PowerLaw(6, 8), st.PowerLaw(3, 1.1, 50), st.PowerLaw(2, 3, 5),
    st.LeastSquares([1.0], [2.0]), st.LeastSquares([1.0, 1.0, 1.0], [1.0, 2.0, 3.0]),
    st.LeastSquares([1.0, 1e-3, 1e-9, 1e-20], [1.0, 0, 2.0, 3.0]),
    st.LeastSquares([5.0, 1.0, 0, 0], [1.0, 1.0, 2.0, 0]),
    st.LeastSquares(RANDOM.exponential(size=800) ** 4, RANDOM.exponential(size=800)),
]  # fmt: skip


@pytest.mark.parametrize("problem", SPECTRA)
@pytest.mark.parametrize("seed", [None, 0])
def test_trace_and_risk_are_shared_out(problem, seed):
    """For any spectrum: nothing is negative, tr H is kept (on average if sampled), and signal + missed = Σ s_i."""
    for size in sorted({1, 2, 3, problem.dim or 40}):
        if size > (problem.dim or size) or (seed == 0 and size > 1000):
            continue
        model = problem.with_features(size, kind="gaussian", seed=seed)
        eigenvalues, signal = model.directions()
        assert eigenvalues.size == size
        assert min(eigenvalues.min(), signal.min()) >= 0
        assert signal.sum() + model.approximation_risk == pytest.approx(problem.initial_risk, rel=1e-9)
        assert model.noise_variance == problem.noise_variance + model.approximation_risk
        assert -1e-12 < model.approximation_risk <= problem.initial_risk * (1 + 1e-12)
        if seed is None:
            assert model.trace == pytest.approx(problem.trace, rel=1e-9)


def test_isolated_directions_are_told_apart():
    """For large M leading directions keep λ_i (1 + Σ_j λ_j/(λ_i − λ_j)/M), to 1/M² (perturbation theory)."""
    problem, size = st.PowerLaw(2, 3, 2000), 1000
    eigenvalue = problem.directions()[0]
    found = problem.with_features(size, kind="gaussian").directions()[0]
    for i in range(3):
        others = np.delete(eigenvalue, i)
        first_order = eigenvalue[i] * (1 + (others / (eigenvalue[i] - others)).sum() / size)
        assert found[i] == pytest.approx(first_order, rel=30 / size**2)
        assert found[i] != pytest.approx(eigenvalue[i], rel=2e-4)


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ({"num_features": 0}, "num_features must be a whole number of at least 1, got 0"),
        ({"num_features": 2.5}, "num_features must be a whole number"),
        ({"num_features": 11}, "at most the number of directions, 10, got 11"),
        (
            {"num_features": 2, "kind": "gausian"},
            "kind must be one of first, gaussian, got gausian .did you mean gaussian",
        ),
        ({"num_features": 2, "kind": "gaussian", "seed": -1}, "seed must be a whole number of at least 0"),
    ],
)
def test_bad_arguments_are_named(arguments, message):
    for problem in (st.PowerLaw(2, 3, 10), st.LeastSquares(np.ones(10), np.ones(10))):
        with pytest.raises(ValueError, match=message):
            problem.with_features(**arguments)


def test_too_large_for_this_kind():
    problem = st.PowerLaw(2, 3)
    with pytest.raises(ValueError, match="at most 8192 for this kind, got 10000; give no seed"):
        problem.with_features(10_000, kind="gaussian", seed=1)
    with pytest.raises(ValueError, match="at most 100000 for this kind, got 1000000; take the first ones"):
        problem.with_features(10**6, kind="gaussian")
    assert problem.with_features(10**9).dim == 10**9


def test_as_many_features_as_can_be_had():
    """All directions there are, and for sketches 8192 with a seed and 100 000 without."""
    assert checked_model(3, "first", None, 3) == 3
    assert checked_model(8192, "gaussian", 1, None) == 8192
    assert checked_model(100_000, "gaussian", None, None) == 100_000
    for size, seed in ((8193, 1), (100_001, None)):
        with pytest.raises(ValueError, match=f"for this kind, got {size}"):
            checked_model(size, "gaussian", seed, None)
