"""Edges of the theorems' conditions where they are exact floats, and what is said of bounds at a setting."""

from types import SimpleNamespace

import numpy as np
import pytest
from scipy import stats

import sgdtheory as st
from sgdtheory.bounds.region import RegionCertificate
from sgdtheory.bounds.simulated import Simulated, disagreements

bounds = st.bounds
HALF = st.LeastSquares([0.5], [1.0], 0.0)
ALL = "all conditions hold"
# One direction, λ = ½: with B = 2, R² = 2λ = 1 and α tr H = ½; with B = 4, R² = ¾; with B = 1, R² = 3/2.
EDGES = [  # bound, B, γ, n: what fails there, and a little below
    ("bach_moulines_2013", 2, 1.0, 10, "γ < 1/R²"),
    ("bach_2024", 2, 1.0, 10, ALL),
    ("bach_2024", 2, 1.0 + 1e-15, 10, "γ ≤ 1/R²"),
    ("jain_2017", 2, 1.0, 10, "γ < 1/R²"),
    ("jain_2018", 2, 1.0, 10, ALL),
    ("jain_2018", 2, 1.0 + 1e-15, 10, "γ ≤ B/(R² + (B − 1)‖H‖)"),
    ("varre_2021", 2, 1.0, 10, "γ < 1/R²"),
    ("zou_2021", 2, 2.0, 10, "γ < 1/‖H‖"),
    ("zou_2021", 4, 2.0, 10, "γ < 1/‖H‖"),
    ("zou_2021_tail", 4, 2.0, 10, "γ < 1/‖H‖"),
    ("zou_2021_lower", 2, 2.0, 500, "γ < 1/‖H‖"),
    ("zou_2021_lower", 2, 1.0, 500, ALL),
    ("zou_2021_lower", 2, 1.0, 499, "500 steps or more"),
    ("dieuleveut_2017", 1, 0.25, 2, ALL),
    ("dieuleveut_2017", 1, 0.25, 1, "two steps or more"),
    ("dieuleveut_2017", 2, 0.25, 2, "B = 1"),
    ("wu_2022", 1, 0.01, 1025, ALL),
    ("wu_2022", 1, 0.01, 2048, ALL),
    ("wu_2022", 2, 0.01, 2048, "B = 1"),
    ("zhang_2024", 1, 0.25, 2, ALL),
    ("zhang_2024", 4, 1.0, 2, ALL),
    ("zhang_2024", 4, 1.0 + 1e-15, 2, "γ ≤ ½ min{B/tr H, 1/‖H‖}"),
]


@pytest.mark.parametrize(("name", "batch", "rate", "steps", "reason"), EDGES)
def test_edges_of_conditions(name, batch, rate, steps, reason):
    problem = st.LeastSquares([0.5], [1.0], 1.0) if name == "zhang_2024" else HALF
    found = getattr(bounds, name)(problem, batch_size=batch, learning_rate=rate, num_samples=batch * steps)
    assert (reason in found.reasons) if reason != ALL else found.applies, found.reasons
    if reason.startswith("γ <"):
        below = getattr(bounds, name)(problem, batch_size=batch, learning_rate=rate * (1 - 1e-9), num_samples=1e4)
        assert reason not in below.reasons


@pytest.mark.parametrize("name", ["zou_2021", "zou_2021_tail"])
def test_the_noise_of_two_directions_ends_these_bounds_first(name):
    """α tr H = 2/B · 1: γ < 1 with B = 2; with B = 1, α = 3, it is γ < 1/3; ‖H‖ = ½ allows γ < 2."""
    problem = st.LeastSquares([0.5, 0.5], [1.0, 1.0], 0.0)
    for batch, edge in ((1, 1 / 3), (2, 1.0), (3, 1.5)):
        for share, applies in ((1 - 1e-9, True), (1 + 1e-9, False)):
            setting = {"batch_size": batch, "learning_rate": share * edge, "num_samples": 60}
            assert getattr(bounds, name)(problem, **setting).applies == applies


def test_infinitely_many_directions_are_told():
    for name in ("defossez_bach_2015", "wu_2022", "zou_2021_tail"):
        found = getattr(bounds, name)(st.PowerLaw(2, 3), batch_size=1, learning_rate=[0.01, 0.02], num_samples=1025)
        assert found.total.tolist() == [np.inf] * 2
        assert found.reasons[0].startswith("finitely many directions")
    wide = bounds.jain_2018(st.PowerLaw(2, 3, noise_variance=0.0), batch_size=1, learning_rate=0.1, num_samples=10)
    assert wide.reasons[0] == "μ > 0"


def test_disagreements_are_counted_and_the_worst_is_told():
    """Three points; a score of 4.3 is ruled out at three points together, one of 4.1 is not."""
    limit = stats.norm.isf(1e-4 / 2 / 3)
    assert 4.1 < limit < 4.3
    points = [st.Setting(HALF, b, 0.1 * b, 10.0 * b) for b in (1.0, 2.0, 3.0)]
    exact, bound = np.array([1.0, 3.0, 0.5]), np.array([2.0, 2.0, 0.4])
    means = {"mean": exact + 0.1, "standard_error": np.array([0.1, 0.2, 0.3]), "replicas": 9, "law": "gaussian"}

    def told(above_exact, above_bound, side="upper", applies=(True, True, True)):
        simulated = Simulated(above_exact=np.array(above_exact), above_bound=np.array(above_bound), **means)
        assert simulated.limit == pytest.approx(limit)
        return disagreements(points, exact, bound, side, np.array(applies), simulated)

    apart, violated, seen = told([4.1, -4.4, 4.3], [4.1, 4.3, 5.0])
    where = "most at B = {0:g}, γ = {1:.4g}, D = {2:g}: simulated {3:g} ± {4:g}, exact {5:g}, bound {6:g}"
    second, third = (2, 0.2, 20, 3.1, 0.2, 3, 2), (3, 0.3, 30, 0.6, 0.3, 0.5, 0.4)
    same = "the simulated mean and the exact risk differ at 2 of 3 settings, "
    assert apart == same + where.format(*second)
    assert violated == "the exact risk violates the bound at 2 of 3 settings, " + where.format(*second)
    assert seen == "the simulated mean violates the bound at 2 of 3 settings, " + where.format(*third)
    (lower,) = told([0.0, 0.0, 0.0], [0.0, 0.0, -4.1], "lower")
    assert lower.startswith("the exact risk violates the bound at 1 of 3 settings, most at B = 1,")
    lower = told([0.0, 0.0, 0.0], [0.0, -4.3, 9.0], "lower")
    assert lower[1].startswith("the simulated mean violates the bound at 1 of 3 settings, most at B = 2,")
    assert told([0.0, 0.0, 0.0], [9.0, 9.0, 9.0], "both") == ()
    inside = told([0.0, 0.0, 0.0], [0.0, 9.0, 9.0], applies=(True, True, False))
    assert [each.count("at 1 of 3 settings, most at B = 2,") for each in inside] == [1, 1]


def test_sentences_of_regions():
    """Shares are rounded down, the three largest open boxes are shown, and claims of 0 and ∞ are none."""
    box = {"λ_1": (0.5, 1.0), "γ": (1 / 3, 0.5), "n": 7}
    left = RegionCertificate(0.25, np.inf, 0.99999999, 0.0, (box,) * 4, None, 12)
    assert left.proves == "0.25 ≤ exact/bound is proven on 99.9999% of the region (12 boxes), 4 boxes are left open"
    assert str(left).splitlines()[1:] == ["  open: λ_1 0.5 … 1, γ 0.3333 … 0.5, n 7"] * 3
    assert not left.holds
    some = RegionCertificate(0.0, 2.0, 0.75, 0.25, (), None, 3)
    outside = "25% of the region are outside the bound's conditions"
    assert some.proves == f"exact/bound ≤ 2.0 is proven on the whole region (3 boxes, {outside})"
    assert some.holds
    assert not RegionCertificate(0.0, 2.0, 0.0, 1.0, (), None, 3).holds
    refuted = RegionCertificate(0.5, 2.0, 0.75, 0.25, (), SimpleNamespace(attained="there"), 3)
    assert refuted.proves == "0.5 ≤ exact/bound ≤ 2.0 is refuted: there"


def test_open_boxes_come_with_their_names():
    """After one look the half for 9 steps is left, and the one for 2 steps in halves, each with the ranges alone."""
    free = {"λ_1": (0.9, 1.0), "λ_2": (0.1, 0.5), "s_2": (0.5, 1.0), "σ²": (0.5, 2.0)}
    found = bounds.certify_region(
        bounds.bach_moulines_2013,
        eigenvalues=[free["λ_1"], free["λ_2"]],
        signal=[1.0, free["s_2"]],
        noise_variance=free["σ²"],
        learning_rate=0.1,
        num_steps=[9, 2, 9],
        lower=1e-4,
        upper=1e-3,
        most_boxes=1,
    )
    halves = [free | {"λ_1": half, "n": 2} for half in ((0.9, 0.95), (0.95, 1.0))]
    assert found.open == (free | {"n": 9}, *halves)
    assert (found.boxes, found.proven, found.outside, found.counterexample) == (1, 0, 0, None)


def test_all_bounds_at_one_setting():
    problem = st.LeastSquares([1.0, 0.5], [1.0, 1.0], noise_variance=1.0)
    setting = {"batch_size": 1, "learning_rate": 0.1, "num_samples": 600.0}
    found = bounds.at_setting(problem, **setting)
    columns = {each.label: each.value for each in found.sheet().tables[0].quantities}
    for k, bound in enumerate(found.bounds):
        value = bound(problem, **setting)
        exact = st.excess_risk(problem, **setting, algorithm=bound.algorithm).total
        assert found.exact[k] == columns["exact risk"][k] == exact
        assert found.ratio[k] == pytest.approx(exact / value.total, rel=1e-13)
        sign = {"upper": "≤", "lower": "≥", "both": "≍"}[bound.side]
        told = f"{sign} {value.total:.4g}" if value.applies else f"needs {value.reasons[0]}"
        assert columns["bound on it"][k] == told
        assert np.isnan(columns["exact/bound"][k]) == (not value.applies)
    words = dict(zip([bound.name for bound in found.bounds], columns["of the"]))
    assert words["jain_2017"] == "mean of last half"
    assert words["wu_2022"] == "last iterate, γ halved ten times"
    assert words["varre_2021"] == "last iterate"
    assert words["bach_2024"] == "mean"
    assert set(columns["constants"]) == {"verified", "not verified against the paper", "none stated"}
    with pytest.raises(ValueError, match="learning_rate must be one value for a table of bounds, got 2;"):
        bounds.at_setting(problem, **setting | {"learning_rate": [0.1, 0.2]})


def test_the_lower_bound_counts_where_unverified_ones_do():
    setting = {"batch_size": 1, "learning_rate": 0.1, "num_samples": [400, 600]}
    found = bounds.best(HALF, **setting, unverified=True)
    assert found.lower.tolist() == [0.0, bounds.zou_2021_lower(HALF, **setting).total[1]]
    assert found.lower_name.tolist() == ["", "zou_2021_lower"]
    tail = bounds.PublishedBound(
        "x", "upper", "", "", "", "", lambda asked: None, st.Algorithm(average=st.TailAverage(0.2))
    )
    assert tail.iterate == "mean of the last 20%"
