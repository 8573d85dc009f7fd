"""Runs in panels of steps with one learning rate, and the effective learning rate of weights that grow and decay."""

from collections.abc import Sequence
from typing import NamedTuple

import numpy as np

from sgdtheory.curves.loss_curve import LossCurve

FIRST = 24  # The steps before the first row are split at this many even and this many geometric points.
JUMP = 0.2  # A jump of the learning rate is a change of log γ between rows by more than this.
DENSE = 256  # In curves with more rows than this not every row ends a panel.
SUDDEN = 4.0  # A change is sudden if it exceeds its neighbours by more than this factor.
WIDEST = 0.05  # A panel has at most this fraction of the steps before it.
STEEPEST = 0.1  # The learning rate changes by at most this fraction within a panel.


class Optimizer(NamedTuple):
    """The settings of the optimizer that are known.

    Attributes:
        learning_rate: γ̄, that to which others are compared.
        weight_decay: w of AdamW.
        adaptive: whether it divides gradients by their root mean square, as Adam does.
        batch: B̄, that of the curves; nan where it is not known.
    """

    learning_rate: float
    weight_decay: float
    adaptive: bool = False
    batch: float = np.nan


class Panels(NamedTuple):
    """J runs, each in up to M panels, those that are missing with 0 steps.

    Attributes:
        steps: (J, M) how many.
        rate: (J, M) mean learning rate.
        change: (J, M) by how much of its mean the learning rate rises within the panel.
        batch: (J, M) batch size, nan where not known.
        rows: a run's places of its rows among the M + 1 ends of panels; between two ends where a curve has many rows.
    """

    steps: np.ndarray
    rate: np.ndarray
    change: np.ndarray
    batch: np.ndarray
    rows: tuple[np.ndarray, ...]


def panels_of(curves: Sequence[LossCurve]) -> Panels:
    """Panels that end at the rows of each curve, and between them where they are far apart.

    Of a curve with many rows those end panels that are as far apart as panels may be wide.
    """
    parts = [_of_curve(curve) for curve in curves]
    most = max(len(steps) for steps, *_ in parts)

    def padded(which: int) -> np.ndarray:
        return np.array([np.pad(part[which], (0, most - len(part[which])), mode="edge") for part in parts])

    steps = np.array([np.pad(part[0], (0, most - len(part[0]))) for part in parts])
    return Panels(steps, padded(1), padded(2), padded(3), tuple(part[4] for part in parts))


def at_rows(found: np.ndarray, places: np.ndarray) -> np.ndarray:
    """(…, K) of (…, M + 1) at a run's rows, on straight lines in log t between ends of panels."""
    if np.issubdtype(places.dtype, np.integer):
        return found[..., places]
    before = places.astype(int)
    after = np.minimum(before + 1, found.shape[-1] - 1)
    share = places - before
    with np.errstate(invalid="ignore"):  # inf − inf, where a run diverges
        return np.where(share == 0, found[..., before], (1 - share) * found[..., before] + share * found[..., after])


def _of_curve(curve: LossCurve) -> tuple[np.ndarray, ...]:
    every = curve.step
    held = jumps(curve.learning_rate)
    among = _ends_of_panels(curve, held)
    step = curve.step[among]
    rate = curve.learning_rate[among]
    held = held[among[:-1]]  # both rows about a jump are among them
    even = np.linspace(0, step[0], FIRST + 1)
    dense = np.geomspace(1, max(step[0], 1), FIRST)
    before = np.unique(np.round(np.concatenate([even, dense[dense <= step[0]], [min(curve.warmup, step[0])]])))
    edges = [before]
    rates = [_warm(before, curve)]
    rises = [_warm_rise(before, curve)]
    for k in range(step.size - 1):
        slope = 0.0 if held[k] else rate[k + 1] - rate[k]
        change = abs(slope) / max(rate[k], rate[k + 1], 1e-300)
        count = max((step[k + 1] - step[k]) / (WIDEST * max(step[k], 20.0)), change / STEEPEST)
        count = int(min(np.ceil(count), step[k + 1] - step[k]))
        inner = np.unique(np.round(np.linspace(step[k], step[k + 1], count + 1)))
        middle = (inner[1:] + inner[:-1] - 1) / 2  # mean of the steps of a panel
        edges.append(inner[1:])
        rates.append(rate[k] + slope * (middle - step[k]) / (step[k + 1] - step[k]))
        rises.append(slope * np.diff(inner) / (step[k + 1] - step[k]))
    ends = np.concatenate(edges)
    mean = np.concatenate(rates)
    change = np.concatenate(rises) / np.maximum(mean, 1e-300)
    if among.size == every.size:
        places = np.searchsorted(ends, step)
    else:
        places = np.interp(np.log(every + 1), np.log(ends + 1), np.arange(ends.size))
    here = np.clip(np.searchsorted(every, ends[:-1], "right") - 1, 0, None)
    batch = np.nan if curve.batch_size is None else curve.batch_size[here]
    return np.diff(ends), mean, change, np.broadcast_to(batch, ends.size - 1).astype(float), places


def _ends_of_panels(curve: LossCurve, held: np.ndarray) -> np.ndarray:
    """Return the rows that end panels: all where they are few, else those without which a panel would be too wide."""
    step = curve.step
    if step.size <= DENSE:
        return np.arange(step.size)
    changed = np.append(held, False)  # after which losses move as fast as at the start of a run
    if curve.batch_size is not None:
        changed[:-1] |= np.diff(curve.batch_size) != 0
    among = [0]
    begun = 0.0
    for k in range(1, step.size - 1):
        last = among[-1]
        wide = step[k + 1] - step[last] > WIDEST * max(step[last] - begun, 20.0)  # to the next row
        rates = curve.learning_rate[[last, k + 1]]
        steep = np.ptp(rates) > STEEPEST * rates.max()
        if changed[k - 1] or changed[k] or wide or steep:
            among.append(k)
        if changed[k]:
            begun = step[k]
    return np.append(among, step.size - 1)


def _warm(edges: np.ndarray, curve: LossCurve) -> np.ndarray:
    """Learning rates of the panels before the first row."""
    middle = (edges[1:] + edges[:-1]) / 2  # γ_t ∝ t + 1 while it rises
    return curve.learning_rate[0] * (np.minimum(middle / curve.warmup, 1.0) if curve.warmup else np.ones_like(middle))


def _warm_rise(edges: np.ndarray, curve: LossCurve) -> np.ndarray:
    """By how much it rises in each of them."""
    rising = edges[1:] <= curve.warmup
    return np.where(rising, curve.learning_rate[0] * np.diff(edges) / max(curve.warmup, 1.0), 0.0)


def jumps(rate: np.ndarray) -> np.ndarray:
    """(K − 1,) whether the learning rate jumps after a row: by much, by far more than around it, and to stay.

    A smooth decay falls by about as much as its neighbours in γ (linear, cosine) or in log γ (exponential), a smooth
    rise in γ. A decay to 0 falls without bound in log γ, so log γ alone would take its end for a jump. In the last
    interval nothing after it tells the two apart; schedules end in decays, so it is read as one.
    """
    with np.errstate(divide="ignore", invalid="ignore"):
        in_log = np.nan_to_num(np.abs(np.diff(np.log(rate))), nan=0.0, posinf=1e300)
    rises = np.diff(rate) > 0
    found = (in_log > JUMP) & _sudden(np.abs(np.diff(rate))) & (_sudden(in_log) | rises)
    found[-1] = False
    return found


def _sudden(change: np.ndarray) -> np.ndarray:
    """Return whether each change is far larger than those next to it."""
    near = np.maximum(np.append(0.0, change[:-1]), np.append(change[1:], 0.0))
    return change > SUDDEN * near


def weight_norms(panels: Panels, growth: np.ndarray, optimizer: Optimizer) -> np.ndarray:
    """(Q, J, M) squared norm n of the weights in the middle of each panel, 1 at the start.

        n_{t+1} = n_t + g (γ_t/γ̄)² − 2 w γ_t n_t

    Updates of Adam have a size that the gradient does not change: uncorrelated, they add g (γ/γ̄)² to the norm each
    step, and weight decay w takes 2wγ of it. Behind a normalization only directions of weights matter, so what such an
    update does shrinks like γ/√n.

    Args:
        panels: of J runs.
        growth: (Q,) g.
        optimizer: γ̄ and w.
    """
    shrinking = 2 * optimizer.weight_decay * panels.rate
    gain = (panels.rate / optimizer.learning_rate) ** 2
    to_middle, to_end = (_kept_and_gained(share * panels.steps, shrinking, gain) for share in (0.5, 1.0))
    first = np.ones(len(panels.steps))  # the part that is there at the start, and that of g
    grown = np.zeros(len(panels.steps))
    starts = []
    for kept, gained in zip(to_end.kept.T, to_end.gained.T, strict=True):
        starts.append((first, grown))
        first = kept * first
        grown = kept * grown + gained
    first, grown = np.array(starts).transpose(1, 2, 0)
    return to_middle.kept * first + growth[:, None, None] * (to_middle.kept * grown + to_middle.gained)


class NormChange(NamedTuple):
    """(J, M) of each panel: the share of n that is kept, and what g = 1 adds."""

    kept: np.ndarray
    gained: np.ndarray


def _kept_and_gained(steps: np.ndarray, shrinking: np.ndarray, gain: np.ndarray) -> NormChange:
    """`n' = gain − shrinking n` after some steps."""
    shrunk = shrinking * steps
    mean = np.where(shrunk > 1e-9, -np.expm1(-shrunk) / np.maximum(shrunk, 1e-9), 1.0)
    return NormChange(np.exp(-shrunk), gain * steps * mean)
