"""Figures of experiments that train networks, of numbers made up: nothing overlaps, at usual and at extreme values."""

from dataclasses import replace

import numpy as np
import pytest

from experiments import averaging, data_scaling, learning_rate_transfer, width_invariance, width_limit
from experiments._lib.network_sweeps import TEACHER, tuned_of
from experiments._lib.variants import Config as Variants
from experiments._lib.variants import figures as variant_figures
from tests.figure_checks import check_figure

SLOW = pytest.mark.slow
EACH_FACTOR = pytest.mark.parametrize(  # of the last loss over the first
    "factor", [pytest.param(1.0, id="usual"), pytest.param(1e12, id="twelve decades", marks=SLOW)]
)


def losses_like(shape, factor, *, seeds_last=True):
    """Losses that fall along the last axis but the seeds', by a factor at most, with noise of 3%."""
    rng = np.random.default_rng(0)
    fall = factor ** -np.linspace(0, 1, shape[-2 if seeds_last else -1])
    fall = fall[:, None] if seeds_last else fall
    return 0.5 * fall * np.exp(0.03 * rng.standard_normal(shape))


@pytest.mark.parametrize("factor", [pytest.param(3.0, marks=SLOW), 1e12])
@pytest.mark.parametrize("widths", [(32, 64, 128, 256, 512, 1024), pytest.param((16, 32, 64), marks=SLOW)])
def test_width_limit(factor, widths):
    config = width_limit.Config(widths=widths, num_resamples=20)
    steps = np.array([0, 1, 2, 4, 8, 16, 32, 64, 96, 128])
    losses = losses_like((2, len(widths), config.num_seeds, steps.size), factor, seeds_last=False)
    columns = {"step": np.broadcast_to(steps, losses.shape).ravel(), "loss": losses.ravel()}
    for figure in width_limit.figures(config, columns).values():
        check_figure(figure)


@EACH_FACTOR
@pytest.mark.parametrize("scale", ["quick", pytest.param("full", marks=SLOW)])
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


@EACH_FACTOR
@pytest.mark.parametrize("scale", ["quick", pytest.param("full", marks=SLOW)])
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


@pytest.mark.parametrize("slope", [0.0, pytest.param(3.0, marks=SLOW)])
@pytest.mark.parametrize("contrast", [(), pytest.param(("teacher",), marks=SLOW)])
def test_width_invariance(slope, contrast):
    config = width_invariance.Config({"teacher": TEACHER}, contrast)
    rows = rows_of(TEACHER, slope=slope)
    rows += rows_of(TEACHER, parametrization="standard", slope=-slope) if contrast else []
    for figure in width_invariance.figures(config, width_invariance.found_of(config, rows)).values():
        check_figure(figure)


@pytest.mark.slow
def test_a_sweep_that_is_not_tuned():
    config = width_invariance.Config({"teacher": TEACHER})
    found = width_invariance.found_of(config, rows_of(TEACHER, tuned=0))
    assert not tuned_of(rows_of(TEACHER, tuned=0), 0.1).measurements()
    for figure in width_invariance.figures(config, found).values():
        check_figure(figure)


@pytest.mark.parametrize("number", [pytest.param(1, marks=SLOW), 9])
@pytest.mark.parametrize("factor", [pytest.param(1.05, marks=SLOW), 1e12])
def test_data_scaling(number, factor):
    widths = np.repeat(32 * 2 ** np.arange(number), 5)
    data = np.tile(1000 * factor ** np.linspace(0, 1, 5), number)
    points = {"task": ["teacher"] * data.size, "width": widths, "data": data, "critical_batch_size": 2 * data**0.3}
    slopes = {f"width {width}": (0.3, 0.1, 0.5) for width in np.unique(widths)} | {"both": (0.4, -3.0, 3.8)}
    for figure in data_scaling.figures(data_scaling.Config(), points, {"teacher": slopes}).values():
        check_figure(figure)


@pytest.mark.parametrize("change", [pytest.param(1.0, marks=SLOW), pytest.param(1 + 1e-9, marks=SLOW), 3.0])
def test_variants(change):
    task = replace(TEACHER, widths=(64,))
    rows = [row | {"changed": "0"} for row in rows_of(task)]
    rows += [row | {"changed": "1", "steps": str(float(row["steps"]) * change)} for row in rows]
    words = "float32", "bfloat16"
    for figure in variant_figures(Variants({"teacher": task}), "precision", rows, words).values():
        check_figure(figure)
