"""Configs as 0.1.0 wrote them: every field of every kind in one flat table, whether it mattered or not."""

from collections.abc import Mapping
from typing import Any

from sgdtheory.training.flat import belonging

ALL_KINDS = {"num_heads", "input_dim", "momentum", "beta2", "decay", "vocabulary"}  # no one run has all of them


def is_of_0_1_0(fields: Mapping[str, Any]) -> bool:
    """Whether flat fields are those of a file of 0.1.0."""
    return fields.keys() >= ALL_KINDS


def current_fields(fields: Any) -> Any:
    """Flat fields as this version has them: of a file of 0.1.0 those that mattered to the run."""
    if not isinstance(fields, Mapping) or not is_of_0_1_0(fields):
        return fields
    return belonging(fields)
