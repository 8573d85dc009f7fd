"""Files that grow: when to read them again."""

from collections.abc import Callable, Iterator, Sequence
from pathlib import Path

LOOKS = 3  # at a half-written last line, before it is read as it stands: some writers end without a line break
ENDS = b"\n}]"  # of a text that is whole
COMPRESSED = b"\x1f\x8b"  # first bytes of gzip, whose last byte tells nothing


def versions(paths: Sequence[Path], wait: Callable[[], None]) -> Iterator[None]:
    """Once for files as they are, and again after each change, when their last lines are whole.

    Args:
        paths: files or folders; what does not exist yet is waited for.
        wait: sleeps between looks.
    """
    seen: object = None
    looks = 0
    while True:
        now = _sizes(paths)
        if now and now != seen:
            looks += 1
            if looks > LOOKS or all(map(_whole, paths)):
                seen = now
                looks = 0
                yield
        wait()


def _sizes(paths: Sequence[Path]) -> tuple[tuple[str, int, int], ...]:
    """Of all files: path, bytes, and when they were written."""
    files = [file for path in paths for file in (sorted(path.rglob("*")) if path.is_dir() else [path])]
    return tuple((str(file), file.stat().st_size, file.stat().st_mtime_ns) for file in files if file.is_file())


def _whole(path: Path) -> bool:
    """Whether a file does not end within a line; folders hold records of their own."""
    if not path.is_file():
        return True
    with path.open("rb") as file:
        if file.read(len(COMPRESSED)) == COMPRESSED:
            return True
        file.seek(max(path.stat().st_size - 1, 0))
        return file.read(1) in (*(bytes([each]) for each in ENDS), b"")
