"""The loss model against the exact engine, and against its recursion a step at a time."""

import numpy as np
import pytest
from scipy.special import zeta

import sgdtheory as st
from sgdtheory.curves.loss_model import LossModel, _lateness, directions, losses
from sgdtheory.curves.panels import Optimizer, Panels, at_rows, panels_of
from tests.curves.theory_curves import SHAPES, path_losses


def model(**values):
    return LossModel(**{name: np.array([value]) for name, value in values.items()})


PLAIN = {"capacity": 1.5, "source": 1.8, "signal": 3.0, "noise": 0.4, "step_size": 1.2, "floor": 0.5, "growth": 0.0}


@pytest.mark.parametrize("moved", [1e-5, 1.0, 1e4, 1e9])
@pytest.mark.parametrize(("capacity", "source"), [(1.1, 1.4), (1.5, 1.8), (3.0, 2.5)])
def test_nodes_stand_for_all_directions(moved, capacity, source):
    """Sums over i, which are zeta functions; and those of γλ that have moved, 1 − e^−λ t, one at a time."""
    numbers = {**PLAIN, "capacity": capacity, "source": source}
    found = directions(model(**numbers), np.array([moved]))
    assert found.signal.sum() + found.unmoved[0] == pytest.approx(3 * zeta(source), rel=1e-4)
    end = max((moved / 1e-4) ** (1 / capacity), 66)  # n γ λ is 1e-4 there
    assert found.unmoved[0] == pytest.approx(3 * end ** (1 - source) / (source - 1))
    if moved < 1:  # few directions are kept
        return
    assert (found.signal * found.eigenvalue).sum() == pytest.approx(3 * zeta(source + capacity), rel=1e-4)
    assert (found.count * found.eigenvalue**2).sum() == pytest.approx(zeta(2 * capacity), rel=1e-4)
    if moved == 1e4:
        index = np.arange(1.0, 3e6)
        kept = 3 * (index**-source * -np.expm1(-moved * index**-capacity)).sum()
        tail = 3 * moved * zeta(source + capacity, index[-1] + 1)
        assert (found.signal * -np.expm1(-moved * found.eigenvalue)).sum() == pytest.approx(kept + tail, rel=1e-3)


def single_steps(rates, batch, changes=0.0):
    rates = np.atleast_2d(rates)
    return Panels(np.ones(rates.shape), rates, np.zeros(rates.shape) + changes, np.zeros(rates.shape) + batch, ())


def test_single_steps_are_exact_where_noise_alone_is_known():
    """`r ← (1 − x)² r + x² σ²` for every direction; x up to 1.8, beyond the middle of the stable range."""
    rates = np.array([0.1, 0.3, 0.2, 0.05, 0.0, 0.25])
    index = np.arange(1.0, 400_001)
    risk, expected = 3 * index**-1.8, []
    for rate in [*rates, 0]:
        expected.append(0.5 + risk.sum() + 3 * zeta(1.8, index[-1] + 1))
        x = 1.2 * rate / 0.2 * index**-1.5
        risk = (1 - x) ** 2 * risk + x**2 * 0.4
    found = losses(model(**PLAIN), single_steps(rates, np.nan), Optimizer(0.2, 0.0))[0, 0]
    np.testing.assert_allclose(found, expected, rtol=1e-4)


def test_a_step_that_takes_a_direction_to_its_minimum():
    """γλ_1 = 1: nothing of the signal of the first direction is left, and the noise of one step."""
    numbers = {**PLAIN, "capacity": 30.0, "step_size": 1.0}
    found = losses(model(**numbers), single_steps([0.2], np.nan), Optimizer(0.2, 0.0))[0, 0]
    assert found[1] - found[0] == pytest.approx(0.4 - 3, rel=1e-6)


def test_runs_and_candidates_do_not_touch_each_other():
    """Runs with and without a known batch size, and with learning rates that change within panels or do not."""
    rates, batches, changes = [[0.1, 0.2], [0.05, 0.1]], [[np.nan] * 2, [8.0] * 2], [[0.0, 0.0], [0.5, -0.5]]
    both = model(**PLAIN)._replace(**{name: np.array([value, 0.9 * value + 0.2]) for name, value in PLAIN.items()})
    panels = Panels(np.full((2, 2), 7.0), *(np.array(each) for each in (rates, changes, batches)), ())
    found = losses(both, panels, Optimizer(0.2, 0.1))
    for q in range(2):
        for run in range(2):
            alone = LossModel(*(each[[q]] for each in both))
            one = Panels(*(each[[run]] for each in panels[:4]), ())
            np.testing.assert_allclose(
                losses(alone, one, Optimizer(0.2, 0.1))[0, 0], found[q, run], rtol=1e-3
            )  # nodes depend on the longest run


def test_from_the_edge_on_the_loss_is_infinite():
    """γλ_1 = 2, at 1/0.6 of the rate that counts; from that step to the end of the run."""
    for top, diverged in ((0.2 / 0.6, True), (0.2 / 0.61, False)):
        found = losses(model(**PLAIN), single_steps([0.1, top, 0.1], np.nan), Optimizer(0.2, 0.0))[0, 0]
        assert np.isinf(found).tolist() == [False, False, diverged, diverged]
    exact = model(**{**PLAIN, "step_size": 2.0})
    assert np.isinf(losses(exact, single_steps([0.2], np.nan), Optimizer(0.2, 0.0))[0, 0, -1])


def test_how_late_the_noise_was_made_that_is_left():
    """∫ (u − ½) e^{−z(1 − u)} du over ∫ e^{−z(1 − u)} du for u from 0 to 1, by the midpoint rule."""
    share = (np.arange(200_000) + 0.5) / 200_000
    for z in (1e-6, 5e-3, 0.012, 0.018, 0.5, 3.0, 40.0):
        weight = np.exp(-z * (1 - share))
        expected = ((share - 0.5) * weight).sum() / weight.sum()
        assert _lateness(np.array([z]))[0] == pytest.approx(expected, rel=1e-5)
    assert _lateness(np.array([0.0, 1e6])).tolist() == pytest.approx([0, 0.5], abs=1e-5)


@pytest.mark.parametrize(
    ("shape", "capacity", "source", "batch", "noise"),
    [
        ("cosine", 1.3, 1.6, 16, 2.0),
        ("constant", 2.0, 3.0, 64, 5.0),
        ("drop", 3, 2, 8, 0.5),
    ],
)
def test_as_the_exact_engine(shape, capacity, source, batch, noise):
    """The losses agree from step 100 on within 0.2% of the risk; a wrong batch size is off by far more."""
    rows = np.unique(np.append(np.round(np.geomspace(1, 6000, 300)), 2400))  # where the rate drops
    problem = st.PowerLaw(capacity, source, noise_variance=noise)
    expected, rates = path_losses(problem, SHAPES[shape], rate=0.3, batch=batch, floor=0.0, rows=rows)
    numbers = {"capacity": capacity, "source": source, "signal": 1.0, "noise": noise, "step_size": 0.3, "floor": 0.0}
    for size, close in ((batch, True), (batch / 2, False)):
        panels = panels_of([st.LossCurve(rows, rates, np.ones(rows.size), size)])
        found = losses(model(**numbers, growth=0.0), panels, Optimizer(0.3, 0.0))[0, 0, panels.rows[0]]
        off = np.abs(found / expected - 1)[rows >= 100].max()
        assert off < 2e-3 if close else off > 1e-2


def test_weights_that_grow_and_decay_by_the_textbook():
    """A step at a time, with thousands of directions, noise alone known as σ²/B."""
    steps, rate, decay, growth = 2000, 0.02, 0.1, 2e-3
    index = np.arange(1.0, 4001)
    eigenvalue, risk = index**-1.5, 3.0 * index**-1.8
    rates = rate * np.linspace(1, 0.1, steps)
    norm, found, rows = 1.0, [], np.arange(100, steps, 50)
    for t in range(steps):
        if t in rows:
            found.append(risk.sum())
        x = 8.0 * rates[t] / np.sqrt(norm) * eigenvalue
        risk = (1 - x) ** 2 * risk + x**2 * 0.3
        norm += growth * (rates[t] / rate) ** 2 - 2 * decay * rates[t] * norm
    numbers = {"capacity": 1.5, "source": 1.8, "signal": 3.0, "noise": 0.3, "step_size": 8.0 * rate, "floor": 0.0}
    every = np.unique(np.append(np.arange(0, steps, 20), rows))
    panels = panels_of([st.LossCurve(every, rates[every], np.ones(every.size))])
    unmoved = 3.0 * sum(1 / np.arange(4001, 4_000_000, dtype=float) ** 1.8) + 3 / 0.8 * 4e6**-0.8
    for weight, close in ((decay, True), (0.0, False)):
        got = losses(model(**numbers, growth=growth), panels, Optimizer(rate, weight))[0, 0, panels.rows[0]]
        off = np.abs(got[np.searchsorted(every, rows)] - unmoved) / np.array(found) - 1
        assert (np.abs(off).max() < 2e-3) == close


def test_batches_that_change_along_the_run():
    """Ten times the batch from the middle on: the noise falls as in the exact engine with a batch schedule."""
    steps, rate = 4000, 0.2
    ramp = st.Algorithm(batch_schedule=st.Stages((0.0, 0.5), (0.1, 1.0)), average=st.LastIterate())
    problem = st.PowerLaw(1.5, 2.0, noise_variance=3.0)
    samples = 8 * steps / 2 + 80 * steps / 2
    path = st.risk_path(problem, batch_size=80, learning_rate=rate, num_samples=samples, algorithm=ramp, points=300)
    rows = path.num_steps
    panels = panels_of([st.LossCurve(rows, rate, np.ones(rows.size), path.batch_size)])
    numbers = {"capacity": 1.5, "source": 2.0, "signal": 1.0, "noise": 3.0, "step_size": rate, "floor": 0.0}
    found = at_rows(losses(model(**numbers, growth=0.0), panels, Optimizer(rate, 0.0))[0, 0], panels.rows[0])
    late = rows > 100
    np.testing.assert_allclose(found[late], path.iterate.total[late], rtol=2e-3)


@pytest.mark.parametrize(("each", "shape"), [(300, st.WSD(0.2)), (150, st.Linear()), (50, st.Cosine())])
def test_the_end_of_a_decay_to_0(shape, each):
    """The last excess loss as the exact engine has it; with the rate held in the last interval it is 3 to 30% off."""
    steps, rate, batch = 6000, 0.2, 32
    rows = np.arange(each, steps + 1.0, each)
    rates = rate * shape.factors(np.minimum(rows, steps - 1), steps)
    algorithm = st.Algorithm(schedule=shape, average=st.LastIterate())
    setting = {"batch_size": batch, "learning_rate": rate, "num_samples": batch * steps}
    exact = st.excess_risk(st.PowerLaw(1.6, 1.9, noise_variance=4.0), **setting, algorithm=algorithm).total
    panels = panels_of([st.LossCurve(rows, rates, np.ones(rows.size), batch)])
    numbers = {"capacity": 1.6, "source": 1.9, "signal": 1.0, "noise": 4.0, "step_size": rate, "floor": 0.0}
    found = losses(model(**numbers, growth=0.0), panels, Optimizer(rate, 0.0))[0, 0, -1]
    assert found == pytest.approx(exact, rel=4e-3)
