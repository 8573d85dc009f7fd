"""Experiment `branching`: exact branches by an own recursion, verdicts of made-up tables, all of it tiny."""

from dataclasses import replace

import numpy as np
import pytest

import sgdtheory as st
from experiments import branching as experiment
from experiments._lib import branching_measures as measures
from experiments._lib import branching_verdicts as verdicts
from experiments._lib.branching_measures import Row
from experiments._lib.redraw import Recorded
from experiments._lib.results import write_result
from tests.figure_checks import check_figure

PROBLEM = st.PowerLaw(2.0, 3.0, dim=12, noise_variance=1.0)
LIMITS = verdicts.Limits(0.2, 2.0, 0.95)
PLACES = np.array([100.0, 200, 400, 800, 1600])
TINY = {"input_dim": 4, "base_width": 8, "holdout_size": 16, "noise_variance": 1.0, "averages": (0.8,)}


def stepped(rate, samples, catch_up, factor):
    """Risk of the last iterate by the diagonal recursion of second moments (T2), B and γ times k from D samples on."""
    values = np.arange(1.0, 13) ** -2.0
    risks = np.arange(1.0, 13) ** -3.0
    for number, size in (samples, 1), (catch_up // factor, factor):
        x = size * rate * values
        for _ in range(number):
            risks = (1 - x) ** 2 * risks + x**2 / size * (risks + risks.sum() + 1.0)
    return risks.sum()


@pytest.mark.parametrize("tolerance", [0.02, 0.1])
def test_exact_branching_is_that_of_the_recursion(tolerance):
    found = measures.exact_branching(PROBLEM, 0.05, 300, 128, tolerance)
    factors = 2 ** np.arange(7)
    excess = np.array([stepped(0.05, 300, 128, factor) for factor in factors])
    excess = excess / excess[0] - 1
    last = int(np.flatnonzero(excess > tolerance)[0])
    share = (tolerance - excess[last - 1]) / (excess[last] - excess[last - 1])
    assert found == pytest.approx(2 ** (last - 1 + share), rel=1e-6)
    assert measures.exact_branching(PROBLEM, 0.025, 300, 128, tolerance) > 1.3 * found  # less near the edge


def test_a_run_that_has_come_to_its_noise_measures_its_own_learning_rate():
    """T15: x* B/γ by branching and 2 (tr H/tr H²) B/γ by the noise scale, at every D; not so before."""
    values, rate, tolerance = np.arange(1.0, 13) ** -2.0, 0.002, 0.1
    inflation = np.array([(values / (2 - 2**j * rate * values)).sum() for j in range(9)])
    excess = inflation / inflation[0] - 1
    last = int(np.flatnonzero(excess > tolerance)[0])
    share = (tolerance - excess[last - 1]) / (excess[last] - excess[last - 1])
    late = 1 << 20
    found = [measures.exact_branching(PROBLEM, rate, samples, 1 << 15, tolerance) for samples in (late, 2 * late, 512)]
    np.testing.assert_allclose(found[:2], 2 ** (last - 1 + share), rtol=0.01)
    assert found[2] > 1.2 * found[0]
    setting = {"batch_size": 1, "learning_rate": rate, "algorithm": measures.LAST}
    noise = st.gradient_noise_scale(PROBLEM, num_samples=[late, 512], **setting).simple
    constant = 2 * values.sum() / (values**2).sum() / rate
    assert noise[0] == pytest.approx(constant, rel=0.01)
    assert noise[1] < 0.5 * constant


def made(power, target, *, noise=0.0, measure="branching", scale=1.0, rates=(0.1,)):
    """A table: a measure ∝ D^power/γ, the first γ the best, and what it is to tell, ∝ D^target."""
    rng = np.random.default_rng(0)
    rows = []
    for place, rate in enumerate(rates):
        for samples in PLACES:
            size = scale * samples**power * rates[0] / rate * np.exp(noise * rng.standard_normal())
            tolerance = 0.1 if measure == "branching" else np.nan
            rows.append(Row("task", measure, tolerance, samples, rate, int(place == 0), 1.0, size, size, size))
    for samples in PLACES:
        size = samples**target * np.exp(0.01 * rng.standard_normal())
        rows += [
            Row("task", name, 0.2, samples, np.nan, 1, 1.0, size, size, size) for name in ("definition", "balance")
        ]
    return rows


@pytest.mark.parametrize("measure", ["branching", "noise"])
def test_growth_is_told_from_standing_still(measure):
    settings = measure, 0.1, 0.1, LIMITS
    assert verdicts.growth_verdict(made(0.4, 0.4, noise=0.02, measure=measure), "task", *settings).verdict == "holds"
    assert verdicts.growth_verdict(made(0.0, 0.4, noise=0.02, measure=measure), "task", *settings).verdict == "fails"
    assert verdicts.growth_verdict(made(0.3, 0.4, noise=0.8, measure=measure), "task", *settings).verdict == (
        "inconclusive"
    )
    assert verdicts.growth_verdict(made(0.4, 0.4, measure=measure)[:2], "task", *settings).verdict == "inconclusive"
    open_ended = [each._replace(batch_size=np.inf) for each in made(0.4, 0.4, measure=measure)]
    assert "fewer than three" in verdicts.growth_verdict(open_ended, "task", *settings).statement


@pytest.mark.parametrize(("scale", "answer"), [(1.5, "holds"), (5.0, "fails"), (2.0, "inconclusive")])
def test_ratios_are_told(scale, answer):
    verdict = verdicts.ratio_verdict(made(0.4, 0.4, scale=scale), "task", "branching", 0.1, (0.1,), LIMITS)
    assert verdict.verdict == answer
    assert verdict.measured == pytest.approx(scale, rel=0.03)


def test_the_power_of_the_learning_rate_is_told():
    rows = made(0.2, 0.4, noise=0.05, rates=(0.1, 0.2, 0.4))
    assert verdicts.rate_verdict(rows, "task", "branching", -1.0, 0.1, LIMITS).verdict == "holds"
    assert verdicts.rate_verdict(rows, "task", "branching", 0.0, 0.1, LIMITS).verdict == "fails"
    assert verdicts.rate_verdict(rows[:5], "task", "branching", -1.0, 0.1, LIMITS).verdict == "inconclusive"


@pytest.mark.slow
def test_theory_is_held_against_its_own_exponents():
    """At one γ late in the run nothing grows, at each D's best all do; measures that are swapped must fail."""
    rows = measures.theory_rows("law", st.PowerLaw(2.0, 3.0), (256, 4096, 16384, 65536), 0.02, (0.1,), 0.5)
    found = verdicts.theory_verdicts(rows, "law", 0.02, 4096, 0.1, LIMITS)
    assert [each.verdict for each in found] == ["holds", "holds"]
    wrong = [each._replace(best=1 - each.best, learning_rate=0.04 - each.learning_rate) for each in rows]
    wrong = [each._replace(best=1) if each.measure in ("definition", "averaged") else each for each in wrong]
    assert verdicts.theory_verdicts(wrong, "law", 0.02, 4096, 0.1, LIMITS)[1].verdict == "fails"


@pytest.fixture(scope="module")
def tiny():
    adam = replace(
        experiment.ADAM,
        fields=TINY,
        widths=(8,),
        batch_sizes=(4, 8, 16, 32),
        targets=(0.9, 0.8, 0.7),
        samples=400,
        plateau_steps=40,
    )
    names = "teacher, SGD", "teacher, Adam"
    config = experiment.Config(
        theory_samples=(256, 1024, 4096),
        theory_late=256,
        tasks=dict(zip(names, (replace(adam, fields=TINY | {"optimizer": "sgd"}), adam), strict=True)),
        checkpoints=dict.fromkeys(names, (64, 128, 256)),
        factors=(1, 2, 4, 8, 16),
        num_seeds=dict.fromkeys(names, 3),
        fixed_catch_up=dict.fromkeys(names, 64),
    )
    return config, experiment.run(config)


@pytest.mark.slow
def test_the_experiment(tiny, tmp_path):
    """All of it, tiny; and the figure from the table that it wrote."""
    config, result = tiny
    assert set(result.columns["measure"]) <= {"branching", "fixed", "noise", "definition", "averaged", "balance"}
    assert len(result.verdicts) == 2 + 10 + 10
    assert (np.unique(result.columns["problem"]) == sorted(["a = 2, b = 3", *config.tasks])).all()
    branches = result.columns["measure"] == "branching"
    own = branches & (result.columns["problem"] == "teacher, Adam")
    assert own.sum() == 2 * 3 * 2  # rates, checkpoints, tolerances
    check_figure(result.figures["branching"])
    write_result(tmp_path, config, result)
    recorded = Recorded(tmp_path)
    redrawn = experiment.redraw(recorded.config(experiment.Config), recorded)
    check_figure(redrawn["branching"])
    first, second = (
        figure.axes[1].lines[0].get_xydata() for figure in (result.figures["branching"], redrawn["branching"])
    )
    np.testing.assert_allclose(first, second)
