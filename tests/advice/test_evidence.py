"""Measurements for a change of batch size: B*, its interval, and the exponent of the best learning rate."""

from dataclasses import replace
from functools import cache

import numpy as np
import pytest

import sgdtheory as st
from sgdtheory.advice.evidence import StatedSize
from sgdtheory.advice.row import Estimate
from tests.advice.test_change import SETUP

NOW = {"batch_size": 64, "learning_rate": 0.01}


def extra_data(fit=None, **more):
    """Low end, number and high end of the extra data from 64 to 256."""
    row = st.change_batch_size(NOW | more, new_batch_size=256, optimizer="sgd", fit=fit)["extra_data"]
    return row.low, row.new, row.high


def data_above(size):
    """The extra data from 64 to 256 by the law 1 + b/a/B, where 0.2 b/a is `size`."""
    return (256 + 5 * size) / (64 + 5 * size) - 1


def grid_columns(batch_sizes=(16.0, 64.0, 256.0, 1024.0), exponent=0.3, group="a", data_sizes=4):
    """Losses whose best learning rate is ∝ B^exponent, and whose data to a loss are ∝ 1 + B/200."""
    samples = 4.0 ** np.arange(8, 8 + data_sizes)
    B, D, rate = (each.ravel() for each in np.meshgrid(batch_sizes, samples, 2.0 ** np.arange(-6, 3)))
    loss = (2 + 30 * (D / (1 + B / 200)) ** -0.5) * (1 + 0.02 * np.log(rate / (B / 256) ** exponent) ** 2)
    return {"batch_size": B, "samples": D, "learning_rate": rate, "loss": loss, "group": np.full(B.size, group)}


def fitted_grid(*parts, targets=(2.05, 2.1)):
    columns = {name: np.concatenate([part[name] for part in parts]) for name in parts[0]}
    return st.fit_loss_grid(columns, targets=targets)


@cache
def small_grid():
    return fitted_grid(grid_columns())


def test_is_64_worse_than_32():
    """Data to the target by the law itself; the interval holds the truth, and is that of b/a."""
    batches = 2.0 ** np.arange(3, 12)
    random = np.random.default_rng(3)
    law = st.fit_steps_law(batches, (1000 + 4e5 / batches) * np.exp(0.01 * random.standard_normal(9)))
    change = st.change_batch_size(SETUP | {"batch_size": 32}, new_batch_size=64, optimizer="adam", fit=law)
    row = change["extra_data"]
    assert row.new == pytest.approx(64 * law.predict(64) / (32 * law.predict(32)) - 1)
    assert row.low < 464 / 432 - 1 < row.high
    assert row.high - row.low < 0.03
    assert change["num_steps"].new == pytest.approx(50_000 * law.predict(64) / law.predict(32), abs=0.5)


def test_the_extra_data_of_a_law_admit_other_exponents():
    """The interval holds what steps with α = 0.8 take, and reaches as far as that of b/a, which admits them too."""
    batches = 2.0 ** np.arange(5, 10)
    steps = (1000 + 1000 * (128 / batches) ** 0.8) * np.exp(0.002 * np.random.default_rng(1).standard_normal(5))
    law = st.fit_steps_law(batches, steps)
    low, _, high = extra_data(law)
    assert (low, high) == law.extra_data_interval(64, 256)
    assert low < 256 * (1000 + 1000 * 0.5**0.8) / (64 * (1000 + 1000 * 2**0.8)) - 1 < high
    ends = [data_above(0.2 * end) for end in law.interval("b/a")]
    assert low <= ends[1] + 1e-9 < ends[0]
    assert high >= ends[0] - 1e-9


def test_a_grid_tells_the_exponent():
    B, D, rate = np.meshgrid(2.0 ** np.arange(4, 11), 2.0 ** np.arange(16, 23), 2.0 ** np.arange(-6, 3))
    best = 2 + 30 * (D / (1 + B / 200)) ** -0.5
    loss = best * (1 + 0.02 * np.log(rate / (B / 256) ** 0.3) ** 2)
    columns = {"batch_size": B, "samples": D, "learning_rate": rate, "loss": loss}
    grid = st.fit_loss_grid({name: column.ravel() for name, column in columns.items()}, targets=2.05)
    change = st.change_batch_size(SETUP, new_batch_size=256, optimizer="adam", fit=grid)
    assert change["learning_rate"].new == pytest.approx(3e-4 * 4**0.3, rel=0.01)
    assert change["learning_rate"].high < 3e-4 * 4**0.5  # √B is refused
    assert change["extra_data"].new == pytest.approx(456 / 264 - 1, rel=0.01)


def test_curves_tell_b_star(monkeypatch):
    """The wiring: B* at the run's data, and its interval."""
    fit = object.__new__(st.curves.CurvesFit)
    found = st.curves.CurvesCriticalBatchSize(None, np.array([300.0]), np.array([[200.0, 500.0]]), None, 1.0, "")
    asked = []
    monkeypatch.setattr(st.curves.CurvesFit, "knows_batch_size", True)
    monkeypatch.setattr(st.curves.CurvesFit, "critical_batch_size", lambda self, num: asked.append(num) or found)
    change = st.change_batch_size(SETUP, new_batch_size=256, optimizer="adam", fit=fit)
    assert asked == [64 * 50_000]
    ends = [(256 + 5 * size) / (64 + 5 * size) - 1 for size in (500, 300, 200)]
    row = change["extra_data"]
    assert (row.low, row.new, row.high) == pytest.approx(tuple(ends))


def test_b_star_over_a_reference_that_it_cannot_have():
    with pytest.raises(ValueError, match="critical_batch_size must exceed 1.2 × reference"):
        st.change_batch_size(
            SETUP | {"critical_batch_size": 300, "reference": 256}, new_batch_size=128, optimizer="sgd"
        )


def test_a_fit_and_a_b_star_contradict():
    law = st.fit_steps_law([64, 256, 1024, 4096], [50000, 14000, 5000, 2800])
    with pytest.raises(ValueError, match="give one of the two"):
        st.change_batch_size(SETUP | {"critical_batch_size": 300}, new_batch_size=128, optimizer="sgd", fit=law)


def test_a_b_star_over_a_reference_counts_from_vanishing_batches():
    """B* = 0.2 b/a + 1.2 B_ref; at 1.2 B_ref nothing is left for b/a."""
    assert extra_data(critical_batch_size=300.0)[1] == pytest.approx(data_above(300))
    assert extra_data(critical_batch_size=1.2 * 64 + 0.5, reference=64.0)[1] == pytest.approx(data_above(0.5))
    assert extra_data(critical_batch_size=300.0, reference=64.0)[1] == pytest.approx(data_above(300 - 1.2 * 64))
    with pytest.raises(ValueError, match="critical_batch_size must exceed 1.2 × reference"):
        extra_data(critical_batch_size=1.2 * 64, reference=64.0)
    given = NOW | {"critical_batch_size": 300.0, "reference": 64.0}
    headline = st.change_batch_size(given, new_batch_size=256, optimizer="sgd").headline
    assert headline == "B* = 300, 20% more data than at batch size 64"


def test_a_law_needs_a_b_and_the_exponent_1():
    flat = st.fit_steps_law([64, 256, 1024], [5000, 5000, 5000])
    curved = st.fit_steps_law([64, 256, 1024, 4096], [50_000, 14_000, 5000, 2800], alpha=0.9)
    for law in (flat, curved):
        with pytest.raises(ValueError, match=r"fit must be a law a \+ b/B with b above 0"):
            extra_data(law)


def test_a_law_through_as_many_points_as_numbers_leaves_b_star_open():
    law = st.fits.StepsLaw(1000.0, 4e5, 1.0, False, np.array([64.0, 256.0]), np.array([7250.0, 2562.5]))
    low, new, high = extra_data(law)
    assert (low, new, high) == pytest.approx((0, data_above(80), 3))
    reason = st.change_batch_size(NOW, new_batch_size=256, optimizer="sgd", fit=law)["extra_data"].reason
    assert "B* = 156.8 (0 … ∞), 20% more data than at batch size 64" in reason


def test_the_exponent_is_that_of_the_most_tuned_points():
    """A group with one batch size has no exponent in B, though it has the most data sizes."""
    groups = [grid_columns(), grid_columns((16.0, 64.0, 256.0), 0.6, "b"), grid_columns((64.0,), 0.5, "c", 6)]
    grid = fitted_grid(*groups)
    points = {law.group: law.fit.num_points for law in grid.laws if law.quantity == "learning rate"}
    assert points["a"] > points["b"] > points["c"]
    row = st.change_batch_size(NOW, new_batch_size=256, optimizer="adam", fit=grid)["learning_rate"]
    assert row.new == pytest.approx(0.01 * 4**0.3, rel=0.01)
    alone = replace(grid, laws=tuple(law for law in grid.laws if law.group == "c" or law.quantity != "learning rate"))
    change = st.change_batch_size(NOW, new_batch_size=256, optimizer="adam", fit=alone)
    assert "the grid has too few tuned (B, D) for a law of the best learning rate" in change.unknown


def test_b_star_of_a_grid_is_that_of_the_lowest_target_with_a_whole_law():
    grid = small_grid()
    lowest = min(grid.targets, key=lambda each: each.target)
    assert extra_data(grid)[1] == pytest.approx(data_above(0.2 * lowest.law.b / lowest.law.a), rel=1e-12)
    for a, b in ((0.0, 4e5), (1000.0, 0.0)):
        broken = replace(lowest, target=2.01, law=replace(lowest.law, a=a, b=b))
        assert extra_data(replace(grid, targets=(*grid.targets, broken))) == extra_data(grid)
        assert extra_data(replace(grid, targets=(broken,))) == extra_data()


def test_the_interval_of_a_grid_loses_what_its_reference_adds():
    """B* over small batches is B* − 1.2 B_ref, and at least 0; the interval holds the law's own number."""
    target = replace(small_grid().targets[0], interval=(40.0, 90.0))
    value = 0.2 * target.law.b / target.law.a
    for interval, ends in (
        ((40.0, 90.0), (40 - 19.2, 90 - 19.2)),
        ((10.0, 90.0), (0.0, 90 - 19.2)),
        ((19.7, 90.0), (0.5, 90 - 19.2)),
        ((80.0, 90.0), (value, 90 - 19.2)),
        ((30.0, 40.0), (30 - 19.2, value)),
    ):
        grid = replace(small_grid(), targets=(replace(target, interval=interval),))
        low, _, high = extra_data(grid)
        assert (low, high) == pytest.approx((data_above(ends[1]), data_above(ends[0])))


def test_a_grid_with_another_overhead_is_counted_at_20_percent():
    grid = st.fit_loss_grid(grid_columns(), targets=2.05, convention=st.fits.Convention(overhead=0.5))
    (target,) = grid.targets
    assert extra_data(grid)[1] == pytest.approx(data_above(0.2 * target.law.b / target.law.a))
    low, high = (0.4 * (end - 1.5 * 16) for end in target.interval)
    found = extra_data(grid)
    assert (found[0], found[2]) == pytest.approx((data_above(high), data_above(low)))


@pytest.mark.parametrize(
    ("interval", "begin"),
    [
        ((120.0, 160.0), "B* = 137 (120 … 160), 20% more data than at batch size 64"),
        ((83.8, np.inf), "B* is not determined: its interval is 83.8 … ∞, for 20% more data than at batch size 64"),
        ((0.0, 160.0), "B* is not determined: its interval is 0 … 160, for 20% more data than at batch size 64"),
        ((np.nan, np.nan), "B* = 137, 20% more data than at batch size 64"),
    ],
)
def test_an_open_interval_does_not_determine_b_star(interval, begin):
    assert StatedSize(Estimate(137.0, *interval), 64.0, 0.2).answer == begin
