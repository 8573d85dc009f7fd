"""A few eigenvalues stand for all modes on a panel."""

import numpy as np
import pytest

import sgdtheory as st
from sgdtheory.algorithms import Course
from sgdtheory.risk import course_risk, run_risks
from sgdtheory.risk.solvers import mode_reduction
from tests import together
from tests.marks import slow

LAST = st.LastIterate()
METHODS = (st.SGD(), st.SGD(1e-3), st.HeavyBall(0.8), st.Nesterov(0.6), st.AcceleratedSGD(0.9, 0.1, 5.0))
AVERAGES = (LAST, st.TailAverage(0.5), st.ExponentialAverage(window=0.1))


def count(monkeypatch):
    """Count how often the modes of a panel are reduced, and how often they are not."""
    found = {True: 0, False: 0}
    whole = mode_reduction.reduce_modes

    def counted(*arguments):
        one = whole(*arguments)
        found[one is not None] += 1
        return one

    monkeypatch.setattr("sgdtheory.risk.solvers.panel_maps.reduce_modes", counted)
    return found


@pytest.mark.parametrize("average", AVERAGES, ids=str)
@pytest.mark.parametrize("method", METHODS, ids=str)
def test_many_directions_next_to_the_edge_against_every_step(method, average, monkeypatch):
    """120 directions, from far below the edge up to 0.999 of it, with schedules that bend."""
    counts = count(monkeypatch)
    problem = st.LeastSquares(*st.PowerLaw(1.3, 1.8, dim=120).directions(), 0.3)
    edge = float(st.max_stable_learning_rate(problem, batch_size=8, algorithm=st.Algorithm(method)))
    rates, runs, found = edge * np.array([0.05, 0.6, 0.999]), [], []
    for schedule in (st.Cosine(), st.WSD(0.3, 0.1), st.WSD(0.3, 0.1, 0.5), st.PowerDecay(0.7)):
        algorithm = st.Algorithm(method, schedule, average=average)
        runs += [(problem, algorithm, 8.0, rate, 1000) for rate in rates]
        found.append(run_risks(problem, algorithm, np.full(3, 8.0), rates, np.full(3, 1000.0)))
    risks, errors = (
        np.concatenate(each) for each in zip(*((one.parts.sum(0), one.error) for one in found), strict=True)
    )
    assert (np.abs(risks / together.risks(runs).sum(0) - 1) <= errors + 1e-10).all()
    assert (errors < 1e-6).all()
    assert counts[True] > 5 * counts[False]


@pytest.mark.parametrize(
    ("method", "schedule", "average", "steps"),
    [
        (METHODS[0], st.Cosine(), AVERAGES[2], 1e9),
        (METHODS[3], st.Cosine(), LAST, 1e9),
        *(slow(method, st.Cosine(), average, 1e9) for method in METHODS for average in AVERAGES),
        (st.ScheduleFree(0.9), st.Constant(), LAST, 1e6),  # two slow vectors
        # and the products of each with an average
        (st.ScheduleFree(0.9), st.Constant(), st.UniformAverage(), 1e6),
        slow(st.ScheduleFree(0.5), st.Constant(), AVERAGES[2], 1e6),
        *(slow(st.ScheduleFree(share), st.Constant(), LAST, 1e8) for share in (0.0, 0.9)),
    ],
    ids=str,
)
def test_all_modes_give_the_same_risk(method, schedule, average, steps, monkeypatch):
    """At a number of steps that nobody could take, to 1e-11: more than two thousand times the rounding error."""
    counts = count(monkeypatch)
    course = Course(st.Algorithm(method, schedule, average=average), 16.0, 0.1, steps)
    few = course_risk(st.PowerLaw(2.0, 3.0), course, estimate=False).parts
    assert counts[True] > 0
    assert counts[False] == 0 or course.algorithm.method.step_dependence == "none"
    monkeypatch.setattr("sgdtheory.risk.solvers.panel_maps.reduce_modes", lambda *_: None)
    every = course_risk(st.PowerLaw(2.0, 3.0), course, estimate=False).parts
    np.testing.assert_allclose(few, every, rtol=1e-11)


def test_nodes_do_not_hang_on_the_unit_of_eigenvalues():
    poles = [np.array([1e-4, 0.02]), np.array([1.0, 3.0])]
    plain = mode_reduction.interpolation_nodes(2.0, poles, 4, 3)
    assert (np.diff(plain) > 0).all()
    assert plain.max() <= 2.0
    for unit in (1e-9, 1e6):
        scaled = mode_reduction.interpolation_nodes(2.0 * unit, [unit * pole for pole in poles], 4, 3)
        np.testing.assert_allclose(scaled, unit * plain, rtol=1e-6)
