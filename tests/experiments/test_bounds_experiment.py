"""The experiment on published bounds: its search, its domains, extremes by brute force, and verdicts that can fail."""

from dataclasses import replace

import numpy as np
import pytest

import sgdtheory as st
from experiments import bounds
from experiments._lib.bound_domains import KINDS, Domain, number, words
from experiments._lib.bounds_figures import best_of_each_side, tightness
from experiments._lib.extremes import climb, unit_points
from experiments._lib.rows import columns_of, rows_of
from sgdtheory.bounds import Statement
from tests.figure_checks import check_figure

ONE = bounds.Config(kinds=("d = 1",), problems=4, starts=4, trials=12, rounds=30, processes=1)
SMALL = bounds.Config(kinds=("d = 1",), problems=1, starts=1, trials=2, rounds=1, refinements=0, processes=1)


@pytest.fixture(scope="module")
def small():
    return bounds.run(SMALL)


# ------------------------------------------------------------------ the search


def test_climbs_reach_a_peak_inside_and_one_on_a_face():
    def value(unit):
        return -((unit[..., 0] - 0.3) ** 2) + unit[..., 1]

    start = unit_points(0, (4, 1, 2), 0)[:, 0]
    place, height = climb(value, start, value(start), seed=0, trials=5, rounds=40)
    np.testing.assert_allclose(place, [0.3, 1.0], atol=1e-3)
    assert height == value(place)


def test_trials_of_one_round_share_what_they_should():
    seen = []

    def value(unit):
        seen.append(unit)
        return np.full(unit.shape[:2], -np.inf)

    start = unit_points(0, (3, 1, 5), 0)[:, 0]
    place, height = climb(value, start, np.zeros(3), seed=0, trials=4, rounds=6, shared=2)
    assert height == 0
    assert (place == start).all(axis=1).any()
    for trials in seen:
        assert (trials[..., :2] == trials[:1, :, :2]).all()
        assert (trials[..., 2:] != trials[:1, :, 2:]).any()


# ------------------------------------------------------------------ domains


@pytest.mark.parametrize(
    ("name", "noise", "most_batch", "steps"),
    [
        ("bach_moulines_2013", (0, 1e6), 1e4, (1, 1e9)),
        ("dieuleveut_2017", (0, 1e6), 1, (2, 1e9)),
        ("varre_2021", (0, 0), 1e4, (1, 1e9)),
        ("zhang_2024", (1, 1e6), 1e4, (2, 1e9)),
        ("zou_2021_lower", (0, 1e6), 1e4, (500, 1e9)),
        ("wu_2022", (0, 1e6), 1, (1025, 2048)),
    ],
)
def test_domains_are_those_of_the_theorems(name, noise, most_batch, steps):
    domain = Domain(getattr(st.bounds, name))
    assert domain.noise == pytest.approx(noise, abs=1e-12)
    assert domain.most_batch == most_batch
    assert domain.steps == steps


EDGES = {  # at B, of λ = (1, ½): tr H = 3/2
    "bach_2024": lambda batch: 1 / (1 + 2.5 / batch),
    "bach_moulines_2013": lambda batch: 1 / (1 + 2.5 / batch),
    "zou_2021": lambda batch: np.where(batch == 1, 2 / 9, np.minimum(1, batch / 3)),
    "zou_2021_lower": lambda batch: np.ones_like(batch),
    "zhang_2024": lambda batch: 0.5 * np.minimum(1, batch / 1.5),
}


@pytest.mark.parametrize("name", EDGES)
def test_the_edge_is_the_largest_rate(name):
    domain = Domain(getattr(st.bounds, name))
    problem = st.LeastSquares([1.0, 0.5], [0.5, 0.5], noise_variance=2.0)
    batch = np.array([1.0, 2.0, 100.0])
    steps = np.full(3, 1000.0)
    edge = domain.edge(problem, batch, steps)
    np.testing.assert_allclose(edge, EDGES[name](batch), rtol=1e-9)
    for factor, inside in ((1.0, True), (1 + 1e-9, False)):
        value = domain.bound(problem, batch_size=batch, learning_rate=factor * edge, num_samples=batch * steps)
        assert (value.applies == inside).all()


@pytest.mark.parametrize("kind", KINDS)
def test_problems_are_what_their_kind_says(kind):
    for place in (0.0, 0.4, 1.0):
        numbers = KINDS[kind].numbers(np.full(3, place))
        problem = KINDS[kind].problem(numbers, 2.0)
        assert problem.dim == (KINDS[kind].dim if kind != "equal" else numbers[0])
        assert problem.largest_eigenvalue == 1
        assert problem.noise_variance == pytest.approx(2 * problem.initial_risk)
        if kind == "d = 10, clustered":
            eigenvalues, signal = problem.directions()
            assert np.count_nonzero(eigenvalues == 1) == (numbers[2] if place < 1 else 10)
            assert signal[int(numbers[2]) :].sum() == pytest.approx(numbers[1])


def test_settings_in_words():
    domain = Domain(st.bounds.bach_moulines_2013)
    row = domain.rows("d = 1", np.array([[0, 0, 0, 0, 1, 0, 1.0]]), "sample")[0]
    assert words(row) == "d = 1; σ² = 0, B = 1e4, n = 1, γ at its limit"
    assert [number(value) for value in (40, 1e9, 0.0125, 31234)] == ["40", "1e9", "0.013", "3.1e4"]


# ------------------------------------------------------------------ extremes at d = 1, by brute force

STEPS = 1, 2, 3, 7, 20, 100, 600
BATCHES = 1.0, 3.0, 30.0, 1e3, 1e4
SHARES = np.append(np.geomspace(1e-4, 0.9, 25), [0.99, 1 - 1e-9])
NOISE = np.array([0.0, 1e-3, 1.0, 1e3, 1e6])[:, None]


def risk_of_mean(first, steps, batch, rate, noise):
    """E e̅², e̅ the mean of e_first … e_{n−1}: e_{t+1} = (1 − γx²)e_t + γxε on average, step by step (λ = 1, s = 1)."""
    keep = 1 - rate
    second = keep**2 + 2 * rate**2 / batch  # of a Gaussian x, E x⁴ = 3
    square = np.ones(np.broadcast_shapes(np.shape(rate), np.shape(noise)))
    total = np.zeros_like(square)
    for step in range(steps):
        if step >= first:
            later = -keep * np.expm1((steps - 1 - step) * np.log1p(-rate)) / rate  # Σ_{k=1}^{n−1−t} (1 − γ)^k
            total = total + square * (1 + 2 * later)
        square = second * square + rate**2 * noise / batch
    return total / (steps - first) ** 2


def brute_force(name, steps, batch):
    """(σ², γ) exact/bound, on a dense grid up to the edge 1/R²."""
    bound = getattr(st.bounds, name)
    rate = SHARES / (1 + 2 / batch)
    first = 0 if bound.algorithm == st.algorithms.DEFAULT else steps // 2
    exact = risk_of_mean(first, steps, batch, rate, NOISE)
    ratio = np.empty(exact.shape)
    for place, noise in enumerate(NOISE[:, 0]):
        problem = st.LeastSquares([1.0], [1.0], noise_variance=noise)
        value = bound(problem, batch_size=batch, learning_rate=rate, num_samples=steps * batch)
        told = value.applies & (value.total > 1e-200)  # (1 − γλ)^s ends below the range of a float
        ratio[place] = np.where(told, exact[place] / np.where(told, value.total, 1.0), np.nan)
    return ratio


AVERAGED = [bound.name for bound in st.bounds.catalogue() if not isinstance(bound.algorithm.average, st.LastIterate)]


@pytest.mark.parametrize("name", [name for name in AVERAGED if name != "defossez_bach_2015"])  # a limit, of no extremes
def test_search_reaches_what_a_dense_grid_has_in_one_direction(name):
    rows = bounds.studied(ONE, name)
    ratio = np.array([row.ratio for row in rows])
    grid = np.concatenate([brute_force(name, steps, batch).ravel() for steps in STEPS for batch in BATCHES])
    assert np.isfinite(grid).sum() > 100
    sides = bounds.SIDES[getattr(st.bounds, name).side]
    if 1 in sides:
        assert ratio.max() >= np.nanmax(grid) * (1 - 1e-6)
    if -1 in sides:
        assert ratio.min() <= np.nanmin(grid) * (1 + 1e-6)


@pytest.mark.parametrize("name", ["bach_2024", "jain_2018", "zou_2021"])
def test_rows_have_the_exact_risk(name):
    """Against the recursion, wherever it is short."""
    bound = getattr(st.bounds, name)
    short = [row for row in bounds.studied(replace(ONE, rounds=2), name) if row.num_steps <= 1000]
    assert len(short) > 10
    for row in short:
        steps = int(row.num_steps)
        first = 0 if bound.algorithm == st.algorithms.DEFAULT else steps // 2
        exact = risk_of_mean(first, steps, row.batch_size, np.array(row.learning_rate), row.noise_variance)
        assert row.exact == pytest.approx(float(exact), rel=1e-8)


def test_a_kind_on_which_a_bound_says_nothing_has_no_rows():
    both = replace(SMALL, kinds=("d = 1", "power law"))
    assert {row.problem for row in bounds.studied(both, "bach_moulines_2013")} == {"d = 1"}
    assert {row.problem for row in bounds.studied(both, "zhang_2024")} == {"d = 1", "power law"}


# ------------------------------------------------------------------ verdicts


def test_all_verdicts_hold(small):
    assert {verdict.verdict for verdict in small.verdicts} == {"holds"}
    assert len(small.verdicts) == 11 + 5 + 1
    assert set(small.columns["bound"]) == {bound.name for bound in st.bounds.catalogue()}
    ratio = np.array([row.ratio for row in rows_of_result(small)])
    assert np.isfinite(small.columns["value"]).all()
    assert not np.isnan(ratio).any()


def rows_of_result(result):
    table = [
        dict(zip(result.columns, map(str, cells), strict=True)) for cells in zip(*result.columns.values(), strict=True)
    ]
    return rows_of(bounds.Row, table)


def test_a_table_tells_its_verdicts(small):
    rows = rows_of_result(small)
    again = bounds.judged(SMALL, rows, small.verdicts[0].seconds)
    assert again == list(small.verdicts)
    assert columns_of(rows).keys() == small.columns.keys()


def scaled(bound, factor):
    def statement(asked):
        found = bound.statement(asked)
        return Statement(factor * found.value, found.conditions)

    return replace(bound, statement=statement)


@pytest.mark.parametrize("bound", [b for b in st.bounds.catalogue() if b.standing != "order"], ids=lambda b: b.name)
def test_a_constant_that_is_ten_times_too_tight_fails(bound, monkeypatch):
    """Negative control of every bound with constants."""
    wrong = scaled(bound, 10.0 if bound.side == "lower" else 0.1)
    monkeypatch.setattr(st.bounds, "catalogue", lambda: (wrong,))
    kind = "d = 10, clustered" if bound.name == "dieuleveut_2017" else "d = 1"  # whose room is 9.2 there, 9.8 here
    rows = bounds.studied(replace(ONE, kinds=(kind,), rounds=12), bound.name)
    verdict = bounds._sided(bounds.summaries(rows)[0])
    assert verdict.verdict == "fails"
    assert f"tightest at {words(bounds.summaries(rows)[0].tightest)}" in verdict.statement


def test_an_order_that_is_none_is_not_called_one(monkeypatch):
    """Negative control: Theorem 7 without the number of steps in it."""
    bound = st.bounds.zhang_2024
    wrong = replace(bound, statement=lambda asked: Statement(1.0 + 0 * asked.rate, bound.statement(asked).conditions))
    monkeypatch.setattr(st.bounds, "catalogue", lambda: (wrong,))
    rows = bounds.studied(ONE, bound.name)
    assert bounds._order(bounds.summaries(rows)[0]).verdict == "inconclusive"


def test_a_limit_that_is_missed_fails(small):
    """Negative control: off by a tenth of a percent."""
    summary = {each.bound.name: each for each in bounds.summaries(rows_of_result(small))}
    for limit in bounds.LIMITS:
        rows = [row for row in bounds.limit_rows() if row.bound == limit.bound]
        assert bounds._limit_verdict(limit, rows, summary[limit.bound]).verdict == "holds"
        off = [row._replace(value=1.001 * row.value) for row in rows]
        assert bounds._limit_verdict(limit, off, summary[limit.bound]).verdict == "fails"


# ------------------------------------------------------------------ figures


def test_figures_have_no_defects(small):
    check_figure(tightness(bounds.summaries(rows_of_result(small))))
    check_figure(best_of_each_side())


def test_a_violated_bound_is_named_in_the_title(small):
    found = bounds.summaries(rows_of_result(small))
    worst = found[0]._replace(highest=found[0].highest._replace(exact=2 * found[0].highest.value))
    title = tightness([worst, *found[1:]]).axes[0].get_title(loc="left")
    assert title.startswith(f"Violated: {worst.bound.name}")
