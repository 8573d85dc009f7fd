"""Risks of a network's averaged SGD on a grid of batch sizes, learning rates and data sizes, for seeds of the data."""

from collections.abc import Callable
from dataclasses import replace

import numpy as np

import sgdtheory as st
from experiments._lib.critical_grid import Grid
from experiments._lib.progress import tracked
from experiments._lib.tangent_features import GRADIENT
from sgdtheory.training import Lanes, TrainConfig

LONGEST = 512  # steps of one call to the trainer
BELOW, ABOVE = 2.0, 3.0  # learning rates reach so far below and above those of the theory, whose network stands still


def network_grid(problem: st.LeastSquares, batch: np.ndarray, data: np.ndarray, num_rates: int) -> Grid:
    """Learning rates around the theory's best for the least and the most data, at every batch size.

    A network whose features move need not have the theory's best learning rates, nor its stability edge.

    Args:
        problem: of the theory.
        batch: (K,) batch sizes.
        data: (J,) data sizes that are read.
        num_rates: G.
    """
    ends = np.maximum(data[[0, -1]], 4 * batch[:, None])
    best = np.asarray(st.optimal_learning_rate(problem, batch_size=batch[:, None], num_samples=ends).learning_rate)
    return Grid(batch, np.geomspace(best.min(1) / BELOW, best.max(1) * ABOVE, num_rates).T, data)


def holdout_risk(lanes: Lanes) -> np.ndarray:
    """(R,) losses of the uniform averages on the hold-out, which has no label noise."""
    return lanes.evaluate()[:, lanes.configs[0].average_names.index("uniform")]


def network_risks(
    own: TrainConfig,
    grid: Grid,
    num_seeds: int,
    risk: Callable[[Lanes], np.ndarray] = holdout_risk,
    *,
    draw_weights: bool = False,
) -> np.ndarray:
    """(K, G, S, J) risks of the uniform average of the iterates; infinite where it diverged.

    Learning rates of one seed advance side by side on the same data, which are made once.

    Args:
        own: config of a run, but for batch size, learning rate and data_seed.
        grid: with learning rates of the theory's update.
        num_seeds: of the order of the data, 0 … S − 1.
        risk: (R,) of runs side by side.
        draw_weights: whether every seed has initial weights of its own too.
    """
    found = np.empty((len(grid.batch), grid.rate.shape[1], num_seeds, len(grid.data)))
    samples = grid.samples
    for k in tracked(range(len(grid.batch)), work=[float(1 + 64 / size) for size in grid.batch]):
        steps = np.round(samples[k] / grid.batch[k]).astype(int)
        for seed in tracked(range(num_seeds)):
            settings = {"batch_size": int(grid.batch[k]), "max_steps": int(steps[-1]), "data_seed": seed}
            settings |= {"seed": seed} if draw_weights else {}
            lanes = Lanes(
                [replace(own, learning_rate=rate / GRADIENT, **settings) for rate in grid.rate[k]], longest=LONGEST
            )
            for j, step in enumerate(steps):
                lanes.advance(int(step) - lanes.step)
                if j == 0 or step > steps[j - 1]:
                    losses = risk(lanes)
                found[k, :, seed, j] = losses
    return np.where(np.isfinite(found), found, np.inf)


def trained_weights(own: TrainConfig, grid: Grid, risks: np.ndarray) -> dict[str, np.ndarray]:
    """Weights of the uniform average after the most data, of seed 0 at the best batch size and learning rate there.

    Args:
        own: config of a run.
        grid: that was run.
        risks: (K, G, S, J) of it.
    """
    last = risks.mean(2)[..., -1]
    k, g = np.unravel_index(last.argmin(), last.shape)
    steps = round(float(grid.samples[k, -1] / grid.batch[k]))
    settings = {"batch_size": int(grid.batch[k]), "max_steps": steps, "data_seed": 0}
    lanes = Lanes([replace(own, learning_rate=grid.rate[k, g] / GRADIENT, **settings)], longest=LONGEST)
    lanes.advance(steps)
    return {name: part[0] for name, part in lanes.weights("uniform").items()}
