"""Files that grow: when to read them again, and what of them is whole."""

from collections.abc import Callable, Iterator
from pathlib import Path

ENDS = b"\n}]"  # A text that ends with one of these bytes is whole.
BINARY = 64  # A file with a zero byte among this many first bytes is binary, as TensorBoard's are.
COMPRESSED = b"\x1f\x8b"  # Files of gzip begin with these bytes; their last byte does not show whether they are whole.


def versions(path: Path, wait: Callable[[], None]) -> Iterator[None]:
    """Yield once for a file or folder as it is, when it is there, and again after each change; wait between looks."""
    seen: dict[Path, tuple[int, int]] = {}
    while True:
        files = path.rglob("*") if path.is_dir() else [path]
        now = {file: (file.stat().st_size, file.stat().st_mtime_ns) for file in files if file.is_file()}
        if now != seen:
            seen = now
            yield
        wait()


def whole_lines(path: Path, folder: Path) -> Path:
    """A file of its name in a folder, without the line that is being written; itself where nothing is half.

    A number that is cut short is a number all the same: 3.41 is 3 for a moment, or for long where a writer buffers.
    """
    if not path.is_file():
        return path
    content = path.read_bytes()
    if (
        content.startswith(COMPRESSED)
        or b"\0" in content[:BINARY]
        or content[-1:] in (b"", *(bytes([each]) for each in ENDS))
    ):
        return path
    copy = folder / path.name
    copy.write_bytes(content[: content.rfind(b"\n") + 1])
    return copy
