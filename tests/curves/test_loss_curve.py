"""Curves as people log them: what is cut, what is refused, and in which words."""

import numpy as np
import pytest

import sgdtheory as st

GOOD = {"step": [10, 20, 30, 40, 50], "learning_rate": 0.1, "loss": [5.0, 4.0, 3.5, 3.2, 3.0]}


def test_what_a_curve_holds():
    """Four rows at least, one step apart at least, from step 0 on; numbers below 1 are numbers."""
    found = st.LossCurve([0, 1, 2, 7], [0.5, 0.0, 0.2, 0.0], [0.9, 0.5, 0.3, 0.1], 0.5)
    assert found.step.tolist() == [0, 1, 2, 7]
    assert found.learning_rate.tolist() == [0.5, 0.0, 0.2, 0.0]
    assert found.loss.tolist() == [0.9, 0.5, 0.3, 0.1]
    assert found.batch_size.tolist() == [0.5] * 4
    assert (found.warmup, found.name, found.group, found.remark) == (0, "", "", "")
    full = st.LossCurve(**GOOD, batch_size=[1, 2, 3, 4, 5], warmup=0.5, name="a", group="b")
    assert (full.warmup, full.name, full.group) == (0.5, "a", "b")
    assert full.batch_size.tolist() == [1, 2, 3, 4, 5]
    assert st.LossCurve(**GOOD).batch_size is None


@pytest.mark.parametrize("bad", [0.0, np.nan, np.inf, -np.inf])
def test_a_curve_ends_at_the_first_loss_after_which_none_is_a_positive_number(bad):
    found = st.LossCurve([1, 2, 3, 4, 5, 6, 7], 0.1, [5, 4, 3, 2, bad, np.nan, bad], 8)
    assert found.step.tolist() == [1, 2, 3, 4]
    assert found.batch_size.size == found.learning_rate.size == 4
    value = "not finite" if np.isinf(bad) else f"{bad:g}"
    assert found.remark == f"cut at step 5, where the loss is {value}"


def test_a_loss_of_nan_or_inf_with_finite_ones_after_it_was_not_logged():
    rates = 0.1 * np.arange(1, 9)
    found = st.LossCurve(np.arange(1, 9), rates, [5, np.inf, 3, np.nan, 2, 1.5, 1, np.nan], 8, remark="given")
    assert found.step.tolist() == [1, 3, 5, 6, 7]
    assert found.learning_rate.tolist() == rates[[0, 2, 4, 5, 6]].tolist()
    assert found.batch_size.size == 5
    assert found.remark == (
        "given; 'loss' is nan or inf in 2 rows between steps 2 and 4, and finite later: 2 rows are taken as not "
        "logged; cut at step 8, where the loss is nan"
    )


@pytest.mark.parametrize(
    ("change", "message"),
    [
        (
            {"loss": [5.0, 4.0, 3.0, np.nan, np.nan]},
            "loss must have at least 4 finite rows, got 3; give a longer curve",
        ),
        (
            {"loss": [5.0, 4.0, 0.0, 3.0, 2.0]},
            "losses must be positive, and 'loss' is 0 or less in 1 of 5 rows, first at",
        ),
        ({"loss": [5.0, 4.0, 3.0, 2.0, -1.0], "name": "a"}, "a: losses must be positive, .* at step 50, -1: rewards"),
        ({"loss": [5.0, 4.0]}, r"of one length, got shapes \(5,\) and \(2,\)"),
        ({"step": np.ones((5, 1)), "loss": np.ones((5, 1))}, "step and loss must be one-dimensional"),
        ({"step": [-10, 20, 30, 40, 50]}, "step must hold whole numbers of at least 0, got -10"),
        ({"step": [10, 20, 30, 40, np.inf]}, "step must hold whole numbers of at least 0, got inf"),
        ({"step": [30, 20, 40, 15, 50]}, "step must increase, got 20 after 30; sort"),
        ({"step": [10, 30, 20, 40, 50], "name": "run7"}, "step must increase, got 20 after 30 in run7; sort"),
        ({"learning_rate": np.inf}, "learning_rate must be 0 or more, got inf in row 0"),
        ({"learning_rate": [0.1, 0.1, np.nan, -1, 0.1]}, "learning_rate must be 0 or more, got nan in row 2"),
        ({"batch_size": [8, 8, 8, -8, 8]}, "batch_size must be positive, got -8.0 in row 3"),
        ({"warmup": np.inf}, "warmup must be a number of steps, 0 or more, got inf"),
        ({"step": [10, 20, 20, 40, 50]}, "step must increase, got 20 after 20"),
        ({"step": [10, 20.5, 30, 40, 50]}, "step must hold whole numbers of at least 0, got 20.5"),
        ({"learning_rate": 0}, "learning_rate must not be 0 throughout"),
        ({"learning_rate": [0.1, 0.1]}, "learning_rate must be one number or one for each of the 5 rows"),
        ({"batch_size": 0}, "batch_size must be positive, got 0.0 in row 0"),
        ({"warmup": -1}, "warmup must be a number of steps"),
    ],
)
def test_bad_input_is_refused_with_a_sentence(change, message):
    with pytest.raises(ValueError, match=message):
        st.LossCurve(**{**GOOD, **change})


def test_files(tmp_path):
    path = tmp_path / "runs.csv"
    lines = [f"{run},{model},{t},0.1,{5 / t},64" for run, model in (("a", "x"), ("b", "y")) for t in range(1, 7)]
    path.write_text("run,model,t,lr,loss,B\n" + "\n".join(lines) + "\n")
    columns = {"step": "t", "learning_rate": "lr", "batch_size": "B", "run": "run", "group": "model"}
    first, second = st.read_loss_curves(path, **columns, warmup=3)
    assert (first.name, first.group, second.name, second.group, first.warmup) == ("a", "x", "b", "y", 3)
    assert first.batch_size.tolist() == [64] * 6
    with pytest.raises(ValueError, match="has no column 'step'"):
        st.read_loss_curves(path)
    with pytest.raises(ValueError, match="cannot read"):
        st.read_loss_curves(tmp_path / "none.csv")
    (tmp_path / "text.csv").write_text("step,learning_rate,loss\n1,0.1,low\n")
    with pytest.raises(ValueError, match=r"text.csv, line 2: loss must be a number, got 'low'"):
        st.read_loss_curves(tmp_path / "text.csv")
    (tmp_path / "back.csv").write_text("step,learning_rate,loss\n2,0.1,3\n1,0.1,3\n")
    with pytest.raises(ValueError, match=r"back.csv: step must increase, got 1 after 2 in back"):
        st.read_loss_curves(tmp_path / "back.csv")


def test_files_without_columns_of_their_own_for_runs_and_batch_sizes(tmp_path):
    """Each file a run, named after it; one batch size for all rows; no warm-up unless told."""
    paths = [tmp_path / f"{name}.csv" for name in "ab"]
    for k, path in enumerate(paths):
        path.write_text("step,learning_rate,loss\n" + "".join(f"{t},0.1,{k + 2 / t}\n" for t in range(1, 6)))
    found = st.read_loss_curves([paths[0], str(paths[1])], batch_size=64)
    assert [(each.name, each.group, each.warmup) for each in found] == [("a", "", 0), ("b", "", 0)]
    assert found[1].loss.tolist() == [1 + 2 / t for t in range(1, 6)]
    assert all((each.batch_size == 64).all() for each in found)
    (alone,) = st.read_loss_curves(str(paths[0]))
    assert alone.batch_size is None


def test_a_blank_loss_was_not_logged(tmp_path):
    """Rows of evaluations between those of training; nan at the end is the end of the run; blank rates are refused."""
    path = tmp_path / "log.csv"
    train = [f"{10 * k},{5 - 0.1 * k},0.1,\n" for k in range(1, 9)]
    path.write_text(
        "step,loss,learning_rate,eval_loss\n" + "".join(f"{row}{10 * (k + 1)},,,3\n" for k, row in enumerate(train))
    )
    (found,) = st.read_loss_curves(path)
    assert found.step.tolist() == [10 * k for k in range(1, 9)]
    assert found.remark == ""
    for later, last, remark in (
        ("90,nan,0.1,\n", 80, "cut at step 90, where the loss is nan"),
        (
            "100,4,0.1,\n",
            100,
            "'loss' is nan or inf in 1 row at step 90, and finite later: 1 row is taken as not logged",
        ),
    ):
        path.write_text(path.read_text() + later)
        (cut,) = st.read_loss_curves(path)
        assert (cut.step[-1], cut.remark) == (last, remark)
        assert 90 not in cut.step
    path.write_text("step,loss,learning_rate\n1,3,\n")
    with pytest.raises(ValueError, match="line 2: learning_rate is blank where a loss is logged; fill it in"):
        st.read_loss_curves(path)
    path.write_text("step,loss,learning_rate\n1,,0.1\n")
    with pytest.raises(ValueError, match=r"log.csv has no rows with a loss"):
        st.read_loss_curves(path)


def test_examples_are_those_published():
    curves = st.example_loss_curves("25M")
    assert len(curves) == 9
    assert curves["constant_72000"].loss[[0, -1]].tolist() == [4.0723, 3.2573]
    assert {curve.warmup for curve in curves.values()} == {2160}  # steps, as their source says
    assert {curve.group for curve in curves.values()} == {"25M"}
    with pytest.raises(ValueError, match="model must be one of"):
        st.example_loss_curves("1B")
