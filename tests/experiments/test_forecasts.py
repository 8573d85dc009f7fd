"""The experiment on forecasts of public runs: bands and doubts by hand, and what was recorded."""

import numpy as np
import pytest
from scipy.optimize import minimize

import sgdtheory as st
from experiments import forecasts, forecasts_unseen
from experiments._lib.redraw import FOLDER, Recorded
from experiments._lib.rows import rows_of
from experiments.forecasts import Config, Row
from tests.figure_checks import check_figure


@pytest.fixture(scope="module")
def recorded():
    return rows_of(Row, Recorded(FOLDER / "forecasts").rows)


@pytest.fixture(scope="module")
def config():
    return Recorded(FOLDER / "forecasts").config(Config)


def made(error, deviation, fall, model="a", others="b c", cut=0.5):
    return Row(
        model, f"run {error}", cut, others, 3 * np.exp(error), 3.3, 3 * np.exp(fall), 3.0, deviation, 0.01, 0, 3.1
    )


def test_every_curve_is_forecast_from_every_cut(recorded, config):
    names = {(row.model, row.name) for row in recorded}
    assert len(names) == 27
    cases = forecasts._cases(config, recorded)
    assert len(cases) == len({(row.model, row.name, row.cut) for row in cases}) == 108
    assert len(recorded) == 3 * 108
    assert all(row.model not in row.others.split() for row in recorded)


@pytest.mark.slow
@pytest.mark.parametrize(("model", "name", "cut"), [("400M", "wsdcon_9", 0.6), ("25M", "cosine_24000", 0.4)])
def test_recorded_forecasts_are_made_again(recorded, config, model, name, cut):
    (row,) = (
        each for each in forecasts._cases(config, recorded) if (each.model, each.name, each.cut) == (model, name, cut)
    )
    again = forecasts._forecast((config, model, name, cut, tuple(row.others.split())))
    assert again.forecast == pytest.approx(row.forecast, rel=1e-5)
    assert again.deviation == pytest.approx(row.deviation, rel=1e-3)
    assert again.power == pytest.approx(row.power, rel=1e-4)


def test_the_likeliest_doubt_over_all_models_is_that_of_one_group(recorded, config):
    doubt = forecasts.likeliest_doubt(forecasts._cases(config, recorded))
    assert pytest.approx(doubt, abs=0.005) == forecasts_unseen.ONE_GROUP


def test_the_likeliest_doubt():
    """By another search, of the density written out; of errors that are all in the fall, their root mean square."""
    random = np.random.default_rng(0)
    rows = [made(*each) for each in random.uniform([-0.02, 0.001, 0.05], [0.02, 0.01, 0.2], (40, 3))]

    def surprise(log_doubt):
        spread = [np.hypot(row.deviation, np.exp(log_doubt[0]) * row.fall) for row in rows]
        return sum(np.log(s) + (row.error / s) ** 2 / 2 for s, row in zip(spread, rows, strict=True))

    best = float(np.exp(minimize(surprise, [-3.0], method="Nelder-Mead", options={"xatol": 1e-8}).x[0]))
    assert forecasts.likeliest_doubt(rows) == pytest.approx(best, rel=1e-3)
    sure = [made(0.1 * share, 1e-9, 0.1) for share in (0.3, -0.4)]
    assert forecasts.likeliest_doubt(sure) == pytest.approx(np.sqrt((0.3**2 + 0.4**2) / 2), rel=1e-3)


def test_a_model_s_own_errors_are_not_in_its_doubt():
    """Nor its numbers in the forecasts that these come from."""
    small = Config(models=("a", "b", "c"))
    rows = [made(0.02, 1e-9, 0.1, "b", "c"), made(0.02, 1e-9, 0.1, "c", "b")]
    noise = [made(0.09, 1e-9, 0.1, "a", others) for others in ("b c", "b", "c")]
    noise += [made(0.07, 1e-9, 0.1, "b", "a c"), made(0.05, 1e-9, 0.1, "c", "a")]
    assert forecasts._doubts(small, rows + noise)["a"] == pytest.approx(0.2, rel=1e-3)


def test_bands_of_the_three_kinds():
    small = Config(models=("a", "b", "c"))
    rows = [made(0.0, 0.01, 0.1, *each) for each in (("b", "c"), ("c", "b"), ("a", "c"), ("c", "a"), ("a", "b"))]
    rows += [made(0.03, 1e-9, 0.1, "b", "a"), made(0.015, 0.01, 0.1)]
    widths = {kind: forecasts._half_widths(small, rows, kind)[0] for kind in (forecasts.WITHOUT, forecasts.SCATTER)}
    assert widths == pytest.approx({forecasts.WITHOUT: 0.019600, forecasts.SCATTER: 0.019600}, rel=1e-4)
    assert forecasts._inside(small, rows, forecasts.WITHOUT).tolist() == [True]


def test_rates_hold_up_to_a_drop():
    curve = st.example_loss_curves("25M")["wsdcon_9"]
    rates = forecasts._rates(curve)
    place = int(np.argmax(curve.learning_rate < 2e-4))
    assert rates.size == curve.step[-1]
    assert (rates[: int(curve.step[place])] == 3e-4).all()
    assert rates[int(curve.step[place]) :] == pytest.approx(9e-5)


def test_simple_bands_hold_errors_of_the_other_models():
    small = Config(models=("a", "b", "c"), cuts=(0.5,))
    rows = [made(error, 0.01, 0.1, model) for model, error in (("a", 0.0), ("b", 0.01), ("c", 0.02))]
    errors = [abs(np.log(row.measured / 3.3)) for row in rows]
    found = forecasts._simple_half_widths(small, rows, forecasts.LAST)
    assert found[0] == pytest.approx(np.quantile(errors[1:], 0.95))


def test_verdicts(recorded, config):
    """The errors of these forecasts are three times as large; recorded ones are judged together with the others."""
    worse = [
        row._replace(measured=row.forecast * np.exp(9 * row.error)) if len(row.others.split()) == 2 else row
        for row in recorded
    ]
    assert forecasts._verdicts(config, worse, 0.0)[0].verdict == "fails"


def test_figure(recorded, config):
    check_figure(forecasts._figure(config, recorded))
