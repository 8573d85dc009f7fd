"""The figures of the experiments in the layouts that are published: nothing overlaps, nothing is cut."""

from dataclasses import replace
from types import SimpleNamespace

import numpy as np
import pytest

import sgdtheory as st
from experiments import corollary8, heavy_tails, overhead_convention, ratio_law, simulation_vs_theory, theorem7
from experiments.simulation_vs_theory import UNITS as SIMULATION_COLUMNS
from tests.figure_checks import check_figure
from tests.marks import slow

RNG = np.random.default_rng(0)


def case(capacity, source, samples):
    """A problem whose B* follows Corollary 8 with a correction that dies out."""
    exponent = float(st.predicted_exponent(capacity, source))
    critical = 3 * (samples / 100) ** exponent * (1 + 1 / np.log(samples))
    found = SimpleNamespace(num_samples=samples, batch_size=np.floor(critical), real_batch_size=critical)
    return corollary8.Case(capacity, source, found)


@pytest.mark.parametrize("scale", [slow("quick"), slow("full")])
def test_corollary8(scale):
    config = corollary8.SCALES[scale]
    samples = 10 ** np.arange(config.decades[0], config.decades[1] + 1e-9, 1 / config.per_decade)
    cases = [case(*pair, samples) for pair in config.exponents]
    ends = 10 ** np.array(config.map_decades)
    corners = [case(a, b, ends) for a in config.map_capacities for b in config.map_sources]
    fits = [SimpleNamespace(exponent=one.predicted + 0.003) for one in cases]
    growth, plane = corollary8._growth(config, cases), corollary8._map(config, cases, fits, corners)
    check_figure(growth)
    check_figure(plane)
    assert "lambda_i" in growth.get_suptitle()
    axis = plane.axes[0]
    names = {text.get_text() for text in axis.texts}
    assert names == {"$b = a$", "$b = 2a$", "$b = 2a+1$"}
    plane.draw_without_rendering()
    inside = axis.get_window_extent()
    assert not any(text.get_window_extent().overlaps(inside.padded(-1)) for text in axis.texts)  # no line strikes one


@pytest.mark.slow
def test_theorem7():
    config = theorem7.Config(num_problems=60)
    points = theorem7.sample(config)
    order = np.argsort(points["total"])
    extremes = [{name: float(column[k]) for name, column in points.items()} for k in (order[0], order[-1])]
    check_figure(theorem7._tightness(config, points, extremes))
    check_figure(theorem7._parts(points), data=False)


def simulated(config):
    """Columns as `simulation_vs_theory` has them, with scores drawn from the law that they should have."""
    rows = [(b, n) for b in config.shown_batch_sizes for n in config.shown_steps]
    batch, steps = np.array(rows, float).T
    problem = st.PowerLaw(*config.shown_exponents, noise_variance=config.shown_noise_variance)
    setting = {"batch_size": batch, "learning_rate": config.shown_learning_rate, "num_samples": batch * steps}
    exact = st.excess_risk(problem, **setting).total
    error, score = 0.02 * exact, RNG.standard_normal(exact.size)
    infinite = {"dim": np.full(exact.size, np.inf), "batch_size": batch, "num_steps": steps, "exact": exact}
    infinite |= {"simulated": exact + score * error, "standard_error": error, "score": score}
    finite = {"dim": np.full(48, 64.0), "num_steps": np.full(48, float(max(config.num_steps)))}
    finite |= {"score": RNG.standard_normal(48), "score_wrong": -(10 ** RNG.uniform(-1, 2, 48))}
    columns = {
        name: np.concatenate([infinite.get(name, np.full(exact.size, np.nan)), finite.get(name, np.full(48, np.nan))])
        for name in SIMULATION_COLUMNS
    }
    return problem, columns


@pytest.mark.slow
def test_simulation_vs_theory():
    config = simulation_vs_theory.SCALES["quick"]
    problem, columns = simulated(config)
    risks = simulation_vs_theory._points_line_bound(config, problem, columns)
    check_figure(risks)
    assert any("bound ×" in text.get_text() for text in risks.legends[0].get_texts())  # what the band is
    scores = simulation_vs_theory._quantiles(config, columns)
    check_figure(scores)
    assert "pure chance" not in scores.axes[0].get_title()
    assert "p = " in scores.axes[0].get_title()


@pytest.mark.slow
def test_ratio_law():
    config = replace(ratio_law.SCALES["quick"], num_samples=(2**6, 2**10))
    points = ratio_law._points(config, st.PowerLaw(config.capacity, config.source))
    exact = np.where(points["num_steps"] < 100, points["exact"], np.nan)  # not every setting is simulated
    points |= {"simulated": 1.01 * exact, "standard_error": 0.01 * exact}
    figure = ratio_law._figure(config, points)
    check_figure(figure)
    listed = [text.get_text() for text in figure.legends[0].get_texts()]
    assert len(listed) == 1 + len(config.ratios)


@pytest.mark.slow
def test_heavy_tails():
    config = heavy_tails.Config(dim=4, exact_steps=(4, 16))
    signal = st.PowerLaw(config.capacity, config.source, config.dim).initial_risk
    problem = st.PowerLaw(config.capacity, config.source, config.dim, noise_variance=signal)
    rows = []
    for name, law in heavy_tails._laws(config):
        moment = law.fourth_moment
        for constant in (config.constant, heavy_tails.scaled_constant(config, moment)):
            rows += heavy_tails._exact(config, problem, name, moment, constant)
    for shift, (name, law) in enumerate(heavy_tails._simulated_laws(config)):
        for steps in config.num_steps:
            row = heavy_tails._row(name, law.fourth_moment, 1, 0.1, config.simulated_constant, steps)
            risk = {"exact": 0.6 + 0.02 * shift, "ratio": 0.6 + 0.02 * shift, "standard_error": 0.004}
            rows.append(row | risk | {"simulated": risk["exact"] + 0.004})
    columns = {name: np.array([row.get(name, np.nan) for row in rows]) for name in heavy_tails.UNITS}
    figure = heavy_tails._figure(config, columns)
    check_figure(figure)
    for axis in figure.axes:
        drawn = [line.get_color() for line in axis.lines if line.get_label()[0] != "_" and line.get_linestyle() == "-"]
        assert len(set(drawn)) == len(drawn)


@pytest.mark.slow
def test_overhead_convention():
    config = overhead_convention.SCALES["quick"]
    batch = np.geomspace(1, 1e6, 60)
    found = []
    for samples in config.num_samples:
        critical = 2 * samples ** (1 / 3)
        needed = samples * (1 + 0.2 * batch / critical)
        found.append(
            SimpleNamespace(
                curve=SimpleNamespace(batch_size=batch, samples_needed=needed), batch_size=critical, num_samples=samples
            )
        )
    measurements = st.example_measurements()
    laws = [st.fit_steps_law(each.batch_sizes, each.steps) for each in measurements]

    def rows(data, references, base):
        return [
            overhead_convention.Row(data, reference, overhead, (), (), base + 0.05 * np.log10(1 + overhead * reference))
            for reference in references
            for overhead in config.overheads
        ]

    regression, models = rows("regression", config.references, 0.3), rows("models", config.model_references, 0.2)
    figure = overhead_convention._figure(config, found, regression, models, measurements, laws)
    check_figure(figure)
    assert "$a = 2$, $b = 3$" in figure.get_suptitle()
