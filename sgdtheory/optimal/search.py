"""The learning rates and batch sizes at the knots of a run that leave the least risk."""

from collections.abc import Callable
from typing import Any, NamedTuple

import numpy as np
from scipy.interpolate import PchipInterpolator
from scipy.optimize import minimize

from sgdtheory.optimal.newton import Found, minimum
from sgdtheory.optimal.run import Run, place, spread_knots
from sgdtheory.theory import Average, LastIterate, Problem, stability_edge

SPACINGS = 2.8, 1.4, 0.7, 0.35  # of the knots, in `place`: each search begins where one on fewer knots has ended
EVERY_STEP = 64  # up to so many steps each is a knot in the end
LEAST_SHARE = 1e-6  # of the edge, to begin with
FIRST_CHANGE = 1e-7  # relative, of the risk: the first search, on the fewest knots, ends when a step brings no more
ROUGH_GAIN, FINE_GAIN = 1e-7, 1e-11  # likewise: the others, and the last one, end when a step promises no more
MOST_ITERATIONS, REMEMBERED = 600, 40  # of a search on few knots; steps from which it learns the curvature
NEAR_GAIN = 1e-6  # likewise, where many optima are looked for, each from the one before
BELOW_EDGE = 35.0  # of log γ: as far below the stability edge as a learning rate may lie; as good as 0
FIRST_BELOW_EDGE = 14.0  # likewise in the first search, whose few knots lie wide apart
FAR = 1e-40  # of λ_1: what lies beyond is counted as if it were never learnt
NARROW = 0.2  # of a panel in `place`, to check what a search has found: γ may fall by e^35 from knot to knot
MODES_RESOLVED, MODES_TOLERANCE = 0.5, 1e-6  # nγλ, and the relative error of sums over directions
EDGES_PER_DECADE = 16  # batch sizes at which the stability edge is computed
WITHIN = 1e-6  # relative: of the edge, so that interpolation does not pass it
FARTHEST_BATCH = 40.0  # of log B from 0, before the shift to Σ B_t = D
REFUSED = 1e3  # log risk of what diverges, or is below what is possible
BELOW_BOUND = 1e-5  # relative: by how much a risk that was not computed on narrow panels may be below the bound
LONGEST_SHIFT, MOST_SHIFTS = 3.0, 60  # of log B, and how many, until Σ B_t = D


class Knots(NamedTuple):
    """What a search has found: log γ and log B at the knots, the risk, and the largest slope of its logarithm.

    The risk is computed on narrow panels: a search may end where its own are too wide. It is inf if it is impossible.
    The slope is that by log γ and by log B, Σ B_t = D, where no bound holds them.
    """

    steps: np.ndarray
    log_rate: np.ndarray
    log_batch: np.ndarray
    risk: float
    slope: float


class Edge:
    """The stability edge γ of real batch sizes, by `1/γ = λ_1/2 + C(B)/B` with C between tabulated values."""

    def __init__(self, problem: Problem, largest_batch: float) -> None:
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


def lower_bound(problem: Problem, samples: float) -> float:
    """`Σ_i s_i σ²/(σ² + D s_i)`.

    The moments are those of gradients with independent noise of variance σ² + r_i + P_t ≥ σ² (T2), and with noise σ²
    no linear function of D such gradients is closer to w* than its posterior mean, s_i being the prior variance.
    """
    noise, modes = problem.noise_variance, problem.modes(FAR * problem.largest_eigenvalue)
    if noise == 0:
        return 0.0
    own = np.abs(modes.signal / np.where(modes.multiplicity == 0, 1.0, modes.multiplicity))  # of one direction
    return float((modes.signal * noise / (noise + samples * own)).sum())


class Search:
    """Searches with n steps and, on the whole, D samples.

    Args:
        problem: the problem.
        num_steps: n.
        num_samples: D.
        ramp: whether the batch size may vary; else it is D/n.
        average: what is returned.
        constant: whether the learning rate is constant.
    """

    def __init__(
        self,
        problem: Problem,
        num_steps: float,
        num_samples: float,
        ramp: bool,
        average: Average | LastIterate,
        constant: bool = False,
    ) -> None:
        self.problem, self.num_steps, self.num_samples = problem, num_steps, num_samples
        self.ramp, self.average, self.constant = ramp, average, constant
        self.mean, self.lower_bound = num_samples / num_steps, lower_bound(problem, num_samples)
        self.stable = Edge(problem, num_samples if ramp else max(2.0, 1.1 * self.mean))
        self.edge = float(np.exp(self.stable.at(np.log([self.mean]))[0][0]))  # a constant γ goes no further
        self.modes = problem.modes(MODES_RESOLVED * problem.largest_eigenvalue / (2 * num_steps), MODES_TOLERANCE)

    def begun(self, start: Callable[[np.ndarray], np.ndarray]) -> Knots:
        """The least risk found from γ/edge as a function of t/n, on few knots."""
        steps = spread_knots(self.num_steps, SPACINGS[0])
        share = np.maximum(start((steps + 0.5) / self.num_steps), LEAST_SHARE)
        batch = np.full(steps.size, np.log(self.mean))
        found = self._minimum(steps, np.log(share * self.edge), batch, FIRST_CHANGE, first=True)
        return self.refined(found, SPACINGS[1])

    def near(self, start: Callable[[np.ndarray], np.ndarray]) -> Knots:
        """The least risk found from a γ/edge that is close to the best one already, on `SPACINGS[2]` or every step."""
        steps = self._knots(SPACINGS[3 if self.num_steps <= EVERY_STEP else 2])
        share = np.clip(start(steps / self.num_steps), LEAST_SHARE, 1.0)
        batch = np.full(steps.size, np.log(self.mean))
        return self._minimum(steps, np.log(share * self.edge), batch, NEAR_GAIN, first=True)

    def finished(self, found: Knots) -> tuple[Knots, Knots]:
        """From what was found to the end: with half the knots, and with all."""
        half = self.refined(found, SPACINGS[2])
        return half, self.refined(half, SPACINGS[3], FINE_GAIN)

    def refined(self, found: Knots, spacing: float, gain: float = ROUGH_GAIN) -> Knots:
        """From what was found, on other knots."""
        steps = self._knots(spacing)
        where, known = place(steps, self.num_steps), place(found.steps, self.num_steps)
        rate, batch = (np.interp(where, known, each) for each in (found.log_rate, found.log_batch))
        return self._minimum(steps, rate, batch, gain)

    def _knots(self, spacing: float) -> np.ndarray:
        every = spacing == SPACINGS[-1] and self.num_steps <= EVERY_STEP
        return np.arange(self.num_steps) if every else spread_knots(self.num_steps, spacing)

    def _minimum(
        self, steps: np.ndarray, log_rate: np.ndarray, log_batch: np.ndarray, gain: float, *, first: bool = False
    ) -> Knots:
        run = Run(self.modes, self.problem.noise_variance, self.num_steps, steps, self.average)
        begin = self._point(log_rate, log_batch)
        if first:
            begin = self._first_minimum(run, begin, gain)
        ended = minimum(lambda point: _Schedule(self, run, point).found(), begin, gain)
        last, slope = _Schedule(self, run, ended.point), np.where(ended.held, 0.0, ended.slope)
        narrow = Run(self.modes, run.noise, self.num_steps, steps, self.average, NARROW)
        with np.errstate(all="ignore"):
            risk = narrow.risk_and_gradient(last.log_rate, last.log_batch).risk
        risk = risk if risk > self.lower_bound * (1 - BELOW_BOUND) else np.inf
        return Knots(run.knots, last.log_rate, last.log_batch, risk, float(np.abs(slope).max()))

    def _first_minimum(self, run: Run, begin: np.ndarray, change: float) -> np.ndarray:
        """By L-BFGS. It learns from batches below their bound that a change of theirs changes nothing."""

        def inside(point: np.ndarray) -> tuple[float, np.ndarray]:
            here = _Schedule(self, run, point)
            found = here.found()
            return found.value, np.where(here.raised, 0.0, found.slope)

        number = 1 if self.constant else run.knots.size
        highest = np.log(self.edge) if self.constant else 0.0
        bounds = [(highest - FIRST_BELOW_EDGE, highest)] * number + [(-FARTHEST_BATCH, FARTHEST_BATCH)] * (
            begin.size - number
        )
        options: Any = {"maxiter": MOST_ITERATIONS, "maxcor": REMEMBERED, "ftol": change, "gtol": 1e-10}
        return minimize(inside, begin, jac=True, method="L-BFGS-B", bounds=bounds, options=options).x

    def _point(self, log_rate: np.ndarray, log_batch: np.ndarray) -> np.ndarray:
        """What is varied: log γ, or log(γ/edge) at every knot; and log B, if it varies."""
        rate = log_rate[:1] if self.constant else log_rate - self.stable.at(log_batch)[0]
        return np.concatenate([rate, log_batch]) if self.ramp else rate


class _Schedule:
    """γ and B at the knots, from what is varied.

    Where γ varies log(γ/edge) ≤ 0 and B ≥ 1. Where it does not, B is bounded below by what γ takes to be stable.

    Attributes:
        point: what is varied, brought inside the bounds and to Σ B_t = D.
        raised: (N,) what of it are batches at their bound.
        log_rate, log_batch: (J,) at the knots.
    """

    def __init__(self, search: Search, run: Run, point: np.ndarray) -> None:
        self.search, self.run, knots = search, run, run.knots.size
        self.highest = np.log(search.edge) if search.constant else 0.0
        varied = np.clip(point[: 1 if search.constant else knots], self.highest - BELOW_EDGE, self.highest)
        self.floor, self.floor_slope = search.stable.least_batch(varied[0]) if search.constant else (0.0, 0.0)
        self.point, self.raised = varied, np.zeros(varied.size, bool)
        self.log_batch, self.samples = np.full(knots, np.log(search.mean)), np.zeros(knots)
        if search.ramp:
            self.log_batch, self.samples = self._normalised(point[varied.size :])
            self.point = np.concatenate([varied, self.log_batch])
            self.raised = np.concatenate([self.raised, self.log_batch <= self.floor])
        edge, self.edge_slope = search.stable.at(self.log_batch)
        self.log_rate = np.full(knots, varied[0]) if search.constant else varied + edge

    def _normalised(self, free: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        """`log B = max(floor, free + shift)` with Σ B_t = D, and the derivatives of Σ B_t by log B."""
        shift, free = 0.0, np.clip(free, -FARTHEST_BATCH, FARTHEST_BATCH)
        for _ in range(MOST_SHIFTS):  # Newton's steps for the logarithm of the sum
            batch = np.maximum(free + shift, self.floor)
            total, by_batch = self.run.num_samples(batch)
            weight = by_batch[batch > self.floor].sum()
            excess = np.log(total / self.search.num_samples)
            if abs(excess) < 1e-12 or weight == 0:
                break
            shift -= float(np.clip(excess * total / weight, -LONGEST_SHIFT, LONGEST_SHIFT))
        return batch, by_batch

    def found(self) -> Found:
        """The logarithm of the risk, its slopes by what is varied, and what bounds hold."""
        with np.errstate(all="ignore"):
            at = self.run.risk_and_gradient(self.log_rate, self.log_batch)
        if not (
            at.risk > self.search.lower_bound * (1 - BELOW_BOUND) and np.isfinite([at.risk, *at.rate, *at.batch]).all()
        ):
            return Found(self.point, REFUSED, np.zeros_like(self.point), np.ones(self.point.size, bool))
        by_rate, by_batch = at.rate / at.risk, self._at_constant_samples(at.batch / at.risk, at.rate / at.risk)
        raised = self.raised[self.raised.size - by_batch.size :] if self.search.ramp else np.zeros(by_batch.size, bool)
        if self.search.constant:
            by_rate = np.array([by_rate.sum() + self.floor_slope * by_batch[raised].sum()])
        varied = self.point[: by_rate.size]
        held = (varied >= self.highest) & (by_rate <= 0) | (varied <= self.highest - BELOW_EDGE) & (by_rate >= 0)
        slope = by_rate
        if self.search.ramp:
            slope, held = np.concatenate([slope, by_batch]), np.concatenate([held, raised & (by_batch >= 0)])
        return Found(self.point, float(np.log(at.risk)), slope, held)

    def _at_constant_samples(self, by_batch: np.ndarray, by_rate: np.ndarray) -> np.ndarray:
        """Slopes by log B: edges move with them, and samples cost what they are worth where batches are free."""
        if not self.search.constant:
            by_batch = by_batch + by_rate * self.edge_slope
        free = self.log_batch > self.floor
        return by_batch - self.samples * by_batch[free].sum() / max(self.samples[free].sum(), 1e-300)
