"""What a search for B* costs, in risks that it computes: a count that is the same on every machine.

The numbers allow for a fiftieth more than what was counted. A search that needs more on purpose changes them here, and
says in its commit what it finds for that; `python -m benchmarks.critical_batch` has the times.
"""

import numpy as np
import pytest

import sgdtheory as st
from sgdtheory.critical import oscillations, tuned_equivalent, tuned_risk
from tests.marks import slow

POWER = st.PowerLaw(2.0, 3.0)
NOISY = st.LeastSquares([1.0, 0.3, 0.05], [0.2, 0.5, 0.3], 2.0)
LAST = st.LastIterate()
COSTS = {  # problem, algorithm, D, most risks, and most risks of mean paths
    "averaged": (POWER, st.Algorithm(), 1e6, 1_545, 0),
    "averaged, few samples": (NOISY, st.Algorithm(), 600, 1_760, 0),
    "tail": (POWER, st.Algorithm(average=st.TailAverage(0.3)), 1e5, 6_640, 13_010),
    "last iterate": (NOISY, st.Algorithm(average=LAST), 3e3, 1_530, 18_990),
    "linear decay": (POWER, st.Algorithm(schedule=st.Linear(), average=LAST), 1e4, 1_870, 19_285),
    "heavy ball": (POWER, st.Algorithm(st.HeavyBall(0.9), average=LAST), 1e5, 2_730, 99_235),
    "heavy ball, averaged": (NOISY, st.Algorithm(st.HeavyBall(0.6)), 1e3, 2_030, 49_085),
    "schedule-free": (NOISY, st.Algorithm(st.ScheduleFree(0.9), average=LAST), 1e3, 3_735, 6_945),
    "delayed": (NOISY, st.Algorithm(st.DelayedSGD(3), average=LAST), 1e3, 1_445, 24_785),
    "rounds": (NOISY, st.Algorithm(st.LocalSGD(2, 4)), 1e3, 1_670, 13_230),
    "batch ramp": (POWER, st.Algorithm(batch_schedule=st.Linear(8.0)), 1e4, 1_940, 13_755),
    "signs": (POWER, st.Algorithm(st.SignSGD(), st.Linear(), average=LAST), 1e3, 20_400, 0),
    "Adam": (POWER, st.Algorithm(st.Adam(), st.Linear(), average=LAST), 1e3, 9_900, 0),
    "normalized": (POWER, st.Algorithm(st.NormalizedSGD(), average=LAST), 500, 25_300, 0),
}
LONG = "linear decay", "schedule-free", "batch ramp", "Adam", "normalized"


@pytest.fixture
def counts(monkeypatch):
    """Numbers of risks and of risks of mean paths that are computed while a test runs."""
    found = {"risks": 0, "means": 0}

    def counted(module, name, kind, argument):
        original = getattr(module, name)

        def call(*arguments, **options):
            found[kind] += np.size(arguments[argument])
            return original(*arguments, **options)

        monkeypatch.setattr(module, name, call)

    for module in tuned_risk, tuned_equivalent:
        counted(module, "run_risks", "risks", 3)
    for name in "mean_risk", "mean_risks_along":
        counted(oscillations, name, "means", 3)
    return found


@pytest.mark.parametrize("case", [slow(case) if case in LONG else case for case in COSTS])
def test_a_search_computes_no_more_risks(case, counts):
    problem, algorithm, samples, most, most_means = COSTS[case]
    st.critical_batch_size(problem, num_samples=samples, algorithm=algorithm, curve=False)
    assert counts["risks"] <= most
    assert counts["means"] <= most_means


def test_a_search_costs_the_same_in_other_units(counts):
    """Eigenvalues in other units change learning rates alone."""
    found = []
    for scale in (1.0, 1e-3, 1e3):
        counts |= {"risks": 0, "means": 0}
        problem = st.LeastSquares(scale * NOISY.eigenvalues, NOISY.signal, NOISY.noise_variance)
        best = st.critical_batch_size(problem, num_samples=500, curve=False)
        found.append((best.batch_size, scale * best.learning_rate, counts["risks"]))
    assert found[1] == pytest.approx(found[0], rel=0.01)
    assert found[2] == pytest.approx(found[0], rel=0.01)
