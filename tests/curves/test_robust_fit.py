"""Robust fits of a law in closed form; and what spikes, constant losses and misfits do to a fit of the theory."""

import numpy as np
import pytest
from scipy import optimize, stats

import sgdtheory as st
from sgdtheory.curves.correlated_residuals import correlation, scatter_of
from sgdtheory.curves.laws.theory import STARTS, TheoryLaw
from sgdtheory.curves.loss_model import losses
from sgdtheory.curves.panels import Optimizer, panels_of
from sgdtheory.curves.robust_fit import (
    PLAIN,
    RobustFit,
    changes,
    fit,
    not_gross,
    observed,
    robust_scale,
    spread,
)

THEORY = TheoryLaw()
NAMES = "capacity", "source", "signal", "noise", "step_size", "floor"
START = {"capacity": 1.5, "source": 1.8, "signal": 1.0, "noise": 0.12, "step_size": 0.2, "floor": 2.0}


class PowerOfSteps:
    """Rows of two curves that follow `L0 + A t^−(b − 1)` times waves, with scatter of heavy tails and three spikes."""

    law = THEORY
    truth = np.log([1.3, 0.6, 3.0, 0.7, 1.2, 2.0])  # of a − 1, b − 1, A, σ², γλ_1, L0

    def __init__(self):
        random = np.random.default_rng(0)
        self.log_steps = [np.log(np.geomspace(1, 1e4, size)) for size in (80, 50)]
        self.every = np.concatenate(self.log_steps)
        self.log_loss = self.predicted(self.truth[None])[0] + 1e-2 * random.standard_t(4, 130)
        self.spikes = [11, 40, 100]
        self.log_loss[self.spikes] += [1.0, -1.0, 2.0]

    def predicted(self, coordinates):
        model = THEORY.model(THEORY.values(coordinates))
        power = np.exp((1 - model.source[:, None]) * self.every)
        waves = zip((model.capacity - 1, model.noise, model.step_size), (2, 3, 5), strict=True)
        added = sum(0.1 * np.log(each[:, None]) * np.cos(often * self.every) for each, often in waves)
        return np.log(model.floor[:, None] + model.signal[:, None] * power) + added


FLAT = {**START, "source": 12.0, "signal": 1e-3, "floor": 40.0}  # out of bounds, and no derivative by b or A is left
LOW = {**START, "signal": 1e-14}


@pytest.fixture(scope="module")
def toy():
    data, said = PowerOfSteps(), []
    return data, fit(data, [FLAT, START, LOW], said.append), said


def test_a_fit_is_hubers_estimate_with_the_scale_of_its_residuals(toy):
    """`Σ ψ(r/s) ∂r = 0` where ψ is cut at three deviations; rows ten deviations off are left out."""
    data, found, _ = toy
    np.testing.assert_allclose(found.residuals, data.log_loss - data.predicted(found.coordinates[None])[0])
    assert np.flatnonzero(~found.used).tolist() == data.spikes
    assert found.scale == pytest.approx(1.4826 * np.median(np.abs(found.residuals[found.used])))
    pull = np.clip(found.residuals, -3 * found.scale, 3 * found.scale)
    assert (pull != found.residuals)[found.used].any()
    for slope in slopes_of(data, found).T:
        terms = (pull * slope)[found.used]
        assert abs(terms.sum()) < 1e-2 * np.linalg.norm(terms)
    error = np.sqrt(np.diag(found.covariance))
    assert (np.abs(found.coordinates - data.truth) < 4 * error).all()
    assert found.law == THEORY


def slopes_of(data, found):
    """Return the slopes of log losses with respect to one coordinate at a time."""
    ends = [[data.predicted((found.coordinates + side * one)[None])[0] for side in (1e-4, -1e-4)] for one in np.eye(6)]
    return np.array([(up - down) / 2e-4 for up, down in ends]).T


def test_the_covariance_of_a_fit_is_that_of_residuals_that_are_cut(toy):
    """Used residuals are cut at three deviations, divided by the uncut share, and correlated along each curve."""
    data, found, _ = toy
    rows = found.residuals[found.used]
    inside = (np.abs(rows) < 3 * found.scale).mean()
    cut = np.clip(rows, -3 * found.scale, 3 * found.scale) / inside
    steps = [data.every[:80][found.used[:80]], data.every[80:][found.used[80:]]]
    expected = scatter_of(slopes_of(data, found)[found.used], cut, steps)
    np.testing.assert_allclose(found.covariance, expected.covariance, rtol=1e-3)
    assert found.freedom == pytest.approx(expected.freedom)
    assert found.identified.all()


def test_a_fit_of_scatter_about_a_constant_tells_nothing():
    data = PowerOfSteps()
    data.log_loss = 1 + 1e-2 * np.random.default_rng(1).standard_normal(130)
    assert not fit(data, [START], lambda text: None).identified.any()


def test_a_fit_says_what_it_does(toy):
    assert toy[2][:3] == ["start 1 of 3", "start 2 of 3", "start 3 of 3"]
    assert all(text.startswith("robust fit, residuals ") and text.endswith("%") for text in toy[2][3:])
    assert len(toy[2]) == 3 + 3 + 3  # the scale stays after three rounds, with and without spikes


def test_coordinates_and_models_are_inverse():
    values = {"capacity": 1.4, "source": 2.5, "signal": 3.0, "noise": 0.2, "step_size": 0.1, "floor": 2.0}
    model = THEORY.model(THEORY.values(THEORY.coordinates(values)[None]))
    assert {name: getattr(model, name)[0] for name in NAMES} == pytest.approx(values)
    assert model.growth.tolist() == [0.0]
    growing = TheoryLaw(0.1)
    assert growing.names == (*NAMES, "growth")
    assert growing.model(growing.values(np.zeros((2, 7)))).growth.tolist() == [1.0, 1.0]


def test_starts_lie_within_the_bounds():
    law = TheoryLaw(0.1)
    others = dict.fromkeys(("signal", "noise", "floor"), 1.0)
    for values in STARTS:
        begin = others | dict(zip(("capacity", "source", "step_size", "growth"), values, strict=True))
        assert (law.bounds[0] < law.coordinates(begin)).all()
        assert (law.coordinates(begin) < law.bounds[1]).all()


def test_rows_that_a_curve_shares_with_one_before_it_count_once():
    """Rows are shared until loss or learning rate differ; a curve that adds nothing has no rows left."""
    step, rate = np.array([0, 10, 20, 30, 40, 50]), np.array([0.1, 0.1, 0.2, 0.1, 0.1, 0.1])
    loss = np.array([5.0, 4, 3, 2.5, 2.4, 2.3])
    first = st.LossCurve(step, rate, loss)
    other_loss = st.LossCurve(step, rate, np.where(step == 20, 3.1, loss))  # the same again afterwards
    other_rate = st.LossCurve(step, np.where(step == 30, 0.05, rate), loss)
    shorter = st.LossCurve(step[:4], rate[:4], loss[:4])
    law = TheoryLaw(0.3)
    found = observed([first, other_loss, other_rate, shorter], law)
    assert [keep.sum() for keep in found.kept] == [6, 4, 3, 0]
    assert found.kept[1].tolist() == [False, False, True, True, True, True]
    np.testing.assert_allclose(found.log_loss, np.log([*loss, 3.1, *loss[3:], *loss[3:]]))
    steps = [np.log([1, *step[1:]]), np.log(step[2:]), np.log(step[3:])]
    assert len(found.log_steps) == 3
    for each, expected in zip(found.log_steps, steps, strict=True):
        np.testing.assert_allclose(each, expected)
    panels, optimizer = found.prepared
    assert optimizer[:3] == (pytest.approx(panels.rate.max()), 0.3, False)
    coordinates = np.log([[0.5, 0.8, 1.0, 0.1, 0.1, 2.0, 1e-3], [0.6, 0.7, 2.0, 0.1, 0.2, 1.0, 1e-2]])
    model = law.model(law.values(coordinates))
    alone = [
        np.log(losses(model, panels_of([curve]), Optimizer(panels.rate.max(), 0.3))[:, 0, rows])
        for curve, rows in zip(found.curves, panels.rows, strict=True)
    ]
    expected = np.concatenate([one[:, keep] for one, keep in zip(alone, found.kept, strict=True)], axis=1)
    np.testing.assert_allclose(found.predicted(coordinates), expected, rtol=1e-3)  # nodes depend on the longest run


def huber(size):
    """Return Huber's loss of a residual in units of the scale."""
    return size**2 / 2 if size <= 3 else 4.5 + 3 * (size - 3)


@pytest.mark.parametrize("size", [1.5, 6.0])
@pytest.mark.parametrize(("freedom", "count"), [(20.0, 6), (500.0, 6), (30.0, 3)])
def test_what_changes_is_told_by_the_quantile_of_f(size, freedom, count):
    """Residuals ±r of a theory beside ±size of a constant, in units of the scale, just below and above 1e-3."""
    signs = np.tile([1.0, -1.0], 50)
    quantile = stats.f.isf(1e-3, count - 1, freedom)

    def excess(left):
        gained = 100 * (huber(size) - huber(left))
        return gained / (count - 1) / 0.5 * min(freedom + count, 100) / 100 - quantile

    left = optimize.brentq(excess, 0, size)
    for share, told in ((1 - 1e-6, True), (1 + 1e-6, False)):
        assert changes(2 + 0.01 * size * signs, 0.01 * share * left * signs, 0.01, freedom, count) == told


def test_scales_and_quantiles():
    """1.4826 is one over the median of |N(0, 1)|; Student's t with 20 degrees of freedom as in tables."""
    assert robust_scale(np.array([0.5, -0.67449, 3.0])) == pytest.approx(1, rel=1e-5)
    found = RobustFit(THEORY, np.zeros(1), np.eye(1), np.ones(1, bool), 1.0, np.zeros(9), 20.0, np.ones(9, bool))
    assert found.quantile(0.95) == pytest.approx(2.08596, rel=1e-5)


def test_spikes_are_few_and_far_off():
    gap = np.append(np.full(88, 0.5), np.full(12, -11.0))
    assert (~not_gross(gap, 1.0)).sum() == 12
    assert not_gross(gap, 1.2).all()  # not as far off as ten standard deviations
    assert not_gross(np.append(gap, np.full(4, -11.0)), 1.0).all()  # too many: they are what the theory lacks


def test_what_changes_no_more_than_it_scatters():
    """Pure scatter is called so 1,000 times in 1,000, a fall by one standard deviation of 400 rows never is."""
    random = np.random.default_rng(0)
    rows, count = 400, 6
    basis = np.linalg.qr(np.column_stack([np.linspace(-1, 1, rows) ** power for power in range(count)]))[0]
    told = []
    for fall in (0.0, 1.0):
        losses = random.standard_normal((1000, rows)) + fall * np.sign(np.linspace(-1, 1, rows))
        left = losses - losses @ basis @ basis.T
        told.append(sum(changes(one, rest, 1.0, rows - count, count) for one, rest in zip(losses, left, strict=True)))
    assert told[0] <= 8  # of 1,000 with chance 1e-3: nine or more have a probability of 1e-6
    assert told[1] == 1000


@pytest.mark.parametrize(("drift", "told"), [(1e-2, True), (3e-2, False)])
def test_what_falls_plainly_is_told_however_the_rest_drifts(drift, told):
    """One curve over a factor of 30 in steps, whose residuals are one slow wave: no quantile of F is reached."""
    data = PowerOfSteps()
    data.every = np.log(np.geomspace(300, 1e4, 130))
    data.log_steps = [data.every]
    data.log_loss = data.predicted(data.truth[None])[0] + drift * np.sin(1.5 * data.every)
    found = fit(data, [START], lambda text: None)
    assert found.freedom < 2
    assert not changes(data.log_loss, found.residuals, found.scale, found.freedom, 6)
    assert (spread(data.log_loss) > PLAIN * found.scale) == told
    assert (found.identified == told).all()


@pytest.mark.parametrize("length", [0.05, 0.2, 0.5])
def test_correlated_scatter_does_not_fall_plainly(length):
    """None of 1,000 replicas: as many powers of log t as the theory has parameters do not follow scatter so well."""
    log_step = np.log(np.geomspace(2000, 24_000, 60))
    root = np.linalg.cholesky(correlation([log_step], length, 0.0))
    basis = np.linalg.qr(np.vander(np.linspace(-1, 1, 60), 7))[0]
    losses = np.random.default_rng(0).standard_normal((1000, 60)) @ root.T
    left = losses - losses @ basis @ basis.T
    most = max(spread(one) / robust_scale(rest) for one, rest in zip(losses, left, strict=True))
    assert most < PLAIN / 2


def test_a_constant_loss_tells_nothing():
    """Exactly constant: what the fit leaves of it, a constant leaves less."""
    assert not changes(np.full(100, 1.1), np.full(100, 1e-8), 1e-7, 90.0, 6)


@pytest.mark.slow
@pytest.mark.parametrize("scatter", [0.0, 1e-3])
def test_a_constant_curve_tells_nothing(scatter):
    """No number, no B*, no prediction, and a sentence (30 s)."""
    rows = np.arange(100.0, 3001, 100)
    loss = 3 * np.exp(scatter * np.random.default_rng(0).standard_normal(rows.size))
    found = st.fit_loss_curves(st.LossCurve(rows, 0.1, loss), optimizer="sgd")
    assert set(found.not_identified) == {"irreducible_loss", *NAMES} - {"floor"}
    assert found.capacity.interval == (1.0, np.inf)
    assert found.remark.startswith("these curves determine nothing")
    assert found.critical_batch_size(3000).interval.tolist() == [[0.0, np.inf]]
    band = found.predict(0.05, num_steps=1000)
    assert band.low[-1] < 1e-100
    assert band.high[-1] > 1e100
