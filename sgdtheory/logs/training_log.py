"""`TrainingLog`: what a log holds of one run, before anything is left out or joined."""

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

import numpy as np


@dataclass(frozen=True, eq=False)
class TrainingLog:
    """What a log holds of one training run, a row for each step at which something was logged.

    Numbers that a row does not have are nan: not logged there. A loss that was logged as nan or inf is inf.

    Attributes:
        name: of the run.
        format: that it was read by.
        step: (K,) whole numbers, increasing: optimizer steps done.
        loss: (K,) of training.
        evaluation_loss: (K,) of validation.
        learning_rate: (K,).
        batch_size: (K,) sequences (or samples) a step, over all devices and accumulated micro batches.
        tokens: (K,) seen so far.
        settings: of the run, where the log has them, by these names: `weight_decay`, `beta1`, `beta2`, `optimizer`,
            `warmup` (steps), `num_steps` (planned), `sequence_length`, `micro_batch`, `accumulation`, `world_size`,
            `num_parameters`, `schedule`.
        columns: attribute → what the log calls it ("train/loss"), for the preview.
        remarks: what was not understood, or left out; a sentence each.
    """

    name: str
    format: str
    step: np.ndarray
    loss: np.ndarray
    evaluation_loss: np.ndarray
    learning_rate: np.ndarray
    batch_size: np.ndarray
    tokens: np.ndarray
    settings: Mapping[str, Any] = field(default_factory=dict)
    columns: Mapping[str, str] = field(default_factory=dict)
    remarks: tuple[str, ...] = ()

    @classmethod
    def from_points(
        cls, name: str, format: str, points: Mapping[str, Mapping[float, float]], **other: Any
    ) -> "TrainingLog":
        """From step → value for each column: what is logged at other steps is joined by step.

        Args:
            name, format: as above.
            points: column (`loss`, `evaluation_loss`, `learning_rate`, `batch_size`, `tokens`) → step → value.
            other: `settings`, `columns`, `remarks`.
        """
        steps = np.array(sorted({step for column in points.values() for step in column}), float)
        values = {
            column: np.array([points.get(column, {}).get(step, np.nan) for step in steps], float)
            for column in ("loss", "evaluation_loss", "learning_rate", "batch_size", "tokens")
        }
        return cls(name, format, steps, **values, **other)
