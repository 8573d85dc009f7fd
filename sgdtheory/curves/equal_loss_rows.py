"""Rows of loss curves to compare across batch sizes: at each the best learning rate, averaged in cells."""

from collections.abc import Sequence
from typing import NamedTuple

import numpy as np

from sgdtheory.curves.loss_curve import LossCurve

CELLS = 32  # A run is averaged in this many cells of log samples, which resolve a factor of ten in samples.
REACH = 10.0  # Rows before a tenth of a run are left out: B* changes along a run, and the question is about its end.
FEWEST_CELLS = 6  # A run with fewer usable rows does not determine its own scatter.
FAR_OFF = 6.0  # Rows that lie so many robust standard deviations from the median of their cell are spikes.
STANDARD_ERRORS = 3.0  # A difference of losses below so many standard errors is scatter.
LAST = 0.1  # Learning rates are compared by the mean loss over this last part of the steps that all runs have.
UNTUNED, AT_END, TUNED = 0, 1, 2


class ComparedRows(NamedTuple):
    """Cells of the runs that are compared, (N,) each unless another shape is stated.

    Attributes:
        log_samples: log of the samples seen.
        loss: mean loss.
        learning_rate: mean learning rate, relative to the largest of the run.
        log_batch: log B.
        count: rows in the cell.
        variance: variance of a single row, from second differences along the run.
        run: index of the run.
        size: index of the batch size.
        batch_sizes: (J,) batch sizes, increasing.
        tuning: (J,) UNTUNED where one learning rate was tried; AT_END where the best of several is the smallest or the
            largest, below the cap, and the loss still falls towards it; otherwise TUNED.
    """

    log_samples: np.ndarray
    loss: np.ndarray
    learning_rate: np.ndarray
    log_batch: np.ndarray
    count: np.ndarray
    variance: np.ndarray
    run: np.ndarray
    size: np.ndarray
    batch_sizes: np.ndarray
    tuning: np.ndarray


def compared_rows(curves: Sequence[LossCurve], max_learning_rate: float = np.inf) -> ComparedRows | None:
    """Return the rows to compare: at each batch size the runs at the best learning rate; None if there are none.

    Runs whose batch size changes, and runs above `max_learning_rate`, are left out.
    """
    groups: dict[float, list[LossCurve]] = {}
    for curve in curves:
        if curve.batch_size is None or np.ptp(curve.batch_size) > 0 or _peak(curve) > max_learning_rate * (1 + 1e-9):
            continue
        if _used(curve).sum() >= FEWEST_CELLS:
            groups.setdefault(float(curve.batch_size[0]), []).append(curve)
    if not groups:
        return None
    top = max(_peak(curve) for group in groups.values() for curve in group)
    sizes = sorted(groups)
    best = [_best_rate(groups[size], top) for size in sizes]
    parts, number = [], 0
    for index, (runs, _) in enumerate(best):
        for curve in runs:
            cells = _cells(curve)
            labels = np.broadcast_to([[number], [index]], (2, cells.shape[1]))
            parts.append(np.concatenate([cells, labels]))
            number += 1
    log_samples, loss, rate, log_batch, count, variance, run, size = np.concatenate(parts, axis=1)
    kinds = np.array([kind for _, kind in best])
    indices = run.astype(int), size.astype(int)
    return ComparedRows(log_samples, loss, rate, log_batch, count, variance, *indices, np.array(sizes), kinds)


def _peak(curve: LossCurve) -> float:
    return float(curve.learning_rate.max())


def _used(curve: LossCurve) -> np.ndarray:
    """(K,) whether a row is compared: late in the run, and well after the warm-up."""
    return (curve.step >= curve.step[-1] / REACH) & (curve.step >= 2 * curve.warmup) & (curve.step > 0)


def _best_rate(group: Sequence[LossCurve], top: float) -> tuple[list[LossCurve], int]:
    """Return the runs at the learning rate of least loss, and how that rate was chosen."""
    peaks = np.unique([_peak(curve) for curve in group])
    if peaks.size == 1:
        return list(group), UNTUNED
    end = min(curve.step[-1] for curve in group)
    late = [np.array([_late(curve, end) for curve in group if _peak(curve) == peak]).mean(0) for peak in peaks]
    best = int(np.argmin([loss for loss, _ in late]))
    # A loss that is least at an end of the rates tried would go on falling beyond it, unless it hardly changes there.
    beside = best + 1 if best == 0 else best - 1
    falls = late[beside][0] - late[best][0] > STANDARD_ERRORS * np.hypot(late[beside][1], late[best][1])
    is_cap = best == peaks.size - 1 and peaks[best] >= top * (1 - 1e-9)
    at_end = best in (0, peaks.size - 1) and not is_cap and falls
    return [curve for curve in group if _peak(curve) == peaks[best]], AT_END if at_end else TUNED


def _late(curve: LossCurve, end: float) -> tuple[float, float]:
    """Return the mean loss over the last steps before `end`, and its standard error.

    The error is that of means over blocks of half as many rows, so that rows may be correlated within a block.
    """
    late = curve.loss[(curve.step <= end) & (curve.step >= (1 - LAST) * end)]
    if not late.size:
        return np.inf, 0.0
    size = max(late.size // 2, 1)
    blocks = curve.loss[curve.loss.size % size :].reshape(-1, size).mean(1)
    return float(late.mean()), _deviation(blocks) / np.sqrt(late.size / size)


def _deviation(loss: np.ndarray) -> float:
    """Return the standard deviation of a row: a second difference of independent rows has six times their variance."""
    if loss.size < 3:
        return 0.0
    return 1.4826 * float(np.median(np.abs(np.diff(loss, n=2)))) / np.sqrt(6)


def _cells(curve: LossCurve) -> np.ndarray:
    """(6, cells): log samples, loss, relative learning rate, log B, count, and the variance of a single row."""
    used = _used(curve)
    batch = float(curve.batch_size[0])
    log_samples = np.log(curve.step[used] * batch)
    loss, rate = curve.loss[used], curve.learning_rate[used] / max(_peak(curve), 1e-300)
    deviation = _deviation(loss)
    width = max((log_samples[-1] - log_samples[0]) / CELLS, 1e-9)
    place = np.minimum(((log_samples - log_samples[0]) / width).astype(int), CELLS - 1)
    found = []
    for number in np.unique(place):
        inside = place == number
        away = np.abs(loss - np.median(loss[inside]))
        spread = max(1.4826 * float(np.median(away[inside])), deviation, 1e-12)
        inside &= away <= FAR_OFF * spread
        means = [column[inside].mean() for column in (log_samples, loss, rate)]
        found.append([*means, np.log(batch), inside.sum(), deviation**2])
    return np.array(found).T
