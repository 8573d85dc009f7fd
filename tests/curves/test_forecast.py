"""Forecasts: of runs of the theory and public ones, when it is too early, and what is said of planned rates."""

import re
from dataclasses import replace
from functools import partial
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest

import sgdtheory as st
from sgdtheory.curves import PUBLIC, forecast_loss
from sgdtheory.curves.forecast import planned_rates
from sgdtheory.curves.laws.theory import TheoryLaw
from tests.figure_checks import check_figure
from tests.marks import slow

COSINE = st.Cosine(final=0.1, warmup=2160 / 23_920)
STEPS = 23_920  # of the run, to its last row
# The theory's error on the group that these runs are from. PUBLIC takes the larger one of another group.
THEIR_OWN = PUBLIC._replace(doubt=0.075)


@pytest.fixture(scope="module")
def run():
    return st.example_loss_curves("100M")["cosine_24000"]


def first(curve, rows, every=1, **change):
    kept = slice(None, rows, every)
    same = {"warmup": curve.warmup, "name": curve.name, "group": curve.group}
    return st.LossCurve(curve.step[kept], curve.learning_rate[kept], **{"loss": curve.loss[kept]} | same | change)


@pytest.fixture(scope="module")
def halfway(run):
    return forecast_loss(first(run, 80), num_steps=STEPS, schedule=COSINE, weight_decay=0.1, optimizer="sgd")


def test_the_band_of_a_public_run_holds_and_is_narrower_than_the_fall(run, halfway):
    low, high = halfway.band
    assert low < run.loss[-1] < high
    own = forecast_loss(
        first(run, 80), num_steps=STEPS, schedule=COSINE, weight_decay=0.1, experience=THEIR_OWN, optimizer="sgd"
    )
    assert own.band[0] < run.loss[-1] < own.band[1]
    assert own.band[1] - own.band[0] < (halfway.now - halfway.loss) / 2
    assert halfway.now == pytest.approx(run.loss[79], rel=2e-3)
    assert (halfway.num_steps, halfway.step, halfway.level) == (STEPS, run.step[79], 0.95)
    assert own.too_early == halfway.remark == ""
    assert "the band is as wide as the fall" in halfway.too_early


def test_the_path_ends_in_the_forecast(run, halfway):
    path = halfway.path
    assert (path.loss[-1], path.low[-1], path.high[-1]) == (halfway.loss, *halfway.band)
    assert path.step[0] == run.step[79] + 1
    later = np.interp(run.step[80:], path.step, path.loss)
    np.testing.assert_allclose(later, run.loss[80:], rtol=6e-3)
    assert (np.diff(np.log(path.high / path.low)) > 0).mean() > 0.9


def test_the_band_adds_numbers_scatter_and_the_law(run, halfway):
    """Without the law's error, and with twice of it."""
    parts = []
    for doubt in (0.0, 2 * PUBLIC.doubt):
        found = forecast_loss(
            first(run, 80),
            num_steps=STEPS,
            schedule=COSINE,
            weight_decay=0.1,
            experience=PUBLIC._replace(doubt=doubt),
            optimizer="sgd",
        )
        assert found.loss == halfway.loss
        parts.append(np.log(found.band[1] / found.band[0]) ** 2)
    law = (2 * 1.959964 * PUBLIC.doubt * np.log(halfway.now / halfway.loss)) ** 2
    middle = np.log(halfway.band[1] / halfway.band[0]) ** 2
    assert middle - parts[0] == pytest.approx(law, rel=1e-6)
    assert parts[1] - parts[0] == pytest.approx(4 * law, rel=1e-6)
    assert parts[0] > (2 * 1.959964 * halfway.scatter) ** 2
    next_step = np.log(halfway.path.high[0] / halfway.path.low[0])  # numbers and law alone would make 0.6 of it
    assert next_step > 2 * 1.959964 * halfway.scatter


def test_a_fit_forecasts_its_last_curve_or_the_one_that_is_named(run):
    other = st.example_loss_curves("100M")["constant_24000"]
    curves = [first(other, 60, 5), first(run, 80, 5)]
    fitted = SimpleNamespace(law=TheoryLaw(0.1))
    found: Any = SimpleNamespace(curves=tuple(curves), level=0.9, fitted=fitted)  # a fit, as far as it is asked
    found.forecast = partial(st.curves.CurvesFit.forecast, found)
    last = found.forecast(STEPS, schedule=COSINE)
    direct = forecast_loss(curves, num_steps=STEPS, schedule=COSINE, weight_decay=0.1, level=0.9, optimizer="sgd")
    assert (last.loss, last.band, last.level) == (direct.loss, direct.band, 0.9)
    named = found.forecast(30_000, run="constant_24000", level=0.5)
    assert (named.step, named.level) == (other.step[55], 0.5)
    with pytest.raises(ValueError, match=r"run must be one of constant_24000, cosine_24000, got x"):
        found.forecast(30_000, run="x")


def test_a_finished_run_tells_what_a_decay_gains(run):
    """Before its decay a run at a constant rate does not know it; beside a run that has decayed it does."""
    curves = st.example_loss_curves("100M")
    decaying = curves["wsd_20000_24000"]
    head = first(decaying, 120)
    rates = np.interp(np.arange(decaying.step[-1]), decaying.step, decaying.learning_rate)
    plan: Any = {"num_steps": rates.size, "learning_rate": rates, "weight_decay": 0.1, "experience": THEIR_OWN}
    alone = forecast_loss(head, **plan, optimizer="sgd")
    beside = forecast_loss([run, head], **plan, optimizer="sgd")
    assert "the learning rate has not changed yet, and the gain of its decay is known from other" in alone.too_early
    assert not beside.too_early
    assert beside.band[1] - beside.band[0] < (alone.band[1] - alone.band[0]) / 3
    assert beside.band[0] < decaying.loss[-1] < beside.band[1]


@pytest.mark.parametrize(
    ("steps", "rate", "loss", "warmup", "text"),
    [
        (np.arange(10, 90, 10), 1e-3 * np.arange(1, 9), 9 - 0.2 * np.arange(8), 0, "still warming up"),
        (np.arange(10, 90, 10), 1e-3, 9 - 0.2 * np.arange(8), 100, "still warming up"),
        (np.arange(30, 110, 10), 1e-3, 9 - 0.2 * np.arange(8), 100, "still warming up"),
        (
            np.arange(110, 160, 10),
            1e-3,
            5 - 0.1 * np.arange(5),
            100,
            "5 rows after the warm-up are too few for 6 numbers",
        ),
        (np.arange(100, 900, 10), 1e-3, np.full(80, 3.0), 100, "the loss has not yet fallen by more than it scatters"),
    ],
)
def test_too_early_says_why(steps, rate, loss, warmup, text):
    run = st.LossCurve(steps, rate, loss, warmup=warmup)
    found = forecast_loss(run, num_steps=10_000, schedule=st.Cosine(warmup=0.05), optimizer="sgd")
    assert text in found.too_early
    assert 0 < found.band[0] < found.loss < found.band[1]
    assert f"too early: {found.too_early}" in str(found)


def test_losses_that_scatter_without_a_fall_are_too_early():
    loss = 3 * np.exp(0.01 * np.random.default_rng(0).standard_normal(200))
    found = forecast_loss(
        st.LossCurve(np.arange(1000, 3000, 10), 1e-3, loss, warmup=500), num_steps=20_000, optimizer="sgd"
    )
    assert found.too_early


def test_a_run_that_is_nearly_done_is_not_too_early(run):
    found = forecast_loss(first(run, 166), num_steps=STEPS, schedule=COSINE, weight_decay=0.1, optimizer="sgd")
    assert not found.too_early
    assert found.band[1] / found.band[0] < 1.01


@pytest.mark.parametrize("noise", [0.03, slow(0.003)])
def test_rows_that_scatter_on_their_own(run, noise):
    """The log is of single batches: cells average, and the band is not that of a row."""
    step = np.arange(2160, 12_000, 8)
    random = np.random.default_rng(1)
    loss = np.interp(step, run.step, run.loss) * np.exp(noise * random.standard_normal(step.size))
    rate = np.interp(step, run.step, run.learning_rate)
    found = forecast_loss(
        st.LossCurve(step, rate, loss, warmup=2160), num_steps=STEPS, schedule=COSINE, weight_decay=0.1, optimizer="sgd"
    )
    assert found.band[0] < run.loss[-1] < found.band[1]
    assert found.scatter < noise


def test_spikes_change_little(run, halfway):
    loss = run.loss[:80].copy()
    loss[[20, 50]] *= 1.5
    found = forecast_loss(
        first(run, 80, loss=loss), num_steps=STEPS, schedule=COSINE, weight_decay=0.1, optimizer="sgd"
    )
    assert found.loss == pytest.approx(halfway.loss, rel=5e-3)
    assert re.search(r"\d+ of \d+ groups of rows are spikes, which were not fitted", found.remark)


@pytest.mark.parametrize("optimizer", ["adam", slow("sgd")])
def test_with_batch_sizes(run, optimizer):
    found = forecast_loss(
        first(run, 80, batch_size=512), num_steps=STEPS, schedule=COSINE, weight_decay=0.1, optimizer=optimizer
    )
    assert found.band[0] < run.loss[-1] < found.band[1]


def test_print_and_figure(halfway):
    low, high = halfway.band
    first_line = f"final loss {halfway.loss:.4g} ({low:.4g} … {high:.4g}) at step 23,920, 95%"
    assert str(halfway).splitlines()[0] == halfway.line == first_line
    assert str(halfway).splitlines()[1].startswith("now 3.1")
    assert str(replace(halfway, remark="so")).endswith("\nso")
    figure = halfway.plot()
    assert figure.get_suptitle() == first_line.capitalize()
    panel = figure.axes[0]
    assert [text.get_text() for text in panel.get_legend().get_texts()] == ["measured", "expected", "95% band"]
    assert panel.texts[0].get_text() == f"{halfway.loss:.4g}\n({low:.4g} … {high:.4g})"
    start, end = panel.get_xlim()  # linear, from a third of the run on
    assert panel.get_xscale() == panel.get_yscale() == "linear"
    assert start == pytest.approx(halfway.step / 3, rel=0.05)
    assert end > halfway.num_steps
    assert halfway.plot(title="mine").get_suptitle() == "mine"
    check_figure(figure)


# ------------------------------------------------------------------ planned rates


def short(rate, count=20):
    steps = np.arange(10, 10 + 10 * count, 10)
    return st.LossCurve(steps, rate(steps), 3 + 20 / steps)


def test_rates_of_a_schedule_have_the_peak_of_the_run():
    rates, remarks = planned_rates(short(lambda t: 2e-3 * st.Cosine().factors(t, 1000)), 1000, None, st.Cosine())
    np.testing.assert_allclose(rates, 2e-3 * st.Cosine().factors(np.arange(1000), 1000), rtol=1e-9)
    assert remarks == []
    rates, remarks = planned_rates(short(np.ones_like), 1000, 2.0, None)
    assert (rates == 2.0).all()
    assert remarks == [
        "at step 200 the log has learning rate 1, the schedule 2: they do not agree; give the "
        "schedule that the run follows"
    ]


def test_the_last_rate_of_the_log_is_offered():
    """The log decays to a tenth, and the planned schedule to 0."""
    follows = short(lambda t: 2e-3 * st.Cosine(final=0.1).factors(t, 220))
    _, (remark,) = planned_rates(follows, 220, None, st.Cosine())
    assert remark.endswith("they do not agree; final=0.1 in the schedule would agree")


def test_the_peak_is_that_after_the_warm_up():
    """If the schedule names no peak, it is the peak after the warm-up, though most rows belong to the warm-up."""
    after = st.Cosine().factors(np.arange(1000), 1000)
    rates, _ = planned_rates(short(lambda t: 2e-3 * np.minimum(t / 130, 1) * after[t]), 1000, None, st.Cosine())
    np.testing.assert_allclose(rates, 2e-3 * after, rtol=1e-9)


def test_without_a_schedule_the_rate_stays():
    rates, (remark,) = planned_rates(short(np.ones_like), 500, None, None)
    assert (rates == 1).all()
    assert remark == "the learning rate is assumed to stay at its last value"
    rates, (remark,) = planned_rates(short(lambda t: 1.0 / t), 500, None, None)
    assert (rates == 1 / 200).all()
    assert remark.endswith("it is changing: give a schedule")


def test_rates_of_all_steps():
    given = np.linspace(1, 0, 500)
    rates, remarks = planned_rates(short(lambda t: 1 - t / 499), 500, given, None)
    assert (rates == given).all()
    assert remarks == []


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"num_steps": 200}, r"num_steps must be more than the run has, 200, got 200; it has ended"),
        ({"num_steps": 300.5}, "num_steps must be a whole number"),
        ({"learning_rate": np.ones(400)}, r"learning_rate must have 0 or more for each of 500 steps, .* got \(400,\)"),
        ({"learning_rate": -np.ones(500)}, "learning_rate must have 0 or more"),
        ({"learning_rate": np.ones(500), "schedule": st.Cosine()}, "without a schedule"),
        ({"learning_rate": -1.0}, "learning_rate must be positive"),
        ({"level": 1.0}, "level must lie between 0 and 1"),
        ({"optimizer": "lion"}, "optimizer must be one of sgd, adam"),
        ({"weight_decay": -1.0}, "weight_decay must be"),
        ({"curves": []}, "curves must be LossCurves"),
    ],
)
def test_refusals(change, message):
    options = {"curves": short(np.ones_like), "num_steps": 500} | change
    with pytest.raises(ValueError, match=message):
        forecast_loss(options.pop("curves"), num_steps=options.pop("num_steps"), **{"optimizer": "sgd", **options})
