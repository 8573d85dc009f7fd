"""Experiments on schedules, averages, momentum and weight decay, on made-up numbers and in small runs."""

import csv
import json
from dataclasses import asdict, replace
from itertools import product, repeat

import numpy as np
import pytest

import sgdtheory as st
from experiments import averages, delay, momentum, ramp_or_decay, schedules, weight_decay
from experiments._lib.algorithms import EXPONENTIAL, UNIFORM, Critical
from experiments._lib.panels import panels
from experiments._lib.redraw import Recorded
from experiments._lib.results import write_result
from experiments._lib.rows import columns_of, rows_of
from tests.figure_checks import check_figure
from tests.marks import slow

ZEROS = repeat(0.0)
# Figures of the full scale, which has more panels, are left to the slow tests.
SCALES = pytest.mark.parametrize(("scale", "drawn"), [("quick", True), ("full", False), slow("full", True)])


# ------------------------------------------------------------------ tables


def test_rows_are_read_back():
    rows = [Critical(2.0, 3.0, UNIFORM, 1e4, 41.6, 1e-3), Critical(2.0, 3.0, "cosine", 1e6, np.nan, 1e-4)]
    columns = columns_of(rows)
    table = [dict(zip(columns, map(str, cells), strict=True)) for cells in zip(*columns.values(), strict=True)]
    np.testing.assert_equal(rows_of(Critical, table), rows)


def test_places_that_are_left_over_are_empty():
    figure, axes = panels(5)
    assert figure.axes == axes
    assert len(axes) == 5


# ------------------------------------------------------------------ averages


def criticals(config, exponent):
    """B* and R_opt that are powers of D, with exponents by `exponent(a, b, name)` of B*."""
    return [
        Critical(a, b, name, samples, 2 * samples ** exponent(a, b, name), samples ** (1 / limit(a, b, name) - 1))
        for ((a, b), name), samples in product(config.compared, config.num_samples)
    ]


def limit(a, b, name):
    return min(b, 2 * a + 1) if name == UNIFORM else b


@SCALES
def test_averages(scale, drawn):
    config = averages.SCALES[scale]
    cases = averages._cases(config, criticals(config, lambda a, b, name: 1 - a / limit(a, b, name)))
    assert {averages._verdict(config, name, cases, 0.0).verdict for name in config.names} == {"holds"}
    if drawn:
        check_figure(averages._figure(config, cases))


def test_an_average_that_saturates_is_found():
    """Negative control: every algorithm with the exponents of the uniform average."""
    config = averages.SCALES["full"]
    cases = averages._cases(config, criticals(config, lambda a, b, name: 1 - a / min(b, 2 * a + 1)))
    assert averages._verdict(config, EXPONENTIAL, cases, 0.0).verdict == "fails"
    assert averages._verdict(config, UNIFORM, cases, 0.0).verdict == "holds"


# ------------------------------------------------------------------ schedules


def scheduled(config, power=lambda pair: 0.0):
    """Risks that differ by algorithm, and B* with the theory's exponents, times `D^power(pair)` but the uniform's."""
    rows = []
    for pair, (place, name), samples in product(config.exponents, enumerate(config.algorithms), config.num_samples):
        exponent = float(st.predicted_exponent(*pair))
        if name != UNIFORM:
            exponent += schedules._predicted(pair) + power(pair)
        asked = name in config.critical_algorithms and samples in config.critical_samples
        batch = (1 + place) * samples**exponent if asked and pair in config.critical_exponents else np.nan
        rows.append(schedules.Row(*pair, name, samples, 0.1, (1 + 0.1 * place) * samples**-0.5, batch, 1e-3))
    return rows


@SCALES
def test_schedules(scale, drawn):
    config = schedules.SCALES[scale]
    rows = scheduled(config)
    for figure in schedules._figures(config, rows).values() if drawn else ():
        check_figure(figure)
    for pair in config.critical_exponents:
        verdict = schedules._critical_verdict(config, rows, pair)
        assert verdict.verdict == ("holds" if scale == "full" else "inconclusive")


def test_another_exponent_of_a_schedule_is_found():
    """Negative control."""
    config = schedules.SCALES["full"]
    rows = scheduled(config, power=lambda pair: 0.1)
    assert schedules._critical_verdict(config, rows, config.exponents[0]).verdict == "fails"


# ------------------------------------------------------------------ decay and ramp, momentum, weight decay


def compared(config, growth):
    """Ratios of ramp over decay that grow like D^growth next to the edge."""
    return [
        ramp_or_decay.Row(
            *pair, shape, samples, tuned, 0.1, share, share, 1.0, 0.6, 1.0, 1 + (1 - tuned) * share * samples**growth
        )
        for pair, shape, samples, (share, tuned) in product(
            config.exponents, config.shapes, config.num_samples, [*zip(config.edge_shares, ZEROS), (1e-4, 1.0)]
        )
    ]


@SCALES
def test_ramp_or_decay(scale, drawn):
    config = ramp_or_decay.SCALES[scale]
    if drawn:
        check_figure(ramp_or_decay._figure(config, compared(config, 0.05)))
    pair = config.exponents[0]
    assert ramp_or_decay._constant_verdict(config, compared(config, 0.0), pair, 0.0).verdict == "holds"
    assert ramp_or_decay._constant_verdict(config, compared(config, 0.2), pair, 0.0).verdict != "holds"
    assert ramp_or_decay._tuned_verdict(config, compared(config, 0.2), pair).verdict == "holds"


def momenta(config, gain):
    """B* with momentum that are `gain(β, D)` times SGD's."""
    kinds = [("SGD", 0.0), *product(config.methods, config.momenta)]
    return [
        momentum.Row(*pair, method, beta, samples, samples**0.3 * (gain(beta, samples) if beta else 1.0), 1e-3)
        for pair, (method, beta), samples in product(config.exponents, kinds, config.num_samples)
    ]


@SCALES
def test_momentum(scale, drawn):
    config = momentum.SCALES[scale]
    rows = momenta(config, lambda beta, samples: (1 + beta) * samples**0.2)
    if drawn:
        check_figure(momentum._figure(config, rows))
    pair = config.exponents[0]
    assert momentum._raises(config, rows, pair).verdict == "holds"
    assert momentum._small_batches(config, rows, 0.0).verdict == "holds"
    if scale == "full":
        verdict = momentum._power(config, rows, pair)
        assert verdict.verdict == "holds"
        assert "lower bound" in verdict.statement  # the largest β is best


def test_a_constant_gain_is_no_power():
    """Negative control, with 5% of scatter."""
    config = momentum.SCALES["full"]
    scatter = dict(zip(config.num_samples, (1.05, 0.95, 1.05, 0.95), strict=False))
    rows = momenta(config, lambda beta, samples: 5 * scatter[samples])
    assert momentum._power(config, rows, config.exponents[0]).verdict == "inconclusive"


@SCALES
def test_weight_decay(scale, drawn):
    config = weight_decay.SCALES[scale]
    rows = [
        weight_decay.Row(*pair, samples, decay, samples**0.3 * (1 + decay), 1e-3 * (1 + decay**2))
        for pair, samples, decay in product(config.exponents, config.num_samples, (0.0, *config.decays))
    ]
    if drawn:
        check_figure(weight_decay._figure(config, rows))
    verdict = weight_decay._verdict(rows, config.exponents[0], 0.0)
    assert verdict.verdict == "holds"
    assert verdict.interval[0] > 1  # the mildest is not none at all
    felt = [row._replace(optimal_risk=row.optimal_risk * (1.1 if row.scaled_decay else 1)) for row in rows]
    assert weight_decay._verdict(felt, config.exponents[0], 0.0).verdict == "inconclusive"
    moving = [row._replace(real_batch_size=row.real_batch_size * (1 + 30 * row.scaled_decay)) for row in rows]
    assert weight_decay._verdict(moving, config.exponents[0], 0.0).verdict == "fails"


# ------------------------------------------------------------------ small runs


@pytest.mark.slow
def test_figures_are_drawn_again_from_what_was_written(tmp_path):
    config = replace(ramp_or_decay.SCALES["quick"], exponents=((2.0, 3.0),), shapes=("half cosine",))
    result = ramp_or_decay.run(config)
    write_result(tmp_path, config, result)
    recorded = Recorded(tmp_path)
    assert recorded.config(ramp_or_decay.Config) == config
    with (tmp_path / "data.csv").open() as file:
        assert len(list(csv.DictReader(file))) == len(recorded.rows)
    assert json.loads((tmp_path / "config.json").read_text())["stages"] == asdict(config)["stages"]
    (again,) = ramp_or_decay.redraw(config, recorded).values()
    lines = zip(again.axes[0].lines, result.figures["ramp_or_decay"].axes[0].lines, strict=True)
    for one, other in lines:
        np.testing.assert_array_equal(one.get_ydata(), other.get_ydata())


@pytest.mark.slow
def test_a_small_run_of_schedules():
    config = replace(schedules.SCALES["quick"], exponents=((2.0, 3.0),), num_samples=(1e6,), critical_samples=(1e6,))
    result = schedules.run(config)
    assert set(result.columns) == set(result.units)
    assert np.isfinite(result.columns["real_batch_size"]).sum() == 3
    assert result.verdicts[-1].interval[0] > 3


# ------------------------------------------------------------------ late gradients


def _late_rows(config, power):
    """B* with this power of the edge, and a best γ that is bounded by the edge."""
    rows = []
    for late in config.delays:
        edge = delay._limit(late)
        rows += [delay.Row(delay.EDGE, late, np.nan, batch, edge, np.nan) for batch in (1.0, delay.LARGE_BATCH)]
        for samples in config.num_samples:
            rows.append(delay.Row(delay.CRITICAL, late, samples, samples**0.4 * (edge / 2) ** power, edge, 1e-3))
    for late, batch in product(config.rate_delays, config.batch_sizes):
        rate = 0.02 * batch / (1 + 0.02 * batch / delay._limit(late))
        rows.append(delay.Row(delay.RATE, late, config.rate_samples, batch, rate, 1e-3))
    return rows


def test_late_gradients_are_judged_by_the_edge():
    config = delay.SCALES["full"]
    found = {each.claim: each.verdict for each in delay.verdicts_of(config, _late_rows(config, 1.0))}
    assert found.pop("control: γ* of undelayed gradients diverges with a delay") == "holds"
    assert found["B* falls in proportion to the stability threshold"] == "holds"
    assert found["control: B* is not that of τ = 0 over 1 + τ"] == "holds"
    check_figure(delay._figure(config, _late_rows(config, 1.0)))
    wrong = {each.claim: each.verdict for each in delay.verdicts_of(config, _late_rows(config, 0.8))}
    assert wrong["B* falls in proportion to the stability threshold"] == "fails"
