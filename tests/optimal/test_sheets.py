"""What the results of searches for schedules show, and what is told of an equivalent's error and of its directions."""

from dataclasses import replace

import numpy as np
import pytest

import sgdtheory as st
from sgdtheory.optimal import equivalent_search
from sgdtheory.optimal.equivalent_search import EquivalentSearch
from sgdtheory.optimal.frontier import Frontier, Pareto
from sgdtheory.optimal.knots import KnotShape
from sgdtheory.optimal.named_schedule import NamedSchedule
from sgdtheory.optimal.schedule import BELOW_EDGE, OptimalSchedule, _remark

LAST = st.LastIterate()
BEST = OptimalSchedule(
    num_steps=100.0,
    num_samples=850.0,
    peak_learning_rate=0.5,
    peak_batch_size=8.5,
    algorithm=st.Algorithm(schedule=KnotShape(100.0, (0.0, 50.0, 99.0), (1.0, 0.4, 0.01)), average=LAST),
    risk=0.125,
    lower_bound=0.05,
    slope=3e-7,
    with_half_the_knots=0.126,
    from_starts={"linear decay": 0.13, "small": 0.14},
    searches=3,
    agreeing=2,
)
NAMED = {
    "averaged": NamedSchedule(st.Algorithm(average=st.UniformAverage()), 0.3, 0.1, -0.2),
    "cosine": NamedSchedule(st.Algorithm(schedule=st.Cosine(), average=LAST), 0.4, 0.15, 0.2),
    "constant": NamedSchedule(st.Algorithm(average=LAST), 0.2, 0.25, 1.0),
}


def test_a_schedule_shows_how_sure_it_is_and_schedules_with_a_name_beside_it():
    """The nearest is the first last iterate, which an average is not; the batch size is that of all of them."""
    sheet = BEST.sheet(NAMED)
    own, named = sheet.tables
    assert sheet.title == "best schedule of 100 steps and 850 samples: excess risk 0.125 y²"
    assert own.legend == (
        "2.5 times a bound below every linear method; slope at the optimum 3e-07; 2 of 3 searches ended here"
    )
    assert list(sheet.remarks) == ["", BELOW_EDGE]
    assert "remark" not in sheet.settings
    assert sheet.settings["named"]["constant"] == {"learning_rate": 0.2, "risk": 0.25, "loss": 1.0}
    assert named.title == "schedules with a name, peak γ tuned, B = 8.5"
    assert named.legend == "nearest: cosine, 20.0% above the least risk of a last iterate"
    assert named.grid()[1][1] == ["cosine", "0.4", "0.15", "1.2"]
    assert len(BEST.sheet().tables) == 1
    signs = replace(BEST, algorithm=st.Algorithm(st.SignSGD(), average=LAST), remark="so far").sheet()
    assert (list(signs.remarks), signs.settings["remark"]) == (["so far", ""], "so far")
    assert [each.value for each in NAMED["cosine"].sheet().tables[0].quantities] == [0.4, 0.15, 0.2]


def test_the_ends_of_frontiers():
    first, second, third = (
        Frontier(np.array([steps, 40.0]), np.array([80.0, 40.0]), steps, samples)
        for steps, samples in ((8.0, 40.0), (5.0, 50.0), (4.0, 60.0))
    )
    sheet = Pareto(0.05, first, second, third).sheet()
    assert sheet.title == "fewest steps, and fewest samples, to excess risk 0.05 y²"
    assert sheet.tables[0].grid()[1] == [
        ["constant γ, averaged", "8", "40", "5"],
        ["(1 − t/n)^k", "5", "50", "10"],
        ["best γ_t", "4", "60", "15"],
    ]


def test_frontiers_have_ten_points_unless_told_otherwise(monkeypatch):
    monkeypatch.setattr("sgdtheory.optimal.frontier._frontier", lambda least, target, points: (target, points))
    found = st.pareto(st.LeastSquares([1.0], [1.0]), target_risk=0.5)
    assert (found.averaged, found.power, found.optimal) == ((0.5, 10),) * 3


def test_a_simulation_is_advised_beyond_an_error_of_a_twentieth():
    assert "error of 0.05; the searches" in _remark(0.05)
    assert "error of 0.051; simulate it; the searches" in _remark(0.051)


@pytest.fixture
def runs_of(monkeypatch):
    """Return what equivalents are asked for; nothing is computed."""
    seen = []
    monkeypatch.setattr(equivalent_search, "EquivalentRuns", lambda *given: seen.append(given))
    monkeypatch.setattr(equivalent_search, "MOST_STEPS", 40.0)
    tuned = st.optimal_learning_rate(st.LeastSquares([1.0], [1.0]), batch_size=1, num_samples=9)
    monkeypatch.setattr(
        equivalent_search, "optimal_learning_rate", lambda *_, **__: replace(tuned, learning_rate=np.array(0.06))
    )
    return seen


def test_an_equivalent_leaves_out_what_ten_times_the_rates_of_a_linear_decay_would_not_move(runs_of):
    """Σ γ_t of a linear decay is half its peak times n; the first start has this peak."""
    problem = st.LeastSquares([1.0, 0.1], [1.0, 1.0])
    search = EquivalentSearch(problem, st.SignSGD(), 40.0, 3.0)
    (given,) = runs_of
    assert given[:4] == (problem, st.SignSGD(), 3.0, 40)
    assert given[4] == pytest.approx(10 * 40 * 0.06 / 2)
    first = search.starts["linear decay"](np.array([0.0]))
    assert search.freedom.mean_edge * first == pytest.approx(0.06)
    assert (search.freedom.num_samples, search.freedom.mean_batch, search.freedom.ramp) == (120, 3, False)
    warm = search.starts["warm-up, linear decay"](np.array([0.0, 0.05, 0.1, 0.5, 1.0]))
    np.testing.assert_allclose(warm, [0, 0.5 * 0.3 * 0.95, 0.3 * 0.9, 0.3 * 0.5, 0])
    with pytest.raises(ValueError, match="at most 40 steps'"):
        EquivalentSearch(problem, st.SignSGD(), 41.0, 3.0)
