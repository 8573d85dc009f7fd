"""`TrainingSetup`: the settings of a run that depend on its batch size and its length."""

from collections.abc import Mapping
from dataclasses import dataclass, fields
from typing import Any

from sgdtheory._common.arguments import positive_number, single_number

BETAS = "beta1", "beta2"
AT_LEAST_0 = "weight_decay", "warmup_steps", "decay_steps"
ROUNDING = 1e-9  # Samples may differ from steps × batch size by one step, and by this fraction of it from rounding.


@dataclass(frozen=True, kw_only=True)
class TrainingSetup:
    """The settings of a run that depend on its batch size and its length; None: not used, or not known.

    >>> import sgdtheory as st
    >>> st.advice.TrainingSetup(batch_size=64, learning_rate=3e-4, beta2=0.95).beta2
    0.95

    Attributes:
        batch_size: B, samples a step, over all devices and accumulated micro batches.
        learning_rate: γ, the peak of the schedule.
        beta1: Adam's β₁; the momentum of other optimizers.
        beta2: Adam's β₂.
        weight_decay: weight decay λ, decoupled as AdamW's: `w ← (1 − γλ) w`.
        warmup_steps: before the peak.
        decay_steps: from the peak to the end.
        num_steps: steps of the run now.
        num_samples: data D of the run now, in the unit of the batch size; None: steps times batch size.
        critical_batch_size: B*, with which a run needs 20% more data than with the reference, if it is known.
        reference: batch size from which B* counts, as the fit prints both; None: vanishing batch sizes.
    """

    batch_size: float
    learning_rate: float
    beta1: float | None = None
    beta2: float | None = None
    weight_decay: float | None = None
    warmup_steps: float | None = None
    decay_steps: float | None = None
    num_steps: float | None = None
    num_samples: float | None = None
    critical_batch_size: float | None = None
    reference: float | None = None

    def __post_init__(self) -> None:
        for field in fields(self):
            value = getattr(self, field.name)
            if value is None and field.default is None:
                continue
            object.__setattr__(self, field.name, _checked(field.name, value))
        if self.num_steps is not None and self.num_samples is not None:
            of_steps = self.num_steps * self.batch_size
            if abs(self.num_samples - of_steps) > self.batch_size * (1 + ROUNDING):
                raise ValueError(
                    f"num_samples must be num_steps × batch_size = {of_steps:g}, up to one step, got "
                    f"{self.num_samples:g}: give one of the two, and count samples in the unit of the batch size"
                )

    @property
    def samples(self) -> float | None:
        """The data of the run, D; None where neither they nor the steps are known."""
        if self.num_samples is not None or self.num_steps is None:
            return self.num_samples
        return self.num_steps * self.batch_size

    @property
    def steps(self) -> float | None:
        """The steps of the run; None where neither they nor the data are known."""
        if self.num_steps is not None or self.num_samples is None:
            return self.num_steps
        return self.num_samples / self.batch_size

    @property
    def timescale(self) -> float | None:
        """τ = B/(γλD), the memory of AdamW's weights as a share of the run; None without a weight decay or D."""
        if not self.weight_decay or self.samples is None:
            return None
        return self.batch_size / (self.learning_rate * self.weight_decay * self.samples)

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
