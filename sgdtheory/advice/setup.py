"""`TrainingSetup`: the settings of a run that hang on its batch size."""

from collections.abc import Mapping
from dataclasses import dataclass, fields
from typing import Any

from sgdtheory._common.arguments import positive_number, single_number

BETAS = "beta1", "beta2"
AT_LEAST_0 = "weight_decay", "warmup_steps", "decay_steps"


@dataclass(frozen=True, kw_only=True)
class TrainingSetup:
    """The settings of a run that hang on its batch size; None: not used, or not known.

    >>> import sgdtheory as st
    >>> st.advice.TrainingSetup(batch_size=64, learning_rate=3e-4, beta2=0.95).beta2
    0.95

    Attributes:
        batch_size: B, samples a step, over all devices and accumulated micro batches.
        learning_rate: γ, the peak of the schedule.
        beta1: of Adam; of SGD, signs and Muon the momentum.
        beta2: of Adam.
        weight_decay: λ of AdamW's `w ← (1 − γλ) w`.
        warmup_steps: before the peak.
        decay_steps: from the peak to the end.
        num_steps: of the run.
        critical_batch_size: B*, with which a run needs 20% more data than with `reference`.
        reference: batch size from which B* counts, as the fit says that gave it; None: vanishing batch sizes.
    """

    batch_size: float
    learning_rate: float
    beta1: float | None = None
    beta2: float | None = None
    weight_decay: float | None = None
    warmup_steps: float | None = None
    decay_steps: float | None = None
    num_steps: float | None = None
    critical_batch_size: float | None = None
    reference: float | None = None

    def __post_init__(self) -> None:
        for field in fields(self):
            value = getattr(self, field.name)
            if value is None and field.default is None:
                continue
            object.__setattr__(self, field.name, _checked(field.name, value))

    @classmethod
    def of(cls, current: "TrainingSetup | Mapping[str, Any]") -> "TrainingSetup":
        """Make the setup from a mapping with these names.

        Raises:
            ValueError: a name that is none, or without batch_size and learning_rate.
        """
        if isinstance(current, TrainingSetup):
            return current
        if not isinstance(current, Mapping):
            raise ValueError(f"current must be a TrainingSetup or a mapping, got {type(current).__name__}")
        names = [field.name for field in fields(cls)]
        unknown = [name for name in current if name not in names]
        if unknown:
            raise ValueError(f"current must have names among {', '.join(names)}, got {unknown[0]!r}")
        missing = [name for name in ("batch_size", "learning_rate") if name not in current]
        if missing:
            raise ValueError(f"current must have batch_size and learning_rate, {missing[0]} is missing")
        return cls(**current)


def _checked(name: str, value: Any) -> float:
    if name in BETAS:
        number = single_number(name, value)
        if not 0 <= number < 1:
            raise ValueError(f"{name} must be at least 0 and below 1, got {number:g}")
        return number
    if name in AT_LEAST_0:
        number = single_number(name, value)
        if not 0 <= number < float("inf"):
            raise ValueError(f"{name} must be at least 0 and finite, got {number:g}")
        return number
    return positive_number(name, value)
