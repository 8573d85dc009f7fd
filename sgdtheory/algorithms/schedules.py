"""Shapes of schedules: factors of the peak learning rate, or of the batch size, along a run (THEORY.md T21).

A shape f is a function of the fraction u = t/n of steps that have been taken, t = 0 … n − 1. The exact theory, the
simulator and the training of networks use the same objects.
"""

import sys
from collections.abc import Callable
from contextlib import AbstractContextManager, nullcontext
from dataclasses import dataclass
from functools import cached_property
from typing import Annotated, Any, ClassVar

import numpy as np

from sgdtheory._common.arguments import first_where, positive_number, real_array, refuse_complex, single_number
from sgdtheory._common.array_like import ArrayLike
from sgdtheory.algorithms.parameter import Parameter, Slider

DECAY_TEXT = "last fraction of the steps, in which it falls to 0."
Warmup = Annotated[
    float,
    Parameter(
        "fraction of the steps in which it grows linearly from 0.",
        Slider("warm-up, of the steps", 0.0, 0.5, 0.01, 0.0),
        batch_note="no batch is smaller than 1.",
    ),
]


@dataclass(frozen=True)
class Shape:
    """Shape f(u) of a schedule, a function of the fraction u = t/n of the run, and its knots.

    With a warm-up fraction w, f = u/w for u < w, and what follows is a function of v = (u − w)/(1 − w).
    """

    smooth: ClassVar[bool] = True  # Whether f is smooth between its knots.

    def at(self, fraction: Any, xp: Any = np) -> Any:
        """Return f(u), elementwise; `xp` is the module of the arrays, numpy or jax.numpy."""
        warmup = getattr(self, "warmup", 0.0)
        if warmup == 0:
            return self._after(fraction, fraction, xp)
        rest = xp.clip((fraction - warmup) / max(1 - warmup, 1e-30), 0.0, 1.0)
        return xp.where(fraction < warmup, fraction / warmup, self._after(fraction, rest, xp))

    def _after(self, fraction: Any, rest: Any, xp: Any) -> Any:
        """Return f after the warm-up at u, given v = (u − w)/(1 − w) as well."""
        raise NotImplementedError

    def knots(self) -> tuple[float, ...]:
        """Return the fractions strictly between 0 and 1 at which the formula changes, in order.

        f is monotone between two of them: searches and bounds only evaluate f at the knots and at both ends.
        """
        return self._inside(getattr(self, "warmup", 0.0))

    @staticmethod
    def _inside(*fractions: float) -> tuple[float, ...]:
        """Return the fractions strictly between 0 and 1, each once."""
        return tuple(dict.fromkeys(each for each in fractions if 0 < each < 1))

    @cached_property
    def flat(self) -> bool:
        """Return whether f is the same everywhere."""
        return self.smooth and not self.knots() and np.ptp(self.factors(np.arange(5), 5)) == 0

    def factors(self, step: ArrayLike, num_steps: float) -> np.ndarray:
        """Return the factors at given steps of a run of n steps, float64."""
        return np.asarray(self.at(np.asarray(step, dtype=float) / num_steps), dtype=float)


@dataclass(frozen=True)
class Constant(Shape):
    """Constant schedule, f = 1 after the warm-up.

    >>> import sgdtheory as st
    >>> print(st.Constant(warmup=0.5).factors([0, 1, 2, 3], 4))
    [0.  0.5 1.  1. ]

    Args:
        warmup: fraction w of the steps in which f grows linearly from 0.

    Raises:
        ValueError: if w is out of range.
    """

    warmup: Warmup = 0.0

    def __post_init__(self) -> None:
        _set_fraction(self, "warmup")

    def _after(self, fraction: Any, rest: Any, xp: Any) -> Any:
        return xp.ones_like(fraction)


@dataclass(frozen=True)
class _ToFinal(Shape):
    """Base class of the shapes that go from 1 to a value which the user chooses."""

    final: Annotated[
        float,
        Parameter(
            "its value at the end, over the peak.",
            Slider("at the end, over the peak", 0.0, 1.0, 0.01, 0.0),
            of_batch=Slider("at the end, over B", 0.0, 64.0, 0.5, 8.0),
            batch_note="linear with 8 is a ramp from B to 8B.",
        ),
    ] = 0.0
    warmup: Warmup = 0.0

    def __post_init__(self) -> None:
        _set_nonnegative(self, "final")
        _set_fraction(self, "warmup")


@dataclass(frozen=True)
class Cosine(_ToFinal):
    """Half a cosine from 1 to `final`, f = final + (1 − final)(1 + cos πv)/2.

    >>> import sgdtheory as st
    >>> print(st.Cosine().factors([0, 1, 2, 3], 4).round(3))
    [1.    0.854 0.5   0.146]

    Args:
        final: f at the end, ≥ 0.
        warmup: fraction w of the steps in which f grows linearly from 0.

    Raises:
        ValueError: if an argument is out of range.
    """

    def _after(self, fraction: Any, rest: Any, xp: Any) -> Any:
        return self.final + (1 - self.final) * xp.cos(np.pi / 2 * rest) ** 2


@dataclass(frozen=True)
class Linear(_ToFinal):
    """Straight line from 1 to `final`, f = 1 − (1 − final) v; `final` may be above 1.

    >>> import sgdtheory as st
    >>> print(st.Linear(final=5).factors([0, 1, 2, 3], 4))  # a ramp, for batch sizes
    [1. 2. 3. 4.]

    Args:
        final: f at the end, ≥ 0.
        warmup: fraction w of the steps in which f grows linearly from 0.

    Raises:
        ValueError: if an argument is out of range.
    """

    def _after(self, fraction: Any, rest: Any, xp: Any) -> Any:
        return 1 - (1 - self.final) * rest


@dataclass(frozen=True)
class WSD(Shape):
    """Warmup-stable-decay schedule: f = 1 up to u = 1 − decay, then 1 − x^power, x = (u − 1 + decay)/decay.

    The decay is linear with power 1. With power ½ it is "1 − √" of Hägele et al. 2024 (arXiv 2405.18392).

    >>> import sgdtheory as st
    >>> print(st.WSD(decay=0.5).factors([0, 1, 2, 3], 4))
    [1.  1.  1.  0.5]
    >>> print(st.WSD(decay=0.5, power=0.5).factors([0, 1, 2, 3], 4).round(3))
    [1.    1.    1.    0.293]

    Args:
        decay: last fraction of the steps, in which f falls to 0.
        warmup: fraction w of the steps in which f grows linearly from 0.
        power: power > 0 of the share x of the decay that is over.

    Raises:
        ValueError: if an argument is out of range, or warm-up and decay overlap.
    """

    decay: Annotated[
        float,
        Parameter(DECAY_TEXT, Slider("decay, last share of the steps", 0.01, 1.0, 0.01, 0.2)),
    ] = 0.2
    warmup: Warmup = 0.0
    power: Annotated[
        float,
        Parameter(
            "power q of its decay 1 − x^q, x from 0 to 1; 1 is linear, 0.5 is 1 − √x.",
            Slider("power q of its decay 1 − x^q", 0.1, 3.0, 0.05, 1.0),
        ),
    ] = 1.0

    def __post_init__(self) -> None:
        _set_fraction(self, "decay")
        _set_fraction(self, "warmup")
        object.__setattr__(self, "power", positive_number("power", self.power))
        if self.warmup + self.decay > 1:
            raise ValueError(
                f"warmup and decay must add up to at most 1, got {self.warmup:g} and {self.decay:g}: lower one of them"
            )

    def _after(self, fraction: Any, rest: Any, xp: Any) -> Any:
        if self.decay == 0:
            return xp.ones_like(fraction)
        factor = xp.clip((1 - fraction) / self.decay, 0.0, 1.0)
        if self.power != 1:
            over = 1 - factor
            # At the first step of the decay x may be rounding instead of 0, of which a small power is not small.
            rounding = 4 * xp.finfo(xp.result_type(over, float)).eps / self.decay
            factor = 1 - xp.where(over <= rounding, 0.0, over) ** self.power
        return xp.where(fraction <= 1 - self.decay, 1.0, factor)

    def knots(self) -> tuple[float, ...]:
        """Return the ends of the warm-up and of the stable part."""
        return self._inside(self.warmup, 1 - self.decay)


@dataclass(frozen=True)
class PowerDecay(Shape):
    """Power decay in the last share of the run: f = ((1 − u)/decay)^exponent from u = 1 − decay on, and 1 before.

    The decay does not begin before the warm-up ends, so that f = (1 − v)^exponent with decay 1.

    >>> import sgdtheory as st
    >>> print(st.PowerDecay(2).factors([0, 1, 2, 3], 4))
    [1.     0.5625 0.25   0.0625]
    >>> print(st.PowerDecay(2, decay=0.5).factors([0, 1, 2, 3], 4))
    [1.   1.   1.   0.25]

    Args:
        exponent: exponent ≥ 0.
        warmup: fraction w of the steps in which f grows linearly from 0.
        decay: last fraction of the steps, in which f falls to 0.

    Raises:
        ValueError: if an argument is out of range.
    """

    exponent: Annotated[
        float,
        Parameter("p of (1 − x)^p, x from 0 to 1 in the decay.", Slider("power p of (1 − x)^p", 0.0, 4.0, 0.05, 1.0)),
    ]
    warmup: Warmup = 0.0
    decay: Annotated[
        float,
        Parameter(DECAY_TEXT, Slider("decay, last share of the steps", 0.01, 1.0, 0.01, 1.0)),
    ] = 1.0

    def __post_init__(self) -> None:
        _set_nonnegative(self, "exponent")
        _set_fraction(self, "warmup")
        _set_fraction(self, "decay")

    def _after(self, fraction: Any, rest: Any, xp: Any) -> Any:
        if self.decay == 0:
            return xp.ones_like(fraction)
        # (1 − u)/decay, or 1 − v where the whole of the run after the warm-up is the decay.
        left = (1 - rest) * max((1 - self.warmup) / self.decay, 1.0)
        return xp.clip(left, 0.0, 1.0) ** self.exponent

    def knots(self) -> tuple[float, ...]:
        """Return the ends of the warm-up and of the part before the decay."""
        return self._inside(self.warmup, max(1 - self.decay, self.warmup))


@dataclass(frozen=True)
class Stages(Shape):
    """Piecewise constant schedule: f = values[j] from u ≥ fractions[j] on.

    >>> import sgdtheory as st
    >>> print(st.Stages(fractions=[0, 0.5, 0.75], values=[1, 0.5, 0.25]).factors([0, 1, 2, 3], 4))
    [1.   1.   0.5  0.25]

    Args:
        fractions: (J,) increasing from 0, below 1.
        values: (J,) f ≥ 0 of each stage.

    Raises:
        ValueError: if fractions do not increase from 0 to below 1, values are out of range, or lengths differ.
    """

    written: ClassVar[Parameter] = Parameter(
        "FRACTION:VALUE pairs; 0:1,0.5:0.3 is the peak up to half of the steps, and 0.3 of it from there on.",
        setting="stages",
        examples=("0:1,0.5:0.3", "0:1,0.5:4"),
        batch_note="0:1,0.5:4 is B up to half of the steps, and 4B from there on.",
    )

    fractions: Any  # Any sequence is accepted, and stored as a tuple.
    values: Any

    def __post_init__(self) -> None:
        fractions, values = one_row("fractions", self.fractions), one_row("values", self.values)
        if fractions.shape != values.shape:
            raise ValueError(
                f"values must have one entry for each fraction, got {values.size} for {fractions.size} fractions"
            )
        falls = np.diff(fractions, prepend=-1.0) <= 0
        if fractions[0] != 0 or falls.any() or not fractions[-1] < 1:
            shown = ", ".join(f"{each:g}" for each in fractions[:6])
            raise ValueError(f"fractions must begin with 0, increase and stay below 1, got {shown}")
        checked_factors("values", values)
        object.__setattr__(self, "fractions", tuple(fractions.tolist()))
        object.__setattr__(self, "values", tuple(values.tolist()))

    @classmethod
    def from_text(cls, text: Any) -> "Stages":
        """Parse the stages from a text of fraction:value pairs.

        >>> import sgdtheory as st
        >>> st.Stages.from_text("0:1,0.5:0.3")
        Stages(fractions=(0.0, 0.5), values=(1.0, 0.3))

        Raises:
            ValueError: if the text does not have this form, or the stages are invalid.
        """
        try:
            fractions, values = zip(*(map(float, pair.split(":")) for pair in text.split(",")), strict=True)
        except (AttributeError, TypeError, ValueError):
            raise ValueError(
                f"stages must be FRACTION:VALUE pairs with commas between them, such as 0:1,0.5:0.3, got {text!r}"
            ) from None
        return cls(fractions, values)

    @property
    def text(self) -> str:
        """Return the text from which `from_text` makes the same stages, to the last digit."""
        pairs = zip(self.fractions, self.values, strict=True)
        return ",".join(":".join(repr(each).removesuffix(".0") for each in pair) for pair in pairs)

    def at(self, fraction: Any, xp: Any = np) -> Any:
        """Return the value of the stage that u lies in."""
        stage = xp.searchsorted(xp.asarray(self.fractions), fraction, side="right") - 1
        return xp.asarray(self.values)[stage]

    def knots(self) -> tuple[float, ...]:
        """Return the starts of all stages but the first."""
        return self.fractions[1:]


def values_of(function: Callable[[Any], Any], points: np.ndarray, name: str) -> np.ndarray:
    """Evaluate a user's function at an array of points, float64; one point at a time if it cannot take an array.

    Raises:
        ValueError: if a value is negative, complex or not finite; `name` is the schedule's name in the message.
    """
    points = np.asarray(points)
    with _double_precision():
        try:
            values = np.broadcast_to(np.asarray(function(points)), points.shape)
        except (TypeError, ValueError):  # The function takes only one number.
            values = np.array([function(each) for each in points.ravel()]).reshape(points.shape)
    refuse_complex(name, values)
    return checked_factors(name, np.asarray(values, dtype=float))


def _double_precision() -> AbstractContextManager[Any]:
    """Return a context with double precision in JAX, which a user's function may use, if JAX has been imported."""
    return sys.modules["jax"].enable_x64(True) if "jax" in sys.modules else nullcontext()


def checked_factors(name: str, values: np.ndarray) -> np.ndarray:
    """Return the factors of a schedule after checking them.

    Raises:
        ValueError: if a factor is negative or not finite.
    """
    bad = ~(np.isfinite(values) & (values >= 0))
    if bad.any():
        raise ValueError(f"{name} must be finite and not negative, got {first_where(values, bad)}")
    return values


def one_row(name: str, value: Any) -> np.ndarray:
    """Return a value as a one-dimensional array with at least one entry.

    Raises:
        ValueError: if it has another shape, or its entries are not real numbers.
    """
    array = real_array(name, value)
    if array.ndim != 1 or array.size == 0:
        raise ValueError(f"{name} must be a one-dimensional array with at least one entry, got shape {array.shape}")
    return array


def _set_fraction(shape: Shape, name: str) -> None:
    value = single_number(name, getattr(shape, name))
    if not 0 <= value <= 1:
        raise ValueError(f"{name} must be between 0 and 1, got {value:g}")
    object.__setattr__(shape, name, value)


def _set_nonnegative(shape: Shape, name: str) -> None:
    value = single_number(name, getattr(shape, name))
    if not 0 <= value < np.inf:
        raise ValueError(f"{name} must be at least 0 and finite, got {value:g}")
    object.__setattr__(shape, name, value)
