"""Checks of user input: every failure is one sentence with the argument, the value and the remedy."""

import difflib
from collections.abc import Iterable
from typing import Any, TypeVar

import numpy as np

P = TypeVar("P")
# Results are numbers if all settings are numbers, and arrays if one of them is an array: `Risk[float]`,
# `Risk[np.ndarray]`. Overloads say which, so that type checkers accept `risk.total[0]` for arrays only.
Values = TypeVar("Values", float, np.ndarray)


def first_where(values: np.ndarray, bad: np.ndarray) -> Any:
    """The first value where `bad` holds, as a plain number for a message."""
    return values[bad].flat[0].item()


def refuse_complex(name: str, value: Any) -> None:
    """Refuse complex numbers, of which NumPy would keep the real part with no more than a warning."""
    if np.iscomplexobj(value):
        raise _not_real(name)


def _not_real(name: str) -> ValueError:
    return ValueError(f"{name} must be real, got complex numbers; take their real part or their modulus")


def real_array(name: str, value: object) -> np.ndarray:
    """`value` as a float64 array."""
    try:
        kind = np.asarray(value).dtype.kind
        if value is None or kind in "USb":  # NumPy would take "32" and True for numbers
            raise TypeError
        if kind != "c":
            return np.asarray(value, dtype=float)
    except OverflowError:
        raise ValueError(f"{name} must be at most 1.8e308, got a whole number beyond the range of a float") from None
    except (TypeError, ValueError):
        quoted = isinstance(value, str) and is_number(value)
        remedy = "; write it without quotes" if quoted else ""
        raise ValueError(f"{name} must be a number or an array of numbers, got {value!r}{remedy}") from None
    raise _not_real(name)


def is_number(text: str) -> bool:
    """Return whether a text is a number as Python writes it."""
    try:
        float(text)
    except ValueError:
        return False
    return True


def checked_problem(problem: P) -> P:
    """`problem`, if it looks like one."""
    if not (hasattr(problem, "modes") and hasattr(problem, "noise_variance")):
        raise ValueError(f"problem must be a PowerLaw, a LeastSquares or your own AbstractProblem, got {problem!r}")
    return problem


def single_number(name: str, value: object) -> float:
    """`value` as one float."""
    array = real_array(name, value)
    if array.ndim:
        raise ValueError(f"{name} must be a single number, got an array of shape {array.shape}")
    return float(array)


def true_or_false(name: str, value: object) -> bool:
    """`value`, if it is one of the two: "no" and nan would pass for true."""
    if not isinstance(value, bool | np.bool_):
        raise ValueError(f"{name} must be True or False, got {value!r}")
    return bool(value)


def positive_number(name: str, value: object) -> float:
    """`value` as one finite positive float."""
    return float(positive_array(name, single_number(name, value)))


def share_between_0_and_1(name: str, value: object) -> float:
    """`value` as one float between 0 and 1, both excluded: a level of confidence, a quantile."""
    number = single_number(name, value)
    if not 0 < number < 1:
        raise ValueError(f"{name} must lie between 0 and 1, got {number}")
    return number


def whole_number(name: str, value: object, least: int) -> int:
    """`value` as one whole number of at least `least`."""
    number = single_number(name, value)
    if not (np.isfinite(number) and number >= least and number == np.floor(number)):
        raise ValueError(f"{name} must be a whole number of at least {least}, got {number:g}")
    return int(number)


def positive_array(name: str, value: object) -> np.ndarray:
    """`value` as a float64 array of finite positive numbers."""
    array = real_array(name, value)
    bad = ~(np.isfinite(array) & (array > 0))
    if bad.any():
        raise ValueError(f"{name} must be positive and finite, got {first_where(array, bad)}")
    return array


def whole_array(name: str, value: object) -> np.ndarray:
    """`value` as a float64 array of whole numbers ≥ 1."""
    array = real_array(name, value)
    bad = ~(np.isfinite(array) & (array >= 1) & (array == np.floor(array)))
    if bad.any():
        raise ValueError(f"{name} must be a whole number of at least 1, got {first_where(array, bad)}")
    return array


def settings_arrays(
    batch_size: object, learning_rate: object, num_samples: object, *, scheduled: bool = False
) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """B, γ and D checked and broadcast against each other (float64, one shape).

    With `scheduled` B is the peak of a batch schedule, which a run need not reach: whether D holds a step is for the
    schedule to say.

    Raises:
        ValueError: B not whole or below 1, γ not positive and finite, D not finite or, unless `scheduled`, below B, or
            shapes that do not broadcast.
    """
    batch_size = whole_array("batch_size", batch_size)
    learning_rate = positive_array("learning_rate", learning_rate)
    num_samples = positive_array("num_samples", num_samples)
    try:
        batch_size, learning_rate, num_samples = np.broadcast_arrays(batch_size, learning_rate, num_samples)
    except ValueError:
        raise ValueError(
            "batch_size, learning_rate and num_samples must broadcast against each other, got shapes "
            f"{batch_size.shape}, {learning_rate.shape} and {num_samples.shape}"
        ) from None
    short = (num_samples < batch_size) & (not scheduled)
    if short.any():
        raise ValueError(
            "num_samples must be at least batch_size (one step), got num_samples "
            f"{first_where(num_samples, short)} with batch_size {first_where(batch_size, short)}"
        )
    return batch_size, learning_rate, num_samples


def samples_used(batch_size: np.ndarray, num_samples: np.ndarray) -> np.ndarray:
    """`B ⌊D/B⌋`: an incomplete last batch is dropped."""
    return batch_size * np.floor_divide(num_samples, batch_size)


def checked_name(argument: str, value: object, names: Iterable[str]) -> str:
    """`value`, if it is one of `names`; else the message lists them and the nearest one."""
    names = list(names)
    if isinstance(value, str) and value in names:
        return value
    nearest = difflib.get_close_matches(str(value), names, 1)
    hint = f" (did you mean {nearest[0]}?)" if nearest else ""
    raise ValueError(f"{argument} must be one of {', '.join(names)}, got {value}{hint}")
