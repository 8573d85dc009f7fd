"""Remarks on a grid of losses, parameters that are not determined, and the defaults."""

from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest

import sgdtheory as st
from sgdtheory.fits.loss_grid import _on_rates, _on_target

CONVENTION = st.Convention(16)
BATCHES, SAMPLES = (16.0, 64.0, 256.0), (1e4, 1e5, 1e6)


def rows_of(group="a", batches=BATCHES, samples=SAMPLES, factors=(0.5, 1, 2), floor=2.0, diverged=()):
    """Losses at a few multiples of the best rate of each (B, D), those at (B, D, multiple) of `diverged` not there."""
    rows = []
    for batch in batches:
        for data in samples:
            for factor in factors:
                loss = (floor + 30 * (data / (1 + batch / 100)) ** -0.5) * np.exp(0.02 * np.log(factor / 0.9) ** 2)
                loss = None if (batch, data, factor) in diverged else float(loss)
                row = (batch, data, 0.01 * batch**0.5 * factor, loss)
                rows.append(dict(zip(("batch_size", "samples", "learning_rate", "loss"), row, strict=True)))
                rows[-1]["group"] = group
    return rows


def fit(*tables, **options):
    return st.fit_loss_grid([row for table in tables for row in table], **({"convention": CONVENTION} | options))


# ------------------------------------------------------------------ what is taken where nothing is said


def test_defaults():
    rows, random = rows_of(factors=(0.25, 0.5, 1, 2)), np.random.default_rng(0)
    for row in rows:
        row["loss"] *= np.exp(1e-3 * random.standard_normal())
    grid = st.fit_loss_grid(rows)
    assert grid.convention == st.Convention(BATCHES[0], 0.2)
    assert grid.level == 0.95
    assert {each.share for each in grid.degradations} == {0.01}
    other = st.fit_loss_grid(rows, seed=1)
    assert other.targets[0].resampled_interval != grid.targets[0].resampled_interval  # the seed is another


# ------------------------------------------------------------------ what is known of other runs


def test_where_neither_noise_nor_an_edge_is_known_nothing_is_said_of_other_runs():
    grid = fit(rows_of())
    assert grid.noise[0].source == ""
    assert "no runs are repeated and no (B, D) has four rates" in grid.remark
    assert np.isnan(grid.targets[0].resampled_interval).all()
    assert np.isnan(grid.degradations[0].interval).all()


def test_an_edge_alone_or_noise_alone_is_enough():
    """One (B, D) beside divergence, without noise; four rates, without divergence."""
    beside = fit(rows_of(diverged={(256.0, 1e6, 2)}))
    assert (beside.groups[0].slack > 0).sum() == 1
    noisy = fit(rows_of(factors=(0.25, 0.5, 1, 2)))
    assert (noisy.groups[0].slack == 0).all()
    for grid in (beside, noisy):
        assert np.isfinite(grid.targets[0].resampled_interval).all()


# ------------------------------------------------------------------ groups


def test_each_group_has_its_own_remarks():
    """The second begins where the first ends; the third has two batch sizes, too few for anything."""
    tables = rows_of(), rows_of("b", floor=4.0), rows_of("c", batches=BATCHES[:2])
    grid = fit(*tables, targets=(2.2, 4.2))
    assert [(each.group, each.target) for each in grid.targets] == [("a", 2.2), ("b", 4.2)]
    assert "a: loss 4.2 is not reached by three batch sizes" in grid.remarks
    assert "b: loss 2.2 is not reached by three batch sizes" in grid.remarks
    assert "a: loss 2.2 is not reached by three batch sizes" not in grid.remarks
    nothing = "no data size that the smallest batch size and two others have in common: no degradation"
    assert f"c: {nothing}" in grid.remarks
    assert not {f"a: {nothing}", f"b: {nothing}"} & set(grid.remarks)
    chosen = fit(*tables)
    steps = "steps to a target need a loss that at least three batch sizes reach, each run for two data sizes"
    assert f"c: {steps}" in chosen.remarks
    assert not {f"a: {steps}", f"b: {steps}"} & set(chosen.remarks)
    assert not any("steps to a target need" in remark for remark in grid.remarks)


def test_a_target_that_nobody_reaches_is_told_with_the_least_loss_of_all():
    tables = rows_of(), rows_of("b", floor=4.0)
    least = fit(*tables).groups[0].loss.min()
    with pytest.raises(ValueError, match=f"got 1.9; the least L\\* is {least:.4g}: leave targets out"):
        fit(*tables, targets=(2.2, 1.9))


def test_too_few_batch_sizes_are_told_with_the_group_that_has_most():
    with pytest.raises(ValueError, match="at least 3 different values in a group, got 2 in b; run more batch sizes"):
        fit(rows_of(batches=BATCHES[:1]), rows_of("b", batches=BATCHES[:2]))


# ------------------------------------------------------------------ rates and targets, one by one


def group_of(state, slack=0.0, batch_sizes=BATCHES) -> Any:
    state = np.array(state)
    return SimpleNamespace(
        untuned=False, state=state, slack=np.broadcast_to(slack, state.shape), batch_sizes=np.array(batch_sizes)
    )


def test_remarks_on_rates_count_and_name_where():
    """The grid has eight (B, D) with runs."""
    group = group_of(
        [["lowest rate", "tuned", ""], ["highest rate", "highest rate", "tuned"], ["one rate", "diverged", "tuned"]]
    )
    assert list(_on_rates(group, False)) == [
        "the best rate is the lowest one in 1 of 8 (B, D), at B = 16: left out of fits; run smaller rates there",
        "the best rate is the highest one in 2 of 8 (B, D), at B = 64: left out of fits; run larger rates there",
        "2 of 8 (B, D) have one rate or none that did not diverge: left out of fits",
    ]
    assert not list(_on_rates(group_of([["tuned", "tuned"]] * 3), False))


def test_the_remark_on_divergence_has_the_largest_slack_in_percent():
    """e^0.0996 − 1 is 10.47%; e^0.3 − 1 belongs to a (B, D) that is tuned."""
    slack = np.array([[0.0996, 0.01], [0.0, 0.3], [0.02, 0.0]])
    group = group_of([["beside divergence"] * 2, ["tuned"] * 2, ["beside divergence", "tuned"]], slack)
    (remark,) = _on_rates(group, False)
    assert remark.startswith("the loss still falls towards a rate that diverges in 3 of 6 (B, D), at B = 16, 256: L*")
    assert "L* is known within 10%" in remark


@pytest.mark.parametrize(
    ("number", "shown"), [(3, "1, 2, 4"), (4, "1, 2, 4, 8"), (5, "1, 2, 4, 8, … 16"), (7, "1, 2, 4, 8, … 64")]
)
def test_many_batch_sizes_are_shortened(number, shown):
    group = group_of([["lowest rate"]] * number, batch_sizes=2.0 ** np.arange(number))
    (remark,) = _on_rates(group, True)
    assert f"at B = {shown}: used as they are, though upper bounds; run smaller" in remark


def target_of(critical, b=1.0, left_out=None) -> Any:
    law = SimpleNamespace(
        b=b, batch_sizes=np.array([16.0, 64.0, 256.0]), critical_batch_size=lambda convention: critical
    )
    return SimpleNamespace(left_out=left_out or {}, law=law)


@pytest.mark.parametrize(
    ("critical", "b", "reference", "expected"),
    [
        (100.0, 5.0, 16, []),
        (16.0, 1.0, 64, []),  # the smallest and the largest that reach the target are inside
        (256.0, 5.0, 256, []),
        (100.0, 5.0, 15.9, ["the reference 15.9 lies outside the batch sizes 16 … 256"]),
        (100.0, 5.0, 300, ["the reference 300 lies outside the batch sizes 16 … 256"]),
        (300.0, 5.0, 16, ["B* = 300 lies outside the batch sizes 16 … 256"]),
        (12.0, 5.0, 16, ["B* = 12 lies outside the batch sizes 16 … 256"]),
        (np.inf, 5.0, 16, ["no plateau was measured, so B* is not bounded from above"]),
        (20.0, 0.0, 16, ["steps do not fall with the batch size, so B* is the convention alone"]),
    ],
)
def test_remarks_on_a_target(critical, b, reference, expected):
    assert list(_on_target(target_of(critical, b), st.Convention(reference))) == expected


def test_what_a_target_left_out_is_told():
    target = target_of(100.0, left_out={512.0: "its L* lies above", 1024.0: "too"})
    assert list(_on_target(target, CONVENTION)) == ["left out: B = 512 (its L* lies above), B = 1024 (too)"]
