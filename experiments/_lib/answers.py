"""Verdicts of an interval about a claim, and of several answers together."""

from collections.abc import Sequence

from experiments._lib.results import VerdictName


def inside(interval: tuple[float, float], low: float, high: float) -> VerdictName:
    """Return "holds" if the value's interval lies in low … high, "fails" if outside; nan is neither."""
    if low <= interval[0] and interval[1] <= high:
        return "holds"
    return "fails" if interval[1] < low or interval[0] > high else "inconclusive"


def worst(verdicts: Sequence[VerdictName]) -> VerdictName:
    """Return the verdict on several cases of one claim: "holds" if all do, "fails" if one does."""
    order: tuple[VerdictName, ...] = "fails", "inconclusive", "holds"
    return next(name for name in order if name in verdicts)
