"""The experiment on passes, on made-up worths and batch sizes."""

from dataclasses import replace
from itertools import product

import numpy as np
import pytest

from experiments import epochs
from experiments._lib.worth_of_passes import Cell, worth
from tests.figure_checks import check_figure


def made_up(config, *, left=lambda pair, noise, size: 2.0, gain=0.9, power=1.0, stop=1.3, fall=-1.0):
    """Passes worth what the law says with R = left, reshuffled risks `gain` times the others, B* a power of K."""
    rows = []
    for pair, noise, size in product(config.exponents, config.noises, config.num_rows):
        for order, passes in product((epochs.DRAWN, epochs.RESHUFFLED), config.passes):
            drawn = order == epochs.DRAWN
            worth = float(epochs.repeated(np.array(passes), left(pair, noise, size))) * (0.8 if drawn else 1)
            risk = 0.1 / worth * (1 if drawn else gain)
            fixed = risk * (stop if passes == max(config.passes) else 1)
            rows.append(epochs.Row("worth", *pair, noise, size, passes, order, 4, passes**fall, risk, worth, fixed))
    for pair, size in product(config.critical_exponents, config.critical_rows):
        orders = {epochs.DRAWN: power, epochs.FRESH: 0.3}
        for (order, own), passes in product(orders.items(), config.critical_passes):
            batch = size**0.3 * passes**own
            nan = float("nan")
            rows.append(epochs.Row("critical", *pair, config.noises[0], size, passes, order, batch, 0.1, 0.1, nan, nan))
    return rows


def judged(config, rows):
    return {verdict.claim.split(":")[0]: verdict for verdict in epochs._verdicts(config, rows, 0.0)}


def quieter_is_worth_more(pair, noise, size):
    return 2.0 / noise**0.3 * (size**0.4 if pair[1] < pair[0] else 1.0)


@pytest.mark.parametrize("scale", ["quick", "full"])
def test_all_hold_where_all_is_as_said(scale):
    config = epochs.SCALES[scale]
    rows = made_up(config, left=quieter_is_worth_more)
    found = judged(config, rows)
    assert {verdict.verdict for verdict in found.values()} == {"holds"}
    assert found["one number R predicts what epochs are worth"].measured == "0.0%"
    if scale == "full":
        check_figure(epochs._figure(config, rows))


@pytest.mark.parametrize(
    ("changed", "claim"),
    [
        ({"gain": 1.3}, "a new order in each epoch beats drawing with replacement"),
        ({"left": lambda pair, noise, size: 2.0 * noise}, "label noise lowers what four epochs are worth"),
        ({"power": 0.2}, "B* grows faster with epochs than with data"),
        ({"fall": -0.2}, "with many epochs γ K is fixed, like early stopping"),
        ({"stop": 1.0}, "epochs overfit at a fixed γ, not at the best γ"),
        ({"left": lambda pair, noise, size: size**0.5 / noise**0.3}, "worth of all epochs as a function of N"),
    ],
)
def test_each_claim_can_fail(changed, claim):
    config = replace(epochs.SCALES["full"], exponents=((1.5, 2.0),))
    rows = made_up(config, **{"left": quieter_is_worth_more, **changed})
    assert judged(config, rows)[claim].verdict == "fails"


def test_another_shape_fails_and_the_law_is_found_again():
    passes = np.array([1.0, 2, 4, 16, 64])
    assert epochs.fitted(passes, epochs.repeated(passes, 3.0)) == pytest.approx((3.0, 0.0), abs=1e-3)
    assert epochs.fitted(passes, passes**0.5)[1] > 0.15


@pytest.mark.slow
def test_a_small_run():
    """One reshuffled pass is one pass, to 1%."""
    found = worth(Cell((1.5, 2.0), 1.0, 64, epochs.RESHUFFLED), (1, 4), epochs.Config().batch_size)
    assert found[0].worth == pytest.approx(1.0, rel=0.01)
    assert 1.3 < found[1].worth < 2.5
