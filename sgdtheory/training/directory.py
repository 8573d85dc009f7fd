"""The directory of a run as one object: what it holds, of which run it is, and how far that is."""

from pathlib import Path

from sgdtheory._common.files import json_data
from sgdtheory.training.checkpoint import CHECKPOINT, CONFIG, RESULT, is_of, read_checkpoint, read_result, write_config
from sgdtheory.training.config import TrainConfig, hash_of
from sgdtheory.training.config_file import read_config
from sgdtheory.training.contents import CONTENTS, check_contents
from sgdtheory.training.migration import is_of_0_1_0
from sgdtheory.training.result import TrainResult
from sgdtheory.training.reuse import adopt

WRITING = ".writing-*"  # what a killed process may leave


class RunDirectory:
    """config.json, checkpoint.npz, and, when the run has ended, curve.csv and result.json.

    A run that reads data or a model of your own from files has contents.json too: their hashes.

    >>> from sgdtheory.training import RunDirectory
    >>> RunDirectory("nowhere").ended
    False
    """

    def __init__(self, path: str | Path):
        self.path = Path(path)

    @property
    def ended(self) -> bool:
        """Whether it has a result."""
        return (self.path / RESULT).exists()

    @property
    def has_checkpoint(self) -> bool:
        """Whether it has a state to go on from."""
        return (self.path / CHECKPOINT).exists()

    def config(self) -> TrainConfig:
        """The run's.

        Raises:
            ValueError: it is no run's directory.
        """
        return read_config(self.path / CONFIG)

    def is_of(self, config: TrainConfig) -> bool:
        """Whether it is the run of this config.

        Raises:
            ValueError: it is no run's directory.
        """
        return is_of(self.path, config)

    def begun(self, config: TrainConfig) -> bool:
        """Whether there is more in it than this run's config."""
        if not self.path.is_dir():
            return self.path.exists()
        names = {found.name for found in self.path.iterdir() if not found.match(WRITING)}
        try:
            return bool(names - {CONFIG, CONTENTS}) or (bool(names) and not self.is_of(config))
        except ValueError:
            return True

    def result(self, config: TrainConfig) -> TrainResult:
        """The result of the run of this config.

        Raises:
            ValueError: it is another run's, its files are damaged, or its data or model have been edited since.
        """
        check_contents(self.path, config)
        return read_result(self.path, config)

    def progress(self, config: TrainConfig) -> tuple[bool, int]:
        """How far the run of this config is: whether it has ended, and its steps; −1 if it cannot be read."""
        try:
            if self.ended:
                return True, self.result(config).num_steps
            found = read_checkpoint(self.path, config)
            return False, int(found[0].step) if found else 0
        except ValueError:
            return False, -1

    def check(self, config: TrainConfig) -> None:
        """That it is empty, not there, or whole and of this config.

        Raises:
            ValueError: it is not; the message is what is wrong with it.
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
        """Remove what a killed process left half written."""
        for left in self.path.glob(WRITING):
            left.unlink(missing_ok=True)

    def adopt(self, config: TrainConfig, source: "RunDirectory", of: TrainConfig) -> bool:
        """Begin the run of `config` with what the run `of` in `source`, of the same iterates, has computed.

        Returns:
            Whether it could be; not if the checkpoint of the source is damaged, or its data or model were edited.
        """
        try:
            check_contents(source.path, of)
            return adopt(self.path, config, source.path, of)
        except ValueError:
            return False

    def renamed_from_0_1_0(self) -> TrainConfig | None:
        """The run of a directory that 0.1.0 named, if this version names it otherwise; None for any other."""
        try:
            fields = json_data((self.path / CONFIG).read_bytes())
            if not isinstance(fields, dict) or not is_of_0_1_0(fields) or hash_of(fields) != self.path.name:
                return None
            config = self.config()
        except (OSError, ValueError, LookupError):
            return None
        return config if config.fingerprint != self.path.name else None

    def rename(self, config: TrainConfig) -> None:
        """Give the directory the name that its run has in a store now, and its config the present form."""
        write_config(self.path, config)
        self.path.rename(self.path.with_name(config.fingerprint))
