"""Steps against samples to a risk, against a plain recursion minimised by brute force."""

import numpy as np
import pytest
from scipy.optimize import minimize

import sgdtheory as st
from sgdtheory.optimal.frontier import LARGE, _Best, _crossing, _fewest_steps, _frontier, _one_step, _Powers
from tests import brute_force

PROBLEM = st.LeastSquares([1.0, 0.3], [1.0, 0.5], noise_variance=0.5)
TARGET = 0.15
WAYS = "averaged", "power", "optimal"


@pytest.fixture(scope="module")
def found():
    return st.pareto(PROBLEM, target_risk=TARGET, points=3)


def last_risk(rates, batch):
    return brute_force.last_risk(PROBLEM, rates, np.full(len(rates), batch))


def least_risk(way, steps, batch):
    """By Nelder and Mead's simplex, or L-BFGS without a gradient, from several starts, γ up to the edge.

    A single rate is looked for among a thousand.
    """
    edge = float(st.risk.stability_edge(PROBLEM, np.array([batch]))[0])
    left = 1 - np.arange(steps) / steps
    if way == "optimal":
        starts = [np.full(steps, 0.5), 0.9 * left, np.where(np.arange(steps) % 2, 0.3, 0.95)]
        risk, bounds, method = lambda share: last_risk(edge * share, batch), [(0.0, 1.0)] * steps, "L-BFGS-B"
    elif way == "averaged":
        rates = edge * np.linspace(0.001, 1, 1000)
        return brute_force.risks(*PROBLEM.directions(), PROBLEM.noise_variance, batch, rates, steps)[-1].min()
    else:
        starts, bounds, method = [[0.5, 1.0], [0.9, 0.1], [0.9, 3.0]], [(0, 1), (0, 12)], "Nelder-Mead"
        risk = lambda p: last_risk(edge * p[0] * left ** p[1], batch)  # noqa: E731
    return min(minimize(risk, start, bounds=bounds, method=method, tol=1e-12).fun for start in starts)


@pytest.mark.parametrize("way", WAYS)
def test_the_target_is_met_with_no_sample_to_spare(found, way):
    frontier = getattr(found, way)
    batches = frontier.num_samples / frontier.num_steps
    for steps, batch in zip(frontier.num_steps.astype(int)[:-1], batches[:-1], strict=True):
        if steps <= 20:
            assert least_risk(way, steps, batch) == pytest.approx(TARGET, rel=2e-3)
            assert least_risk(way, steps, 0.97 * batch) > TARGET * 1.003  # control
    assert (frontier.num_steps[:-1] <= 20).any()
    last = int(frontier.num_steps[-1])  # B = 1: whole
    assert batches[-1] == 1
    assert least_risk(way, last, 1.0) <= TARGET < least_risk(way, last - 1, 1.0)


@pytest.mark.parametrize("way", WAYS)
def test_fewer_steps_do_not_do(found, way):
    fewest = int(getattr(found, way).least_steps)
    assert least_risk(way, fewest, 1e9) <= TARGET * (1 + 1e-6)
    assert fewest == 2 or least_risk(way, fewest - 1, 1e9) > TARGET


def test_one_step_may_do():
    """S_min = 1 is said where a step with a batch as large as one likes does; an average of w_0 alone never does."""
    least = least_risk("optimal", 1, 1e9)
    easy = st.pareto(PROBLEM, target_risk=1.001 * least, points=2)
    assert easy.power.least_steps == easy.optimal.least_steps == 1
    assert easy.averaged.least_steps > 1
    way = _Best(PROBLEM)
    assert _fewest_steps(lambda steps: way(steps, LARGE), 0.999 * least, 1.0) == 2  # control


@pytest.mark.parametrize("batch", [1.0, 7.0, 1e9])
def test_the_best_of_one_step(batch):
    assert _one_step(PROBLEM, batch) == pytest.approx(least_risk("optimal", 1, batch), rel=1e-9)


@pytest.mark.parametrize("batch", [1.0, 50.0])
def test_the_best_of_one_step_where_modes_stand_for_many_directions(batch):
    problem = st.PowerLaw(1.5, 2.0, 20_000)
    setting = {"batch_size": batch, "num_samples": batch, "algorithm": st.Algorithm(average=st.LastIterate())}
    edge = st.max_stable_learning_rate(problem, batch_size=batch)
    risks = st.excess_risk(problem, **setting, learning_rate=edge * np.linspace(0.001, 1, 1000)).total
    assert _one_step(problem, batch) == pytest.approx(risks.min(), rel=1e-5)


@pytest.mark.parametrize(
    ("steps", "batch", "close"),
    [(4, 2.0, 1e-8), (12, 3.0, 1e-8), (12, 30.0, 1e-8), (2, 1e9, 1e-6), (3, 1e6, 1e-6)],  # the last two: at the edge
)
def test_the_best_of_powers(steps, batch, close):
    assert _Powers(PROBLEM)(steps, batch) == pytest.approx(least_risk("power", steps, batch), rel=close)


def test_a_better_schedule_needs_no_more(found):
    assert found.optimal.least_steps <= found.power.least_steps
    assert found.optimal.least_samples <= found.power.least_samples * (1 + 1e-4)
    for way in WAYS:
        frontier = getattr(found, way)
        assert (np.diff(frontier.num_steps) > 0).all()
        assert (np.diff(frontier.num_samples) <= 0).all()
        assert frontier.num_samples[-1] == frontier.least_samples
        assert frontier.critical_batch_size == frontier.least_samples / frontier.least_steps
        assert (frontier.num_samples >= frontier.num_steps[0]).all()


def test_the_figure_has_every_way_and_its_law(found):
    axes = st.plot.pareto(found).axes[0]
    assert len(axes.lines) == 7
    np.testing.assert_array_equal(axes.lines[4].get_xdata(), found.optimal.num_steps)
    np.testing.assert_array_equal(axes.lines[4].get_ydata(), found.optimal.num_samples)
    assert "S" in axes.get_xlabel()


@pytest.mark.parametrize(
    ("setting", "message"),
    [
        ({"target_risk": 2.0}, "target_risk must be between 0 and the initial risk"),
        ({"target_risk": 0.0}, "target_risk must be between"),
        ({"target_risk": np.nan}, "target_risk"),
        ({"target_risk": 0.1, "points": 1}, "points"),
    ],
)
def test_what_is_refused(setting, message):
    with pytest.raises(ValueError, match=message):
        st.pareto(PROBLEM, **setting)


# ------------------------------------------------------------------ a known risk


def known(steps, batch):
    """The least risk of n steps: even ones resonate a little."""
    return (1 + 0.02 * (steps % 2) * (steps <= min(4 * batch, 100))) * steps**-1.2 + 2 / (steps * batch)


@pytest.mark.parametrize("target", [0.2, 0.01, 0.0007])
def test_a_frontier_of_a_known_risk(target):
    found = _frontier(known, target, 6)
    every = np.arange(1.0, 10_000)

    assert found.least_steps == every[np.array([known(n, 1e12) for n in every]) <= target][0]
    assert found.num_steps[-1] == pytest.approx(every[np.array([known(n, 1.0) for n in every]) <= target][0])
    assert found.num_samples[-1] == found.num_steps[-1] == found.least_samples
    inner = found.num_steps[:-1]
    assert (inner % 2 == 0).all()
    assert ((inner > found.least_steps) & (inner < found.num_steps[-1])).all()
    assert inner[0] <= 1.05 * found.least_steps + 2
    assert inner.size == (2 if target == 0.2 else 5)  # two that round to the same n are one
    needed = 2 / (target - inner**-1.2)  # samples
    expected = np.minimum.accumulate(np.append(needed, found.num_samples[-1]))
    np.testing.assert_allclose(found.num_samples, expected, rtol=1e-3)
    ratios = inner[1:] / found.least_steps - 1
    if target < 0.2:
        steps = np.diff(np.log(ratios))
        assert np.ptp(steps) < 0.2 * steps.mean()  # evenly in log(n/S_min − 1)
    assert found.critical_batch_size == found.least_samples / found.least_steps
    np.testing.assert_allclose(
        found.product,
        (found.num_steps / found.least_steps - 1) * (found.num_samples / found.least_samples - 1),
    )


def test_however_many_points_no_number_of_steps_comes_twice():
    """All even ones up to 26, with B = 1, which numbers before it round up to."""
    np.testing.assert_array_equal(_frontier(known, 0.1, 80).num_steps, np.arange(8.0, 27.0, 2.0))


@pytest.mark.parametrize("fewest", [1.0, 2.0, 3.0, 4.0, 5.0, 17.0, 64.0, 998.0, 9_999.0])
@pytest.mark.parametrize("low", [1.0, 2.0, 3.0])
def test_the_fewest_steps_of_a_list(fewest, low):
    """Whole and exact up to ten thousand; never below where the search begins."""
    asked = []

    def risk(steps):
        asked.append(steps)
        return (fewest / steps) ** 1.5

    assert _fewest_steps(risk, 1.0, low) == max(fewest, low)
    assert len(asked) == len(set(asked)) < 40
    assert min(asked) >= low


def test_many_steps_are_found_to_a_ten_thousandth():
    for fewest in (123_456.7, 3.3e9):
        assert _fewest_steps(lambda n, f=fewest: f / n, 1.0, 1.0) == pytest.approx(fewest, rel=2e-4)
    with pytest.raises(ValueError, match="within reach of 1e\\+12 steps"):
        _fewest_steps(lambda n: 1 + 1 / n, 1.0, 1.0)


@pytest.mark.parametrize(("guess", "most"), [(1e-6, 32), (0.01, 15), (0.7, 18)])
def test_a_batch_size_at_a_target(guess, most):
    """1/B at which a risk that rises with it is met to 1e-4, in few secants, and 1 where B = 1 does."""
    asked = []
    for power in (0.7, 1.0, 1.4):

        def risk(z, p=power):
            asked.append(z)
            return 0.3 + 2 * z**p

        found = _crossing(risk, 0.4, guess)
        assert 0.3 + 2 * found**power == pytest.approx(0.4, rel=1e-4)
    assert len(asked) <= most
    assert _crossing(lambda z: 0.3 + 0.01 * z, 0.4, guess) == 1
    with pytest.raises(ArithmeticError, match="no batch size found"):
        _crossing(lambda z: 0.5 + 0.01 * np.random.default_rng(int(1e9 * z)).random(), 0.4, guess)
