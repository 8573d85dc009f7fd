"""A rate that noise puts above another is no divergence; one that rises beyond what scatter explains is."""

import numpy as np
import pytest

import sgdtheory as st

RATES = 2.0 ** np.arange(-9, -2)
BATCHES = 2.0 ** np.arange(4, 12)
DATA = 2.0 ** np.arange(14, 22)


def noisy_grid(seed, noise, curvature, *, seeds=1, cliff=None):
    """Losses about a parabola in log γ; beyond the rate `cliff` above the best one they rise, and stay finite."""
    rng = np.random.default_rng(seed)
    columns = {name: [] for name in ("batch_size", "samples", "learning_rate", "loss", "seed")}
    for run in range(seeds):
        for batch in BATCHES:
            best_rate = RATES[3] * (batch / 181) ** 0.2
            for samples in DATA:
                least = 2 + 30 * (samples / (1 + batch / 200)) ** -0.5
                past = 0.0 if cliff is None else cliff * (1.5 * best_rate < RATES)
                losses = least * np.exp(curvature * np.log(RATES / best_rate) ** 2 + past)
                losses *= np.exp(noise * rng.standard_normal(RATES.size))
                for rate, loss in zip(RATES, losses, strict=True):
                    for name, value in zip(columns, (batch, samples, rate, loss, run), strict=True):
                        columns[name].append(value)
    if seeds == 1:
        del columns["seed"]
    return columns


def cliffs(grid):
    return int(sum((group.state == "beside divergence").sum() for group in grid.groups))


@pytest.mark.parametrize("seeds", [1, 3])
@pytest.mark.parametrize("noise", [2e-4, 2e-3, 2e-2])
def test_no_false_cliff_on_a_flat_optimum(noise, seeds):
    """In 5 × 64 cells with two sides 0.064 cliffs are due to chance: more than two have a probability of 4e-5."""
    found = [
        cliffs(st.fit_loss_grid(noisy_grid(seed, noise, 1e-4, seeds=seeds), edges=True, targets=None))
        for seed in range(5)
    ]
    assert sum(found) <= 2


@pytest.mark.parametrize(("noise", "cliff"), [(0.0, 0.3), (2e-3, 0.3), (2e-3, 3.0), (1e-2, 3.0), (1e-2, np.inf)])
def test_cliffs_are_seen(noise, cliff):
    """Losses that jump by 35%, twentyfold or to inf at the rate above the best one."""
    with np.errstate(over="ignore"):
        grid = st.fit_loss_grid(noisy_grid(1, noise, 0.01, cliff=cliff if np.isfinite(cliff) else 1e6), edges=True)
    quiet = st.fit_loss_grid(noisy_grid(1, noise, 0.01), edges=True)
    assert cliffs(quiet) == 0
    assert cliffs(grid) > 20
