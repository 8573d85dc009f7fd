"""Ramps by equal increments that reach a target in the fewest steps, and how a trainer takes its steps along a ramp.

Over ds steps without noise a run at batch size B takes `dE = (B + 𝓑) ds` samples (`ramps`), so that a ramp needs

    E = Σ ∫ (B + 𝓑_j) ds,   s from 0 to a,

samples to the target, and fewer of them the later its batch size grows. Trainers with a ramp by equal increments have
k of them over R ramp-up samples. For each k the least R with which the run reaches the target within its samples
takes the fewest steps, and is found by bisection; of all k, and of the constant batch sizes, the fewest steps count.
"""

import itertools
import math
from bisect import bisect_left
from collections.abc import Callable, Sequence
from typing import NamedTuple

import numpy as np

Stages = tuple[tuple[int, int], ...]  # (start in samples, batch size)
# The arguments of a rule are start, increment, number of increments and ramp-up samples.
EvenRule = Callable[[int, int, int, int], Stages]
HALF_A_SAMPLE = 0.5  # The number of samples of a run is rounded to a whole number, and so by at most this much.


class EvenRamp(NamedTuple):
    """A ramp by equal increments, or a constant batch size.

    Attributes:
        start: first batch size.
        increment: 0 for a constant batch size.
        count: number of increments.
        samples: ramp-up samples.
        stages: that the trainer makes of these within the run.
        steps: that the trainer takes.
    """

    start: int
    increment: int
    count: int
    samples: int
    stages: Stages
    steps: int

    @property
    def last(self) -> int:
        """The last batch size."""
        return self.start + self.count * self.increment


class RampTarget(NamedTuple):
    """Target of a run: the last one of its laws, within a number of samples.

    Attributes:
        lengths: (k,) Δa_j, steps without noise between two targets.
        noise_scales: (k,) 𝓑_j there.
        num_samples: of the run.
    """

    lengths: np.ndarray
    noise_scales: np.ndarray
    num_samples: int

    def samples_needed(self, stages: Stages) -> float:
        """Samples that a run along `stages` takes to the target."""
        ends = [start for start, _ in stages[1:]] + [math.inf]
        seen = 0.0
        place = 0
        for length, scale in zip(self.lengths.tolist(), self.noise_scales.tolist(), strict=True):
            left = length
            while seen + left * (stages[place][1] + scale) > ends[place]:
                left -= (ends[place] - seen) / (stages[place][1] + scale)
                seen = float(ends[place])
                place += 1
            seen += left * (stages[place][1] + scale)
        return seen

    def is_reached(self, stages: Stages) -> bool:
        """Tell whether a run along `stages` reaches the target within its samples."""
        return self.samples_needed(stages) <= self.num_samples + HALF_A_SAMPLE

    def within(self, stages: Stages) -> Stages:
        """The stages that begin before the run ends."""
        return tuple(stage for stage in stages if stage[0] < self.num_samples)

    def steps(self, stages: Stages) -> int:
        """Steps that a trainer takes along `stages`."""
        return stage_ends(stages, self.num_samples)[-1][0]

    @property
    def constant_steps(self) -> float:
        """Steps at the constant batch size, a real number, that reaches the target with all samples."""
        fewest = float(self.lengths.sum())
        least = float(self.lengths @ self.noise_scales)
        return fewest + least * fewest / (self.num_samples - least)

    def constant(self, unit: int) -> EvenRamp:
        """The largest constant batch size, a multiple of `unit`, that reaches the target; `unit` where none does."""
        spare = self.num_samples + HALF_A_SAMPLE - float(self.lengths @ self.noise_scales)
        size = unit * max(1, math.floor(spare / float(self.lengths.sum()) / unit))
        stages = ((0, size),)
        return EvenRamp(size, 0, 0, 0, stages, self.steps(stages))


def stage_ends(stages: Sequence[tuple[int, int]], num_samples: int) -> tuple[tuple[int, int], ...]:
    """Return (steps, samples) done when each stage ends, as a trainer's loop takes them.

    >>> from sgdtheory.fits import stage_ends
    >>> stage_ends(((0, 8), (20, 16)), 100)  # three steps of 8, five of 16
    ((3, 24), (8, 104))

    Args:
        stages: (start in samples, batch size) of each; a stage ends with a whole step.
        num_samples: with which the run ends, or with the step that passes them.
    """
    ends = []
    steps = 0
    samples = 0
    limits = [start for start, _ in stages[1:]] + [num_samples]
    for (_, size), limit in zip(stages, limits, strict=True):
        taken = max(0, math.ceil((limit - samples) / size))
        steps += taken
        samples += taken * size
        ends.append((steps, samples))
    return tuple(ends)


def megatron_stages(start: int, increment: int, count: int, samples: int) -> Stages:
    """Return the stages of Megatron-LM's `--rampup-batch-size`: B = start + ⌊consumed/(samples/count)⌋ increment.

    >>> from sgdtheory.fits import megatron_stages
    >>> megatron_stages(64, 32, 2, 1001)
    ((0, 64), (501, 96), (1001, 128))

    Args:
        start: first batch size.
        increment: between two batch sizes.
        count: number of increments.
        samples: ramp-up samples.
    """
    stages = [(0, start)]
    for j in range(1, count + 1):
        begin = -(-samples * j // count)
        # As the trainer rounds it, a whole quotient may come out as a little less.
        if int(begin / (samples / count)) < j:
            begin += 1
        stages.append((begin, start + j * increment))
    return tuple(stages)


def nearest_even_ramp(target: RampTarget, planned: Stages, *, unit: int, rule: EvenRule = megatron_stages) -> EvenRamp:
    """Find the even ramp that reaches the target in the fewest steps, or a constant batch size if that has fewer.

    >>> import numpy as np
    >>> from sgdtheory.fits import RampTarget, nearest_even_ramp
    >>> target = RampTarget(np.array([500.0, 1000, 2500]), np.array([200.0, 800, 2040]), 9_000_000)
    >>> nearest_even_ramp(target, ((0, 256), (228_000, 576), (1_604_000, 896)), unit=64)[:4]
    (256, 64, 10, 1440041)

    Args:
        target: to reach.
        planned: stages of the plan. The ramp begins and ends with two of their batch sizes, rounded to multiples of
            `unit`; it ends with the one next to the last to which its increments lead.
        unit: batch sizes are multiples of it.
        rule: the trainer's stages for a start, an increment, a number of increments and ramp-up samples.

    Returns:
        EvenRamp, with increment 0 where no ramp takes fewer steps than the constant batch size; the plan itself where
        its stages are even.
    """
    same = _as_even(target, planned, unit, rule)
    if same is not None:
        return same
    sizes = sorted({each for _, size in planned for each in _beside(size, unit)})
    found = []
    for start, last in itertools.combinations(sizes, 2):
        units = (last - start) // unit
        # Each number of increments costs time, and 32 follow a straight line to 3% of the difference of batch sizes.
        for count in range(1, min(units, 32) + 1):
            ramp = _earliest(target, start, unit * round(units / count), count, rule)
            found += [] if ramp is None else [ramp]
    constant = target.constant(unit)
    best = min(found, key=lambda ramp: (ramp.steps, ramp.count), default=constant)
    return best if _is_worth_it(best.steps, constant.steps, target) else constant


def _as_even(target: RampTarget, planned: Stages, unit: int, rule: EvenRule) -> EvenRamp | None:
    """The plan as an even ramp, or as a constant batch size; None where it is none in these units."""
    start = planned[0][1]
    count = len(planned) - 1
    increment = planned[1][1] - start if count else 0
    stages = rule(start, increment, count, planned[-1][0]) if increment > 0 else planned[:1]
    if stages != planned or start % unit or increment % unit:
        return None
    return EvenRamp(start, increment, count, planned[-1][0], planned, target.steps(planned))


def _is_worth_it(steps: int, at_constant: int, target: RampTarget) -> bool:
    """Tell whether a ramp with so many steps is better than a constant batch size.

    A ramp that takes more steps than a constant batch size, if any real number could be one, is written only where
    batch sizes are so coarse that the best constant one takes 1% of steps more. Without this 1% a last step or two of
    twice the batch size would count as a ramp.
    """
    return steps < min(at_constant, target.constant_steps) or steps < at_constant * 0.99


def _earliest(target: RampTarget, start: int, increment: int, count: int, rule: EvenRule) -> EvenRamp | None:
    """The ramp with the least ramp-up samples with which the target is reached; None where no number of them does."""

    def reaches(samples: int) -> bool:
        return target.is_reached(rule(start, increment, count, samples))

    # Fewer samples than increments leave stages without a sample; with the most the first stage fills the run.
    numbers = range(count, count * (target.num_samples + start) + 1)
    if not reaches(numbers[-1]):
        return None
    fewest = numbers[bisect_left(numbers, True, key=reaches)]
    stages = target.within(rule(start, increment, count, fewest))
    return EvenRamp(start, increment, count, fewest, stages, target.steps(stages))


def _beside(size: int, unit: int) -> set[int]:
    """The multiples of the unit on both sides of a batch size."""
    return {unit * max(1, size // unit), unit * max(1, -(-size // unit))}
