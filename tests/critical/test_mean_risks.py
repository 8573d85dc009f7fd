"""What the mean path leaves between tabulated learning rates, against the path itself."""

import numpy as np
import pytest

import sgdtheory as st
from sgdtheory.critical.mean_risks import MeanRisks
from sgdtheory.risk import mean_risk

EIGENVALUES, SIGNAL = np.array([1.0, 0.3, 0.05]), np.array([0.5, 0.4, 0.3])
LAST = st.LastIterate()
ALGORITHMS = {
    "one run for every n": st.Algorithm(st.ScheduleFree(0.9), average=LAST),
    "a run for each n, by γ": st.Algorithm(st.ScheduleFree(0.9), st.Cosine(), average=LAST),
    "a run for each n, by the average": st.Algorithm(st.ScheduleFree(0.5), average=st.TailAverage(0.5)),
}


@pytest.mark.parametrize("name", ALGORITHMS)
def test_risks_between_tabulated_rates(name):
    algorithm = ALGORITHMS[name]
    found = MeanRisks(algorithm, EIGENVALUES, SIGNAL, lambda steps: 2.0 + 1 / steps, 1e9)
    for steps in (1.0, 2.0, 3.0, 63.0, 64.0, 65.0, 150.0):
        rates = (2.0 + 1 / steps) * np.random.default_rng(int(steps)).uniform(0, 1, 50) ** 2
        exact = mean_risk(algorithm, EIGENVALUES, SIGNAL, rates, steps)
        np.testing.assert_allclose(found(rates, steps), exact, rtol=1e-5, atol=1e-7 * exact.max())
    assert sorted(found.runs) == ([0, 1, 2, 6, 7, 8] if found.one_run else [])  # powers of two


def test_beyond_the_edge_all_risks_are_the_same():
    found = MeanRisks(ALGORITHMS["one run for every n"], EIGENVALUES, SIGNAL, lambda steps: 2.0, 1e9)
    np.testing.assert_array_equal(found(np.array([2.001, 30.0]), 40.0), 1e9)
