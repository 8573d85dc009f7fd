"""Steps at which a run is evaluated, and the number of steps that it takes to a target."""

import numpy as np

from sgdtheory.training.config import TrainConfig

DENSE_FROM, DENSE_PARTS = 14, 20  # Every 1/20 = 5% of the duration is evaluated from 14/20 = 70% on.


def is_scheduled(config: TrainConfig, step: int) -> bool:
    """Return whether a run is evaluated at `step`.

    These steps are 0, powers of two, multiples of eval_every, and ⌈70%⌉, ⌈75%⌉, ⌈80%⌉ … of schedule_steps, also beyond
    100%. They do not depend on max_steps, so that a continued run has the same curve as one that was never stopped.
    """
    duration = config.duration
    part = step * DENSE_PARTS // duration  # Index of the last 5% that starts at or before this step.
    return (
        step & (step - 1) == 0
        or step % config.eval_every == 0
        or (part >= DENSE_FROM and step == -(-part * duration // DENSE_PARTS))
    )


def next_evaluation(config: TrainConfig, step: int) -> int:
    """Return the first scheduled step after `step`, at most max_steps, where every run is evaluated."""
    duration, every = config.duration, config.eval_every
    part = max(step * DENSE_PARTS // duration + 1, DENSE_FROM)
    dense = -(-part * duration // DENSE_PARTS)
    return min(1 << step.bit_length(), (step // every + 1) * every, dense, config.max_steps)


def steps_to_target(steps: np.ndarray, losses: np.ndarray, target: float) -> float:
    """Return the first evaluated step whose loss is at most the target; nan if there is none.

    Args:
        steps: (E,) increasing steps.
        losses: (E,) losses at these steps.
        target: loss to reach.
    """
    reached = np.flatnonzero(np.asarray(losses) <= target)
    return float(np.asarray(steps)[reached[0]]) if reached.size else float("nan")


def interpolated_steps(steps: np.ndarray, losses: np.ndarray, target: float) -> float:
    """Return the steps to a target, interpolated in log loss against log step; nan if it is not reached.

    The interpolation is between the first evaluation with a loss at most the target and the one before it. Step 0
    counts as 0.5.

    Args:
        steps, losses: (E,) as for `steps_to_target`.
        target: loss to reach.
    """
    losses = np.asarray(losses, float)
    reached = np.flatnonzero(losses <= target)
    if not reached.size:
        return float("nan")
    last, steps = int(reached[0]), np.maximum(np.asarray(steps, float), 0.5)
    if last == 0 or not (losses[last] > 0 and np.isfinite(losses[last - 1])):
        return float(steps[last])
    above, below = np.log(losses[last - 1]), np.log(losses[last])
    share = (above - np.log(target)) / (above - below)
    return float(np.exp(np.log(steps[last - 1]) + share * np.log(steps[last] / steps[last - 1])))
