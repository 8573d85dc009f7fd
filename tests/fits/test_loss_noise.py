"""The noise of losses from repeated runs, by hand, and L* beside an edge with two rates alone."""

import math
import statistics

import numpy as np
import pytest

import sgdtheory as st
from sgdtheory.fits.loss_noise import loss_noise
from sgdtheory.fits.tuned_loss import CLIFF, lowest

BATCHES, SAMPLES, RATES, RUNS = (16.0, 64.0, 256.0), (1e4, 4e4, 1.6e5), (0.1, 0.2, 0.4, 0.8), 3
NOISE = {16.0: 0.01, 64.0: 0.03, 256.0: 0.002}


@pytest.fixture(scope="module")
def runs():
    """(B, D, γ) → losses of three runs, which scatter differently at each batch size."""
    random = np.random.default_rng(0)
    found = {}
    for batch in BATCHES:
        for samples in SAMPLES:
            for rate in RATES:
                loss = 2 + (samples / (1 + batch / 50)) ** -0.5 + 0.3 * math.log(rate / 0.25) ** 2
                found[batch, samples, rate] = (loss * np.exp(NOISE[batch] * random.standard_normal(RUNS))).tolist()
    return found


def tuned_of(runs):
    rows = [(*setting, loss) for setting, losses in runs.items() for loss in losses]
    return st.fit_loss_grid(rows, convention=st.Convention(16)).groups[0]


def by_hand(runs, batch):
    """Pooled variance of runs over their mean, at the best rate of each D and the better one beside it."""
    sums, freedom = 0.0, 0
    for samples in SAMPLES:
        means = [statistics.mean(runs[batch, samples, rate]) for rate in RATES]
        best = means.index(min(means))
        beside = min((place for place in (best - 1, best + 1) if 0 <= place < len(RATES)), key=lambda k: means[k])
        for place in (best, beside):
            losses = runs[batch, samples, RATES[place]]
            sums += (len(losses) - 1) * statistics.variance([loss / means[place] for loss in losses])
            freedom += len(losses) - 1
    return sums / freedom, freedom


def test_repeated_runs_have_a_variance_for_each_batch_size(runs):
    found = loss_noise(tuned_of(runs))
    assert found.source == "runs"
    expected = [by_hand(runs, batch) for batch in BATCHES]
    np.testing.assert_allclose(found.variances, [each[0] for each in expected], rtol=1e-12)
    np.testing.assert_array_equal(found.freedom, [each[1] for each in expected])
    assert found.variances[1] > 20 * found.variances[2]


def test_a_batch_size_with_few_repeats_has_the_variance_of_all(runs):
    """B = 64 is repeated at one setting, and so has two degrees of freedom, less than FEW."""
    kept = (64.0, SAMPLES[0], 0.2)
    few = {at: losses if at[0] != 64.0 or at == kept else losses[:1] for at, losses in runs.items()}
    found = loss_noise(tuned_of(few))
    own = [by_hand(runs, batch) for batch in (16.0, 256.0)]
    loud = statistics.variance([loss / statistics.mean(few[kept]) for loss in few[kept]])
    everything = [*own, (loud, 2)]
    expected = sum(variance * freedom for variance, freedom in everything) / sum(each[1] for each in everything)
    assert found.variances[1] == pytest.approx(expected, rel=1e-12)
    assert found.freedom[1] == sum(each[1] for each in everything)
    assert found.variances[0] == pytest.approx(own[0][0], rel=1e-12)


def test_two_rates_beside_an_edge_are_joined_by_a_line():
    """No third rate bends it: log L may fall on as it did, by its whole slope, up to the rate that diverged."""
    log_rates = np.log([1.0, 2.0, 6.0])
    found = lowest(log_rates, np.array([[0.5, 0.3, np.inf]]))
    assert found.state[0] == CLIFF
    assert found.top[0] == pytest.approx(0.3)
    assert found.fall[0] == pytest.approx(0.2 / math.log(2) * math.log(3))
    assert found.log_rate[0] == pytest.approx(math.log(2) + math.log(3) / 2)
