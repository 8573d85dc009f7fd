"""A run whose batch size changes in stages, with learning rate, warm-up and decay as functions of samples.

Schedules that count steps move when a ramp changes how many samples a step takes: with Megatron-Bridge's conversion of
iterations into samples at the last batch size a WSD decay stops half-way (its issue #2609). Here all is planned in
samples, and the steps are those that the trainer's loop will take:

    D ← 0;  while D < num_samples:  D ← D + B(D),   B(D) the stage with the last start ≤ D.
"""

import math
from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property

import numpy as np

from sgdtheory._common.arguments import positive_number, single_number, whole_number
from sgdtheory._common.array_like import ArrayLike
from sgdtheory.fits import BatchRamp, EvenRamp, EvenRule, RampTarget, nearest_even_ramp, stage_ends


@dataclass(frozen=True)
class RampedRun:
    """A run with a batch ramp, planned in samples.

    >>> import sgdtheory as st
    >>> run = st.advice.RampedRun(((0, 8), (80, 16)), num_samples=1600, learning_rate=1.0, exponent=0.5,
    ...     warmup_samples=80, decay_samples=320)
    >>> run.num_steps, run.warmup_steps, run.decay_start_step
    (105, 10, 85)
    >>> run.peak_learning_rates.round(3)
    array([0.707, 1.   ])

    Attributes:
        stages: (start in samples, batch size) of each stage; the first start is 0.
        num_samples: of the run, at least; the last step may pass it.
        learning_rate: γ at its peak with the last batch size.
        exponent: p of γ ∝ B^p along the ramp (`change_batch_size` says which); 0 keeps γ.
        warmup_samples: in which γ rises from 0, linearly in samples.
        decay_samples: the last ones, in which γ falls to 0, linearly in samples.
        ramp: that the stages are of. By its laws the nearest ramp is found for a trainer that cannot take these stages.
            None: by noise scales B²/B_last, with which these stages are the best ramp.

    Raises:
        ValueError: stages out of order, or numbers outside their range.
    """

    stages: tuple[tuple[int, int], ...]
    num_samples: int
    learning_rate: float
    exponent: float = 0.5
    warmup_samples: int = 0
    decay_samples: int = 0
    ramp: BatchRamp | None = field(default=None, repr=False, compare=False)

    def __post_init__(self) -> None:
        stages = tuple(
            (whole_number("stages", start, 0), whole_number("stages", size, 1)) for start, size in self.stages
        )
        starts = [start for start, _ in stages]
        if not stages or starts[0] != 0 or starts != sorted(set(starts)):
            raise ValueError(f"stages must begin at 0 and have growing starts, got {starts}")
        object.__setattr__(self, "stages", stages)
        object.__setattr__(self, "num_samples", whole_number("num_samples", self.num_samples, starts[-1] + 1))
        object.__setattr__(self, "learning_rate", positive_number("learning_rate", self.learning_rate))
        object.__setattr__(self, "exponent", single_number("exponent", self.exponent))
        for name in ("warmup_samples", "decay_samples"):
            object.__setattr__(self, name, whole_number(name, getattr(self, name), 0))
        if self.warmup_samples + self.decay_samples > self.num_samples:
            raise ValueError(
                f"warmup_samples and decay_samples must fit into num_samples = {self.num_samples}, "
                f"got {self.warmup_samples} and {self.decay_samples}"
            )

    @classmethod
    def of_ramp(cls, ramp: BatchRamp, *, learning_rate: float, **other: float) -> "RampedRun":
        """The run of `st.batch_ramp`, with its number of samples.

        Args:
            ramp: from laws of steps to several targets.
            learning_rate, other: as above.
        """
        return cls(ramp.stages, num_samples=round(ramp.samples), learning_rate=learning_rate, ramp=ramp, **other)  # pyright: ignore[reportArgumentType]

    # ------------------------------------------------------------------ steps

    @cached_property
    def stage_ends(self) -> tuple[tuple[int, int], ...]:
        """(steps, samples) done when each stage ends, as the loop takes them: a stage ends with a whole step."""
        return stage_ends(self.stages, self.num_samples)

    @property
    def num_steps(self) -> int:
        """Steps of the run."""
        return self.stage_ends[-1][0]

    def steps_at(self, samples: float) -> int:
        """The fewest steps after which at least so many samples are seen."""
        steps = 0
        seen = 0
        for (_, size), (end, end_samples) in zip(self.stages, self.stage_ends, strict=True):
            if samples <= end_samples:
                return steps + max(0, math.ceil((samples - seen) / size))
            steps = end
            seen = end_samples
        return steps

    def samples_at(self, step: int) -> int:
        """Samples seen after `step` steps."""
        steps = 0
        seen = 0
        for (_, size), (end, end_samples) in zip(self.stages, self.stage_ends, strict=True):
            if step <= end:
                return seen + (step - steps) * size
            steps = end
            seen = end_samples
        return seen

    @property
    def warmup_steps(self) -> int:
        """Steps of warm-up."""
        return self.steps_at(self.warmup_samples)

    @property
    def decay_start_step(self) -> int:
        """The step with which the decay begins: `decay_samples` before the end."""
        return self.steps_at(self.num_samples - self.decay_samples)

    @property
    def decay_steps(self) -> int:
        """Steps of decay."""
        return self.num_steps - self.decay_start_step

    # ------------------------------------------------------------------ learning rate

    @property
    def peak_learning_rates(self) -> np.ndarray:
        """(k,) of the stages: γ (B/B_last)^p."""
        sizes = np.array([size for _, size in self.stages])
        return self.learning_rate * (sizes / sizes[-1]) ** self.exponent

    def at(self, samples: ArrayLike) -> np.ndarray:
        """γ of a step that begins after `samples` samples: the stage's peak, times warm-up and decay."""
        seen = np.asarray(samples, float)
        stage = np.searchsorted([start for start, _ in self.stages], seen, side="right") - 1
        rise = np.minimum(1.0, seen / self.warmup_samples) if self.warmup_samples else 1.0
        left = np.maximum(0.0, self.num_samples - seen)
        fall = np.minimum(1.0, left / self.decay_samples) if self.decay_samples else 1.0
        return self.peak_learning_rates[stage] * rise * fall

    def with_stages(self, stages: Sequence[tuple[int, int]], exponent: float | None = None) -> "RampedRun":
        """The same run along another ramp, at the learning rates that belong to its batch sizes.

        Args:
            stages: of the other ramp.
            exponent: p of γ ∝ B^p along it; None: as before. γ moves from the last batch size to the new one with it.
        """
        power = self.exponent if exponent is None else exponent
        rate = self.learning_rate * (stages[-1][1] / self.stages[-1][1]) ** power
        return replace(self, stages=tuple(stages), learning_rate=rate, exponent=power)

    # ------------------------------------------------------------------ other ramps

    @property
    def batch_unit(self) -> int:
        """Batch sizes of a ramp in place of this one are multiples of it."""
        return math.gcd(*(size for _, size in self.stages)) if self.ramp is None else self.ramp.multiple

    @cached_property
    def target(self) -> RampTarget:
        """Return the target that a ramp in place of this one has to reach within the samples of the run."""
        if self.ramp is not None:
            return self.ramp.target._replace(num_samples=self.num_samples)
        sizes = np.array([size for _, size in self.stages], float)
        scales = sizes**2 / sizes[-1]
        samples = np.diff([start for start, _ in self.stages], append=self.num_samples)
        return RampTarget(samples / (sizes + scales), scales, self.num_samples)

    def nearest_even(self, rule: EvenRule, unit: int = 1) -> EvenRamp:
        """The ramp by equal increments, or the constant batch size, that takes the fewest steps to the same target.

        Args:
            rule: the trainer's stages for a start, an increment, a number of increments and ramp-up samples.
            unit: batch sizes are multiples of it, beside `batch_unit`.
        """
        return nearest_even_ramp(self.target, self.stages, unit=math.lcm(unit, self.batch_unit), rule=rule)
