"""Numbers that are known to lie between two ends: ball arithmetic for formulas written in NumPy's functions."""

import math
import operator
from collections.abc import Callable
from dataclasses import dataclass
from decimal import Decimal, localcontext
from fractions import Fraction
from types import ModuleType
from typing import Any

import numpy as np

SHOWN_DIGITS = 30
# The printed radius is widened by this factor, which covers the rounding of the middle and of the radius.
ROUNDED = Decimal("1.2")
MOST_EXPONENT = 8192  # Ends are fractions within 2^±8192: e^(−10¹⁰) is a ball of arb, but no such fraction.


class Undecided(Exception):
    """A comparison whose answer depends on where in their balls the numbers lie."""


def flint() -> ModuleType:
    """python-flint, where it is installed."""
    try:
        import flint as library  # pyright: ignore[reportMissingImports] (an extra)
    except ImportError:
        raise ImportError(
            "certificates need python-flint (not installed): pip install 'python-flint>=0.7' (extra [certified])"
        ) from None
    return library


@dataclass(frozen=True, repr=False)
class Enclosure:
    """A real number between two rational ones.

    Example:
        >>> from fractions import Fraction
        >>> import sgdtheory as st
        >>> third = st.bounds.Enclosure(Fraction(33333, 100000), Fraction(33334, 100000))
        >>> print(third, third.digits)
        0.3333… 4

    Attributes:
        lower: it is at least this, exactly.
        upper: it is at most this, exactly.
    """

    lower: Fraction
    upper: Fraction

    def __repr__(self) -> str:
        return f"Enclosure({self})"

    def __float__(self) -> float:
        """The middle, rounded; infinite beyond what floats hold."""
        return _rounded((self.lower + self.upper) / 2)

    @property
    def width(self) -> float:
        """(upper − lower)/|middle|, its relative width."""
        if self.lower == self.upper:
            return 0.0
        middle = abs(self.lower + self.upper) / 2
        return _rounded((self.upper - self.lower) / middle) if middle else math.inf

    @property
    def digits(self) -> int:
        """⌊−log₁₀ width⌋: how many decimal digits are certain, of 30 at most."""
        certain = -math.log10(self.width) if self.width else math.inf
        return math.floor(min(max(certain, 0), SHOWN_DIGITS))

    def __str__(self) -> str:
        """The digits that both ends begin with, not rounded; the middle ± half of the width where they disagree."""
        number = float(self)
        if self.lower == self.upper and math.isfinite(number) and Fraction(repr(number)) == self.lower:
            return repr(number)
        figures, exponent = self._common()
        if len(figures) < max(self.digits, 1):
            with localcontext(prec=self.digits + 3):
                middle = _decimal((self.lower + self.upper) / 2)
                radius = _decimal((self.upper - self.lower) / 2) * ROUNDED
            return f"{middle} ± {radius:.1e}"
        sign = "-" if self.upper < 0 else ""
        if -5 <= exponent < len(figures):
            before = figures[: exponent + 1] if exponent >= 0 else "0"
            after = figures[exponent + 1 :] if exponent >= 0 else "0" * (-exponent - 1) + figures
            return f"{sign}{before}.{after}…"
        return f"{sign}{figures[0]}.{figures[1:]}…e{exponent}"

    def _common(self) -> tuple[str, int]:
        """Common leading digits, and the power of ten of the first."""
        low, high = sorted((abs(self.lower), abs(self.upper)))
        if self.lower * self.upper <= 0:
            return "", 0
        exponent = _decade(high)
        scale = Fraction(10) ** (SHOWN_DIGITS - 1 - exponent)
        ends = [str(math.floor(end * scale)).rjust(SHOWN_DIGITS, "0") for end in (low, high)]
        common = next((k for k, (x, y) in enumerate(zip(*ends, strict=True)) if x != y), SHOWN_DIGITS)
        return ends[1][:common], exponent


def _rounded(value: Fraction) -> float:
    """The nearest float; infinite beyond them."""
    try:
        return float(value)
    except OverflowError:
        return math.inf if value > 0 else -math.inf


def _decimal(value: Fraction) -> Decimal:
    """Return a decimal with the digits of the context, however small or large: floats would round to 0 or overflow."""
    return Decimal(value.numerator) / value.denominator


def _decade(value: Fraction) -> int:
    """⌊log₁₀ value⌋."""
    bits = value.numerator.bit_length() - value.denominator.bit_length()
    guess = math.floor((bits + 1) * math.log10(2))  # too large by one at most
    return guess if Fraction(10) ** guess <= value else guess - 1


class Ball:
    """A ball of `arb`, or a power series of such, in place of a number in a formula.

    Comparisons that are not certain raise `Undecided`, so that no branch is taken by chance. There is no way back to a
    float: a formula that asks for one fails instead of losing its proof.
    """

    __slots__ = ("value",)
    __hash__ = None  # pyright: ignore[reportAssignmentType] (equality may be undecided)

    def __init__(self, value: Any) -> None:
        self.value = raw(value)

    @property
    def constant(self) -> Any:
        """The ball itself; of a series its first coefficient."""
        return self.value if isinstance(self.value, flint().arb) else self.value[0]

    @property
    def enclosure(self) -> Enclosure:
        """Return the two ends of the ball.

        Raises:
            Undecided: it has none.
        """
        if not self.constant.is_finite():
            raise Undecided("the value is infinite or no number")
        return Enclosure(_fraction(self.constant.lower(), up=False), _fraction(self.constant.upper(), up=True))

    def __array_ufunc__(self, ufunc: Any, method: str, *inputs: Any, **options: Any) -> Any:
        """NumPy's functions go through the methods of the same name; extremes need no comparison."""
        if ufunc.__name__ in EXTREMES and not any(map(np.ndim, inputs)):
            return EXTREMES[ufunc.__name__](*map(Ball, inputs))
        return getattr(ufunc, method)(*map(boxed, inputs), **options)

    def __getitem__(self, index: Any) -> np.ndarray:
        """Index the ball like a NumPy scalar: `[..., None]` adds an axis."""
        return boxed(self)[index]

    def __neg__(self) -> "Ball":
        return Ball(-self.value)

    def __abs__(self) -> "Ball":
        return Ball(abs(self.value))

    def __ceil__(self) -> "Ball":
        return Ball(self.value.ceil())

    def __floor__(self) -> "Ball":
        return Ball(self.value.floor())

    def __pow__(self, power: Any) -> "Ball":
        whole = isinstance(power, int | float) and float(power).is_integer()
        return Ball(self.value ** (int(power) if whole else raw(power)))

    def __rpow__(self, base: Any) -> "Ball":
        return Ball(raw(base)) ** self

    def sqrt(self) -> "Ball":
        """Return the root of the part of the ball that is not below 0: elsewhere the formula is no number at all."""
        if isinstance(self.value, flint().arb) and self.value.upper() >= 0:
            return Ball(self.value.nonnegative_part().sqrt())
        return Ball(self.value.sqrt())

    def clip(self, low: Any, high: Any, **_: Any) -> "Ball":
        """Clip the ball; `np.clip` calls this."""
        return _minimum(_maximum(self, Ball(low)), Ball(high))

    def __getattr__(self, name: str) -> Callable[[], "Ball"]:
        """Log, exp, log1p, …, by NumPy's name, which are also those of arb."""
        if name.startswith("_"):
            raise AttributeError(name)
        function = getattr(self.value, name)
        return lambda: Ball(function())

    def __add__(self, other: Any) -> "Ball":
        return Ball(self.value + raw(other))

    def __radd__(self, other: Any) -> "Ball":
        return Ball(raw(other) + self.value)

    def __sub__(self, other: Any) -> "Ball":
        return Ball(self.value - raw(other))

    def __rsub__(self, other: Any) -> "Ball":
        return Ball(raw(other) - self.value)

    def __mul__(self, other: Any) -> "Ball":
        return Ball(self.value * raw(other))

    def __rmul__(self, other: Any) -> "Ball":
        return Ball(raw(other) * self.value)

    def __truediv__(self, other: Any) -> "Ball":
        return Ball(self.value / raw(other))

    def __rtruediv__(self, other: Any) -> "Ball":
        return Ball(raw(other) / self.value)

    def __lt__(self, other: Any) -> bool:
        return self._decided(operator.lt, operator.ge, other, "<")

    def __le__(self, other: Any) -> bool:
        return self._decided(operator.le, operator.gt, other, "≤")

    def __gt__(self, other: Any) -> bool:
        return self._decided(operator.gt, operator.le, other, ">")

    def __ge__(self, other: Any) -> bool:
        return self._decided(operator.ge, operator.lt, other, "≥")

    def __eq__(self, other: object) -> bool:
        if self is other:
            return not self.constant.is_nan()  # what `x != x` asks
        return self._decided(operator.eq, operator.ne, other, "=")

    def _decided(self, holds: Callable[..., Any], fails: Callable[..., Any], other: Any, sign: str) -> bool:
        here, there = self.constant, Ball(other).constant
        if holds(here, there):
            return True
        if fails(here, there):
            return False
        raise Undecided(f"it cannot be decided whether {here} {sign} {there}")

    def __bool__(self) -> bool:
        return self != 0


def raw(value: Any) -> Any:
    """An arb of a number, taken exactly; arbs, series and what a Ball holds as they are."""
    if isinstance(value, Ball):
        return value.value
    if isinstance(value, np.ndarray):
        return raw(value.item())
    if isinstance(value, np.generic):
        return flint().arb(value.item())
    if isinstance(value, int | float):
        return flint().arb(value)
    return value


def boxed(value: Any) -> np.ndarray:
    """An array of objects, without the unpacking that NumPy tries: what formulas index and reshape."""
    if isinstance(value, np.ndarray):
        return value.astype(object)
    box = np.empty((), dtype=object)
    box[()] = value.item() if isinstance(value, np.generic) else value
    return box


def _fraction(end: Any, *, up: bool) -> Fraction:
    """An end as a fraction; what is smaller than 2^−8192 is rounded outwards."""
    mantissa, exponent = map(int, end.man_exp())
    size = exponent + mantissa.bit_length()
    if size > MOST_EXPONENT:
        raise Undecided(f"the value is beyond 2^{MOST_EXPONENT}")
    if mantissa and size < -MOST_EXPONENT:
        return Fraction((up and mantissa > 0) - (not up and mantissa < 0), 2**MOST_EXPONENT)
    return Fraction(mantissa) * Fraction(2) ** exponent


def _maximum(one: Ball, other: Ball) -> Ball:
    if all(isinstance(each.value, flint().arb) for each in (one, other)):
        return Ball(one.value.max(other.value))
    return one if one - other >= 0 else other


def _minimum(one: Ball, other: Ball) -> Ball:
    return -_maximum(-one, -other)


EXTREMES = {"maximum": _maximum, "minimum": _minimum}
