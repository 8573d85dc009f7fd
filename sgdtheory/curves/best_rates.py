"""The learning rates that leave the least loss, of a fitted theory, with a largest one that is allowed."""

import numpy as np
from scipy.optimize import minimize

from sgdtheory.curves.loss_model import LossModel, losses
from sgdtheory.curves.panels import Optimizer, Panels

PANELS = 96
# The search varies the learning rate at these t/n.
KNOTS = np.concatenate([[0.0, 0.02, 0.1, 0.25, 0.45], 1 - np.geomspace(0.4, 0.01, 8), [1.0]])
LOWEST = 1e-4  # No learning rate is below this fraction of the largest one.
DIFFERENCE = 1e-4
MOST_STEPS = 60  # The search stops after this many iterations of L-BFGS.
PARTS_OF_DECAY = 0.2, 0.5, 0.9  # Each start decays the learning rate over one of these last fractions of the run.


def panel_edges() -> np.ndarray:
    """(PANELS + 1,) of t/n, dense at the end."""
    late = 1 - np.geomspace(0.5, 1e-4, PANELS // 2)
    return np.unique(np.concatenate([np.linspace(0, 1, PANELS // 2 + 1), late]))


def best_rates(
    model: LossModel, optimizer: Optimizer, num_steps: float, batch: float, largest: float
) -> tuple[np.ndarray, np.ndarray, float]:
    """Knots of t/n, learning rates there, linear in log between, and the loss at the end.

    By L-BFGS with derivatives by differences, from constant rates that decay for a part of the run.

    Args:
        model: Q = 1.
        optimizer: of the curves.
        num_steps: n.
        batch: B, nan where it is not known.
        largest: learning rate that is allowed.
    """
    edges = panel_edges()
    middle = (edges[1:] + edges[:-1]) / 2
    steps = num_steps * np.diff(edges)

    def excess(points: np.ndarray) -> np.ndarray:
        """(J,) log of loss − L0 for (J, knots) logs of rates over the largest."""
        rate = largest * np.exp([np.interp(middle, KNOTS, point) for point in points])
        change = np.array([np.diff(np.interp(edges, KNOTS, point)) for point in points])
        panels = Panels(np.broadcast_to(steps, rate.shape), rate, change, np.full(rate.shape, batch), ())
        return np.log(losses(model, panels, optimizer)[0, :, -1] - model.floor[0])

    def with_slope(point: np.ndarray) -> tuple[float, np.ndarray]:
        found = excess(np.concatenate([point[None], point - DIFFERENCE * np.eye(point.size)]))
        return float(found[0]), (found[0] - found[1:]) / DIFFERENCE

    bounds = [(np.log(LOWEST), 0.0)] * KNOTS.size
    starts = [np.log(np.clip((1 - KNOTS) / part, 0.02, 1.0)) for part in PARTS_OF_DECAY]
    start = min(starts, key=lambda point: float(excess(point[None])[0]))
    found = minimize(with_slope, start, jac=True, method="L-BFGS-B", bounds=bounds, options={"maxiter": MOST_STEPS})
    return KNOTS, largest * np.exp(found.x), float(np.exp(found.fun) + model.floor[0])
