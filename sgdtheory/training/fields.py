"""Checks of a run's settings by name: whole numbers, intervals and choices, in one table for all dataclasses."""

import dataclasses
import math
from typing import Any

from sgdtheory._common.arguments import checked_name, single_number, whole_number

CHOICES = {
    "activation": ("relu", "gelu", "tanh"),
    "trained": ("all", "output"),
    "precision": ("float32", "bfloat16"),
    "attention_kernel": ("xla", "cudnn"),
}
SEEDS = "task_seed", "data_seed", "seed"
WHOLE = {
    **dict.fromkeys(("width", "depth", "num_heads", "base_width", "context", "input_dim", "holdout_size"), 1),
    **dict.fromkeys(("batch_size", "max_steps", "eval_every", "num_workers", "local_steps"), 1),
    **dict.fromkeys(("base_num_heads", "micro_batch", "schedule_steps", "num_samples"), 1),
    **dict.fromkeys(SEEDS, 0),
    "vocabulary": 2,
}
_POSITIVE = (0.0, math.inf, "positive and finite")
_RATE = (0.0, 1.0, "at least 0 and below 1")
INTERVALS = {
    **dict.fromkeys(("capacity", "source", "learning_rate", "clip_norm", "update_rms"), _POSITIVE),
    "outer_learning_rate": _POSITIVE,
    **dict.fromkeys(("noise_variance", "epsilon", "weight_decay"), (0.0, math.inf, "at least 0 and finite")),
    **dict.fromkeys(("momentum", "beta1", "beta2", "outer_momentum"), _RATE),
    "interpolation": (0.0, 1.0, "positive and below 1"),
    "warmup": (0.0, math.nextafter(1, 2), "between 0 and 1"),
    "target_loss": (-math.inf, math.inf, "finite"),
}
NONZERO = "capacity", "source", "learning_rate", "clip_norm", "update_rms", "interpolation", "outer_learning_rate"
# These may be None.
OPTIONAL = "base_num_heads", "micro_batch", "schedule_steps", "num_samples", "clip_norm", "target_loss"


def check_fields(settings: Any) -> None:
    """Check every field of a frozen dataclass that has a rule, and convert it to int or float.

    Raises:
        ValueError: if a field is invalid; the message is one sentence with the field, its value and the remedy.
    """
    for field in dataclasses.fields(settings):
        name, value = field.name, getattr(settings, field.name)
        if value is None and name in OPTIONAL:
            continue
        if name in CHOICES:
            checked_name(name, value, CHOICES[name])
        elif name in WHOLE:
            set_field(settings, name, _whole(name, value))
        elif name in INTERVALS:
            set_field(settings, name, _inside(name, value))


def set_field(settings: Any, name: str, value: Any) -> None:
    """Set a field of a frozen dataclass while it is constructed."""
    object.__setattr__(settings, name, value)


def _whole(name: str, value: Any) -> int:
    number = whole_number(name, value, WHOLE[name])
    if name in SEEDS and number >= 2**32:
        raise ValueError(f"{name} must be below 2^32, got {number}")
    return number


def _inside(name: str, value: Any) -> float:
    low, high, words = INTERVALS[name]
    number = single_number(name, value)
    if not low <= number < high or (number == 0 and name in NONZERO):
        raise ValueError(f"{name} must be {words}, got {number:g}")
    return number + 0.0  # This turns −0.0 into 0.0, which files and fingerprints spell differently.
