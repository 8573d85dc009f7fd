"""A folder of runs, one directory a config, named by its hash: what is there counts, whoever computed it."""

import contextlib
import math
import os
from collections import Counter
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import replace
from pathlib import Path
from typing import NamedTuple

from filelock import FileLock, Timeout

from sgdtheory.sweep.old_stores import migrate
from sgdtheory.training import Run, RunDirectory, TrainConfig, TrainResult

ASIDE, LOCKS = "set-aside", ".locks"


class Entry(NamedTuple):
    """A run of the store.

    Attributes:
        name: of its directory.
        config: of the run; None if the directory is no run's.
        result: None if it has not ended.
        problem: why it cannot be used; None if it can.
    """

    name: str
    config: TrainConfig | None
    result: TrainResult | None
    problem: str | None


class Store:
    """`folder/<fingerprint of the config>/`, with config.json, checkpoint.npz, curve.csv and result.json.

    Several processes, on several machines with one file system, may use a store at once: a run is locked by who works
    on it, files are replaced whole, and directories that are not what their names say are moved to `set-aside/`.
    """

    def __init__(self, folder: str | Path):
        self.folder = Path(folder)

    def prepare(self) -> list[str]:
        """Make the folder, see that it can be written, and give runs of 0.1.0 their present names.

        Returns:
            Notes on what was set aside.

        Raises:
            OSError: it cannot; one sentence.
        """
        probe = self.folder / LOCKS / "store"
        try:
            probe.parent.mkdir(parents=True, exist_ok=True)
            probe.touch()
        except OSError as error:
            raise OSError(f"cannot write to the store {self.folder}: {error.strerror or error}") from None
        return migrate(self)

    def directory(self, config: TrainConfig) -> Path:
        """Of the config's run."""
        return self.folder / config.fingerprint

    def _run_directory(self, config: TrainConfig) -> RunDirectory:
        return RunDirectory(self.directory(config))

    def result(self, config: TrainConfig) -> TrainResult | None:
        """The config's result if its run has ended and its directory is whole."""
        directory = self._run_directory(config)
        if not directory.ended:
            return None
        try:
            return directory.result(config)
        except ValueError:
            return None

    def run(self, config: TrainConfig, *, keep_state: bool = True) -> tuple[Run, str | None]:
        """The config's run, to be advanced by who holds its lock, and a note if what was there was set aside."""
        directory = self._run_directory(config)
        directory.clean()
        try:
            directory.check(config)
            run = Run(config, directory.path, keep_state=keep_state)
        except ValueError as error:
            name = directory.path.name
            place = self.set_aside(name)
            return Run(config, directory.path, keep_state=keep_state), f"{name} was set aside as {place}: {error}"
        if run.ended:  # killed between its last checkpoint and its result
            run.save_result()
        return run, None

    def adopt(self, configs: Sequence[TrainConfig]) -> int:
        """Begin runs with what runs of the store with the same iterates have computed; how many there are.

        Runs that have begun are left alone, and so are those that another process works on, and those with an average
        that no run of the store has: it cannot be had from the end of a run.
        """
        fresh = [config for config in configs if not self._run_directory(config).begun(config)]
        sources: dict[str, list[TrainConfig]] = {}
        for config in self._configs() if fresh else ():
            sources.setdefault(config.trajectory, []).append(config)
        number = 0
        for config in fresh:
            named = [
                replace(other, model=config.model) for other in sources.get(config.trajectory, ())
            ]  # as it names it
            others = [other for other in named if other.fingerprint != config.fingerprint]
            others.sort(key=lambda other: (-other.max_steps, other.target_loss or -math.inf))  # the longest first
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
        """Those of runs that have a checkpoint."""
        for directory in map(RunDirectory, self.folder.iterdir()):
            if directory.has_checkpoint:
                with contextlib.suppress(ValueError):
                    config = directory.config()
                    if config.fingerprint == directory.path.name:
                        yield config

    def set_aside(self, name: str) -> Path:
        """Move a directory out of the way; where it is now."""
        place, number = self.folder / ASIDE / name, 1
        place.parent.mkdir(exist_ok=True)
        while place.exists():
            place, number = self.folder / ASIDE / f"{name}-{number}", number + 1
        (self.folder / name).rename(place)
        return place

    def entries(self) -> Iterator[Entry]:
        """All directories of the store, by name.

        Raises:
            ValueError: there is no such store.
        """
        if not self.folder.is_dir():
            raise ValueError(f"store must be a folder of runs, got {self.folder}, which is not there")
        found_entries: list[Entry] = []
        for found in sorted(os.scandir(self.folder), key=lambda found: found.name):
            if found.is_dir() and found.name not in (ASIDE, LOCKS):
                found_entries.append(self._entry(RunDirectory(found.path)))
        twins = Counter(entry.config.fingerprint for entry in found_entries if entry.config)
        for entry in found_entries:
            several = entry.config is not None and twins[entry.config.fingerprint] > 1
            yield self._the_furthest(entry, found_entries) if several else entry

    def _the_furthest(self, entry: Entry, entries: Sequence[Entry]) -> Entry:
        """The entry, or why it is left out: 0.1.0 had several directories for one run, and another is further."""
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
        """As `locked`, of directories by their names."""
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
