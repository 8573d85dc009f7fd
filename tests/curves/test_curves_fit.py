"""Results of a fit whose parameters are set by hand instead of fitted."""

from types import SimpleNamespace

import numpy as np
import pytest
from scipy import stats

import sgdtheory as st
from sgdtheory.curves.curves_fit import CurvesFit
from sgdtheory.curves.fit_sheet import errors_of
from sgdtheory.curves.laws.theory import TheoryLaw
from sgdtheory.curves.loss_model import losses
from sgdtheory.curves.loss_table import LossTable
from sgdtheory.curves.panels import panels_of
from sgdtheory.curves.robust_fit import RobustFit, observed
from sgdtheory.curves.size_remarks import below_table
from sgdtheory.curves.theory_fit import _result

NAMES = "capacity", "source", "signal", "noise", "step_size", "floor"
POINT = np.log([0.6, 0.9, 1.5, 4.0, 0.2, 2.0])
RANDOM = np.random.default_rng(0)
COVARIANCE = 1e-4 * (lambda root: root @ root.T)(RANDOM.normal(size=(6, 6)))
STUDENT = stats.t.ppf(0.975, 20)


def made(known=True, covariance=COVARIANCE, told=True, point=POINT) -> CurvesFit:
    """Three curves with learning rates up to 0.4 and batch sizes of 8, 16 and 32; a scatter of 1%, 20 freedoms."""
    step = np.array([0, 100, 200, 300, 400])
    sizes = (8, 16, [32, 32, 32, 64, 64])
    curves = tuple(st.LossCurve(step, 0.4 / 2**k, 3 + 1 / (1 + step), sizes[k] if known else None) for k in range(3))
    rows = np.ones(15, dtype=bool)
    told = np.full(6, told) if np.ndim(told) == 0 else told
    fitted = RobustFit(TheoryLaw(), point, covariance, told, 0.01, np.zeros(15), 20.0, rows)
    return _result(fitted, observed(curves, TheoryLaw()), curves, 0.95)


def log_losses(fit, point, curve, divide=1.0):
    """Return the log losses of one curve at coordinates."""
    law = TheoryLaw()
    model = law.model(law.values(point[None]))
    panels = panels_of([curve])
    return np.log(
        losses(model._replace(noise=model.noise / divide), panels, fit.data.prepared.optimizer)[0, 0, panels.rows[0]]
    )


def law_errors(fit, curve, predicted):
    """0.28 times the largest difference so far from the fitted curve that is nearest to the predicted one."""
    fitted = [(np.log(np.maximum(each.step, 1)), each.step[0], log_losses(fit, POINT, each)) for each in fit.curves]
    errors = []
    for last, step in enumerate(curve.step):
        distances = []
        for log_steps, begin, known in fitted:
            away = [
                abs(value - np.interp(np.log(max(at, 1)), log_steps, known)) for at, value in zip(curve.step, predicted)
            ]
            distances.append(max(a for a, at in zip(away[: last + 1], curve.step) if at >= min(begin, step)))
        errors.append(0.28 * min(distances))
    return np.array(errors)


def band(fit, curve, divide=1.0, quantile=STUDENT):
    """Low, middle and high end: of the numbers, of the scatter of a run, and of the theory's own error."""
    middle = log_losses(fit, POINT, curve, divide)
    ends = [[log_losses(fit, POINT + side * one, curve, divide) for side in (1e-4, -1e-4)] for one in np.eye(6)]
    slopes = np.array([(up - down) / 2e-4 for up, down in ends])
    reach = quantile * np.sqrt(
        np.einsum("pk,pq,qk->k", slopes, COVARIANCE, slopes) + 0.01**2 + law_errors(fit, curve, middle) ** 2
    )
    return np.exp([middle - reach, middle, middle + reach])


def test_the_problem_in_units_of_the_signal():
    for known, unit in ((True, 1.0), (False, 1e6)):
        problem = made(known).problem
        assert made(known).knows_batch_size == known
        assert (problem.capacity, problem.source) == pytest.approx((1.6, 1.9))
        assert problem.noise_variance == pytest.approx(unit * 4 / 1.5)


def test_a_prediction_along_a_run_with_its_band():
    """At steps that lie dense at both ends, with the median batch size of the last curve unless told."""
    fit, shape = made(), st.Linear()
    rates = 0.3 * shape.factors(np.arange(300), 300)
    for options, size in (({}, 32), ({"batch_size": 8}, 8)):
        found = fit.predict(0.3, num_steps=300, schedule=shape, **options)
        assert found.step[:3].tolist() == [0, 1, 2]
        assert found.step[-3:].tolist() == [298, 299, 300]
        assert 100 < found.step.size <= 200
        np.testing.assert_allclose(found.learning_rate, np.append(rates, rates[-1])[found.step.astype(int)])
        curve = st.LossCurve(found.step, found.learning_rate, np.ones_like(found.step), size)
        np.testing.assert_allclose([found.low, found.loss, found.high], band(fit, curve), rtol=1e-5)
    np.testing.assert_allclose(fit.predict(rates).loss, fit.predict(0.3, num_steps=300, schedule=shape).loss)
    assert fit.predict(rates, num_steps=300).step[-1] == 300
    constant = fit.predict(0.3, num_steps=300)
    assert (constant.learning_rate == 0.3).all()


def test_a_prediction_in_batches_of_the_curves():
    """If the batch size of the curves is unknown, twice the batch halves the noise and multiplies nothing else."""
    fit = made(known=False)
    found, double = fit.predict(0.3, num_steps=300), fit.predict(0.3, num_steps=300, batch_size=2)
    curve = st.LossCurve(found.step, found.learning_rate, np.ones_like(found.step))
    np.testing.assert_allclose([found.low, found.loss, found.high], band(fit, curve), rtol=1e-5)
    np.testing.assert_allclose([double.low, double.loss, double.high], band(fit, curve, 2.0), rtol=1e-5)


def test_the_prediction_of_a_curve_and_its_level():
    fit = made()
    curve = st.LossCurve([0, 10, 50, 90], 0.1, np.ones(4), [8, 8, 64, 64])
    found, half = fit.predict_curve(curve), fit.predict_curve(curve, level=0.5)
    np.testing.assert_allclose([found.low, found.loss, found.high], band(fit, curve), rtol=1e-5)
    expected = band(fit, curve, quantile=stats.t.ppf(0.75, 20))
    np.testing.assert_allclose([half.low, half.loss, half.high], expected, rtol=1e-5)
    for known, other in ((True, None), (False, 8)):
        with pytest.raises(ValueError, match=f"curve must {'' if known else 'not '}have batch sizes"):
            made(known).predict_curve(st.LossCurve([0, 10, 50, 90], 0.1, np.ones(4), other))


def test_bands_of_what_is_not_known():
    """Without limits where no number is told; as ever where one is; inf where the run diverges."""
    curve = st.LossCurve([0, 10, 50, 90], 0.1, np.ones(4), 8)
    nothing, one = made(told=False), made(told=np.arange(6) == 2)
    assert nothing.predict_curve(curve).low.max() < 1e-200
    assert nothing.predict_curve(curve).high.min() > 1e200
    np.testing.assert_allclose(one.predict_curve(curve).high, made().predict_curve(curve).high)
    wild = made().predict(5.0, num_steps=200)
    assert np.isinf([wild.low[-1], wild.loss[-1], wild.high[-1]]).all()
    wide = made(covariance=1e8 * np.eye(6)).predict_curve(curve)
    assert (np.isfinite(wide.high) & (wide.low < 1e-200) & (wide.high > 1e200)).all()


EACH_STEP = "learning_rate must be a number or one of 0 or more for each step"


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ({"learning_rate": [0.1]}, EACH_STEP),
        ({"learning_rate": [[0.1, 0.1]]}, EACH_STEP),
        ({"learning_rate": [0.1, -0.1]}, EACH_STEP),
        ({"learning_rate": [0.1, np.inf]}, EACH_STEP),
        ({"learning_rate": [0.1, 0.1], "num_steps": 3}, "learning_rate has every step already"),
        ({"learning_rate": [0.1, 0.1], "schedule": st.Linear()}, "learning_rate has every step already"),
        ({"learning_rate": 0.1}, "num_steps must be given beside a single learning_rate"),
        ({"learning_rate": 0.1, "num_steps": 1}, "num_steps must be a whole number"),
        ({"learning_rate": 0.1, "num_steps": 10, "batch_size": 0}, "batch_size must be positive"),
    ],
)
def test_rates_that_make_no_run(arguments, message):
    with pytest.raises(ValueError, match=message):
        made().predict(**arguments)


def test_the_shortest_runs():
    """Two steps, of which one may have a rate of 0; nothing is left out of a list of rates that are below 1."""
    fit = made()
    for arguments in ({"learning_rate": [0.1, 0.0, 0.2]}, {"learning_rate": [0.1, 0.1, 0.1]}):
        assert fit.predict(**arguments).step.tolist() == [0, 1, 2, 3]
    rates = fit.predict([0.1, 0.0, 0.2]).learning_rate
    assert rates.tolist() == [0.1, 0.0, 0.2, 0.2]
    for arguments in ({"learning_rate": [0.1, 0.1]}, {"learning_rate": 0.1, "num_steps": 2}):
        with pytest.raises(ValueError, match="loss must have at least 4 finite rows"):
            fit.predict(**arguments)


class Closed:
    """A table whose B* and risk are products of powers of the fitted numbers; B* is D/8 at most."""

    powers = {"capacity": 0.2, "signal": -0.3, "noise": 0.7, "step_size": 0.4}  # noqa: RUF012

    def __init__(self, model, optimizer, shape, samples, batch, top):
        self.model, self.seen = model, (optimizer, shape, samples, batch, top)
        self.log_size = np.log(top * np.sqrt(samples))
        values = model._replace(capacity=model.capacity - 1)._asdict()
        self.log_size += sum(power * np.log(values[name][0]) for name, power in self.powers.items())

    def critical_batch_size(self, samples, overhead):
        assert samples == self.seen[2]
        risk = self.model.signal[0] * samples**-0.5
        return min((1 + overhead) * np.exp(self.log_size), samples / 8), risk


POWERS = np.array([Closed.powers.get(name, 0.0) for name in NAMES])


@pytest.fixture
def closed(monkeypatch):
    tables = []

    def made(*args):
        tables.append(Closed(*args))
        return tables[-1:]

    monkeypatch.setattr("sgdtheory.curves.curves_fit.loss_tables", made)
    return tables


def size_of(samples, top, overhead=0.2):
    return (1 + overhead) * top * np.sqrt(samples) * np.exp(POWERS @ POINT)


def test_critical_batch_sizes_of_a_closed_form(closed):
    """Without three constant batch sizes B* is the theory's, and its interval is open; rates are up to the curves'."""
    samples = np.array([1e4, 1e6])
    found = made().critical_batch_size(samples)
    np.testing.assert_allclose(found.batch_size, size_of(samples, 0.4))
    assert found.interval.tolist() == [[0, np.inf], [0, np.inf]]
    np.testing.assert_allclose(found.loss, 1.5 * samples**-0.5 + 2)
    np.testing.assert_array_equal(found.num_samples, samples)
    assert (found.max_learning_rate, found.remark) == (pytest.approx(0.4), "")
    assert found.open_because == "it takes runs at three constant batch sizes or more"
    optimizer, shape, _, batch, top = closed[0].seen
    assert (optimizer.learning_rate, shape, batch, top) == (pytest.approx(0.4), st.Linear(), 32, pytest.approx(0.4))
    other = made(known=False).critical_batch_size(samples, schedule=st.WSD(), overhead=0.5, max_learning_rate=0.3)
    np.testing.assert_allclose(other.batch_size, size_of(samples, 0.3, 0.5))
    assert other.open_because == "the batch sizes of these curves are not known"
    assert closed[-1].seen[1:] == (st.WSD(), 1e6, 1.0, 0.3)


@pytest.mark.usefixtures("closed")
def test_a_critical_batch_size_beyond_those_looked_at():
    found = made().critical_batch_size(np.array([16.0, 1e6]))
    np.testing.assert_allclose(found.batch_size, [2, size_of(1e6, 0.4)])
    assert found.remark == "D = 16: B* is D/8 or more, since runs of fewer than 8 steps are not looked at"


@pytest.mark.usefixtures("closed")
def test_rates_end_below_the_edge():
    """γλ_1 is 0.2 at a rate of 0.4: at 3.98 it is 1.99."""
    assert made().critical_batch_size(1e6, max_learning_rate=50).max_learning_rate == pytest.approx(3.98)
    assert made().critical_batch_size(1e6, max_learning_rate=3.9).max_learning_rate == pytest.approx(3.9)


def test_the_steps_for_a_plan(monkeypatch):
    """The table goes from the batch size with the fewest samples, D by its definition, to eight times B*, with B*."""
    log_steps, log_rate = np.arange(np.log(8), 14, 0.1), np.log(0.5) - np.arange(0, 9, 0.2)[::-1]
    rate = np.exp(log_rate)[:, None]
    bias, variance = (1 + rate * np.exp(log_steps)) ** -0.6, 3 * rate / (1 + rate) + 0 * log_steps
    table, samples = LossTable(log_steps, log_rate, bias, variance), 2e4
    monkeypatch.setattr("sgdtheory.curves.curves_fit.loss_tables", lambda models, *_: [table] * models.floor.size)
    law = made().steps_law(samples)
    critical, risk = table.critical_batch_size(samples, 0.2)
    every = samples / np.exp(log_steps)
    every = np.sort([*every[every <= 8 * critical], critical])
    needed = np.array([size * table.steps_to(risk * (1 + 1e-9), size) for size in every])
    assert every[-1] > 7 * critical
    assert not (needed <= 1.001 * samples)[every < critical].any()
    first = int(needed.argmin())
    assert samples * 1.001 < needed[first] < samples * 1.02  # between rows of the table steps are interpolated
    assert needed[0] > 1.1 * samples  # smaller batch sizes take more
    needed[first] = samples
    kept = np.isfinite(needed) & (every >= every[first])
    np.testing.assert_allclose(law.batch_sizes, every[kept])
    np.testing.assert_allclose(law.batch_sizes * law.steps, needed[kept])


def test_a_plan_begins_at_the_largest_batch_size_that_needs_no_more(monkeypatch):
    """Risk is least after 20 steps, whatever the batch size: 100 samples are enough up to B = 5, and B* is 6."""
    steps = np.array([8.0, 10, 13, 20, 22, 30])
    bias = np.exp(0.3 * (np.arange(6) - 3) ** 2) + np.zeros((3, 1))
    table = LossTable(np.log(steps), np.arange(3.0), bias, np.zeros((3, 6)))
    monkeypatch.setattr("sgdtheory.curves.curves_fit.loss_tables", lambda models, *_: [table] * models.floor.size)
    law = made().steps_law(100.0)
    np.testing.assert_allclose(law.batch_sizes, [5, 6, 100 / 13, 10, 12.5], rtol=1e-5)
    np.testing.assert_allclose(law.steps, 20, rtol=1e-5)


@pytest.mark.parametrize(("known", "options", "batch"), [(True, {}, 32), (True, {"batch_size": 10}, 10),
                                                         (False, {}, 1), (False, {"batch_size": 4}, 4)])  # fmt: skip
def test_the_best_schedule_is_read_off_between_its_knots(monkeypatch, known, options, batch):
    seen = []
    knots, rates = np.array([0, 0.5, 1]), np.array([0.4, 0.2, 0.01])
    monkeypatch.setattr(
        "sgdtheory.curves.curves_fit.best_rates", lambda *args: seen.append(args) or (knots, rates, 2.5)
    )
    found = made(known).best_schedule(250.5 * batch, max_learning_rate=0.3, **options)
    model, optimizer, steps, size, top = seen[0]
    assert (steps, top, found.loss) == (250, 0.3, 2.5)
    assert size == batch if known else np.isnan(size)
    assert model.noise[0] == pytest.approx(4 if known else 4 / batch)
    assert found.step[:3].tolist() == [0, 1, 2]
    assert found.step[-3:].tolist() == [247, 248, 249]
    assert found.step.size > 100
    expected = np.exp(np.interp(found.step / 250, knots, np.log(rates)))
    np.testing.assert_allclose(found.learning_rate, expected)


def test_a_schedule_needs_a_hundred_steps(monkeypatch):
    monkeypatch.setattr("sgdtheory.curves.curves_fit.best_rates", lambda *args: (np.array([0, 1]), np.ones(2), 2.5))
    assert made().best_schedule(3200).step[-1] == 99
    with pytest.raises(ValueError, match="num_samples must be enough for 100 steps, got 99"):
        made().best_schedule(3199)


def test_what_a_figure_is_drawn_of(monkeypatch):
    monkeypatch.setattr("sgdtheory.curves.figure.curves_figure", lambda *args: args)
    monkeypatch.setattr(CurvesFit, "predict_curve", lambda fit, curve: SimpleNamespace(loss=1.01 * curve.loss))
    fit = made()
    curves, expected, count, title = fit.plot(others=[fit.curves[0]])
    assert (curves, count) == ([*fit.curves, fit.curves[0]], 3)
    assert title == "SGD on a power law, $a$ = 1.60, $b$ = 1.90: fitted to within 1.00%"
    for curve, loss in zip(curves, expected, strict=True):
        np.testing.assert_allclose(loss, 1.01 * curve.loss)
    assert fit.plot(title="runs")[-1] == "runs"


@pytest.mark.parametrize(
    ("adaptive", "known", "words"),
    [(True, True, "batch sizes below 4 take up to 3.0% more data"), (False, True, "is left out"), (False, False, "")],
)
def test_what_is_said_of_batch_sizes_below_a_table(adaptive, known, words):
    found = below_table(4.0, np.array([np.inf, 1.03, 1.001]), adaptive, known)
    assert words in found
    assert bool(words) == bool(found)
    assert not below_table(4.0, np.array([1.0]), True, known)


def test_errors_of_what_is_predicted():
    """The last loss, R² as the part of the spread, Σ (L − mean)² = 5, that is explained, and the largest error."""
    curve = st.LossCurve([1, 2, 3, 4], 0.1, [5.0, 4, 3, 2])
    for factors, expected in (([1, 1, 1, 1], (2, 1, 0)), ([1.1, 1, 1, 0.9], (1.8, 1 - 0.29 / 5, 0.1))):
        fit = SimpleNamespace(predict_curve=lambda curve, f=factors: SimpleNamespace(loss=curve.loss * f))
        assert errors_of(fit, curve) == pytest.approx(expected)
    flat = st.LossCurve([1, 2, 3, 4], 0.1, np.full(4, 4.0))
    assert np.isnan(errors_of(SimpleNamespace(predict_curve=lambda curve: curve), flat)[1])
