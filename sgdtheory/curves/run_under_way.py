"""A run under way as the law sees it: its rows averaged in cells of log step, and the rows that are ahead."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, NamedTuple

import numpy as np

from sgdtheory.curves.laws.law import AbstractLaw
from sgdtheory.curves.loss_curve import LossCurve
from sgdtheory.curves.panels import jumps
from sgdtheory.curves.robust_fit import observed

CELLS = 48  # A curve is averaged in this many cells of log step. The law bends little in one, and 48 fit 7 parameters.
AHEAD = 24  # The steps ahead are sampled at this many even steps, and at as many that are dense at either end.


class Ahead(NamedTuple):
    """(M,) steps and learning rates of rows that are ahead."""

    step: np.ndarray
    learning_rate: np.ndarray


@dataclass(frozen=True, eq=False)
class Rows:
    """Cells of all curves that were measured, and rows of the last one that are ahead.

    Attributes:
        law: of the losses.
        behind: prepared by the law, of the curves as far as they were measured.
        whole: the same, the last one to its end.
        log_loss: (N,) of the cells.
        log_steps: of each curve, log t of its cells.
        count: (N,) rows in each cell.
        places: of each curve, which of its rows, as prepared, are these cells.
        ahead: of the last curve.
    """

    law: AbstractLaw
    behind: Any
    whole: Any
    log_loss: np.ndarray
    log_steps: list[np.ndarray]
    count: np.ndarray
    places: list[np.ndarray]
    ahead: Ahead

    def predicted(self, coordinates: np.ndarray) -> np.ndarray:
        """(Q, N) log losses of the cells, for coordinates (Q, P)."""
        return self._log(coordinates, self.behind)[0]

    def foretold(self, coordinates: np.ndarray) -> np.ndarray:
        """(Q, M) log losses of the rows ahead."""
        return self._log(coordinates, self.whole)[1]

    def _log(self, coordinates: np.ndarray, prepared: Any) -> tuple[np.ndarray, np.ndarray]:
        with np.errstate(all="ignore"):  # overflow is a result here
            found = self.law.losses(self.law.values(coordinates), prepared)
            measured = [each[:, place] for each, place in zip(found, self.places, strict=True)]
            return np.log(np.concatenate(measured, axis=1)), np.log(found[-1][:, -self.ahead.step.size :])


def rows_of(curves: Sequence[LossCurve], rates: np.ndarray, law: AbstractLaw) -> Rows:
    """Return the rows of checked curves, of which the last one is under way.

    Args:
        curves: what a later one shares with one before it counts once.
        rates: (n,) of all steps of the last one.
        law: that prepares them.
    """
    curves = [after_warmup(curve) for curve in curves]
    kept = observed(curves, law).kept
    groups = [_cells(curve) for curve in curves]
    means = [_averaged(curve, cells) for curve, cells in zip(curves, groups, strict=True)]
    places = [np.flatnonzero([keep[cell].all() for cell in cells]) for keep, cells in zip(kept, groups, strict=True)]
    ahead = _ahead(float(curves[-1].step[-1]), rates)
    pairs = list(zip(means, places, strict=True))
    counts = [np.array([cell.size for cell in cells])[place] for cells, place in zip(groups, places, strict=True)]
    whole = law.prepared([*means[:-1], _joined(means[-1], ahead)])
    return Rows(
        law,
        law.prepared_beside(means, whole),
        whole,
        np.log(np.concatenate([mean.loss[place] for mean, place in pairs])),
        [np.log(np.maximum(mean.step[place], 1.0)) for mean, place in pairs],
        np.concatenate(counts).astype(float),
        places,
        ahead,
    )


def after_warmup(curve: LossCurve) -> LossCurve:
    """Without the rows in which the learning rate rises at first: the first steps of a network are no power law."""
    first = int(np.argmin(np.append(np.diff(curve.learning_rate) > 0, False)))
    if first == 0 or curve.step.size - first < CELLS // 8:
        return curve
    return _part(curve, slice(first, None), float(curve.step[first]))


def _part(curve: LossCurve, rows: slice, warmup: float) -> LossCurve:
    batch = None if curve.batch_size is None else curve.batch_size[rows]
    return LossCurve(
        curve.step[rows],
        curve.learning_rate[rows],
        curve.loss[rows],
        batch,
        warmup=warmup,
        name=curve.name,
        group=curve.group,
    )


def _cells(curve: LossCurve) -> list[np.ndarray]:
    """Rows of each cell: alike in log step; where the learning rate jumps the row with the new one is by itself."""
    log_step = np.log(np.maximum(curve.step, 1.0))
    width = max((log_step[-1] - log_step[0]) / CELLS, 1e-9)
    place = np.minimum((log_step - log_step[0]) / width, CELLS - 1).astype(int)
    jumped = np.append(False, jumps(curve.learning_rate))
    new = np.append(False, np.diff(place) > 0) | jumped | np.append(False, jumped[:-1])
    return np.split(np.arange(log_step.size), np.flatnonzero(new))


def _averaged(curve: LossCurve, cells: list[np.ndarray]) -> LossCurve:
    def mean(values: np.ndarray) -> np.ndarray:
        return np.array([values[cell].mean() for cell in cells])

    batch = None if curve.batch_size is None else mean(curve.batch_size)
    return LossCurve(
        np.round(mean(curve.step)), mean(curve.learning_rate), mean(curve.loss), batch, warmup=curve.warmup
    )


def _ahead(done: float, rates: np.ndarray) -> Ahead:
    """Return the steps ahead of a run after `done` steps: evenly, denser at either end, and on both sides of jumps."""
    last = float(rates.size)
    padded = np.append(rates, rates[-1])
    near = np.geomspace(1, last - done, AHEAD)
    sides = np.flatnonzero(jumps(padded))
    steps = np.concatenate([np.linspace(done + 1, last, AHEAD), done + near, last + 1 - near, sides, sides + 1, [last]])
    steps = np.unique(np.round(steps))
    steps = steps[(steps > done) & (steps <= last)]
    return Ahead(steps, padded[steps.astype(int)])


def _joined(before: LossCurve, ahead: Ahead) -> LossCurve:
    """Return the measured curve with the steps ahead, whose losses are placeholders."""
    batch = None
    if before.batch_size is not None:
        batch = np.append(before.batch_size, np.full(ahead.step.size, before.batch_size[-1]))
    return LossCurve(
        np.append(before.step, ahead.step),
        np.append(before.learning_rate, ahead.learning_rate),
        np.append(before.loss, np.ones(ahead.step.size)),
        batch,
        warmup=before.warmup,
    )
