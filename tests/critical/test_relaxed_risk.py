"""ρ(n) against tuning by `optimal_learning_rate`, and its guess of the fewest steps against trying them."""

import numpy as np
import pytest

import sgdtheory as st
from sgdtheory.critical.relaxed_risk import RelaxedRisk
from sgdtheory.critical.tuned_risk import TunedRisk

PROBLEMS = [st.PowerLaw(2, 3), st.PowerLaw(1.3, 4.0, 300, 0.1), st.PowerLaw(3, 4.5)]
SAMPLES = 2.0**20


def relaxed(problem):
    return RelaxedRisk(TunedRisk(problem), SAMPLES, 2.0, SAMPLES)


@pytest.mark.parametrize("problem", PROBLEMS)
def test_rho_is_the_tuned_risk_where_b_is_whole(problem):
    found = relaxed(problem)
    assert (np.diff(found.steps) > 0).all()
    whole = SAMPLES % found.steps == 0
    assert whole.any()
    best = st.optimal_learning_rate(problem, batch_size=SAMPLES / found.steps[whole], num_samples=SAMPLES)
    np.testing.assert_allclose(found.risk[whole], best.risk, rtol=1e-8)
    np.testing.assert_allclose(found.rate[whole], best.learning_rate, rtol=1e-3)


@pytest.mark.parametrize("problem", PROBLEMS)
@pytest.mark.parametrize(("more", "factor"), [(1.0, 2.0), (1.0, 1.1), (1.2, 1.0)])
def test_the_guess_is_near_the_fewest_steps(problem, more, factor):
    """A guess at the γ of D samples, not of the search: the tuned risk crosses the target about there (b > a)."""
    found = relaxed(problem)
    target = factor * found.risk.min()
    guess = found.steps_about(more * SAMPLES, target)
    around = np.floor(guess * np.array([0.8, 1.25]))
    risk = TunedRisk(problem).least(more * SAMPLES / around, around).risk
    assert risk[0] > target > risk[1]


def test_no_guess_where_nothing_reaches_the_target():
    found = relaxed(PROBLEMS[0])
    assert np.isnan(found.steps_about(SAMPLES, 0.5 * found.risk.min()))
    found.steps = found.steps[:1]
    assert np.isnan(found.steps_about(SAMPLES, 1.0))
