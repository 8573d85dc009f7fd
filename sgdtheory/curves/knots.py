"""Of a log with a row every few steps, those at which its loss is computed; the others lie on a line between them."""

from collections.abc import Sequence
from dataclasses import replace
from typing import NamedTuple

import numpy as np

from sgdtheory.curves.loss_curve import LossCurve

MOST_ROWS = 200  # up to which every row is a knot
APART = 0.02  # of the steps done since the last jump, and of the learning rate, between knots: log loss is off by 1e-4
BENT = 0.002  # of the learning rate: by how much its change from row to row may change where it does not bend


class Knots(NamedTuple):
    """Of one curve with N rows.

    Attributes:
        curve: its rows that are knots.
        left: (N,) of each row, the place of the knot before it, the last but one at most.
        share: (N,) how far it lies on the way to the next knot, in log t.
    """

    curve: LossCurve
    left: np.ndarray
    share: np.ndarray

    def at_rows(self, losses: np.ndarray) -> np.ndarray:
        """(Q, N) loss at all rows, from that at the knots: on a line in log loss against log t."""
        if self.share.size == losses.shape[-1]:
            return losses
        with np.errstate(divide="ignore", invalid="ignore"):
            logs = np.log(losses)
            between = np.exp(logs[:, self.left] * (1 - self.share) + logs[:, self.left + 1] * self.share)
        return np.where(np.isfinite(between), between, losses[:, self.left + 1])


def knots_of(curves: Sequence[LossCurve]) -> list[Knots]:
    """Of each curve: all rows if they are few."""
    return [_knots(curve) for curve in curves]


def _knots(curve: LossCurve) -> Knots:
    kept = _kept(curve)
    place = np.flatnonzero(kept)
    log_step = np.log(np.maximum(curve.step, 1.0))
    left = np.clip(np.searchsorted(place, np.arange(curve.step.size), "right") - 1, 0, max(place.size - 2, 0))
    after = np.minimum(left + 1, place.size - 1)
    width = log_step[place[after]] - log_step[place[left]]
    share = np.where(width > 0, (log_step - log_step[place[left]]) / np.where(width > 0, width, 1.0), 0.0)
    if kept.all():
        return Knots(curve, left, share)
    batch = curve.batch_size if curve.batch_size is None else curve.batch_size[kept]
    tokens = curve.tokens if curve.tokens is None else curve.tokens[kept]
    columns = {"step": curve.step[kept], "learning_rate": curve.learning_rate[kept], "loss": curve.loss[kept]}
    return Knots(replace(curve, **columns, batch_size=batch, tokens=tokens), left, share)


def _kept(curve: LossCurve) -> np.ndarray:
    """(N,) whether a row is a knot: the ends, rows far from the knot before, and both sides of every jump."""
    step = curve.step
    kept = np.ones(step.size, dtype=bool)
    if step.size <= MOST_ROWS:
        return kept
    kept[1:-1] = False
    rate = curve.learning_rate
    batch = np.ones(step.size) if curve.batch_size is None else curve.batch_size
    slope = np.diff(rate, prepend=rate[0]) / np.diff(step, prepend=step[0] - 1)
    bend = np.abs(np.diff(slope, prepend=0.0)) * np.diff(step, prepend=step[0] - 1) > BENT * rate
    last = 0
    begun = 0.0  # the step of the last jump or bend: after it losses change in as many steps as have passed since
    for row in range(1, step.size):
        if bend[row] or _far(rate[row], rate[row - 1]) or batch[row] != batch[row - 1]:
            begun = step[row - 1]
            kept[row - 1] = True
        if _far(rate[row], rate[last]) or step[row] - begun > (1 + APART) * max(step[last] - begun, 0.0):
            kept[row] = True
            last = row
    return kept


def _far(rate: float, other: float) -> bool:
    return abs(rate - other) > APART * max(rate, other)
