"""L*(B, D), the loss at the best learning rate: a parabola in log γ about the lowest loss, and where there is none.

`LossCurves` has the data with which it reaches a loss.
"""

from collections.abc import Iterator
from dataclasses import dataclass

import numpy as np
from scipy import interpolate, optimize

from sgdtheory.fits.loss_rows import LossRows
from sgdtheory.fits.searches import bisected

TUNED, BELOW, ABOVE = "tuned", "lowest rate", "highest rate"
CLIFF, SINGLE, DIVERGED, ABSENT = "beside divergence", "one rate", "diverged", ""
MIDDLE = 0.5  # L* is taken at this share of the fall towards a rate that diverged, where it may lie at any share.


@dataclass(frozen=True, eq=False)
class Cell:
    """The runs at one batch size and data size.

    Attributes:
        batch, data: places of B and D among those of the group.
        places: (g,) places of the rates among those of the group.
        log_rates, log_losses: (g,) log γ, increasing, and log of the mean loss over runs, inf if one diverged.
        counts: (g,) runs.
        variances: (g,) of log loss between runs, estimated from them; nan of a single one.
    """

    batch: int
    data: int
    places: np.ndarray
    log_rates: np.ndarray
    log_losses: np.ndarray
    counts: np.ndarray
    variances: np.ndarray

    def margin(self, margins: np.ndarray) -> float:
        """The error of one of its log losses that scatter explains, of those of single runs at each batch size."""
        return float(margins[self.batch] / np.sqrt(self.counts.min()))


@dataclass(frozen=True, eq=False)
class TunedLosses:
    """L*(B, D) = min over γ of the loss, of one group.

    Attributes:
        group: its name, "" where there are no groups.
        size: model size, nan where there is none.
        batch_sizes, samples: (m,) B and (k,) D, increasing.
        loss: (m, k) L*, the parabola's lowest value; where the state is an end of the rates or "one rate" the lowest
            loss measured, an upper bound; nan without runs, inf where all diverged.
        slack: (m, k) by how much log L* may lie above or below; 0 but beside divergence.
        learning_rate: (m, k) the best γ, likewise.
        state: (m, k) "tuned"; "beside divergence" where the loss still falls towards a rate that diverged, or nearly;
            "lowest rate" or "highest rate" where the best is at an end of the rates; "one rate" that did not diverge;
            "diverged"; "".
        cells: the runs behind it.
        seeds: whether points of one run are known as such.
    """

    group: str
    size: float
    batch_sizes: np.ndarray
    samples: np.ndarray
    loss: np.ndarray
    slack: np.ndarray
    learning_rate: np.ndarray
    state: np.ndarray
    cells: tuple[Cell, ...]
    seeds: bool

    @property
    def untuned(self) -> bool:
        """Tell whether no batch size was run at several learning rates."""
        return not np.isin(self.state, (TUNED, BELOW, ABOVE, CLIFF)).any()

    def usable(self, edges: bool) -> np.ndarray:
        """(m, k) which L* go into fits; with `edges` those that are upper bounds too."""
        if edges or self.untuned:
            return np.isfinite(self.loss)
        return np.isin(self.state, (TUNED, CLIFF))


def tuned_losses(rows: LossRows, margins: np.ndarray | None = None) -> TunedLosses:
    """L*(B, D) of a group (THEORY.md T33).

    `margins`, (m,) of each batch size, are errors of the log loss of a single run that scatter explains; None: 0.

    With k the rate of the least loss, a parabola goes through log L at k − 1, k, k + 1 against log γ. Where a neighbour
    of k diverged, or is worse than the rate two further on the other side by more than scatter explains (without one,
    twice as bad as k), k is beside a cliff, which no parabola follows: it goes through k and the two on this side of
    the cliff. If its lowest point lies beyond k, where the cliff begins decides, and L* is known up to what log L falls
    between γ_k and the next rate if slopes go on shrinking by the ratio of the last two: all of it if the lowest point
    lies half a spacing beyond k or more, else in proportion.
    """
    batch_sizes = np.unique(rows.batch_size)
    samples = np.unique(rows.samples)
    shape = batch_sizes.size, samples.size
    loss = np.full(shape, np.nan)
    slack = np.zeros(shape)
    rate = np.full(shape, np.nan)
    state = np.full(shape, ABSENT, dtype=object)
    cells = tuple(_cells(rows, batch_sizes, samples))
    for cell in cells:
        margin = 0.0 if margins is None else cell.margin(margins)
        place = cell.batch, cell.data
        found = lowest(cell.log_rates, cell.log_losses[None], margin)
        loss[place] = np.exp(found.value[0])
        slack[place] = found.fall[0] / 2
        rate[place] = np.exp(found.log_rate[0])
        state[place] = str(found.state[0])
    table = batch_sizes, samples, loss, slack, rate, state.astype(str)
    return TunedLosses(rows.group, rows.size, *table, cells, rows.seeds)


def _cells(rows: LossRows, batch_sizes: np.ndarray, samples: np.ndarray) -> Iterator[Cell]:
    rates = np.unique(rows.learning_rate)
    key = np.stack(
        [
            np.searchsorted(all_of, each)
            for all_of, each in ((batch_sizes, rows.batch_size), (samples, rows.samples), (rates, rows.learning_rate))
        ]
    )
    # Sorted by B, D and γ, the rows of a cell follow each other, and so do the runs at one rate.
    order = np.lexsort(key[::-1])
    key, loss = key[:, order], rows.loss[order]
    starts = np.flatnonzero(np.r_[True, (np.diff(key[:2]) != 0).any(0)])
    for start, end in zip(starts, [*starts[1:], loss.size], strict=True):
        places, first, counts = np.unique(key[2, start:end], return_index=True, return_counts=True)
        runs = np.split(loss[start:end], first[1:])
        means = np.array([each.mean() for each in runs])
        with np.errstate(invalid="ignore"):
            variances = [(each / each.mean()).var(ddof=1) if each.size > 1 else np.nan for each in runs]
        yield Cell(
            int(key[0, start]),
            int(key[1, start]),
            places,
            np.log(rates[places]),
            np.log(means),
            counts,
            np.array(variances),
        )


@dataclass(frozen=True, eq=False)
class Lowest:
    """Least log loss over log γ, of R rows.

    Attributes:
        top: (R,) its upper end.
        fall: (R,) how far below it may lie, 0 where the parabola has its lowest point between rates.
        log_rate: (R,) the best log γ.
        state: (R,) how it was found.
    """

    top: np.ndarray
    fall: np.ndarray
    log_rate: np.ndarray
    state: np.ndarray

    @property
    def value(self) -> np.ndarray:
        """(R,) log L*, in the middle of what it may be."""
        return self.top - MIDDLE * self.fall


def lowest(log_rates: np.ndarray, log_losses: np.ndarray, margin: float = 0.0) -> Lowest:
    """The least of every row of `log_losses`, (R, g), inf of what diverged, over `log_rates`, (g,), increasing.

    Log losses that lie off a parabola by `margin` or less may lie on it but for scatter.
    """
    rows, last = np.arange(len(log_losses)), log_rates.size - 1
    best = log_losses.argmin(1)
    found = Lowest(
        log_losses[rows, best], np.zeros(rows.size), log_rates[best], np.full(rows.size, TUNED, dtype=object)
    )
    found.state[best == 0], found.state[best == last] = BELOW, ABOVE
    near = best[:, None] + np.arange(5)  # k − 2 … k + 2 of the padded arrays; rates beyond are never used
    x = np.pad(log_rates, 2, constant_values=np.nan)[near]
    y = np.pad(log_losses, ((0, 0), (2, 2)), constant_values=np.inf)[rows[:, None], near]
    found.state[np.isinf(y[:, [1, 3]]).all(1)] = SINGLE
    found.state[np.isinf(found.top)] = DIVERGED
    inner = np.flatnonzero(found.state == TUNED)
    if inner.size:
        x, y = x[inner], y[inner]
        found.top[inner], found.fall[inner], found.log_rate[inner], found.state[inner] = _interior(x, y, margin)
    return found


def _interior(x: np.ndarray, y: np.ndarray, margin: float) -> tuple[np.ndarray, np.ndarray, np.ndarray, np.ndarray]:
    """(log L*, its fall, log γ*, state), each (R,), from the lowest and two rates on each side of it, (R, 5)."""
    # The side with the cliff has no part in the parabola. A cliff above counts first: learning rates are limited there.
    above = np.isfinite(y[:, 1]) & _is_cliff(x[:, :4], y[:, :4], margin)
    below = ~above & np.isfinite(y[:, 3]) & _is_cliff(x[:, :0:-1], y[:, :0:-1], margin)
    side = above.astype(int) - below
    window = np.where(side[:, None] == 0, [1, 2, 3], 2 + side[:, None] * [-2, -1, 0])
    rows = np.arange(len(y))
    three = x[rows[:, None], window], y[rows[:, None], window]
    slope, curvature = _parabola(*three, x[:, 2])
    with np.errstate(divide="ignore", invalid="ignore"):
        vertex = np.where(curvature > 0, -slope / (2 * curvature), np.where(slope == 0, 0.0, -np.sign(slope) * np.inf))
    cliff = side * vertex > 0
    inside = np.where(cliff, 0.0, vertex)
    to_next = np.where(cliff, x[rows, 2 + side] - x[:, 2], 0.0)
    past = np.minimum(1.0, 2 * np.abs(vertex) / np.abs(x[:, 2] - x[rows, 2 - side]).clip(1e-300))
    fall = np.where(cliff, past * _further(*three, np.abs(to_next)), 0.0)
    top = y[:, 2] + (slope + curvature * inside) * inside
    return top, fall, x[:, 2] + inside + MIDDLE * to_next, np.where(cliff, CLIFF, TUNED)


def _is_cliff(x: np.ndarray, y: np.ndarray, margin: float) -> np.ndarray:
    """(R,) whether the last of four rates, (R, 4), is past a cliff, where the last but one has the least loss.

    It is where it is worse than the first of them, and lies above a parabola through all four by more than scatter
    explains: where the loss hardly depends on the rate, noise alone makes it a little worse in a half of all cases.
    """
    opposite, least, beside = y[:, 0], y[:, 2], y[:, 3]
    with np.errstate(invalid="ignore", divide="ignore", over="ignore"):
        weights = divided_difference(x)
        above = np.sign(weights[:, 3]) * (weights * y).sum(1) / np.sqrt((weights**2).sum(1))
        alone = ~np.isfinite(y[:, :2]).all(1)
        # Without a rate two further, one whose loss is twice the lowest is past a cliff.
        worse = beside > np.where(np.isinf(opposite), least + np.log(2.0), opposite)
        return np.isinf(beside) | (worse & ((margin == 0) | alone | (above > margin)))


def divided_difference(x: np.ndarray) -> np.ndarray:
    """(…, n) weights of the divided difference of values at n points; with four it is 0 for every parabola."""
    return 1 / (x[..., :, None] - x[..., None, :] + np.eye(x.shape[-1])).prod(-1)


def _further(x: np.ndarray, y: np.ndarray, distance: np.ndarray) -> np.ndarray:
    """(R,) fall over a distance beyond the last of three points, (R, 3), if slopes go on shrinking as they do."""
    with np.errstate(divide="ignore", invalid="ignore"):
        first, second = np.abs(np.diff(y) / np.diff(x)).T
        shrinking = np.where((y[:, 0] > y[:, 1]) & np.isfinite(first), second / first, 1.0)
    return second * distance * np.minimum(shrinking, 1.0)


def _parabola(x: np.ndarray, y: np.ndarray, at: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Slope at a point and curvature of the parabola through three points, (R, 3), of the line through the last two.

    The line takes its place where the first of the three diverged or was not run.
    """
    with np.errstate(invalid="ignore"):
        first, second = (np.diff(y) / np.diff(x)).T
        curvature = (second - first) / (x[:, 2] - x[:, 0])
        slope = second + curvature * (2 * at - x[:, 1] - x[:, 2])
    line = ~np.isfinite(curvature)
    return np.where(line, second, slope), np.where(line, 0.0, curvature)


# ------------------------------------------------------------------ data to a loss


class LossCurves:
    """log L against log D of several curves over the same data sizes, never rising, smooth between them.

    Where noise makes a loss rise with D, neighbours are pooled to their mean (isotonic regression); between data sizes
    log L is a monotone cubic of log D (Fritsch and Carlson's, as SciPy's PCHIP has it).

    Args:
        samples: (k,) D, increasing.
        log_losses: (R, k) finite.
    """

    def __init__(self, samples: np.ndarray, log_losses: np.ndarray) -> None:
        self.log_samples = np.log(samples)
        falling = [bool(each.all()) for each in np.diff(log_losses) <= 0]
        pooled = [
            each if falls else optimize.isotonic_regression(each, increasing=False).x
            for each, falls in zip(log_losses, falling, strict=True)
        ]
        self.knots = np.array(pooled)

    def samples_to(self, log_target: float) -> np.ndarray:
        """(R,) fewest D with log L ≤ `log_target`; nan where the curve does not reach it or begins below."""
        found = np.full(len(self.knots), np.nan)
        rows = np.flatnonzero((self.knots[:, 0] >= log_target) & (self.knots[:, -1] <= log_target))
        if rows.size:
            found[rows] = np.exp(self._solve(rows, log_target))
        return found

    def log_loss_at(self, samples: float) -> np.ndarray:
        """(R,) log L at D; nan outside of the data sizes."""
        place = np.log(samples)
        if not self.log_samples[0] <= place <= self.log_samples[-1]:
            return np.full(len(self.knots), np.nan)
        if place in self.log_samples:
            return self.knots[:, int(np.flatnonzero(self.log_samples == place)[0])]
        return self._cubics(slice(None))(place)

    def _cubics(self, rows: np.ndarray | slice) -> interpolate.PchipInterpolator:
        return interpolate.PchipInterpolator(self.log_samples, self.knots[rows].T)

    def _solve(self, rows: np.ndarray, log_target: float) -> np.ndarray:
        """log D of the crossings of `rows`, by bisection of the cubic around each."""
        first = (self.knots[rows] <= log_target).argmax(1)  # the first data size at or below the target
        if self.log_samples.size == 1:
            return np.full(rows.size, self.log_samples[0])
        piece = np.maximum(first - 1, 0)
        c3, c2, c1, c0 = self._cubics(rows).c[:, piece, np.arange(rows.size)]

        def above(x: np.ndarray) -> np.ndarray:
            return ((c3 * x + c2) * x + c1) * x + c0 > log_target

        # Bisection holds also where the cubic is level at the target, at which its roots are double.
        return self.log_samples[piece] + bisected(above, np.zeros(rows.size), np.diff(self.log_samples)[piece])
