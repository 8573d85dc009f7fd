"""Schedules by what a search varies: learning rates and batch sizes at the knots of a run, within their bounds."""

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, NamedTuple

import numpy as np
from scipy.interpolate import PchipInterpolator

from sgdtheory.optimal.newton import Found
from sgdtheory.optimal.run import AbstractRun
from sgdtheory.problems import AbstractProblem
from sgdtheory.risk import stability_edge

Start = Callable[[np.ndarray], np.ndarray]  # γ/edge as a function of t/n

STARTS: dict[str, Start] = {
    "linear decay": lambda u: 0.3 * (1 - u),
    "constant": lambda u: np.full_like(u, 0.5),
    "small": lambda u: np.full_like(u, 0.01),
}
LEAST_SHARE = 1e-6  # Starts have at least this γ/edge, far above the lowest rate that there is: no bound holds them.
# The log of γ/edge, and of a share of the samples over the largest one, is at least this: e⁻⁴⁰ is as good as 0, and
# searches that drift there end.
LEAST = -40.0
# The edge is computed at this many batch sizes a decade, and is right to 1e-7 between them, under WITHIN.
EDGES_PER_DECADE = 256
WITHIN = 2e-7  # Schedules keep this relative distance from the edge, so that interpolation does not pass it.
BELOW_BOUND = 1e-5  # Computed risks may be below their lower bound by this share: panels err by as much.


class Edge:
    """Stability edge γ of real batch sizes, by `1/γ = λ_1/2 + C(B)/B` with C between tabulated values."""

    def __init__(self, problem: AbstractProblem, largest_batch: float) -> None:
        self.half = problem.largest_eigenvalue / 2
        sizes = np.geomspace(1.0, largest_batch, 2 + int(EDGES_PER_DECADE * np.log10(largest_batch)))
        log_sizes = np.log(sizes)
        tiny = 1e-15 * self.half  # below it the excess is rounding
        excess = np.maximum(1 / stability_edge(problem, sizes) - self.half, tiny)
        self.log_excess: Any = PchipInterpolator(log_sizes, np.log(excess))
        keep = np.append(True, np.diff(np.minimum.accumulate(excess)) < 0)
        self.log_batch: Any = PchipInterpolator(-np.log(excess[keep]), log_sizes[keep])

    def at(self, log_batch: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        """Return log γ, and its slope by log B."""
        excess = np.exp(self.log_excess(log_batch))
        inverse = self.half + excess
        return np.log((1 - WITHIN) / inverse), -excess * self.log_excess.derivative()(log_batch) / inverse

    def least_batch(self, log_rate: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        """Return the smallest batch sizes with which γ is stable, at least 1, and their slopes by log γ."""
        inverse = (1 - WITHIN) / np.exp(log_rate)
        excess = np.maximum(inverse - self.half, np.finfo(float).tiny)
        where = -np.log(excess)
        inside = where > self.log_batch.x[0]
        size = np.exp(np.where(inside, self.log_batch(where), 0.0))
        return size, np.where(inside, size * self.log_batch.derivative()(where) * inverse / excess, 0.0)


@dataclass(frozen=True)
class Freedom:
    """Variables of a schedule, and their bounds.

    Attributes:
        edge: of stability, for batch sizes that vary; None if they do not.
        mean_edge: γ of the edge at the mean batch size; without an edge what starts are shares of.
        num_samples: D = Σ B_t.
        mean_batch: D/n, of all steps if the batch size may not vary.
        constant: whether one γ is kept.
        highest: upper bound of log(γ/edge).
        lower_bound: of the risk: what is below is an error of computation.
    """

    edge: Edge | None
    mean_edge: float
    num_samples: float
    mean_batch: float
    constant: bool = False
    highest: float = np.inf
    lower_bound: float = 0.0

    @property
    def ramp(self) -> bool:
        """Return whether batch sizes may vary, which is where their stability edges are tabulated."""
        return self.edge is not None


class _Batches(NamedTuple):
    """`B = floor + free p` with `Σ B_t = D`, `free = D − n floor`, and what derivatives need of it.

    Attributes:
        log_batch: (S, J).
        shares: (S, J) logarithms of p over the largest one.
        floor_slope: (S, 1) of the floor by log γ.
        moves: (S, J) p/B.
        weight: (S, J) derivatives of Σ B_t by log B.
        free: (S, 1).
    """

    log_batch: np.ndarray
    shares: np.ndarray
    floor_slope: np.ndarray
    moves: np.ndarray
    weight: np.ndarray
    free: np.ndarray


class Schedules:
    """The log risk of S schedules, side by side, by what is varied, (S, N).

    What is varied are log(γ/edge) at every knot, or one log γ over the edge of the mean batch, `rates` of them. If the
    batch size varies, the logarithms of shares p of the samples follow: `B_t = floor + (D − n floor) p_t` at the knots,
    with the smallest batch size that is allowed for a floor. So shares have no bound, and batches at the floor go with
    them smoothly. A common factor of all p changes nothing: the largest one is held.
    """

    def __init__(self, freedom: Freedom, run: AbstractRun) -> None:
        self.freedom = freedom
        self.run = run
        self.rates = 1 if freedom.constant else run.knots.size

    def point(self, log_rate: np.ndarray, log_batch: np.ndarray) -> np.ndarray:
        """Return what is varied, (S, N), of log γ and log B at the knots, (S, J) each."""
        rate = (log_rate - self._edge(log_batch)[0])[:, : self.rates]
        if not self.freedom.ramp:
            return rate
        floor = self._floor(rate)[0]
        excess = np.exp(log_batch) - floor
        return np.concatenate([rate, np.log(np.maximum(excess, np.exp(LEAST) * floor))], 1)

    def steps(self, point: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        """Return log γ and log B at the knots, (S, J) each."""
        rates, batches = self._laid_out(point)
        return rates + self._edge(batches.log_batch)[0], batches.log_batch

    def __call__(self, point: np.ndarray) -> Found:
        """Return log R, its slopes, and what bounds hold; where R is not possible inf, with nothing free."""
        free = self.freedom
        rates, batches = self._laid_out(point)
        edge, edge_slope = self._edge(batches.log_batch)
        with np.errstate(all="ignore"):  # a run that diverges is data
            at = self.run.risk_and_gradient(rates + edge, batches.log_batch)
            by_rate = at.rate / at.risk[:, None]
            by_batch = at.batch / at.risk[:, None] + by_rate * edge_slope
            slope, by_shares = self._slopes(batches, by_rate, by_batch)
            value = np.log(at.risk)
        held = (rates >= free.highest) & (slope <= 0) | (rates <= LEAST) & (slope >= 0)
        point = rates
        if free.ramp:
            point = np.concatenate([point, batches.shares], 1)
            slope = np.concatenate([slope, by_shares], 1)
            largest = np.arange(by_shares.shape[1]) == batches.shares.argmax(1)[:, None]
            held = np.concatenate([held, largest], 1)
        possible = (at.risk > free.lower_bound * (1 - BELOW_BOUND)) & np.isfinite(value) & np.isfinite(slope).all(1)
        value = np.where(possible, value, np.inf)
        return Found(point, value, np.where(possible[:, None], slope, 0.0), held | ~possible[:, None])

    def _laid_out(self, point: np.ndarray) -> tuple[np.ndarray, _Batches]:
        """Return what stands for learning rates within its bounds, and the batches."""
        rates = np.clip(point[:, : self.rates], LEAST, self.freedom.highest)
        shape = (len(point), self.run.knots.size)
        if not self.freedom.ramp:
            same = np.full(shape, np.log(self.freedom.mean_batch))
            return rates, _Batches(same, *np.zeros((5, *shape)))
        return rates, self._shared_out(point[:, self.rates :], *self._floor(rates))

    def _edge(self, log_batch: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        """Return the log of the edge that γ is varied in shares of, and its slope by log B."""
        if self.freedom.edge is None or self.freedom.constant:
            return np.full(log_batch.shape, np.log(self.freedom.mean_edge)), np.zeros(log_batch.shape)
        return self.freedom.edge.at(log_batch)

    def _floor(self, rates: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        """Return the smallest batch size, and its slope by log γ, (S, 1) each."""
        if not self.freedom.constant or self.freedom.edge is None:
            return np.ones((len(rates), 1)), np.zeros((len(rates), 1))
        floor, slope = self.freedom.edge.least_batch(rates + np.log(self.freedom.mean_edge))
        return np.minimum(floor, self.freedom.mean_batch), slope

    def _shared_out(self, shares: np.ndarray, floor: np.ndarray, floor_slope: np.ndarray) -> _Batches:
        """Return batches that add up to D."""
        shares = np.maximum(shares - shares.max(1, keepdims=True), LEAST)
        samples = self.freedom.num_samples
        free = np.maximum(samples - self.run.num_steps * floor, 0.0)
        # With a knot at every step this is the answer. Elsewhere log B, not the log of the excess over the floor, is
        # linear between knots: Newton's steps for the logarithm of the sum of the excess follow.
        shift = -np.log(self.run.num_samples(shares)[0][:, None])
        share = batch = weight = shares
        for _ in range(60):
            share = np.exp(shares + shift)
            batch = floor + free * share
            total, weight = self.run.num_samples(np.log(batch))
            beyond = total[:, None] - samples
            if (np.abs(beyond) < 1e-12 * samples).all():
                break
            slope = np.maximum(free * (weight * share / batch).sum(1, keepdims=True), np.finfo(float).tiny)
            ratio = np.maximum(1 + beyond / np.maximum(free, np.finfo(float).tiny), 1e-3)
            shift = shift - np.clip(np.log(ratio) * ratio * free / slope, -3.0, 3.0)
        return _Batches(np.log(batch), shares, floor_slope, share / batch, weight, free)

    def _slopes(self, at: _Batches, by_rate: np.ndarray, by_batch: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        """Return slopes by the rates and the shares, from those by log γ and log B, at constant Σ B_t."""
        if self.freedom.constant:
            by_rate = by_rate.sum(1, keepdims=True)
        if not self.freedom.ramp:
            return by_rate, by_batch
        # What a sample is worth where it is shared out like p, by the derivative of Σ B_t.
        worth = (at.moves * by_batch).sum(1, keepdims=True) / (at.moves * at.weight).sum(1, keepdims=True)
        gain = by_batch - worth * at.weight
        by_floor = (gain / np.exp(at.log_batch)).sum(1, keepdims=True)
        return by_rate + at.floor_slope * by_floor, at.free * at.moves * gain
