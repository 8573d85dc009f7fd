"""Which format a file is of, and which files are logs, in folders that hold other files too."""

from collections.abc import Iterator, Sequence
from pathlib import Path

from sgdtheory.logs.column_names import ColumnNames
from sgdtheory.logs.files import first_bytes, head_of
from sgdtheory.logs.formats.format import AbstractLogFormat
from sgdtheory.logs.formats.registry import FORMATS
from sgdtheory.logs.training_log import COLUMNS

Paths = str | Path | Sequence[str | Path]


def format_of(path: Path, own: Sequence[AbstractLogFormat] = ()) -> AbstractLogFormat:
    """The first format that recognizes a file or folder, the user's own before those of the registry.

    Raises:
        ValueError: none does, or it is empty, or cannot be read.
    """
    head = head_of(path)
    for each in (*own, *FORMATS):
        if each.recognizes(path, head):
            return each
    if not path.is_dir() and not first_bytes(path).strip():
        raise ValueError(f"{path} is empty; give a file with rows, at least one a logged step")
    kind = "folder" if path.is_dir() else "file"
    raise ValueError(
        f"{path} is a {kind} of none of the formats that are known ({', '.join(each.name for each in FORMATS)}); write "
        "a CSV file with the columns step, learning_rate and loss"
    )


def run_files(paths: Paths, own: Sequence[AbstractLogFormat] = ()) -> list[Path]:
    """The logs among files, and those that folders hold, at any depth; a folder that is a log itself is one.

    Args:
        paths: file or folder, or several. A file that is named is a log; of those in a folder the ones that some format
            reads, and finds a number in, are.
        own: formats of the user's.

    Raises:
        ValueError: a folder that holds none.
    """
    found = []
    for path in map(Path, [paths] if isinstance(paths, str | Path) else paths):
        inside = [*_logs_in(path, own)] if path.is_dir() else [path]
        if not inside:
            raise ValueError(f"{path} holds no log of a known format")
        found += inside
    return found


def _logs_in(folder: Path, own: Sequence[AbstractLogFormat]) -> Iterator[Path]:
    if _is_log(folder, own):
        yield folder
        return
    for path in sorted(folder.iterdir()):
        if path.name.startswith("."):
            continue
        if path.is_dir():
            yield from _logs_in(path, own)
        elif _is_log(path, own):
            yield path


def _is_log(path: Path, own: Sequence[AbstractLogFormat]) -> bool:
    """Whether a format recognizes it, and finds a number in it: a table of anything is no log."""
    try:
        found = format_of(path, own)
        return path.is_dir() or any(log.has(each) for log in found.read(path, ColumnNames()) for each in COLUMNS)
    except ValueError:
        return False
