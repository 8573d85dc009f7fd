"""The directory of a run as one object: its contents, the run that it belongs to, and the run's progress."""

from pathlib import Path

from sgdtheory._common.files import json_data
from sgdtheory.training.checkpoint import CHECKPOINT, CONFIG, RESULT, is_of, read_checkpoint, read_result, write_config
from sgdtheory.training.config import TrainConfig, hash_of
from sgdtheory.training.config_file import read_config
from sgdtheory.training.contents import CONTENTS, check_contents
from sgdtheory.training.migration import is_of_0_1_0
from sgdtheory.training.result import TrainResult
from sgdtheory.training.reuse import adopt

WRITING = ".writing-*"  # A killed process may leave such temporary files.


class RunDirectory:
    """The directory of a run: config.json, checkpoint.npz, and, when it has ended, curve.csv and result.json.

    A run that reads data or a custom model from files also has contents.json with their hashes.

    >>> from sgdtheory.training import RunDirectory
    >>> RunDirectory("nowhere").ended
    False
    """

    def __init__(self, path: str | Path):
        self.path = Path(path)

    @property
    def ended(self) -> bool:
        """Return whether the directory has a result."""
        return (self.path / RESULT).exists()

    @property
    def has_checkpoint(self) -> bool:
        """Return whether the directory has a state from which the run can continue."""
        return (self.path / CHECKPOINT).exists()

    def config(self) -> TrainConfig:
        """Read the config of the run.

        Raises:
            ValueError: if it is not the directory of a run.
        """
        return read_config(self.path / CONFIG)

    def is_of(self, config: TrainConfig) -> bool:
        """Return whether the directory holds the run of this config.

        Raises:
            ValueError: if it is not the directory of a run.
        """
        return is_of(self.path, config)

    def begun(self, config: TrainConfig) -> bool:
        """Return whether the directory contains anything besides this run's config."""
        if not self.path.is_dir():
            return self.path.exists()
        names = {file.name for file in self.path.iterdir() if not file.match(WRITING)}
        try:
            return bool(names - {CONFIG, CONTENTS}) or (bool(names) and not self.is_of(config))
        except ValueError:
            return True

    def result(self, config: TrainConfig) -> TrainResult:
        """Read the result of the run of this config.

        Raises:
            ValueError: if it belongs to another run, its files are damaged, or its data or model have been edited.
        """
        check_contents(self.path, config)
        return read_result(self.path, config)

    def progress(self, config: TrainConfig) -> tuple[bool, int]:
        """Return whether the run of this config has ended, and its number of steps; −1 if that cannot be read."""
        try:
            if self.ended:
                return True, self.result(config).num_steps
            checkpoint = read_checkpoint(self.path, config)
            return False, int(checkpoint[0].step) if checkpoint else 0
        except ValueError:
            return False, -1

    def check(self, config: TrainConfig) -> None:
        """Check that the directory is missing, empty, or an undamaged one of this config.

        Raises:
            ValueError: if it is none of these; the message says what is wrong.
        """
        if self.path.exists() and not self.path.is_dir():
            raise ValueError("it is no directory")
        if self.path.exists() and any(self.path.iterdir()):
            check_contents(self.path, config)
            if not self.is_of(config):
                raise ValueError("its config is another run's")
            if self.ended:
                self.result(config)

    def clean(self) -> None:
        """Remove temporary files that a killed process has left."""
        for file in self.path.glob(WRITING):
            file.unlink(missing_ok=True)

    def adopt(self, config: TrainConfig, source: "RunDirectory", of: TrainConfig) -> bool:
        """Start the run of `config` from the computed steps of the run `of` in `source`, which has the same iterates.

        Returns:
            True if that was possible; False if the source's checkpoint is damaged, or its data or model were edited.
        """
        try:
            check_contents(source.path, of)
            return adopt(self.path, config, source.path, of)
        except ValueError:
            return False

    def renamed_from_0_1_0(self) -> TrainConfig | None:
        """Return the config of a directory that 0.1.0 named, if this version names it differently; else None."""
        try:
            fields = json_data((self.path / CONFIG).read_bytes())
            if not isinstance(fields, dict) or not is_of_0_1_0(fields) or hash_of(fields) != self.path.name:
                return None
            config = self.config()
        except (OSError, ValueError, LookupError):
            return None
        return config if config.fingerprint != self.path.name else None

    def rename(self, config: TrainConfig) -> None:
        """Give the directory its run's present name in a store, and write its config in the present form."""
        write_config(self.path, config)
        self.path.rename(self.path.with_name(config.fingerprint))
