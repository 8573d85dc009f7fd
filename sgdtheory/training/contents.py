"""Hashes of the files that a run reads: they are kept in its directory, so that a later edit is noticed."""

import functools
import hashlib
from pathlib import Path

from sgdtheory._common.files import check_regular, json_data, json_text, write_atomically
from sgdtheory.training.config import TrainConfig
from sgdtheory.training.custom_model import Custom
from sgdtheory.training.data import Arrays, Data, Tokens
from sgdtheory.training.named_model import NamedModel

CONTENTS = "contents.json"


def contents_of_data(data: Data) -> dict[str, str]:
    """Return the hash of each data file that exists by the flat field that names it; empty for built-in data."""
    if isinstance(data, Arrays):
        paths = {"features": data.features, "targets": data.targets}
    elif isinstance(data, Tokens):
        paths = {"tokens": data.path}
    else:
        return {}
    found = {name: file_hash(path) for name, path in paths.items()}
    return {name: digest for name, digest in found.items() if digest is not None}


def contents_of(config: TrainConfig) -> dict[str, str]:
    """Return the hashes of the data files and of the module of a custom model."""
    found = contents_of_data(config.data)
    source = config.model.source if isinstance(config.model, Custom | NamedModel) else None
    return found if source is None else found | {"entry_point": source}


def file_hash(path: str | Path) -> str | None:
    """Return the hash of a file's bytes; None if it cannot be read."""
    file = Path(path).expanduser()
    try:
        check_regular(file)
        stat = file.stat()
        return _hash(file, stat.st_mtime_ns, stat.st_size)
    except (OSError, ValueError):
        return None


@functools.lru_cache(maxsize=256)
def _hash(path: Path, modified: int, size: int) -> str:
    """Hash a file once for each modification time and size, as a sweep asks for it with every run."""
    del modified, size
    with path.open("rb") as file:
        return hashlib.file_digest(file, "sha256").hexdigest()[:16]


def write_contents(directory: Path, config: TrainConfig) -> None:
    """Write the hashes of the files that a run reads as it starts; nothing if it reads none."""
    if found := contents_of(config):
        write_atomically(directory / CONTENTS, json_text(found))


def check_contents(directory: Path, config: TrainConfig) -> None:
    """Check that the files of a config still have the hashes that its run in a directory has kept.

    Raises:
        ValueError: if one of them has been edited since.
    """
    try:
        check_regular(directory / CONTENTS)
        before = json_data((directory / CONTENTS).read_bytes())
    except (OSError, ValueError):  # The run reads no files, or is of a version that kept no hashes.
        return
    now = contents_of(config) if isinstance(before, dict) else {}
    for name, digest in now.items():
        if before.get(name, digest) != digest:
            raise ValueError(
                f"{name} {config.value(name)} has been edited since: its hash was {before[name]}, now it is {digest}"
            )
