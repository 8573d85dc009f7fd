"""The best learning rates of a fitted theory, judged a step at a time."""

import numpy as np
import pytest

from sgdtheory.curves.best_rates import best_rates
from sgdtheory.curves.loss_model import LossModel, losses
from sgdtheory.curves.panels import Optimizer, Panels

STEPS, BATCH, LARGEST = 400, 32.0, 0.4
OPTIMIZER = Optimizer(0.2, 0.0)
SHARE = np.arange(STEPS) / STEPS


def model(noise):
    values = {"capacity": 1.6, "source": 1.9, "signal": 1.0, "noise": noise, "step_size": 0.2, "floor": 2.0}
    return LossModel(**{name: np.array([value]) for name, value in values.items()}, growth=np.zeros(1))


def excess(rates, noise, batch=BATCH):
    """(J,) of the last iterate, with (J, n) rates of every step."""
    rates = np.atleast_2d(rates)
    panels = Panels(np.ones(rates.shape), rates, np.zeros(rates.shape), np.full(rates.shape, batch), ())
    return losses(model(noise), panels, OPTIMIZER)[0, :, -1] - 2


@pytest.fixture(scope="module")
def found():
    return best_rates(model(4.0), OPTIMIZER, STEPS, BATCH, LARGEST)


def test_the_loss_is_that_of_the_rates(found):
    """Straight lines in the logarithm between knots of t/n from 0 to 1."""
    knots, rates, loss = found
    assert (knots[0], knots[-1]) == (0, 1)
    assert (np.diff(knots) > 0).all()
    assert loss - 2 == pytest.approx(excess(np.exp(np.interp(SHARE, knots, np.log(rates))), 4.0)[0], rel=2e-3)


def test_no_other_rates_within_the_bounds_are_better(found):
    """Neither a knot moved by a tenth, nor rates that are constant and then fall along a straight line."""
    knots, rates, _ = found
    assert (rates <= LARGEST * (1 + 1e-12)).all()
    factors = np.concatenate([np.ones((1, knots.size)), *(1 + side * np.eye(knots.size) for side in (0.1, -0.1))])
    moved = [np.exp(np.interp(SHARE, knots, np.log(np.minimum(each * rates, LARGEST)))) for each in factors]
    falls = [top * np.minimum((1 - SHARE) / part, 1) for top in (0.1, 0.2, 0.4) for part in (0.2, 0.5, 0.8, 1.0)]
    best, *others = excess(np.array(moved + falls), 4.0)
    assert min(others) > best * (1 - 1e-4)


def test_without_noise_the_largest_rate_is_best_throughout():
    _, rates, loss = best_rates(model(0.0), OPTIMIZER, STEPS, np.nan, LARGEST)
    np.testing.assert_allclose(rates, LARGEST, rtol=1e-9)
    assert loss - 2 == pytest.approx(excess(np.full(STEPS, LARGEST), 0.0, np.nan)[0], rel=1e-3)


def test_beside_much_noise_the_smallest_rate_is_best():
    """A ten thousandth of the largest."""
    rates = best_rates(model(1e12), OPTIMIZER, STEPS, BATCH, LARGEST)[1]
    assert rates[-1] == pytest.approx(1e-4 * LARGEST)
    assert rates.min() > 0.99e-4 * LARGEST
