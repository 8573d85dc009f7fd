"""The steps of one run: how many its samples allow, with the learning rate, batch size and coefficients of each."""

from dataclasses import dataclass
from functools import cached_property

import numpy as np

from sgdtheory.algorithms.algorithm import Algorithm
from sgdtheory.algorithms.linear_method import StepMatrices
from sgdtheory.algorithms.schedules import Shape

MOST_PLATEAUS = 2**15  # A ramp with more different batch sizes between two knots is treated as a smooth function.
MOST_TABULATED = 2**16  # The batch sizes of at most this many steps are summed one by one.
MOST_FURTHER = 64  # At most this many larger numbers of steps are tried, as they may need fewer samples.
SUM_NODES = 128  # The sum of a smooth ramp takes a Gauss rule with this many nodes.


def batch_sizes(shape: Shape, batch: float | np.ndarray, step: np.ndarray, num_steps: float) -> np.ndarray:
    """Compute the batch sizes `B_t = max(1, round(B g(t/n)))`."""
    return np.maximum(np.rint(batch * shape.factors(step, num_steps)), 1.0)


def first_step(fraction: float, num_steps: float) -> float:
    """Return the first t with t/n ≥ fraction, where t/n is rounded as in the schedule."""
    step = np.ceil(fraction * num_steps)
    while step > 0 and (step - 1) / num_steps >= fraction:
        step -= 1
    while step / num_steps < fraction:
        step += 1
    return float(step)


def steps_of_shape(shape: Shape, num_steps: float) -> list[float]:
    """Return 0, the steps at which the shape's formula changes, and n."""
    inner = {first_step(knot, num_steps) for knot in shape.knots()} if shape.smooth else set()
    return sorted({0.0, float(num_steps)} | inner)


def plateaus(shape: Shape, batch: float, num_steps: float) -> tuple[np.ndarray, np.ndarray]:
    """Return the first step and the batch size (L,) of each run of equal batch sizes of a smooth shape.

    Shapes are monotone between knots, so that the first step of each value is found by bisection. With more than
    `MOST_PLATEAUS` values between two knots both arrays are empty.
    """
    starts = [np.zeros(0)]
    sizes = [np.zeros(0)]
    edges = steps_of_shape(shape, num_steps)
    for low, high in zip(edges[:-1], edges[1:], strict=True):
        first, last = batch_sizes(shape, batch, np.array([low, high - 1]), num_steps)
        count = abs(last - first)
        if count > MOST_PLATEAUS:
            return np.zeros(0), np.zeros(0)
        sign = 1.0 if last >= first else -1.0
        level = first + sign * np.arange(1, count + 1)
        before = np.full(level.size, low)
        reached = np.full(level.size, high - 1)
        while (reached - before > 1).any():
            middle = np.floor((before + reached) / 2)
            there = sign * batch_sizes(shape, batch, middle, num_steps) >= sign * level
            before = np.where(there, before, middle)
            reached = np.where(there, middle, reached)
        begin, kept = np.unique(reached[::-1], return_index=True)  # If values are skipped, the last one applies.
        starts += [np.array([low]), begin]
        sizes += [np.array([first]), level[::-1][kept]]
    return np.concatenate(starts), np.concatenate(sizes)


def samples_of(shape: Shape, batch: float, num_steps: float) -> float:
    """Compute the samples of a run, Σ_{t<n} B_t."""
    if num_steps <= MOST_TABULATED or not shape.smooth:
        return float(batch_sizes(shape, batch, np.arange(num_steps), num_steps).sum())
    starts, sizes = plateaus(shape, batch, num_steps)
    if starts.size:
        return float(sizes @ np.diff(starts, append=num_steps))
    nodes, weights = np.polynomial.legendre.leggauss(SUM_NODES)
    # Nodes dense at both ends, because a shape may begin or end with an infinite slope there, as 1 − √x does:
    # s = y²(3 − 2y), y from 0 to 1. Without it the number of samples of (1 − u)^0.4 was 2·10⁻⁷ too high.
    y = (nodes + 1) / 2
    place, weights = y**2 * (3 - 2 * y), 3 * y * (1 - y) * weights
    total = 0.0
    edges = steps_of_shape(shape, num_steps)
    for low, high in zip(edges[:-1], edges[1:], strict=True):
        fraction = (low + (high - low) * place - 0.5) / num_steps
        total += (high - low) * float(weights @ np.maximum(batch * shape.at(fraction), 1.0))
    return total


def number_of_steps(shape: Shape, batch: float, samples: float, workers: int = 1) -> float:
    """Find the largest n with K Σ_{t<n} B_t ≤ D, exactly if the batch size takes few enough values, else to 1e-9.

    Raises:
        ValueError: if the samples are not enough for one step.
    """
    if workers > 1:
        return float(numbers_of_steps(shape, np.array(batch), np.array(samples), workers))
    if shape.flat:
        size = float(batch_sizes(shape, batch, np.zeros(1), 1)[0])
        return _at_least_one(np.floor_divide(samples, size), samples)
    if not shape.smooth:
        return _at_least_one(_counted(shape, batch, samples), samples)
    _at_least_one(np.floor(samples), samples)
    # The sum differs from an increasing function of n at most by its variation: bisection finds n up to `_slack`.
    low, high = 0.0, float(np.floor(samples))
    guess = min(max(np.floor(samples / batch), 1.0), high)
    for _ in range(4):
        guess = min(max(np.floor(guess * samples / samples_of(shape, batch, guess)), 1.0), high)
    width = 1.0
    while True:
        low = max(guess - width, 0.0)
        high = min(guess + width, np.floor(samples))
        if (low == 0 or samples_of(shape, batch, low) <= samples) and (
            high == np.floor(samples) or samples_of(shape, batch, high) > samples
        ):
            break
        width *= 4
    while high - low > 1:
        middle = np.floor((low + high) / 2)
        low, high = (middle, high) if samples_of(shape, batch, middle) <= samples else (low, middle)
    if samples_of(shape, batch, high) <= samples:
        low = high
    # With stages and rounding, a larger number of steps may need fewer samples.
    most = min(_slack(shape, batch), MOST_FURTHER, int(samples - low))
    fitting = [more for more in range(1, most + 1) if samples_of(shape, batch, low + more) <= samples]
    return _at_least_one(low + max(fitting, default=0), samples)


def _slack(shape: Shape, batch: float) -> int:
    """Bound the number k of further steps that may need fewer samples than one further step.

    The samples of n steps differ from n times the mean batch size at most by its variation V. Therefore n + k steps
    need at least the samples of n + 1 steps if (k − 1) times the mean exceeds 2V.
    """
    values = np.maximum(np.rint(batch * shape.factors(np.arange(257), 257)), 1.0)
    return int(2 * np.abs(np.diff(values)).sum() / values.mean()) + 1


def _counted(shape: Shape, batch: float, samples: float) -> float:
    """Count the steps for a schedule that is a function of the step."""
    done = 0.0
    used = 0.0
    chunk = 1024
    while True:
        sums = used + np.cumsum(batch_sizes(shape, batch, done + np.arange(chunk), 1))
        if sums[-1] > samples:
            return done + float(np.searchsorted(sums, samples, side="right"))
        done = done + chunk
        used = float(sums[-1])
        chunk = min(2 * chunk, 2**20)


def _at_least_one(steps: float, samples: float) -> float:
    if steps < 1:
        raise ValueError(
            f"num_samples must be enough for one step of the batch schedule, got {samples:g}; lower batch_size or the "
            "first values of batch_schedule"
        )
    return float(steps)


@dataclass(frozen=True)
class Course:
    """A run of n steps of an algorithm with one peak batch size B and learning rate γ.

    If `rounded` is false, B need not be whole, and `B_t = max(1, B g(t/n))`.
    """

    algorithm: Algorithm
    batch: float
    rate: float
    num_steps: float
    rounded: bool = True

    @cached_property
    def batch_runs(self) -> tuple[np.ndarray, np.ndarray]:
        """First steps and sizes of runs of equal batch sizes; empty if there are too many."""
        shape = self.algorithm.batch_schedule
        if self.constant_batch:
            size = self.batch * float(shape.factors(np.zeros(1), 1)[0])
            return np.zeros(1), np.maximum(np.rint([size]) if self.rounded else [size], 1.0)
        if not (shape.smooth and self.rounded):
            return np.zeros(0), np.zeros(0)
        return plateaus(shape, self.batch, self.num_steps)

    @cached_property
    def constant_batch(self) -> bool:
        """Return whether all batches have the same size."""
        return self.algorithm.batch_schedule.flat

    def rates(self, step: np.ndarray) -> np.ndarray:
        """Return the learning rates γ_t."""
        return self.rate * self.algorithm.schedule.factors(step, self.num_steps)

    def batches(self, step: np.ndarray) -> np.ndarray:
        """Return the batch sizes B_t."""
        if self.constant_batch:
            return np.broadcast_to(self.batch_runs[1], np.shape(step))
        if not self.rounded:
            return self.smooth_batches(step)
        return batch_sizes(self.algorithm.batch_schedule, self.batch, step, self.num_steps)

    def smooth_batches(self, step: np.ndarray) -> np.ndarray:
        """Return max(1, B g) without rounding, for ramps with too many different whole batch sizes."""
        return np.maximum(self.batch * self.algorithm.batch_schedule.factors(step, self.num_steps), 1.0)

    def matrices(self, step: np.ndarray) -> StepMatrices:
        """Return I − A, b and c of these steps."""
        return self.algorithm.method.matrices(self.rates(step), step)

    @cached_property
    def first_averaged(self) -> float:
        """The first step whose iterate enters the average; n for the last iterate."""
        return min(self.algorithm.average.first(self.num_steps), self.num_steps)

    def samples(self, step: np.ndarray) -> np.ndarray:
        """Return the samples K Σ_{s<t} B_s that all K workers have seen before each step t."""
        return self.algorithm.workers * self._samples_each(step)

    def _samples_each(self, step: np.ndarray) -> np.ndarray:
        if self.constant_batch:
            return self.batches(step) * step
        starts, sizes = self.batch_runs
        if starts.size == 0:
            starts = np.arange(min(self.num_steps, MOST_TABULATED))
            starts = np.floor(starts * (self.num_steps / starts.size))
            sizes = self.batches(starts)
        sums = np.concatenate([[0.0], np.cumsum(sizes * np.diff(starts, append=self.num_steps))])
        run = np.searchsorted(starts, step, side="right") - 1
        return sums[run] + sizes[run] * (step - starts[run])


def numbers_of_steps(shape: Shape, batch: np.ndarray, samples: np.ndarray, workers: int = 1) -> np.ndarray:
    """Find the largest number of steps as `number_of_steps` does, for arrays of one shape.

    Raises:
        ValueError: if the samples are not enough for one step.
    """
    if workers > 1:
        short = samples < workers * batch_sizes(shape, batch, np.zeros(()), 1)
        if short.any():
            raise ValueError(
                f"num_samples must be enough for one step of all {workers} workers, got {samples[short].flat[0]:g} "
                f"with batch_size {batch[short].flat[0]:g} of each; lower batch_size or num_workers"
            )
        return numbers_of_steps(shape, batch, samples / workers)
    if not shape.flat:
        numbers = [number_of_steps(shape, *each) for each in zip(batch.flat, samples.flat, strict=True)]
        return np.array(numbers).reshape(batch.shape)
    steps = np.asarray(np.floor_divide(samples, batch_sizes(shape, batch, np.zeros(()), 1)))
    if steps.size:
        _at_least_one(float(steps.min()), float(samples.flat[steps.argmin()]))
    return steps
