"""Curves from logs: joined, left out and assumed data, and the words of questions."""

import numpy as np
import pytest

import sgdtheory as st
from sgdtheory.cli.log_flags import CurveFlags
from tests.logs import writers

STEPS = np.arange(10.0, 110, 10)
LOSSES = 3 + 20 / STEPS


def log_of(settings=None, **series):
    """A log of losses and, unless told otherwise, one learning rate."""
    both = {"loss": (STEPS, LOSSES), "learning_rate": (STEPS, np.full(STEPS.size, 1e-3))} | series
    return st.logs.TrainingLog.from_series(
        "run7", "test", {key: value for key, value in both.items() if value is not None}, settings=settings or {}
    )


def curve_of(*, settings=None, loss="train", **given):
    numbers = {key: given.pop(key) for key in [*given] if not isinstance(given[key], tuple | None)}
    return st.logs.loss_curve(log_of(settings, **given), loss=loss, **numbers)


@pytest.mark.parametrize("format", ["CSV", "W&B history", "JSON rows", "Parquet", "TensorBoard"])
def test_blank_cells_cost_no_loss(format, tmp_path):
    """88% of the rows without a loss, in every format: each loss that was logged is there."""
    run = {t: {"learning_rate": 2.0**-10} | ({"loss": 2 + 2.0 ** -(t // 25)} if t % 25 < 3 else {}) for t in range(400)}
    name, write = writers.FILES[format]
    (curve,) = st.read_training_log(write(tmp_path / name, run))
    assert curve.step.tolist() == [t for t in range(400) if t % 25 < 3]
    assert curve.loss.tolist() == [2 + 2.0 ** -(t // 25) for t in range(400) if t % 25 < 3]
    assert curve.remark == ""


def test_a_run_ends_at_a_loss_that_is_no_number(tmp_path):
    text = "step,lr,loss\n" + "".join(f"{t},1e-3,{'nan' if t == 70 else 3 + 20 / t}\n" for t in range(10, 110, 10))
    (tmp_path / "a.csv").write_text(text)
    (curve,) = st.read_training_log(tmp_path / "a.csv")
    assert curve.step.tolist() == [10, 20, 30, 40, 50, 60, 80, 90, 100]  # a run that diverged does not come back
    assert curve.remark == "'loss' is nan or inf in 1 row at step 70, and finite later: 1 row is taken as not logged"
    (tmp_path / "a.csv").write_text(text.partition("80,")[0])
    assert st.read_training_log(tmp_path / "a.csv")[0].remark == "cut at step 70, where the loss is not finite"


def straight_line(at, rates, step):
    """By hand, between the neighbours."""
    after = next(k for k, each in enumerate(at) if each >= step)
    if at[after] == step:
        return rates[after]
    share = (step - at[after - 1]) / (at[after] - at[after - 1])
    return rates[after - 1] + share * (rates[after] - rates[after - 1])


def test_a_learning_rate_logged_apart_is_joined_by_step():
    """On a straight line where it is smooth."""
    at = np.arange(4.0, 120, 7)
    rates = 1e-3 * (1 + np.cos(np.pi * at / 130)) / 2
    curve = curve_of(learning_rate=(at, rates))
    assert curve.remark == ""
    np.testing.assert_allclose(curve.learning_rate, [straight_line(at, rates, step) for step in STEPS], rtol=1e-12)


def test_where_it_jumps_the_old_one_holds():
    """Up to the step at which the new one was logged. A straight line would give 0.55e-3 at step 50."""
    at = np.array([5.0, 15, 25, 35, 45, 55, 65, 75, 105])
    rates = np.where(at < 50, 1e-3, 1e-4)
    curve = curve_of(learning_rate=(at, rates))
    assert curve.learning_rate.tolist() == [1e-3] * 5 + [1e-4] * 5


def test_rows_without_a_learning_rate_are_left_out_and_counted():
    curve = curve_of(learning_rate=([30, 40, 50, 60, 70], [1e-3] * 5))
    assert curve.step.tolist() == [30, 40, 50, 60, 70, 80]  # after the last it holds for one interval
    assert curve.remark == "4 rows without a learning rate left out, at steps 10 … 100"
    late = curve_of(learning_rate=([10, 20, 30, 40, 50, 60, 70, 80, 90], [1e-3] * 9))
    assert late.step[-1] == 100
    early = curve_of(learning_rate=([30, 100], [1e-3] * 2))
    assert early.remark == "2 rows without a learning rate left out, at steps 10 … 20"
    ends = curve_of(learning_rate=([0, 10, 20, 30, 40, 50], [1e-3] * 6))
    assert ends.remark == "4 rows without a learning rate left out, at steps 70 … 100"
    assert curve_of(learning_rate=([10], [1e-3])).step.size == 10  # logged once: constant


def test_what_cannot_be_known_is_asked_for_in_a_sentence(tmp_path):
    with pytest.raises(ValueError, match=r"run7: no learning rate is logged; give its column, its number, or the file"):
        curve_of(learning_rate=None)
    assert st.logs.loss_curve(log_of(learning_rate=None), learning_rate=0.5).learning_rate.tolist() == [0.5] * 10
    with pytest.raises(
        ValueError, match=r"run7: no evaluation loss is recognized; its columns are: none; name it, loss="
    ):
        curve_of(loss="eval")
    with pytest.raises(ValueError, match=r"run7: it has no training loss, only evaluations; select them by loss="):
        st.logs.loss_curve(log_of(loss=None, evaluation_loss=([10, 20, 30], [3.0, 2.9, 2.8])))
    path = tmp_path / "a.csv"
    path.write_text(
        "step,lr,a_loss,b_loss,eval_c_loss,eval_d_loss\n" + "".join(f"{t},1,1,2,3,4\n" for t in range(1, 7))
    )
    with pytest.raises(ValueError, match="a: no training loss .* it may be 'a_loss' or 'b_loss'; name it"):
        st.read_training_log(path)
    with pytest.raises(ValueError, match="a: no evaluation loss .* it may be 'eval_c_loss' or 'eval_d_loss'; name it"):
        st.read_training_log(path, loss="eval")
    assert st.read_training_log(path, loss="b_loss")[0].loss.tolist() == [2] * 6
    assert st.read_training_log(path, loss="eval_d_loss")[0].loss.tolist() == [4] * 6
    with pytest.raises(ValueError, match="no log has a column 'c'; there are: 'step', 'lr', 'a_loss', 'b_loss'"):
        st.read_training_log(path, loss="c")
    with pytest.raises(ValueError, match="run7: loss must have at least 4 finite rows, got 2"):
        curve_of(learning_rate=([10, 15], [1e-3] * 2))


def test_short_logs_are_refused_and_small_losses_are_losses(tmp_path):
    with pytest.raises(ValueError, match="run7: loss must have at least 4 finite rows, got 1"):
        st.logs.loss_curve(log_of(loss=([10], [3])))
    curve = st.logs.loss_curve(log_of(loss=(STEPS, [0.9, 0.8, 0.7, 0.6, np.nan, *[0.5] * 5])))
    assert curve.loss.tolist() == [0.9, 0.8, 0.7, 0.6, *[0.5] * 5]
    (first,) = st.logs.read_logs(writers.write_csv(tmp_path / "a.csv", {t: {"loss": 1.0} for t in range(9)}))
    assert st.logs.loss_curve(first, learning_rate=1).warmup == 0
    one = st.logs.loss_curve(log_of(learning_rate=(STEPS[1:], [1e-3] * 9)))
    assert one.remark == "1 row without a learning rate left out, at steps 10 … 10"


def test_losses_of_evaluations():
    curve = curve_of(evaluation_loss=([20, 40, 60, 80], [4, 3, 2.5, 2.25]), loss="eval")
    assert (curve.step.tolist(), curve.loss.tolist()) == ([20, 40, 60, 80], [4, 3, 2.5, 2.25])


def test_batch_sizes():
    """A number given, logged, set, a product, or of tokens, in this order; held until another is logged."""
    parts = {"micro_batch": 4, "accumulation": 8, "world_size": 2}
    ramp = ([10, 50], [32, 256])
    tokens = (STEPS, 7.0 * 64 * STEPS)
    assert curve_of(batch_size=16.0).batch_size.tolist() == [16] * 10
    assert curve_of(settings=parts, batch_size=ramp).batch_size.tolist() == [32] * 4 + [256] * 6
    assert curve_of(settings=parts | {"batch_size": 99}).batch_size.tolist() == [99] * 10
    assert curve_of(settings=parts, tokens=tokens).batch_size.tolist() == [64] * 10
    assert curve_of(tokens=tokens, sequence_length=7.0).batch_size.tolist() == [64] * 10
    assert curve_of(tokens=tokens, settings={"sequence_length": 14}).batch_size.tolist() == [32] * 10
    unknown = curve_of(tokens=tokens)
    assert unknown.batch_size is None
    assert unknown.assumed[0].startswith("batch size not known: the log has tokens; give sequence_length=")
    assert curve_of().assumed[0] == "batch size not known; give its column or its number, batch_size= (--batch-size)"
    with pytest.raises(ValueError, match="batch_size must be positive"):
        curve_of(batch_size=-1.0)


def test_batch_sizes_in_tokens(tmp_path):
    """A column or an argument gives tokens; the number of sequences then needs their length."""
    path = tmp_path / "a.csv"
    path.write_text("step,lr,loss,tokens_per_step\n" + "".join(f"{t},1e-3,3,{2048 * t}\n" for t in range(10, 60, 10)))
    (curve,) = st.read_training_log(path, sequence_length=1024)
    assert curve.batch_size.tolist() == [20, 40, 60, 80, 100]
    (curve,) = st.read_training_log(path)
    assert "the log has it in tokens; give sequence_length=" in curve.assumed[0]
    (curve,) = st.read_training_log(path, batch_size="65536 tokens", sequence_length=1024)
    assert set(curve.batch_size) == {64}
    with pytest.raises(ValueError, match="a batch size in tokens, 65536, needs the tokens of a sequence"):
        st.read_training_log(path, batch_size="65536 tokens")
    assert set(curve_of(settings={"sequence_length": 512}, batch_tokens=65536.0).batch_size) == {128}
    assert curve_of(batch_tokens=65536.0, sequence_length=256).batch_size[0] == 256


def test_batch_sizes_of_tokens_in_a_ramp():
    """Each interval between rows has its own; whole sequences."""
    sizes = np.repeat([8.0, 32.0], 5)
    seen = np.cumsum(10 * sizes) * 1024
    assert curve_of(tokens=(STEPS, seen), sequence_length=1024.0).batch_size.tolist() == sizes.tolist()


def test_batch_sizes_of_printed_tokens():
    """Four digits, whose differences are off by up to a third; one row alone; rows after the last."""
    seen = np.array([float(f"{67 * 1000 * step:.3e}") for step in STEPS * 7 + 9000])
    log = log_of(loss=(STEPS * 7 + 9000, LOSSES), learning_rate=([0], [1e-3]), tokens=(STEPS * 7 + 9000, seen))
    assert len(set(np.diff(seen))) > 1
    assert st.logs.loss_curve(log, sequence_length=1000).batch_size.tolist() == [67] * 10
    late_steps = 90_000 + 4 * np.arange(10.0)  # one sequence a step, whose differences are 0, 2 or 3
    seen = np.array([float(f"{1000 * step:.3e}") for step in late_steps])
    log = log_of(loss=(late_steps, LOSSES), learning_rate=([0], [1e-3]), tokens=(late_steps, seen))
    assert st.logs.loss_curve(log, sequence_length=1000).batch_size.tolist() == [1] * 10
    assert curve_of(tokens=([40], [40 * 64 * 7]), sequence_length=7.0).batch_size.tolist() == [64] * 10
    late = curve_of(tokens=([0, 10, 30, 50], [0, 70, 210, 1350]), sequence_length=7.0)
    assert late.batch_size.tolist() == [1] * 3 + [8] * 7


@pytest.mark.parametrize(
    "tokens",
    [([0], [0]), (STEPS, np.full(10, 448)), (STEPS, STEPS[::-1]), ([10], [0]), ([0], [7]), ([10, 100], [448, 448])],
)
def test_tokens_that_do_not_grow_are_not_used(tokens):
    """An example is the tokens of a single step."""
    for grown in (([1], [448]), ([10], [1]), ([10, 50, 100], [448, 448, 896])):
        assert curve_of(tokens=grown).tokens is not None
    curve = curve_of(tokens=tokens, sequence_length=7.0)
    assert curve.batch_size is None
    assert curve.tokens is None
    assert curve.remark == "'tokens' does not grow along the run: not the tokens seen"
    assert not any("the log has tokens" in sentence for sentence in curve.assumed)


def test_tokens_from_step_0_on():
    logged = curve_of(tokens=([0, 50, 100], [5, 55, 205])).tokens
    np.testing.assert_allclose(logged, [15, 25, 35, 45, 55, 85, 115, 145, 175, 205])


def test_tokens():
    """Tokens are logged, or steps × batch size × length, by a loop; None if neither is known."""
    assert curve_of().tokens is None
    assert curve_of(batch_size=16.0).tokens is None
    assert curve_of(batch_size=16.0, sequence_length=4.0).tokens.tolist() == (64 * STEPS).tolist()
    logged = curve_of(tokens=([20, 100], [2e6, 9e6]))
    np.testing.assert_allclose(logged.tokens, np.interp(STEPS, [0, 20, 100], [0, 2e6, 9e6]))
    ramp = curve_of(batch_size=([10, 50], [2, 6]), sequence_length=3.0).tokens
    seen, expected = 0, []
    for step in range(1, 101):
        seen += 3 * (2 if step <= 50 else 6)
        if step % 10 == 0:
            expected.append(seen)
    assert ramp.tolist() == expected


@pytest.mark.parametrize(
    ("rates", "settings", "warmup", "assumed"),
    [
        (np.full(10, 1e-3), {}, 0, True),
        (1e-4 * STEPS, {}, 10, False),  # on a line through 0
        (1e-4 * STEPS + 1e-3, {}, 0, True),  # rises, but not from 0
        (1e-3 / STEPS, {}, 0, True),
        (1e-4 * (STEPS - 10), {}, 0, True),  # 0 in the first row
        (np.full(10, 1e-3), {"warmup": 4}, 4, False),
        (np.full(10, 1e-3), {"warmup": 400}, 10, False),
        (np.full(10, 1e-3), {"warmup": 0}, 0, False),
    ],
)
def test_warm_up(rates, settings, warmup, assumed):
    """The warm-up comes from the settings or the first learning rates; else a note says that there is none."""
    curve = curve_of(settings=settings, learning_rate=(STEPS, rates), batch_size=1.0)
    assert curve.warmup == warmup
    said = "no warm-up assumed before the first row, at step 10; give its steps if there was one, warmup= (--warmup)"
    assert curve.assumed == ((said,) if assumed else ())
    told = curve_of(settings=settings, learning_rate=(STEPS, rates), batch_size=1.0, warmup=7.0)
    assert (told.warmup, told.assumed) == (7, ())


def test_what_was_warmed_up_before_an_early_first_row_is_not_asked_for():
    steps = np.append(STEPS, 1000.0)
    series = (steps, np.full(steps.size, 1e-3))
    assert curve_of(loss="train", learning_rate=series, evaluation_loss=series, batch_size=1.0).assumed != ()
    log = log_of(loss=(steps, 3 + 20 / steps), learning_rate=series)
    assert st.logs.loss_curve(log, batch_size=1).assumed == ()
    assert (
        st.logs.loss_curve(
            log_of(loss=(STEPS - 9, LOSSES), learning_rate=series), batch_size=1, learning_rate=1
        ).assumed
        == ()
    )


def test_parts_of_one_run_by_its_name(tmp_path):
    """The later file's steps replace the earlier one's; without the name they are two runs."""
    first = writers.write_csv(tmp_path / "a.csv", {t: {"loss": 3.0, "learning_rate": 1e-3} for t in range(1, 9)})
    second = writers.write_csv(tmp_path / "b.csv", {t: {"loss": 2.0, "learning_rate": 1e-3} for t in range(6, 12)})
    assert [curve.name for curve in st.read_training_log([first, second])] == ["a", "b"]
    (curve,) = st.read_training_log([first, second], name="c")
    assert (curve.name, curve.step.tolist(), curve.loss.tolist()) == ("c", [*range(1, 12)], [3.0] * 5 + [2.0] * 6)
    assert curve.remark == "steps go back to 6 or repeat: 3 rows were replaced by what was logged later"


def test_runs_of_one_name_are_told_apart(tmp_path):
    """By their folders, by their files, or by numbers."""
    run = {t: {"loss": 3.0, "learning_rate": 1e-3} for t in range(1, 9)}
    for folder in ("x", "y"):
        (tmp_path / folder).mkdir()
        writers.write_csv(tmp_path / folder / "a.csv", run)
    paths = [tmp_path / folder / "a.csv" for folder in ("x", "y")]
    assert [curve.name for curve in st.read_training_log(paths)] == ["x/a", "y/a"]
    assert [curve.name for curve in st.read_training_log([paths[0], paths[0]])] == ["a 1", "a 2"]
    for name in ("one", "two"):
        (tmp_path / f"{name}.csv").write_text("run,step,loss,lr\n" + "".join(f"r,{t},3,1\n" for t in range(1, 6)))
    logs = st.read_training_log([tmp_path / "one.csv", tmp_path / "two.csv"])
    assert [curve.name for curve in logs] == ["r/one", "r/two"]


def test_files_that_share_a_number_are_runs_of_their_own(tmp_path):
    """Even where one of them has a number that the other lacks."""
    paths = []
    for folder, more in (("x", {}), ("y", {"evaluation_loss": 2.0})):
        (tmp_path / folder).mkdir()
        run = {t: {"loss": 3.0, "learning_rate": 1e-3} | more for t in range(1, 7)}
        paths.append(writers.write_csv(tmp_path / folder / "a.csv", run))
    assert [log.name for log in st.logs.read_logs(paths)] == ["x/a", "y/a"]


def test_a_column_that_is_named_may_be_in_one_of_the_files(tmp_path):
    runs = {"r": {t: {"loss": 3.0, "learning_rate": 1e-3} for t in range(1, 7)}}
    paths = writers.write_wandb_charts(tmp_path, runs)[::2]  # losses and rates
    (log,) = st.logs.read_logs(paths, loss="train/loss", learning_rate="train/learning_rate")
    assert log.has("loss")
    assert log.has("learning_rate")


def test_a_table_of_rates_completes_the_one_run_that_has_none(tmp_path):
    """Whatever its name; but not where there are two runs, or two numbers for one thing."""
    losses = writers.write_csv(tmp_path / "run.csv", {t: {"loss": 9.0 - t} for t in range(1, 7)})
    rates = writers.write_csv(tmp_path / "rates.csv", {t: {"learning_rate": 0.1 * t} for t in range(1, 7)})
    for paths in ([losses, rates], [rates, losses]):
        (curve,) = st.read_training_log(paths)
        assert curve.name == "run"
        assert curve.loss.tolist() == [8, 7, 6, 5, 4, 3]
        np.testing.assert_allclose(curve.learning_rate, 0.1 * np.arange(1, 7))
    second = writers.write_csv(tmp_path / "second.csv", {t: {"loss": 3.0} for t in range(1, 7)})
    assert [log.name for log in st.logs.read_logs([losses, rates, second])] == ["run", "rates", "second"]
    whole = writers.write_csv(tmp_path / "whole.csv", {t: {"loss": 3.0, "learning_rate": 1.0} for t in range(1, 7)})
    assert [log.name for log in st.logs.read_logs([whole, rates])] == ["whole", "rates"]


def test_settings_of_joined_files_are_kept(tmp_path):
    """Losses from one file, rates from another."""
    losses = writers.write_tensorboard_csvs(tmp_path, {t: {"loss": 3.0, "learning_rate": 0.5} for t in range(1, 6)})
    (log,) = st.logs.read_logs(losses)
    assert log.columns == {"step": "Step", "loss": "train_loss", "learning_rate": "train_learning_rate"}
    (curve,) = st.read_training_log(losses, batch_size=8)
    assert curve.learning_rate.tolist() == [0.5] * 5
    with pytest.raises(ValueError, match="a: no learning rate is logged"):
        st.read_training_log(losses[0])


def test_a_rate_that_jumps_after_its_first_point_holds_up_to_the_second():
    curve = curve_of(learning_rate=([10, 50, 100], [1e-3, 1e-4, 1e-4]))
    assert curve.learning_rate.tolist() == [1e-3] * 4 + [1e-4] * 6


@pytest.mark.parametrize(
    ("steps", "slope", "warmup", "assumed"),
    [
        (np.append([15.0, 30, 45], 1000), 0, 0, True),  # the first row is not early enough
        (np.arange(2.0, 40, 2), 1, 2, False),
        (np.arange(100.0, 110), 0, 0, True),  # rates that do not rise, at steps that differ by little
        (np.array([10.0, 20, 30, 40]), 1.03, 0, True),  # off the line through 0 by 3%
    ],
)
def test_warm_up_before_first_rows(steps, slope, warmup, assumed):
    rates = 1e-4 * steps * np.append(1, np.full(steps.size - 1, slope)) if slope else np.full(steps.size, 1e-3)
    log = log_of(loss=(steps, 3 + 20 / steps), learning_rate=(steps, rates))
    curve = st.logs.loss_curve(log, batch_size=8)
    assert curve.warmup == warmup
    assert bool(curve.assumed) == assumed


def test_no_token_is_seen_before_the_first_step():
    steps = np.arange(0.0, 100, 10)
    log = log_of(loss=(steps, LOSSES), learning_rate=(steps, np.full(10, 1e-3)), tokens=([1, 100], [448, 44_800]))
    assert st.logs.loss_curve(log).tokens[0] == 0


def test_batch_sizes_of_tokens_that_are_a_step_late():
    """Tokens are late in every other row; one sequence a step is the least."""
    steps = 10 * STEPS
    late = 448 * (steps - np.arange(10) % 2)
    log = log_of(loss=(steps, LOSSES), learning_rate=(steps, np.full(10, 1e-3)), tokens=(steps, late))
    assert set(st.logs.loss_curve(log, sequence_length=7).batch_size) == {64}
    assert set(curve_of(tokens=(STEPS, 7 * STEPS), sequence_length=7.0).batch_size) == {1}


def test_the_missing_factors_of_a_batch_size_are_named():
    (sentence,) = (each for each in curve_of(settings={"micro_batch": 4}).assumed if "batch size" in each)
    assert "the log has the micro batch (4), but not the number of accumulated batches and number of" in sentence


def test_numbers_of_each_run(tmp_path):
    """A mapping from the name of a run, as for several runs: also on the command line, and in its preview."""
    rows = "step,loss\n" + "".join(f"{t},{3 + 20 / t}\n" for t in range(10, 110, 10))
    for name in "abc":
        (tmp_path / f"{name}.csv").write_text(rows)
    given = {"batch_size": {"a": 64, "b": 256}, "learning_rate": {"a": 1e-3, "b": 2e-3, "c": 3e-3}}
    first, second, third = st.read_training_log(tmp_path, **given)
    assert (first.batch_size[0], second.batch_size[0], third.batch_size) == (64, 256, None)
    assert [curve.learning_rate[-1] for curve in (first, second, third)] == [1e-3, 2e-3, 3e-3]
    flags = CurveFlags(batch_size="a=64,b=256", learning_rate="a=1e-3,b=2e-3,c=3e-3")
    for (_, curve), expected in zip(flags.read_runs([tmp_path]), (first, second, third), strict=True):
        np.testing.assert_array_equal(curve.batch_size, expected.batch_size)
        np.testing.assert_array_equal(curve.learning_rate, expected.learning_rate)
    assert str(flags.preview_of({"logs": [tmp_path]})) == str(st.logs.preview(tmp_path, **given).sheet())
