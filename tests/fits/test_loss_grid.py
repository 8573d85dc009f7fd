"""B* from grids of losses: grids that follow a law come out exactly, and remarks name what was not tuned."""

from dataclasses import replace

import numpy as np
import pytest

import sgdtheory as st

BATCHES, SAMPLES, RATES = 2.0 ** np.arange(4, 12), 2.0 ** np.arange(14, 24), 2.0 ** np.arange(-7, 4)
BALANCE = 300.0  # b/a


def table(batches=BATCHES, samples=SAMPLES, rates=RATES, *, curvature=0.02, balance=BALANCE, cliff=np.inf, **more):
    """Losses of which steps to any target are ∝ 1/balance + 1/B, best at γ = (B/256)^½ (D/2^18)^−¼."""
    batch, data, rate = (each.ravel() for each in np.meshgrid(batches, samples, rates, indexing="ij"))
    best = 2 + 30 * (data / (1 + batch / balance)) ** -0.5
    loss = best * np.exp(curvature * np.log(rate / best_rate(batch, data)) ** 2)
    loss = np.where(rate > cliff, np.nan, loss)
    return {"batch_size": batch, "samples": data, "learning_rate": rate, "loss": loss, **more}


def best_rate(batch, data):
    return (batch / 256) ** 0.5 * (data / 2**18) ** -0.25


def joined(*tables):
    return {name: np.concatenate([np.asarray(each[name]) for each in tables]) for name in tables[0]}


# ------------------------------------------------------------------ a grid as a whole


def test_critical_batch_size_and_laws_of_a_grid_that_follows_a_law():
    grid = st.fit_loss_grid(table(), convention=st.Convention(16, 0.2))
    assert len(grid.targets) == 3
    for found in grid.targets:
        assert found.left_out.keys() <= set(BATCHES)
        assert found.critical_batch_size == pytest.approx(0.2 * BALANCE + 1.2 * 16, rel=0.01)
        assert found.interval[0] < found.critical_batch_size < found.interval[1]
        assert found.interpolated == pytest.approx(found.critical_batch_size, rel=0.02)
    rates = next(law for law in grid.laws if law.quantity == "learning rate").fit
    assert rates.exponents == pytest.approx({"batch_size": 0.5, "samples": -0.25}, abs=1e-6)
    group = grid.groups[0]
    inside = group.state == "tuned"
    np.testing.assert_allclose(group.learning_rate[inside], best_rate(BATCHES[:, None], SAMPLES)[inside], rtol=1e-6)
    worse = next(each for each in grid.degradations if each.samples == 2**16)
    loss = (2 + 30 * (2**16 / (1 + worse.batch_sizes / BALANCE)) ** -0.5) / (
        2 + 30 * (2**16 / (1 + 16 / BALANCE)) ** -0.5
    )
    np.testing.assert_allclose(worse.ratios, loss, rtol=1e-9)


def test_edges_are_left_out_and_said_and_make_a_wrong_critical_batch_size_where_they_are_not():
    """Rates up to 2: large batches lack theirs. Left out, B* is right; counted, it is far too small."""
    rows = table(rates=RATES[RATES <= 2], curvature=0.4)
    options = {"targets": 2.1, "convention": st.Convention(16, 0.2)}
    right = st.fit_loss_grid(rows, **options)
    assert "the best rate is the highest one in" in right.remark
    assert "run larger rates there" in right.remark
    truth = 0.2 * BALANCE + 1.2 * 16
    assert right.targets[0].critical_batch_size == pytest.approx(truth, rel=0.05)
    assert right.targets[0].left_out
    wrong = st.fit_loss_grid(rows, **options, edges=True)
    law = replace(wrong.targets[0].law, alpha_range=(1, 1))
    assert law.interval(convention=st.Convention(16, 0.2))[1] < truth
    assert "upper bounds" in wrong.remark


def test_divergence_above_the_best_is_allowed_for():
    """Rates above ½ diverge: L* of large batches lies between the loss at ½ and where its fall leads to."""
    grid = st.fit_loss_grid(table(cliff=0.5, curvature=0.05), convention=st.Convention(16))
    group = grid.groups[0]
    beside = group.state == "beside divergence"
    assert beside.any()
    assert (group.slack[beside] > 0).all()
    assert (group.slack[~beside] == 0).all()
    assert "towards a rate that diverges" in grid.remark


def test_repeated_runs_say_how_losses_scatter():
    random = np.random.default_rng(1)
    rows = joined(*[table() for _ in range(4)])
    rows["loss"] = rows["loss"] * np.exp(0.01 * random.standard_normal(rows["loss"].size))
    grid = st.fit_loss_grid(rows, convention=st.Convention(16))
    assert grid.noise[0].source == "runs"
    np.testing.assert_allclose(np.sqrt(grid.noise[0].variances), 0.01, rtol=0.35)  # 60 degrees: 4 standard errors
    single = {name: column[: rows["loss"].size // 4] for name, column in rows.items()}
    alone = st.fit_loss_grid(single, convention=st.Convention(16))
    assert alone.noise[0].source == "rates"
    assert "no runs are repeated" in alone.remark
    np.testing.assert_allclose(np.sqrt(alone.noise[0].variances), 0.01, rtol=0.5)
    low, high = grid.targets[0].resampled_interval
    assert low < grid.targets[0].critical_batch_size < high
    again = st.fit_loss_grid(rows, convention=st.Convention(16))
    assert again.targets[0].resampled_interval == (low, high)


def test_groups_and_sizes():
    rows = [table(group=np.full(880, f"{n}M"), size=np.full(880, float(n)), balance=30.0 * n**0.5) for n in (100, 400)]
    grid = st.fit_loss_grid(joined(*rows), targets=2.1, convention=st.Convention(16))
    assert [each.group for each in grid.targets] == ["100M", "400M"]
    for found, n in zip(grid.targets, (100, 400), strict=True):
        assert found.critical_batch_size == pytest.approx(0.2 * 30 * n**0.5 + 19.2, rel=0.02)
    assert {"100M", "400M", "all"} <= {law.group for law in grid.laws}
    joint = next(law.fit for law in grid.laws if (law.quantity, law.group) == ("learning rate", "all"))
    assert joint.exponents["size"] == pytest.approx(0, abs=1e-6)


# ------------------------------------------------------------------ bad input


@pytest.mark.parametrize(
    ("rows", "options", "message"),
    [
        (table(BATCHES[:2]), {}, "batch_size must have at least 3 different values in a group, got 2; run more"),
        (table(), {"targets": 1.5}, "targets must be reached by 3 batch sizes of a group, .* got 1.5; the least L"),
        (table(), {"targets": -1}, "targets must be positive and finite, got -1"),
        (table(), {"level": 1.5}, "level must lie between 0 and 1, got 1.5"),
        (table(), {"degradation": 0}, "degradation must be positive and finite, got 0"),
        (table(), {"seed": 0.5}, "seed must be a whole number of at least 0, got 0.5"),
    ],
)
def test_bad_input_is_one_sentence(rows, options, message):
    with pytest.raises(ValueError, match=message) as caught:
        st.fit_loss_grid(rows, **options)
    assert "\n" not in str(caught.value)


# ------------------------------------------------------------------ an optimal batch size


def curved_table(noise=0.0):
    """Steps to a loss are ∝ 1/200 + 1/B + 30/B²: B_opt = √6000; overheads count from there."""
    batch, data, rate = np.meshgrid(2.0 ** np.arange(2, 11), 2.0 ** np.arange(12, 21), 2.0 ** np.arange(-3, 4))
    loss = (2 + 30 * (data / (1 + batch / 200 + 30 / batch)) ** -0.5) * (1 + 0.02 * np.log(rate) ** 2)
    loss = loss * np.exp(noise * np.random.default_rng(0).standard_normal(loss.shape))
    columns = {"batch_size": batch, "samples": data, "learning_rate": rate, "loss": loss}
    return {name: column.ravel() for name, column in columns.items()}


def test_the_optimal_batch_size_of_a_grid():
    grid = st.fit_loss_grid(curved_table(), optimal_batch_size=True, convention=st.Convention(None), targets=2.2)
    (found,) = grid.targets
    best = 6000**0.5
    level = 1.2 * (1 + 2 * best / 200)
    assert found.optimal_batch_size == pytest.approx(best, rel=0.01)
    for end in (found.smallest_batch_size, found.critical_batch_size):
        assert 1 + end / 200 + 30 / end == pytest.approx(level, rel=0.01)
    assert found.reference == found.optimal_batch_size
    assert found.samples == pytest.approx(found.optimal_batch_size * found.law.predict(found.optimal_batch_size))


def test_intervals_of_the_optimum_hold_it_and_the_scatter():
    grid = st.fit_loss_grid(curved_table(0.001), optimal_batch_size=True, convention=st.Convention(None))
    for found in grid.targets:
        assert found.optimal_interval[0] < 6000**0.5 < found.optimal_interval[1]
        for name, ends in (("optimal", found.optimal_interval), ("smallest", found.smallest_interval)):
            low, high = found.law.interval(f"{name}_batch_size", convention=grid.convention)
            assert ends[0] <= low < high <= ends[1]


@pytest.mark.slow
def test_the_reference_is_the_smallest_batch_size_that_all_targets_have():
    """The first target is not reached from below by the largest batch sizes, the second not by the smallest."""
    grid = st.fit_loss_grid(curved_table(), convention=st.Convention(None))
    reached = [set(each.batch_sizes.tolist()) for each in grid.targets]
    assert grid.convention.reference == min(set.intersection(*reached))
    assert all(each.convention == grid.convention for each in grid.targets)


def test_four_batch_sizes_are_needed_for_the_optimum():
    columns = curved_table()
    kept = np.isin(columns["batch_size"], (16, 64, 256))
    three = {name: column[kept] for name, column in columns.items()}
    assert st.fit_loss_grid(three).targets
    grid = st.fit_loss_grid(three, optimal_batch_size=True)
    assert not grid.targets
    assert "a loss that at least four batch sizes reach" in grid.remark
    with pytest.raises(ValueError, match="reached by 4 batch sizes of a group"):
        st.fit_loss_grid(three, optimal_batch_size=True, targets=2.2)
