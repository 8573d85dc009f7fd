"""Rows of CSV files and of arrays, text that may be printed, and the size of files that are read."""

import signal

import numpy as np
import pytest

from sgdtheory._common import files, rows
from sgdtheory._common.csv_rows import csv_header, csv_rows, positive_cell
from sgdtheory._common.interrupts import Interrupts
from sgdtheory._common.logged_losses import gap
from sgdtheory._common.printable import one_line, printable, shortened
from sgdtheory._common.rows import checked_rows


@pytest.mark.parametrize("mark", [",", ";", "\t", "|"])
def test_columns_are_separated_by_any_usual_mark(mark, tmp_path):
    path = tmp_path / "table.csv"
    path.write_text("\ufeffa,b c\n1,x\n\n2\n".replace(",", mark))
    assert csv_header(path) == ["a", "b c"]
    assert [*csv_rows(path, ["a"])] == [(2, {"a": "1", "b c": "x"}), (4, {"a": "2", "b c": ""})]
    with pytest.raises(ValueError, match="has no column 'z'; its columns are: 'a', 'b c'$"):
        next(csv_rows(path, ["a", "z"]))


def test_a_comma_separates_columns_where_there_is_one(tmp_path):
    (tmp_path / "t.csv").write_text("a;b,c|d\n1;2,3|4\n")
    assert csv_header(tmp_path / "t.csv") == ["a;b", "c|d"]
    (tmp_path / "one.csv").write_text("alone\n5\n")
    assert [*csv_rows(tmp_path / "one.csv", [])] == [(2, {"alone": "5"})]
    (tmp_path / "empty.csv").write_text("")
    assert csv_header(tmp_path / "empty.csv") == []
    with pytest.raises(ValueError, match="its columns are: none$"):
        next(csv_rows(tmp_path / "empty.csv", ["a"]))


def test_positive_cells():
    assert positive_cell(" 1e-3 ", "steps", "line 2") == 1e-3
    for text in ("0", "-1", "inf", "nan"):
        with pytest.raises(ValueError, match=f"^line 2: steps must be positive and finite, got {float(text):g}$"):
            positive_cell(text, "steps", "line 2")
    with pytest.raises(ValueError, match="^line 2: steps must be a number, got 'x'$"):
        positive_cell("x", "steps", "line 2")


def test_files_of_up_to_64_mib_and_a_million_rows_are_read(tmp_path):
    path = tmp_path / "my log.csv"
    files.check_size(path, size=64 * 2**20, rows=2**20)
    for size, many in ({"size": 64 * 2**20 + 1}, "64 MiB of text"), ({"rows": 2**20 + 1}, "1,048,576 rows"):
        with pytest.raises(files.TooLargeError, match=f"has more than {many}, more than is read.*> 'shorter-my log"):
            files.check_size(path, **size)


def test_rows_are_read_in_pieces_and_counted_through(monkeypatch):
    """Nine numbers at once are three rows of two features and a target, and a row at least."""
    x, y = np.arange(14.0).reshape(7, 2), np.arange(7.0)
    for most, lengths in ((9, [3, 3, 1]), (11, [3, 3, 1]), (12, [4, 3]), (1, [1] * 7), (21, [7])):
        monkeypatch.setattr(rows, "PIECE", most)
        pieces = [*checked_rows(x, y).pieces()]
        assert [len(features) for _, features, _ in pieces] == lengths
        assert [piece.stop - piece.start for piece, *_ in pieces] == lengths
        np.testing.assert_array_equal(np.concatenate([features for _, features, _ in pieces]), x)
        np.testing.assert_array_equal(np.concatenate([targets[:, 0] for *_, targets in pieces]), y)
    x[5, 1] = np.inf
    monkeypatch.setattr(rows, "PIECE", 9)
    message = r"features must be finite, got inf in row 5, column 1 \(counted from 0\)"
    with pytest.raises(ValueError, match=message):
        [*checked_rows(x, y).pieces()]
    with pytest.raises(ValueError, match=message):
        checked_rows(x, y).whole()


@pytest.mark.parametrize(
    ("features", "targets", "message"),
    [
        (np.ones(3), np.ones(3), r"\(N, d\), got shape \(3,\)"),
        (np.ones((3, 0)), np.ones(3), r"\(N, d\), got shape \(3, 0\)"),
        (np.ones((0, 2)), np.ones(0), r"\(N, d\), got shape \(0, 2\)"),
        (np.ones((3, 2)), np.ones((3, 0)), r"targets must have the shape \(N,\) or \(N, k\), got \(3, 0\)"),
        (np.ones((3, 2)), np.ones((3, 1, 1)), r"targets must have the shape"),
        (np.ones((3, 2)), np.ones(2), "one row for each of the 3 rows of features, got 2"),
        (1j * np.ones((3, 2)), np.ones(3), "features must be real"),
        (np.ones((3, 2)), 1j * np.ones(3), "targets must be real"),
    ],
)
def test_arrays_that_are_no_rows(features, targets, message):
    with pytest.raises(ValueError, match=message):
        checked_rows(features, targets)


def test_what_moves_a_cursor_is_spelt_out():
    assert printable("a\x1b[2J\tb\nγ\x7f\x9b\u202e\u2028é") == "a\\x1b[2J\tb\nγ\\x7f\\x9b\\u202e\\u2028é"
    assert one_line("a\tb\nc") == "a\\tb\\nc"
    assert [printable(letter) == letter for letter in "\x00\x08\t\n\x0b\x1f ~\x7f\x9f\xa0"] == [
        *(False, False, True, True, False, False, True, True, False, False, True),
    ]


def test_overlong_words_lose_their_middle():
    word = "".join(chr(ord("a") + k % 26) for k in range(400))
    assert shortened(f"in {word[:399]} it") == f"in {word[:399]} it"
    assert shortened(f"in {word} it") == f"in {word[:150]}…{word[-50:]} it"


def test_a_lost_run_has_no_gap_at_its_end():
    losses = np.array([np.nan, 2.0, np.inf, 1.0, np.nan])
    assert gap(np.arange(5.0), losses, 3.0).tolist() == [True, False, True, False, False]
    assert gap(np.array([3.0]), losses[:1], 3.0).tolist() == [True]


def test_the_first_ctrl_c_is_noted_and_the_second_one_interrupts():
    before = signal.getsignal(signal.SIGINT)
    with Interrupts() as interrupts:
        assert not interrupts.pending
        signal.raise_signal(signal.SIGINT)
        assert interrupts.pending
        with pytest.raises(KeyboardInterrupt):
            signal.raise_signal(signal.SIGINT)
    assert signal.getsignal(signal.SIGINT) is before
