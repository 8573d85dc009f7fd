"""Checks of user input: what is let through, as what, and the sentence that says what is wrong."""

import re

import numpy as np
import pytest

from sgdtheory._common.arguments import (
    checked_name,
    checked_problem,
    first_where,
    positive_array,
    positive_number,
    real_array,
    refuse_complex,
    samples_used,
    settings_arrays,
    share_between_0_and_1,
    single_number,
    whole_array,
    whole_number,
)
from sgdtheory.problems import LeastSquares, PowerLaw


def refused(message, check, *arguments):
    with pytest.raises(ValueError, match=f"^{re.escape(message)}$"):
        check(*arguments)


@pytest.mark.parametrize("value", [3, 3.5, np.float32(2), [1, 2], np.arange(3), (1e-300, -1e300), [[1.0], [2.0]]])
def test_numbers_become_floats(value):
    found = real_array("x", value)
    assert found.dtype == np.float64
    np.testing.assert_array_equal(found, np.asarray(value))


@pytest.mark.parametrize(
    ("value", "shown"),
    [
        (None, "None"),
        ("32", "'32'; write it without quotes"),
        ("many", "'many'"),
        ([1, "2"], "[1, '2']"),
        (True, "True"),
        (b"3", "b'3'"),
        ([[1], [1, 2]], "[[1], [1, 2]]"),
        ({}, "{}"),
    ],
)
def test_what_is_no_number(value, shown):
    refused(f"x must be a number or an array of numbers, got {shown}", real_array, "x", value)


@pytest.mark.parametrize("value", [1j, [1, 2j], np.array([1 + 0j]), np.complex64(1)])
def test_complex_numbers_are_refused(value):
    """NumPy would drop the imaginary part with a warning."""
    message = "x must be real, got complex numbers; take their real part or their modulus"
    for check in (real_array, positive_array, refuse_complex):
        refused(message, check, "x", value)


def test_the_first_bad_value_is_named():
    values = np.array([[1.0, -2.0], [-3.0, 4.0]])
    assert first_where(values, values < 0) == -2.0
    assert type(first_where(values, values < 0)) is float


def test_problems():
    class Half:
        modes = None

    class OtherHalf:
        noise_variance = 1.0

    for problem in (PowerLaw(2, 3), LeastSquares([1.0], [1.0])):
        assert checked_problem(problem) is problem
    for wrong in (Half, OtherHalf, "x"):
        refused(
            f"problem must be a PowerLaw, a LeastSquares or your own AbstractProblem, got {wrong!r}",
            checked_problem,
            wrong,
        )


def test_single_numbers():
    assert single_number("x", np.array(2)) == 2.0
    assert type(single_number("x", 2)) is float
    refused("x must be a single number, got an array of shape (1,)", single_number, "x", [2.0])


def test_positive_numbers():
    assert positive_number("x", 0.5) == 0.5
    np.testing.assert_array_equal(positive_array("x", [0.5, 1, 2]), [0.5, 1, 2])
    for bad in (0, -0.5, np.inf, np.nan):
        refused(f"x must be positive and finite, got {float(bad)}", positive_number, "x", bad)
        refused(f"x must be positive and finite, got {float(bad)}", positive_array, "x", [0.5, bad, 3])


def test_shares_exclude_both_ends():
    assert share_between_0_and_1("x", 0.5) == 0.5
    for bad in (0.0, 1.0, 1.5, -0.5, np.nan):
        refused(f"x must lie between 0 and 1, got {bad}", share_between_0_and_1, "x", bad)


def test_whole_numbers():
    assert [whole_number("x", value, 2) for value in (2, 3.0, 1e12)] == [2, 3, 10**12]
    assert type(whole_number("x", 3.0, 2)) is int
    for bad in (1, 2.5, np.inf, np.nan, -3):
        refused(f"x must be a whole number of at least 2, got {bad:g}", whole_number, "x", bad, 2)


def test_arrays_of_whole_numbers():
    np.testing.assert_array_equal(whole_array("x", [1, 2, 1e15]), [1, 2, 1e15])
    for bad in (0, 0.5, 2.5, -1, np.inf, np.nan):
        refused(f"x must be a whole number of at least 1, got {float(bad)}", whole_array, "x", [1, bad, 3])


def test_settings_broadcast():
    batch, rate, samples = settings_arrays([[1], [4]], 0.5, [4, 8, 100])
    for array in (batch, rate, samples):
        assert array.shape == (2, 3)
        assert array.dtype == np.float64
    np.testing.assert_array_equal(samples[0], [4, 8, 100])  # one step is enough
    refused(
        "num_samples must be at least batch_size (one step), got num_samples 3.0 with batch_size 4.0",
        *(settings_arrays, 4, 0.5, [8, 3]),
    )
    refused(
        "batch_size, learning_rate and num_samples must broadcast against each other, got shapes (2,), (3,) and ()",
        *(settings_arrays, [1, 2], [1, 2, 3], 9),
    )


def test_names():
    known = "constant", "cosine", "cosines"
    assert checked_name("schedule", "cosine", known) == "cosine"
    refused(
        "schedule must be one of constant, cosine, cosines, got cosin (did you mean cosine?)",
        *(checked_name, "schedule", "cosin", iter(known)),
    )
    refused("schedule must be one of constant, cosine, cosines, got 3", checked_name, "schedule", 3, known)


def test_an_incomplete_batch_is_dropped():
    np.testing.assert_array_equal(samples_used(np.array([4.0, 4.0, 3.0]), np.array([4.0, 11.0, 10.0])), [4, 8, 9])
