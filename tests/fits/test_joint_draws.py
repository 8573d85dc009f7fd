"""Resampling, left-out settings and intervals of laws of the loss, by hand on a law of few numbers."""

from types import SimpleNamespace

import numpy as np
import pytest
from scipy import stats

from sgdtheory.fits import joint_draws
from sgdtheory.fits.conventions import Convention
from sgdtheory.fits.joint_draws import Draws, TunedTable, resampled
from sgdtheory.fits.joint_predictions import prediction
from sgdtheory.fits.joint_shapes import FREED, JOINT, RIVALS, LossLaw, LossShape, Settings, fitted_law, growth
from sgdtheory.fits.steps_measurement import FittedCriticalBatchSize

CHINCHILLA = RIVALS[-1]
TIED = LossShape(
    "tied",
    "",
    lambda at, x: (np.ones(()), np.exp(-at["α"] * x.log_size), np.exp(-at["α"] * x.log_samples)),
    ("α",),
    ("E", "A", "C"),
)


def table_of(sizes, data, scatter=0.02, repeats=2):
    """Losses of Chinchilla's law with errors; rows of a pair of size and data follow each other."""
    axes = np.arange(sizes) - 1.0, np.arange(data) - 1.0, np.arange(float(repeats))
    size, samples, batch = (each.ravel() for each in np.meshgrid(*axes, indexing="ij"))
    loss = 1.5 + np.exp(-0.3 * size) + np.exp(-0.5 * samples)
    return TunedTable(
        Settings(size, samples, batch), loss * np.exp(scatter * np.random.default_rng(1).standard_normal(size.size))
    )


@pytest.mark.parametrize(("sizes", "data", "together"), [(1, 7, False), (4, 2, True), (3, 3, True)])
def test_resampled_residuals_are_enlarged_and_change_their_signs(sizes, data, together):
    """From eight pairs on the residuals of a pair have one sign and the pairs' degrees of freedom."""
    table = table_of(sizes, data)
    law = LossLaw(CHINCHILLA, np.array([0.3, 0.5]), np.array([1.5, 1.0, 1.0]), np.nan)
    losses, single = resampled(table, law, 60, 0.9, 3)
    residuals = np.log(table.loss / law.loss(table.settings))
    count, freedom = (sizes * data, sizes * data - 4) if together else (residuals.size, residuals.size - 5)
    factor = np.sqrt(count / freedom) * stats.t.ppf(0.95, freedom) / stats.norm.ppf(0.95)
    ratios = np.log(losses / law.loss(table.settings)) / (factor * residuals)
    np.testing.assert_allclose(np.abs(ratios), 1, rtol=1e-9)
    assert (abs(ratios.mean(0)) < 0.6).all()
    assert (ratios[:, ::2] * ratios[:, 1::2] > 0).all() == together
    assert np.isin(single.round(12), (factor * np.concatenate([residuals, -residuals])).round(12)).all()
    assert {-1, 1} == set(np.sign(single))
    assert single.shape == (60,)


def test_settings_left_out_are_predicted_from_the_others():
    table = table_of(3, 4)
    law = table.fitted(CHINCHILLA)

    def errors(out):
        at, rest = (table.settings.where(some) for some in (out, ~out))
        return np.log(fitted_law(CHINCHILLA, rest, table.loss[~out], law.exponents).loss(at) / table.loss[out])

    def rms(*each):
        return np.sqrt((np.concatenate(each) ** 2).mean())

    size, samples = table.settings.log_size, table.settings.log_samples
    pairs = [(size == a) & (samples == b) for a in np.unique(size) for b in np.unique(samples)]
    assert table.pairs_held_out(law) == pytest.approx(rms(*map(errors, pairs)), rel=1e-6)
    assert table.largest_held_out(law) == pytest.approx(rms(errors(size == 1.0)), rel=1e-6)
    two = table_of(2, 6)
    assert np.isnan(two.largest_held_out(two.fitted(CHINCHILLA)))


def test_the_chance_of_a_tie_is_the_share_of_resampled_gains(monkeypatch):
    """Of 19 refits those count that gain as much, and the table itself."""
    monkeypatch.setattr(joint_draws, "TESTED", 19)
    table = table_of(3, 3, scatter=0.2)
    tied, free = table.fitted(TIED), table.fitted(CHINCHILLA)
    gains = [tied.squares / free.squares]
    for loss in resampled(table, tied, 19, 0.95, 4)[0]:
        laws = [fitted_law(each.shape, table.settings, loss, each.exponents) for each in (tied, free)]
        gains.append(laws[0].squares / laws[1].squares)
    expected = np.mean(np.array(gains) >= gains[0])
    assert 0.05 < expected < 1
    assert table.chance_of_tie(tied, free, 0.95, 4) == expected


def test_intervals_hold_the_quantiles_about_each_of_the_laws():
    """The law's number is 10, others have 13, 8 and none."""
    draw = np.random.default_rng(0)
    several, errors = 10 + draw.standard_normal(41), draw.standard_normal(41)

    def law(value):
        return LossLaw(JOINT, np.zeros(5), np.array(value, float)[..., None], np.nan)

    draws = Draws(law(10), law(several), (law(13), law(8), law(np.nan)), errors, 0.8)
    for new_run in (False, True):
        value, low, high = draws.estimated(lambda each: each.factors[..., 0], new_run=new_run)[:, 0]
        ends = np.quantile(several + new_run * errors, [0.1, 0.9])
        assert (value, low, high) == pytest.approx((10, ends[0] - 2, ends[1] + 3), rel=1e-12)
    alone = Draws(law(10), law(several), (), errors, 0.8).estimated(lambda each: each.factors[..., 0])
    np.testing.assert_allclose(alone[1:, 0], np.quantile(several, [0.1, 0.9]))


# ------------------------------------------------------------------ shapes and sentences


@pytest.mark.parametrize("shape", [JOINT, *FREED, *RIVALS], ids=lambda shape: shape.name)
def test_losses_of_a_shape_are_those_of_its_formula(shape):
    """Each setting by its number D_e, of which D follows."""
    draw = np.random.default_rng(5)
    size, useful, batch = np.exp(draw.uniform(-2, 2, (3, 20)))
    numbers = {"α": 0.4, "β": 0.4 / 1.4, "k": 2.5, "ν": 0.0, "r": 0.5, "h": 0.7, "κ": 0.3, "log B_0": 0.2, "log C": 0.1}
    changed = {"β": 0.35, "k": 1.7, "ν": 0.6, "r": 0.8, "q": 0.9}
    own = numbers | {name: changed[name] for name in shape.fitted if name in changed}
    h = 1.0 if shape.name == "McCandlish" else own["h"]
    samples = useful * (1 + (batch / (np.exp(0.2) * useful ** own["κ"] * size ** own["ν"])) ** h) ** (1 / h)
    e, a, f, g, c = factors = 1.2, 0.7, 0.3, 0.4, 0.6
    if shape.name in ("joint law", *(each.name for each in FREED)):
        limits = size ** (-own["α"] * own["k"]) + (np.exp(0.1) * useful) ** (-own["β"] * own["k"])
        factors = e, a, g
        expected = e + a * limits ** (1 / own["k"]) + g * batch ** -own["r"]
    else:
        expected = e + a * size ** -own["α"]
        if shape.name in ("three powers", "four powers"):
            expected = expected + f * (batch / samples) ** own["q"] + g * batch ** -own["r"]
            factors = factors[: len(shape.factors)]
        else:
            factors = e, a, c
        if shape.name != "three powers":
            expected = expected + c * (useful if shape.name == "McCandlish" else samples) ** -own["β"]
    law = LossLaw(shape, np.array([own[name] for name in shape.fitted]), np.array(factors), np.nan)
    found = law.loss(Settings(np.log(size), np.log(samples), np.log(batch)))
    np.testing.assert_allclose(found, expected, rtol=1e-9)
    assert law.exponent("α") == 0.4
    assert np.isnan(law.exponent("κ")) == ("κ" not in shape.fitted)


@pytest.mark.parametrize(("by_size", "by_samples"), [(1.0, 0.0), (0.0, 1.0), (1.0, 1.0)])
def test_the_critical_batch_size_grows_with_data_and_size(by_size, by_samples):
    """(B/D)^q = (B/1.2 D)^q + …: of E + A/N^α + F (B/D)^q + G/B^r B* has the power q/(q + r) of D, and none of N."""
    law = LossLaw(RIVALS[1], np.array([0.4, 0.6, 0.3]), np.array([1.0, 1.0, 0.5, 0.5]), np.nan)
    assert growth(law, by_size, by_samples) == pytest.approx(by_samples * 0.6 / 0.9, abs=1e-4)


@pytest.mark.parametrize(
    ("best", "interval", "words"),
    [
        (80.0, (150.0, 410.0), "B* = 250 (150 … 410), with 20% more data than at the best batch size 80, where the"),
        (0.0, (150.0, 410.0), "B* = 250 (150 … 410), with 20% more data than vanishing batches need"),
        (80.0, (0.0, 410.0), "B* is not determined: its 90% interval is 0 … 410; the law has B* = 250, with 20%"),
    ],
)
def test_a_prediction_in_words(best, interval, words):
    law = SimpleNamespace(
        critical_batch_size=lambda *at: FittedCriticalBatchSize(250.0, *interval, Convention(64, 0.2), 0.9),
        best_batch_size=lambda *at: best,
        loss=lambda *at: np.array(2.5),
        loss_interval=lambda *at: np.array([2.4, 2.6]),
        level=0.9,
    )
    answer, numbers = prediction(law, 1e9, 3e10)
    assert answer.startswith(f"N = 1e+09, D = 3e+10: {words}")
    assert answer.endswith("where the loss is 2.5 (2.4 … 2.6)") == ("loss" in numbers) == (best > 0)
