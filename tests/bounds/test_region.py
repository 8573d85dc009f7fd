"""Regions: what is proven is true at random points of them, and what is false is refuted."""

from dataclasses import replace

import numpy as np
import pytest

import sgdtheory as st

BOUND = st.bounds.bach_moulines_2013
REGION = {
    "eigenvalues": [1.0, (0.1, 1.0)],
    "signal": [1.0, 1.0],
    "noise_variance": (0.5, 2.0),
    "learning_rate": (0.02, 0.15),
    "num_steps": [2, 5],
}


def ratios(count=60, bound=BOUND, batch=1):
    """Exact/bound at random points of the region, its corners among them."""
    rng = np.random.default_rng(5)
    found = []
    for number in range(count):
        second, noise, rate = rng.uniform([0.1, 0.5, 0.02], [1.0, 2.0, 0.15])
        if number % 2 == 0:
            second, noise, rate = (rng.choice(pair) for pair in ([0.1, 1.0], [0.5, 2.0], [0.02, 0.15]))
        problem = st.LeastSquares([1.0, second], [1.0, 1.0], noise)
        setting = {"batch_size": batch, "learning_rate": rate, "num_samples": batch * np.array([2, 5])}
        exact = st.excess_risk(problem, **setting, algorithm=bound.algorithm)
        found.append(exact.total / bound(problem, **setting).total)
    return np.array(found)


@pytest.mark.parametrize("bound", [BOUND, st.bounds.jain_2017, st.bounds.bach_2024], ids=lambda bound: bound.name)
def test_proven_a_little_outside_of_random_points_refuted_a_little_inside(bound):
    seen = ratios(bound=bound, batch=2)
    options = {"batch_size": 2, **REGION}
    lowest, highest = seen.min(), seen.max()
    proven = st.bounds.certify_region(bound, lower=0.9 * lowest, upper=1.1 * highest, **options)
    assert proven.holds, proven
    assert proven.proven == pytest.approx(1)
    claimed = f"{float(0.9 * lowest)!r} ≤ exact/bound ≤ {float(1.1 * highest)!r}"
    assert proven.proves.startswith(f"{claimed} is proven on the whole region")
    for claim in ({"upper": 0.97 * highest}, {"lower": lowest / 0.97 if lowest > 0 else 1e-3}):
        refuted = st.bounds.certify_region(bound, **claim, **options)
        assert not refuted.holds
        example = refuted.counterexample
        ratio = float(example.ratio)
        assert ratio > claim["upper"] if "upper" in claim else ratio < claim["lower"]
        problem, batch, rate, samples = example.setting
        exact = st.excess_risk(
            problem, batch_size=batch, learning_rate=rate, num_samples=samples, algorithm=bound.algorithm
        )
        assert float(example.exact) == pytest.approx(exact.total, rel=1e-12)
        end = float(next(iter(claim.values())))
        words = f"exact/bound ≤ {end!r}" if "upper" in claim else f"{end!r} ≤ exact/bound"
        assert refuted.proves.startswith(f"{words} is refuted: exact/bound = {example.ratio} (certain")


def test_what_is_outside_and_what_is_left_are_said():
    """One direction: R² = 3, so that γ ≥ 1/3 is outside: 1/6 of the range."""
    options = {"eigenvalues": [1.0], "signal": [1.0], "noise_variance": 1.0, "num_steps": 3, "upper": 1.0}
    found = st.bounds.certify_region(BOUND, learning_rate=(0.0833333333, 0.3833333333), most_boxes=300, **options)
    assert found.outside == pytest.approx(1 / 6, abs=1e-3)
    assert found.proven == pytest.approx(5 / 6, abs=1e-2)
    assert not found.holds
    assert all(box["γ"][0] < 1 / 3 + 0.01 and box["γ"][1] > 0.32 for box in found.open)
    shares = found.proven + found.outside + sum(np.ptp(box["γ"]) for box in found.open) / 0.3
    assert shares == pytest.approx(1, abs=1e-9)
    assert "outside the bound's conditions" in found.proves
    assert str(found).count("open: γ") == min(3, len(found.open))
    first = st.bounds.certify_region(BOUND, learning_rate=(0.05, 0.38), most_boxes=1, **options)
    assert (first.boxes, len(first.open), first.proven) == (1, 2, 0)


def test_one_direction_from_no_signal_and_no_noise():
    """A root that begins at 0 has no derivative there, so ranges are used instead."""
    found = st.bounds.certify_region(
        BOUND,
        eigenvalues=[1.0],
        signal=[(0.0, 1.0)],
        noise_variance=1.0,
        learning_rate=(0.01, 0.3),
        num_steps=[1, 2, 5, 10, 20],
        upper=1.0,
    )
    assert found.holds


def test_nothing_is_proven_where_the_bound_applies_nowhere():
    """Varre et al. ask for σ² = 0."""
    found = st.bounds.certify_region(st.bounds.varre_2021, upper=1.0, **{**REGION, "noise_variance": 1.0})
    assert (found.proven, found.outside, found.open) == (0, 1, ())
    assert not found.holds
    assert found.proves == f"the bound applies nowhere here ({found.boxes} boxes)"


def test_ranges_decide_where_slopes_are_not_defined():
    """A maximum of two has a slope if one number moves; Theorem 7's min{B/tr H, 1/‖H‖} is a tie of ranges."""
    region = {"eigenvalues": [(0.5, 1.0)], "signal": [0.5], "noise_variance": 1.0, "num_steps": 4}
    found = st.bounds.certify_region(st.bounds.zhang_2024, learning_rate=0.1, upper=3.0, **region)
    assert found.holds, found
    rates = np.linspace(0.5, 1.0, 11)
    setting = {"batch_size": 1, "learning_rate": 0.1, "num_samples": 4}
    for value in rates:
        problem = st.LeastSquares([value], [0.5], 1.0)
        assert st.excess_risk(problem, **setting).total <= 3 * st.bounds.zhang_2024(problem, **setting).total


def test_series_end_with_the_slope_and_the_caller_s_stay_as_they_were():
    """Terms beyond the slope change no result, but the time of a product grows like the square of their number."""
    flint = pytest.importorskip("flint")
    terms = set()

    def statement(asked):
        terms.add(len(list(flint.arb_series([1, 1]) ** 9)))
        return BOUND.statement(asked)

    before = flint.ctx.cap
    found = st.bounds.certify_region(replace(BOUND, statement=statement), upper=1.0, most_boxes=3, **REGION)
    assert found.boxes == 3
    assert terms == {2}
    assert flint.ctx.cap == before != 2


def test_formulas_without_an_enclosure_are_refused():
    def statement(asked):
        return st.bounds.Statement(np.log2(asked.rate), {})

    bound = st.bounds.PublishedBound("mine", "upper", "", "", "", "", statement)
    with pytest.raises(ValueError, match="mine uses a function that has no enclosure"):
        st.bounds.certify_region(bound, upper=1.0, **REGION)
    with pytest.raises(ValueError, match="certificates are for SGD with constant learning rate"):
        st.bounds.certify_region(st.bounds.wu_2022, upper=1.0, **REGION)


@pytest.mark.parametrize(
    ("changed", "message"),
    [
        ({"lower": 2.0}, "lower must be finite, not negative and at most upper, got 2.0 and 1.0"),
        ({"lower": -1.0}, "lower must be finite, not negative"),
        ({"lower": np.nan}, "lower must be finite, not negative"),
        ({"upper": np.nan}, "lower must be finite, not negative and at most upper"),
        ({"lower": np.inf, "upper": np.inf}, "lower must be finite"),
        ({"eigenvalues": 1.0}, "eigenvalues must list a number or a range for each direction, got 1.0"),
        ({"signal": 1.0}, "signal must list a number or a range for each direction, got 1.0"),
        ({"quantity": "bias"}, "quantity must be total: bach_moulines_2013 is a bound on the whole risk"),
        ({"upper": np.inf}, "there is nothing to prove"),
        ({"signal": [1.0]}, "signal must have one entry for each eigenvalue, got 1 for 2"),
        ({"eigenvalues": [(0.1, 1.0), 0.5]}, "their ranges must not overlap"),
        ({"noise_variance": (2.0, 1.0)}, "noise_variance must be a number or a range"),
        ({"noise_variance": (1.0, 2.0, 3.0)}, "noise_variance must be a number or a range"),
        ({"learning_rate": (0.0, 0.1)}, "learning_rate must be a number or a range"),
        ({"signal": [1.0, (-1.0, 1.0)]}, "signal must be a number or a range"),
        ({"quantity": "mean"}, "quantity must be one of"),
        ({"batch_size": 0.5}, "batch_size must be a whole number"),
        ({"num_steps": 0}, "num_steps must be a whole number"),
        ({"most_boxes": 0}, "most_boxes must be a whole number"),
        ({"eigenvalues": [1.0, 0.1], "noise_variance": 1.0, "learning_rate": 0.1}, "at least one number must be a"),
    ],
)
def test_bad_input(changed, message):
    with pytest.raises(ValueError, match=message):
        st.bounds.certify_region(BOUND, **{"upper": 1.0, **REGION, **changed})


def test_plain_functions_are_refused():
    with pytest.raises(ValueError, match="bound must be a PublishedBound"):
        st.bounds.certify_region(st.theorem7, upper=1.0, **REGION)
