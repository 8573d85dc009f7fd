"""What a run reads from files that may be edited: their hashes, which are kept beside the run that has seen them."""

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
    """Flat field → hash of the file that it names, for data from files; without files that are not there."""
    if isinstance(data, Arrays):
        paths = {"features": data.features, "targets": data.targets}
    elif isinstance(data, Tokens):
        paths = {"tokens": data.path}
    else:
        return {}
    found = {name: file_hash(path) for name, path in paths.items()}
    return {name: digest for name, digest in found.items() if digest is not None}


def contents_of(config: TrainConfig) -> dict[str, str]:
    """Those of its data, and of the module that its own model was found in."""
    found = contents_of_data(config.data)
    source = config.model.source if isinstance(config.model, Custom | NamedModel) else None
    return found if source is None else found | {"entry_point": source}


def file_hash(path: str | Path) -> str | None:
    """Of a file's bytes; None if it cannot be read."""
    place = Path(path).expanduser()
    try:
        check_regular(place)
        stat = place.stat()
        return _hash(place, stat.st_mtime_ns, stat.st_size)
    except (OSError, ValueError):
        return None


@functools.lru_cache(maxsize=256)
def _hash(path: Path, modified: int, size: int) -> str:
    """Read once as long as its time and size stay: a sweep asks for each of its runs."""
    del modified, size
    with path.open("rb") as file:
        return hashlib.file_digest(file, "sha256").hexdigest()[:16]


def write_contents(directory: Path, config: TrainConfig) -> None:
    """Keep what a run that begins now reads; nothing where it reads no files."""
    if found := contents_of(config):
        write_atomically(directory / CONTENTS, json_text(found))


def check_contents(directory: Path, config: TrainConfig) -> None:
    """That the files of a config are those that its run in a directory has seen, as far as they are known.

    Raises:
        ValueError: one has been edited since.
    """
    try:
        check_regular(directory / CONTENTS)
        before = json_data((directory / CONTENTS).read_bytes())
    except (OSError, ValueError):  # of runs without files, or of a version that kept no hashes
        return
    now = contents_of(config) if isinstance(before, dict) else {}
    for name, digest in now.items():
        if before.get(name, digest) != digest:
            raise ValueError(
                f"{name} {config.value(name)} has been edited since: its hash was {before[name]}, now it is {digest}"
            )
