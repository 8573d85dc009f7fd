"""Long lists of eigenvalues: the small ones are merged for runs without momentum, and risks stay those of the list."""

import numpy as np
import pytest

import sgdtheory as st
from sgdtheory.problems import AbstractProblem
from sgdtheory.problems import modes as module
from tests.marks import slow

DIM = 2000
INDEX = np.arange(1.0, DIM + 1)


class Listed(st.LeastSquares):
    """The same problem, every direction a mode of its own."""

    decaying_modes = AbstractProblem.decaying_modes


def spectrum(name):
    generator = np.random.default_rng(0)
    signal = generator.exponential(size=DIM)
    return {
        "slow fall": (INDEX**-1.1, INDEX**-1.3),
        "fast fall": (INDEX**-4.0, INDEX**-6.0),
        "rough": (10 ** generator.uniform(-9, 0, DIM), signal * 10 ** generator.uniform(-9, 0, DIM)),
        "one large": (np.append(1e3, generator.uniform(0.5, 1.5, DIM - 1)), signal),
        "clusters": (10.0 ** -(INDEX // 100) * (1 + 1e-3 * generator.uniform(size=DIM)), signal),
        "equal": (np.repeat([1.0, 0.9, 1e-3, 0.0], DIM // 4), signal),
        "zeros": (np.where(INDEX > 1500, 0.0, INDEX**-1.5), signal),
    }[name]


SETTINGS = [(4, 20), (1, 1e4), (64, 1e6), (1e4, 1e9)]
ALGORITHMS = {
    "average": st.Algorithm(),
    "tail": st.Algorithm(average=st.TailAverage(0.5)),
    "cosine": st.Algorithm(schedule=st.Cosine(), average=st.LastIterate()),
    "momentum": st.Algorithm(method=st.HeavyBall(0.999), average=st.LastIterate()),
}


def error(problem, listed, algorithm, settings=SETTINGS):
    """Largest difference of bias or variance relative to the risk, at three shares of the stability threshold."""
    worst = 0.0
    for batch, steps in settings:
        edge = st.max_stable_learning_rate(listed, batch_size=batch)
        for share in (0.9, 0.1, 1e-3):
            setting = {"batch_size": batch, "learning_rate": share * edge, "num_samples": batch * steps}
            found, exact = (st.excess_risk(each, **setting, algorithm=algorithm) for each in (problem, listed))
            differences = abs(found.bias - exact.bias), abs(found.variance - exact.variance)
            worst = max(worst, max(differences) / exact.total)
    return worst


@pytest.mark.parametrize(
    "name", ["slow fall", "rough", "one large", *map(slow, ["fast fall", "clusters", "equal", "zeros"])]
)
@pytest.mark.parametrize("algorithm", ["average", slow("tail"), slow("cosine")])
def test_risks_are_those_of_the_list(name, algorithm):
    problem, listed = (kind(*spectrum(name)) for kind in (st.LeastSquares, Listed))
    assert problem.decaying_modes(1.0).eigenvalue.size < 0.5 * DIM
    assert error(problem, listed, ALGORITHMS[algorithm]) < 2e-11


def test_too_few_nodes_are_noticed(monkeypatch):
    """Negative control, and the reason for the number of nodes."""
    monkeypatch.setattr(module, "BIN_NODES", 8)
    problem, listed = (kind(*spectrum("rough")) for kind in (st.LeastSquares, Listed))
    assert error(problem, listed, ALGORITHMS["average"]) > 1e-10


def test_with_momentum_every_direction_counts():
    """Moments oscillate in λ, and merged modes would be wrong: they are, where they are used all the same (control)."""

    class Merged(Listed):
        def modes(self, smallest, tolerance=0.0):
            return module.merged_modes(self.eigenvalues, self.signal)

    problem, listed, merged = (kind(*spectrum("slow fall")) for kind in (st.LeastSquares, Listed, Merged))
    settings = [(1e6, 400)]
    assert error(problem, listed, ALGORITHMS["momentum"], settings) == 0
    assert error(merged, listed, ALGORITHMS["momentum"], settings) > 1e-6


def test_short_lists_stay_as_they_are():
    problem = st.LeastSquares(INDEX[:1000] ** -2, INDEX[:1000] ** -3)
    modes = problem.decaying_modes(1.0)
    np.testing.assert_array_equal(modes.eigenvalue, problem.eigenvalues)
    np.testing.assert_array_equal(modes.signal, problem.signal)


def test_hundred_thousand_eigenvalues_have_the_critical_batch_size_of_their_power_law():
    index = np.arange(1.0, 100_001)
    problem = st.LeastSquares(index**-2.0, index**-3.0)
    assert problem.decaying_modes(1.0).eigenvalue.size < 500
    power_law = st.PowerLaw(2.0, 3.0, dim=100_000)
    found, exact = (st.critical_batch_size(each, num_samples=1e5, curve=False) for each in (problem, power_law))
    assert found.batch_size == exact.batch_size
    assert found.optimal_risk == pytest.approx(exact.optimal_risk, rel=1e-7)
