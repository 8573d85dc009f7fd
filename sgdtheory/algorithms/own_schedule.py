"""Schedules given by a user's function of the fraction of the run, or of the step."""

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, ClassVar

import numpy as np

from sgdtheory._common.array_like import ArrayLike
from sgdtheory.algorithms.schedules import Shape, Stages, checked_factors, one_row, values_of

SCANNED = 4096  # A feature of f narrower than 1/4096 of the run can be missed; each scan costs as many values of f.
ROUNDING = 4 * np.finfo(float).eps  # Changes of f below this share of its largest value count as no change.


@dataclass(frozen=True)
class Schedule(Shape):
    """Schedule given by a function f of the fraction u = t/n of the run: γ_t = γ f(t/n), or B_t = B f(t/n) rounded.

    It stretches with the run, so searches that compare runs of different lengths take it, like every named schedule.
    f may have jumps and kinks. It is scanned at 4096 fractions once: places where it jumps, or where it stops or
    starts to rise, to fall or to stay constant, are located to the last digit. Anything narrower than 1/4096 of the
    run can be missed.

    >>> import sgdtheory as st
    >>> print(st.Schedule(lambda u: (1 - u) ** 2).factors([0, 1, 2, 3], 4))
    [1.     0.5625 0.25   0.0625]

    Args:
        function: f(u) ≥ 0 and finite for 0 ≤ u < 1, of an array or, if it cannot take one, of a single number.

    Raises:
        ValueError: if it is not a function, or a value is negative, complex or not finite.
    """

    function: Callable[[Any], Any]

    def __post_init__(self) -> None:
        if not callable(self.function):
            raise ValueError(f"function must be a function of the fraction u = t/n of the run, got {self.function!r}")
        object.__setattr__(self, "_knots", self._located_knots())

    def at(self, fraction: Any, xp: Any = np) -> Any:
        """Return f(u), elementwise; u = 1, which no step reaches, is replaced by the largest number below 1.

        Raises:
            ValueError: if a value is negative, complex or not finite.
        """
        return values_of(self.function, np.minimum(fraction, np.nextafter(1.0, 0.0)), "schedule")

    def knots(self) -> tuple[float, ...]:
        """Return the fractions at which f begins to rise, to fall or to stay constant, in order."""
        return self._knots  # type: ignore[attr-defined]  # `__post_init__` sets it.

    def _located_knots(self) -> tuple[float, ...]:
        """Locate the fractions between which f is monotone or constant, from its changes between scanned fractions."""
        fractions = np.append(np.arange(SCANNED) / SCANNED, np.nextafter(1.0, 0.0))
        values = self.at(fractions)
        noise = ROUNDING * values.max()
        change = np.diff(values)
        moves = np.where(np.abs(change) <= noise, 0.0, np.sign(change))
        knots = set()
        for cell in np.flatnonzero(np.diff(moves)):
            low, middle, high = fractions[cell : cell + 3].tolist()
            if moves[cell] == 0:  # f leaves a constant value.
                knots.add(_boundary(lambda u, value=values[cell + 1]: abs(self.at(u) - value) > noise, middle, high))
            elif moves[cell + 1] == 0:  # f arrives at a constant value.
                knots.add(_boundary(lambda u, value=values[cell + 1]: abs(self.at(u) - value) <= noise, low, middle))
            else:
                knots.add(self._turning_point(low, high, float(moves[cell])))
        return tuple(sorted(knots))

    def _turning_point(self, low: float, high: float, sign: float) -> float:
        """Find the fraction just after the largest value of sign · f between two fractions.

        If f jumps back, the largest value is the last one before the jump, with which the next segment begins.
        """
        best = low
        while high > np.nextafter(low, 1.0):
            fractions = np.linspace(low, high, 9)
            index = int(np.argmax(sign * self.at(fractions)))
            best = float(fractions[index])
            narrower = float(fractions[max(index - 1, 0)]), float(fractions[min(index + 1, 8)])
            if narrower == (low, high):
                break
            low, high = narrower
        return float(np.nextafter(best, 1.0))


@dataclass(frozen=True)
class StepFunction(Shape):
    """Schedule given by a function of the step, such as an optax schedule: its value at step 0, at step 1, and so on.

    A bare function is converted to it: `Algorithm(schedule=optax.cosine_decay_schedule(1.0, 1000))`. It does not
    stretch with the run, so that searches that compare runs of different lengths refuse it; use `Schedule` for these.

    >>> import sgdtheory as st
    >>> print(st.algorithms.StepFunction(lambda step: 1 / (1 + step)).factors([0, 1, 3], 4))
    [1.   0.5  0.25]

    Args:
        function: function of an array of step numbers or, if it cannot take one, of a single number.

    Raises:
        ValueError: if it is not a function; and later, when it is used, if a factor is negative or not finite.
    """

    smooth: ClassVar[bool] = False

    function: Callable[[Any], Any]

    def __post_init__(self) -> None:
        if not callable(self.function):
            raise ValueError(f"function must be a function of the step, got {self.function!r}")

    def at(self, fraction: Any, xp: Any = np) -> Any:
        """Refuse, because a function of the step has no value at a fraction of the run.

        Raises:
            ValueError: always.
        """
        raise ValueError(
            "schedule must be a function of the fraction of the run here, got a function of the step; "
            "write st.Schedule(lambda u: …), with u = t/n"
        )

    def factors(self, step: ArrayLike, num_steps: float) -> np.ndarray:
        """Return the function's values at these steps, float64; they do not depend on `num_steps`."""
        return values_of(self.function, np.asarray(step), "schedule")


def as_shape(name: str, value: Any) -> Shape:
    """Convert an array to stages of equal length and a function to one of the step; a shape is returned unchanged.

    Raises:
        ValueError: if the value is none of these.
    """
    if isinstance(value, Shape):
        return value
    if isinstance(value, type):
        raise ValueError(f"{name} must be an object such as Cosine(), got the class {value.__name__}; add parentheses")
    if callable(value):
        return StepFunction(value)
    if isinstance(value, list | tuple | np.ndarray) or hasattr(value, "__array__"):
        values = one_row(name, value)
        return Stages(np.arange(values.size) / values.size, checked_factors(name, values))
    raise ValueError(
        f"{name} must be a shape such as Constant(), Cosine() or Stages(…), an array or a function of the step, "
        f"got {value!r}"
    )


def _boundary(true_at: Callable[[float], Any], low: float, high: float) -> float:
    """Find the first number at which a condition is true that is false at `low` and true at `high`, by bisection."""
    while np.nextafter(low, 1.0) < high:
        middle = (low + high) / 2
        low, high = (low, middle) if true_at(middle) else (middle, high)
    return high
