"""Runs of a call: one for each (B, γ) or (B, γ, n) of settings that broadcast, and the way back to the settings."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from sgdtheory.algorithms import DEFAULT, Algorithm, Course, numbers_of_steps

LARGEST_STEPS = 2**31 - 1  # Steps are counted in int32 on the devices.
# Beyond these batch sizes B overflows a float32 (χ²_B is drawn from it), or a batch is drawn in more than 2²² slices.
LARGEST_BATCH = {"sufficient": 1e30, "explicit": 2.0**30}
# A lane of one vector holds this many arrays as large as w: its state twice, and temporaries; a lane of k vectors holds
# (k + 1)/2 times as many. With fewer a block takes more than the memory limit; with more blocks are smaller than they
# have to be.
ARRAYS = 8
LARGEST_TRAJECTORY = 10_000  # A trajectory has at most this many points: at each the devices wait for its risks.
LEAST_ROOM = 1e9  # Every machine is taken to have this many bytes: results below it pass any memory limit.


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
    """One (B, γ), which all its replicas share.

    Attributes:
        number: position in the call, a word of the replicas' keys.
        sampler: of its mini-batches.
        steps: (K,) increasing step counts at which the risk is wanted.
        course: its steps.
    """

    number: int
    sampler: Any
    steps: np.ndarray
    course: Course


@dataclass(frozen=True, eq=False)
class Plan:
    """The settings of a call, P of them, and the run that each belongs to.

    Attributes:
        algorithm: of all runs.
        shape: that B, γ and D broadcast to.
        steps: (P, K) step counts wanted in each setting, increasing; the last is n.
        group: (P,) number of the setting's run.
        batch_size, learning_rate: (G,) of each run.
    """

    algorithm: Algorithm
    shape: tuple[int, ...]
    steps: np.ndarray
    group: np.ndarray
    batch_size: np.ndarray
    learning_rate: np.ndarray

    def runs(self, sampler: Callable[[Course], Any]) -> list[Run]:
        """Return the runs, with `sampler(course)`."""
        runs = []
        for number, (batch, rate) in enumerate(zip(self.batch_size.tolist(), self.learning_rate.tolist(), strict=True)):
            steps = np.unique(self.steps[self.group == number])
            course = Course(self.algorithm, batch, rate, float(steps[-1]))
            runs.append(Run(number, sampler(course), steps, course))
        return runs

    def gather(self, runs: Sequence[Run], risks: Sequence[np.ndarray]) -> np.ndarray:
        """Return (…, K, R) risks of the settings from the runs' (K', R)."""
        rows = [
            risks[number][np.searchsorted(runs[number].steps, steps)]
            for number, steps in zip(self.group.tolist(), self.steps, strict=True)
        ]
        return np.stack(rows).reshape(*self.shape, self.steps.shape[1], -1)


def make_plan(settings: dict[str, np.ndarray], trajectory: int, algorithm: Algorithm = DEFAULT) -> Plan:
    """Return the plan of settings, with the n that their samples allow and log-spaced step counts before it.

    Settings that differ in D alone share a run, unless n decides what the algorithm does.

    Args:
        settings: batch_size, learning_rate and num_samples, arrays of one shape.
        trajectory: number of step counts before n.
        algorithm: of all runs.

    Raises:
        ValueError: no setting at all, or more steps, at n or on the way to it, than are counted.
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
    # A long run passes by the results of shorter ones if neither its steps nor its average depend on n.
    length = np.zeros_like(steps) if algorithm.steady and algorithm.average.any_length else steps
    keys = zip(batch.flat, rate.flat, length.flat, strict=True)
    group = [numbers.setdefault(key, len(numbers)) for key in keys]
    batches, rates, _ = np.array(list(numbers)).T
    return Plan(algorithm, batch.shape, np.array(points, dtype=np.int64), np.array(group), batches, rates)


def largest_batch(course: Course) -> float:
    """Return a bound on the batch sizes of a run; attained but for the end of a ramp.

    Shapes are monotone between their knots. A function of the step is evaluated at every step.
    """
    shape = course.algorithm.batch_schedule
    if shape.smooth:
        factors = shape.at(np.array([0.0, *shape.knots(), 1.0]))
        return float(max(1.0, np.rint(course.batch * factors.max())))
    chunk = 2**20  # steps, so that a run of 2³¹ of them does not fill the memory
    pieces = np.arange(0, course.num_steps, chunk)
    return max(float(course.batches(np.arange(low, min(low + chunk, course.num_steps))).max()) for low in pieces)
