"""When a run is evaluated, and how many steps it took to a target."""

import numpy as np

from sgdtheory.training.config import TrainConfig

DENSE_FROM, DENSE_PARTS = 14, 20  # from 14/20 = 70% of the duration on, every 1/20 = 5%


def is_scheduled(config: TrainConfig, step: int) -> bool:
    """Whether `step` is one of the hybrid protocol's.

    These are 0, powers of two, multiples of eval_every, and ⌈70%⌉, ⌈75%⌉, ⌈80%⌉ … of schedule_steps, on beyond 100%.
    They do not depend on max_steps: a run that is continued has the curve of one that was never stopped.
    """
    duration = config.duration
    part = step * DENSE_PARTS // duration  # the last part that starts at or before this step
    return (
        step & (step - 1) == 0
        or step % config.eval_every == 0
        or (part >= DENSE_FROM and step == -(-part * duration // DENSE_PARTS))
    )


def next_evaluation(config: TrainConfig, step: int) -> int:
    """The first scheduled step after `step`; at most max_steps, where every run is evaluated."""
    duration, every = config.duration, config.eval_every
    part = max(step * DENSE_PARTS // duration + 1, DENSE_FROM)
    dense = -(-part * duration // DENSE_PARTS)
    return min(1 << step.bit_length(), (step // every + 1) * every, dense, config.max_steps)


def steps_to_target(steps: np.ndarray, losses: np.ndarray, target: float) -> float:
    """The first evaluated step whose loss is at most the target; nan if there is none.

    Args:
        steps: (E,) increasing.
        losses: (E,) losses at them.
        target: loss to reach.
    """
    reached = np.flatnonzero(np.asarray(losses) <= target)
    return float(np.asarray(steps)[reached[0]]) if reached.size else float("nan")


def interpolated_steps(steps: np.ndarray, losses: np.ndarray, target: float) -> float:
    """Steps to a target, between evaluations on a line of log loss against log step; nan if it is not reached.

    The crossing lies between the first evaluation at most at the target and the one before it; 0.5 stands for step 0.

    Args:
        steps, losses: (E,) as of `steps_to_target`.
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
