"""Files of logs, compressed by gzip or not, in UTF-8 or UTF-16, whatever their names end in."""

import io
import zlib
from collections.abc import Iterator
from pathlib import Path
from typing import Any, BinaryIO, TextIO

from sgdtheory._common.files import MOST_BYTES, TooLargeError, check_regular, check_size

HEAD = 1 << 16
GZIP = b"\x1f\x8b"  # Files of gzip begin with these two bytes.
POINTER = b"version https://git-lfs.github.com/spec/"  # Git LFS leaves a file that begins so in place of the content.
UTF_16 = b"\xff\xfe", b"\xfe\xff"  # Texts of PowerShell's > and of Excel begin with one of these byte-order marks.
OF_GZIP = 31  # With these window bits, zlib reads members of gzip and verifies their checksums.
# A longer line of text is no row of a log: a header of a thousand runs has some 100,000 characters.
LONGEST_LINE = 1 << 20


def open_text(path: Path) -> TextIO:
    """Open the lines of a text file, uncompressed; bytes that are no text become a replacement character.

    Of a compressed file that was cut off, as one that is still being written, the last line is left out if it does not
    end: it may have been cut within a number.

    Raises:
        ValueError: on reading, a line that is too long, or a compressed file that is damaged or unpacks to too much.
    """
    return _Lines(open_bytes(path), path)  # pyright: ignore[reportReturnType]


def open_bytes(path: Path) -> BinaryIO:
    """Open the bytes of a file, uncompressed, from its start on; a file that is not compressed can be sought.

    Raises:
        ValueError: a pipe or a device, or a pointer of Git LFS in the place of the file.
    """
    if is_pointer(path):
        raise ValueError(f"{path} is a Git LFS pointer, not the file itself: fetch the file with git lfs pull")
    if is_compressed(path):
        return io.BufferedReader(_Unpacked(path), HEAD)  # pyright: ignore[reportReturnType]
    return path.open("rb")


def open_sought(path: Path) -> BinaryIO:
    """Open the bytes of a file, uncompressed, in a way that can be sought."""
    if not is_compressed(path):
        return open_bytes(path)
    with open_bytes(path) as file:
        return io.BytesIO(file.read())


def first_bytes(path: Path) -> bytes:
    """Return the first 64 KiB of a file, uncompressed; none of a folder.

    Raises:
        ValueError: there is no such file, or it cannot be read.
    """
    try:
        if path.is_dir():
            return b""
        with open_bytes(path) as file:
            return file.read(HEAD)
    except OSError as error:
        raise ValueError(f"cannot read {path}: {error.strerror or error}") from None


def head_of(path: Path) -> str:
    """Return the beginning of a file as text; "" of folders and binary files.

    Raises:
        ValueError: there is no such file, or it cannot be read.
    """
    start = first_bytes(path)
    if b"\0" in start and not start.startswith(UTF_16):
        return ""
    return start.decode(_encoding(start), errors="replace")


def whole_text(path: Path) -> str:
    """Return all of a text file, which may be one long line.

    Raises:
        ValueError: it is too large, or a compressed file that is damaged.
    """
    check_size(path, size=path.stat().st_size)
    with open_bytes(path) as file:
        content = file.read()
    return content.decode(_encoding(content), errors="replace")


def _encoding(start: bytes) -> str:
    return "utf-16" if start.startswith(UTF_16) else "utf-8-sig"


def stem(path: Path) -> str:
    """Return the name of a file without its endings, run7 of run7.csv.gz; of a folder its name."""
    whole = path.resolve()
    if whole.is_dir():
        return whole.name
    inner = whole.with_suffix("") if whole.suffix == ".gz" else whole
    return inner.stem


def is_compressed(path: Path) -> bool:
    """Return whether a file begins as gzip's files do."""
    return _begins(path, GZIP)


def is_pointer(path: Path) -> bool:
    """Return whether Git LFS left a pointer in the place of a file."""
    return _begins(path, POINTER)


def _begins(path: Path, mark: bytes) -> bool:
    check_regular(path)
    with path.open("rb") as file:
        return file.read(len(mark)) == mark


def cut_remark(path: Path) -> str:
    """Return the remark on a compressed file that ends before its content does; "" on others.

    Raises:
        TooLargeError: a text, or the content of a compressed file, is larger than what is read.
    """
    if path.is_dir() or not is_compressed(path):
        if head_of(path):
            check_size(path, size=path.stat().st_size)
        return ""
    with _Unpacked(path) as unpacked:
        while unpacked.read(HEAD):
            pass
    return f"{path.name} ends within its compressed content: what came after it is missing" if unpacked.cut else ""


class _Unpacked(io.RawIOBase):
    """Content of the members of a gzip file, as far as it goes.

    Attributes:
        cut: whether the file ended within a member; known once all was read.
    """

    def __init__(self, path: Path) -> None:
        self._path, self._file, self._member = path, path.open("rb"), zlib.decompressobj(OF_GZIP)
        self._size, self.cut = 0, False

    def readable(self) -> bool:
        """Return that it is."""
        return True

    def close(self) -> None:
        """Close the file too."""
        self._file.close()
        super().close()

    def readinto(self, buffer: Any) -> int:
        """Unpack the next bytes."""
        try:
            data = self._next(len(buffer))
        except zlib.error as error:
            raise ValueError(f"cannot read {self._path}: {error}; it is damaged, copy the file again") from None
        self._size += len(data)
        if self._size > MOST_BYTES:  # a compressed file may be a thousand times as large unpacked
            raise TooLargeError(
                f"{self._path} unpacks to more than {MOST_BYTES >> 20} MiB; keep fewer rows of a text, or unpack other "
                "files with gunzip and give the file that it makes"
            )
        buffer[: len(data)] = data
        return len(data)

    def _next(self, most: int) -> bytes:
        while True:
            if self._member.eof:
                rest = self._member.unused_data.lstrip(b"\0") or self._file.read(HEAD).lstrip(b"\0")
                if not rest:
                    return b""
                self._member = zlib.decompressobj(OF_GZIP)
            else:
                rest = self._member.unconsumed_tail or self._file.read(HEAD)
                if not rest:
                    self.cut = True
                    return b""
            if data := self._member.decompress(rest, most):
                return data


class _Lines(io.TextIOWrapper):
    """Text whose lines are of limited length."""

    def __init__(self, file: BinaryIO, path: Path) -> None:
        with open_bytes(path) as beginning:
            encoding = _encoding(beginning.read(2))
        super().__init__(file, encoding=encoding, errors="replace", newline="")
        self._path, self._source, self._block = path, getattr(file, "raw", None), io.StringIO()
        self._rows = 0

    def __iter__(self) -> Iterator[str]:  # pyright: ignore[reportIncompatibleMethodOverride]
        """Yield the lines from here on; a call of `readline` for each would take four times as long."""
        while True:
            yield from iter(self._block.readline, "")  # whoever leaves an iterator of the block would close the block
            if not (block := self._next_block()):
                return
            self._block = io.StringIO(block, newline="")

    def __next__(self) -> str:
        return next(iter(self))

    def _next_block(self) -> str:
        """Return the next lines, whole ones but for the last of the file."""
        block = self.read(HEAD)
        if not block:
            return ""
        rest = self.readline(LONGEST_LINE + 1)  # of the last line, or a line more
        if len(rest) > LONGEST_LINE:
            raise ValueError(f"{self._path} has a line of more than {LONGEST_LINE:,} characters, no row of a log")
        block += rest
        self._rows += max(block.count("\n"), block.count("\r"))
        check_size(self._path, rows=self._rows)
        if block[-1] not in "\n\r" and getattr(self._source, "cut", False):
            return block[: 1 + max(block.rfind("\n"), block.rfind("\r"))]
        return block
