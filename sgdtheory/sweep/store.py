"""A store: a folder of runs with one directory per config, named by its hash, which several processes may share."""

import contextlib
import math
import os
from collections import Counter
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import replace
from pathlib import Path
from typing import NamedTuple

from filelock import FileLock, Timeout

from sgdtheory.training import Run, RunDirectory, TrainConfig, TrainResult

ASIDE, LOCKS = "set-aside", ".locks"


class Entry(NamedTuple):
    """A directory of the store.

    Attributes:
        name: name of the directory.
        config: config of the run; None if the directory holds no valid run.
        result: result of the run; None if it has not ended.
        problem: reason why the directory cannot be used; None if it can.
    """

    name: str
    config: TrainConfig | None
    result: TrainResult | None
    problem: str | None


class Store:
    """A folder with the files of each run in `folder/<fingerprint of the config>/`.

    Several processes, also on several machines with a common file system, may use a store at the same time. A process
    locks the runs that it works on, files are replaced atomically, and directories that do not fit their names are
    moved to `set-aside/`.
    """

    def __init__(self, folder: str | Path):
        self.folder = Path(folder)

    def prepare(self) -> list[str]:
        """Make the folder, check that it can be written, and give runs of 0.1.0 their present names.

        Returns:
            Notes on directories that were set aside.

        Raises:
            OSError: if the folder cannot be written.
        """
        probe = self.folder / LOCKS / "store"
        try:
            probe.parent.mkdir(parents=True, exist_ok=True)
            probe.touch()
        except OSError as error:
            raise OSError(f"cannot write to the store {self.folder}: {error.strerror or error}") from None
        return self._migrate()

    def _migrate(self) -> list[str]:
        """Rename the directories of 0.1.0, each under its lock; of two of the same run keep the one with more steps.

        In that version one run could have several directories: unused settings changed their names. A run that another
        process works on is left for the next sweep.

        Returns:
            Notes on directories that were set aside.
        """
        notes = []
        for directory in map(RunDirectory, sorted(self.folder.iterdir())):
            config = directory.renamed_from_0_1_0()
            if config is None:
                continue
            with self.locked_names({directory.path.name, config.fingerprint}) as free:
                # Another process may have renamed the directory before the lock was taken.
                if free and directory.renamed_from_0_1_0() is not None:
                    notes += self._rename(directory, config)
        return notes

    def _rename(self, old: RunDirectory, config: TrainConfig) -> list[str]:
        new, notes = self._run_directory(config), []
        if new.path.exists():
            behind = old.progress(config) <= new.progress(config)
            worse, better = (old.path.name, new.path.name) if behind else (new.path.name, old.path.name)
            moved_to = self.set_aside(worse)
            notes.append(f"{worse} was set aside as {moved_to}: {better} is the same run, and as far or further")
            if behind:
                return notes
        old.rename(config)
        return notes

    def directory(self, config: TrainConfig) -> Path:
        """Return the directory of the config's run."""
        return self.folder / config.fingerprint

    def _run_directory(self, config: TrainConfig) -> RunDirectory:
        return RunDirectory(self.directory(config))

    def result(self, config: TrainConfig) -> TrainResult | None:
        """Return the config's result if its run has ended and its files are valid; else None."""
        directory = self._run_directory(config)
        if not directory.ended:
            return None
        try:
            return directory.result(config)
        except ValueError:
            return None

    def run(self, config: TrainConfig, *, keep_state: bool = True) -> tuple[Run, str | None]:
        """Open the config's run, whose lock the caller must hold; also return a note if old files were set aside."""
        directory = self._run_directory(config)
        directory.clean()
        try:
            directory.check(config)
            run = Run(config, directory.path, keep_state=keep_state)
        except ValueError as error:
            name = directory.path.name
            moved_to = self.set_aside(name)
            return Run(config, directory.path, keep_state=keep_state), f"{name} was set aside as {moved_to}: {error}"
        if run.ended:  # A process was killed between the last checkpoint and the result.
            run.save_result()
        return run, None

    def adopt(self, configs: Sequence[TrainConfig]) -> int:
        """Start runs from stored runs with the same iterates, and return the number of runs that were started.

        Runs that have begun, or that another process works on, are not changed. A run with an average that no stored
        run has is not started either, because the last iterate does not determine an average.
        """
        fresh = [config for config in configs if not self._run_directory(config).begun(config)]
        sources: dict[str, list[TrainConfig]] = {}
        for config in self._configs() if fresh else ():
            sources.setdefault(config.trajectory, []).append(config)
        number = 0
        for config in fresh:
            # A stored config only names its model; the same model of the new config may be imported.
            named = [replace(other, model=config.model) for other in sources.get(config.trajectory, ())]
            others = [other for other in named if other.fingerprint != config.fingerprint]
            others.sort(key=lambda other: (-other.max_steps, other.target_loss or -math.inf))  # The longest run first.
            if not others:
                continue
            with self.locked((config,)) as free:
                number += (
                    free
                    and not self._run_directory(config).begun(config)
                    and any(
                        self._run_directory(config).adopt(config, self._run_directory(other), other) for other in others
                    )
                )
        return number

    def _configs(self) -> Iterator[TrainConfig]:
        """Generate the configs of runs that have a checkpoint."""
        for directory in map(RunDirectory, self.folder.iterdir()):
            if directory.has_checkpoint:
                with contextlib.suppress(ValueError):
                    config = directory.config()
                    if config.fingerprint == directory.path.name:
                        yield config

    def set_aside(self, name: str) -> Path:
        """Move a directory out of the way, and return its new path."""
        path, number = self.folder / ASIDE / name, 1
        path.parent.mkdir(exist_ok=True)
        while path.exists():
            path, number = self.folder / ASIDE / f"{name}-{number}", number + 1
        (self.folder / name).rename(path)
        return path

    def entries(self) -> Iterator[Entry]:
        """Generate all directories of the store in the order of their names.

        Raises:
            ValueError: if there is no such store.
        """
        if not self.folder.is_dir():
            raise ValueError(f"store must be a folder of runs, got {self.folder}, which is not there")
        entries: list[Entry] = []
        for item in sorted(os.scandir(self.folder), key=lambda item: item.name):
            if item.is_dir() and item.name not in (ASIDE, LOCKS):
                entries.append(self._entry(RunDirectory(item.path)))
        directories = Counter(entry.config.fingerprint for entry in entries if entry.config)
        for entry in entries:
            several = entry.config is not None and directories[entry.config.fingerprint] > 1
            yield self._if_furthest(entry, entries) if several else entry

    def _if_furthest(self, entry: Entry, entries: Sequence[Entry]) -> Entry:
        """Return the entry, with a problem if another directory of the same run (of 0.1.0) has more steps."""
        config = entry.config
        assert config is not None
        names = [each.name for each in entries if each.config == config]
        best = max(names, key=lambda name: RunDirectory(self.folder / name).progress(config))
        same = f"{best} is the same run, and as far or further"
        return entry if entry.name == best else Entry(entry.name, None, None, same)

    def _entry(self, directory: RunDirectory) -> Entry:
        name = directory.path.name
        try:
            config = directory.config()
            if config.fingerprint != name and directory.renamed_from_0_1_0() is None:
                return Entry(name, None, None, "its config is another run's")
            return Entry(name, config, directory.result(config) if directory.ended else None, None)
        except ValueError as error:
            return Entry(name, None, None, str(error))

    def locked(self, configs: Sequence[TrainConfig]) -> contextlib.AbstractContextManager[bool]:
        """Hold the locks of some runs; False if another process has one of them.

        The operating system frees the locks of a process that is killed.
        """
        return self.locked_names({config.fingerprint for config in configs})

    @contextlib.contextmanager
    def locked_names(self, names: Iterable[str]) -> Iterator[bool]:
        """Hold the locks of directories by their names; False if another process has one of them."""
        with contextlib.ExitStack() as stack:
            try:
                for name in sorted(names):
                    path = self.folder / LOCKS / name
                    stack.enter_context(FileLock(path, blocking=False, thread_local=False))
            except Timeout:
                stack.close()
                yield False
                return
            yield True
