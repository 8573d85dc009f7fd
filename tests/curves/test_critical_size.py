"""log B* by two runs that are followed from one set of numbers to another, against tables of all runs."""

from typing import Any

import numpy as np
import pytest
from scipy.optimize import brentq, minimize_scalar

import sgdtheory as st
from sgdtheory.curves.critical_size import CriticalSize, CriticalTangent
from sgdtheory.curves.laws.theory import TheoryLaw
from sgdtheory.curves.loss_table import log_risks_of_runs
from sgdtheory.curves.panels import Optimizer
from tests.curves.theory_curves import coarse_tables

VALUES = {"capacity": 1.6, "source": 1.9, "signal": 1.0, "noise": 4.0, "step_size": 0.2, "floor": 2.0, "growth": 1e-3}


def size_of(optimizer, batch=np.nan, decay=None):
    law = TheoryLaw(decay, optimizer)
    of_curves = 32.0 if np.isfinite(batch) else 1.0
    known = Optimizer(0.2, decay or 0.0, optimizer == "adam", batch)
    values = VALUES | {"noise": VALUES["noise"] * of_curves / 32}
    return CriticalSize(law, known, st.Linear(), 3000 * of_curves, of_curves, 0.2, 0.2), law.coordinates(values)


def exact_log_size(size, point):
    """By nested searches: γ up to the largest, the best B, and the B that needs 20% more."""
    model = size.law.model(size.law.values(point[None]))
    top = np.log(size.top)

    def lowest(log_batch, more):
        batch = np.exp(log_batch)
        setting = model, size.optimizer, size.shape, (1 + more) * size.samples / batch

        def at(log_rate):
            return float(log_risks_of_runs(*setting, np.exp([log_rate]), batch)[0, 0])

        found = minimize_scalar(at, bounds=(top - 2, top), method="bounded", options={"xatol": 1e-5})
        return min(float(found.fun), at(top))

    best = minimize_scalar(lambda each: lowest(each, 0.0), bounds=(-1, 2), method="bounded", options={"xatol": 1e-4})
    root: Any = brentq(lambda each: lowest(each, 0.2) - best.fun, 0.5, 2.5, xtol=1e-6)
    return float(root)


def test_the_value_and_the_slopes_where_the_best_learning_rate_comes_to_the_largest():
    """There the risk over batch sizes has a kink, at its least."""
    size, point = size_of("sgd", decay=0.1)
    found = size.tangent(point)
    assert isinstance(found, CriticalTangent)
    along = np.array([0.02, -0.01, 0.03, -0.02, 0.05, 0.1, 0.05])
    up, down = (exact_log_size(size, point + side * along) for side in (1, -1))
    assert found.value == pytest.approx((up + down) / 2, abs=2e-3)
    assert found.slopes @ along == pytest.approx((up - down) / 2, rel=0.01)
    assert found.slopes[5] == pytest.approx(0, abs=1e-6)  # L0
    assert found.slopes[2] == pytest.approx(-found.slopes[3], abs=1e-6)  # σ²/A alone counts


@pytest.mark.parametrize("decay", [None, 0.1])
def test_the_value_is_that_of_a_table(decay):
    """Which interpolates."""
    size, point = size_of("sgd", 32.0, decay)
    expected = size.table(point).critical_batch_size(size.samples, size.overhead)[0]
    assert size.tangent(point).value == pytest.approx(np.log(expected), abs=5e-3)


@pytest.mark.parametrize("batch", [np.nan, 32.0])
def test_of_adam_runs_are_followed_without_a_table(monkeypatch, batch):
    """From coarse tables to the same place as from others, and slopes are those between places."""
    coarse_tables(monkeypatch)
    size, point = size_of("adam", batch)
    begin = size.tangent(point)
    made = []
    table = CriticalSize.table
    monkeypatch.setattr(CriticalSize, "table", lambda size, point: made.append(point) or table(size, point))
    step = 0.02 * np.array([1.0, -1, 1, 2, 1, 0])
    there, back = (size.tangent(point + side * step, begin) for side in (1, -1))
    assert not made
    assert there.value - back.value == pytest.approx(2 * begin.slopes @ step, rel=0.02)
    assert size.tangent(point, there).value == pytest.approx(begin.value, abs=5e-3)


def test_the_function_about_a_value_leads_to_it():
    """Numbers at which it says so have about that B*."""
    size, point = size_of("sgd")
    begin = size.tangent(point)
    step = -0.02 * begin.slopes / (begin.slopes @ begin.slopes)
    said = float(begin.about((point + step)[None], begin.value - 0.02)[0])
    assert said - begin.value == pytest.approx(-0.02, rel=0.05)  # learning rates are not sought again
    assert size.tangent(point + step, begin).value - begin.value == pytest.approx(-0.02, rel=0.02)


def test_beyond_the_largest_batch_size_it_is_flat():
    size, point = size_of("sgd")
    quiet = point + np.array([0, 0, -12.0, 12.0, 0, 0])  # noise throughout
    found = size.tangent(quiet)
    assert found.value == pytest.approx(np.log(size.samples / 8))
    assert not found.slopes.any()
    assert found.about(quiet[None], 3.0).tolist() == [3.0]
