"""From settings that broadcast to runs, one for each (B, γ) or (B, γ, n), and back."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from sgdtheory.algorithms import Algorithm, Course, numbers_of_steps

DEFAULT = Algorithm()
LARGEST_STEPS = 2**31 - 1
LARGEST_TRAJECTORY = 10_000
LEAST_ROOM = 1e9  # bytes that any machine is taken to have, whatever the memory limit


@dataclass(frozen=True)
class Resources:
    """Devices and memory for the lanes that run at once.

    Attributes:
        devices: JAX devices that share the lanes.
        memory_limit: bytes that a block may take.
        report: called now and then with the share of the work that is done.
    """

    devices: tuple[Any, ...]
    memory_limit: float
    report: Callable[[float], None]


@dataclass(frozen=True, eq=False)
class Run:
    """What all replicas of one (B, γ) share.

    Attributes:
        number: position in the call, a word of the replicas' keys.
        sampler: draws its steps.
        batch_size, learning_rate: B, and γ in units of 1/λ_1.
        steps: (K,) increasing step counts at which the risk is wanted.
        course: what its steps do.
        unit: λ_1.
        scale: √(Σ s_i + σ²), the unit of u.
    """

    number: int
    sampler: Any
    batch_size: float
    learning_rate: float
    steps: np.ndarray
    course: Course
    unit: float = 1.0
    scale: float = 1.0

    @property
    def vectors(self) -> int:
        """Arrays of the weights' shape that the method keeps."""
        return self.course.algorithm.method.vectors


@dataclass(frozen=True, eq=False)
class Plan:
    """The points of a call, flattened, and the run that each belongs to.

    Attributes:
        algorithm: what is run.
        shape: that B, γ and D broadcast to.
        steps: (P, K) step counts wanted at each point, increasing; the last is n.
        group: (P,) number of the point's run.
        batch_size, learning_rate: (G,) of each run.
    """

    algorithm: Algorithm
    shape: tuple[int, ...]
    steps: np.ndarray
    group: np.ndarray
    batch_size: np.ndarray
    learning_rate: np.ndarray

    def runs(self, sampler: Callable[[Course], Any], unit: float, scale: float = 1.0) -> list[Run]:
        """The runs, with `sampler(course)` and learning rates times `unit`, which is λ_1; `scale` is the unit of u."""
        runs = []
        for number, (batch, rate) in enumerate(zip(self.batch_size.tolist(), self.learning_rate.tolist(), strict=True)):
            steps = np.unique(self.steps[self.group == number])
            course = Course(self.algorithm, batch, rate, float(steps[-1]))
            runs.append(Run(number, sampler(course), batch, rate * unit, steps, course, unit, scale))
        return runs

    def gather(self, runs: Sequence[Run], risks: Sequence[np.ndarray]) -> np.ndarray:
        """(…, K, R) from the runs' (K', R)."""
        rows = [
            risks[number][np.searchsorted(runs[number].steps, steps)]
            for number, steps in zip(self.group.tolist(), self.steps, strict=True)
        ]
        return np.stack(rows).reshape(*self.shape, self.steps.shape[1], -1)


def make_plan(settings: dict[str, np.ndarray], trajectory: int, algorithm: Algorithm = DEFAULT) -> Plan:
    """Points with the n that their samples allow, and `trajectory` log-spaced step counts before it.

    Points that differ in D alone are looks at one run, unless what an algorithm does depends on n.

    Raises:
        ValueError: no point at all, or more steps, at or on the way to it, than are counted.
    """
    batch, rate, samples = (settings[name] for name in ("batch_size", "learning_rate", "num_samples"))
    if not batch.size:
        raise ValueError("batch_size, learning_rate and num_samples must hold at least one setting, got empty arrays")
    if trajectory > LARGEST_TRAJECTORY:
        raise ValueError(f"trajectory must be at most {LARGEST_TRAJECTORY}, got {trajectory:g}")
    steps = numbers_of_steps(algorithm.batch_schedule, batch, samples, algorithm.workers)
    long = steps > LARGEST_STEPS
    if long.any():
        raise ValueError(
            f"num_samples must be at most {LARGEST_STEPS} steps of batch_size, got num_samples "
            f"{samples[long].flat[0]:g} with batch_size {batch[long].flat[0]:g}"
        )
    points = [np.append(np.round(np.geomspace(1, n, trajectory)), n) for n in steps.flat]
    numbers: dict[tuple[float, float, float], int] = {}
    length = np.zeros_like(steps) if _whatever_length(algorithm) else steps
    keys = zip(batch.flat, rate.flat, length.flat, strict=True)
    group = [numbers.setdefault(key, len(numbers)) for key in keys]
    batches, rates, _ = np.array(list(numbers)).T
    return Plan(algorithm, batch.shape, np.array(points, dtype=np.int64), np.array(group), batches, rates)


def _whatever_length(algorithm: Algorithm) -> bool:
    """Whether every step and average is the same whatever n."""
    return algorithm.steady and algorithm.average.any_length
