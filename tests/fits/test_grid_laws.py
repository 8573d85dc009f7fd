"""Power laws of a grid: those with enough points, in quantities that vary, over all groups if sizes differ."""

from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest

from sgdtheory.fits.grid_laws import grid_laws


def some(**fields) -> Any:
    return SimpleNamespace(**fields)


def group_of(name, size, rates=None, batch_sizes=(8.0, 16.0, 32.0), samples=(1e4, 3e4), state=None):
    rates = np.ones((len(batch_sizes), len(samples))) if rates is None else rates
    state = np.full(rates.shape, "lowest rate") if state is None else state
    return some(
        group=name,
        size=size,
        batch_sizes=np.array(batch_sizes),
        samples=np.array(samples),
        learning_rate=rates,
        state=state,
    )


def targets_of(name, number, size=1.0):
    """B* = 3 D^0.4 N^0.2."""
    return [
        some(group=name, samples=data, critical_batch_size=3 * data**0.4 * size**0.2)
        for data in 10.0 ** np.arange(number)
    ]


def found_in(laws, quantity):
    return {law.group: law.fit for law in laws if law.quantity == quantity}


@pytest.mark.parametrize(("number", "enough"), [(1, False), (3, False), (4, True)])
def test_a_law_takes_two_points_more_than_it_has_numbers(number, enough):
    groups = [group_of("a", np.nan)]
    laws = found_in(grid_laws(groups, targets_of("a", number), []), "critical batch size")
    assert list(laws) == (["a"] if enough else [])
    if enough:
        assert laws["a"].exponents == pytest.approx({"samples": 0.4})
        assert laws["a"].coefficient == pytest.approx(3)


def test_numbers_that_are_not_finite_are_left_out():
    points = [*targets_of("a", 4), some(group="a", samples=1e9, critical_batch_size=np.inf)]
    laws = found_in(grid_laws([group_of("a", np.nan)], points, []), "critical batch size")
    assert laws["a"].num_points == 4


@pytest.mark.parametrize(
    ("sizes", "names"),
    [
        ([1.0, 9.0], ["a", "b", "all"]),
        ([2.0, 2.0], ["a", "b"]),
        ([1.0, np.nan, 9.0], ["a", "b", "c"]),
        ([np.nan, np.nan], ["a", "b"]),
        ([1.0, 4.0, 9.0], ["a", "b", "c", "all"]),
    ],
)
def test_all_groups_have_a_law_where_sizes_differ(sizes, names):
    """Each group by itself has another coefficient: 3 N^0.2."""
    groups = [group_of(name, size) for name, size in zip("abc", sizes, strict=False)]
    points = [point for each in groups for point in targets_of(each.group, 5, np.nan_to_num(each.size, nan=1.0))]
    laws = found_in(grid_laws(groups, points, []), "critical batch size")
    assert list(laws) == names
    for each in groups:
        assert laws[each.group].coefficient == pytest.approx(3 * np.nan_to_num(each.size, nan=1.0) ** 0.2)
        assert laws[each.group].num_points == 5
    if "all" in names:
        assert laws["all"].exponents == pytest.approx({"samples": 0.4, "size": 0.2})


def test_learning_rates_count_where_they_lie_between_rates():
    """γ = 0.1 B^½ D^−¼ in five places; the sixth is at an end of the rates."""
    groups = [group_of("a", 5.0)]
    rates = 0.1 * groups[0].batch_sizes[:, None] ** 0.5 * groups[0].samples ** -0.25
    state = np.full(rates.shape, "tuned", dtype=object)
    rates[2, 1], state[2, 1] = 77.0, "highest rate"
    laws = found_in(grid_laws([group_of("a", 5.0, rates, state=state)], [], []), "learning rate")
    assert laws["a"].exponents == pytest.approx({"batch_size": 0.5, "samples": -0.25})
    assert laws["a"].num_points == 5
    state[:, 1] = "highest rate"
    assert not grid_laws([group_of("a", 5.0, rates, state=state)], [], [])


def test_what_does_not_vary_has_no_power():
    batch_sizes = 2.0 ** np.arange(6)
    group = group_of("a", 5.0, batch_sizes[:, None] ** 0.5, batch_sizes, [1e4], np.full((6, 1), "tuned"))
    laws = found_in(grid_laws([group], [], []), "learning rate")
    assert laws["a"].exponents == pytest.approx({"batch_size": 0.5})


def test_points_that_do_not_tell_powers_apart_have_no_law():
    """D grows with B along the diagonal, and one batch size and data size has no law either."""
    sizes = 2.0 ** np.arange(6)
    diagonal = np.where(np.eye(6) > 0, "tuned", "")
    assert not grid_laws([group_of("a", 5.0, np.ones((6, 6)), sizes, sizes, diagonal)], [], [])
    same = [some(group="a", samples=1e4, critical_batch_size=each) for each in (1.0, 2.0, 3.0, 4.0)]
    assert not grid_laws([group_of("a", 5.0)], same, [])


def test_batch_sizes_at_fixed_data():
    worse = [
        some(group="a", samples=data, share=0.01, batch_size=2 * data**0.5, best_batch_size=data**0.3)
        for data in 10.0 ** np.arange(4)
    ]
    laws = grid_laws([group_of("a", np.nan)], [], worse)
    assert [law.quantity for law in laws] == ["best batch size", "batch size within 0.01"]
    assert [law.fit.exponents["samples"] for law in laws] == pytest.approx([0.3, 0.5])
