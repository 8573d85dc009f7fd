"""The experiment on model size: on made-up numbers, and its parts against searches and sums of their own."""

import re
from dataclasses import replace
from itertools import product

import numpy as np
import pytest

import sgdtheory as st
from experiments import model_size
from experiments._lib import model_size_figures, model_size_verdicts
from experiments._lib.last_layer import last_layers, regression
from experiments._lib.model_sizes import (
    Row,
    best_size,
    limited,
    limited_path,
    model_of,
    path_exponents,
    random_exponent,
    size_exponent,
    solved,
)
from experiments._lib.network_sweeps import TEACHER
from sgdtheory.training import TrainConfig
from tests.figure_checks import check_figure

ALL = np.inf


def row(kind, pair, size, samples, batch, risk=1.0, missing=0.0, dimension=10.0):
    """Notions that move with M as the theory says, tr H of a = 2."""
    trace = 1.6 - 1 / size
    notions = {"simple_noise_scale": 3 * trace, "hessian_noise_scale": 2.0, "interpolation_batch_size": trace}
    rates = {"rate_batch_size": 2 * batch, "whole_rate_batch_size": 3 * batch}
    return Row(kind, *pair, size, samples, batch, risk, missing, dimension, **rates, **notions)


def made_up(config, growth=0.0):
    """The limits of THEORY.md T31, one on either side of k*; B* grows with M to some power, beside."""
    rows = []
    for pair in config.exponents:
        power = float(st.predicted_exponent(*pair))

        def dimension(samples, pair=pair):
            return np.floor(samples ** (1 / min(pair[1], 2 * pair[0] + 1)))

        def batch(size, samples, pair=pair, power=power, dimension=dimension):
            small = size < dimension(samples)
            found = limited(pair, size, samples) if small else 3 * samples**power
            return found * min(size, 1e5) ** growth

        def placed(kind, size, samples, pair=pair, batch=batch, dimension=dimension, **settings):
            return row(kind, pair, size, samples, batch(size, samples), dimension=dimension(samples), **settings)

        sizes = *config.model_sizes, ALL
        rows += [placed("grid", size, samples) for size, samples in product(sizes, config.num_samples)]
        for ratio, samples in product(config.samples_per_feature, config.together):
            rows.append(row(f"D = {ratio:g} M", pair, samples / ratio, samples, 3 * samples ** (power + growth)))
        for size, samples in product(config.gaussian_sizes, config.gaussian_samples):
            scale = samples ** random_exponent(pair)
            share = (size / (size + 0.2 * scale)) * size**growth
            rows.append(row("gaussian", pair, size, samples, 3 * samples**power * share))
        for compute in config.compute:
            size, powers = limited_path(pair, compute), path_exponents(pair)
            risk, best = compute ** powers["whole_risk"], compute ** (powers["real_batch_size"] + growth)
            rows.append(row("compute", pair, size, compute / size, best, risk / 2, risk / 2))
            rows.append(placed("compute, all features", ALL, compute / size))
    own = config.networks
    for kind, width, samples, seed in product(
        ("network, initial", "network, trained"), own.task.widths, own.num_samples, range(own.num_seeds)
    ):
        dimension = min(width / 2, samples**0.5) * width ** (5 * growth) * (1 + 0.01 * seed)
        rows.append(row(kind, (np.nan, np.nan), width, samples, 5.0, dimension=dimension))
    return rows


def verdicts(config, rows):
    return {each.claim: each.verdict for each in model_size_verdicts.verdicts(config, rows, 0.0)}


def wide(config):
    """Widths at which the made-up k* has stopped growing."""
    return replace(config, networks=replace(config.networks, task=replace(TEACHER, widths=(64, 256, 512))))


@pytest.mark.slow
@pytest.mark.parametrize("scale", ["quick", "full"])
def test_figures(scale):
    config = wide(model_size.SCALES[scale])
    for figure in model_size.figures(config, made_up(config)).values():
        check_figure(figure)


def test_the_figure_explains_a_slope_that_is_in_it():
    """At quick scale it explained one of full scale."""
    config = wide(model_size.SCALES["quick"])
    figure = model_size_figures._settings_figure(config, made_up(config))
    explained = re.search(r"([\d.]+\(\d+\)): slope", figure.get_suptitle())
    labels = [text.get_text() for axis in figure.axes for text in axis.get_legend().get_texts()]
    assert explained
    assert any(explained[1] in label for label in labels)


@pytest.mark.parametrize("scale", ["quick", "full"])
def test_the_limits_of_the_theory_hold(scale):
    config = wide(model_size.SCALES[scale])
    rows = made_up(config)
    assert set(verdicts(config, rows).values()) == {"holds"}


def test_growth_with_the_model_is_found():
    """Negative control: B* ∝ M^0.1, and k* with it."""
    config = wide(model_size.SCALES["full"])
    found = verdicts(config, made_up(config, growth=0.1))
    names = "where data are the limit, B*", "where the model is the limit", "along D ∝ M", "compute-optimal"
    for name in names:
        (verdict,) = (verdict for claim, verdict in found.items() if claim.startswith(name))
        assert verdict == "fails", name
    assert found["k* of a network's features stops growing with its width"] == "fails"


def test_all_features_are_the_problem_itself():
    found = solved("grid", (2.0, 3.0), ALL, 1e4)
    direct = st.critical_batch_size(st.PowerLaw(2.0, 3.0), num_samples=1e4, curve=False)
    assert found.real_batch_size == direct.real_batch_size
    assert found.approximation_risk == 0
    assert model_of((2.0, 3.0), ALL)[0] == st.PowerLaw(2.0, 3.0)


def test_what_is_left_out_is_noise_and_risk():
    """The tail of the signal, summed term by term."""
    problem, missing = model_of((2.0, 3.0), 7)
    tail = float(np.sum(np.arange(8.0, 2e5) ** -3.0))
    assert missing == pytest.approx(tail, rel=1e-6)
    assert problem.noise_variance == pytest.approx(1 + tail, rel=1e-9)
    assert problem.dim == 7


def test_critical_batch_size_of_the_whole_risk_is_the_same():
    """By Definition 3 on the sum with the approximation risk; the rate convention differs."""
    pair, size, samples = (2.0, 3.0), 6, 1e4
    problem, missing = model_of(pair, size)
    own = st.critical_batch_size(problem, num_samples=samples, curve=False)
    target = own.optimal_risk + missing

    def reached(batch):
        steps = np.floor(1.2 * samples / batch * (1 + 1e-12))
        best = st.optimal_learning_rate(problem, batch_size=batch, num_samples=batch * steps)
        return best.risk + missing <= target * (1 + 1e-12)

    assert reached(own.batch_size)
    assert not any(reached(own.batch_size + more) for more in range(1, 30))
    found = solved("grid", pair, size, samples, whole_rate=True)
    assert found.whole_rate_batch_size > 5 * found.rate_batch_size


@pytest.mark.parametrize("pair", [(2.0, 3.0), (2.0, 6.0)])
def test_limit_of_the_model(pair):
    """B* tends to the formula as D grows, within 1% at D = 1e11; k* is 4000 and 200 there."""
    ratios = [solved("grid", pair, 8, samples).real_batch_size / limited(pair, 8, samples) for samples in (1e9, 1e11)]
    assert abs(ratios[1] - 1) < min(0.01, abs(ratios[0] - 1))


def test_exponent_of_the_model_size_is_that_of_the_formula():
    for pair in ((2.0, 3.0), (1.5, 3.0), (2.0, 6.0), (1.5, 2.5)):
        slope = np.log2(limited(pair, 2_000_000, 1e10) / limited(pair, 1_000_000, 1e10))
        assert slope == pytest.approx(size_exponent(pair), abs=2e-3)


def test_strong_directions_leak_into_weak_gaussian_features():
    """(λ_k/M) Σ_{i<k} s_i/λ_i of THEORY.md T31, which is twelve and nine hundred times s_k at k = 10 and 30."""
    a, b, size = 2.0, 6.0, 1000
    _, signal = st.PowerLaw(a, b).with_features(size, kind="gaussian").directions()
    for k in (3, 10, 30):
        stronger = np.arange(1.0, k)
        leak = k**-a / size * np.sum(stronger ** (a - b))
        assert signal[k - 1] == pytest.approx(k**-b + leak, rel=0.05)


def test_best_size_against_every_size():
    pair, compute = (2.0, 3.0), 3e4

    def risk(size):
        problem, missing = model_of(pair, size)
        return missing + st.optimal_learning_rate(problem, batch_size=1, num_samples=compute / size).risk

    assert best_size(pair, compute) == min(range(1, 41), key=risk)


def test_regression_on_features():
    """Eigenvalues, signal and what is missed, of features with a dead one; targets are linear but for a square."""
    rng = np.random.default_rng(0)
    x = rng.standard_normal((200_000, 4)) * [2.0, 1.0, 0.5, 0.0]
    targets = x @ [0.5, -1.0, 2.0, 9.0] + 0.1 * (x[:, 1] ** 2 - 1)
    found = regression(x, targets, noise_variance=0.5)
    assert found.problem.eigenvalues == pytest.approx([4.0, 1.0, 0.25], rel=0.02)  # 6 standard errors
    assert found.problem.signal == pytest.approx([1.0, 1.0, 1.0], rel=0.02)
    assert found.approximation_risk == pytest.approx(0.02, rel=0.06)
    assert found.problem.noise_variance == 0.5 + found.approximation_risk


@pytest.mark.slow
def test_last_layer_of_a_network():
    """Training lowers what its features miss; before it every seed has features of its own."""
    fields = {**TEACHER.fields, "width": 32, "batch_size": 16, "learning_rate": 2.0**-7, "max_steps": 100}
    configs = [TrainConfig.from_fields(fields | {"seed": seed}) for seed in (0, 1)]
    before, after = (last_layers(configs, steps, 4096) for steps in (0, 100))
    assert before[0].problem.trace != before[1].problem.trace
    for first, last in zip(before, after, strict=True):
        assert last.approximation_risk < first.approximation_risk
