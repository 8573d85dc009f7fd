"""Previews of a log: rows, columns, gaps, settings, missing data; nothing is fitted."""

import pytest

import sgdtheory as st
from tests.logs import make_trainer_state


def test_a_whole_log():
    shown = st.logs.preview(make_trainer_state.FILE, sequence_length=512)
    (one,) = shown.logs
    assert [row.attribute for row in one.rows] == ["step", "loss", "evaluation_loss", "learning_rate", "tokens"]
    assert [row.column for row in one.rows][1:3] == ["loss", "eval_loss"]
    assert [row.count for row in one.rows] == [6, 6, 3, 6, 6]
    assert (one.rows[1].first, one.rows[1].last) == (5.0, 3 + 20 / 60)
    assert one.notes == ["settings: micro_batch 8, num_steps 60", "not used: epoch, grad_norm, eval_runtime"]
    assert one.gaps == ()
    text = str(shown).splitlines()
    assert text[0] == "data: Hugging Face trainer state, 6 rows"
    assert text[3].split() == ["loss", "loss", "6", "5", "3.33333", "training"]


def test_gaps_and_what_is_missing(tmp_path):
    """A gap is three times the usual distance, or more; many unused columns are counted."""
    steps = [*range(10, 60, 10), *range(80, 110, 10), *range(160, 200, 10)]
    more = [f"more{number}" for number in range(11)]
    rows = [",".join([f"{t}", "0.1", "3", *["1"] * 11]) for t in steps]
    (tmp_path / "a.csv").write_text("\n".join([",".join(["step", "x", "loss", *more]), *rows]))
    (one,) = st.logs.preview(tmp_path / "a.csv").logs
    assert one.gaps == ((50, 80), (100, 160))
    assert one.notes == [
        "nothing logged between steps 50 and 80, 100 and 160",
        "not used: x, more0, more1, more2, more3, more4, more5, more6 and 4 more",
        "a: no learning rate is logged; give its column, its number, or the file that has it too, "
        "learning_rate= (--learning-rate)",
    ]
    (given,) = st.logs.preview(tmp_path / "a.csv", learning_rate="x", batch_size=4, warmup=3).logs
    assert given.sentences == ()
    assert st.logs.preview(tmp_path / "a.csv", learning_rate=0.5, batch_size=4, warmup=3).logs[0].sentences == ()


@pytest.mark.parametrize(("count", "end"), [(8, "m7"), (9, "m7 and 1 more")])
def test_many_unused_columns_are_counted(count, end, tmp_path):
    header = ["step", "loss", "lr", *(f"m{number}" for number in range(count))]
    rows = [",".join(["1"] * len(header)).replace("1", f"{t}", 1) for t in (1, 2, 9)]
    (tmp_path / "a.csv").write_text("\n".join([",".join(header), *rows]))
    (one,) = st.logs.preview(tmp_path / "a.csv").logs
    assert one.notes[0].endswith(end)
    assert one.gaps == ()  # of two distances none is usual


def test_one_below_the_other(tmp_path):
    for name in "ab":
        (tmp_path / f"{name}.csv").write_text("step,loss,lr\n" + "".join(f"{t},3,1\n" for t in range(1, 7)))
    shown = st.logs.preview([tmp_path / "a.csv", tmp_path / "b.csv"], loss="loss")
    assert [part.partition(":")[0] for part in repr(shown).split("\n\n")] == ["a", "b"]
