"""Configs of runs by their flat fields, as tests vary them."""

from dataclasses import replace
from typing import Any

from sgdtheory.training import TrainConfig


def run_of(**fields: Any) -> TrainConfig:
    """The config of flat fields."""
    return TrainConfig.from_fields(fields)


def changed(value: Any, **changes: Any) -> Any:
    """A config with other flat fields, or another frozen dataclass with other fields."""
    return value.with_fields(**changes) if isinstance(value, TrainConfig) else replace(value, **changes)
