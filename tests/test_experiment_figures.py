<<<<<<< HEAD
"""The figures of the experiments in the layouts that are published: nothing overlaps, nothing is cut."""

from types import SimpleNamespace
=======
"""Figures of experiments that train networks, of numbers made up: nothing overlaps, at usual and at extreme values."""

from dataclasses import replace
>>>>>>> 997625a (Redraw width_limit, averaging, theory_meets_network, why and learning-rate transfer in the one style)

import numpy as np
import pytest

<<<<<<< HEAD
import sgdtheory as st
from experiments import corollary8, heavy_tails, overhead_convention, ratio_law, simulation_vs_theory, theorem7
from experiments.simulation_vs_theory import UNITS as SIMULATION_COLUMNS
from tests.figure_checks import check_figure

RNG = np.random.default_rng(0)


def case(capacity, source, samples):
    """A problem whose B* follows Corollary 8 with a correction that dies out."""
    exponent = float(st.predicted_exponent(capacity, source))
    critical = 3 * (samples / 100) ** exponent * (1 + 1 / np.log(samples))
    found = SimpleNamespace(num_samples=samples, batch_size=np.floor(critical), real_batch_size=critical)
    return corollary8.Case(capacity, source, found)


@pytest.mark.parametrize("scale", ["quick", "full"])
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


def test_ratio_law():
    config = ratio_law.SCALES["quick"]
    points = ratio_law._points(config, st.PowerLaw(config.capacity, config.source))
    exact = np.where(points["num_steps"] < 100, points["exact"], np.nan)  # not every setting is simulated
    points |= {"simulated": 1.01 * exact, "standard_error": 0.01 * exact}
    figure = ratio_law._figure(config, points)
    check_figure(figure)
    listed = [text.get_text() for text in figure.legends[0].get_texts()]
    assert len(listed) == 1 + len(config.ratios)


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
=======
from experiments import averaging, data_scaling, learning_rate_transfer, scaling_laws, width_invariance, width_limit
from experiments.network_sweeps import TEACHER, tuned_of
from experiments.variants import Config as Variants
from experiments.variants import figures as variant_figures
from tests.figure_checks import check_figure

FACTORS = {"usual": 1.0, "twelve decades": 1e12}  # of the last loss over the first


def losses_like(shape, factor, *, seeds_last=True):
    """Losses that fall along the last axis but the seeds', by a factor at most, with noise of 3%."""
    rng = np.random.default_rng(0)
    fall = factor ** -np.linspace(0, 1, shape[-2 if seeds_last else -1])
    fall = fall[:, None] if seeds_last else fall
    return 0.5 * fall * np.exp(0.03 * rng.standard_normal(shape))


@pytest.mark.parametrize("factor", [3.0, 1e12])
@pytest.mark.parametrize("widths", [(32, 64, 128, 256, 512, 1024), (16, 32, 64)])
def test_width_limit(factor, widths):
    config = width_limit.Config(widths=widths, num_resamples=20)
    steps = np.array([0, 1, 2, 4, 8, 16, 32, 64, 96, 128])
    losses = losses_like((2, len(widths), config.num_seeds, steps.size), factor, seeds_last=False)
    columns = {"step": np.broadcast_to(steps, losses.shape).ravel(), "loss": losses.ravel()}
    for figure in width_limit.figures(config, columns).values():
        check_figure(figure)


@pytest.mark.parametrize("factor", FACTORS.values(), ids=FACTORS)
@pytest.mark.parametrize("scale", ["quick", "full"])
def test_averaging(factor, scale):
    config = replace(averaging.SCALES[scale], num_resamples=20)
    number, rates = len(config.durations), len(config.log2_rates)
    losses = {}
    for k, name in enumerate(averaging.METHODS):
        kinds = len(config.decays) if name == "ewa" else 1
        fall = (1 + 0.2 * k) * (10 * factor) ** -np.linspace(0, 1, number)
        shape = number, kinds, rates, config.num_seeds
        losses[name] = fall[:, None, None, None] * losses_like(shape, 1.5)
    check_figure(averaging._figure(config, losses, averaging._resampled(config, losses)))


@pytest.mark.parametrize("factor", FACTORS.values(), ids=FACTORS)
@pytest.mark.parametrize("scale", ["quick", "full"])
def test_learning_rate_transfer(factor, scale):
    config = learning_rate_transfer.SCALES[scale]
    rng, rates = np.random.default_rng(0), np.array(config.log2_rates)
    bowl = 0.3 + 0.05 * (rates - rates.mean()) ** 2
    noise = np.exp(0.02 * rng.standard_normal((len(config.widths), rates.size, config.num_seeds)))
    losses = factor ** ((rates - rates[0]) / np.ptp(rates))[:, None] * bowl[:, None] * noise
    best, optima = np.linspace(rates.mean(), rates.mean() - 2, len(config.widths)), {}
    for name, slope in (("mup", 0.0), ("standard", -0.5)):
        ends = best - 0.3, best + 0.3
        optima[name] = learning_rate_transfer.Optima(best, best[None], ends, slope, (slope - 0.1, slope + 0.1), 0)
    check_figure(learning_rate_transfer._figure(config, dict.fromkeys(optima, losses), optima))


def rows_of(task, *, slope=0.0, spread=0.02, parametrization="mup", target=0.1, tuned=1):
    """Rows of a sweep's table whose B* grows with the width."""
    rng = np.random.default_rng(0)
    rows = []
    for width in task.widths:
        for batch_size in task.batch_sizes:
            steps = 20 + 60 * 50 * (width / task.widths[0]) ** slope / batch_size
            row = {"task": "teacher", "parametrization": parametrization, "target_loss": target, "width": width}
            row |= {"batch_size": batch_size, "steps": steps * np.exp(spread * rng.standard_normal())}
            row |= {"learning_rate": 0.01, "average": 0.9, "tuned": tuned}
            rows.append({name: str(value) for name, value in row.items()})
    return rows


@pytest.mark.parametrize("slope", [0.0, 3.0])
@pytest.mark.parametrize("contrast", [(), ("teacher",)])
def test_width_invariance(slope, contrast):
    config = width_invariance.Config({"teacher": TEACHER}, contrast)
    rows = rows_of(TEACHER, slope=slope)
    rows += rows_of(TEACHER, parametrization="standard", slope=-slope) if contrast else []
    for figure in width_invariance.figures(config, width_invariance.found_of(config, rows)).values():
        check_figure(figure)


def test_a_sweep_that_is_not_tuned():
    config = width_invariance.Config({"teacher": TEACHER})
    found = width_invariance.found_of(config, rows_of(TEACHER, tuned=0))
    assert not tuned_of(rows_of(TEACHER, tuned=0), 0.1).measurements()
    for figure in width_invariance.figures(config, found).values():
        check_figure(figure)


@pytest.mark.parametrize("number", [1, 9])
@pytest.mark.parametrize("factor", [1.05, 1e12])
def test_data_scaling(number, factor):
    widths = np.repeat(32 * 2 ** np.arange(number), 5)
    data = np.tile(1000 * factor ** np.linspace(0, 1, 5), number)
    points = {"task": ["teacher"] * data.size, "width": widths, "data": data, "critical_batch_size": 2 * data**0.3}
    slopes = {f"width {width}": (0.3, 0.1, 0.5) for width in np.unique(widths)} | {"both": (0.4, -3.0, 3.8)}
    for figure in data_scaling.figures(data_scaling.Config(), points, {"teacher": slopes}).values():
        check_figure(figure)


@pytest.mark.parametrize("change", [1.0, 1 + 1e-9, 3.0])
def test_variants(change):
    task = replace(TEACHER, widths=(64,))
    rows = [row | {"changed": "0"} for row in rows_of(task)]
    rows += [row | {"changed": "1", "steps": str(float(row["steps"]) * change)} for row in rows]
    words = "float32", "bfloat16"
    for figure in variant_figures(Variants({"teacher": task}), "precision", rows, words).values():
        check_figure(figure)


def test_scaling_laws():
    for figure in scaling_laws.run(scaling_laws.Config()).figures.values():
        check_figure(figure)
>>>>>>> 997625a (Redraw width_limit, averaging, theory_meets_network, why and learning-rate transfer in the one style)
