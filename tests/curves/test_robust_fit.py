"""What spikes, constant losses and misfits do to a fit: one start, near the truth, on few rows."""

import numpy as np
import pytest

import sgdtheory as st
from sgdtheory.curves.robust_fit import changes, fit, not_gross, observed
from tests.curves.theory_curves import curve

NAMES = "capacity", "source", "signal", "noise", "step_size", "floor"
START = {"capacity": 1.5, "source": 1.8, "signal": 1.0, "noise": 0.12, "step_size": 0.2, "floor": 2.0}


def thinned(name, random, share=0.0):
    """Every third row and the one where the rate drops; spikes of 10% on a share of them."""
    made = curve(name, random, scatter=5e-4)
    rows = np.unique(np.append(np.arange(0, made.step.size, 3), np.flatnonzero(made.step == 2400)))
    hit = np.zeros(rows.size)
    hit[random.permutation(rows.size)[: int(share * rows.size)]] = 0.1
    return st.LossCurve(made.step[rows], made.learning_rate[rows], made.loss[rows] * (1 + hit), name=name)


def fitted(share):
    curves = [thinned(name, np.random.default_rng(k), share) for k, name in enumerate(("cosine", "drop"))]
    return fit(observed(curves, 0.0), NAMES, [START], lambda text: None)


@pytest.mark.slow
def test_spikes_on_a_tenth_of_the_rows_change_nothing():
    """Numbers within half a standard error of those without spikes, and the scale within a quarter (10 s)."""
    clean, spiky = fitted(0.0), fitted(0.1)
    assert (~spiky.used).sum() == 4
    assert clean.used.all()
    assert spiky.scale == pytest.approx(clean.scale, rel=0.25)
    error = np.sqrt(np.diag(clean.covariance))
    assert (np.abs(spiky.coordinates - clean.coordinates) < 0.5 * error).all()


def test_spikes_are_few_and_far_off():
    gap = np.append(np.full(88, 0.5), np.full(12, -11.0))
    assert (~not_gross(gap, 1.0)).sum() == 12
    assert not_gross(gap, 1.2).all()  # not as far off as ten standard deviations
    assert not_gross(np.append(gap, np.full(4, -11.0)), 1.0).all()  # too many: they are what the theory lacks


def test_what_changes_no_more_than_it_scatters():
    """Pure scatter is called so 1,000 times in 1,000, a fall by one standard deviation of 400 rows never is."""
    random = np.random.default_rng(0)
    rows, count = 400, 6
    basis = np.linalg.qr(np.column_stack([np.linspace(-1, 1, rows) ** power for power in range(count)]))[0]
    told = []
    for fall in (0.0, 1.0):
        losses = random.standard_normal((1000, rows)) + fall * np.sign(np.linspace(-1, 1, rows))
        left = losses - losses @ basis @ basis.T
        told.append(sum(changes(one, rest, 1.0, rows - count, count) for one, rest in zip(losses, left, strict=True)))
    assert told[0] <= 8  # of 1,000 with chance 1e-3: nine or more have a probability of 1e-6
    assert told[1] == 1000


def test_a_constant_loss_tells_nothing():
    """Exactly constant: what the fit leaves of it, a constant leaves less."""
    assert not changes(np.full(100, 1.1), np.full(100, 1e-8), 1e-7, 90.0, 6)


@pytest.mark.slow
@pytest.mark.parametrize("scatter", [0.0, 1e-3])
def test_a_constant_curve_tells_nothing(scatter):
    """No number, no B*, no prediction, and a sentence (30 s)."""
    rows = np.arange(100.0, 3001, 100)
    loss = 3 * np.exp(scatter * np.random.default_rng(0).standard_normal(rows.size))
    found = st.fit_loss_curves(st.LossCurve(rows, 0.1, loss))
    assert set(found.not_identified) == {"irreducible_loss", *NAMES} - {"floor"}
    assert found.capacity.interval == (1.0, np.inf)
    assert found.remark.startswith("these curves tell nothing")
    assert found.critical_batch_size(3000).interval.tolist() == [[0.0, np.inf]]
    band = found.predict(0.05, num_steps=1000)
    assert band.low[-1] < 1e-100
    assert band.high[-1] > 1e100
