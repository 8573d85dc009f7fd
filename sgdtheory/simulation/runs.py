"""From settings that broadcast to runs, one for each (B, γ), and back."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

LARGEST_STEPS = 2**31 - 1
LARGEST_TRAJECTORY = 10_000
LEAST_ROOM = 1e9  # bytes that any machine is taken to have, whatever the memory limit


@dataclass(frozen=True, eq=False)
class Run:
    """What all replicas of one (B, γ) share.

    Attributes:
        number: position in the call, a word of the replicas' keys.
        sampler: draws its steps.
        batch_size, learning_rate: B, and γ in units of 1/λ_1.
        steps: (K,) increasing step counts at which the risk is wanted.
    """

    number: int
    sampler: Any
    batch_size: float
    learning_rate: float
    steps: np.ndarray


@dataclass(frozen=True, eq=False)
class Plan:
    """The points of a call, flattened, and the (B, γ) that each belongs to.

    Attributes:
        shape: that B, γ and D broadcast to.
        steps: (P, K) step counts wanted at each point, increasing; the last is n.
        group: (P,) number of the point's run.
        batch_size, learning_rate: (G,) of each run.
    """

    shape: tuple[int, ...]
    steps: np.ndarray
    group: np.ndarray
    batch_size: np.ndarray
    learning_rate: np.ndarray

    def runs(self, sampler: Callable[[float], Any], unit: float) -> list[Run]:
        """The runs, with `sampler(B)` and learning rates times `unit`."""
        pairs = zip(self.batch_size.tolist(), (self.learning_rate * unit).tolist(), strict=True)
        return [
            Run(number, sampler(batch), batch, rate, np.unique(self.steps[self.group == number]))
            for number, (batch, rate) in enumerate(pairs)
        ]

    def gather(self, runs: Sequence[Run], risks: Sequence[np.ndarray]) -> np.ndarray:
        """(…, K, R) from the runs' (K', R)."""
        rows = [
            risks[number][np.searchsorted(runs[number].steps, steps)]
            for number, steps in zip(self.group.tolist(), self.steps, strict=True)
        ]
        return np.stack(rows).reshape(*self.shape, self.steps.shape[1], -1)


def make_plan(settings: dict[str, np.ndarray], trajectory: int) -> Plan:
    """Points with n = ⌊D/B⌋ and `trajectory` log-spaced step counts before it.

    Raises:
        ValueError: no point at all, or more steps, at or on the way to it, than are counted.
    """
    batch, rate, samples = (settings[name] for name in ("batch_size", "learning_rate", "num_samples"))
    if not batch.size:
        raise ValueError("batch_size, learning_rate and num_samples must hold at least one setting, got empty arrays")
    if trajectory > LARGEST_TRAJECTORY:
        raise ValueError(f"trajectory must be at most {LARGEST_TRAJECTORY}, got {trajectory:g}")
    steps = np.floor_divide(samples, batch)
    long = steps > LARGEST_STEPS
    if long.any():
        raise ValueError(
            f"num_samples must be at most {LARGEST_STEPS} steps of batch_size, got num_samples "
            f"{samples[long].flat[0]:g} with batch_size {batch[long].flat[0]:g}"
        )
    points = [np.append(np.round(np.geomspace(1, n, trajectory)), n) for n in steps.flat]
    numbers: dict[tuple[float, float], int] = {}
    group = [numbers.setdefault(pair, len(numbers)) for pair in zip(batch.flat, rate.flat, strict=True)]
    batches, rates = np.array(list(numbers)).T
    return Plan(batch.shape, np.array(points, dtype=np.int64), np.array(group), batches, rates)
