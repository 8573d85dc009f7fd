"""From grids of losses to B*: grids that follow a law come out exactly, and what is not tuned is said."""

import numpy as np
import pytest

import sgdtheory as st
from sgdtheory.fits.data_to_loss import LossCurves
from sgdtheory.fits.degradation import largest_within
from sgdtheory.fits.many_laws import critical_batch_sizes_of
from sgdtheory.fits.tuned_loss import lowest

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


# ------------------------------------------------------------------ the parts


def test_a_parabola_in_log_rate_is_exact():
    x = np.log(np.array([0.1, 0.2, 0.5, 1.0, 3.0]))  # not evenly spaced
    found = lowest(x, (1.5 + 0.3 * (x - 0.4 * x[1]) ** 2)[None])
    np.testing.assert_allclose([found.top[0], found.log_rate[0], found.fall[0]], [1.5, 0.4 * x[1], 0], atol=1e-12)
    assert found.state[0] == "tuned"


@pytest.mark.parametrize(
    ("losses", "state"),
    [
        ([1.0, 2.0, 3.0], "lowest rate"),
        ([3.0, 2.0, 1.0], "highest rate"),
        ([3.0, 2.0, 1.0, np.inf], "beside divergence"),
        ([np.inf, 1.0, 2.0, 3.0], "beside divergence"),
        ([4.0, 1.1, 1.0, np.inf], "tuned"),  # the parabola turns before the last
        ([np.inf, np.inf], "diverged"),
        ([2.0, np.inf, 1.0, np.inf, 2.0], "one rate"),
        ([np.inf, 1.0, np.inf], "one rate"),
        ([1.0], "one rate"),
    ],
)
def test_how_the_least_was_found(losses, state):
    assert lowest(np.arange(len(losses), dtype=float), np.array([losses])).state[0] == state


@pytest.mark.parametrize("order", [1, -1])
def test_the_fall_towards_divergence_goes_on_as_differences_shrink(order):
    """Differences 4, 2: the next is 1, whatever is added; the other way round the same."""
    for offset in (0.0, 100.0):
        y = offset + np.array([[7.0, 3.0, 1.0, np.inf]])[:, ::order]
        found = lowest(np.arange(4.0), y)
        np.testing.assert_allclose([found.top[0] - offset, found.fall[0]], [1, 1], atol=1e-12)
        assert found.value(0.5)[0] == found.top[0] - 0.5


def test_huge_finite_losses_are_a_cliff_too():
    """A parabola through 80 would put the least far below all that was measured."""
    found = lowest(np.arange(4.0), np.array([[3.0, 1.2, 1.0, 80.0]]))
    assert found.state[0] == "tuned"
    assert found.top[0] == pytest.approx(0.8875)  # through 3, 1.2 and 1
    three = lowest(np.arange(3.0), np.array([[1.2, 1.0, 80.0]]))
    assert (three.state[0], three.top[0]) == ("beside divergence", 1.0)
    assert three.fall[0] == pytest.approx(0.2)


@pytest.mark.parametrize("exponent", [0.3, 0.7])
def test_samples_to_a_loss_invert_the_curve(exponent):
    samples = 2.0 ** np.arange(10, 20)
    curves = LossCurves(samples, (np.log(samples) * -exponent)[None])
    np.testing.assert_allclose(curves.samples_to(-exponent * np.log(5000.0)), [5000], rtol=1e-9)
    np.testing.assert_allclose(curves.samples_to(-exponent * np.log(1024.0)), [1024], rtol=1e-9)
    assert np.isnan(curves.samples_to(-exponent * np.log(1000.0))[0])


def test_losses_that_rise_are_pooled():
    curves = LossCurves(np.array([1.0, 2.0, 4.0, 8.0]), np.array([[3.0, 1.9, 2.1, 1.0]]))
    np.testing.assert_allclose(curves.knots, [[3, 2, 2, 1]])
    assert 1 < curves.samples_to(2.5)[0] < 2


def test_many_laws_are_the_laws_one_by_one():
    random = np.random.default_rng(0)
    steps = (20 + 3000 / BATCHES) * np.exp(0.1 * random.standard_normal((20, BATCHES.size)))
    convention = st.Convention(16, 0.3)
    one_by_one = [st.fit_steps_law(BATCHES, each).critical_batch_size(convention=convention) for each in steps]
    np.testing.assert_allclose(critical_batch_sizes_of(BATCHES, steps, convention), one_by_one, rtol=1e-6)
    assert critical_batch_sizes_of(BATCHES, 3000 / BATCHES[None], convention)[0] > 1e9  # no plateau


def test_largest_within_a_share_is_on_a_line():
    assert largest_within(np.array([1.0, 2, 4]), np.array([1, 1.005, 1.025]), 0.01) == pytest.approx(2.5)
    assert largest_within(np.array([1.0, 2, 4]), np.array([1.02, 1.0, 1.009]), 0.01) == np.inf


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


def test_a_target_that_is_asked_for_is_read_off_each_batch_size():
    (found,) = st.fit_loss_grid(table(), targets=2.1, convention=st.Convention(16)).targets
    data = (30 / 0.1) ** 2 * (1 + found.batch_sizes / BALANCE)
    np.testing.assert_allclose(found.steps, data / found.batch_sizes, rtol=2e-3)
    assert found.samples == pytest.approx(data[0], rel=0.01)


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
    assert wrong.targets[0].interval[1] < truth
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


def test_one_learning_rate_is_no_tuning():
    grid = st.fit_loss_grid(table(rates=np.array([0.3])), convention=st.Convention(16))
    assert "one learning rate at each batch size and data size: nothing is tuned" in grid.remark
    assert (grid.groups[0].state == "one rate").all()
    assert grid.targets


def test_a_grid_that_is_tuned_nowhere_says_so():
    """Two rates, of which the best is always at an end."""
    grid = st.fit_loss_grid(table(rates=np.array([0.3, 0.6])), convention=st.Convention(16))
    assert (grid.targets, grid.degradations, grid.laws) == ((), (), ())
    assert "no steps to a target" in grid.remark
    assert "no degradation" in grid.remark


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


def test_points_of_one_run_share_its_error():
    """With seeds the L* at all D of a run move together."""
    from sgdtheory.fits.loss_noise import loss_noise, resampled

    random = np.random.default_rng(0)
    spread = {}
    for seeds in (True, False):
        rows = joined(*[table(rates=2.0 ** np.arange(-4, 3), seed=np.full(560, k)) for k in range(3)])
        if not seeds:
            rows.pop("seed")
        rows["loss"] = rows["loss"] * np.exp(0.01 * random.standard_normal(rows["loss"].size))
        tuned = st.fit_loss_grid(rows, convention=st.Convention(16)).groups[0]
        drawn = resampled(tuned, loss_noise(tuned), 2000, 0)
        here = drawn[:, 3][:, tuned.state[3] == "tuned"][:, :2]
        spread[seeds] = np.corrcoef(here.T)[0, 1]
    assert spread[True] > 0.6
    assert abs(spread[False]) < 0.1


def test_groups_and_sizes():
    rows = [table(group=np.full(880, f"{n}M"), size=np.full(880, float(n)), balance=30.0 * n**0.5) for n in (100, 400)]
    grid = st.fit_loss_grid(joined(*rows), targets=2.1, convention=st.Convention(16))
    assert [each.group for each in grid.targets] == ["100M", "400M"]
    for found, n in zip(grid.targets, (100, 400), strict=True):
        assert found.critical_batch_size == pytest.approx(0.2 * 30 * n**0.5 + 19.2, rel=0.02)
    assert {"100M", "400M", "all"} <= {law.group for law in grid.laws}
    joint = next(law.fit for law in grid.laws if (law.quantity, law.group) == ("learning rate", "all"))
    assert joint.exponents["size"] == pytest.approx(0, abs=1e-6)


def test_final_losses_at_one_data_size_show_degradation_without_targets():
    grid = st.fit_loss_grid(table(samples=np.array([2.0**18])))
    assert grid.targets == ()
    assert "no steps to a target" in grid.remark
    (worse,) = grid.degradations
    assert worse.batch_size < BATCHES[-1]


def test_diverged_runs_are_data():
    rows = table(BATCHES[:4], SAMPLES[:3])
    rows["loss"] = np.where(rows["learning_rate"] > 2, np.inf, rows["loss"])
    also = dict(rows, loss=[None if np.isinf(each) else each for each in rows["loss"]])
    first, second = (st.fit_loss_grid(each, convention=st.Convention(16)) for each in (rows, also))
    np.testing.assert_array_equal(first.groups[0].loss, second.groups[0].loss)


def test_rows_may_be_tuples_or_mappings():
    columns = {name: column.tolist() for name, column in table(BATCHES[:4], SAMPLES[:3]).items()}
    tuples = list(zip(*columns.values(), strict=True))
    mappings = [dict(zip(columns, row, strict=True)) for row in tuples]
    expected = st.fit_loss_grid(columns).groups[0].loss
    for rows in (tuples, mappings):
        np.testing.assert_array_equal(st.fit_loss_grid(rows).groups[0].loss, expected)


# ------------------------------------------------------------------ bad input


def changed(**columns):
    return table() | columns


@pytest.mark.parametrize(
    ("rows", "options", "message"),
    [
        ({"batch_size": [1]}, {}, "table must have the columns .*, got none called samples or learning_rate or loss"),
        ({name: [] for name in table()}, {}, "table must have rows, got none"),
        ([], {}, "table must have rows, got none"),
        ([(1, 2, 3)], {}, r"table must have rows \(batch_size, samples, learning_rate, loss\), .* got \(1, 2, 3\)"),
        ([{"loss": 1.0}, {"batch_size": 1}], {}, "table must have batch_size in every row, got none in row 0"),
        (changed(loss=[1.0]), {}, "table must have columns of one length, got {'batch_size': 880"),
        (changed(batch_size=-table()["batch_size"]), {}, "batch_size must be positive and finite, got -16"),
        (changed(loss=-table()["loss"]), {}, "loss must be positive, got -"),
        (changed(loss=["low"] * 880), {}, "loss must hold numbers"),
        (changed(samples=np.ones(880)), {}, "samples must be at least batch_size, one step, got 1 with batch_size 16"),
        (changed(loss=np.full(880, np.nan)), {}, "all of its runs diverged: lower the rates"),
        (changed(size=np.arange(1.0, 881)), {}, "size must be the same in all rows of the table, got 1 and 880"),
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


def test_files(tmp_path):
    path = tmp_path / "grid.csv"
    path.write_text("m,N,B,D,lr,L,s\na,5,16,1e5,0.1,3.5,0\na,5,16,1e5,0.2,,1\n")
    names = {"batch_size": "B", "samples": "D", "learning_rate": "lr", "loss": "L"}
    found = st.read_loss_grid(path, **names, group="m", size="N", seed="s")
    assert list(found) == ["batch_size", "samples", "learning_rate", "loss", "group", "size", "seed"]
    np.testing.assert_array_equal(found["loss"], [3.5, np.nan])
    assert found["seed"] == ["0", "1"]
    path.write_text("batch_size,samples,learning_rate,loss\n16,1e5,0,3\n")
    with pytest.raises(ValueError, match="line 2: learning_rate must be positive and finite, got 0"):
        st.read_loss_grid(path)
    path.write_text("batch_size,samples,learning_rate,loss\n16,1e5,1,low\n")
    with pytest.raises(ValueError, match="line 2: loss must be a number, or empty of a run that diverged, got 'low'"):
        st.read_loss_grid(path)
    path.write_text("batch_size,samples,learning_rate,loss\n")
    with pytest.raises(ValueError, match="has no rows below its header"):
        st.read_loss_grid(path)
