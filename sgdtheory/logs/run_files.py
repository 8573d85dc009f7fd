"""Files that are logs, in folders that hold other files too."""

from collections.abc import Iterator
from pathlib import Path

from sgdtheory.logs.reading import Paths, format_of, read_logs
from sgdtheory.logs.training_log import COLUMNS


def run_files(paths: Paths) -> list[Path]:
    """The logs among files, and those that folders hold, at any depth; a folder that is a log itself is one.

    Args:
        paths: file or folder, or several. A file that is named is a log; of those in a folder the ones that some format
            reads, and finds a number in, are.

    Raises:
        ValueError: a folder that holds none.
    """
    found = []
    for path in map(Path, [paths] if isinstance(paths, str | Path) else paths):
        inside = [*_logs_in(path)] if path.is_dir() else [path]
        if not inside:
            raise ValueError(f"{path} holds no log of a known format")
        found += inside
    return found


def _logs_in(folder: Path) -> Iterator[Path]:
    if _is_log(folder):
        yield folder
        return
    for path in sorted(folder.iterdir()):
        if path.name.startswith("."):
            continue
        if path.is_dir():
            yield from _logs_in(path)
        elif _is_log(path):
            yield path


def _is_log(path: Path) -> bool:
    """Whether a format recognizes it, and finds a number in it: a table of anything is no log."""
    try:
        format_of(path)
        return path.is_dir() or any(log.has(column) for log in read_logs(path) for column in COLUMNS)
    except ValueError:
        return False
