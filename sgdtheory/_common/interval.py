"""A number with its interval."""

from dataclasses import dataclass


@dataclass(frozen=True)
class Interval:
    """A number with its interval.

    Attributes:
        value: of it.
        interval: that contains it; to infinity where it is not resolved.
    """

    value: float
    interval: tuple[float, float]

    def __float__(self) -> float:
        return self.value
