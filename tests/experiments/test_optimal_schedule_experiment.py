"""The experiment on the best schedule, on made-up numbers and in a small run."""

from dataclasses import replace
from itertools import product

import numpy as np
import pytest

import sgdtheory as st
from experiments import optimal_schedule
from experiments._lib.kernel_law import KernelLaw
from experiments._lib.schedule_shapes import exponent_of, windows_of
from sgdtheory.optimal import named_schedules
from tests.figure_checks import check_figure
from tests.marks import slow

# Figures of the full scale, which has more panels, are left to the slow tests.
SCALES = pytest.mark.parametrize(("scale", "drawn"), [("quick", True), ("full", False), slow("full", True)])


# ------------------------------------------------------------------ optimal_schedule


def shapes(config, *, power=lambda a: 2 * a - 1, share=0.0, ahead=0.5, loss=1e-3):
    """Rows in which exponents tend to `power(a)`, halving their distance at every n, and shares of the decay are
    those predicted times n^share; the power overtakes linear decay at n = 10^(2 + ahead), and all schedules lose
    `loss` times their place in the list.
    """
    rows = []
    for (a, b), (place, n) in product(config.exponents, enumerate(config.num_steps)):
        single = {
            "risk": n**-0.5,
            "slope": 1e-7,
            "apart": 1e-3,
            "half": 1e-5,
            "share at the peak": 0.3,
            "share at the edge": 0.3,
            "share of the decay": 0.3 * n ** (share + (b - a) / (2 * a - 1)),
        }
        names = [name for name in optimal_schedule.NAMES if b < a or not name.startswith("WSD, decay ") or "20" in name]
        for rank, name in enumerate(["constant", *names]):
            single[f"risk over the optimum: {name}"] = 1 + loss * (1 + rank)
        single[f"risk over the optimum: {optimal_schedule.LAW}"] = 1 + loss / 10
        if b > a:
            linear = single[f"risk over the optimum: {optimal_schedule.LINEAR}"]
            single[f"risk over the optimum: {optimal_schedule.POWER}"] = linear * 0.9 ** (place - ahead)
        found = [(quantity, np.nan, value) for quantity, value in single.items()]
        for low, _ in windows_of(config, n):
            exponent = power(a) - 0.5**place
            found += [("exponent", low, exponent), ("exponent of the law", low, exponent + 0.01)]
        u = np.append(np.geomspace(1 / n, 0.9, 20), 1.0)
        for quantity in ("learning rate", "learning rate of the law"):
            found += [(quantity, at, at ** (2 * a - 1)) for at in u]
        rows += [optimal_schedule.Row(a, b, n, *each) for each in found]
    return rows


@SCALES
def test_optimal_schedule(scale, drawn):
    config = optimal_schedule.SCALES[scale]
    rows = shapes(config)
    for figure in optimal_schedule._figures(config, rows).values() if drawn else ():
        check_figure(figure)
    verdicts = optimal_schedule._verdicts(config, rows, 0.0)
    undecided = [each.claim for each in verdicts if each.verdict == "inconclusive"]
    assert all("(2a − 1)" in claim for claim in undecided), "the limit of the power takes more than four sizes"
    assert len(undecided) == (scale == "quick")
    assert all(each.verdict == "holds" for each in verdicts if each.claim not in undecided)
    assert optimal_schedule._crossing(config, rows, (2.0, 3.0)) == pytest.approx(10**0.5 * min(config.num_steps))


def test_another_exponent_of_the_schedule_is_found():
    """Negative controls."""
    config = optimal_schedule.SCALES["full"]
    pair, hard = (2.0, 3.0), (2.0, 1.5)
    other = shapes(config, power=lambda a: 2 * a - 1.4)
    assert optimal_schedule._power_verdict(config, other, pair, 0.0).verdict == "fails"
    assert optimal_schedule._decay_verdict(config, shapes(config, share=0.1), hard, 0.0).verdict == "fails"
    assert optimal_schedule._wsd_verdict(config, shapes(config, loss=0.01), hard).verdict == "fails"
    never = shapes(config, ahead=100)
    assert optimal_schedule._crossing_verdict(config, never, pair).verdict == "inconclusive"
    assert "linear decay is ahead throughout" in optimal_schedule._crossing_verdict(config, never, pair).measured


def test_the_exponent_of_a_power():
    """Knots are where log γ is known; u = 1 is one of them."""
    u = np.append(np.geomspace(1e-4, 0.99, 400), 1.0)[::-1]
    assert exponent_of(u, u**3, (0.3, 0.8)) == pytest.approx(3, abs=1e-3)
    assert exponent_of(u, u**3, (0.01, 0.03)) == pytest.approx(3, abs=1e-3)


@pytest.fixture(scope="module")
def law():
    problem = st.PowerLaw(2.0, 3.0)
    best = st.optimal_schedule(problem, num_samples=800, batch_size=4)
    return KernelLaw(problem, best, 4)


def test_the_law_is_what_it_says(law):
    """γ = c/√K(s), s the sum of γ over the steps that are left, summed one by one here."""
    level = 0.01
    rates = law.rates(level, law.edge)
    every = np.exp(np.interp(np.log(200 - np.arange(200)), np.log(200 - law.steps)[::-1], np.log(rates)[::-1]))
    left = np.cumsum(every[::-1])[::-1] - every / 2
    directions = np.arange(1, 20_001.0) ** -2.0
    kernel = np.array([(directions**2 * np.exp(-2 * directions * s)).sum() for s in left])
    np.testing.assert_allclose(every[:-5] * np.sqrt(kernel)[:-5] / level, 1, rtol=0.03)
    assert law.rates(level, 0.05).max() == pytest.approx(0.05)


def test_the_law_loses_little(law):
    """And its constant matters: with twice the best the risk is higher by more than a percent."""
    assert 1 <= law.risk(law.tuned) / law.best.risk < 1.003
    least = min(each.risk for each in named_schedules(law.problem, law.best).values() if each.loss > 0)
    assert law.risk(law.tuned) < least


# ------------------------------------------------------------------ a small run


@pytest.mark.slow
def test_a_small_run():
    config = replace(optimal_schedule.SCALES["quick"], exponents=((2.0, 3.0),), num_steps=(1e2, 3e2, 9e2))
    result = optimal_schedule.run(config)
    assert set(result.columns) == set(result.units)
    assert result.verdicts[-1].verdict == "holds"
