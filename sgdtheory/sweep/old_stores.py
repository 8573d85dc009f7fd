"""Stores of 0.1.0, whose directories were named by settings that did not matter too: one run could have several."""

from collections.abc import Iterable
from contextlib import AbstractContextManager
from pathlib import Path
from typing import Protocol

from sgdtheory.training import RunDirectory, TrainConfig


class Folder(Protocol):
    """What is needed of a store."""

    folder: Path

    def directory(self, config: TrainConfig) -> Path: ...  # noqa: D102
    def set_aside(self, name: str) -> Path: ...  # noqa: D102
    def locked_names(self, names: Iterable[str]) -> AbstractContextManager[bool]: ...  # noqa: D102


def migrate(store: Folder) -> list[str]:
    """Rename the directories that 0.1.0 named, each under its lock; of two of one run keep the one that is further.

    A run that another process works on is left for the next sweep.

    Returns:
        Notes on what was set aside.
    """
    notes = []
    for directory in map(RunDirectory, sorted(store.folder.iterdir())):
        config = directory.renamed_from_0_1_0()
        if config is None:
            continue
        with store.locked_names({directory.path.name, config.fingerprint}) as free:
            if free and directory.renamed_from_0_1_0() is not None:  # nobody else was quicker
                notes += _rename(store, directory, config)
    return notes


def _rename(store: Folder, old: RunDirectory, config: TrainConfig) -> list[str]:
    new, notes = RunDirectory(store.directory(config)), []
    if new.path.exists():
        behind = old.progress(config) <= new.progress(config)
        worse, better = (old.path.name, new.path.name) if behind else (new.path.name, old.path.name)
        place = store.set_aside(worse)
        notes.append(f"{worse} was set aside as {place}: {better} is the same run, and as far or further")
        if behind:
            return notes
    old.rename(config)
    return notes
