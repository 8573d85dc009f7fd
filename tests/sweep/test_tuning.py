"""Tuned steps of hand-made sweeps against a plain scan, and what is said of choices at the ends of a grid."""

import itertools

import numpy as np
import pytest
from scipy import stats

from sgdtheory.sweep import SweepTable, best_steps, unseen_steps
from sgdtheory.training import TrainResult
from sgdtheory.training.evaluation import interpolated_steps
from tests.runs import changed, run_of
from tests.sweep.test_power import BATCHES, fitted

STEPS = np.array([0, 1, 2, 4, 8, 16, 32, 64])
NONE = np.full(STEPS.size, np.nan)
KINDS = {  # that have a field
    "momentum": {"optimizer": "sgd"},
    "decay": {"schedule": "wsd"},
    "final": {"schedule": "cosine"},
    "exponent": {"schedule": "power"},
    "stages": {"schedule": "stages"},
}


def result(curves, **fields):
    """A run with these losses of the iterate and its averages at STEPS."""
    averages = tuple(float(name) for name in curves if name != "iterate")
    config = run_of(**{"averages": averages, **KINDS.get(next(iter(fields), ""), {}), **fields})
    losses = np.stack([curves[name] for name in config.average_names], axis=1)
    return TrainResult(config, "steps", 64, STEPS, losses, NONE, NONE, NONE, 1, 0.0, 0.0)


def power(steps):
    """A curve that is 1 at this many steps, and straight in logs."""
    return steps / np.maximum(STEPS, 0.5)


def table(*results):
    return SweepTable(tuple(each.config for each in results), results)


def best(*runs, target_loss=1.0):
    """The one tuned cell of these runs."""
    (point,) = best_steps(table(*runs), target_loss=target_loss).points
    return point


def tuned(steps, **names):
    """The one tuned cell of runs whose iterates reach the target in steps[values of the names]."""
    rows = [
        result({"iterate": power(value)}, **dict(zip(names, choice, strict=True)))
        for choice, value in zip(itertools.product(*names.values()), steps, strict=True)
    ]
    return best(*rows)


def of_rates(*rows):
    """The one tuned cell of runs (γ, seed, steps)."""
    return best(*(result({"iterate": power(steps)}, learning_rate=rate, seed=seed) for rate, seed, steps in rows))


# ------------------------------------------------------------------ steps between evaluations


def test_interpolation_against_a_dense_scan():
    """Straight in logs: of a power law exact."""
    rng = np.random.default_rng(0)
    dense = np.geomspace(0.5, 64, 1_000_001)
    for _ in range(5):
        losses = np.exp(-0.5 * np.log(STEPS + 1) + 0.3 * rng.standard_normal(STEPS.size))
        curve = np.exp(np.interp(np.log(dense), np.log(np.maximum(STEPS, 0.5)), np.log(losses)))
        for target in (0.9, 0.6, 0.4, 0.3):
            reached = np.flatnonzero(curve <= target)
            expected = dense[reached[0]] if reached.size else np.nan
            np.testing.assert_allclose(interpolated_steps(STEPS, losses, target), expected, rtol=1e-5)
    for exact in (0.7, 1.0, 3.3, 17.0, 63.9):
        curve = 5 * (exact / np.maximum(STEPS, 0.5)) ** 0.7
        np.testing.assert_allclose(interpolated_steps(STEPS, curve, 5.0), exact, rtol=1e-12)


@pytest.mark.parametrize(
    ("losses", "target", "steps"),
    [
        (power(8.0), 100.0, 0.5),  # at once
        (power(8.0), 0.01, np.nan),
        ([9, np.nan, 1, 1, 1, 1, 1, 1], 2.0, 2.0),
        ([1, 1, 1, 0, 0, 0, 0, 0], 0.5, 4.0),
        ([1, 1, -1, -2, -3, -3, -3, -3], -1.5, 4.0),
    ],
)
def test_ends_of_interpolation(losses, target, steps):
    np.testing.assert_equal(interpolated_steps(STEPS, np.array(losses), target), steps)


# ------------------------------------------------------------------ the best choice


def test_best_steps_against_a_scan_of_all_choices():
    rng = np.random.default_rng(0)
    fields = {"width": (16, 32), "batch_size": (4, 8), "learning_rate": (0.1, 0.2, 0.4), "beta1": (0.5, 0.9)}
    runs, exact = [], {}
    for values in itertools.product(*fields.values()):
        for seed in (0, 1, 2):
            exact[*values, seed] = {name: rng.uniform(3, 90) for name in ("iterate", "0.5", "0.9")}
            curves = {name: power(steps) for name, steps in exact[*values, seed].items()}
            runs.append(result(curves, **dict(zip(fields, values, strict=True)), seed=seed))
    found = best_steps(table(*(runs[place] for place in rng.permutation(len(runs)))), target_loss=1.0)
    assert found.groups == [(16,), (32,)]
    for point, (width, batch) in zip(found.points, itertools.product((16, 32), (4, 8)), strict=True):
        means = {}
        for rate, beta in itertools.product((0.1, 0.2, 0.4), (0.5, 0.9)):
            first = [min(exact[width, batch, rate, beta, seed].values()) for seed in (0, 1, 2)]
            if max(first) <= 64:
                means[rate, beta] = np.prod(first) ** (1 / 3)
        rate, beta = min(means, key=lambda choice: means[choice])
        assert (point.group, point.batch_size) == ((width,), batch)
        assert (point.choice["learning_rate"], point.choice["beta1"]) == (rate, beta)
        expected = []
        for seed in (0, 1, 2):  # each with what is best for the other two
            others = {
                choice: sum(np.log(min(exact[width, batch, *choice, other].values())) for other in {0, 1, 2} - {seed})
                for choice in means
            }
            unseen = min(others, key=lambda choice: others[choice])
            expected.append(min(exact[width, batch, *unseen, seed].values()))
        np.testing.assert_allclose(point.steps, expected, rtol=1e-12)  # in the order of the seeds
        np.testing.assert_allclose(point.mean, np.prod(expected) ** (1 / 3), rtol=1e-12)


def test_a_choice_that_not_all_seeds_reach_is_not_the_best():
    point = of_rates((0.1, 0, 40), (0.1, 1, 40), (0.2, 0, 5), (0.2, 1, 500), (0.4, 0, 5))
    assert point.choice["learning_rate"] == 0.1
    assert (point.reached, point.runs) == (4, 5)
    assert point.steps == pytest.approx([40, 40])


def test_seeds_of_the_data_are_seeds():
    runs = [result({"iterate": power(steps)}, data_seed=seed) for seed, steps in ((0, 10), (1, 40))]
    assert best(*runs).mean == pytest.approx(20)


def test_the_average_is_that_of_most_seeds_and_the_first_seeds_in_a_tie():
    def choice(*firsts):
        curves = [{"iterate": power(50), "0.5": power(50), "0.9": power(50)} | {name: power(9)} for name in firsts]
        return best(*(result(each, seed=seed) for seed, each in enumerate(curves))).choice["average"]

    assert choice("0.5", "0.9", "0.9") == "0.9"
    assert choice("0.5", "0.9") == "0.5"
    assert choice("0.9", "0.5") == "0.9"
    assert choice("0.5", "iterate") == "0.5"
    assert choice("iterate", "0.5") == "iterate"


def test_runs_that_have_not_ended_are_left_out():
    done = result({"iterate": power(9)})
    open_run = run_of(learning_rate=0.5)
    found = best_steps(SweepTable((done.config, open_run), (done, None)), target_loss=1.0)
    assert [point.runs for point in found.points] == [1]


def test_fields_that_tell_groups_apart():
    runs = [
        result({"iterate": power(steps)}, optimizer=optimizer, capacity=capacity)
        for steps, optimizer, capacity in ((9, "adam", 1.5), (7, "sgd", 1.5), (5, "adam", 2.0))
    ]
    found = best_steps(table(*runs), target_loss=1.0, by=("capacity", "optimizer"))
    assert found.groups == [(1.5, "adam"), (1.5, "sgd"), (2.0, "adam")]
    np.testing.assert_allclose([point.mean for point in found.points], [9, 7, 5])


# ------------------------------------------------------------------ choices that luck made


def critical_of_flat(measure, number=500, widths=4):
    """Mean error of log B*, that mean's standard error, and the share of t-intervals at 95% that hold B*.

    Five choices are equally good; log steps of the two seeds of each scatter by 0.2 (16/B)^½ around 1 + 150/B.
    """
    rng = np.random.default_rng(1)
    scatter = 0.2 * (16 / np.array(BATCHES)) ** 0.5
    noise = scatter[:, None, None] * rng.standard_normal((number, widths, len(BATCHES), 5, 2))
    tuned = np.array([measure(each) for each in noise.reshape(-1, 5, 2)]).reshape(number, widths, len(BATCHES))
    critical, sensitivity, rest = fitted(np.log1p(150 / np.array(BATCHES)) + tuned)
    error = np.log(critical) - np.log(0.2 * 150 + 1.2 * BATCHES[0])
    freedom = widths * (len(BATCHES) - 2)
    half = stats.t.ppf(0.975, freedom) * np.sqrt(rest / freedom)[:, None] * sensitivity
    return error.mean(), error.std() / np.sqrt(error.size), (abs(error) < half).mean()


def test_choices_that_luck_made_leave_the_critical_batch_size_where_it_is():
    """Its intervals hold as often as those of a choice made beforehand.

    The control is the choice that did best on the same runs: its steps are too few, most so at small B.
    """
    error, standard_error, share = critical_of_flat(lambda noise: np.log(unseen_steps(np.exp(noise))).mean())
    assert abs(error) < 5 * standard_error + 0.01  # false alarm 6e-7; B* is not linear in log steps
    _, _, beforehand = critical_of_flat(lambda noise: noise[2].mean())
    assert abs(share - beforehand) < 0.03  # five standard errors of 500 sweeps of which 8% miss, four B* each
    error, standard_error, share = critical_of_flat(lambda noise: noise.mean(axis=1).min())
    assert error < -0.08
    assert share < 0.7


def test_a_single_seed_is_measured_with_its_own_best_choice():
    np.testing.assert_array_equal(unseen_steps(np.array([[9.0], [5.0], [7.0]])), [5.0])


# ------------------------------------------------------------------ ends of the grid


DECAYS = "momentum", "beta1", "beta2"


def chosen(rows):
    """Return the values to add to the grid of runs (β₂, γ, steps)."""
    runs = [result({"iterate": power(steps)}, beta2=beta, learning_rate=rate) for beta, rate, steps in rows]
    return best(*runs).edges


def test_ends_of_a_grid_that_depends_on_another():
    """The best learning rate is the largest that was tried with its own β₂, though not the largest of all."""
    rows = [(0.9, 0.01, 9), (0.9, 0.02, 5), (0.99, 0.01, 9), (0.99, 0.02, 8), (0.99, 0.04, 9)]
    assert chosen([*rows, (0.999, 0.02, 9)]) == {"learning_rate": "0.04", "beta2": "0"}
    assert chosen([*rows, (0.9, 0.04, 9), (0.8, 0.02, 9)]) == {}
    full = [
        (beta, rate, 9 - 4 * ((beta, rate) == (0.9, 0.02))) for beta in (0.8, 0.9, 0.99) for rate in (0.01, 0.02, 0.04)
    ]
    assert chosen(full) == {}


def test_a_value_that_was_tried_alone_has_its_neighbour_added():
    """γ = 0.02 is the only one that β₂ = 0.9 was tried with: whether it is the best of them is not known."""
    rows = [(0.8, 0.02, 9), (0.9, 0.02, 5), (0.99, 0.01, 9), (0.99, 0.02, 9), (0.99, 0.04, 9)]
    assert chosen(rows) == {"learning_rate": "0.04"}
    assert chosen([*rows, (0.9, 0.04, 9)]) == {"learning_rate": "0.01"}
    assert chosen([*rows, (0.9, 0.04, 9), (0.9, 0.01, 9)]) == {}


def test_fields_that_change_together_have_ends_of_their_own():
    assert chosen([(0.8, 0.01, 9), (0.9, 0.02, 5), (0.99, 0.04, 9)]) == {}
    assert chosen([(0.8, 0.01, 9), (0.9, 0.02, 9), (0.98, 0.04, 5)]) == {"learning_rate": "0.08", "beta2": "0.996"}


def test_a_choice_that_lacks_a_seed_has_not_been_tried():
    point = of_rates((0.1, 0, 9), (0.1, 1, 9), (0.2, 0, 5), (0.2, 1, 5), (0.4, 0, 9))
    assert point.edges == {"learning_rate": "0.4"}


def test_averages_have_an_upper_end():
    def edges(**steps):
        return best(result({name.replace("_", "0."): power(value) for name, value in steps.items()})).edges

    assert edges(iterate=5, _5=9, _9=9) == {}
    assert edges(iterate=9, _5=5, _9=9) == {}  # below the least τ there is the iterate
    assert edges(iterate=9, _5=9, _9=5) == {"average": "0.98"}
    assert edges(iterate=9, _9=5) == {"average": "0.95"}


RATES = {"learning_rate": (0.1, 0.2, 0.4 * 2**0.5)}
ENDS = [  # steps of the choices, the choices, what is added
    ((5, 9, 9), RATES, {"learning_rate": "0.05"}),
    ((9, 5, 9), RATES, {}),
    ((9, 9, 5), RATES, {"learning_rate": "1.6"}),
    ((5, 5, 9), RATES, {"learning_rate": "0.05"}),  # a tie: the first
    *(((9, 9, 5), {name: (0.8, 0.9, 0.98)}, {name: "0.996"}) for name in DECAYS),  # 1 − β: 0.1, 0.02: 0.004
    *(((9, 5, 9), {name: (0.8, 0.9, 0.98)}, {}) for name in DECAYS),
    *(((5, 9, 9), {name: (0.8, 0.9, 0.98)}, {name: "0.6"}) for name in DECAYS),  # 0.1, 0.2: 0.4
    *(((5, 9), {name: (0.2, 0.9)}, {name: "0"}) for name in DECAYS),
    *(((5, 9), {name: (0.0, 0.9)}, {}) for name in DECAYS),  # there is nothing below
    ((5, 9), {"beta2": (0.9, 0.99)}, {"beta2": "0"}),  # 1 − (1 − 0.9)²/(1 − 0.99) is 1.3e-15 in floating point
    *(((9, 9, 5), {name: (0.1, 0.5, 1.0)}, {}) for name in ("warmup", "decay")),
    *(((9, 9, 5), {name: (0.1, 0.2, 0.8)}, {name: "1"}) for name in ("warmup", "decay")),
    *(((5, 9, 9), {name: (0.1, 0.2, 0.8)}, {name: "0.05"}) for name in ("warmup", "decay")),
    ((5,), {"learning_rate": (0.1,)}, {}),  # a single value is no end
    ((5, 9), {"learning_rate": (0.1,), "seed": (0, 1)}, {}),
    ((5, 9), {"schedule": ("constant", "cosine")}, {}),  # without an order
    ((5, 9, 9), {"clip_norm": (None, 1.0, 2.0)}, {}),
    ((9, 9, 5), {"clip_norm": (None, 1.0, 2.0)}, {"clip_norm": "4"}),
    ((5, 9), {"epsilon": (0.0, 1e-8)}, {}),
    ((5, 9), {"stages": ("0:1", "0:1,0.5:0.1")}, {}),
    ((9, 9, 5), {"final": (0.0, 0.1, 0.2)}, {"final": "0.4"}),
    ((9, 9, 5), {"exponent": (0.5, 1.0, 2.0)}, {"exponent": "4"}),
]


def test_ends_of_grids_go_on_as_the_grids_do():
    for steps, names, added in ENDS:
        point = tuned(steps, **names)
        assert (point.edges, point.tuned) == (added, not added), (steps, names)
    assert tuned((5, 9), final=(0.0, 0.1)).choice["final"] == 0  # the default, which files leave out


# ------------------------------------------------------------------ words and measurements


def grid_of_batches():
    """Width 16: tuned at 4, 8, 16, at an end at 32, not reached at 64. Width 32: tuned at 4 and 8."""
    best = {(16, 4): 40, (16, 8): 30, (16, 16): 20, (16, 32): None, (16, 64): 900, (32, 4): 50, (32, 8): 35}
    runs = []
    for (width, batch), steps in best.items():
        rows = (60, 50, 15) if steps is None else (1.1 * steps, steps, 1.2 * steps)
        for rate, value in zip((0.1, 0.2, 0.4), rows, strict=True):
            runs.append(result({"iterate": power(value)}, width=width, batch_size=batch, learning_rate=rate))
    return best_steps(table(*runs), target_loss=1.0)


def test_notes_name_what_is_not_tuned_and_not_reached():
    assert grid_of_batches().notes() == [
        "loss 1, width 16, batch size 32: not tuned, the best learning_rate 0.4 is at the grid's end: add 0.8",
        "loss 1, width 16, batch size 64: not reached by all seeds of any choice (0 of 3 runs reached it): raise "
        "max_steps or the target",
    ]


def test_measurements_are_of_tuned_batch_sizes():
    (found,) = grid_of_batches().measurements()
    assert (found.group, found.size) == ("width 16", 16)
    np.testing.assert_array_equal(found.batch_sizes, [4, 8, 16])
    np.testing.assert_allclose(found.steps, [40, 30, 20])
    (found,) = grid_of_batches().measurements(edges=True)
    np.testing.assert_array_equal(found.batch_sizes, [4, 8, 16, 32])
    np.testing.assert_allclose(found.steps, [40, 30, 20, 15])


def test_what_varies_and_is_nothing_to_tune_is_refused():
    runs = table(result({"iterate": power(9)}), result({"iterate": power(9)}, depth=3))
    with pytest.raises(ValueError, match="depth varies between the runs and is nothing to tune: add it to by, or"):
        best_steps(runs, target_loss=1.0)
    assert best_steps(runs, target_loss=1.0, by=("depth",)).groups == [(2,), (3,)]


def test_two_runs_of_one_choice_are_refused():
    runs = table(result({"iterate": power(9)}), result({"iterate": power(9)}, micro_batch=32))
    with pytest.raises(ValueError, match="two runs with batch_size 64, seed 0 and .* differ only in micro_batch: add"):
        best_steps(runs, target_loss=1.0)
    assert len(best_steps(runs, target_loss=1.0, by=("micro_batch",)).points) == 2


def test_runs_with_the_same_iterates_are_one():
    """They differ in what was observed of them: the average that reached the target first counts, whose ever it is."""
    runs = [
        result({"iterate": power(50)}, max_steps=2000, seed=0),
        result({"iterate": power(50), "0.9": power(30)}, seed=0, eval_every=7),
        result({"iterate": power(50), "0.5": power(20)}, seed=0),
        result({"iterate": power(40)}, seed=1),
    ]
    point = best(*runs)
    assert point.steps == pytest.approx([20, 40])
    assert (point.reached, point.runs) == (2, 2)


def test_the_run_that_went_on_counts():
    """One of two runs with the same iterates stopped at a higher target."""
    stopped = result({"iterate": np.maximum(power(9), 0.5)}, target_loss=0.5)
    stopped = changed(stopped, outcome="target", num_steps=20)
    went_on = result({"iterate": power(9)}, target_loss=0.2)
    alike = changed(went_on, outcome="target", num_steps=20)  # perhaps at the same evaluation
    endless = changed(result({"iterate": power(9)}), num_steps=20)  # without a target: it asked for more than any
    for other in (went_on, alike, endless):
        assert best(stopped, other, target_loss=0.3).mean == pytest.approx(30)


def test_a_target_below_where_runs_stopped_is_refused():
    run = changed(result({"iterate": power(9)}, target_loss=0.5), outcome="target")
    with pytest.raises(ValueError, match=rf"target_loss must be at least 0.5, where run {run.config.fingerprint} stop"):
        best_steps(table(run), target_loss=0.4)
    assert best(run, target_loss=0.5).mean == pytest.approx(18)
    unreached = result({"iterate": power(900)}, target_loss=0.5)  # what is above 0.5 is above 0.4
    assert best(unreached, target_loss=0.4).reached == 0


def test_an_unknown_field():
    with pytest.raises(ValueError, match=r"by must be one of .*, got wide \(did you mean width\?\)"):
        best_steps(table(result({"iterate": power(9)})), target_loss=1.0, by=("wide",))


def test_the_smallest_batch_size_is_of_all_groups():
    def tuned_at(**batches):
        runs = [
            result({"iterate": power(9)}, width=int(name[1:]), batch_size=batch)
            for name, sizes in batches.items()
            for batch in sizes
        ]
        return best_steps(table(*runs), target_loss=1.0)

    assert tuned_at(w32=(4, 8, 16), w64=(8, 16, 32)).smallest_batch_size == 8
    assert tuned_at(w32=(4,)).smallest_batch_size == 4
    with pytest.raises(ValueError, match="reference must be given: no batch size was swept in all groups"):
        _ = tuned_at(w32=(4, 8), w64=(16,)).smallest_batch_size
    with pytest.raises(ValueError, match="table must have runs that have ended, got none: sweep first"):
        _ = best_steps(SweepTable((run_of(),), (None,)), target_loss=1.0).smallest_batch_size
