"""The curve against the batch size that comes with B*: its columns, and what is read off between its points."""

import numpy as np
import pytest

import sgdtheory as st
from tests import brute_force
from tests.critical.answers import brute, risk_at


@pytest.fixture(scope="module")
def million():
    """PowerLaw(2, 3) with a million samples."""
    return st.critical_batch_size(st.PowerLaw(2, 3), num_samples=1e6)


def test_columns_of_the_curve(million):
    problem, curve = st.PowerLaw(2, 3), million.curve
    sizes = curve.batch_size
    assert sizes[0] == 1
    assert (np.diff(sizes) > 0).all()
    assert (sizes == np.floor(sizes)).all()
    assert {million.batch_size, million.rate_batch_size, million.optimal_batch_size} <= set(sizes)
    assert sizes[-1] > 10 * million.batch_size
    best = st.optimal_learning_rate(problem, batch_size=sizes, num_samples=1e6)
    np.testing.assert_allclose(curve.risk, best.risk, rtol=1e-9)
    np.testing.assert_allclose(risk_at(problem, sizes, curve.learning_rate, 1e6 // sizes), best.risk, rtol=1e-9)
    needed = risk_at(problem, sizes, curve.learning_rate_needed, curve.num_steps)
    assert (needed <= million.optimal_risk * (1 + 1e-7)).all()
    np.testing.assert_array_equal(curve.samples_needed, sizes * curve.num_steps)
    np.testing.assert_allclose(curve.overhead, curve.samples_needed / 1e6 - 1, atol=1e-15)
    (at,) = np.flatnonzero(sizes == million.batch_size)
    assert curve.num_steps[at] == million.num_steps
    assert curve.overhead[at] <= 0.2
    assert (curve.overhead[at + 1 :] > 0.2).all()
    assert curve.risk.min() >= million.optimal_risk * (1 - 1e-8)


def test_numbers_of_steps_against_brute_force():
    """Every batch size of a curve of few samples."""
    problem = st.PowerLaw(1.5, 4.0, 3, 0.3)
    found = st.critical_batch_size(problem, num_samples=40)
    answer = brute(problem, 40)
    for size, steps in zip(found.curve.batch_size, found.curve.num_steps, strict=True):
        risk = brute_force.best_risks(*problem.directions(), 0.3, size, int(steps))
        assert np.flatnonzero(risk <= answer.optimal_risk * (1 + 3e-9))[0] + 1 == steps


@pytest.mark.parametrize("tiny", [1e-6, 1e-9, 1e-300])
def test_a_tiny_overhead_can_be_asked_for(million, tiny):
    assert 1 <= million.curve.batch_size_at(tiny) < million.batch_size
    assert 1 <= million.curve.batch_size_within(1 + max(tiny, 1e-15)) < million.batch_size


@pytest.mark.parametrize(
    ("ask", "message"),
    [
        (lambda curve: curve.batch_size_at(0), "overhead must be positive and finite, got 0"),
        (lambda curve: curve.batch_size_at(1e9), r"overhead must be below \d.*, where this curve ends at B = \d"),
        (lambda curve: curve.batch_size_within(1), "risk_factor must be finite and greater than 1, got 1"),
        (lambda curve: curve.batch_size_within(1e9), r"risk_factor must be below \d.*, where this curve ends at B ="),
    ],
)
def test_what_the_curve_cannot_tell(million, ask, message):
    with pytest.raises(ValueError, match=message):
        ask(million.curve)
