"""The learning rates and batch sizes at the knots of a run that leave the least risk."""

from collections.abc import Callable
from typing import Any, NamedTuple

import numpy as np
from scipy.interpolate import PchipInterpolator
from scipy.optimize import minimize

from sgdtheory.optimal.run import Run, place, spread_knots
from sgdtheory.theory import Average, LastIterate, Problem, stability_edge

SPACINGS = 2.8, 1.4, 0.7, 0.35  # of the knots, in `place`: each search begins where one on fewer knots has ended
EVERY_STEP = 128  # up to so many steps each is a knot in the end
LEAST_SHARE = 1e-12  # of the edge, to begin with
ROUGH_CHANGE, FINE_CHANGE = 1e-8, 1e-11  # relative, of the risk: a search ends when a step brings no more
MOST_ITERATIONS = 600
REMEMBERED = 40  # steps from which the curvature is learnt
BELOW_EDGE = 35.0  # of log γ: as far below the stability edge as a learning rate may lie; as good as 0
MODES_RESOLVED, MODES_TOLERANCE = 0.5, 1e-6  # nγλ, and the relative error of sums over directions
EDGES_PER_DECADE = 16  # batch sizes at which the stability edge is computed
BETWEEN_EDGES = 2e-5  # relative: how far from the edge interpolation may be
REFUSED = 1e3  # log risk of what diverges
LARGEST_BATCH_STEP = 40.0  # of log B
LONGEST_SHIFT, MOST_SHIFTS = 3.0, 60  # of log B, and how many, until Σ B_t = D


class Knots(NamedTuple):
    """What a search has found: log γ and log B at the knots, the risk, and the largest slope of its logarithm."""

    steps: np.ndarray
    log_rate: np.ndarray
    log_batch: np.ndarray
    risk: float
    slope: float


class Search:
    """Searches with n steps and, on the whole, D samples.

    Args:
        problem: the problem.
        num_steps: n.
        num_samples: D.
        ramp: whether the batch size may vary; else it is D/n.
        average: what is returned.
    """

    def __init__(
        self, problem: Problem, num_steps: float, num_samples: float, ramp: bool, average: Average | LastIterate
    ) -> None:
        self.problem, self.num_steps, self.num_samples, self.ramp = problem, num_steps, num_samples, ramp
        self.average = average
        self.mean = num_samples / num_steps
        self.edge = float(stability_edge(problem, np.array([self.mean]))[0])
        largest = float(stability_edge(problem, np.array([num_samples]))[0])
        self.modes = problem.modes(MODES_RESOLVED / (largest * num_steps), MODES_TOLERANCE)
        self._log_edge: Any = lambda log_batch: np.full(log_batch.size, np.log(self.edge))
        self._edge_slope: Any = np.zeros_like
        if ramp:
            sizes = np.geomspace(1.0, num_samples, 2 + int(EDGES_PER_DECADE * np.log10(num_samples)))
            edges = np.log(stability_edge(problem, sizes) * (1 - BETWEEN_EDGES))
            self._log_edge = PchipInterpolator(np.log(sizes), edges)
            self._edge_slope = self._log_edge.derivative()

    def begun(self, start: Callable[[np.ndarray], np.ndarray]) -> Knots:
        """The least risk found from γ/edge as a function of t/n, on few knots."""
        steps = spread_knots(self.num_steps, SPACINGS[0])
        share = np.maximum(start((steps + 0.5) / self.num_steps), LEAST_SHARE)
        batch = np.full(steps.size, np.log(self.mean))
        found = self._minimum(steps, np.log(share * self.edge), batch, ROUGH_CHANGE)
        return self.refined(found, SPACINGS[1], ROUGH_CHANGE)

    def finished(self, found: Knots) -> tuple[Knots, Knots]:
        """From what was found to the end: with half the knots, and with all."""
        half = self.refined(found, SPACINGS[2], ROUGH_CHANGE)
        return half, self.refined(half, SPACINGS[3], FINE_CHANGE)

    def refined(self, found: Knots, spacing: float, change: float) -> Knots:
        """From what was found, on other knots."""
        steps = spread_knots(self.num_steps, spacing)
        if spacing == SPACINGS[-1] and self.num_steps <= EVERY_STEP:
            steps = np.arange(self.num_steps)
        where, known = place(steps, self.num_steps), place(found.steps, self.num_steps)
        rate, batch = (np.interp(where, known, each) for each in (found.log_rate, found.log_batch))
        return self._minimum(steps, rate, batch, change)

    def _minimum(self, steps: np.ndarray, log_rate: np.ndarray, log_batch: np.ndarray, change: float) -> Knots:
        """By L-BFGS in log(γ/edge) ≤ 0 and, with a ramp, log B up to the factor that makes Σ B_t = D."""
        run = Run(self.modes, self.problem.noise_variance, self.num_steps, steps, self.average)
        size = log_rate.size
        below = np.clip(log_rate - self._log_edge(log_batch), -BELOW_EDGE, 0.0)
        begin = np.concatenate([below, log_batch]) if self.ramp else below

        def value(point: np.ndarray) -> tuple[float, np.ndarray]:
            batch, by_knots = self._batches(run, point[size:]) if self.ramp else (log_batch, None)
            with np.errstate(all="ignore"):
                found = run.risk_and_gradient(point[:size] + self._log_edge(batch), batch)
            if not (found.risk > 0 and np.isfinite([found.risk, *found.rate, *found.batch]).all()):
                return REFUSED, np.zeros_like(point)
            slopes = [found.rate]
            if by_knots is not None:
                slopes.append(by_knots(found.batch + found.rate * self._edge_slope(batch)))
            return float(np.log(found.risk)), np.concatenate(slopes) / found.risk

        bounds = [(-BELOW_EDGE, 0.0)] * size + [(-LARGEST_BATCH_STEP, LARGEST_BATCH_STEP)] * (begin.size - size)
        options: Any = {"maxiter": MOST_ITERATIONS, "maxcor": REMEMBERED, "ftol": change, "gtol": 1e-10}
        ended = minimize(value, begin, jac=True, method="L-BFGS-B", bounds=bounds, options=options)
        point, slope = ended.x, np.array(ended.jac)
        slope[:size] = np.where((point[:size] >= 0) & (slope[:size] < 0), 0.0, slope[:size])
        batch = self._batches(run, point[size:])[0] if self.ramp else log_batch
        log_rate = point[:size] + self._log_edge(batch)
        return Knots(run.knots, log_rate, batch, float(np.exp(ended.fun)), float(np.abs(slope).max()))

    def _batches(self, run: Run, free: np.ndarray) -> tuple[np.ndarray, Callable[[np.ndarray], np.ndarray]]:
        """`log B = max(0, free + shift)` with Σ B_t = D, and how slopes by log B become slopes by `free`."""
        shift = 0.0
        for _ in range(MOST_SHIFTS):  # Newton's steps for the logarithm of the sum
            batch = np.maximum(free + shift, 0.0)
            total, by_batch = run.num_samples(batch)
            above = free + shift > 0
            weight = np.where(above, by_batch, 0.0)
            excess = np.log(total / self.num_samples)
            if abs(excess) < 1e-12 or weight.sum() == 0:
                break
            shift -= float(np.clip(excess * total / weight.sum(), -LONGEST_SHIFT, LONGEST_SHIFT))
        share = weight / weight.sum() if weight.sum() > 0 else weight

        def by_free(slope: np.ndarray) -> np.ndarray:
            inner = np.where(above, slope, 0.0)
            return inner - share * inner.sum()

        return batch, by_free
