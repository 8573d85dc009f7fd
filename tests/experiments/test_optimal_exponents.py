"""The experiment on exponents with the best schedule, on made-up numbers and against searches of its own."""

from itertools import product

import numpy as np
import pytest

import sgdtheory as st
from experiments import optimal_exponents
from experiments._lib.algorithms import UNIFORM
from experiments._lib.best_critical import _root, best_critical
from sgdtheory.optimal import Search
from tests.figure_checks import check_figure
from tests.marks import slow

# Figures of the full scale, which has more panels, are left to the slow tests.
SCALES = pytest.mark.parametrize(("scale", "drawn"), [("quick", True), ("full", False), slow("full", True)])


def exponents(config, saturated=False):
    """B* and R_opt that are the powers of D predicted; or, saturated, Corollary 8's."""
    rows = []
    for (a, b), name, samples in product(config.exponents, config.names, config.num_samples):
        limit = min(b, 2 * a + 1) if saturated or name == UNIFORM else b
        batch, risk = (1 - a / limit, 1 / limit - 1) if b > a else (0.0, -(b - 1) / a)
        more = (1e-8, 1e-5) if name == optimal_exponents.BEST else ()
        height = 2 + config.names.index(name)
        rows.append(optimal_exponents.Row(a, b, name, samples, height * samples**batch, samples**risk / height, *more))
    return rows


def judged(config, rows):
    cases = [optimal_exponents._case(rows, pair) for pair in config.exponents]
    return [
        optimal_exponents._exponent_verdict(config, cases, 0.0),
        optimal_exponents._risk_verdict(config, cases, 0.0),
        *(optimal_exponents._constant_verdict(config, rows, each, 0.0) for each in optimal_exponents._regimes(cases)),
        optimal_exponents._evidence(rows),
    ]


@SCALES
def test_optimal_exponents(scale, drawn):
    config = optimal_exponents.SCALES[scale]
    rows = exponents(config)
    for figure in optimal_exponents._figures(config, rows).values() if drawn else ():
        check_figure(figure)
    assert {each.verdict for each in judged(config, rows)} == {"holds"}


def test_saturation_is_found():
    """Negative control: the exponents of Corollary 8, which differ beyond b = 2a + 1."""
    config = optimal_exponents.SCALES["full"]
    verdicts = judged(config, exponents(config, saturated=True))
    failing = [each.claim for each in verdicts if each.verdict == "fails"]
    assert len(failing) == 3
    assert "the best schedule changes the exponents: b > 2a + 1" in failing


@pytest.mark.parametrize("root", [2.5, 40.3, 12345.6])
def test_the_root_between_whole_numbers(root):
    """The function is known at whole n only."""
    tried = []

    def excess(log_steps):
        steps = np.round(np.exp(log_steps))
        tried.append(steps)
        return float(np.log(steps)), float((root / steps) ** 0.7 - 1)

    assert np.exp(_root(excess, np.log(300.0))) == pytest.approx(root, rel=1e-4 + 0.2 / root**2)
    assert len(tried) < 25


@pytest.mark.slow
def test_critical_batch_size_of_the_best_schedule():
    """Against searches that begin anew at every number of steps, on twice as many knots."""
    problem, samples = st.PowerLaw(2.0, 3.0), 3e3
    found = best_critical(problem, samples, 0.7)

    def risk(steps, used):
        search = Search(problem, steps, used, False, st.LastIterate())
        return search.refined(search.begun(lambda fraction: np.full_like(fraction, 0.5)), 0.35).risk

    target = risk(samples, samples)
    steps = np.round(1.2 * samples / found.real_batch_size)
    above, below = (risk(each, 1.2 * samples) for each in (steps - 2, steps + 2))
    assert below < target < above
    assert found.error < 1e-4
