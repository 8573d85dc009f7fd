"""Stores of version 0.1.0, in which one run could have several directories: unused settings changed their names."""

from collections.abc import Iterable
from contextlib import AbstractContextManager
from pathlib import Path
from typing import Protocol

from sgdtheory.training import RunDirectory, TrainConfig


class Folder(Protocol):
    """The part of a store that the migration needs."""

    folder: Path

    def directory(self, config: TrainConfig) -> Path: ...  # noqa: D102
    def set_aside(self, name: str) -> Path: ...  # noqa: D102
    def locked_names(self, names: Iterable[str]) -> AbstractContextManager[bool]: ...  # noqa: D102


def migrate(store: Folder) -> list[str]:
    """Rename the directories of 0.1.0, each under its lock; of two of the same run keep the one with more steps.

    A run that another process works on is left for the next sweep.

    Returns:
        Notes on directories that were set aside.
    """
    notes = []
    for directory in map(RunDirectory, sorted(store.folder.iterdir())):
        config = directory.renamed_from_0_1_0()
        if config is None:
            continue
        with store.locked_names({directory.path.name, config.fingerprint}) as free:
            # Another process may have renamed the directory before the lock was taken.
            if free and directory.renamed_from_0_1_0() is not None:
                notes += _rename(store, directory, config)
    return notes


def _rename(store: Folder, old: RunDirectory, config: TrainConfig) -> list[str]:
    new, notes = RunDirectory(store.directory(config)), []
    if new.path.exists():
        behind = old.progress(config) <= new.progress(config)
        worse, better = (old.path.name, new.path.name) if behind else (new.path.name, old.path.name)
        moved_to = store.set_aside(worse)
        notes.append(f"{worse} was set aside as {moved_to}: {better} is the same run, and as far or further")
        if behind:
            return notes
    old.rename(config)
    return notes
