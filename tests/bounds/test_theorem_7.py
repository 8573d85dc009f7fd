import numpy as np
import pytest

import sgdtheory as st
from tests.scaled import SCALES, Scaled

TERMS = ("bias_head", "bias_tail", "cross", "variance_head", "variance_tail", "effective_dimension", "applies")


def by_definition(eigenvalues, signal, noise, batch, rate, samples):
    """(T8) and (T9) term by term, as printed."""
    learnt = eigenvalues >= batch / (samples * rate)
    k, n, time = learnt.sum(), samples / batch, samples * rate / batch
    head, tail = signal[learnt], signal[~learnt]
    squares = (eigenvalues[~learnt] ** 2).sum()
    return {
        "bias_head": (batch / (samples * rate)) ** 2 * (head / eigenvalues[learnt] ** 2).sum(),
        "bias_tail": tail.sum(),
        "cross": ((head / eigenvalues[learnt]).sum() + time * tail.sum()) / batch / time * (k + time**2 * squares) / n,
        "variance_head": noise * k / samples,
        "variance_tail": noise * time**2 * squares / samples,
        "effective_dimension": k,
    }


@pytest.mark.parametrize("seed", range(8))
def test_terms_equal_the_definition(seed):
    rng = np.random.default_rng(seed)
    index = np.arange(1.0, 2001)
    capacity, source, noise = rng.uniform(1.05, 4), rng.uniform(1.05, 8), rng.uniform(0, 3)
    batch = int(2 ** rng.integers(0, 12))
    setting = {
        "batch_size": batch,
        "learning_rate": 10 ** rng.uniform(-3, 0),
        "num_samples": batch * 10.0 ** rng.integers(0, 8),
    }
    expected = by_definition(index**-capacity, index**-source, noise, *setting.values())
    for problem in (
        st.PowerLaw(capacity, source, dim=2000, noise_variance=noise),
        st.LeastSquares(index**-capacity, index**-source, noise),
    ):
        bound = st.theorem7(problem, **setting)
        for name, value in expected.items():
            assert getattr(bound, name) == pytest.approx(value, rel=1e-12), name
        parts = [expected[name] for name in ("bias_head", "bias_tail", "variance_head", "variance_tail")]
        assert bound.total == pytest.approx(sum(parts), rel=1e-12)
        assert bound.bias + bound.variance == bound.total


@pytest.mark.parametrize("batch", [1, 7, 10])
def test_samples_of_an_incomplete_batch_do_not_count(batch):
    """n = ⌊D/B⌋ steps, as in `excess_risk`; at D = 2B − 1 the formula at D itself is off by up to 2 in n, 4 in n²."""
    problem = st.LeastSquares([3.0, 0.2], [0.5, 0.4], 1.5)
    setting = {"batch_size": batch, "learning_rate": 0.2}
    for steps in (1, 2, 40):
        whole = st.theorem7(problem, num_samples=steps * batch, **setting)
        more = st.theorem7(problem, num_samples=(steps + 1) * batch - 0.5, **setting)
        for name in ("total", "cross", "effective_dimension"):
            assert getattr(more, name) == getattr(whole, name)
        expected = by_definition(problem.eigenvalues, problem.signal, 1.5, batch, 0.2, steps * batch)
        assert more.variance_head + more.variance_tail == pytest.approx(
            expected["variance_head"] + expected["variance_tail"], rel=1e-13
        )


def test_infinite_dimension_is_the_limit_of_finite_ones():
    setting = {"batch_size": 4, "learning_rate": 0.3, "num_samples": np.array([4, 1e3, 1e6])}
    infinite, finite = (st.theorem7(st.PowerLaw(2.0, 3.0, dim=dim), **setting) for dim in (None, 10**9))
    for name in ("bias_head", "bias_tail", "cross", "variance_head", "variance_tail"):
        np.testing.assert_allclose(getattr(finite, name), getattr(infinite, name), rtol=1e-9)


def test_zero_eigenvalues_belong_to_the_tail():
    bound = st.theorem7(st.LeastSquares([1.0, 0.0], [1.0, 3.0]), batch_size=1, learning_rate=0.5, num_samples=1e12)
    assert bound.effective_dimension == 1
    assert bound.bias_tail == 3.0


@pytest.mark.parametrize("problem", [st.PowerLaw(2, 3), st.LeastSquares([1.0, 0.5], [1.0, 1.0])])
@pytest.mark.parametrize(("rate", "samples"), [(1.0, 1e300), (1e-300, 10.0), (1e300, 1e300), (1e-200, 1e3)])
def test_extreme_horizons_give_finite_terms(problem, rate, samples):
    bound = st.theorem7(problem, batch_size=1, learning_rate=rate, num_samples=samples)
    for name in ("bias_head", "bias_tail", "cross", "variance_head", "variance_tail"):
        assert 0 <= getattr(bound, name) < np.inf, name


def test_applies_has_both_conditions_and_their_constants():
    problem = st.LeastSquares([1.0, 1.0], [0.5, 0.5], noise_variance=1.0)

    def applies(rate, batch=1, **constants):
        return bool(st.theorem7(problem, batch_size=batch, learning_rate=rate, num_samples=100, **constants).applies)

    assert applies(0.25)  # c min{B/tr H, 1/‖H‖} = 0.5 · 0.5
    assert not applies(0.26)
    assert applies(0.5, batch=2)
    assert not applies(0.51, batch=100)
    assert applies(0.5, learning_rate_constant=1.0)
    assert not applies(0.25, signal_constant=0.9)
    noiseless = st.LeastSquares([1.0], [1.0], noise_variance=0.0)
    assert not st.theorem7(noiseless, batch_size=1, learning_rate=0.1, num_samples=10).applies


@pytest.mark.parametrize("scale", SCALES)
@pytest.mark.parametrize(
    "problem", [st.PowerLaw(1.7, 2.6, noise_variance=3.0), st.LeastSquares([4.0, 0.7], [1.0, 0.5], 2.0)]
)
def test_units_of_the_eigenvalues_do_not_matter(problem, scale):
    """λ → cλ, γ → γ/c leaves every term and both conditions as they are, on either side of the first."""
    for batch in (1, 30):
        limit = 0.5 * min(batch / problem.trace, 1 / problem.largest_eigenvalue)
        rate = limit * np.array([1e-3, 0.1, 1 - 1e-9, 1 + 1e-9])
        setting = {"batch_size": batch, "num_samples": np.array([[30.0], [3e4], [3e9]])}
        bound = st.theorem7(problem, learning_rate=rate, **setting)
        np.testing.assert_array_equal(bound.applies, [[True, True, True, False]] * 3)
        scaled = st.theorem7(Scaled(problem, scale), learning_rate=rate / scale, **setting)
        for name in TERMS:
            np.testing.assert_allclose(getattr(scaled, name), getattr(bound, name), rtol=1e-10, err_msg=name)


def test_the_signal_may_be_as_large_as_the_noise_and_no_larger():
    setting = {"batch_size": 1, "learning_rate": 0.1, "num_samples": 10}
    for noise, applies in ((1.0, True), (0.999, False), (0.6, False)):
        assert st.theorem7(st.LeastSquares([1.0, 0.2], [0.5, 0.5], noise), **setting).applies == applies


def test_broadcasts():
    bound = st.theorem7(
        st.PowerLaw(2, 3), batch_size=np.array([[1], [8]]), learning_rate=0.1, num_samples=np.array([10, 100, 1000])
    )
    for name in (*TERMS, "total"):
        assert np.shape(getattr(bound, name)) == (2, 3), name


@pytest.mark.parametrize("name", ["learning_rate_constant", "signal_constant"])
def test_bad_constants(name):
    with pytest.raises(ValueError, match=f"{name} must be positive and finite, got 0"):
        st.theorem7(st.PowerLaw(2, 3), batch_size=1, learning_rate=0.1, num_samples=10, **{name: 0})
