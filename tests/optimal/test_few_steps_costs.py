"""Searches among many optima on random functions: how far off they are, and how many values they need."""

from types import SimpleNamespace

import numpy as np
import pytest

from sgdtheory.optimal.few_steps import few_steps, few_steps_near
from sgdtheory.optimal.newton import Searches
from tests.costs import MORE_ERROR, MORE_VALUES
from tests.optimal.counted import Counted


def many_optima(rng, steps, constant, ramp):
    """Return what stands for schedules: a function of log shares with two valleys for each step and a coupling."""
    rates = 1 if constant else steps
    size = rates + (steps if ramp else 0)
    first, second, tilt = rng.uniform(-1.5, -0.8, size), rng.uniform(-0.5, 0.0, size), rng.normal(0, 0.05, size)
    coupling = rng.normal(0, 0.1, (size, size))
    coupling = coupling @ coupling.T / size

    def function(x):
        near, far = x - first, x - second
        away = x - (first + second) / 2
        value = (near**2 * far**2).sum(1) + x @ tilt + np.einsum("si,ij,sj->s", away, coupling, away) / 2
        return value, 2 * near * far * (near + far) + tilt + away @ coupling

    counted = Counted(function, np.full(size, -40.0), np.append(np.zeros(rates), np.full(size - rates, 40.0)))
    counted.freedom = SimpleNamespace(constant=constant, ramp=ramp, highest=0.0)
    counted.run = SimpleNamespace(knots=np.arange(float(steps)))
    counted.rates = rates
    counted.steps = lambda point: (np.broadcast_to(point[:, :rates], (len(point), steps)), point[:, rates:])
    return counted


def of_few(steps, constant, ramp):
    """Number of rows; mean and largest of what is left of the best of 100 random starts; and numbers of searches."""
    rng = np.random.default_rng(0)
    number, left, searches, agreeing = 0, [], 0, 0
    for _ in range(2):
        schedules = many_optima(rng, steps, constant, ramp)
        found = few_steps(schedules)
        number += schedules.number
        again = few_steps_near(schedules, found.varied)
        assert again.risk <= found.risk * (1 + 1e-9)
        begin = rng.uniform(-2, 0, (100, found.varied.shape[1]))
        best = min(np.log(again.risk), Searches(schedules, begin).ended(1e-9).value.min())
        left.append(np.log(found.risk) - best)
        searches += found.searches
        agreeing += found.agreeing
        assert max(found.from_starts.values()) >= found.risk
        assert found.slope < 1e-4
        assert len(found.varied) <= 9
    return number, np.mean(left), np.max(left), searches, agreeing


FEW = {  # steps, whether γ is constant and batches vary: rows, what is left, searches, and those that found the best
    (3, False, False): (2488, 2.46e-12, 4.91e-12, 112, 40),
    (7, False, False): (5107, 0.0, 0.0, 176, 76),
    (12, False, False): (11024, 0.0, 0.0, 304, 82),
    (5, False, True): (6914, 0.0, 0.0, 186, 42),
    (6, True, True): (4307, 1.32e-02, 2.64e-02, 133, 37),
    (4, True, False): (766, 0.0, 0.0, 48, 48),
}


@pytest.mark.parametrize("kind", FEW)
def test_few_steps_cost_no_more_and_are_as_good(kind):
    number, *left, searches, agreeing = of_few(*kind)
    most, *known_left, known_searches, known_agreeing = FEW[kind]
    assert number <= MORE_VALUES * most
    assert (np.array(left) <= MORE_ERROR * np.array(known_left) + 1e-10).all()
    assert searches <= MORE_VALUES * known_searches
    assert abs(agreeing - known_agreeing) <= 1
