"""Directions that swing ever more slowly, on panels."""

import numpy as np
import pytest

import sgdtheory as st
from sgdtheory.algorithms import Course
from sgdtheory.risk import course_risk
from sgdtheory.risk.segmented import segments_of_runs
from sgdtheory.risk.solvers.contour import FINE
from sgdtheory.risk.solvers.smooth import first_panels
from tests import together
from tests.forced import forced

LAST = st.LastIterate()
PROBLEM = st.LeastSquares([1.0, 0.3, 0.01, 1e-4], [0.3, 0.5, 0.2, 0.1], noise_variance=0.1)


def piece(algorithm, rate, steps):
    """The last piece of a run."""
    return segments_of_runs(PROBLEM, [Course(algorithm, 16.0, rate, steps)], FINE)[-1]


@pytest.mark.parametrize("schedule", [st.Constant(), st.Cosine()], ids=str)
@pytest.mark.parametrize("beta", [0.0, 0.5, 0.9, 0.98])
def test_panels_against_every_step(beta, schedule):
    """3000 steps: far from the edge, and so near to it that a direction overshoots for hundreds of steps."""
    algorithm = st.Algorithm(st.ScheduleFree(beta), schedule, average=LAST)
    edge = float(st.risk.method_edge(PROBLEM, algorithm.method, np.array([16.0]))[0])
    runs = [(PROBLEM, algorithm, 16.0, share * edge, 3000) for share in (0.001, 0.03, 0.5, 0.95)]
    for exact, (_, _, batch, rate, steps) in zip(together.risks(runs).T, runs, strict=True):
        found = course_risk(PROBLEM, Course(algorithm, batch, rate, float(steps)))
        assert abs(found.parts.sum() / exact.sum() - 1) < 1e-9
        assert found.approximated


def test_moments_that_grow_in_the_first_steps_alone():
    """γ = 4/λ_1: a risk of 1.2 passes 3,000 after 20,000 steps. Panels begin next to the start all the same."""
    algorithm = st.Algorithm(st.ScheduleFree(), average=LAST)
    setting = {"batch_size": 1, "learning_rate": 4.0, "num_samples": 2e5, "algorithm": algorithm}
    found = st.excess_risk(st.PowerLaw(2.0, 3.0, 30), **setting)
    with forced("steps"):
        exact = st.excess_risk(st.PowerLaw(2.0, 3.0, 30), **setting)
    assert 0 < found.relative_error < 1e-6
    assert found.total == pytest.approx(exact.total, rel=1e-8)
    segment = segments_of_runs(PROBLEM, [Course(algorithm, 16.0, 4.0, 1e6)], FINE)[-1]
    assert first_panels(segment)[0] < 100
