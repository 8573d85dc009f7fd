"""The experiment on the best batch ramp, on made-up numbers and against steps counted one by one."""

from dataclasses import replace
from itertools import product

import numpy as np
import pytest

import sgdtheory as st
from experiments import optimal_ramp
from experiments.optimal_ramp import BEST_RATES, BOTH, FAR_FROM_EDGE, RAMP, STRATEGIES, Config, Row
from tests.figure_checks import check_figure
from tests.marks import slow

# Figures of the full scale, which has more panels, are left to the slow tests.
SCALES = pytest.mark.parametrize(("scale", "drawn"), [("quick", True), ("full", False), slow("full", True)])


def rows_of(config, power=lambda a: 1 - 1 / (2 * a), saved=0.7, constant=1.02):
    """Ramps that are powers of the steps left, and steps of every strategy."""
    rows = []
    for (a, b), steps, strategy in product(config.exponents, config.num_steps, (RAMP, FAR_FROM_EDGE)):
        left = np.geomspace(1, 1 / steps, 12 * int(np.log10(steps)) + 1)
        samples = steps * config.mean_batch_size
        rows += [Row(a, b, strategy, samples, steps, each, 0.5, each ** -power(a)) for each in left.tolist()]
    needed = dict.fromkeys(STRATEGIES, 2.0) | {BEST_RATES: 1.0, BOTH: saved, RAMP: constant * saved}
    for (a, b), samples, strategy in product(config.exponents, config.num_samples, STRATEGIES):
        steps = needed[strategy] * samples**0.5
        rows.append(Row(a, b, strategy, samples, steps, np.nan, np.nan, samples / steps))
    return rows


def judged(config, rows):
    pair = config.exponents[0]
    return [
        optimal_ramp._shape_verdict(config, rows, pair, RAMP, 0.0).verdict,
        optimal_ramp._steps_verdict(config, rows, pair).verdict,
        optimal_ramp._constant_verdict(config, rows).verdict,
    ]


@SCALES
def test_what_theory_says_holds(scale, drawn):
    config = optimal_ramp.SCALES[scale]
    rows = rows_of(config)
    assert judged(config, rows) == ["holds"] * 3
    for figure in optimal_ramp._figures(config, rows).values() if drawn else ():
        check_figure(figure)


def test_what_it_does_not_say_fails():
    config = optimal_ramp.SCALES["full"]
    assert judged(config, rows_of(config, power=lambda a: 0.5))[0] == "fails"
    assert judged(config, rows_of(config, saved=1.1))[1] == "fails"
    assert judged(config, rows_of(config, constant=1.5))[2] == "fails"


def test_a_strategy_that_never_arrives():
    config = optimal_ramp.SCALES["full"]
    rows = [row._replace(num_steps=np.nan) if row.strategy == "cosine" else row for row in rows_of(config)]
    assert "cosine never" in optimal_ramp._steps_verdict(config, rows, config.exponents[0]).statement


def test_ramps_by_hand():
    """Stages of equal samples; B ∝ 1/cos, so that every stage takes as many samples."""
    doubling = optimal_ramp._doublings(2)
    np.testing.assert_allclose(doubling.fractions, [0, 4 / 7, 6 / 7])
    np.testing.assert_allclose(doubling.values, [1, 2, 4])
    cosine = optimal_ramp._cosine_ramp(50)
    lengths = np.diff([*cosine.fractions, 1])
    np.testing.assert_allclose(lengths * cosine.values, lengths[0] * cosine.values[0])
    assert 1 / (lengths @ cosine.values) == pytest.approx(2 / np.pi, rel=1e-3)  # steps, over those with B = B_0


def test_the_fewest_steps_are_found():
    assert optimal_ramp._fewest(lambda n: 100 / n, 1.0, 2.0, 1e4) == pytest.approx(100, rel=0.01)
    assert optimal_ramp._fewest(lambda n: 1.0, 1.0, 2.0, 1e4) == 2
    assert np.isnan(optimal_ramp._fewest(lambda n: 1.0 + n, 1.0, 2.0, 1e4))


@pytest.mark.slow
def test_a_small_run():
    """The steps of the constant γ with the uniform average are those of a scan over whole batch sizes."""
    config = Config(num_steps=(300.0,), windows=((0.1, 0.5),), num_samples=(200.0,), doublings=(3,), cosine_stages=6)
    result = optimal_ramp.run(config)
    rows = [Row(*cells) for cells in zip(*(column.tolist() for column in result.columns.values()), strict=True)]
    fewest = {row.strategy: row.num_steps for row in rows if np.isnan(row.left)}
    assert set(fewest) == set(STRATEGIES)
    assert fewest[BOTH] < fewest[BEST_RATES]
    problem = st.PowerLaw(2.0, 3.0)
    target = 1.2 * st.optimal_schedule(problem, num_samples=200, batch_size=1).risk
    average = optimal_ramp.AVERAGE
    risks = [
        st.optimal_learning_rate(problem, batch_size=batch, num_samples=200).risk
        for batch in np.floor(200 / (fewest[average] * np.array([0.6, 1.0, 1.7])))
    ]
    assert risks[0] > target > risks[2]
    left, _, batch = optimal_ramp._curve(rows, (2.0, 3.0), RAMP, 300.0)
    assert batch[left < 0.01].min() > 5 * batch[left > 0.3].max()


def test_a_shape_as_it_is_computed():
    """Batch sizes of the best ramps of 100 steps; γ at most the edge, or half of it, of their mean batch size."""
    config = replace(optimal_ramp.SCALES["quick"], num_steps=(100.0,))
    rows = optimal_ramp._solve(config, ("shape", (1.5, 2.0), 100.0))
    edge = st.max_stable_learning_rate(st.PowerLaw(1.5, 2.0), batch_size=config.mean_batch_size)
    for strategy, share in ((RAMP, 1.0), (FAR_FROM_EDGE, 0.5)):
        (left, rate, batch) = optimal_ramp._curve(rows, (1.5, 2.0), strategy, 100.0)
        assert rate.max() == rate.min() <= share * edge * (1 + 1e-5)
        assert left.max() == 1.0
        assert batch.max() > 2 * batch.min() >= 1.0
