"""Reading the config that a run keeps in its directory, as data: no model that it names is imported."""

import json
from dataclasses import replace
from pathlib import Path
from typing import Any

from sgdtheory._common.files import check_regular, damage, json_data
from sgdtheory.training.config import TrainConfig
from sgdtheory.training.migration import current_fields
from sgdtheory.training.named_model import NamedModel


def config_of_file(path: Path, fields: Any) -> TrainConfig:
    """Return the config of a run's file, written by this version or by 0.1.0; its model is named, not imported."""
    config = TrainConfig.from_fields(current_fields(fields))
    if isinstance(config.model, NamedModel):
        return replace(config, model=NamedModel(config.model.entry_point, f"{path}"))
    return config


def read_config(path: Path) -> TrainConfig:
    """Read the config that a run of this version or of 0.1.0 wrote to its directory."""
    try:
        check_regular(path)
        return config_of_file(path, json_data(path.read_bytes()))
    except FileNotFoundError:
        raise ValueError(f"{path.parent} is not the directory of a run: it has no {path.name}") from None
    except (OSError, json.JSONDecodeError, TypeError, UnicodeDecodeError) as error:
        raise ValueError(f"{path} is not the config of a run: {damage(error)}") from None
