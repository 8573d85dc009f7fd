"""Schedules with a name against scans of their peak, as far as the stability edge."""

import numpy as np
import pytest

import sgdtheory as st
from sgdtheory.algorithms import Algorithm, LastIterate, PowerDecay, TailAverage
from sgdtheory.optimal.named import NAMED, named_schedules

PROBLEM = st.LeastSquares([1.0, 0.2], [0.5, 1.0], noise_variance=0.3)


@pytest.mark.parametrize(("batch", "steps"), [(3, 8), (10_000, 3)])
def test_peaks_are_the_best_up_to_the_edge(batch, steps):
    """Some peaks would be better beyond the threshold with few steps of large batches."""
    best = st.optimal_schedule(PROBLEM, num_samples=batch * steps + batch // 2, batch_size=batch)
    found = named_schedules(PROBLEM, best)
    assert set(found) == set(NAMED)
    edge = float(st.max_stable_learning_rate(PROBLEM, batch_size=batch))
    rates = edge * np.append(np.linspace(0.01, 0.99, 99), 1.0)
    for name, each in found.items():
        setting = {"batch_size": batch, "num_samples": batch * steps, "algorithm": each.algorithm}
        risks = st.excess_risk(PROBLEM, learning_rate=rates, **setting).total
        assert each.risk <= risks.min() * (1 + 1e-9), name
        assert each.risk == pytest.approx(risks.min(), rel=1e-2), name
        here = st.excess_risk(PROBLEM, learning_rate=each.learning_rate, **setting).total
        assert each.risk == pytest.approx(here, rel=1e-9), name
        assert each.loss == pytest.approx(here / best.risk - 1, abs=1e-9)
        assert each.learning_rate <= edge
    at_edge = [each.learning_rate == edge for each in found.values()]
    assert any(at_edge)
    assert not all(at_edge)
    losses = [each.loss for each in found.values()]
    assert losses == sorted(losses)


def test_names_say_what_is_run():
    assert NAMED["power 3"] == Algorithm(schedule=PowerDecay(3.0), average=LastIterate())
    assert NAMED["constant, tail average"].average == TailAverage(0.5)
    assert len({repr(each) for each in NAMED.values()}) == len(NAMED)
