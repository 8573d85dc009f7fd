"""Frontiers of random formulas and of a problem: how far off they are, and how many risks they need."""

import numpy as np
import pytest

import sgdtheory as st
from sgdtheory.optimal.frontier import _Best, _crossing, _fewest_steps, _frontier, _Powers
from tests.costs import MORE_VALUES


def known(power, waste):
    """Return the least risk of n steps as a formula of n and B: a bias n^−power, and noise that falls with nB."""
    return lambda steps, batch: steps**-power + waste / (steps * batch) ** 0.9


def of_frontiers():
    """Numbers of risks for frontiers, fewest steps and batch sizes of formulas, and their largest errors."""
    rng = np.random.default_rng(0)
    numbers, errors = np.zeros(3, dtype=int), np.zeros(3)
    for _ in range(12):
        power, waste, target = rng.uniform(0.6, 2.0), 10.0 ** rng.uniform(-0.5, 1), 10.0 ** rng.uniform(-3, -0.7)
        of = known(power, waste)
        asked = []

        def risk(steps, batch, of=of, asked=asked):
            asked.append((steps, batch))
            return of(steps, batch)

        frontier = _frontier(risk, target, 6)
        numbers[0] += len(asked)
        risks = np.array([of(*each) for each in zip(frontier.num_steps, frontier.num_samples / frontier.num_steps)])
        errors[0] = max(errors[0], np.abs(np.log(risks[:-1] / target)).max(), np.log(risks[-1] / target))
        asked.clear()
        fewest = _fewest_steps(lambda n: risk(n, 1e12), target, 1.0)
        errors[1] = max(errors[1], abs(np.log(fewest / max(np.ceil(target ** (-1 / power)), 2.0))))
        numbers[1] += len(asked)
        asked.clear()
        steps = float(np.ceil(3 * fewest))
        guess = 10.0 ** rng.uniform(-4, 0)
        inverse = _crossing(lambda z, n=steps: risk(n, 1 / z), target, guess)
        numbers[2] += len(asked)
        errors[2] = max(errors[2], abs(np.log(of(steps, 1 / inverse) / target)) if inverse < 1 else 0.0)
    return *numbers.tolist(), *errors


def test_frontiers_cost_no_more_and_are_as_close():
    *numbers, frontier, fewest, batch = of_frontiers()
    assert (np.array(numbers) <= MORE_VALUES * np.array([394, 87, 79])).all()
    assert frontier < 1.1e-7
    assert fewest < 1e-12
    assert batch < 2.1e-9


THREE = st.LeastSquares([1.0, 0.3, 0.02], [1.0, 0.5, 0.3], noise_variance=0.5)
WAYS = [  # (n, B), and the least risk; each search begins where the one before has ended
    (_Powers, 60, [(4, 3), (40, 3), (44, 3), (400, 1), (400, 1e12), (5, 1e12)]),
    (_Best, 193, [(80, 5), (90, 5), (90, 2), (90, 1e12), (100, 1e12)]),
]
RISKS = {
    _Powers: [0.605614870, 0.138238842, 0.125272750, 0.0176125813, 5.751690e-13, 0.217478282],
    _Best: [0.0259851447, 0.0208647091, 0.0596943579, 0.000201304718, 8.89773815e-05],
}


@pytest.mark.parametrize(("way", "most", "pairs"), WAYS, ids=lambda value: getattr(value, "__name__", ""))
def test_risks_of_a_frontier_cost_no_more(way, most, pairs, schedules):
    least = way(THREE)
    found = [least(float(steps), float(batch)) for steps, batch in pairs]
    assert schedules["risks"] <= MORE_VALUES * most
    assert (np.array(found) <= np.array(RISKS[way]) * (1 + 1e-6)).all()
