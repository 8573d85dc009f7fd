"""Samples of about as many rows as there are directions (T42): eigenvalues of Ĥ down to 0, and ŵ far from w*."""

import numpy as np
import pytest

import sgdtheory as st
from sgdtheory.problems.sample_resolvent import SampleResolvent
from tests.marks import slow

RATE = 0.107
STEPS = 82
Z = 3.9  # false alarms of two sides: 1e-4


def problem(dim, signal=1.0):
    lam = np.arange(1.0, dim + 1) ** -1.75
    return st.LeastSquares(lam, signal * lam, 1.0)


def drawn(dim, number, signal, replicas=1500):
    """Risks of the average of STEPS steps on single rows, a new sample for each replica."""
    rng = np.random.default_rng([dim, number])
    lam = problem(dim).eigenvalues
    x = rng.standard_normal((replicas, number, dim)) * np.sqrt(lam)
    noise = rng.standard_normal((replicas, number))
    w = np.full((replicas, dim), signal**0.5)
    total = np.zeros_like(w)
    each = np.arange(replicas)
    for _ in range(STEPS):
        total += w
        row = rng.integers(0, number, replicas)
        here = x[each, row]
        w = w - RATE * here * ((here * w).sum(1) - noise[each, row])[:, None]
    return ((total / STEPS) ** 2 * lam).sum(1)


@pytest.mark.parametrize(("dim", "number"), [(20, 20), slow(21, 20), slow(40, 39)])
def test_the_mean_over_samples_of_as_many_rows_as_directions(dim, number):
    for signal in (0.0, 1.0):
        setting = {"batch_size": 1, "learning_rate": RATE, "num_samples": STEPS}
        risk = st.excess_risk(problem(dim, signal).with_samples(number), **setting)
        risks = drawn(dim, number, signal)
        error = risks.std() / risks.size**0.5
        assert abs(risk.total - risks.mean()) < risk.relative_error * risks.mean() + Z * error
        assert risk.bias < risks.mean() - Z * error  # the batches' noise left out


@pytest.mark.slow
def test_the_risk_is_smooth_where_rows_are_as_many_as_directions():
    setting = {"batch_size": 1, "learning_rate": RATE, "num_samples": STEPS}
    sizes = (190, 199, 200, 201, 205)
    variances = [float(st.excess_risk(problem(200).with_samples(size), **setting).variance) for size in sizes]
    assert np.ptp(variances) < 0.03 * np.mean(variances)


@pytest.mark.parametrize("spare", [1, 2, 10])
def test_the_lower_edge_with_hardly_more_directions_than_rows(spare):
    """Σ (λ/(λ + κ))² = N, however far κ lies below the smallest eigenvalue."""
    lam = np.arange(1.0, 201) ** -1.75
    resolvent = SampleResolvent(st.LeastSquares(lam, lam).modes(1e-6), 200 - spare, 1e-9)
    kappa = resolvent.edge()
    assert 0 < kappa < lam[-1]
    assert abs(((lam / (lam + kappa)) ** 2).sum() - (200 - spare)) < 1e-9 * 200
    assert resolvent.smallest() > 0


def test_rounding_is_stated_where_the_fit_is_far_away():
    """No signal and hardly a step: what has been learnt is 1e-14 of the distance to ŵ."""
    sample = st.LeastSquares([0.038, 0.038], [0.0, 0.0], 0.03).with_samples(2, seed=677)
    rate = 1e-6 * float(st.max_stable_learning_rate(sample, batch_size=1))
    risk = st.excess_risk(sample, batch_size=1, learning_rate=rate, num_samples=3)
    assert risk.relative_error > 1e-3
    assert st.excess_risk(sample, batch_size=1, learning_rate=0.1, num_samples=300).relative_error == 0


def test_more_rows_than_a_run_can_read_are_refused():
    with pytest.raises(ValueError, match="num_samples must be at most 1e.20 of a finite sample"):
        problem(3).with_samples(1e300)
