"""B* and R_opt where runs resonate: near the stability edge the mean of an even number of iterates has no oscillation.

The risk then has a second minimum over n, at learning rates within 1e-2 … 1e-6 of the edge and for some numbers of
steps alone. Each case is compared with `excess_risk` on a grid of numbers of steps and learning rates, which shares
nothing with the search. In all of them searches have missed this minimum: R_opt was too high by 0.01% to 9%, or B* was
too small or too large by up to a factor of 3.4.
"""

import numpy as np
import pytest

import sgdtheory as st
from tests.marks import slow

EXPONENTIAL = st.Algorithm(average=st.ExponentialAverage(window=0.1))
FORGETTING = st.Algorithm(average=st.ExponentialAverage(decay=0.99))
TAIL = st.Algorithm(average=st.TailAverage(0.5))
CASES = {
    "mean, R_opt": (st.Algorithm(), st.PowerLaw(1.97, 4.83, noise_variance=100.0), 1.3e8),
    "mean, B*": (st.Algorithm(), st.PowerLaw(2.0, 8.0), 1e8),
    "exponential, R_opt": (EXPONENTIAL, st.PowerLaw(2.0, 4.0), 1e12),
    "exponential, B*": (EXPONENTIAL, st.PowerLaw(2.0, 8.0), 1e8),
    "exponential, few steps": (EXPONENTIAL, st.PowerLaw(1.5, 6.0), 1e6),
    "forgetting": (FORGETTING, st.PowerLaw(1.5, 6.9, 18, noise_variance=1e-4), 1.2e6),
    "tail, a pattern of four": (TAIL, st.PowerLaw(1.58739, 6.29499, noise_variance=100.0), 5805781317.0),
}
NUMBERS = 50  # of steps on the grid, log-spaced, each with the three after it
SHARES = np.concatenate([np.geomspace(1e-9, 0.02, 16), np.linspace(0.03, 0.97, 48), 1 - np.geomspace(1e-7, 0.02, 24)])


def scan(problem, algorithm, steps, samples):
    """The least risk on a grid of learning rates after n steps with all of the samples, and B."""
    steps = np.unique(steps)
    batch = np.floor(samples / steps)
    edge = st.max_stable_learning_rate(problem, batch_size=batch, algorithm=algorithm)
    rate = np.multiply.outer(edge, SHARES)
    settings = np.broadcast_arrays(batch[:, None], rate, (batch * steps)[:, None])
    names = "batch_size", "learning_rate", "num_samples"
    risk = st.excess_risk(problem, **dict(zip(names, settings, strict=True)), algorithm=algorithm).total
    return steps, batch, risk.min(1)


QUICK = "mean, R_opt", "mean, B*"


@pytest.mark.parametrize("case", [case if case in QUICK else slow(case) for case in CASES])
def test_no_number_of_steps_does_better(case):
    algorithm, problem, samples = CASES[case]
    found = st.critical_batch_size(problem, num_samples=samples, curve=False, algorithm=algorithm)
    steps = np.floor(np.geomspace(10, min(1e6, samples / 2), NUMBERS))[:, None] + np.arange(4)
    steps = np.append(steps, np.arange(10.0, 64))
    _, _, risk = scan(problem, algorithm, steps, samples)
    assert risk.min() > found.optimal_risk * (1 - 1e-7)
    assert risk.min() < found.optimal_risk * 1.05  # the grid is fine enough to see an R_opt that is 5% too high
    steps, batch, risk = scan(problem, algorithm, steps[steps < found.num_steps], 1.2 * samples)
    larger = batch > found.batch_size
    assert larger.any()
    assert risk[larger].min() > found.optimal_risk * (1 - 1e-7)
