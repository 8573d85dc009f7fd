"""The stated errors of reshuffled epochs against explicit permutations, in random settings and in hard ones."""

import numpy as np
import pytest

import sgdtheory as st
from sgdtheory.algorithms import Course
from sgdtheory.problems import drawn_sample
from sgdtheory.risk.systems.reshuffled_risks import _moved
from tests.risk.passes import rows_of

AVERAGES = st.LastIterate(), st.UniformAverage()
SURE = 3.0  # standard errors of the simulation that are allowed beside what is stated


@pytest.mark.parametrize("steps", [1, 2, 30, 300, 3000, 30_000])
def test_what_moves_a_run_is_summed_over_all_steps(steps):
    """`γ √w Σ_t |1 − γw|^{s−1−t} √L(t)` for s = n and in the mean over s, step by step.

    The points in time give the mean to 5%. The iterate's sum, in directions that forget fast, was too low by up to 100%
    as long as its last steps lay between two points.
    """
    sample = drawn_sample(st.PowerLaw(1.3, 1.6, dim=12).with_samples(40, seed=0))
    decay, root = np.abs(1 - 0.3 * sample.weight), 0.3 * np.sqrt(sample.weight)
    moved, total = np.zeros(12), np.zeros(12)
    for step in range(steps):
        total += moved
        moved = decay * moved + root * np.sqrt(sample.least_loss + decay ** (2 * step) @ sample.excess)
    found = _moved(sample, Course(st.Algorithm(), 4.0, 0.3, steps), float(steps))
    if steps > 2:
        np.testing.assert_allclose(found[1], total / steps, rtol=0.05)
    np.testing.assert_allclose(found[0], moved, rtol=0.08)


def reshuffled_runs(random, covariance, start, rows, *, batch, rate, steps, replicas):
    """Mean risks of the last iterate and of the average over orders of the rows, and standard errors: (2,) and (2,).

    `covariance` has the eigenvalues of H, `start` is w_0 − w*, and `rows` are features and label noise: those of
    every replica where they have one axis more, in front.
    """
    features, noise = rows
    number = features.shape[-2]
    size = min(batch, number)
    length = number // size
    error = np.tile(start, (replicas, 1))
    total = np.zeros_like(error)
    own = np.arange(replicas)[:, None]
    for step in range(steps):
        if step % length == 0:
            order = random.permuted(np.tile(np.arange(number), (replicas, 1)), axis=1)
        taken = order[:, step % length * size :][:, :size]
        x, y = (features[taken], noise[taken]) if features.ndim == 2 else (features[own, taken], noise[own, taken])
        total += error
        residual = np.einsum("rbd,rd->rb", x, error) - y
        error = error - rate / size * np.einsum("rb,rbd->rd", residual, x)
    risks = np.stack([each**2 @ covariance for each in (error, total / steps)])
    return risks.mean(1), risks.std(1, ddof=1) / np.sqrt(replicas)


def stated(finite, batch, rate, steps):
    """(2, 2) risks of last iterate and average, and their stated errors."""
    setting = {"batch_size": batch, "learning_rate": rate, "num_samples": batch * steps}
    found = [st.excess_risk(finite, **setting, algorithm=st.Algorithm(average=each)) for each in AVERAGES]
    return np.array([[each.total, each.relative_error] for each in found]).T


def measured(problem, number, seed, batch, rate, steps, replicas):
    """(2,) means and (2,) standard errors over orders of the rows, and over samples where there is no seed."""
    random = np.random.default_rng([number, steps, 0 if seed is None else seed])
    values, signal = problem.directions()
    start = np.sqrt(signal / values)
    if seed is None:
        x = random.standard_normal((replicas, number, values.size)) * np.sqrt(values)
        rows = x, np.sqrt(problem.noise_variance) * random.standard_normal((replicas, number))
    else:
        sample = drawn_sample(problem.with_samples(number, seed=seed))
        rows = rows_of(sample)
    return reshuffled_runs(random, values, start, rows, batch=batch, rate=rate, steps=steps, replicas=replicas)


def beyond(problem, number, seed, batch, rate, steps, replicas=2000):
    """Return whether the risks are farther away than stated, (2,), the true errors and the stated ones."""
    total, error = stated(problem.with_samples(number, seed=seed, replacement=False), batch, rate, steps)
    mean, scatter = measured(problem, number, seed, batch, rate, steps, replicas)
    true = np.abs(total / mean - 1)
    return true > error + SURE * scatter / mean + 1e-9, true, error, scatter / mean


# Few directions, much or no noise, one to ten epochs: all but two had errors beyond the 2 to 10% once stated for all.
HARD = [
    ([0.94, 0.054], [0.033, 0.24], 5.0, 96, 906974, 4, 0.426, 24),
    ([1.0, 0.3], [0.5, 0.5], 2.0, 96, 3, 1, 0.3, 576),
    ([1.0, 0.7, 0.2], [0.3, 0.3, 0.4], 1.0, 24, 5, 5, 0.8, 16),
    ([1.0], [1.0], 0.0, 96, 3, 1, 0.1, 192),
    ([1.0, 0.4], [0.5, 0.5], 0.0, 48, 7, 5, 0.7, 54),
    ([1.0, 0.2], [0.5, 0.5], 0.0, 48, 11, 2, 0.9, 240),
    ([1.0], [1.0], 0.0, 12, None, 2, 0.5, 24),
]


@pytest.mark.parametrize("case", HARD)
def test_hard_settings_are_within_what_is_stated(case):
    values, signal, noise, *setting = case
    out, true, error, _ = beyond(st.LeastSquares(values, signal, noise), *setting)
    assert not out.any(), (true, error)


def test_the_rows_own_moments_move_the_risk_where_it_belongs():
    """With the fourth moments of Gaussian rows in the mean, the risk of this sample was 18% too high."""
    values, signal, noise, *setting = HARD[0]
    _, true, _, scatter = beyond(st.LeastSquares(values, signal, noise), *setting, replicas=20_000)
    assert true[0] < 0.02 + SURE * scatter[0]


@pytest.mark.parametrize(("dim", "seed"), [(40, 0), (40, None), (8, 1)])
def test_good_settings_have_small_errors(dim, seed):
    """Many rows and a moderate learning rate: what is stated is of some use."""
    problem = st.PowerLaw(1.2, 1.6, dim=dim, noise_variance=0.5)
    out, _, error, _ = beyond(problem, 100, seed, 4, 0.15, 50)
    assert not out.any()
    assert (error < 0.06).all()


def test_full_batches_of_one_sample_are_exact():
    """Gradient descent on the rows, whose risk has no error but rounding."""
    problem = st.PowerLaw(1.2, 1.6, dim=5, noise_variance=0.5)
    out, true, error, _ = beyond(problem, 20, 0, 20, 0.4, 30, replicas=2)
    assert not out.any()
    assert (true < 1e-9).all()
    assert (error == 0).all()


def test_next_to_the_edge_no_error_is_stated():
    """The learning rate is stable for fresh rows, but not for this sample."""
    problem = st.LeastSquares([1.0], [1.0], 0.1)
    rate = 0.95 * float(st.max_stable_learning_rate(problem, batch_size=1))
    error = stated(problem.with_samples(30, seed=0, replacement=False), 1, rate, 300)[1]
    assert error[0] == np.inf


def random_setting(random):
    """All that is accepted, of one to 60 directions and 10 to 100 rows."""
    dim = round(np.exp(random.uniform(0, np.log(60))))
    number = round(np.exp(random.uniform(np.log(10), np.log(100))))
    batch = round(np.exp(random.uniform(0, np.log(number))))
    index = np.arange(1.0, dim + 1)
    values = index ** -random.uniform(0, 2.5) if random.random() < 0.5 else random.gamma(1.0, size=dim) + 1e-3
    noise = 0.0 if random.random() < 0.25 else np.exp(random.uniform(np.log(0.01), np.log(10)))
    signal = random.gamma(0.5, size=dim)
    problem = st.LeastSquares(values / values.max(), signal / signal.sum(), float(noise))
    share = np.exp(random.uniform(np.log(0.02), 0))
    rate = share * float(st.max_stable_learning_rate(problem, batch_size=batch))
    length = number // batch
    seed = int(random.integers(10**6)) if random.random() < 0.65 else None
    epochs = random.choice([1.5, 2, 3, 4, 6, 10]) if seed is None else random.choice([0.5, 1, 1.5, 2, 4, 6, 10])
    steps = max(round(epochs * length), 1 if seed is not None else number // batch + 1)
    return problem, number, seed, batch, rate, steps


@pytest.mark.slow
def test_random_settings_are_within_what_is_stated():
    """At most one in a hundred is beyond what is stated. A flat 2%, which was stated before, must fail."""
    results = []
    for place in range(300):
        setting = random_setting(np.random.default_rng([17, place]))
        out, true, error, scatter = beyond(*setting, replicas=1000)
        results += zip(out, true, error, scatter, strict=True)
    out, true, error, scatter = np.array(results, float).T
    known = np.isfinite(error)
    assert known.mean() > 0.85
    assert out[known].mean() <= 0.01
    assert (true > 0.02 + SURE * scatter).mean() > 0.03
    seen = known & (true > SURE * scatter)
    assert np.median(error[seen] / true[seen]) < 5


def test_searches_pass_the_error_on():
    """γ* and B* of epochs over a few rows say how well their risk is known; with replacement it is exact."""
    problem = st.LeastSquares([1.0, 0.3], [0.5, 0.5], 1.0)
    setting = {"batch_size": [1, 4], "num_samples": 60}
    reshuffled = problem.with_samples(12, seed=0, replacement=False)
    best = st.optimal_learning_rate(reshuffled, **setting)
    again = st.excess_risk(reshuffled, **setting, learning_rate=best.learning_rate)
    np.testing.assert_allclose(best.relative_error, again.relative_error, rtol=1e-6)
    assert (best.relative_error > 0.01).all()
    assert "within" in str(best)
    assert (st.optimal_learning_rate(problem.with_samples(12, seed=0), **setting).relative_error == 0).all()
    found = st.critical_batch_size(reshuffled, num_samples=60, curve=False)
    assert "stated error" in found.remark
