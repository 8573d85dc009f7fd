"""Configs of version 0.1.0, which wrote the fields of all kinds in one flat table, whether they mattered or not."""

from collections.abc import Mapping
from typing import Any

from sgdtheory.training.flat import belonging

ALL_KINDS = {"num_heads", "input_dim", "momentum", "beta2", "decay", "vocabulary"}  # No later file has all of them.


def is_of_0_1_0(fields: Mapping[str, Any]) -> bool:
    """Return whether flat fields come from a file of 0.1.0."""
    return fields.keys() >= ALL_KINDS


def current_fields(fields: Any) -> Any:
    """Return the flat fields that matter to the run; only files of 0.1.0 contain others."""
    if not isinstance(fields, Mapping) or not is_of_0_1_0(fields):
        return fields
    return belonging(fields)
