"""Change of the best learning rate with the batch size in theory, at a fixed number of samples.

`data/best_rates.json`, made by `python -m benchmarks.advice --curves`, has γ*(B) of `st.optimal_learning_rate` on six
problems, below, between and above the boundaries of Corollary 8, for SGD (exact), signs and Adam (deterministic
equivalents, THEORY.md T37 and T38). Against B/B* they say what a change of B does to γ*; the scatter over problems is
what theory leaves open for a problem that is not known.
"""

import functools
import json
from importlib.resources import files
from typing import NamedTuple

import numpy as np

from sgdtheory.advice.row import Estimate

SLOPES = {"sgd": 1.0, "sign": 0.5, "adam": 0.5}  # γ* ∝ B^slope holds while noise dominates (T5; T37, T38).


class RateCurve(NamedTuple):
    """γ* of one problem.

    Attributes:
        log_batch: (n,) log of B/B*.
        log_rate: (n,) log of γ*.
        slope: while noise dominates.
    """

    log_batch: np.ndarray
    log_rate: np.ndarray
    slope: float

    def at(self, log_batch: float) -> float:
        """log γ*, linear in logs, beyond the curve with the slope of noise or the last one."""
        x = self.log_batch
        y = self.log_rate
        if log_batch < x[0]:
            return float(y[0] + self.slope * (log_batch - x[0]))
        if log_batch > x[-1]:
            return float(y[-1] + (y[-1] - y[-2]) / (x[-1] - x[-2]) * (log_batch - x[-1]))
        return float(np.interp(log_batch, x, y))

    def change(self, start: float, end: float) -> float:
        """log of γ* at B = e^end B* over that at e^start B*."""
        return self.at(end) - self.at(start)


@functools.cache
def rate_curves(family: str) -> tuple[RateCurve, ...]:
    """The curves of "sgd", "sign" or "adam"."""
    text = (files("sgdtheory.advice") / "data" / "best_rates.json").read_text()
    return tuple(
        RateCurve(
            np.log(np.array(each["batch_sizes"]) / each["critical_batch_size"]),
            np.log(each["learning_rates"]),
            SLOPES[family],
        )
        for each in json.loads(text)
        if each["optimizer"] == family
    )


def factor_at(family: str, old: float, new: float) -> Estimate:
    """γ*(new)/γ*(old), batch sizes in units of B*: median and range over the problems."""
    changes = [curve.change(np.log(old), np.log(new)) for curve in rate_curves(family)]
    return Estimate(float(np.exp(np.median(changes))), float(np.exp(min(changes))), float(np.exp(max(changes))))


def factor_range(
    family: str, old: float, new: float, least: float = 0.0, largest: float = np.inf
) -> tuple[float, float]:
    """Least and largest γ*(new)/γ*(old) over the problems and over all B* from `least` to `largest`.

    Along a curve the change of log γ* is linear in log B* but where one of the two batch sizes is at a point of the
    curve, and constant where both lie beyond the same end: its extremes are there, or at the ends of the range of B*.

    Args:
        family: "sgd", "sign" or "adam".
        old, new: batch sizes.
        least, largest: ends of the range of B*; 0 and inf where it is not limited.
    """
    start = np.log(old)
    end = np.log(new)
    with np.errstate(divide="ignore"):
        limits = np.log([least, largest])
    changes = []
    for curve in rate_curves(family):
        points = np.concatenate([start - curve.log_batch, end - curve.log_batch])
        ends = np.clip(limits, points.min() - 1, points.max() + 1)
        inside = points[(points > ends[0]) & (points < ends[1])]
        changes += [curve.change(start - size, end - size) for size in (*ends, *inside)]
    return float(np.exp(min(changes))), float(np.exp(max(changes)))
