"""The critical batch size of a fitted theory, from one table of risks over steps and learning rates."""

from abc import ABC, abstractmethod
from dataclasses import dataclass
from functools import cached_property
from typing import Any, NamedTuple

import numpy as np
from scipy.interpolate import CubicSpline
from scipy.optimize import brentq

from sgdtheory.algorithms import Shape
from sgdtheory.curves.loss_model import LossModel, in_batches, losses
from sgdtheory.curves.panels import Optimizer, Panels

PANELS = 56  # A run has about this many panels, half of them dense towards its end.
STEPS_APART = 0.2  # Grid points in log n are this far apart.
RATES_APART = 0.2  # Grid points in log γ are this far apart.
FEWEST_STEPS = 8.0  # The table begins at this number of steps: in shorter runs panels no longer stand for steps.
SMALLEST_RATE = 1e-3  # The smallest learning rate of the table is this fraction of the largest.
BATCHES_APART = 1.0  # Adam's grid points in log B are at most this far apart.
BATCHES_BELOW = 64.0  # The smallest batch size of the table is that of the curves over this factor.


@dataclass(frozen=True, eq=False)
class AbstractLossTable(ABC):
    """Risks of runs with one shape of the learning rate, over steps n, learning rates γ and batch sizes B.

    Attributes:
        log_steps: (N,) log n.
        log_rate: (G,) log γ, evenly apart.
    """

    log_steps: np.ndarray
    log_rate: np.ndarray

    @abstractmethod
    def log_risks(self, batch: np.ndarray) -> np.ndarray:
        """(len(batch), G, N) log of the risk, in units of the loss."""

    # Final: what is least, and what it needs.

    def risk(self, batch: np.ndarray) -> np.ndarray:
        """(len(batch), N) least risk over γ ≤ the largest, by a parabola in log γ through the three best."""
        total = self.log_risks(batch)
        best = np.clip(total.argmin(1), 1, self.log_rate.size - 2)[:, None]
        return np.exp(_lowest(*(np.take_along_axis(total, best + shift, 1)[:, 0] for shift in (-1, 0, 1))))

    def optimal_risk(self, samples: float) -> float:
        """`min_B R(D/B, B)`."""
        along = self._along(samples)
        best = int(np.clip(along.argmin(), 1, along.size - 2))
        return float(np.exp(_lowest(*along[best - 1 : best + 2])))

    def _along(self, samples: float) -> np.ndarray:
        """(N,) log of the least risk of D samples in n steps."""
        return np.log(np.diagonal(self.risk(samples / np.exp(self.log_steps))))

    def steps_to(self, risk: float, batch: float) -> float:
        """The fewest n with `R(n, B) ≤ risk`; inf if none of the table."""
        along = np.log(self.risk(np.array([batch]))[0]) - np.log(risk)
        reached = np.flatnonzero(along <= 0)
        if not reached.size:
            return np.inf
        first = int(reached[0])
        if first == 0:
            return float(np.exp(self.log_steps[0]))
        x = self.log_steps[first - 1 : first + 1]
        y = along[first - 1 : first + 1]
        return float(np.exp(x[0] - y[0] * (x[1] - x[0]) / (y[1] - y[0])))

    def critical_batch_size(self, samples: float, overhead: float) -> tuple[float, float]:
        """The largest B with `B f_D(B) ≤ (1 + ω) D` (THEORY.md T12), not rounded, and `R_opt(D)`.

        At most `largest_batch(D)`: B* is that or more then.
        """
        target = self.optimal_risk(samples)
        batches = samples / np.exp(self.log_steps)[::-1]  # increasing
        excess = np.array([self._excess(batch, target, samples, overhead) for batch in batches])
        fine = np.flatnonzero(excess <= 0)
        if not fine.size:
            return float("nan"), target
        last = int(fine[-1])
        if last == batches.size - 1 or not np.isfinite(excess[last + 1]):
            return float(batches[last]), target

        def gap(log_batch: float) -> float:
            return self._excess(float(np.exp(log_batch)), target, samples, overhead)

        low, high = (float(np.log(batches[place])) for place in (last, last + 1))
        root: Any = brentq(gap, low, high, xtol=1e-6)
        return float(np.exp(root)), target

    def largest_batch(self, samples: float) -> float:
        """The largest batch size that is looked at, D over the fewest steps."""
        return float(samples / np.exp(self.log_steps[0]))

    def _excess(self, batch: float, target: float, samples: float, overhead: float) -> float:
        """log of `B f_D(B)` over `(1 + ω) D`."""
        return float(np.log(batch * self.steps_to(target * (1 + 1e-9), batch) / samples) - np.log1p(overhead))


@dataclass(frozen=True, eq=False)
class LossTable(AbstractLossTable):
    """Risks of SGD, `R(n, B, γ) = bias(γ, n) + variance(γ, n)/B`.

    Attributes:
        bias: (G, N), in units of the loss.
        variance: (G, N) at B = 1.
    """

    bias: np.ndarray
    variance: np.ndarray

    def log_risks(self, batch: np.ndarray) -> np.ndarray:
        """Return the log of bias plus variance over B."""
        return np.log(self.bias + self.variance / batch[:, None, None])


@dataclass(frozen=True, eq=False)
class AdaptiveLossTable(AbstractLossTable):
    """Risks of Adam, whose steps depend on the batch size and on the risk; between batch sizes cubic in log B.

    Attributes:
        log_batch: (A,) log B.
        log_risk: (A, G, N), in units of the loss.
    """

    log_batch: np.ndarray
    log_risk: np.ndarray

    def log_risks(self, batch: np.ndarray) -> np.ndarray:
        """Return the values of the spline."""
        return self._spline(np.log(batch))

    @cached_property
    def _spline(self) -> CubicSpline:
        return CubicSpline(self.log_batch, self.log_risk)


def _lowest(low: np.ndarray, middle: np.ndarray, high: np.ndarray) -> np.ndarray:
    """Return the minimum of the parabola through three equidistant values, or the least of them if it has none."""
    bend = low - 2 * middle + high
    inside = (bend > 0) & (middle <= np.minimum(low, high)) & np.isfinite(bend)
    with np.errstate(invalid="ignore"):
        least = middle - (high - low) ** 2 / (8 * np.maximum(bend, 1e-300))
    return np.where(inside, least, np.minimum(np.minimum(low, high), middle))


def most_steps(samples: float, batch: float) -> float:
    """Return the largest number of steps in a table."""
    return max(BATCHES_BELOW * samples / batch, 10 * FEWEST_STEPS)


def loss_tables(
    model: LossModel, optimizer: Optimizer, shape: Shape, samples: float, batch: float, top: float
) -> list[AbstractLossTable]:
    """Return the table of each candidate.

    Args:
        model: Q candidates.
        optimizer: of the curves.
        shape: of the learning rate, of the theory's schedules.
        samples: D, in the unit of `batch`.
        batch: that of the curves, about which batch sizes are looked at.
        top: largest learning rate.
    """
    log_steps = np.arange(np.log(FEWEST_STEPS), np.log(most_steps(samples, batch)) + STEPS_APART, STEPS_APART)
    log_rate = np.log(top) + np.arange(np.log(SMALLEST_RATE), RATES_APART / 2, RATES_APART)
    log_rate = log_rate - log_rate[-1] + np.log(top)
    runs = Runs(log_steps, log_rate, *_in_panels(shape))
    model = _without_floor(model)
    if not optimizer.adaptive:
        return _plain_tables(runs, model, optimizer)
    fewest = np.log(samples) - log_steps[-1]
    most = np.log(samples) - log_steps[0]
    log_batch = np.linspace(fewest, most, int(np.ceil((most - fewest) / BATCHES_APART)) + 1)
    risks = [_adaptive_risks(runs, model, optimizer, float(each)) for each in np.exp(log_batch)]
    return [AdaptiveLossTable(log_steps, log_rate, log_batch, each) for each in np.log(risks).swapaxes(0, 1)]


def _without_floor(model: LossModel) -> LossModel:
    return model._replace(floor=np.zeros_like(model.floor))


class Runs(NamedTuple):
    """Runs of a table: (N,) log n, (G,) log γ; (M,) each panel's share of the steps, rate over γ, and its change."""

    log_steps: np.ndarray
    log_rate: np.ndarray
    share: np.ndarray
    factor: np.ndarray
    change: np.ndarray

    def losses(self, model: LossModel, optimizer: Optimizer, batch: float) -> np.ndarray:
        """(Q, G, N) at the ends of runs at a batch size, nan where it is not known."""
        steps = np.exp(self.log_steps)[:, None] * self.share
        found = np.empty((model.signal.size, self.log_rate.size, self.log_steps.size))
        for g, rate in enumerate(np.exp(self.log_rate)):
            panels = Panels(
                steps,
                np.broadcast_to(rate * self.factor, steps.shape),
                np.broadcast_to(self.change, steps.shape),
                np.full(steps.shape, batch),
                (),
            )
            found[:, g] = losses(model, panels, optimizer)[:, :, -1]
        return found


def _in_panels(shape: Shape) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Return each panel's share of the steps, its rate over the peak rate, and the relative rise of the rate in it."""
    late = 1 - np.geomspace(1, 1e-4, PANELS // 2)
    edges = np.unique(np.concatenate([np.linspace(0, 1, PANELS // 2), late, [1.0], np.array(shape.knots())]))
    factor = np.asarray(shape.at((edges[1:] + edges[:-1]) / 2))
    rise = np.asarray(shape.at(edges[1:] - 1e-12)) - np.asarray(shape.at(edges[:-1] + 1e-12))  # jumps are at edges
    return np.diff(edges), factor, rise / np.maximum(factor, 1e-300)


def _plain_tables(runs: Runs, model: LossModel, optimizer: Optimizer) -> list[AbstractLossTable]:
    """Return tables of SGD; candidates that differ only in A (∝ bias) and σ² (∝ variance) share their runs.

    A bias at A = 1 and a variance at σ² = B = 1 decay alike: two candidates of signal and noise, one of all else. What
    a step multiplies is left out.
    """
    none = np.zeros_like(model.floor)
    alike, places = np.unique(np.stack(model._replace(signal=none, noise=none)), axis=1, return_inverse=True)
    bias_alone, noise_alone = np.eye(2)
    units = [LossModel(*each)._replace(signal=bias_alone, noise=noise_alone) for each in alike.T[:, :, None]]
    made = [runs.losses(unit, optimizer, np.nan) for unit in units]
    scales = np.stack([model.signal, model.noise], axis=1)[:, :, None, None]
    parts = [scale * made[place] for scale, place in zip(scales, places.ravel(), strict=True)]
    return [LossTable(runs.log_steps, runs.log_rate, *part) for part in parts]


def _adaptive_risks(runs: Runs, model: LossModel, optimizer: Optimizer, batch: float) -> np.ndarray:
    """(Q, G, N) of Adam."""
    if np.isnan(optimizer.batch):
        return runs.losses(in_batches(model, batch, optimizer), optimizer, np.nan)
    return runs.losses(model, optimizer, batch)
