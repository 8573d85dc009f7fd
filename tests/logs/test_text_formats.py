"""Text formats: what is printed is read, of a program's own lines with the prefixes that clusters put before them."""

import gzip

import numpy as np
import pytest

from sgdtheory.logs.column_names import ColumnNames
from sgdtheory.logs.files import head_of
from sgdtheory.logs.formats.key_values import KeyValues
from sgdtheory.logs.formats.lines import AbstractTextFormat, number
from sgdtheory.logs.formats.registry import FORMATS
from sgdtheory.logs.run_files import format_of, run_files
from tests.logs.text_writers import PRINTINGS, megatron, olmo_core, printed, random_run, torchtitan
from tests.logs.writers import FILES

ANY = KeyValues.name, "CSV"  # any program's, asked last
PROGRAMS = [each for each in FORMATS if each.name not in ANY]


def read(path, text):
    """The run in a file with this text, by the first format that recognizes it."""
    path.write_text(text)
    (log,) = format_of(path).read(path, ColumnNames())
    return log


@pytest.mark.parametrize("name", PRINTINGS)
def test_what_is_printed_is_read(tmp_path, name):
    printing = PRINTINGS[name]
    run = random_run(0)
    log = read(tmp_path / "run7.log", printing.text(run))
    assert (log.name, log.format) == ("run7", printing.format)
    steps, losses = log.series("loss")
    np.testing.assert_array_equal(steps, run.steps)
    np.testing.assert_allclose(losses, printed(run.loss, printing.loss), rtol=1e-14)
    evaluated, values = log.series("evaluation_loss")
    expected = {} if printing.evaluation == "none" else run.evaluated
    np.testing.assert_array_equal(evaluated, list(expected))
    if expected:
        how = printing.evaluation or printing.loss
        np.testing.assert_allclose(values, printed(list(expected.values()), how), rtol=1e-14)
    if printing.rate:
        np.testing.assert_allclose(log.series("learning_rate")[1], printed(run.rate, printing.rate), rtol=1e-14)
    assert {"batch_size": run.batch, "sequence_length": run.length}.items() >= {
        name: log.settings.get(name, log.batch_size[0] if name == "batch_size" else None) for name in printing.has
    }.items()


@pytest.mark.parametrize("name", ["megatron", "olmo", "olmo-core", "levanter"])
def test_tokens_are_read(tmp_path, name):
    """OLMo-core prints four digits of what is larger than 10⁹."""
    run = random_run(5)
    steps, tokens = read(tmp_path / "run.log", PRINTINGS[name].text(run)).series("tokens")
    assert steps.size == run.steps.size
    np.testing.assert_allclose(tokens, (run.steps + (name == "levanter")) * run.batch * run.length, rtol=5.1e-4)


@pytest.mark.parametrize("name", PRINTINGS)
def test_a_log_is_recognized_by_its_own_format_alone(tmp_path, name):
    """The last resort is asked last; after more text than the head holds, too."""
    for noise in ("", "NCCL INFO Channel 00/24 : 0 1 2 3 4 5 6 7\n" * 3000):
        path = tmp_path / "run.log"
        path.write_text(noise + PRINTINGS[name].text(random_run(0)))
        recognized = [each.name for each in PROGRAMS if each.recognizes(path, head_of(path))]
        if PRINTINGS[name].format == KeyValues.name:
            assert recognized == []
            assert KeyValues().recognizes(path, head_of(path)) == (not noise)
        elif not (name == "modded-nanogpt" and noise):
            assert recognized == [PRINTINGS[name].format]


def test_some_lines_that_look_like_rows_make_no_table_of_a_log(tmp_path):
    noise = "0, NCCL INFO Channel 00/24 : 0 1 2 3\nnode, NCCL INFO Channel 01/24 : 4 5 6 7\n" * 1500
    run = random_run(0)
    log = read(tmp_path / "run.log", noise + PRINTINGS["megatron"].text(run))
    np.testing.assert_array_equal(log.series("loss")[0], run.steps)


@pytest.mark.parametrize("format", FILES)
def test_no_table_is_taken_for_a_text_log(tmp_path, format):
    """These are the formats with rows and columns."""
    name, write = FILES[format]
    run = {10 * t: {"loss": 3 + 1 / t, "learning_rate": 1e-3, "evaluation_loss": 3.1} for t in range(1, 9)}
    path = write(tmp_path / name, run)
    lines = [each for each in FORMATS if isinstance(each, AbstractTextFormat | KeyValues)]
    recognized = [each.name for each in lines if each.recognizes(path, head_of(path))]
    assert recognized in ([], [KeyValues.name])
    assert format_of(path).name != KeyValues.name


def test_other_text_is_recognized_by_none(tmp_path):
    rng = np.random.default_rng(0)
    words = ["the", "loss,", "of", "step", "3", "iteration", "epoch:", "100/1000", "rate", "=", "|", "at", "lr"]
    prose = "\n".join(" ".join(rng.choice(words, 12)) for _ in range(200))
    for text in ("hello\n", "Dear all, here it is.\nMany thanks, yours\n", "# a\n\nb, c\n", prose, "\x1b[31m\n"):
        path = tmp_path / "other.txt"
        path.write_text(text)
        with pytest.raises(ValueError, match="is a file of no known format; write a CSV file"):
            format_of(path)


@pytest.mark.parametrize(
    ("name", "prefix"), [*((name, "[rank0]: ") for name in PRINTINGS), ("megatron", "[default0]:"), ("olmo", "  7: ")]
)
def test_prefixes_of_ranks_are_taken_off(tmp_path, name, prefix):
    text = PRINTINGS[name].text(random_run(0))
    with_prefix = "".join(prefix + line for line in text.splitlines(keepends=True))
    plain, prefixed = (read(tmp_path / "run.log", each) for each in (text, with_prefix))
    for column in ("step", "loss", "evaluation_loss", "learning_rate", "batch_size", "tokens"):
        np.testing.assert_array_equal(getattr(plain, column), getattr(prefixed, column))


def test_of_several_ranks_one_row_a_step(tmp_path):
    """One rank lags behind: its lines are no restart."""
    run = random_run(0)
    first, second = ([f"[rank{rank}]: {line}" for line in torchtitan(run)] for rank in (0, 1))
    lagging = [line for pair in zip(first[3:], second[:-3], strict=True) for line in pair]
    log = read(tmp_path / "run.log", "\n".join([*first[:3], *lagging, *second[-3:]]) + "\n")
    np.testing.assert_array_equal(log.series("loss")[0], run.steps)
    assert log.remarks == ()


def test_what_comes_after_a_restart_replaces_what_was_before(tmp_path):
    run = random_run(0)
    back = run._replace(loss=run.loss + 1)
    lines = [line for line in megatron(run) if " iteration " in line and "consumed" in line]
    again = [line for line in megatron(back) if " iteration " in line and "consumed" in line]
    log = read(tmp_path / "run.log", "\n".join([*lines[:30], *again[20:]]) + "\n")
    np.testing.assert_array_equal(log.step, run.steps)
    np.testing.assert_allclose(log.loss, np.where(np.arange(40) < 20, run.loss, back.loss), rtol=1e-6)
    assert len(log.remarks) == 1
    assert "10 rows were replaced" in log.remarks[0]


@pytest.mark.parametrize("name", PRINTINGS)
def test_a_last_line_that_was_cut_is_left_out(tmp_path, name):
    """Wherever it is cut: a number that lacks its last digits is none."""
    run = random_run(0)
    text = PRINTINGS[name].text(run)
    whole = read(tmp_path / "run.log", text)
    for removed in (1, 2, 5, 9, 30):
        cut = read(tmp_path / "run.log", text[:-removed].rstrip())
        rows = np.isin(whole.step, cut.step)
        assert rows.sum() >= whole.step.size - 1
        np.testing.assert_array_equal(cut.loss[:-1], whole.loss[rows][:-1])
        assert cut.remarks[-1] == "the last line was cut, and is left out"


def test_compressed_logs_are_read(tmp_path):
    path = tmp_path / "run7.log.gz"
    path.write_bytes(gzip.compress(PRINTINGS["olmo"].text(random_run(0)).encode()))
    assert format_of(path).name == "OLMo"
    (log,) = format_of(path).read(path, ColumnNames())
    assert log.name == "run7"
    assert log.has("loss")


@pytest.mark.parametrize("name", ["nanogpt", "torchtitan", "olmo", "olmo-core", "maxtext", "levanter", "key values"])
def test_a_loss_of_nan_is_the_end(tmp_path, name):
    run = random_run(0)
    run.loss[-1] = np.nan
    log = read(tmp_path / "run.log", PRINTINGS[name].text(run).replace("olmo_float(nan)", "nan"))
    assert np.isinf(log.series("loss")[1][-1])
    assert np.isfinite(log.series("loss")[1][:-1]).all()


def test_dictionaries_without_steps_are_refused(tmp_path):
    """Steps are known from neither bar nor header; rounded epochs of even rows are no rounded steps."""
    rows = [f"{{'loss': {3 + 10 / k}, 'learning_rate': 0.001, 'epoch': {k * 7 / 1000:.2f}}}\n" for k in range(1, 90)]
    with pytest.raises(ValueError, match="dictionaries have no steps.*give trainer_state.json of its output folder"):
        read(tmp_path / "run.log", "".join(rows))
    summary = "{'train_runtime': 100.01, 'train_steps_per_second': 6.23, 'train_loss': 3.1, 'epoch': 0.623}\n"
    log = read(tmp_path / "run.log", "".join([*rows, summary]))
    np.testing.assert_array_equal(log.step, 7 * np.arange(1, 90))


def test_megatron_does_not_print_a_nan(tmp_path):
    """A line without the loss is the end, one whose steps were all skipped is not."""
    lines = megatron(random_run(0))
    no_loss = lines[-1].replace(lines[-1][lines[-1].index(" lm loss") : lines[-1].index(" loss scale")], "")
    log = read(tmp_path / "run.log", "\n".join([*lines[:-1], no_loss]) + "\n")
    assert np.isinf(log.series("loss")[1][-1])
    skipped = [line for line in lines if "consumed" in line][0]
    value = skipped[skipped.index("lm loss: ") + 9 :].split()[0]
    skipped = skipped.replace(value, f"{0:.6E}").replace("skipped iterations:   0", "skipped iterations:  10")
    start = next(place for place, line in enumerate(lines) if "consumed" in line)
    log = read(tmp_path / "run.log", "\n".join([*lines[:start], skipped, *lines[start + 1 :]]) + "\n")
    assert np.isfinite(log.series("loss")[1]).all()
    assert log.series("loss")[0].size == 39


def test_megatron_tests_are_no_validations(tmp_path):
    lines = megatron(random_run(0))
    end = " validation loss at iteration 900 on test set | lm loss value: 1.000000E+00 | lm loss PPL: 2.7E+00 | "
    old = " validation loss at the end of training for test data | lm loss value: 1.000000E+00 | "
    log = read(tmp_path / "run.log", "\n".join([*lines, end, old]) + "\n")
    assert 1.0 not in log.series("evaluation_loss")[1]
    last = " validation loss at the end of training for val data | lm loss value: 1.250000E+00 | "
    log = read(tmp_path / "run.log", "\n".join([*lines, last]) + "\n")
    assert log.evaluation_loss[-1] == 1.25


def test_megatron_s_warm_up_in_samples_becomes_steps(tmp_path):
    text = PRINTINGS["megatron"].text(random_run(0))
    line = next(line for line in text.splitlines() if "lr_warmup_iters" in line)
    samples = "  lr_warmup_samples .............................. 25600"
    log = read(tmp_path / "run.log", text.replace(line, samples))
    assert log.settings["warmup"] == 25600 / log.settings["batch_size"]
    share = "  lr_warmup_fraction ............................. 0.02"
    assert read(tmp_path / "run.log", text.replace(line, share)).settings["warmup"] == 200


def test_torchtitan_in_tokens(tmp_path):
    """The set-up as it is printed since 2026."""
    lines = torchtitan(random_run(0))
    setup = (
        "Trainer is initialized with 16384 tokens per DP rank, 524288 tokens per train step, "
        "gradient accumulation steps 1, maximum context length 2048, total steps 1000 (warmup 200)"
    )
    log = read(
        tmp_path / "run.log", "\n".join([setup, '    "lr": 0.0008,', '    "weight_decay": 0.1,', *lines[1:]]) + "\n"
    )
    assert log.settings["batch_size"] == 256
    assert log.settings["learning_rate"] == 8e-4
    assert log.settings["weight_decay"] == 0.1


def test_olmo_core_at_a_step_whose_metrics_are_not_printed(tmp_path):
    lines = olmo_core(random_run(0))
    log = read(tmp_path / "run.log", "\n".join(["INFO\t[step=1/???,epoch=1]", *lines]) + "\n")
    np.testing.assert_array_equal(log.series("loss")[0], random_run(0).steps)


@pytest.mark.parametrize(
    "line",
    [
        "step: {step}, loss={loss:.5f}",
        "iter={step} train_loss={loss:.5f} lr=3e-4",
        "Step {step} | Loss {loss:.5f} | LR 3e-4",
        "{{'global_step': {step}, 'train/loss': {loss:.5f}}}",
        "2026-08-22 10:00:00 INFO iteration {step}/1000 - loss: {loss:.5f} - loss_scale: 65536 - time: 3",
    ],
)
def test_lines_of_one_s_own(tmp_path, line):
    run = random_run(0)
    rows = [line.format(step=step, loss=loss) for step, loss in zip(run.steps, run.loss, strict=True)]
    log = read(tmp_path / "run.log", "\n".join(rows) + "\n")
    assert log.format == KeyValues.name
    np.testing.assert_array_equal(log.step, run.steps)
    np.testing.assert_allclose(log.loss, printed(run.loss, ".5f"))


def test_names_that_the_user_gives(tmp_path):
    path = tmp_path / "run.log"
    path.write_text("".join(f"tick {step}: nats {3 - step / 10}\n" for step in range(5)))
    (log,) = KeyValues().read(path, ColumnNames(step="tick", loss="nats"))
    np.testing.assert_allclose(log.loss, 3 - np.arange(5) / 10)


def test_steps_that_begin_again_with_every_epoch_are_refused(tmp_path):
    lines = [f"epoch: {epoch} step: {step} loss: 3.1\n" for epoch in range(2) for step in range(5)]
    with pytest.raises(ValueError, match="begins again with epoch 1"):
        read(tmp_path / "run.log", "".join(lines))


def test_a_run_that_has_not_begun(tmp_path):
    with pytest.raises(ValueError, match="holds no step of torchtitan yet"):
        read(tmp_path / "run.log", torchtitan(random_run(0))[0] + "\n")


def test_numbers():
    values = {"1,024": 1024, "1.05B": 1.05e9, "2.50E-05": 2.5e-5, "3.": 3, "-inf": -np.inf, "1.00k": 1000, "7T": 7e12}
    assert {text: number(text) for text in values} == pytest.approx(values)
    assert [text for text in ("", "3.1x", "1e", "--3", "None", "GiB", "1.05b") if number(text) is not None] == []


def test_a_number_that_was_cut_is_none(tmp_path):
    """Control: with its line's end it would be read."""
    lines = "".join(f"step: {step} loss: {3 - step / 100:.3f}\n" for step in range(5))
    log = read(tmp_path / "run.log", lines + "step: 5 loss: 2.9")
    assert (log.step[-1], log.remarks) == (4, ("the last line was cut, and is left out",))
    assert read(tmp_path / "run.log", lines + "step: 5 loss: 2.9\n").step[-1] == 5


def test_where_levanter_s_tracker_logs_its_bar_does_not_count(tmp_path):
    run = random_run(0)
    coarse = run._replace(steps=run.steps + 1)
    both = PRINTINGS["levanter"].text(run) + PRINTINGS["levanter's bar"].text(coarse)
    np.testing.assert_array_equal(read(tmp_path / "run.log", both).series("loss")[0], run.steps)


def test_logs_in_folders(tmp_path):
    """At any depth, hidden files and others left out; a file that is named is taken as it is."""
    text = PRINTINGS["olmo"].text(random_run(0))
    for name in ("b.log", "a/c.log", "a/.hidden.log", ".old/d.log"):
        (tmp_path / name).parent.mkdir(exist_ok=True)
        (tmp_path / name).write_text(text)
    (tmp_path / "sizes.csv").write_text("name,width\nx,1\n")
    (tmp_path / "notes.txt").write_text("nothing\n")
    assert run_files(tmp_path) == [tmp_path / "a" / "c.log", tmp_path / "b.log"]
    assert run_files(tmp_path / "notes.txt") == [tmp_path / "notes.txt"]
    (tmp_path / "empty").mkdir()
    with pytest.raises(ValueError, match="empty holds no log of a known format"):
        run_files([tmp_path / "b.log", tmp_path / "empty"])
