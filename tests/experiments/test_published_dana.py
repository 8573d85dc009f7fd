"""Verdicts on DANA and momentum schedules, on made-up risks with the published exponents and with others."""

from itertools import product

import numpy as np
import pytest

from experiments._lib import published_dana as dana
from experiments._lib.published_dana import CONSTANT, DECAYING, FREE, MOMENTUM, Momentum
from experiments._lib.published_dana_verdicts import momentum_figure, momentum_verdicts
from experiments._lib.published_theory import SGD, Row
from tests.figure_checks import check_figure

CONFIG = Momentum()


def made_up(config, decaying=0.0, constant=1.0, final=0.0, plain=0.0, hard=0.1, ratio=1.2):
    """Rows whose exponents differ from those of theory by `decaying`, `plain` and so on.

    Args:
        config: problems.
        decaying: added to the exponent of DANA-decaying.
        constant: power of d in the steps after which DANA-constant accelerates.
        final: added to the exponent of DANA-constant after it has accelerated.
        plain: added to the exponents of momentum and schedule-free SGD.
        hard: gain of the exponent by DANA for b < a.
        ratio: B* of DANA over that of SGD.
    """
    rows = []
    n = np.geomspace(1, config.steps, 46)

    def path(method, pair, size, numbers, risks):
        table = zip(numbers.tolist(), risks.tolist(), strict=True)
        rows.extend(Row("dana", method, *pair, f"d = {size:g}", number, 1, 0.3, risk) for number, risk in table)

    for pair in config.paths:
        power = dana.exponent(pair)
        powers = {SGD: power, MOMENTUM: power + plain, FREE: power + plain}
        powers[DECAYING] = dana.acceleration(pair) * power + decaying
        for method, each in powers.items():
            path(method, pair, config.directions, n, n**-each)
        for size in config.sizes if pair in config.wide else ():
            longer = np.geomspace(1, 1e4 * size, 70)
            faster = (1 + longer / (50 * size**constant)) ** -(power + final)
            path(CONSTANT, pair, size, longer, longer**-power * faster)
    for pair, number in product(config.hard, config.hard_steps):
        power = (pair[1] - 1) / pair[0]
        rows.append(Row("hard", SGD, *pair, "linear", number, 1, 0.1, number**-power))
        rows.append(Row("hard", DECAYING, *pair, "linear", number, 1, 0.1, number ** -(power + hard)))
    for pair in config.critical:
        for method, size in ((SGD, 100.0), (DECAYING, 100.0 * ratio)):
            rows.append(Row("critical", method, *pair, "linear", config.critical_samples, size, 0.1, 0.1))
    return rows


@pytest.mark.parametrize("config", [CONFIG, dana.QUICK], ids=["full", "quick"])
def test_rows_that_have_the_published_exponents(config):
    assert {each.verdict for each in momentum_verdicts(config, made_up(config))} == {"holds"}


@pytest.mark.slow
def test_figure():
    check_figure(momentum_figure(CONFIG, made_up(CONFIG)))


def test_rows_that_do_not_have_them():
    """Negative control: exponents off by 0.05, DANA-constant that accelerates after √d steps, and no gain at all."""
    rows = made_up(CONFIG, decaying=-0.05, constant=0.5, final=-0.05, plain=0.05, hard=0.0, ratio=0.9)
    assert {each.verdict for each in momentum_verdicts(CONFIG, rows)} == {"fails"}


def test_exponents_of_theory():
    """α = 1, β = 0.3 and 1.5 of the papers: the bias decides for β < α, the noise of the steps beyond."""
    assert dana.exponent((2.0, 2.6)) == pytest.approx(0.8)
    assert dana.exponent((2.0, 5.0)) == pytest.approx(1.5)
    assert dana.acceleration((2.0, 5.0)) == pytest.approx(1.5)
    assert dana.damping((2.0, 2.6)) == pytest.approx(5.3)


@pytest.mark.slow
def test_exact_risks_have_them():
    rows = [row for item in dana.momentum_items(dana.QUICK) for row in dana.of_momentum_item(dana.QUICK, *item)]
    assert {each.verdict for each in momentum_verdicts(dana.QUICK, rows)} == {"holds"}
