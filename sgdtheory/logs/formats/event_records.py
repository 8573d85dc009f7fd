"""The records of TensorBoard's event files, also of damaged ones, with a remark on those that are lost.

A record is its length n (8 bytes, little-endian), a checksum of these bytes, n bytes of content and a checksum of them.
A record whose content is damaged is left out, and the next one follows. Where the length is damaged, the next 12 bytes
whose checksum is right begin a record: by chance 1 in 4·10⁹ places looks like that.
"""

import os
import re
import struct
from collections.abc import Callable, Iterator
from typing import BinaryIO

HEAD, TAIL = 12, 4
PIECE = 1 << 20  # This many bytes are searched at once.
LENGTH = re.compile(rb"(?!\0{4})[\s\S]{4}\0{4}")  # The pattern matches the length of a record of 1 byte to 4 GiB.
# The rest of a file is given up after checksums have been tried at this many places, some 5 microseconds each. A file
# of small numbers has such a place every few bytes, an event file hardly any.
MOST_TRIES = 200_000
# The rest of a file is given up after this many bytes without a record. To search them takes 1.1 seconds if they are 0.
MOST_SEARCHED = 1 << 26
# Longer records are passed over unread: they are pictures or sound, and a checksum takes a second for 9 MiB.
LONGEST = 1 << 24


class EventRecords(Iterator[bytes]):
    """The contents of an event file's records that are whole, in order.

    Attributes:
        damaged: records left out, whose content is not what was written.
        lost: bytes left out, which belong to no record that can be read.
        cut: whether the file ends within a record.
    """

    def __init__(self, file: BinaryIO, checksum: Callable[[bytes], int]) -> None:
        """Take a file that can be sought, and a function for the masked CRC-32C of some bytes."""
        self._file, self._checksum = file, checksum
        self._size, self._place, self._tries = file.seek(0, os.SEEK_END), 0, 0
        self.damaged, self.lost, self.cut = 0, 0, False

    def __next__(self) -> bytes:
        while self._place < self._size:
            head = self._at(self._place, HEAD)
            length = self._length(head)
            if length is None and len(head) == HEAD:
                self._search()
                continue
            end = self._place + HEAD + TAIL + (length or 0)
            if length is None or end > self._size:
                self.cut, self._place = True, self._size
                break
            if length > LONGEST:
                self._place = end
                continue
            content = self._at(self._place + HEAD, length)
            self._place = end
            if struct.pack("<I", self._checksum(content)) == self._at(end - TAIL, TAIL):
                return content
            self.damaged += 1
        raise StopIteration

    @property
    def remarks(self) -> tuple[str, ...]:
        """Return remarks on records that were left out, once all are read."""
        found = []
        if self.damaged:
            found.append(f"{self.damaged} damaged record{'s' * (self.damaged > 1)} left out")
        if self.lost:
            found.append(f"{self.lost:,} damaged bytes left out, with the records in them")
        if self.cut:
            found.append("the last record was cut, and is left out")
        return tuple(found)

    def _at(self, place: int, size: int) -> bytes:
        self._file.seek(place)
        return self._file.read(size)

    def _length(self, head: bytes) -> int | None:
        """Return the length that 12 bytes say; None if they begin no record."""
        if len(head) < HEAD or struct.pack("<I", self._checksum(head[:8])) != head[8:]:
            return None
        return struct.unpack("<Q", head[:8])[0]

    def _search(self) -> None:
        """Go to the next place where a record begins, or to the end of the file."""
        start = self._place
        first = start + 1
        while first < min(self._size, start + MOST_SEARCHED):
            piece = self._at(first, PIECE + HEAD - 1)
            found = self._begin(piece)
            if found is not None:
                self._place = first + found
                self.lost += self._place - start
                return
            first += PIECE
        self.lost += self._size - start
        self._place = self._size

    def _begin(self, piece: bytes) -> int | None:
        """Return the place in a piece at which a record begins; None if none does."""
        place = 0
        while (found := LENGTH.search(piece, place)) and self._tries < MOST_TRIES:
            place = found.start()
            self._tries += 1
            if self._length(piece[place : place + HEAD]) is not None:
                return place
            place += 1
        return None
