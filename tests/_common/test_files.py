import csv
import io
import json
import os
import random
import subprocess
import sys
import time
from pathlib import Path

import numpy as np
import pytest

from sgdtheory._common import files
from sgdtheory._common.files import csv_columns, csv_number, csv_text, json_text, write_atomically

WRITERS = {
    "atomic": f"import runpy; write = runpy.run_path({files.__file__!r})['write_atomically']",
    "naive": "from pathlib import Path; write = lambda path, data: Path(path).write_bytes(data)",
}
LOOP = """
import sys
path, size = sys.argv[1], int(sys.argv[2])
print("ready", flush=True)
while True:
    for letter in (b"a", b"b"):
        write(path, letter * size)
"""


def names(directory):
    return [path.name for path in directory.iterdir()]


@pytest.mark.parametrize(
    ("content", "stored"), [("Größe α\n", "Größe α\n".encode()), (b"\x00\xff", b"\x00\xff"), ("", b"")]
)
def test_content(tmp_path, content, stored):
    path = tmp_path / "result.txt"
    assert write_atomically(path, content) == path
    assert path.read_bytes() == stored
    assert names(tmp_path) == ["result.txt"]


def test_parents_are_made_and_a_string_is_a_path(tmp_path):
    path = write_atomically(str(tmp_path / "some" / "where" / "x.json"), "{}")
    assert path == tmp_path / "some" / "where" / "x.json"
    assert path.read_text() == "{}"


def test_old_file_is_replaced(tmp_path):
    path = tmp_path / "x"
    for content in ("a longer first content", "second"):
        write_atomically(path, content)
        assert path.read_text() == content
    assert names(tmp_path) == ["x"]


@pytest.mark.parametrize("failure", [OSError("disk full"), KeyboardInterrupt()])
@pytest.mark.parametrize(("owner", "name"), [(Path, "replace"), (Path, "chmod"), (os, "fsync")])
def test_failed_write_leaves_the_old_file_alone(tmp_path, monkeypatch, owner, name, failure):
    path = tmp_path / "x"
    path.write_text("old")

    def fail(*_):
        raise failure

    monkeypatch.setattr(owner, name, fail)
    with pytest.raises(type(failure)):
        write_atomically(path, "new")
    assert path.read_text() == "old"
    assert names(tmp_path) == ["x"]


def test_content_of_a_wrong_type_leaves_nothing(tmp_path):
    with pytest.raises(TypeError):
        write_atomically(tmp_path / "x", 3.5)  # pyright: ignore[reportArgumentType]
    assert names(tmp_path) == []


def test_target_that_is_a_directory(tmp_path):
    (tmp_path / "x").mkdir()
    with pytest.raises(IsADirectoryError, match=r"cannot write .*x: it is a folder; name a file in it"):
        write_atomically(tmp_path / "x", "new")
    assert names(tmp_path) == ["x"]


@pytest.mark.parametrize(("umask", "mode"), [(0o022, 0o644), (0o027, 0o640), (0o077, 0o600), (0o002, 0o664)])
def test_permissions_follow_the_umask(tmp_path, umask, mode):
    before = os.umask(umask)
    try:
        path = write_atomically(tmp_path / "x", "content")
        assert os.umask(umask) == umask  # and the umask itself is what it was
    finally:
        os.umask(before)
    assert path.stat().st_mode & 0o777 == mode


def torn_files(directory, writer, kills, size=3_000_000):
    """Count the SIGKILLs, of `kills` at random moments of endless writing, that leave a file neither old nor new."""
    path, pause, torn = directory / "result.bin", random.Random(0), 0
    for _ in range(kills):
        path.write_bytes(b"b" * size)
        command = [sys.executable, "-c", f"{WRITERS[writer]}\n{LOOP}", str(path), str(size)]
        with subprocess.Popen(command, stdout=subprocess.PIPE) as process:
            assert process.stdout is not None
            process.stdout.readline()
            time.sleep(pause.uniform(0.0, 0.06))
            process.kill()
        torn += path.read_bytes() not in (b"a" * size, b"b" * size)
    return torn


@pytest.mark.slow
def test_killed_in_mid_write(tmp_path):
    assert torn_files(tmp_path, "atomic", kills=15) == 0


@pytest.mark.slow
def test_killed_in_mid_write_without_care(tmp_path):
    """Negative control: the same kills do catch a plain write half done."""
    assert torn_files(tmp_path, "naive", kills=15) > 0


def test_csv_reads_back_as_it_was():
    numbers = np.array([0.1, 1 / 3, 1e-300, np.inf])
    text = csv_columns({"x": numbers, 'a "name", quoted': ["plain", "with, comma", None, 'with "quotes"']})
    assert "\r" not in text
    rows = list(csv.reader(io.StringIO(text)))
    assert rows[0] == ["x", 'a "name", quoted']
    assert [float(row[0]) for row in rows[1:]] == numbers.tolist()
    assert [row[1] for row in rows[1:]] == ["plain", "with, comma", "", 'with "quotes"']
    assert csv_text(["a"], [[1], [None]]) == 'a\n1\n""\n'
    with pytest.raises(ValueError, match="zip"):
        csv_columns({"a": [1], "b": [1, 2]})


@pytest.mark.parametrize("kind", [float, np.float64, np.float32])
def test_csv_numbers_that_are_not_finite(kind):
    """R, Julia, pandas and databases can read the cells: a column of numbers has no text except Inf."""
    values = [kind("nan"), None, kind("inf"), kind("-inf"), kind(1.5)]
    assert csv_text(["x", "y"], [[value, 1] for value in values]) == "x,y\n,1\n,1\nInf,1\n-Inf,1\n1.5,1\n"
    assert csv_columns({"x": np.array([np.nan, -np.inf]), "y": np.array([1, 2])}) == "x,y\n,1\n-Inf,2\n"


def test_cells_of_this_version_and_of_0_1_are_read():
    cells = "", "nan", "Inf", "inf", "-Inf", "-inf", "1e-3"
    numbers = np.nan, np.nan, np.inf, np.inf, -np.inf, -np.inf, 1e-3
    np.testing.assert_equal([csv_number(cell) for cell in cells], numbers)
    with pytest.raises(ValueError, match="'many' is not a number"):
        csv_number("many")


def test_json_is_strict():
    """One rule for numbers that are not finite, of Python's or NumPy's."""
    text = json_text({"a": np.inf, "b": np.float64(2.0), "c": (1, np.nan), "d": np.array([1.5, -np.inf]), "e": "µP"})
    expected = {"a": None, "b": 2.0, "c": [1, None], "d": [1.5, None], "e": "µP"}
    assert json.loads(text, parse_constant=pytest.fail) == expected
    assert "µP" in text
