"""Losses of long logs are computed at some of their rows: they are those of all rows, to 2·10⁻⁴."""

from dataclasses import replace

import numpy as np
import pytest

import sgdtheory as st
from sgdtheory.curves import knots
from sgdtheory.curves.laws.theory import TheoryLaw
from tests.marks import slow

NUMBERS = {"capacity": 1.4, "source": 1.6, "signal": 5.0, "noise": 0.3, "step_size": 0.3, "floor": 2.0}
ROWS = 400
SHARE = np.arange(1, ROWS + 1) / ROWS
SCHEDULES = {
    "constant": np.ones(ROWS),
    "cosine": 0.55 + 0.45 * np.cos(np.pi * SHARE),
    "to nearly 0": np.maximum(1 - SHARE, 1e-3),
    "steps": np.where(SHARE < 0.3, 1.0, np.where(SHARE < 0.6, 0.3, 0.05)),
    "WSD": np.minimum(1.0, np.maximum((1 - SHARE) / 0.2, 1e-2)),
}


def curve(schedule, every, batches):
    step = every * np.arange(1, ROWS + 1)
    batch = np.where(SHARE < 0.4, 64.0, 256.0) if batches else None
    return st.LossCurve(step, 6e-4 * SCHEDULES[schedule], np.full(ROWS, 3.0), batch)


def losses(law, each):
    noise = NUMBERS["noise"] * (1 if each.batch_size is None else 64)
    numbers = NUMBERS | {"noise": noise, "step_size": 0.01 if law.optimizer == "adam" else 0.3}
    values = {name: np.array([value]) for name, value in numbers.items()}
    return law.losses(values, law.prepared([each]))[0][0]


@pytest.mark.parametrize("optimizer", ["sgd", slow("adam")])
@pytest.mark.parametrize("batches", [False, True])
@pytest.mark.parametrize("every", [1, 10])
@pytest.mark.parametrize("schedule", SCHEDULES)
def test_losses_are_those_of_all_rows(schedule, every, batches, optimizer, monkeypatch):
    law, each = TheoryLaw(optimizer=optimizer), curve(schedule, every, batches)
    found = losses(law, each)
    assert law.prepared([each]).knots[0].curve.step.size < ROWS
    monkeypatch.setattr(knots, "MOST_ROWS", ROWS)
    np.testing.assert_allclose(found, losses(law, each), rtol=2e-4)


def test_short_logs_are_computed_at_every_row():
    each = curve("constant", 1, False)
    short = replace(each, step=each.step[:200], learning_rate=each.learning_rate[:200], loss=each.loss[:200])
    (found,) = knots.knots_of([short])
    assert found.curve is short


def test_a_loss_that_is_infinite_at_a_knot_stays_so():
    (found,) = knots.knots_of([curve("constant", 1, False)])
    at_knots = np.full((1, found.curve.step.size), 3.0)
    at_knots[0, 5:] = np.inf
    rows = found.at_rows(at_knots)[0]
    assert np.isinf(rows[-1])
    assert not np.isnan(rows).any()
