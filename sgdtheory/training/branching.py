"""The critical batch size along one run, measured by continuing it from its checkpoints with larger batches."""

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import NamedTuple

import numpy as np
from scipy import stats

from sgdtheory._common.arguments import positive_number, share_between_0_and_1, single_number, whole_array
from sgdtheory._common.array_like import ArrayLike
from sgdtheory.training.config import FIELDS, TrainConfig
from sgdtheory.training.engine import State
from sgdtheory.training.lanes import Lanes
from sgdtheory.training.noise import noise_scale
from sgdtheory.training.optimizers import SGD
from sgdtheory.training.schedules import Constant


class BatchSizesAlongRun(NamedTuple):
    """A batch size at every checkpoint of a run: the critical one from branching, or the gradient noise scale.

    Attributes:
        samples: (T,) samples that the run has seen at the checkpoint.
        batch_size: (T,) in samples; inf if it exceeds the largest that was tried.
        low, high: (T,) ends of its confidence interval; nan with a single run.
    """

    samples: np.ndarray
    batch_size: np.ndarray
    low: np.ndarray
    high: np.ndarray


@dataclass(frozen=True, eq=False)
class Branches:
    """Losses of runs that were continued from their checkpoints with larger batches.

    Attributes:
        config: config of the first run.
        steps: (T,) steps of the checkpoints.
        catch_up: (T,) samples between a checkpoint and the comparison of losses.
        factors: (K,) batch sizes of the branches over the run's; the first is 1.
        rate_exponent: p; a branch has the learning rate γ k^p.
        losses: (T, K, S) hold-out losses of the iterates of S runs after the catch-up.
        squared_gradient, gradient_variance: (T, S) estimates of ‖g‖² and tr Σ, means over the catch-up of the branch
            k = 1; nan without micro-batches.
    """

    config: TrainConfig
    steps: np.ndarray
    catch_up: np.ndarray
    factors: np.ndarray
    rate_exponent: float
    losses: np.ndarray
    squared_gradient: np.ndarray
    gradient_variance: np.ndarray

    @property
    def samples(self) -> np.ndarray:
        """(T,) samples that the run has seen at the checkpoints."""
        return self.steps * self.config.batch_size

    @property
    def excess(self) -> np.ndarray:
        """(T, K) mean loss of each branch over the mean loss of the branch k = 1, minus 1."""
        mean = self.losses.mean(axis=2)
        return mean / mean[:, :1] - 1

    def critical_batch_size(
        self, tolerance: float = 0.02, *, relative: bool = True, level: float = 0.95
    ) -> BatchSizesAlongRun:
        """Return B* = kB for the smallest k at which a branch's loss exceeds that of k = 1 by the tolerance.

            mean over runs of (L_k − L_1 − ε) = 0,  ε = tolerance · L_1, or the tolerance itself

        The mean is interpolated linearly in log k between factors, and its first zero is taken. The interval contains
        every k at which a t-test of this mean over runs rejects neither sign: it ends where mean ± t s.e. cross 0.
        Every branch of a run sees the same samples, so differences of losses scatter less than the losses.

        Args:
            tolerance: ε, in units of L_1, or of the loss.
            relative: whether the tolerance is in units of L_1.
            level: confidence level of the interval.

        Raises:
            ValueError: if the tolerance is not positive, or the level is not between 0 and 1.
        """
        tolerance, level = positive_number("tolerance", tolerance), share_between_0_and_1("level", level)
        first = self.losses[:, :1]
        margin = self.losses - first - tolerance * (first if relative else np.ones_like(first))
        number = margin.shape[2]
        with np.errstate(invalid="ignore"):
            mean = margin.mean(axis=2)
            error = margin.std(axis=2, ddof=1) / number**0.5 if number > 1 else np.full_like(mean, np.nan)
        error[:, 0] = 0.0  # The branch k = 1 is compared with itself: its margin −ε is negative whatever the noise.
        half_width = float(stats.t.isf((1 - level) / 2, max(number - 1, 1))) * error
        log_factors = np.log(self.factors)
        # A branch that diverged has no finite loss: it counts as above the tolerance.
        crossings = [
            np.exp([_crossing(log_factors, row) for row in np.where(np.isfinite(rows), rows, np.inf)])
            for rows in (mean, mean + half_width, np.where(np.isfinite(mean), mean - half_width, np.inf))
        ]
        batch_size, low, high = (self.config.batch_size * factor for factor in crossings)
        if number == 1:
            low, high = np.full_like(low, np.nan), np.full_like(high, np.nan)
        return BatchSizesAlongRun(self.samples, batch_size, low, high)

    def noise_scale(self, level: float = 0.95) -> BatchSizesAlongRun:
        """Return the gradient noise scale tr Σ/‖g‖² of the branch k = 1, in samples, and its interval over runs.

        The estimate is a ratio of means over runs, and the interval is Fieller's: the B at which a t-test does not
        reject that tr Σ − B ‖g‖² has mean 0. Its upper end is inf if ‖g‖² is not significantly above 0.

        Args:
            level: confidence level of the interval.
        """
        level = share_between_0_and_1("level", level)
        squared, trace = self.squared_gradient, self.gradient_variance
        ratio = noise_scale(squared.mean(axis=1), trace.mean(axis=1))
        ends = np.array([_fieller(*pair, level) for pair in zip(trace, squared, strict=True)])
        return BatchSizesAlongRun(self.samples, ratio, ends[:, 0], ends[:, 1])


def branch(
    configs: Sequence[TrainConfig],
    steps: ArrayLike,
    *,
    factors: ArrayLike = (1, 2, 4, 8, 16),
    catch_up: ArrayLike,
    rate_exponent: float | None = None,
) -> Branches:
    """Train runs, and continue each from its checkpoints with k times the batch size and k^p times the learning rate.

    This is the method of Merrill et al. 2025, which needs no run but the one whose critical batch size is wanted. A
    branch starts from the weights and the optimizer state of its checkpoint, and sees the same samples as the run
    itself from there on, in k times fewer steps. The branch k = 1 is the run; with micro-batches it also measures the
    gradient noise scale.

    The result depends on the run's learning rate and on the catch-up: see the guide.

    >>> from dataclasses import replace
    >>> from sgdtheory.training import TrainConfig, branch
    >>> config = TrainConfig(width=8, batch_size=4, micro_batch=2, max_steps=96, holdout_size=64)
    >>> runs = [replace(config, seed=seed, data_seed=seed) for seed in range(3)]
    >>> branches = branch(runs, (32, 64), factors=(1, 2, 4), catch_up=64)  # doctest: +SKIP
    >>> branches.losses.shape, branches.critical_batch_size(0.05).samples  # doctest: +SKIP
    ((2, 3, 3), array([128, 256]))

    Args:
        configs: configs of S runs that differ only in seed and data_seed, with a constant learning rate (after a
            warm-up). Averages and target_loss are ignored.
        steps: (T,) steps of the runs after which they branch, increasing multiples of every factor.
        factors: (K,) whole numbers k that increase from 1.
        catch_up: samples after which the losses are compared, one number or (T,); multiples of k B for every factor.
        rate_exponent: p; None: 1 for SGD, ½ for optimizers whose steps do not grow with the gradient.

    Raises:
        ValueError: if there are no configs, they differ in more than seeds, the schedule is not constant, or steps,
            factors or catch_up are not as described above.

    Reference:
        Merrill et al. 2025, Critical Batch Size Revisited, arXiv:2505.23971.
    """
    runs = _checked_runs(configs)
    first = runs[0]
    steps, factors, lengths = _checked_branches(first, steps, factors, catch_up)
    power = (1.0 if isinstance(first.optimizer, SGD) else 0.5) if rate_exponent is None else rate_exponent
    power = single_number("rate_exponent", power)
    states, losses, gradients = _trunk(runs, steps, lengths)
    rows = [losses]
    for factor in factors[1:]:
        rows.append(_branch_losses(runs, states, lengths // factor, int(factor), float(factor) ** power))
    return Branches(
        first, steps, lengths * first.batch_size, factors, power, np.stack(rows, axis=1), *np.moveaxis(gradients, -1, 0)
    )


def _trunk(
    runs: Sequence[TrainConfig], steps: np.ndarray, lengths: np.ndarray
) -> tuple[list[list[State]], np.ndarray, np.ndarray]:
    """Train the runs; return states at `steps`, and (T, S) losses and (T, S, 2) ‖g‖² and tr Σ `lengths` steps later."""
    lanes, states, losses = Lanes(runs), {}, {}
    total, totals = np.zeros((len(runs), 3)), {}
    for step in np.unique(np.concatenate([steps, steps + lengths])):
        lanes.advance(int(step) - lanes.step)
        total = total + lanes.sums()[0]
        lanes.clear_sums()
        totals[step] = total
        if step in steps:
            states[step] = lanes.states()
        losses[step] = lanes.evaluate()[:, 0]
    ends = steps + lengths
    means = [(totals[end] - totals[step])[:, 1:] / (end - step) for step, end in zip(steps, ends, strict=True)]
    return [states[step] for step in steps], np.stack([losses[end] for end in ends]).astype(float), np.stack(means)


def _branch_losses(
    runs: Sequence[TrainConfig], states: list[list[State]], lengths: np.ndarray, factor: int, rate_factor: float
) -> np.ndarray:
    """Return (T, S) losses of the branches of one factor, `lengths` steps after their states."""
    changes = {"batch_size": factor * runs[0].batch_size, "micro_batch": None, "max_steps": 1, "schedule": Constant()}
    configs = [replace(run, learning_rate=rate_factor * run.learning_rate, **changes) for run in runs]
    losses = []
    for checkpoints, length in zip(states, lengths, strict=True):
        # A step takes `factor` times as many samples: dividing its number makes the stream continue where the run is.
        starts = [state._replace(step=np.int32(state.step // factor)) for state in checkpoints]
        lanes = Lanes(configs, states=starts)
        lanes.advance(int(length))
        losses.append(lanes.evaluate()[:, 0].astype(float))
    return np.stack(losses)


def _checked_runs(configs: Sequence[TrainConfig]) -> list[TrainConfig]:
    """Return the runs without averages and targets, after checking that they differ only in their seeds."""
    if not configs:
        raise ValueError("configs must be at least one, got none")
    runs = [replace(each, averages=(), uniform_average=False, target_loss=None) for each in configs]
    different = {name for each in runs for name in FIELDS if each.value(name) != runs[0].value(name)}
    different -= {"seed", "data_seed", "averages"}
    if different:
        names = ", ".join(sorted(different))
        raise ValueError(f"configs must differ in seed and data_seed alone, got different {names}")
    if not isinstance(runs[0].schedule, Constant):
        name = type(runs[0].schedule).__name__
        raise ValueError(f"schedule must be Constant for runs that branch, got {name}; its decay would mix with k^p")
    if runs[0].has_rounds:
        raise ValueError(
            f"runs that branch must have one worker without rounds, got num_workers = {runs[0].num_workers} and "
            f"local_steps = {runs[0].local_steps}; leave them out"
        )
    return runs


def _checked_branches(
    config: TrainConfig, steps: ArrayLike, factors: ArrayLike, catch_up: ArrayLike
) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Return `steps`, `factors` and the catch-up in steps of the run, as checked arrays of whole numbers."""
    checkpoints, sizes, samples = (
        np.atleast_1d(whole_array(name, value)).astype(int)
        for name, value in (("steps", steps), ("factors", factors), ("catch_up", catch_up))
    )
    if sizes[0] != 1 or sizes.size < 2 or (np.diff(sizes) <= 0).any():
        raise ValueError(f"factors must be two or more that increase from 1, got {sizes.tolist()}")
    if (np.diff(checkpoints) <= 0).any():
        raise ValueError(f"steps must increase, got {checkpoints.tolist()}")
    if samples.size not in (1, checkpoints.size):
        raise ValueError(f"catch_up must be one number or one for each of {checkpoints.size} steps, got {samples.size}")
    multiple = int(np.lcm.reduce(sizes))
    if (checkpoints % multiple).any():
        raise ValueError(
            f"steps must be multiples of {multiple}, that every factor divides, got {checkpoints.tolist()}"
        )
    if (samples % (multiple * config.batch_size)).any():
        whole = multiple * config.batch_size
        raise ValueError(f"catch_up must be a multiple of {whole}, batch_size times {multiple}, got {samples.tolist()}")
    warm = getattr(config.schedule, "warmup", 0.0) * config.duration
    if checkpoints[0] < warm:
        raise ValueError(f"steps must lie after the warm-up, which ends at {warm:g}, got {checkpoints[0]}")
    return checkpoints, sizes, np.broadcast_to(samples // config.batch_size, checkpoints.shape)


def _crossing(x: np.ndarray, values: np.ndarray) -> float:
    """Return the x at which linearly interpolated values, below 0 at first, first reach 0; inf if they never do."""
    above = np.flatnonzero(values > 0)
    if not above.size:
        return np.inf
    last = int(above[0])
    here, there = values[last - 1], values[last]
    share = -here / (there - here) if np.isfinite(there) else 0.0
    return float(x[last - 1] + share * (x[last] - x[last - 1]))


def _fieller(trace: np.ndarray, squared: np.ndarray, level: float) -> tuple[float, float]:
    """Return Fieller's interval of a ratio of means r: a t-test does not reject mean(trace − r squared) = 0 in it."""
    number = len(trace)
    if number < 2 or not np.isfinite([trace, squared]).all():
        return np.nan, np.nan
    t2 = float(stats.t.isf((1 - level) / 2, number - 1)) ** 2 / number
    (vxx, vxy), (_, vyy) = t2 * np.cov(trace, squared)
    x, y = trace.mean(), squared.mean()
    a, b, c = y**2 - vyy, x * y - vxy, x**2 - vxx
    root = np.sqrt(max(b**2 - a * c, 0.0))
    return c / (b + root), (b + root) / a if a > 0 else np.inf
