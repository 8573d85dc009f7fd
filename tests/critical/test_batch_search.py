"""The fewest steps at each batch size where the tuned risk is known: a power of n."""

import numpy as np
import pytest

import sgdtheory as st
from sgdtheory.critical.tuned_risk import TunedRisk


@pytest.mark.slow
@pytest.mark.parametrize(
    ("capacity", "source", "noise"), [(1.1, 2.0, 0.3), (2.0, 3.0, 1.0), (1.2, 3.0, 3.0), (3.0, 4.0, 1.0)]
)
def test_momentum_swings_on(capacity, source, noise):
    """A step more may raise the risk of momentum: the fewest sufficient steps are those of a list of all."""
    problem, samples = st.PowerLaw(capacity, source, 16, noise_variance=noise), 600.0
    given = {
        "num_samples": samples,
        "curve": False,
        "algorithm": st.Algorithm(method=st.HeavyBall(0.9), average=st.LastIterate()),
    }
    found = st.critical_batch_size(problem, **given)
    tuned = TunedRisk(problem, given["algorithm"])
    steps = np.arange(2.0, found.num_steps + 1)
    for batch, fewest in (
        (1.2 * samples / steps, 1.2 * samples / found.real_batch_size),
        (np.full(steps.size, found.batch_size), found.num_steps),
    ):
        enough = tuned.least(batch, steps).risk <= found.optimal_risk * (1 + 1e-12)
        assert steps[enough][0] == pytest.approx(fewest, rel=1e-9)


@pytest.mark.slow  # ten seconds
def test_batch_sizes_that_never_reach_it():
    """The average keeps e^−2 of w_0, which a few large steps of large batches cancel: others never are as good."""
    problem = st.PowerLaw(2.0, 4.0, noise_variance=0.1).with_features(4)
    algorithm = st.Algorithm(average=st.ExponentialAverage(window=0.5))
    found = st.critical_batch_size(problem, num_samples=500, algorithm=algorithm)
    never = np.isinf(found.curve.num_steps)
    assert never.any()
    assert not never.all()
    assert (found.curve.batch_size[never] < found.optimal_batch_size).all()
    assert np.isnan(found.curve.learning_rate_needed[never]).all()
    least = st.optimal_learning_rate(problem, batch_size=1, num_samples=[1e6, 1e9], algorithm=algorithm)
    assert (least.risk > 1.02 * found.optimal_risk).all()
    assert least.risk[0] == pytest.approx(least.risk[1], rel=1e-3), "and does not fall any more"
    assert found.batch_size <= found.curve.batch_size_at(0.5) <= found.curve.batch_size[-1]
