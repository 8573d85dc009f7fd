"""Balls in the place of floats: NumPy's functions, comparisons, and how enclosures print."""

from fractions import Fraction

import flint
import numpy as np
import pytest

import sgdtheory as st
from sgdtheory.bounds.ball_spectra import in_balls
from sgdtheory.bounds.balls import Ball, Undecided, boxed

THIRD = Ball(1) / 3
WIDE = Ball(flint.arb(1, 0.5))  # 0.5 … 1.5


def ends(ball):
    return float(ball.enclosure.lower), float(ball.enclosure.upper)


@pytest.mark.parametrize("name", ["sqrt", "log", "exp", "log1p", "expm1", "absolute", "negative", "square", "ceil"])
def test_numpy_functions(name):
    function = getattr(np, name)
    for found in (function(THIRD), function(boxed(THIRD))):
        assert float(found.enclosure) == pytest.approx(function(1 / 3), rel=1e-14)
    low, high = ends(function(WIDE))
    assert low <= function(0.6) <= high
    assert low <= function(1.4) <= high


@pytest.mark.parametrize("name", ["add", "subtract", "multiply", "divide", "power", "maximum", "minimum"])
def test_numpy_operations_with_every_kind_of_number(name):
    function = getattr(np, name)
    for other in (2, 2.0, np.float64(2), np.array(2.0), Ball(2), boxed(Ball(2))):
        assert float(Ball(function(THIRD, other)).enclosure) == pytest.approx(function(1 / 3, 2), rel=1e-14)
        assert float(Ball(function(other, THIRD)).enclosure) == pytest.approx(function(2, 1 / 3), rel=1e-14)
    np.testing.assert_array_equal(np.array([1.0, 2.0]) < Ball(1.5), [True, False])
    assert [float(ball.enclosure) for ball in np.array([1.0, 2.0]) * Ball(1.5)] == [1.5, 3.0]


def test_extremes_of_overlapping_balls_hold_both():
    """To within the 30 bits of a radius."""
    assert ends(np.maximum(WIDE, 1.25)) == pytest.approx((1.25, 1.5), rel=1e-8)
    assert ends(np.minimum(WIDE, 1.25)) == pytest.approx((0.5, 1.25), rel=1e-8)
    assert ends(np.clip(WIDE, 0.75, 1.25)) == pytest.approx((0.75, 1.25), rel=1e-8)


def test_extremes_of_series_are_decided_by_their_values():
    """If it is certain which series is larger, the slopes are those of the larger one."""
    rising, falling = Ball(flint.arb_series([2, 1], prec=2)), Ball(flint.arb_series([1.5, -1], prec=2))
    assert np.maximum(rising, falling).value[1] == 1
    assert np.minimum(rising, falling).value[1] == -1
    assert np.maximum(falling, 1.25).value[1] == -1
    with pytest.raises(Undecided):
        np.maximum(falling, WIDE)


def test_comparisons_are_certain_or_raise():
    assert WIDE < 2
    assert WIDE > 0
    assert not WIDE >= 2
    assert not WIDE <= 0
    assert WIDE != 2
    assert Ball(2) == 2
    assert THIRD == THIRD  # noqa: PLR0124 (what formulas ask to find nan)
    for question in ("<", "<=", ">", ">=", "==", "!="):
        with pytest.raises(Undecided, match="cannot be decided whether"):
            eval(f"WIDE {question} 1")
    with pytest.raises(Undecided):
        bool(WIDE - 1)
    with pytest.raises(Undecided):
        np.where(boxed(WIDE) > 1, 1.0, 0.0)


def test_no_way_back_to_a_float():
    for convert in (float, int, np.float64):
        with pytest.raises((TypeError, ValueError)):
            convert(THIRD)


def test_roots_of_what_is_not_negative():
    assert ends(np.sqrt(Ball(flint.arb(0.5, 0.75))))[0] == 0
    with pytest.raises(Undecided, match="infinite or no number"):
        _ = np.sqrt(Ball(-1)).enclosure


def test_ends_are_those_of_the_ball_however_small():
    assert ends(WIDE) == pytest.approx((0.5, 1.5), rel=1e-8)
    assert ends(WIDE)[0] < 0.5 + 1e-12
    tiny = (Ball(-1) * 10**10).clip(-(10**11), 0).value.exp()
    found = Ball(tiny).enclosure
    assert found.lower == 0
    assert found.upper == Fraction(1, 2**8192)
    assert (-Ball(tiny)).enclosure == st.bounds.Enclosure(-found.upper, Fraction(0))
    with pytest.raises(Undecided, match=r"beyond 2\^8192"):
        _ = (1 / Ball(tiny)).enclosure


@pytest.mark.parametrize(
    ("lower", "upper", "printed", "digits"),
    [
        ("0.25", "0.25", "0.25", 30),
        ("1.23456", "1.23457", "1.2345…", 5),
        ("0.000123456", "0.000123459", "0.00012345…", 4),
        ("-1.23457", "-1.23456", "-1.2345…", 5),
        ("1.23456e-9", "1.23457e-9", "1.2345…e-9", 5),
        ("1.23456e12", "1.23457e12", "1.2345…e12", 5),
        ("0.99999", "1.00001", "1 ± 1.2e-5", 4),
        ("-1", "3", "1 ± 2.4e+0", 0),
        ("-1", "1", "0 ± 1.2e+0", 0),
        ("0", "0", "0.0", 30),
        ("9.9999e20", "9.99991e20", "9.9999…e20", 5),
        ("1e-21", "1.00001e-21", "1.0000…e-21", 5),
        ("2/3", "2/3", "0." + "6" * 30 + "…", 30),
        ("0.0000123456", "0.0000123457", "0.000012345…", 5),
        ("0.00000123456", "0.00000123457", "1.2345…e-6", 5),
        ("12345.1", "12345.9", "12345.…", 4),
        ("12341", "12348", "1.234…e4", 3),
        ("12345.61", "12345.69", "12345.6…", 5),
        ("1e3000", "1.0001e3000", "1.000…e3000", 4),
        ("1e3000", "1e3000", "1.00000000000000000000000000000…e3000", 30),
        ("0.99999e3000", "1.00001e3000", "1.000000E+3000 ± 1.2e+2995", 4),
        ("-1e-400", "1e-400", "0 ± 1.2e-400", 0),
    ],
)
def test_printed_digits_are_certain(lower, upper, printed, digits):
    found = st.bounds.Enclosure(Fraction(lower), Fraction(upper))
    assert str(found) == printed
    assert found.digits == digits


def test_numbers_beyond_floats_are_infinite():
    huge = Fraction(10) ** 400
    assert float(st.bounds.Enclosure(huge, huge)) == np.inf
    assert float(st.bounds.Enclosure(-huge, -huge)) == -np.inf
    assert st.bounds.Enclosure(Fraction(-1), 1 + 1 / huge).width == np.inf


@pytest.mark.parametrize(
    "problem",
    [
        st.PowerLaw(2.0, 3.0, noise_variance=0.5),
        st.PowerLaw(1.5, 2.5, dim=40),
        st.PowerLaw(0.5, 1.5, dim=9),
        st.LeastSquares([1.0, 0.5, 0.1, 0.0], [1.0, 2.0, 0.3, 0.4]),
    ],
)
def test_spectra_in_balls_are_those_in_floats(problem):
    balls = in_balls(problem)
    for name in ("largest_eigenvalue", "trace", "initial_risk", "noise_variance"):
        assert float(Ball(getattr(balls, name)).enclosure) == pytest.approx(getattr(problem, name), rel=1e-13)
    count = balls.count_above(Ball(0.13))
    assert count == problem.count_above(0.13)
    for k in (0, count, 4):
        assert float(balls.tail_signal(k).enclosure) == pytest.approx(problem.tail_signal(k), rel=1e-13)
        assert float(balls.tail_squares(k).enclosure) == pytest.approx(problem.tail_squares(k), rel=1e-13)
        for power in (1, 2):
            assert float(balls.head_signal(k, power).enclosure) == pytest.approx(problem.head_signal(k, power))
    if problem.dim is not None:
        for ours, theirs in zip(balls.directions(), problem.directions(), strict=True):
            np.testing.assert_allclose([float(each.enclosure) for each in ours], theirs, rtol=1e-14)


def test_counts_that_are_not_certain_raise():
    for problem in (st.PowerLaw(2.0, 3.0), st.LeastSquares([1.0, 0.25, 0.1], [1.0, 1.0, 1.0])):
        with pytest.raises(Undecided, match="cannot be decided"):
            in_balls(problem).count_above(Ball(flint.arb(0.25, 0.01)))


def test_spectra_that_cannot_be_enclosed():
    with pytest.raises(ValueError, match="a certificate lists at most"):
        in_balls(st.PowerLaw(2.0, 3.0)).directions()
    endless = st.PowerLaw(2.0, 3.0)
    wrapped = type(
        "Own", (st.AbstractProblem,), {"noise_variance": 1.0, "directions": lambda self: endless.directions()}
    )
    with pytest.raises(ValueError, match="certificates are for PowerLaw and for problems that list their directions"):
        in_balls(wrapped())
