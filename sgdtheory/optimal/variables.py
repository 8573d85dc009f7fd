"""What a search varies: γ and B at the knots of a run, within their bounds."""

from dataclasses import dataclass
from typing import Any

import numpy as np
from scipy.interpolate import PchipInterpolator

from sgdtheory.optimal.newton import Found
from sgdtheory.optimal.run import Run
from sgdtheory.problems import AbstractProblem
from sgdtheory.risk import stability_edge

BELOW_EDGE = 35.0  # of log γ: as far below the stability edge as a learning rate may lie; as good as 0
EDGES_PER_DECADE = 256  # batch sizes at which the stability edge is computed
WITHIN = 2e-7  # relative: of the edge, so that interpolation does not pass it
FARTHEST_BATCH = 40.0  # of log B from 0, before the shift to Σ B_t = D
REFUSED = 1e3  # log risk of what diverges, or is below what is possible
BELOW_BOUND = 1e-5  # relative: by how much a risk that was not computed on narrow panels may be below the bound
LONGEST_SHIFT, MOST_SHIFTS = 3.0, 60  # of log B, and how many, until Σ B_t = D


class Edge:
    """The stability edge γ of real batch sizes, by `1/γ = λ_1/2 + C(B)/B` with C between tabulated values."""

    def __init__(self, problem: AbstractProblem, largest_batch: float) -> None:
        self.half = problem.largest_eigenvalue / 2
        sizes = np.geomspace(1.0, largest_batch, 2 + int(EDGES_PER_DECADE * np.log10(largest_batch)))
        log_sizes, excess = np.log(sizes), 1 / stability_edge(problem, sizes) - self.half
        tiny = 1e-15 * self.half  # below it the excess is rounding
        self.log_excess: Any = PchipInterpolator(log_sizes, np.log(np.maximum(excess, tiny)))
        keep = np.append(True, np.diff(np.minimum.accumulate(np.maximum(excess, tiny))) < 0)
        self.log_batch: Any = PchipInterpolator(-np.log(excess[keep]), log_sizes[keep])

    def at(self, log_batch: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        """log γ, and its slope by log B."""
        excess = np.exp(self.log_excess(log_batch))
        inverse = self.half + excess
        return np.log((1 - WITHIN) / inverse), -excess * self.log_excess.derivative()(log_batch) / inverse

    def least_batch(self, log_rate: float) -> tuple[float, float]:
        """log B of the smallest batches with which γ is stable, and its slope by log γ."""
        inverse = (1 - WITHIN) / np.exp(log_rate)
        where = -np.log(inverse - self.half)
        if where <= self.log_batch.x[0]:
            return 0.0, 0.0
        return float(self.log_batch(where)), float(self.log_batch.derivative()(where) * inverse / (inverse - self.half))


@dataclass(frozen=True)
class Freedom:
    """What may vary, and how far.

    Attributes:
        edge: of stability.
        num_samples: D = Σ B_t.
        mean_batch: D/n, of all steps if the batch size may not vary.
        ramp: whether the batch size may vary.
        constant: whether one γ is kept.
        largest_rate: that it may be; edge of the mean batch.
        lower_bound: of the risk: what is below is an error of computation.
    """

    edge: Edge
    num_samples: float
    mean_batch: float
    ramp: bool
    constant: bool
    largest_rate: float
    lower_bound: float

    @property
    def highest(self) -> float:
        """Upper bound of what is varied in the place of γ: log γ, or log(γ/edge) at every knot."""
        return float(np.log(self.largest_rate)) if self.constant else 0.0

    def point(self, log_rate: np.ndarray, log_batch: np.ndarray) -> np.ndarray:
        """What is varied, of γ and B: log γ, or log(γ/edge) at every knot; and log B, if it varies."""
        rate = log_rate[:1] if self.constant else log_rate - self.edge.at(log_batch)[0]
        return np.concatenate([rate, log_batch]) if self.ramp else rate


class Varied:
    """γ and B at the knots, from what is varied.

    Where γ varies log(γ/edge) ≤ 0 and B ≥ 1. Where it does not, B is bounded below by what γ takes to be stable.

    Attributes:
        point: what is varied, brought inside the bounds and to Σ B_t = D.
        raised: (N,) what of it are batches at their bound.
        log_rate, log_batch: (J,) at the knots.
    """

    def __init__(self, freedom: Freedom, run: Run, point: np.ndarray) -> None:
        self.freedom, self.run, knots = freedom, run, run.knots.size
        varied = np.clip(point[: 1 if freedom.constant else knots], freedom.highest - BELOW_EDGE, freedom.highest)
        self.floor, self.floor_slope = freedom.edge.least_batch(varied[0]) if freedom.constant else (0.0, 0.0)
        self.point, self.raised = varied, np.zeros(varied.size, bool)
        self.log_batch, self.samples = np.full(knots, np.log(freedom.mean_batch)), np.zeros(knots)
        if freedom.ramp:
            self.log_batch, self.samples = self._normalised(point[varied.size :])
            self.point = np.concatenate([varied, self.log_batch])
            self.raised = np.concatenate([self.raised, self.log_batch <= self.floor])
        edge, self.edge_slope = freedom.edge.at(self.log_batch)
        self.log_rate = np.full(knots, varied[0]) if freedom.constant else varied + edge

    def _normalised(self, free: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        """`log B = max(floor, free + shift)` with Σ B_t = D, and the derivatives of Σ B_t by log B."""
        shift, free = 0.0, np.clip(free, -FARTHEST_BATCH, FARTHEST_BATCH)
        for _ in range(MOST_SHIFTS):  # Newton's steps for the logarithm of the sum
            batch = np.maximum(free + shift, self.floor)
            total, by_batch = self.run.num_samples(batch)
            weight = by_batch[batch > self.floor].sum()
            excess = np.log(total / self.freedom.num_samples)
            if abs(excess) < 1e-12 or weight == 0:
                break
            shift -= float(np.clip(excess * total / weight, -LONGEST_SHIFT, LONGEST_SHIFT))
        return batch, by_batch

    def found(self) -> Found:
        """The logarithm of the risk, its slopes by what is varied, and what bounds hold."""
        with np.errstate(all="ignore"):
            at = self.run.risk_and_gradient(self.log_rate, self.log_batch)
        if not (
            at.risk > self.freedom.lower_bound * (1 - BELOW_BOUND) and np.isfinite([at.risk, *at.rate, *at.batch]).all()
        ):
            return Found(self.point, REFUSED, np.zeros_like(self.point), np.ones(self.point.size, bool))
        by_rate, by_batch = at.rate / at.risk, self._at_constant_samples(at.batch / at.risk, at.rate / at.risk)
        raised = self.raised[self.raised.size - by_batch.size :] if self.freedom.ramp else np.zeros(by_batch.size, bool)
        if self.freedom.constant:
            by_rate = np.array([by_rate.sum() + self.floor_slope * by_batch[raised].sum()])
        varied = self.point[: by_rate.size]
        held = (varied >= self.freedom.highest) & (by_rate <= 0) | (varied <= self.freedom.highest - BELOW_EDGE) & (
            by_rate >= 0
        )
        slope = by_rate
        if self.freedom.ramp:
            slope, held = np.concatenate([slope, by_batch]), np.concatenate([held, raised & (by_batch >= 0)])
        return Found(self.point, float(np.log(at.risk)), slope, held)

    def _at_constant_samples(self, by_batch: np.ndarray, by_rate: np.ndarray) -> np.ndarray:
        """Slopes by log B: edges move with them, and samples cost what they are worth where batches are free."""
        if not self.freedom.constant:
            by_batch = by_batch + by_rate * self.edge_slope
        free = self.log_batch > self.floor
        return by_batch - self.samples * by_batch[free].sum() / max(self.samples[free].sum(), 1e-300)
