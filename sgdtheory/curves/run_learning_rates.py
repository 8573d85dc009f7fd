"""Learning rates of a run to predict, given as a peak and a shape or as one number for each step."""

import numpy as np

from sgdtheory._common.arguments import positive_number, real_array, whole_number
from sgdtheory._common.array_like import ArrayLike
from sgdtheory.algorithms import Algorithm, Constant, LastIterate, Shape, checked_algorithm


def checked_shape(schedule: Shape) -> Shape:
    """Return the shape, or raise if it is not one."""
    return checked_algorithm(Algorithm(schedule=schedule, average=LastIterate())).schedule


def rates_of(learning_rate: ArrayLike, num_steps: int | None, schedule: Shape | None) -> np.ndarray:
    """Return the (n,) learning rates of all steps.

    Raises:
        ValueError: a number without how many steps, rates below 0, or both rates and a shape.
    """
    rates = real_array("learning_rate", learning_rate)
    if rates.ndim == 0:
        if num_steps is None:
            raise ValueError("num_steps must be given beside a single learning_rate: how long the run is")
        count = whole_number("num_steps", num_steps, 2)
        shape = checked_shape(Constant() if schedule is None else schedule)
        return positive_number("learning_rate", float(rates)) * shape.factors(np.arange(count), count)
    if rates.ndim != 1 or rates.size < 2 or not (np.isfinite(rates) & (rates >= 0)).all():
        raise ValueError(f"learning_rate must be a number or one of 0 or more for each step, got shape {rates.shape}")
    if schedule is not None or num_steps not in (None, rates.size):
        raise ValueError("learning_rate has every step already: leave schedule and num_steps out")
    return rates
