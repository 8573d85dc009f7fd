import re

import jax
import numpy as np
import pytest

import sgdtheory as st
from sgdtheory.risk.reference import risk_by_recursion
from sgdtheory.simulation import truncation
from sgdtheory.simulation.deviation import standard_deviation
from sgdtheory.simulation.truncation import FrozenTail, truncate
from tests.simulation.statistical import normal_limit

INDEX = np.arange(1.0, 41)
FINITE = st.LeastSquares(INDEX**-2, INDEX**-1.5, 0.5)
QUANTITIES = ["total", "bias", "variance"]


def arrays(batch_size=4, learning_rate=0.4, num_samples=200):
    values = np.broadcast_arrays(*(np.asarray(v, float) for v in (batch_size, learning_rate, num_samples)))
    return dict(zip(("batch_size", "learning_rate", "num_samples"), values, strict=True))


def truncated(problem, dim, settings=None, num_replicas=16, quantity="total"):
    settings = settings or arrays()
    return truncate(problem, dim, settings, num_replicas=num_replicas, quantity=quantity, dtype="float32")


def by_recursion(eigenvalues, signal, quantity):
    parts = risk_by_recursion(eigenvalues, signal, 0.5, batch_size=4, learning_rate=0.4, num_steps=50)
    return {"bias": parts[0], "variance": parts[1], "total": sum(parts)}[quantity]


@pytest.mark.parametrize("quantity", QUANTITIES)
def test_shift_is_that_of_freezing_the_tail(quantity):
    kept = truncated(FINITE, 25, num_replicas=2, quantity=quantity)
    frozen = np.append(INDEX[:25] ** -2, 0.0), np.append(INDEX[:25] ** -1.5, (INDEX[25:] ** -1.5).sum())
    exact = by_recursion(*frozen, quantity) - by_recursion(INDEX**-2, INDEX**-1.5, quantity)
    assert kept.dim == 25
    assert float(kept.shift) == pytest.approx(exact, rel=1e-6)
    assert kept.tail_risk == pytest.approx(0 if quantity == "variance" else (INDEX[25:] ** -1.5).sum())


def test_shift_has_one_number_for_each_setting():
    settings = arrays([[1.0], [8.0]], 0.1, [8.0, 16.0, 24.0])
    kept = truncated(FINITE, 35, settings, num_replicas=2)
    assert kept.shift.shape == (2, 3)
    alone = truncated(FINITE, 35, arrays(8.0, 0.1, 16.0), num_replicas=2)
    assert kept.shift[1, 1] == pytest.approx(float(alone.shift), rel=1e-9)


def test_frozen_tail_holds_all_signal():
    frozen = FrozenTail(FINITE, 10)
    modes = frozen.modes(1e-3)
    assert modes.signal.sum() == pytest.approx(FINITE.initial_risk)
    assert frozen.tail_risk == pytest.approx((INDEX[10:] ** -1.5).sum())
    assert (modes.eigenvalue[-1], modes.multiplicity[-1]) == (0.0, 1.0)
    assert frozen.noise_variance == 0.5


@pytest.mark.parametrize("problem", [FINITE, st.PowerLaw(1.5, 1.5, 40), st.PowerLaw(2.0, 3.0, 131072)])
def test_finite_problems_are_simulated_whole_unless_asked(problem):
    assert truncated(problem, None) is None
    assert truncated(problem, problem.dim) is None
    assert truncated(problem, problem.dim + 1) is None


def needed_dim(problem, dim, **options):
    named = "infinitely many" if problem.dim is None else r"[\d.e+]+"
    words = rf"with {dim} of {named} directions the mean would be off by [\d.]+ of its standard error \(a tenth"
    with pytest.raises(ValueError, match=rf"dim must be at least \d+ for these settings: {words}") as e:
        truncated(problem, dim, **options)
    return int(re.search(r"at least (\d+)", str(e.value)).group(1))


@pytest.mark.parametrize("problem", [FINITE, st.PowerLaw(2.0, 1.5), st.PowerLaw(2.0, 1.5, 10**6)])
@pytest.mark.parametrize("quantity", QUANTITIES)
def test_a_small_dim_is_refused_and_the_needed_one_accepted(problem, quantity):
    options = {"num_replicas": 1000, "quantity": quantity}
    needed = needed_dim(problem, 2, **options)
    kept = truncated(problem, needed, **options)
    if problem is FINITE and needed == 40:
        assert kept is None
        return
    error = standard_deviation(problem, arrays(), quantity=quantity) / np.sqrt(1000)
    assert kept.dim == needed
    assert abs(float(kept.shift)) <= 0.1 * np.hypot(error, 1e-6 * 3)
    smaller = int(needed * 0.97) - 1
    assert needed_dim(problem, smaller, **options) in (needed, pytest.approx(needed, rel=0.03))


@pytest.mark.parametrize(("capacity", "source"), [(2.0, 3.0), (1.5, 1.2), (3.0, 2.0)])
@pytest.mark.parametrize("num_replicas", [16, 4096])
def test_an_infinite_problem_chooses_as_few_as_fit(capacity, source, num_replicas):
    problem, settings = st.PowerLaw(capacity, source), arrays([1.0, 16.0], 0.3, [20.0, 320.0])
    kept = truncated(problem, None, settings, num_replicas)
    assert kept.dim % 64 == 0
    error = standard_deviation(problem, settings) / np.sqrt(num_replicas)
    exact = st.excess_risk(problem, **settings).total
    assert (np.abs(kept.shift) <= 0.1 * np.hypot(error, 1e-6 * exact)).all()
    if kept.dim > 64:
        assert needed_dim(problem, kept.dim - 96, settings=settings, num_replicas=num_replicas) > kept.dim - 96


def test_more_replicas_need_more_directions():
    dims = [truncated(st.PowerLaw(1.5, 1.5), None, num_replicas=n).dim for n in (4, 400, 40_000)]
    assert dims == sorted(dims)
    assert dims[0] < dims[-1]


def test_too_many_directions_are_not_chosen_unasked():
    problem, settings = st.PowerLaw(1.01, 1.5), arrays(1.0, 0.01, 1e6)
    words = r"dim must be given: [\d.e+]+ of infinitely many directions are needed .* pass"
    with pytest.raises(ValueError, match=words):
        truncated(problem, None, settings, 1000)
    assert f"{truncation.LARGEST_DIM}" in st.simulate.__doc__


def test_a_setting_beyond_the_edge_does_not_stand_in_the_way():
    """Its exact risk may exceed the range of a float; the other settings decide."""
    problem = st.PowerLaw(2.0, 3.0)
    both = truncated(problem, None, arrays(4.0, [0.3, 50.0], 1e5))
    alone = truncated(problem, None, arrays(4.0, [0.3], 1e5))
    assert both.dim == alone.dim
    assert both.shift[0] == pytest.approx(alone.shift[0])


LARGE_TAIL = st.PowerLaw(2.0, 1.3)
LARGE_TAIL_SETTINGS = {"batch_size": 2, "learning_rate": 0.3, "num_samples": 60}


@pytest.mark.slow
def test_truncated_simulation_has_the_risk_of_the_infinite_problem():
    """The frozen tail is risk, and label noise: controls leave it out of either."""
    exact = st.excess_risk(LARGE_TAIL, **LARGE_TAIL_SETTINGS).total
    found = st.simulate(jax.random.key(0), LARGE_TAIL, **LARGE_TAIL_SETTINGS, num_replicas=4000)
    kept = found.truncation
    assert kept.tail_risk == pytest.approx(LARGE_TAIL.tail_signal(kept.dim))
    assert abs(found.z_score(exact + float(kept.shift))) < normal_limit(2)
    assert abs(found.z_score(exact)) < normal_limit(2) + 0.11  # the shift is a tenth of an estimate from below at most
    head = LARGE_TAIL.truncated(kept.dim)
    dropped = st.simulate(jax.random.key(1), head, **LARGE_TAIL_SETTINGS, num_replicas=4000)
    assert dropped.truncation is None
    assert abs(dropped.z_score(exact)) > 6
    assert abs((dropped.mean + kept.tail_risk - exact) / dropped.standard_error) > 6


@pytest.mark.parametrize("quantity", QUANTITIES)
def test_finite_problem_with_fewer_directions(quantity):
    settings = {"batch_size": 4, "learning_rate": 0.4, "num_samples": 200}
    found = st.simulate(jax.random.key(0), FINITE, **settings, num_replicas=1000, dim=39, quantity=quantity)
    exact = getattr(st.excess_risk(FINITE, **settings), quantity)
    assert found.truncation.dim == 39
    assert abs(found.z_score(exact + float(found.truncation.shift))) < normal_limit(3)
