"""Files of logs, compressed by gzip or not, whatever their names end in."""

import gzip
from pathlib import Path
from typing import BinaryIO, TextIO

HEAD = 1 << 16
GZIP = b"\x1f\x8b"  # first two bytes


def open_text(path: Path) -> TextIO:
    """Lines of a text file in UTF-8, uncompressed; what is no UTF-8 becomes a replacement character."""
    if is_compressed(path):
        return gzip.open(path, "rt", encoding="utf-8-sig", errors="replace", newline="")
    return path.open(encoding="utf-8-sig", errors="replace", newline="")


def open_bytes(path: Path) -> BinaryIO:
    """Bytes of a file, uncompressed, that can be sought."""
    return gzip.open(path, "rb") if is_compressed(path) else path.open("rb")  # pyright: ignore[reportReturnType]


def first_bytes(path: Path) -> bytes:
    """The first 64 KiB of a file, uncompressed; none of a folder.

    Raises:
        ValueError: there is no such file, or it cannot be read.
    """
    if path.is_dir():
        return b""
    try:
        with open_bytes(path) as file:
            return file.read(HEAD)
    except (OSError, EOFError) as error:
        raise ValueError(f"cannot read {path}: {getattr(error, 'strerror', None) or error}") from None


def head_of(path: Path) -> str:
    """Its beginning as text; "" of folders and binary files.

    Raises:
        ValueError: there is no such file, or it cannot be read.
    """
    start = first_bytes(path)
    return "" if b"\0" in start else start.decode("utf-8-sig", errors="replace")


def stem(path: Path) -> str:
    """The name of a file without its endings: run7 of run7.csv.gz; of a folder its name."""
    whole = path.resolve()
    if whole.is_dir():
        return whole.name
    inner = whole.with_suffix("") if whole.suffix == ".gz" else whole
    return inner.stem


def is_compressed(path: Path) -> bool:
    """Whether it begins as gzip's files do."""
    with path.open("rb") as file:
        return file.read(2) == GZIP
