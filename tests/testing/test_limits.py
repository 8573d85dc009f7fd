"""How much is tried, where a bound passes to the last digit, and what is told of the search."""

import inspect

import hypothesis
import numpy as np
import pytest

import sgdtheory as st
from sgdtheory.testing import strategies
from tests.testing.test_assertion import PLAIN, exact

ONE = hypothesis.strategies.just(st.Setting(st.LeastSquares([0.7], [0.3], 0.4), 3, 0.5, 6))


@pytest.mark.parametrize(
    ("factor", "options", "side"),
    [
        (1.0, {}, ""),
        (1 - 0.9e-9, {}, ""),
        (1 - 1.1e-9, {}, "above 1"),
        (1.0, {"within": 1}, ""),
        (1 + 1.1e-9, {"within": 1}, "below 1"),
        (1 + 0.9e-9, {"lower": 1.0}, ""),
        (1e-6, {"lower": 1.0}, ""),
        (1 + 1.1e-9, {"lower": 1.0}, "below 1"),
        (1e6, {"lower": 0.0}, ""),
    ],
)
def test_a_bound_passes_up_to_the_rounding_of_the_exact_risk(factor, options, side):
    """A billionth; a lower limit alone has no upper one."""
    options = {"settings": ONE, "max_examples": 2} | options
    if not side:
        st.testing.assert_bound(exact(factor), **options)
        return
    with pytest.raises(AssertionError, match=side):
        st.testing.assert_bound(exact(factor), **options)


def test_equal_limits_leave_no_room():
    with pytest.raises(ValueError, match="lower must be at least 0 and below upper, got lower=1 and upper=1"):
        st.testing.assert_bound(exact(1.0), lower=1.0, upper=1.0)


@pytest.mark.parametrize("number", [7, 45])
def test_as_many_problems_are_tried_as_are_asked_for(number):
    said = []
    st.testing.assert_bound(exact(1.0), settings=PLAIN, max_examples=number, progress=said.append)
    assert said == [f"problem {k} of {number}" for k in range(1, number + 1)]


def test_a_search_is_repeated_with_its_seed_and_is_another_one_with_another():
    def tried(**options):
        seen = []

        def noted(problem, **run):
            seen.append((repr(problem), np.ravel(run["batch_size"]).tolist()))
            return 2 * st.excess_risk(problem, **run).total

        st.testing.assert_bound(noted, settings=PLAIN, max_examples=20, **options)
        return seen

    assert tried() == tried(seed=0) != tried(seed=1)


def test_arguments_that_are_left_out():
    def defaults(function, *names):
        parameters = inspect.signature(function).parameters
        return [parameters[name].default for name in names]

    limits = "within", "upper", "lower", "quantity", "algorithm", "settings", "max_examples", "seed"
    assert defaults(st.testing.assert_bound, *limits) == [None, None, None, "total", None, None, 600, 0]
    assert defaults(st.testing.problems, "largest_dim", "power_laws", "noise") == [6, True, True]
    runs = "problem", "largest_batch", "most_steps", "least_steps", "edge"
    assert defaults(st.testing.settings, *runs) == [None, 1000, 1e9, 1, 1.0]
    assert defaults(st.testing.algorithms, "linear") == [True]


def test_rates_of_round_shares_are_rounded_down_to_three_digits():
    """So that a counterexample stays below the edge, and is short."""
    assert strategies._rate(0.9, 1 / 3) == 0.3
    assert strategies._rate(0.5, 0.24691) == 0.123
    assert strategies._rate(0.5, 0.2479999) == 0.123
    assert strategies._rate(1e-12, 0.56789) == 5.67e-13
    assert strategies._rate(0.123456, 0.5) == 0.061728
    assert strategies._rate(0.99, 0.123456) == 0.99 * 0.123456
