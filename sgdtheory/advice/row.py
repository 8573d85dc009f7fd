"""`AdviceRow`: one setting, what to change it to, and why."""

import math
from typing import NamedTuple


class Estimate(NamedTuple):
    """A number and what it may be.

    Attributes:
        value: the number.
        low, high: the ends of its interval or range; nan where nothing says how far it is known.
    """

    value: float
    low: float
    high: float

    @property
    def least(self) -> float:
        """The lower end, or the number itself where there is no interval."""
        return self.value if math.isnan(self.low) else self.low

    @property
    def most(self) -> float:
        """The upper end, or the number itself where there is no interval."""
        return self.value if math.isnan(self.high) else self.high

    def times(self, factor: float) -> "Estimate":
        """All three multiplied by a positive factor."""
        return Estimate(self.value * factor, self.low * factor, self.high * factor)

    def power(self, exponent: float) -> "Estimate":
        """All three to a power."""
        ends = sorted((self.low**exponent, self.high**exponent))
        return Estimate(self.value**exponent, *ends)


class AdviceRow(NamedTuple):
    """One setting.

    Attributes:
        name: of the setting, as `TrainingSetup` has it; "timescale" for τ of AdamW, a share of the run; "extra_data"
            for the data to the same loss, a share.
        old: value before the change; None: not known.
        new: value to set.
        low, high: an interval where measurements give one, else the range that theory or practice leaves; nan where a
            number rests on a B* that was given without an interval.
        reason: a sentence.
        source: tag of THEORY.md, our finding or paper.
    """

    name: str
    old: float | None
    new: float
    low: float
    high: float
    reason: str
    source: str
