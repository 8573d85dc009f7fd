"""Stores of 0.1.0, whose directories were named by settings that did not matter too: one run could have several."""

import json
from collections.abc import Iterable
from contextlib import AbstractContextManager
from pathlib import Path
from typing import Protocol

from sgdtheory.training.checkpoint import CONFIG, RESULT, read_checkpoint, read_result, write_config
from sgdtheory.training.config import TrainConfig, hash_of, read_config
from sgdtheory.training.migration import is_of_0_1_0


class Folder(Protocol):
    """What is needed of a store."""

    folder: Path

    def directory(self, config: TrainConfig) -> Path: ...  # noqa: D102
    def set_aside(self, name: str) -> Path: ...  # noqa: D102
    def locked_names(self, names: Iterable[str]) -> AbstractContextManager[bool]: ...  # noqa: D102


def renamed_from_0_1_0(directory: Path) -> TrainConfig | None:
    """The run of a directory that 0.1.0 named, if this version names it otherwise; None for any other directory."""
    try:
        fields = json.loads((directory / CONFIG).read_bytes())
        if not isinstance(fields, dict) or not is_of_0_1_0(fields) or hash_of(fields) != directory.name:
            return None
        config = read_config(directory / CONFIG)
    except (OSError, ValueError, LookupError):
        return None
    return config if config.fingerprint != directory.name else None


def migrate(store: Folder) -> list[str]:
    """Rename the directories that 0.1.0 named, each under its lock; of two of one run keep the one that is further.

    A run that another process works on is left for the next sweep.

    Returns:
        Notes on what was set aside.
    """
    notes = []
    for directory in sorted(path.parent for path in store.folder.glob(f"*/{CONFIG}")):
        config = renamed_from_0_1_0(directory)
        if config is None:
            continue
        with store.locked_names({directory.name, config.fingerprint}) as free:
            if free and renamed_from_0_1_0(directory) is not None:  # nobody else was quicker
                notes += _rename(store, directory, config)
    return notes


def _rename(store: Folder, old: Path, config: TrainConfig) -> list[str]:
    new, notes = store.directory(config), []
    if new.exists():
        worse, better = (old, new) if progress(old, config) <= progress(new, config) else (new, old)
        place = store.set_aside(worse.name)
        notes.append(f"{worse.name} was set aside as {place}: {better.name} is the same run, and as far or further")
        if worse is old:
            return notes
    write_config(old, config)
    old.rename(new)
    return notes


def progress(directory: Path, config: TrainConfig) -> tuple[bool, int]:
    """How far the run in a directory is: whether it has ended, and its steps; −1 if it cannot be read."""
    try:
        if (directory / RESULT).exists():
            return True, read_result(directory, config).num_steps
        found = read_checkpoint(directory, config)
        return False, int(found[0].step) if found else 0
    except ValueError:
        return False, -1
