"""Cost of a batch size at fixed data: L*(B, D) over the least of all batch sizes, which needs no target."""

from dataclasses import dataclass

import numpy as np

from sgdtheory.fits.loss_noise import widened
from sgdtheory.fits.searches import last_crossing
from sgdtheory.fits.steps_measurement import MIN_POINTS
from sgdtheory.fits.tuned_loss import TUNED, LossCurves, TunedLosses, lowest


@dataclass(frozen=True, eq=False)
class Degradation:
    """L*(B, D)/min_B L*(B, D) against B at one D.

    Attributes:
        group, size: of the grid.
        samples: D.
        batch_sizes, ratios: (n,) B, and the loss there over the least.
        intervals: (n, 2) of the ratios; nan where nothing says how losses scatter.
        share: x, by which the loss may be worse.
        batch_size: the largest B within it, on a line in B between two batch sizes; inf where the largest is.
        interval: of it.
        best_batch_size: of the least loss, by a parabola in log B; nan where it is at an end of the batch sizes.
    """

    group: str
    size: float
    samples: float
    batch_sizes: np.ndarray
    ratios: np.ndarray
    intervals: np.ndarray
    share: float
    batch_size: float
    interval: tuple[float, float]
    best_batch_size: float


def degradations(
    tuned: TunedLosses,
    log_losses: np.ndarray,
    others: np.ndarray,
    edges: bool,
    *,
    share: float,
    level: float,
    noisy: bool,
) -> list[Degradation]:
    """One a data size that three batch sizes cover or more, the smallest among them.

    Args:
        tuned: L*(B, D).
        log_losses, others: (1, m, k) log L*; (R + 2, m, k) with other runs and, in the last two, with other edges.
        edges: whether upper bounds count.
        share: x.
        level: of intervals.
        noisy: whether anything is known of how other runs differ.
    """
    usable = tuned.usable(edges)
    curves = [
        [LossCurves(tuned.samples[here], each[:, place, here]) for each in (log_losses, others)] if here.any() else None
        for place, here in enumerate(usable)
    ]
    found = []
    for samples in _data_sizes(tuned, usable):
        columns = {
            place: [curve.log_loss_at(samples) for curve in all_of] for place, all_of in enumerate(curves) if all_of
        }
        places = [place for place, (here, *_) in columns.items() if np.isfinite(here[0])]
        tables = [np.column_stack([columns[place][kind] for place in places]) for kind in range(2)]
        found.append(_degradation(tuned, samples, places, tables, share, level, noisy))
    return found


def _data_sizes(tuned: TunedLosses, usable: np.ndarray) -> list[float]:
    """D of the grid that three batch sizes cover, the smallest among them: at most twelve, evenly in log D.

    Without the smallest, what is lost against the best batch size would be lost against a worse one.
    """
    log_samples, kept = np.log(tuned.samples), []
    spans = [log_samples[here][[0, -1]] for here in usable if here.any()]
    for place in log_samples:
        covered = [low <= place <= high for low, high in spans]
        # Data sizes less than 5% apart count as one, since D = BY is rounded to whole steps.
        if sum(covered) >= MIN_POINTS and covered[0] and not (kept and place - kept[-1] < np.log(1.05)):
            kept.append(place)
    most = 12  # Data sizes of a group: a figure has a curve and a table a row for each.
    if len(kept) > most:
        even = np.linspace(kept[0], kept[-1], most)
        kept = sorted({min(kept, key=lambda each, wanted=wanted: abs(each - wanted)) for wanted in even})
    return [float(tuned.samples[int(np.flatnonzero(log_samples == place)[0])]) for place in kept]


def _degradation(
    tuned: TunedLosses,
    samples: float,
    places: list[int],
    tables: list[np.ndarray],
    share: float,
    level: float,
    noisy: bool,
) -> Degradation:
    batch_sizes, tails = tuned.batch_sizes[places], ((1 - level) / 2, (1 + level) / 2)
    here = tables[0]
    with np.errstate(over="ignore"):  # a draw may be anything where losses scatter by orders of magnitude
        (ratios,), drawn = (np.exp(each - each.min(1, keepdims=True)) for each in tables)
    batch_size, *others = (last_crossing(batch_sizes, each - (1 + share)) for each in (ratios, *drawn))
    others = np.array(others)
    intervals, interval = np.full((ratios.size, 2), np.nan), (float("nan"), float("nan"))
    if noisy:
        noise = np.quantile(drawn[:-2], tails, axis=0, method="closest_observation").T
        ends = np.quantile(others[:-2], tails, method="closest_observation")
        interval = widened(batch_size, [(float(ends[0]), float(ends[1]))], others[-2:])
        each_of = zip(ratios, noise, drawn[-2:].T, strict=True)
        intervals = np.array([widened(ratio, [(low, high)], edge) for ratio, (low, high), edge in each_of]).clip(1.0)
    best = lowest(np.log(batch_sizes), here)
    optimum = float(np.exp(best.log_rate[0])) if best.state[0] == TUNED else float("nan")
    return Degradation(
        tuned.group, tuned.size, samples, batch_sizes, ratios, intervals, share, batch_size, interval, optimum
    )
