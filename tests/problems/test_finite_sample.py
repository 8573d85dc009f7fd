import numpy as np
import pytest

import sgdtheory as st
from sgdtheory.problems import drawn_sample, finite_sample, mean_of_samples
from sgdtheory.problems.finite_sample import GivenSample, TrainingProblem
from tests.risk.passes import rows_of


def problem(dim=6):
    return st.PowerLaw(1.2, 1.5, dim=dim, noise_variance=0.3)


@pytest.mark.parametrize("size", [1, 4, 6, 50])
def test_spectral_sums_are_those_of_the_rows(size):
    """`tr H g(Ĥ)`, the training loss and the risk of gradient flow, from matrices of the weights."""
    sample = drawn_sample(problem().with_samples(size, seed=3))
    features, noise = rows_of(sample)
    covariance = features.T @ features / size
    population = np.diag(sample.scale**2)
    square = covariance @ covariance
    assert sample.weight.size == min(size, 6)
    assert sample.weight**2 @ sample.count == pytest.approx(np.trace(square))
    assert (sample.seen * sample.weight) @ sample.weight**2 == pytest.approx(np.trace(population @ square))
    loss = np.mean((features @ sample.start - noise) ** 2)
    assert sample.least_loss + sample.excess.sum() == pytest.approx(loss)
    best = np.linalg.pinv(features) @ (noise - features @ sample.start)
    assert sample.least_loss == pytest.approx(np.mean((features @ (sample.start + best) - noise) ** 2), abs=1e-12)
    time = 3.0
    flow = np.linalg.eigh(covariance)
    answer = flow.eigenvectors * np.exp(-time * flow.eigenvalues) @ flow.eigenvectors.T
    error = sample.start + best - answer @ best
    expected = error @ population @ error
    assert sample.mean_risk(np.exp(-time * sample.weight)) == pytest.approx(expected)


@pytest.mark.parametrize("size", [4, 6, 50])
def test_fourth_moments_are_those_of_the_rows_and_of_the_residual(size):
    """Whitened rows and the residual of the fit that NumPy finds; a fit without a residual has none of it."""
    sample = drawn_sample(problem().with_samples(size, seed=3))
    features, noise = rows_of(sample)
    labels = noise - features @ sample.start  # of weights that count from w_0
    residual = labels - features @ np.linalg.lstsq(features, labels)[0]
    z = np.column_stack([features @ sample.vectors, residual if size > 6 else np.zeros(size)]) ** 2
    mean = np.maximum(z.mean(0), 1e-300)
    expected = z.T @ z / size / mean / mean[:, None] - 1 - np.eye(len(mean))
    if size <= 6:
        expected[:-1, -1] = expected[-1, :-1] = 0.0
        expected[-1, -1] = -1.0
    np.testing.assert_allclose(sample.fourth, expected, rtol=1e-9, atol=1e-9)


def test_a_direction_without_eigenvalue_is_noise_that_stays():
    frozen = st.LeastSquares([1.0, 0.5, 0.0], [1.0, 1.0, 2.0], 0.3)
    sample = drawn_sample(frozen.with_samples(20_000, seed=0))
    features, noise = rows_of(sample)
    assert features.shape == (20_000, 2)
    assert np.var(noise) == pytest.approx(2.3, rel=0.05)
    assert sample.mean_risk(np.ones(2)) == pytest.approx(4.0)


def test_rows_are_drawn_from_the_problem():
    sample = drawn_sample(problem().with_samples(20_000, seed=0))
    features, noise = rows_of(sample)
    np.testing.assert_allclose(features.T @ features / 20_000, np.diag(sample.scale**2), atol=0.03)
    assert np.var(noise) == pytest.approx(0.3, rel=0.04)
    again, _ = rows_of(drawn_sample(problem().with_samples(20_000, seed=0)))
    np.testing.assert_array_equal(features, again)
    other, _ = rows_of(drawn_sample(problem().with_samples(20_000, seed=1)))
    assert not np.array_equal(features, other)


def test_means_add_up():
    mean = mean_of_samples(problem(40).with_samples(100))
    assert mean.count.sum() == pytest.approx(40, rel=1e-6)
    assert mean.least_loss == pytest.approx(0.3 * 0.6, rel=1e-6)
    assert mean.excess.sum() + mean.least_loss == pytest.approx(problem(40).initial_risk + 0.3, rel=1e-6)
    assert mean.mean_risk(np.ones(mean.weight.size)) == pytest.approx(problem(40).initial_risk, rel=1e-6)


def test_what_it_shares_with_its_problem():
    finite = problem().with_samples(10, seed=0)
    assert finite.noise_variance == 0.3
    assert finite.dim == 6
    assert finite.initial_risk == problem().initial_risk
    assert finite.approximation_risk == 0
    assert finite.truncated(3).problem == problem().truncated(3)
    assert finite.truncated(3).num_samples == 10
    assert finite.preconditioned(0.5).problem == problem().preconditioned(0.5)


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ({"num_samples": 0}, "num_samples must be a whole number"),
        ({"num_samples": 2.5}, "num_samples must be a whole number"),
        ({"num_samples": 5, "seed": -1}, "seed must be a whole number"),
        ({"num_samples": 5, "replacement": "no"}, "replacement must be True or False"),
    ],
)
def test_what_is_refused(arguments, message):
    with pytest.raises(ValueError, match=message):
        problem().with_samples(**arguments)


def test_samples_of_samples_are_refused():
    with pytest.raises(ValueError, match="with_samples must be asked"):
        problem().with_samples(10).with_samples(5)


@pytest.mark.parametrize(
    ("finite", "draw", "message"),
    [
        (st.PowerLaw(1.5, 2.0).with_samples(10, seed=0), drawn_sample, "at most 2048 directions"),
        (problem(1000).with_samples(10**7, seed=0), drawn_sample, "num_samples must be at most"),
        (problem().with_samples(2), mean_of_samples, "num_samples must be at least 3"),
    ],
)
def test_what_cannot_be_drawn(finite, draw, message):
    with pytest.raises(ValueError, match=message):
        draw(finite)


def test_the_theory_of_one_pass_does_not_take_it():
    with pytest.raises(ValueError, match="problem must not be a finite sample here"):
        problem().with_samples(10, seed=0).modes(1.0)


@pytest.mark.parametrize("size", [4, 50])
def test_rows_in_small_chunks_and_given_rows_have_the_drivers_of_all(monkeypatch, size):
    """Given rows have no direction without an eigenvalue."""
    sample = drawn_sample(problem().with_samples(size, seed=3))
    features, noise = rows_of(sample)
    given = GivenSample(features, noise, sample.scale, sample.start)
    response = np.linspace(0.1, 0.9, sample.weight.size)
    monkeypatch.setattr(finite_sample, "CHUNK", 7 * 3)
    again = drawn_sample(problem().with_samples(size, seed=3))
    assert [len(noise) for _, noise in again.rows()] == [3] * (size // 3) + [size % 3]
    for other in (given, again):
        for name in ("num_samples", "weight", "seen", "excess", "least_loss", "fourth"):
            np.testing.assert_allclose(getattr(other, name), getattr(sample, name), rtol=1e-8, atol=1e-12)
        assert other.mean_risk(response) == pytest.approx(sample.mean_risk(response), rel=1e-10)
    assert given.relative_error_at(3.0) == 0
    assert given.interpolation_error(response) == 0


def test_the_problem_of_one_pass_with_the_moments_of_orthonormal_frames():
    """E z_j² z_k² = N/(N + 2) (1 + 2δ_jk): N/(N − 2) directions for each, in batches of B (N + 2)/(N − 2)."""
    sample = drawn_sample(problem().with_samples(10, seed=0))
    training = TrainingProblem(sample)
    modes = training.modes(1.0)
    assert training.batch(np.array(4.0)) == pytest.approx(6.0)
    assert training.largest_eigenvalue == sample.weight[0]
    assert training.noise_variance == sample.least_loss
    np.testing.assert_allclose(modes.multiplicity, 1.25 * sample.seen)
    np.testing.assert_allclose(modes.signal * modes.trained, sample.excess)
    np.testing.assert_allclose(modes.driving, 1.25)


def test_the_largest_and_smallest_samples_are_taken():
    assert drawn_sample(st.PowerLaw(1.5, 2.0, 2048).with_samples(488_281, seed=0)).num_samples == 488_281
    assert drawn_sample(st.PowerLaw(1.5, 2.0, 1000).with_samples(10**6, seed=0)).num_samples == 10**6
    assert mean_of_samples(problem().with_samples(3)).num_samples == 3
    assert problem().with_samples(1e20).num_samples == 1e20
    for finite in (st.PowerLaw(1.5, 2.0, 2049).with_samples(5, seed=0), problem(1000).with_samples(10**6 + 1, seed=0)):
        with pytest.raises(ValueError, match="must (have|be) at most"):
            drawn_sample(finite)
    with pytest.raises(ValueError, match=r"num_samples must be at most 1e\+20 of a finite sample"):
        problem().with_samples(1.01e20)
