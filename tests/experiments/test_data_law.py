"""The exponent of B* in D of networks: its pieces by independent computations, synthetic data, and all of it, tiny."""

from dataclasses import replace

import numpy as np
import pytest
from scipy import optimize, stats

import sgdtheory as st
from experiments import data_law
from experiments._lib import data_law_cells as cells
from experiments._lib import tangent_features as tangent
from experiments._lib.batch_law import balance, critical_by_law
from experiments._lib.critical_grid import gaussian_risk
from experiments._lib.errors_in_both import Line, fit_line, share_as_high
from experiments._lib.network_risks import network_grid, network_risks, trained_weights
from experiments._lib.redraw import Recorded
from experiments._lib.results import write_result
from sgdtheory.training import Lanes, train
from tests.figure_checks import check_figure

SMALL = data_law.FIELDS | {"width": 5, "base_width": 5, "input_dim": 4, "holdout_size": 64}
CONFIG = replace(
    data_law.Config(),
    fields=SMALL,
    pairs=((3.0, 2.0), (1.5, 1.5), (1.0, 3.0), (0.25, 1.5)),
    num_samples=(256, 512, 1024),
    largest_batch=16,
    num_rates=6,
    num_seeds=2,
    output_seeds=2,
    num_inputs=512,
    population=1024,
    num_resamples=20,
    num_orders=50,
    processes=1,
)


@pytest.fixture(scope="module")
def network():
    own = CONFIG.run(1.0, 3.0, "all")
    return own, {name: part[0] for name, part in Lanes([own]).weights().items()}


# ------------------------------------------------------------------ a line with errors in both


def test_without_errors_in_x_it_is_least_squares():
    rng = np.random.default_rng(0)
    x = np.linspace(0, 1, 9)
    y = 0.2 + 0.7 * x + 0.1 * rng.standard_normal(9)
    line = fit_line(x, y, np.zeros(9), np.full(9, 1e-6), 0.95)
    plain = stats.linregress(x, y)
    reach = stats.t.isf(0.025, 7) * plain.stderr
    assert line.slope == pytest.approx(plain.slope, abs=2e-3)
    assert line.interval == pytest.approx((plain.slope - reach, plain.slope + reach), abs=6e-3)
    assert line.intercept == pytest.approx(plain.intercept, abs=2e-3)
    assert line.scatter == pytest.approx(np.sqrt(((y - plain.intercept - plain.slope * x) ** 2).sum() / 7), rel=0.01)
    assert line.correlation == pytest.approx(plain.rvalue)


def test_a_slope_that_nothing_bounds():
    x, y = np.array([0.1, 0.1001, 0.0999, 0.1]), np.array([0.0, 0.2, 0.4, 0.1])
    line = fit_line(x, y, np.full(4, 0.05), np.full(4, 0.01), 0.95)
    assert line.interval == (-np.inf, np.inf)
    assert line.text.endswith("(−∞ … ∞)")
    assert data_law.decided(line, line) == "inconclusive"
    assert data_law.teachers_needed(line, 4) is None


def misses(fit, trials=100):
    """Return how often a 95% interval misses the slope: eight points, errors in both, scatter beyond them."""
    rng, missed = np.random.default_rng(1), 0
    for _ in range(trials):
        x = np.linspace(0, 0.6, 8)
        y = 0.05 + x + 0.05 * rng.standard_normal(8)
        low, high = fit(x + 0.15 * rng.standard_normal(8), y + 0.05 * rng.standard_normal(8))
        missed += not low <= 1 <= high
    return missed


def test_intervals_hold_with_errors_in_both():
    """False alarm 1e-4 by the binomial law at 5%; intervals that leave the errors of x out must miss more often."""
    limit = stats.binom.isf(1e-4, 100, 0.05)
    errors = np.full(8, 0.15), np.full(8, 0.05)
    assert misses(lambda x, y: fit_line(x, y, *errors, 0.95).interval) <= limit
    assert misses(lambda x, y: fit_line(x, y, np.zeros(8), errors[1], 0.95).interval) > limit


def test_orders_at_random():
    x = np.arange(6.0)
    assert share_as_high(x, x, 5000) == pytest.approx(1 / 720, abs=0.003)
    assert share_as_high(x, -x, 500) == 1.0


# ------------------------------------------------------------------ B* by the law


def test_balance_is_that_of_the_steps_law():
    rng = np.random.default_rng(0)
    batch = 2.0 ** np.arange(8)
    data = (700 + 30 * batch) * np.exp(0.1 * rng.standard_normal(8))
    law = st.fit_steps_law(batch, data / batch)
    assert balance(batch, data) == pytest.approx(law.b / law.a, rel=1e-4)
    assert np.isnan(balance(batch, np.full(8, 700.0)))


def risk_of_law(batch, samples, power):
    """R = u^−½ where batch size B has taken u (1 + B/(4 u^power)) samples: b/a = 4 D^power, D = u."""

    def level(size, number):
        return optimize.brentq(lambda u: u * (1 + size / (4 * u**power)) - number, 1e-9, number)

    return np.array([[level(size, number) ** -0.5 for number in row] for size, row in zip(batch, samples, strict=True)])


@pytest.mark.parametrize("power", [0.0, 0.35])
def test_critical_of_an_exact_law(power):
    batch, numbers = 2.0 ** np.arange(9), np.array([1e3, 1e4, 1e5])
    samples = np.tile(np.geomspace(100, 4e5, 60), (9, 1))
    found = critical_by_law(batch, samples, risk_of_law(batch, samples, power), numbers, 0.2)
    assert cells.slope_of(numbers, found) == pytest.approx(power, abs=0.03)
    assert np.log(found / (0.8 * numbers**power)) == pytest.approx(np.zeros(3), abs=0.15)


def test_critical_is_unknown_where_nothing_is_seen():
    batch, samples = 2.0 ** np.arange(4), np.tile([64.0, 128.0, 256.0], (4, 1))
    assert np.isnan(critical_by_law(batch, samples, np.ones((4, 3)), np.array([128.0]), 0.2)).all()
    assert np.isnan(cells.slope_of([1, 2, 3], np.array([1.0, np.nan, 2.0])))


EXACT = ((3.0, 2.0), (1.5, 1.5), (1.2, 1.8), (2.0, 3.0), (1.2, 2.4), (1.1, 3.0))


@pytest.mark.slow
def test_the_pipeline_finds_the_exponents_of_exact_risks():
    """Exact risks of power laws with noise of 3%, four seeds, in place of a network's; predicted by definition.

    Measured on predicted exponents have slope 1, and not 0; predictions in reverse do not follow. The seed is fixed.
    """
    config = replace(CONFIG, num_samples=(512, 2048, 8192, 32768), batch_ratio=2.0, largest_batch=1024, num_rates=8)
    samples, rng, points = np.array(config.num_samples, float), np.random.default_rng(0), []
    for a, b in EXACT:
        index = np.arange(1.0, 101)
        problem = st.LeastSquares(index**-a, index**-b, 1.0)
        grid = cells._grid(config, problem)
        risk = gaussian_risk(problem, grid)[:, :, None] * np.exp(0.03 * rng.standard_normal((1, 1, 4, len(grid.data))))
        measured, resampled = cells.critical_sizes(config, grid, risk)
        slope = cells.slope_of(samples, measured)
        error = np.std([cells.slope_of(samples, each) for each in resampled])
        exact = st.critical_batch_size(problem, num_samples=samples, curve=False).real_batch_size
        points.append((cells.slope_of(samples, exact), slope, 0.01, error))
    line = fit_line(*np.array(points).T, 0.95)
    assert data_law.decided(line, line) == "holds"
    assert line.slope == pytest.approx(1, abs=0.25)
    predicted, *others = np.array(points).T
    reverse = fit_line(np.sort(predicted)[::-1][np.argsort(np.argsort(predicted))], *others, 0.95)
    assert data_law.decided(reverse, reverse) != "holds"


def test_more_teachers_narrow_the_interval():
    """±1 from eight teachers is ±½ with K for which t_{K−2}/√K is half as large."""
    line = Line(0.5, (-0.5, 1.5), 0.0, 0.1, 0.3)
    needed = data_law.teachers_needed(line, 8)
    half = stats.t.isf(0.025, 6) / 8**0.5 / 2
    assert stats.t.isf(0.025, needed - 2) / needed**0.5 <= half < stats.t.isf(0.025, needed - 3) / (needed - 1) ** 0.5


def test_corollary8_continues():
    a, b = np.array([2.0, 2.0, 2.0, 3.0]), np.array([3.0, 4.5, 9.0, 2.0])
    exact = [st.predicted_exponent(*pair) for pair in zip(a, b, strict=True)]
    assert cells.corollary8_exponent(a, b) == pytest.approx(exact, abs=1e-12)
    assert cells.corollary8_exponent(0.25, 1.5) == pytest.approx(1 - 0.25 / 1.5)


# ------------------------------------------------------------------ features and risks


def test_tangents_are_derivatives_of_the_output(network):
    own, weights = network
    inputs, _ = tangent.teacher_inputs(own, 7, 0)
    outputs, features = tangent.tangents(own, weights, inputs)
    assert features.shape == (7, own.network.num_weights)
    column = 0
    for name, part in weights.items():
        moved = part.copy()
        moved.flat[0] += 1e-2
        ahead, _ = tangent.tangents(own, weights | {name: moved}, inputs)
        moved.flat[0] -= 2e-2
        behind, _ = tangent.tangents(own, weights | {name: moved}, inputs)
        np.testing.assert_allclose(features[:, column], (ahead - behind) / 2e-2, atol=2e-3)
        column += part.size
    assert np.ptp(outputs) > 0


def test_wider_networks_have_features_in_the_metric_of_their_rates():
    """At r = 4 µP moves input weights at rate 4 and output weights at ¼: features are √4 and √¼ times the gradients."""
    base = CONFIG.run(1.0, 3.0, "all")
    own = replace(base, width=20)
    weights = {name: part[0] for name, part in Lanes([own]).weights().items()}
    inputs, _ = tangent.teacher_inputs(own, 5, 0)
    plain = tangent.tangents(replace(own, base_width=20), weights, inputs)[1]
    scaled = tangent.tangents(own, weights, inputs)[1]
    place = {"input": slice(0, 80), "output": slice(100, 120)}
    assert list(weights) == ["input", "input_bias", "output"]
    np.testing.assert_allclose(scaled[:, place["input"]], 2.0 * plain[:, place["input"]], rtol=1e-5, atol=1e-7)
    np.testing.assert_allclose(scaled[:, place["output"]], 0.5 * plain[:, place["output"]], rtol=1e-5, atol=1e-7)


def test_output_risk_is_that_of_its_predictions():
    """On the same inputs least squares splits (f − f*)² into what is missed and the excess, exactly."""
    own = replace(CONFIG.run(1.0, 3.0, "output"), width=10)
    weights = {name: part[0] for name, part in Lanes([own]).weights().items()}
    lanes = Lanes([replace(own, learning_rate=rate, batch_size=8, max_steps=20) for rate in (0.02, 0.1)], longest=20)
    lanes.advance(20)
    found = tangent.output_risk(own, weights, 2048)(lanes)
    inputs, targets = tangent.teacher_inputs(own, 2048, 0)
    start, features = tangent.tangents(own, weights, inputs)
    missed = np.linalg.lstsq(features, targets - start, rcond=None)[1] / 2048
    for lane, risk in enumerate(found):
        trained = {name: part[lane] for name, part in lanes.weights("uniform").items()}
        whole = np.mean((tangent.tangents(own, trained, inputs)[0] - targets) ** 2)
        assert risk == pytest.approx(float(whole - missed[0]), rel=1e-3)
    assert found[0] != pytest.approx(found[1], rel=0.05)


def test_network_risks_are_those_of_the_trainer(network):
    own, weights = network
    features = cells._features(CONFIG, own, weights, cells.BEFORE, 0)
    grid = network_grid(features.problem, np.array([2.0, 8.0]), np.array([16.0, 64.0]), 4)
    risks = network_risks(own, grid, 2)
    assert risks.shape == (2, 4, 2, 2)
    rate = float(grid.rate[1, 2]) / 2  # the gradient of the squared error has a factor 2
    settings = {"learning_rate": rate, "batch_size": 8, "max_steps": 8, "eval_every": 2, "data_seed": 1}
    result = train(replace(own, **settings))
    assert risks[1, 2, 1] == pytest.approx(np.interp([2, 8], result.steps, result.curve("uniform")), rel=1e-4)
    ended = trained_weights(own, grid, np.where(np.arange(4)[:, None, None] == 2, risks, np.inf))
    assert {name: part.shape for name, part in ended.items()} == {name: part.shape for name, part in weights.items()}
    assert np.abs(ended["output"] - weights["output"]).max() > 1e-3


# ------------------------------------------------------------------ all of it


@pytest.mark.slow
def test_the_experiment(tmp_path, monkeypatch):
    config = replace(CONFIG, store=str(tmp_path / "runs"))
    result = data_law.run(config)
    write_result(tmp_path / "one", config, result)
    assert result.columns.keys() == result.units.keys()
    assert len(result.columns["slope"]) == 2 * len(CONFIG.pairs) * len(CONFIG.num_samples)
    assert len(result.verdicts) == len(data_law.comparisons({})) == 10
    assert (tmp_path / "one" / "data_law.png").stat().st_size > 1e4
    recorded = Recorded(tmp_path / "one")
    assert recorded.config(data_law.Config) == config
    assert data_law.redraw(config, recorded).keys() == result.figures.keys()
    monkeypatch.setattr(cells, "network_risks", None)  # the store has them all
    again = data_law.run(config).columns
    for name, column in result.columns.items():
        np.testing.assert_allclose(again[name], column, rtol=1e-9, err_msg=name)


def made_up(power, spread):
    """A table as of a full run, with exponents that are made up."""
    config, rng = data_law.SCALES["full"], np.random.default_rng(0)
    rows = []
    for everything in (0.0, 1.0):
        for a, b in config.pairs:
            exponent = spread * rng.uniform(-0.1, 0.5)
            for number in config.num_samples:
                row = dict.fromkeys(data_law.UNITS, np.nan)
                row |= {"all_trained": everything, "capacity": a, "source": b, "num_samples": number, "risk": 0.1}
                row |= {"slope": exponent, "slope_error": 0.04 * spread, "inside": 1.0}
                row |= {"exponent_inputs": float(cells.corollary8_exponent(a, b))}
                size = power * number**exponent
                row |= {"critical": size, "critical_low": size / 1.3, "critical_high": size * 1.4}
                for kind in cells.KINDS[: 3 if everything else 1]:
                    row |= {f"slope_{kind}": exponent + 0.1 * spread * rng.standard_normal()}
                    row |= {f"slope_{kind}_error": 0.01 * spread, f"critical_{kind}": 2 * size}
                    row |= {f"exponent_{kind}": max(exponent, 0.0), f"exponent_{kind}_error": 0.1}
                rows.append(row)
    return config, {name: [row[name] for row in rows] for name in data_law.UNITS}


@pytest.mark.parametrize(("power", "spread"), [(5.0, 1.0), pytest.param(1e4, 5.0, marks=pytest.mark.slow)])
def test_figures(power, spread):
    for figure in data_law.figures(*made_up(power, spread)).values():
        check_figure(figure)


def test_figures_of_networks_without_a_critical_batch_size():
    config, columns = made_up(5.0, 1.0)
    lost = {name: [np.nan] * len(columns[name]) for name in ("critical", "critical_low", "critical_high", "slope")}
    for figure in data_law.figures(config, columns | lost).values():
        figure.draw_without_rendering()
    assert data_law.verdicts_of(config, columns | lost, 1.0)[0].verdict == "inconclusive"


def test_verdicts_follow_what_is_made_up():
    """Predictions near the measured exponents hold; in another order of the teachers they must not."""
    config, columns = made_up(5.0, 1.0)
    assert data_law.verdicts_of(config, columns, 1.0)[0].verdict == "holds"
    shuffled = columns | {"slope": [-value for value in columns["slope"]]}
    assert data_law.verdicts_of(config, shuffled, 1.0)[0].verdict == "fails"
    same = columns | {"slope_before": [0.1] * len(columns["slope"])}
    assert data_law.verdicts_of(config, same, 1.0)[0].measured == "—"
