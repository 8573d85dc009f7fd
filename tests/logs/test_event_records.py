"""TensorBoard's event files with damage: every record that is whole is read, and what is lost is said."""

import gzip
import struct
import time

import numpy as np
import pytest
from tensorboard.compat.tensorflow_stub.pywrap_tensorflow import masked_crc32c

import sgdtheory as st
from tests.logs import writers

RUN = {t: {"loss": 2 + 10 / t, "learning_rate": 0.01} for t in range(1, 41)}
HEAD, TAIL = 12, 4


@pytest.fixture
def event_file(tmp_path):
    (path,) = writers.write_tensorboard(tmp_path / "a", RUN).iterdir()
    return path


def records_of(content):
    """(first byte, length) of each record."""
    place, found = 0, []
    while place < len(content):
        (length,) = struct.unpack("<Q", content[place : place + 8])
        found.append((place, length))
        place += HEAD + length + TAIL
    return found


def read(path):
    (log,) = st.logs.read_logs(path.parent)
    return log


def test_every_byte_inverted(event_file):
    """No byte loses more than its record, and none is passed over in silence.

    Each of the run's numbers has a record of its own.
    """
    content = event_file.read_bytes()
    whole = read(event_file)
    assert whole.remarks == ()
    assert whole.step.tolist() == list(RUN)
    places = records_of(content)
    first, last = places[11][0], places[13][0]
    for place in [*range(first, last), len(content) - 1]:
        damaged = bytearray(content)
        damaged[place] ^= 0xFF
        event_file.write_bytes(damaged)
        log = read(event_file)
        lost = (~np.isin(whole.series("loss")[0], log.series("loss")[0])).sum()
        lost += (~np.isin(whole.series("learning_rate")[0], log.series("learning_rate")[0])).sum()
        assert lost == 1
        (remark,) = log.remarks
        assert "1 damaged record left out" in remark or "damaged bytes left out" in remark


def test_many_damaged_records(event_file):
    content = bytearray(event_file.read_bytes())
    places = records_of(content)
    for place, length in places[3:13]:
        content[place + HEAD + length // 2] ^= 1
    start, end = places[20][0] + 3, places[24][0] + 5  # three whole records, and parts of two
    del content[start:end]
    event_file.write_bytes(content)
    log = read(event_file)
    assert log.remarks[0].endswith("10 damaged records left out")
    assert "damaged bytes left out, with the records in them" in log.remarks[1]
    counted = sum(log.series(name)[0].size for name in ("loss", "learning_rate"))
    assert counted == 2 * len(RUN) - 10 - 5


@pytest.mark.parametrize("packed", [False, True])
def test_a_file_that_ends_within_a_record(packed, event_file):
    content = event_file.read_bytes()
    place, length = records_of(content)[-1]
    for cut in (place + 5, place + HEAD + length // 2, place + HEAD + length + 1):
        event_file.write_bytes(gzip.compress(content[:cut]) if packed else content[:cut])
        log = read(event_file)
        assert log.remarks == (f"{event_file.name}: the last record was cut, and is left out",)
        assert sum(log.series(name)[0].size for name in ("loss", "learning_rate")) == 2 * len(RUN) - 1
    event_file.write_bytes(content[:place])
    assert read(event_file).remarks == ()


def test_a_length_that_is_no_length(event_file):
    """The checksum is right, but the record would end beyond the file."""
    content = event_file.read_bytes()
    head = struct.pack("<Q", 1 << 40)
    event_file.write_bytes(content + head + struct.pack("<I", masked_crc32c(head)) + b"x" * 99)
    log = read(event_file)
    assert log.step.size == len(RUN)
    assert log.remarks == (f"{event_file.name}: the last record was cut, and is left out",)


def test_a_record_that_is_no_event(event_file):
    """Checksums are right, the content is not."""
    content, wrong = event_file.read_bytes(), b"\xff" * 30
    head = struct.pack("<Q", len(wrong))
    record = head + struct.pack("<I", masked_crc32c(head)) + wrong + struct.pack("<I", masked_crc32c(wrong))
    event_file.write_bytes(content + record + content[records_of(content)[-1][0] :])
    log = read(event_file)
    assert log.step.size == len(RUN)
    assert log.remarks[0] == f"{event_file.name}: 1 damaged record left out"


@pytest.mark.parametrize("tail", [bytes(1 << 20), b"\1\0\0\0\0" * (1 << 18)])
def test_much_that_is_no_record(tail, event_file):
    """Zeros, as a file system leaves them after a crash, and what looks like a length at every fifth byte."""
    event_file.write_bytes(event_file.read_bytes() + tail)
    log = read(event_file)
    assert log.step.size == len(RUN)
    assert log.remarks == (f"{event_file.name}: {len(tail):,} damaged bytes left out, with the records in them",)


def test_a_long_record_is_passed_over_and_a_long_gap_ends_the_file(event_file):
    """Neither is read: both have a length that no loss needs, and the file is sparse."""
    content = event_file.read_bytes()
    middle = records_of(content)[40][0]
    head = struct.pack("<Q", 4 << 30)
    head += struct.pack("<I", masked_crc32c(head))
    start = time.process_time()
    for gap, steps, lost in ((head, 40, ()), (bytes(8), 20, ("damaged bytes left out",))):
        with event_file.open("wb") as file:
            file.write(content[:middle] + gap)
            file.seek(middle + HEAD + (4 << 30) + TAIL)
            file.write(content[middle:])
        log = read(event_file)
        assert [part in remark for part, remark in zip(lost, log.remarks, strict=True)] == [True] * len(lost)
        assert abs(log.step.size - steps) <= 1
    assert time.process_time() - start < 10
