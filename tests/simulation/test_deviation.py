"""The standard deviation that truncation goes by, against that of simulated replicas and the closed form."""

import jax
import numpy as np
import pytest

import sgdtheory as st
from sgdtheory.simulation.deviation import standard_deviation
from tests.marks import slow
from tests.simulation.small import PROBLEM

QUANTITIES = ["total", "bias", "variance"]
SGD = st.Algorithm()
MOMENTUM = st.Algorithm(st.HeavyBall(0.7), st.Cosine(0.1, warmup=0.2), st.Linear(2.5), st.LastIterate())
FREE = st.Algorithm(st.ScheduleFree(0.8), average=st.LastIterate())
ACCELERATED = st.Algorithm(
    st.AcceleratedSGD(0.8, 0.2, 2.0),
    lambda t: 1 / (1 + t / 9),
    lambda t: 1 + t % 3 / 2,
    st.ExponentialAverage(window=0.3),
)
DECAY = st.Algorithm(
    st.SGD(weight_decay=0.3),
    st.Stages([0, 0.3, 0.8], [1, 0.6, 0.2]),
    st.Stages([0, 0.5], [0.5, 2]),
    st.TailAverage(0.4),
)
CASES = {  # problem, algorithm, B, γ, n
    "averaged": (PROBLEM, SGD, 4, 0.3, 30),
    "a power law": (st.PowerLaw(2.0, 1.5, 64), SGD, 16, 0.4, 40),
    "a power law, large batches": (st.PowerLaw(1.5, 3.0, 64, 2.0), SGD, 64, 0.5, 100),
    "momentum": (PROBLEM, MOMENTUM, 4, 0.12, 40),
    "schedule-free": (PROBLEM, FREE, 4, 0.12, 40),
    "accelerated": (PROBLEM, ACCELERATED, 4, 0.12, 40),
    "weight decay": (PROBLEM, DECAY, 4, 0.12, 40),
}


def arrays(batch, rate, steps):
    values = {"batch_size": batch, "learning_rate": rate, "num_samples": batch * steps}
    return {name: np.asarray(float(value)) for name, value in values.items()}


@pytest.mark.parametrize("name", [name if name in ("averaged", "momentum") else slow(name) for name in CASES])
@pytest.mark.parametrize("quantity", QUANTITIES)
def test_the_deviation_is_estimated_from_below_but_not_far(name, quantity):
    """A standard deviation of 4000 replicas is known to a few per cent."""
    problem, algorithm, *setting = CASES[name]
    options = {"num_replicas": 4000, "quantity": quantity, "algorithm": algorithm}
    found = st.simulate(jax.random.key(0), problem, **arrays(*setting), **options)
    estimate = float(standard_deviation(problem, arrays(*setting), algorithm, quantity))
    assert 0.6 < estimate / found.excess_risk.std() < 1.1


@pytest.mark.parametrize("quantity", QUANTITIES)
def test_the_deviation_step_by_step_is_that_of_the_closed_form(quantity):
    problem, setting = st.PowerLaw(2.0, 1.5), arrays(8, 0.05, 100)
    closed = float(standard_deviation(problem, setting, quantity=quantity))
    by_steps = standard_deviation(problem, setting, st.Algorithm(average=st.TailAverage(1.0)), quantity)
    assert by_steps == pytest.approx(closed, rel=0.02)


def test_standard_deviation_without_randomness_is_zero():
    assert standard_deviation(st.LeastSquares([1.0], [0.0], 0.0), arrays(4, 0.4, 50)) == 0
    assert standard_deviation(PROBLEM, arrays(4, 0.4, 1)) == 0  # n = 1: the average is w_0


@pytest.mark.parametrize(
    "algorithm",
    [MOMENTUM, FREE, DECAY, st.Algorithm(st.DelayedSGD(3), average=st.TailAverage(0.5))],
    ids=lambda each: type(each.method).__name__,
)
def test_the_deviation_of_one_direction_in_large_batches_is_that_of_its_exact_risks(algorithm):
    """Then V is that of label noise: the two other sources of noise are 1e-6 of it, 1/B and s/σ²."""
    problem, setting = st.LeastSquares([0.7], [1e-6], 1.0), arrays(1e6, 0.15, 20)
    risk = st.excess_risk(problem, **setting, algorithm=algorithm)
    assert risk.bias > 0.01 * risk.variance
    total, variance = (standard_deviation(problem, setting, algorithm, each) for each in ("total", "variance"))
    assert float(total) == pytest.approx(np.sqrt(2 * risk.variance**2 + 4 * risk.bias * risk.variance), rel=2e-6)
    assert float(variance) == pytest.approx(np.sqrt(2) * risk.variance, rel=2e-6)
