"""Parts of a forecast by hand: when it is too early, what is said, and what its figure draws."""

from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest

import sgdtheory as st
from sgdtheory.curves.experience import Prior
from sgdtheory.curves.forecast import _remarks, _too_early, planned_rates
from sgdtheory.curves.forecast_figure import forecast_figure
from sgdtheory.curves.law_fit import LossPrediction
from sgdtheory.curves.laws.theory import TheoryLaw

STEPS = np.arange(10, 210, 10)
RUN = st.LossCurve(STEPS, 1.0, 3 + 20 / STEPS)


def too_early(fallen=1.0, fall=0.3, reach=0.1, scatter=0.01, cells=9, ahead=(1.0, 1.0), rate=1.0, warmup=0.0):
    """A run of nine cells, the first three and the last three of which differ by what has fallen."""
    law = TheoryLaw()  # of six numbers
    log_loss = np.append(np.full(5, 9.0), np.linspace(fallen, 0.0, 3).repeat(3)[:cells])  # another run before it
    rows: Any = SimpleNamespace(
        log_loss=log_loss,
        log_steps=[np.zeros(5), np.zeros(cells)],
        law=law,
        ahead=SimpleNamespace(learning_rate=np.array(ahead)),
    )
    run = st.LossCurve(STEPS, rate, RUN.loss, warmup=warmup)
    return _too_early(run, rows, SimpleNamespace(scatter=scatter), fall, reach)  # pyright: ignore[reportArgumentType]


@pytest.mark.parametrize(
    ("case", "words"),
    [
        ({}, ""),
        ({"reach": 0.14999}, ""),
        ({"reach": 0.15}, "the band is as wide as the fall that is ahead, and may hold no further fall at all"),
        ({"reach": 0.15, "ahead": (1.0, 0.5)}, "the learning rate has not changed yet, and the gain of its decay"),
        ({"reach": 0.15, "ahead": (1.0, 0.5), "rate": 1 - STEPS / 1e4}, "may hold no further fall at all"),
        ({"reach": 9.0, "fall": -0.0999}, ""),
        ({"reach": 9.0, "fall": -0.1}, "the band is as wide"),
        ({"scatter": 1 / 3.01}, ""),
        ({"scatter": 1 / 2.99}, "the loss has not yet fallen by more than it scatters"),
        ({"cells": 6, "fallen": 9.0}, ""),
        ({"cells": 5}, "5 rows after the warm-up are too few for 6 numbers"),
        ({"warmup": 199.0}, ""),
        ({"warmup": 200.0}, "still warming up"),
        ({"rate": STEPS / 200, "ahead": (1.0, 0.5)}, ""),
        ({"rate": STEPS / 200, "ahead": (1.01, 0.5)}, "still warming up"),
    ],
)
def test_when_it_is_too_early(case, words):
    found = too_early(**case)
    assert words in found
    assert bool(words) == bool(found)


def test_what_is_said_of_a_forecast():
    """The floor is the sixth number; 0.15 is how far it is known before the run."""
    rows: Any = SimpleNamespace(law=TheoryLaw())
    prior = Prior(np.diag([1.0, 1, 1, 1, 1, 1 / 0.15]), np.zeros(6))

    def said(scatter, floor, spikes):
        covariance = np.diag([9.0, 9, 9, 9, 9, floor**2])
        found: Any = SimpleNamespace(scatter=scatter, used=np.arange(12) >= spikes, covariance=covariance)
        return _remarks(rows, found, prior)

    assert said(0.0499, 0.0749, 0) == []
    assert said(0.0512, 0.0751, 2) == [
        "the theory does not fit: rows are off by 0.051 of their loss",
        "2 of 12 groups of rows are spikes, which were not fitted",
        "how low the loss can fall follows from other public runs more than from this one",
    ]


@pytest.mark.parametrize(
    ("place", "planned", "differs"), [(-1, 1.051, False), (-1, 1.054, True), (-1, 0.951, False), (-1, 0.949, True),
                                      (-3, 0.5, True), (-4, 0.5, False)]
)  # fmt: skip
def test_the_last_three_rows_follow_the_plan_to_five_percent(place, planned, differs):
    rates = np.ones(500)
    rates[RUN.step[place].astype(int)] = planned
    remarks = planned_rates(RUN, 500, rates, None)[1]
    assert bool(remarks) == differs


def test_the_peak_is_the_median_over_rows_where_the_schedule_is_not_0():
    """A schedule that is 0 at all rows has the largest rate of the log."""
    rate = np.linspace(2.0, 1.0, 20)
    factors = np.where(np.arange(500) <= 150, 0.0, 0.5)
    shape: Any = SimpleNamespace(factors=lambda steps, count: factors)
    assert planned_rates(st.LossCurve(STEPS, rate, RUN.loss), 500, None, shape)[0].max() == np.median(rate[15:])
    shape.factors = lambda steps, count: np.append(np.zeros(499), 1.0)
    assert planned_rates(st.LossCurve(STEPS, rate, RUN.loss), 500, None, shape)[0].max() == 2.0


def test_what_the_figure_draws():
    """The run from its last two thirds on, the rest from where it is now, and the axes about both."""
    step = np.arange(1, 1501)
    loss = 3 + 20 / step
    loss[[900, 1000]] = 50.0
    run = st.LossCurve(step, 1.0, loss)
    ahead = np.array([1600.0, 2000.0])
    path = LossPrediction(ahead, np.ones(2), np.array([2.9, 2.8]), np.array([2.7, 2.5]), np.array([3.1, 3.3]))
    (axes,) = forecast_figure(run, 3.0, path, 0.9, "title").axes
    points, line = axes.lines[:2]
    x, y = points.get_data()
    assert (x[0], x[-1], x.size) == (500, 1500, 400)
    np.testing.assert_allclose(y, loss[x.astype(int) - 1])
    np.testing.assert_allclose(line.get_data(), [[1500, 1600, 2000], [3.0, 2.9, 2.8]])
    assert {(1500, 3.0), (2000, 2.5), (2000, 3.3), (1600, 2.7)} <= set(
        map(tuple, axes.collections[0].get_paths()[0].vertices.tolist())
    )
    (bar,) = axes.containers[0].lines[2]
    np.testing.assert_allclose(bar.get_segments(), [[[2000, 2.5], [2000, 3.3]]])
    assert axes.texts[0].get_text() == "2.8\n(2.5 … 3.3)"
    assert axes.texts[0].xy == (2000, 2.8)
    assert axes.get_xlim() == pytest.approx((500, 2000 + 0.3 * 1500))
    top = max(3.3, np.quantile(loss[499:], 0.99))
    assert axes.get_ylim() == pytest.approx((2.5 - 0.05 * (top - 2.5), top + 0.05 * (top - 2.5)))
