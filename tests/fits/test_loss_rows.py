"""Reading a table of losses: groups, sizes, diverged runs, and errors for bad tables."""

import numpy as np
import pytest

from sgdtheory.fits.loss_rows import loss_rows, read_loss_grid

COLUMNS = {"batch_size": [8, 4, 8], "samples": [8, 40, 80], "learning_rate": [0.1, 0.2, 0.4], "loss": [0.5, None, 2.0]}


def test_columns_become_arrays():
    """One step is enough, losses may lie below 1, and what diverged is infinite."""
    (rows,) = loss_rows(COLUMNS)
    assert (rows.group, np.isnan(rows.size), rows.seeds) == ("", True, False)
    assert rows.batch_size.tolist() == COLUMNS["batch_size"]
    assert rows.samples.tolist() == COLUMNS["samples"]
    assert rows.learning_rate.tolist() == COLUMNS["learning_rate"]
    assert rows.loss.tolist() == [0.5, np.inf, 2.0]


def test_groups_are_in_the_order_of_the_table():
    """A number may name one; a group may consist of one row."""
    more = {"group": ["z", 7, "z"], "size": [3, 5, 3], "seed": [0, 0, 1]}
    first, second = loss_rows(COLUMNS | more | {"loss": [1.0, 2.0, np.nan]})
    assert (first.group, first.size, first.loss.tolist(), first.seeds) == ("z", 3, [1, np.inf], True)
    assert (second.group, second.size, second.loss.tolist(), second.seeds) == ("7", 5, [2], True)
    assert second.samples.tolist() == [40]


def test_rows_with_names_may_have_what_tables_have():
    rows = [dict(zip(COLUMNS, values, strict=True)) for values in zip(*COLUMNS.values(), strict=True)]
    (found,) = loss_rows([{**row, "group": "a", "size": 6.0, "more": "ignored"} for row in rows])
    assert (found.group, found.size, found.loss.tolist()) == ("a", 6, [0.5, np.inf, 2])


class Frame:
    """Columns by name with `keys`, as a data frame has them, and no mapping."""

    def keys(self):
        return COLUMNS.keys()

    def __getitem__(self, name):
        return np.array(COLUMNS[name], dtype=object)


def test_a_data_frame_is_a_table():
    (found,) = loss_rows(Frame())  # pyright: ignore[reportArgumentType]
    assert found.loss.tolist() == [0.5, np.inf, 2]


def test_without_groups_each_model_size_is_one():
    rows = loss_rows(COLUMNS | {"size": [5, 5, 6]})
    assert [(each.group, each.size, each.loss.size) for each in rows] == [("5", 5.0, 2), ("6", 6.0, 1)]
    assert [each.group for each in loss_rows(COLUMNS | {"size": [5, 5, 5]})] == [""]


@pytest.mark.parametrize(
    ("table", "message"),
    [
        (COLUMNS | {"samples": [8, 3, 80]}, "samples must be at least batch_size, one step, got 3 with batch_size 4"),
        ({"batch_size": [1]}, "table must have the columns .*, got none called samples or learning_rate or loss"),
        ({name: [] for name in COLUMNS}, "table must have rows, got none"),
        ([], "table must have rows, got none"),
        (COLUMNS | {"batch_size": [8, -4, 8]}, "batch_size must be positive and finite, got -4"),
        (COLUMNS | {"loss": [1.0, 0.0, 2.0]}, "loss must be positive, got 0"),
        (COLUMNS | {"loss": [1.0, -0.5, 2.0]}, "loss must be positive, got -0.5"),
        (COLUMNS | {"loss": ["low"] * 3}, "loss must hold numbers"),
        (COLUMNS | {"loss": [np.nan] * 3}, "all of its runs diverged: lower the rates"),
        (COLUMNS | {"group": list("bab"), "size": [5, 5, 6]}, "size must be the same in all rows of b, got 5 and 6"),
        (COLUMNS | {"group": list("aba")}, "loss must be finite somewhere in b, but all of its runs diverged"),
        (COLUMNS | {"loss": [1.0, 2.0]}, "table must have columns of one length, got {'batch_size': 3,"),
        ([(1, 2, 3, 4), {"loss": 3}], r"table must have rows \(batch_size, .*, got {'loss': 3}"),
        ([{"loss": 3}, (1, 2, 3, 4)], r"table must have rows \(batch_size, .*, got {'loss': 3}"),
        (["abcd"], "table must have rows .*, got 'abcd'"),
        ([5], "table must have rows .*, got 5"),
        ([(1, 2, 3)], r"table must have rows \(batch_size, samples, learning_rate, loss\), .* got \(1, 2, 3\)"),
        ([(1, 2, 3, 4), (1, 2, 3, 4, 5)], r"table must have rows .*, got \(1, 2, 3, 4, 5\)"),
        (
            [dict.fromkeys(COLUMNS, 9.0), {**dict.fromkeys(COLUMNS, 9.0), "seed": 1}],
            "table must have seed in every row, got none in row 0",
        ),
    ],
)
def test_bad_tables(table, message):
    with pytest.raises(ValueError, match=message):
        loss_rows(table)


def test_a_file_with_all_columns_and_one_with_none_more_than_needed(tmp_path):
    path = tmp_path / "grid.csv"
    path.write_text("B,samples,lr,L,name,n,s\n8,80,0.1, 3.5 , a ,5,0\n8,80,0.2,,a,5,\n")
    renamed = read_loss_grid(path, batch_size="B", learning_rate="lr", loss="L")
    path.write_text(path.read_text().replace("B,samples,lr,L", "batch_size,D,learning_rate,loss"))
    found = read_loss_grid(path, samples="D")
    path.write_text(path.read_text().replace(",D,", ",samples,"))
    np.testing.assert_equal(read_loss_grid(path), found)
    np.testing.assert_equal(renamed, found)
    assert list(found) == ["batch_size", "samples", "learning_rate", "loss"]
    np.testing.assert_array_equal(found["loss"], [3.5, np.nan])
    found = read_loss_grid(path, group="name", size="n", seed="s")
    assert (found["group"], found["size"], found["seed"]) == (["a", "a"], [5, 5], ["0", ""])
    (rows,) = loss_rows(found)
    assert (rows.group, rows.size, rows.loss.tolist()) == ("a", 5, [3.5, np.inf])


def test_cells_that_a_short_line_leaves_out(tmp_path):
    """The last columns of a line may be missing: no loss, and no name."""
    path = tmp_path / "grid.csv"
    path.write_text("batch_size,samples,learning_rate,loss,name\n8,80,0.1,3.5,a\n8,80,0.2\n")
    found = read_loss_grid(path, group="name")
    assert found["group"] == ["a", ""]
    np.testing.assert_array_equal(found["loss"], [3.5, np.nan])


@pytest.mark.parametrize(
    ("rows", "message"),
    [
        ("", "has no rows below its header"),
        ("16,1e5,0,3\n", "line 2: learning_rate must be positive and finite, got 0"),
        ("16,1e5,1,low\n", "line 2: loss must be a number, or empty of a run that diverged, got 'low'"),
    ],
)
def test_bad_files(tmp_path, rows, message):
    path = tmp_path / "grid.csv"
    path.write_text("batch_size,samples,learning_rate,loss\n" + rows)
    with pytest.raises(ValueError, match=message):
        read_loss_grid(path)
