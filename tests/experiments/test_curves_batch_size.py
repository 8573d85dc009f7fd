"""The experiment on loss curves at one batch size."""

from dataclasses import replace

import numpy as np
import pytest

import sgdtheory as st
from experiments import curves_batch_size as experiment
from experiments._lib.batch_curves import FLOOR, Losses, num_steps, theory_curve, theory_run, thinned
from experiments._lib.redraw import FOLDER, Recorded
from tests.curves.theory_curves import linear_intervals
from tests.figure_checks import check_figure

CONFIG = replace(experiment.SCALES["full"], problems=((1.6, 1.9, 4.0),))


def test_steps_to_a_target_lie_between_rows_by_a_line_in_log_loss():
    run = Losses(np.array([0.0, 10, 20, 30]), np.array([8.0, 4, 1, 2]))
    assert run.steps_to(2.0) == pytest.approx(15)
    assert run.steps_to(9.0) == 0
    assert np.isnan(run.steps_to(0.5))


def test_smoothing_keeps_a_power_law_and_takes_out_scatter():
    step = np.arange(0.0, 4000, 20)
    power = 3 * np.maximum(step, 1) ** -0.5
    noise = np.exp(0.1 * np.random.default_rng(0).standard_normal(step.size))
    late = step[1:] > 1000
    middle = slice(100, -15)  # where a window holds many rows, and does not end with the run
    assert Losses(step, power).smooth().loss[middle] == pytest.approx(power[1:][middle], rel=0.003)
    assert np.abs(np.log(Losses(step, power * noise).smooth().loss / power[1:]))[late].max() < 0.1


def test_curves_that_are_fitted():
    run = Losses(np.arange(0.0, 4001, 20), np.linspace(2, 1, 201))
    curve = thinned(run, np.full(201, 0.1), 32)
    assert curve.step[0] == 40
    assert curve.step[-1] == 4000
    assert num_steps(32, 32, 4000, 1000, 8000) == 4000
    assert num_steps(4, 32, 4000, 1000, 8000) == 8000
    law = st.PowerLaw(1.6, 1.9, noise_variance=4.0)
    random = np.random.default_rng(0)
    found = theory_curve(law, "cosine", 0.2, 32, 2000, 0.0, random)
    exact = st.excess_risk(
        law,
        batch_size=32,
        learning_rate=0.2,
        num_samples=64000,
        algorithm=st.Algorithm(schedule=st.Cosine(final=0.1), average=st.LastIterate()),
    )
    assert found.loss[-1] - FLOOR == pytest.approx(exact.total, rel=1e-3)
    assert np.isnan(theory_run(law, "constant", 3.0, 4, 100).steps_to(1.0))  # it diverges


def made(error):
    """Rows of every case where predictions are off by a factor error(B, γ)."""
    rows = []
    for case in CONFIG.cases:
        rates = CONFIG.theory_rates if case.startswith("theory") else CONFIG.rates_of(case)
        for trial in range(CONFIG.trials):
            random = np.random.default_rng(trial)
            for target in CONFIG.targets_of(case):
                for batch in CONFIG.batches:
                    for rate in rates:
                        steps = (100 + 3000 / batch) * (1 + abs(np.log(rate / rates[1]))) / target
                        scatter = np.exp(0.03 * random.standard_normal())
                        place = case, trial, target, float(batch), rate
                        rows.append(experiment.Row(*place, steps, steps * scatter * error(batch)))
    return rows


@pytest.mark.parametrize(
    ("error", "verdicts"),
    [
        (lambda batch: 1.0, {"steps": "holds", "B*": "holds", "at one γ": "holds"}),
        (
            lambda batch: (batch / 32) ** 0.5,
            {"steps": "fails", "B*": "fails", "at one γ": "fails"},
        ),
        (lambda batch: 2.0, {"steps": "fails", "B*": "holds", "at one γ": "holds"}),
    ],
)
def test_verdicts(error, verdicts):
    for verdict in experiment._verdicts(CONFIG, made(error), 0.0):
        kind = next(name for name in verdicts if verdict.claim.startswith(name))
        assert verdict.verdict == verdicts[kind], verdict


def test_slope_is_the_exponent_of_the_error():
    rows = made(lambda batch: (batch / 32) ** 0.5)
    found = experiment.slope(rows, "Adam", 0, 0.1, 0.002)
    assert found == pytest.approx(0.5, abs=0.1)  # scatter 0.03 over log(32) at six batch sizes: ±0.01


def test_figure():
    recorded = Recorded(FOLDER / "curves_batch_size")
    (figure,) = experiment.redraw(recorded.config(experiment.Config), recorded).values()
    check_figure(figure, data=False)


@pytest.mark.slow
def test_run():
    networks = {"batches": (32, 128), "sgd_rates": (0.1,), "adam_rates": (0.002,), "steps": (750, 300, 1250)}
    with linear_intervals():
        result = experiment.run(replace(experiment.SCALES["quick"], trials=1, theory_batches=(32, 128), **networks))
    failing = [each.claim for each in result.verdicts if each.verdict == "fails"]
    assert not any("theory" in claim for claim in failing), "of networks, not of what the theory is exact for"
    steps = {each.claim: each.measured for each in result.verdicts if each.claim.startswith("steps")}
    assert steps["steps at other batch sizes: theory, a = 1.6, b = 1.9, σ² = 4"] == pytest.approx(1, abs=0.15)
