"""Adam's loss curves: the panels against a step at a time, and fits of curves that Adam's own risk makes."""

from functools import cache

import numpy as np
import pytest
from scipy.special import zeta

import sgdtheory as st
from sgdtheory.curves import loss_table as table_module
from sgdtheory.curves.loss_model import LossModel, in_batches, losses
from sgdtheory.curves.loss_table import AdaptiveLossTable, loss_tables
from sgdtheory.curves.panels import Optimizer, at_rows, panels_of
from tests.curves.theory_curves import ROWS, SHAPES, STEPS, linear_intervals

DIRECTIONS = 20_000
TOP = 0.1  # learning rate of the curves
KNOWN = Optimizer(TOP, 0.0, adaptive=True, batch=32.0)
UNKNOWN = Optimizer(TOP, 0.0, adaptive=True)


def model(capacity, source, noise, step_size, growth=0.0):
    return LossModel(*(np.array([each]) for each in (capacity, source, 1.0, noise, step_size, 0.0, growth)))


def slowly(of, rates, batch, reference, rows, decay=0.0):
    """Loss before the steps `rows`, of DIRECTIONS directions, a step at a time; batch nan: noise σ²/B alone."""
    a, b, signal, noise, size, _, growth = (float(each[0]) for each in of)
    index = np.arange(1.0, DIRECTIONS + 1)
    risk = signal * index**-b
    known = np.isfinite(batch)
    norm, found = 1.0, []
    for t in range(int(rows[-1]) + 1):
        if t in rows:
            found.append(risk.sum() + signal * zeta(b, DIRECTIONS + 1))
        if t == len(rates):
            break
        one = noise / batch + risk.sum() / batch if known else noise
        square = one + risk + (risk / batch if known else 0)
        x = size * rates[t] / TOP / np.sqrt(norm) * index**-a * np.sqrt(noise / reference / square)
        risk = (1 - x) ** 2 * risk + x**2 * (one + (risk / batch if known else 0))
        norm += growth * (rates[t] / TOP) ** 2 - 2 * decay * rates[t] * norm
    return np.array(found)


@pytest.mark.parametrize(
    ("of", "batch", "within"),
    [
        (model(1.3, 1.7, 0.5, 0.02), 8.0, 2e-3),
        (model(1.3, 1.7, 0.5, 0.02), 256.0, 3e-3),
        (model(1.6, 1.9, 0.02, 0.05), 32.0, 3e-3),  # gradients at first
        (model(1.6, 1.9, 4.0, 0.05), 32.0, 8e-3),
        (model(1.6, 1.9, 0.1, 0.05), np.nan, 8e-3),
        (model(1.2, 1.6, 4.0, 2.0), 128.0, 1e-2),  # beyond SGD's edge, at 4 λ_1 for noise alone
        (model(1.5, 1.8, 0.3, 0.4, 2e-3), 16.0, 5e-3),  # weights that grow and decay
    ],
)
@pytest.mark.parametrize("shape", ["constant", "cosine"])
def test_a_step_at_a_time(of, batch, within, shape):
    """The losses agree from step 30 on; with SGD the same parameters are off by far more."""
    steps = 2000
    rows = np.unique(np.round(np.geomspace(30, steps, 40))).astype(int)
    rates = TOP * SHAPES[shape].factors(np.arange(steps), steps)
    known = None if np.isnan(batch) else batch
    panels = panels_of([st.LossCurve(rows, np.append(rates, rates[-1])[rows], np.ones(rows.size), known)])
    optimizer = (UNKNOWN if known is None else KNOWN)._replace(weight_decay=0.1 * (of.growth[0] > 0))
    reference = 32.0 if known else 1.0
    expected = slowly(of, rates, batch, reference, rows, optimizer.weight_decay)
    for adaptive, close in ((True, True), (False, False)):
        with np.errstate(all="ignore"):  # SGD diverges
            found = at_rows(losses(of, panels, optimizer._replace(adaptive=adaptive))[0, 0], panels.rows[0])
        off = np.abs(found / expected - 1).max()
        assert off < within if close else not off < 5 * within


def test_batches_of_unknown_size():
    """Counted in batches of the curves they are what they are in samples, where noise is far above the risk."""
    samples, batch = 1e9, 4.0
    rows = np.array([100.0, 200, 400, 800, 1600])
    known = panels_of([st.LossCurve(rows, TOP, np.ones(5), batch * samples)])
    blind = panels_of([st.LossCurve(rows, TOP, np.ones(5))])
    expected = losses(model(1.5, 1.8, 0.5 * samples, 0.1), known, KNOWN._replace(batch=samples))
    found = losses(in_batches(model(1.5, 1.8, 0.5, 0.1), batch, UNKNOWN), blind, UNKNOWN)
    np.testing.assert_allclose(found, expected, rtol=1e-6)
    plain = in_batches(model(1.5, 1.8, 0.5, 0.1), batch, Optimizer(TOP, 0.0))
    assert (plain.noise[0], plain.step_size[0]) == (0.125, 0.1)


def test_candidates_and_runs_that_are_computed_together_are_as_alone():
    """Three of each: the compiled loop has room for four. Directions that all share change losses by up to 5e-5."""
    candidates = [model(1.3, 1.7, 0.5, 0.02), model(1.6, 1.9, 0.02, 0.05), model(1.5, 1.8, 0.3, 0.4, 2e-3)]
    rows = np.array([10.0, 30, 100, 200])
    curves = [st.LossCurve(rows * k, TOP / k, np.ones(4), 32 * k) for k in (1, 2, 3)]
    together = losses(LossModel(*np.concatenate(candidates, axis=1)), panels_of(curves), KNOWN)
    for q, candidate in enumerate(candidates):
        for run, curve in enumerate(curves):
            alone = losses(candidate, panels_of([curve]), KNOWN)[0, 0]
            np.testing.assert_allclose(together[q, run, : alone.size], alone, rtol=2e-4)


@pytest.mark.parametrize("optimizer", [KNOWN, UNKNOWN])
def test_a_table_between_its_batch_sizes(optimizer, monkeypatch):
    """Risks at a constant rate, a step at a time, within 1%; the table's batch sizes span what is asked for."""
    monkeypatch.setattr(table_module, "SMALLEST_RATE", 0.5)
    of = model(1.5, 1.8, 3.0 if optimizer is KNOWN else 0.1, 0.1)._replace(floor=np.array([2.0]))
    batch = 32.0 if optimizer is KNOWN else 1.0
    made = loss_tables(of, optimizer, st.Constant(), 40 * batch, batch, TOP)[0]
    assert isinstance(made, AdaptiveLossTable)
    assert made.log_risk.shape == (made.log_batch.size, made.log_rate.size, made.log_steps.size)
    assert np.exp(made.log_batch[[0, -1]]) == pytest.approx(40 * batch / np.exp(made.log_steps[[-1, 0]]))
    assert np.diff(made.log_batch).max() <= 1
    place = int(np.argmin(np.abs(made.log_steps - np.log(300))))
    steps = np.exp(made.log_steps[place])
    between = np.exp((made.log_batch[2:5] + made.log_batch[3:6]) / 2)
    around = np.array([int(steps), int(steps) + 1])
    for size, found in zip(between, np.exp(made.log_risks(between))[:, -1, place], strict=True):
        one = of if optimizer is KNOWN else in_batches(of, size, optimizer)
        known = (size, 32.0) if optimizer is KNOWN else (np.nan, 1.0)
        ends = slowly(one, np.full(400, TOP), *known, around)
        assert found == pytest.approx(np.interp(steps, around, ends), rel=1e-2)


# ------------------------------------------------------------------ curves of Adam's own risk

ADAM = st.Adam(0.9, 0.99)
PROBLEM = st.PowerLaw(3.0, 1.9, noise_variance=4.0)  # roots of eigenvalues: 1.5
RATE, BATCH = 0.005, 32
TARGETS = 0.2, 0.15


def adam_path(shape, batch, steps=STEPS):
    algorithm = st.Algorithm(ADAM, schedule=SHAPES[shape], average=st.LastIterate())
    setting = {"batch_size": batch, "learning_rate": RATE, "num_samples": batch * steps}
    return st.risk_path(PROBLEM, **setting, algorithm=algorithm, points=200)


def adam_curve(shape, known=True):
    path = adam_path(shape, BATCH)
    risk = np.exp(np.interp(np.log(ROWS), np.log(np.maximum(path.num_steps, 0.5)), np.log(path.iterate.total)))
    rates = RATE * SHAPES[shape].factors(np.minimum(ROWS, STEPS - 1), STEPS)
    return st.LossCurve(ROWS, rates, 2 + risk, BATCH if known else None)


@pytest.fixture(scope="module")
def curves():
    return [adam_curve(shape) for shape in SHAPES]


@pytest.fixture(scope="module")
def fitted(curves):
    with linear_intervals():
        return st.fit_loss_curves(curves, optimizer="adam")


BATCHES = BATCH * np.array([1 / 8, 1 / 2, 1, 4, 8])
TRUE = model(1.5, 1.9, 4.0, RATE * np.sqrt(BATCH / 4.0))  # x = γ √(λ B/σ²) where noise dominates, λ = i^−3


def steps_to_targets(steps, risk):
    return np.interp(-np.log(TARGETS), -np.log(risk), steps)


@cache
def exact_steps():
    """(batch sizes, targets), of Adam's own risk."""
    paths = [adam_path("constant", int(batch)) for batch in BATCHES]
    return np.array([steps_to_targets(path.num_steps, path.iterate.total) for path in paths])


def exponent(found, unit=1.0):
    """Predicted over measured steps at batch sizes from B0/8 to 8 B0, at the γ of the curves; their exponent in B."""
    guesses = [found.predict(RATE, num_steps=2 * STEPS, batch_size=batch / unit) for batch in BATCHES]
    steps = np.array([steps_to_targets(guess.step, guess.loss - 2) for guess in guesses])
    ratios = np.log(steps / exact_steps())
    return np.exp(ratios), np.polyfit(np.log(BATCHES), ratios.mean(1), 1)[0]


def left_out():
    """Between batch sizes, by how much the model with the true numbers is off in log steps: no fit has a part in it.

    Its v forgets at once, Adam's remembers 100 steps in which gradients were larger, and is a tenth of them late.
    What is common to all batch sizes a fit takes up in its numbers.
    """
    rows = np.unique(np.round(np.geomspace(30, 2 * STEPS, 300)))
    found = []
    for batch in BATCHES:
        panels = panels_of([st.LossCurve(rows, RATE, np.ones(rows.size), batch)])
        risk = at_rows(losses(TRUE, panels, KNOWN._replace(learning_rate=RATE))[0, 0], panels.rows[0])
        found.append(steps_to_targets(rows, risk))
    return float(np.ptp(np.log(np.array(found) / exact_steps())))


def test_other_batch_sizes_at_one_learning_rate(curves, fitted):
    """No worse than the model with the true numbers, 9%, as an exponent 0.021; as SGD they are off like B^0.4, near √B.

    The curves have no scatter: what the model leaves out is all there is to be off by.
    """
    ratios, power = exponent(fitted)
    assert np.abs(np.log(ratios)).max() < left_out() < 0.1
    assert abs(power) < left_out() / np.log(BATCHES[-1] / BATCHES[0])
    with linear_intervals():
        plain = st.fit_loss_curves(curves, optimizer="sgd")
    ratios, power = exponent(plain)
    assert 0.35 < power < 0.5
    assert np.ptp(np.log(ratios)) > np.log(4)


@pytest.mark.slow
def test_batch_sizes_that_are_not_known():
    """Counted in those of the curves; as SGD steps are off by a factor of 4 and more, like B^0.4.

    Bounds of what was measured (19%, an exponent of 0.066), and no more: with the true numbers this model, which leaves
    out how noise falls with the loss, is off by 7.5%. A search twice as long from each start ends at residuals a third
    as large, and at 13% and −0.04 (but for known batch sizes at 13% in the place of 5%).
    """
    with linear_intervals():
        found = st.fit_loss_curves([adam_curve(shape, known=False) for shape in SHAPES], optimizer="adam")
    ratios, power = exponent(found, unit=BATCH)
    assert np.abs(np.log(ratios)).max() < 0.2
    assert abs(power) < 0.08


@pytest.fixture(scope="module")
def fitted_again():
    """Return the fit of curves of the model itself, in which the gradients dominate v at first."""
    return st.fit_loss_curves(model_curves(np.random.default_rng(0), 1.5, 1.9, 0.3, 0.03), optimizer="adam")


@pytest.mark.slow
def test_numbers_of_the_model_come_back(fitted_again):
    """The parameters come back, and from no other starts."""
    found = fitted_again
    for name, value in (("capacity", 1.5), ("source", 1.9), ("signal", 1.0), ("noise", 0.3), ("step_size", 0.03)):
        assert getattr(found, name).value == pytest.approx(value, rel=0.1), name
    assert "one batch size" in found.remark


def model_curves(random, *numbers):
    """Return curves of the model that scatter by 5e-4."""
    curves = []
    for shape in SHAPES:
        rates = RATE * SHAPES[shape].factors(np.minimum(ROWS, STEPS - 1), STEPS)
        panels = panels_of([st.LossCurve(ROWS, rates, np.ones(ROWS.size), BATCH)])
        exact = at_rows(losses(model(*numbers), panels, KNOWN._replace(learning_rate=RATE))[0, 0], panels.rows[0])
        loss = (2 + exact) * np.exp(5e-4 * random.standard_normal(ROWS.size))
        curves.append(st.LossCurve(ROWS, rates, loss, BATCH))
    return curves


@pytest.mark.slow
def test_what_follows(fitted_again):
    """On curves of the model, B*, steps and schedules agree, and no stability threshold limits the learning rates."""
    fitted = fitted_again
    samples = BATCH * 1500.0
    critical = fitted.critical_batch_size(samples)
    low, high = critical.interval[0]
    assert low <= critical.batch_size[0] <= high
    assert fitted.steps_law(samples).critical_batch_size() == pytest.approx(critical.batch_size[0], rel=5e-3)
    best = fitted.best_schedule(samples)
    assert best.learning_rate.max() <= RATE * (1 + 1e-9)
    named = fitted.predict(RATE, num_steps=1500, schedule=st.Linear(), batch_size=BATCH)
    assert best.loss <= named.loss[-1]
    assert fitted._top(1e3) == 1e3
