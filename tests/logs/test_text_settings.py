"""Settings that consoles print beside their rows, by the names of a log, and what follows from them."""

import pytest

from sgdtheory.logs.column_names import ColumnNames
from sgdtheory.logs.formats.lines import number
from sgdtheory.logs.run_files import format_of
from tests.logs.text_writers import PRINTINGS, random_run

RUN = random_run(0)
PRINTED = {  # printing → all settings of its log
    "megatron": {"beta1": 0.9, "beta2": 0.95, "warmup": 100, "weight_decay": 0.1, "num_steps": RUN.total}
    | {"batch_size": RUN.batch, "sequence_length": RUN.length},
    "nemo": {"num_steps": RUN.total},
    "maxtext": {"num_steps": RUN.total, "batch_size": RUN.batch, "sequence_length": RUN.length},
    "composer, epochs": {"batch_size": RUN.batch, "sequence_length": RUN.length},
}


def log_of(path, text):
    path.write_text(text)
    (log,) = format_of(path).read(path, ColumnNames())
    return log


def settings_of(path, text):
    return dict(log_of(path, text).settings)


@pytest.mark.parametrize("name", PRINTED)
def test_settings_are_those_that_are_printed_and_no_others(name, tmp_path):
    assert settings_of(tmp_path / "a.log", PRINTINGS[name].text(RUN)) == PRINTED[name]


@pytest.mark.parametrize(("decay", "warmup"), [(-1, 1000), (4000, 400)])
def test_maxtext_s_warm_up_is_a_share_of_the_decay_or_else_of_all_steps(decay, warmup, tmp_path):
    more = {"warmup_steps_fraction": 0.1, "learning_rate_schedule_steps": decay, "adam_b1": 0.9, "opt_type": "adamw"}
    lines = "".join(f"Config param {key}: {value}\n" for key, value in more.items())
    found = settings_of(tmp_path / "a.log", lines + PRINTINGS["maxtext"].text(RUN))
    assert found == PRINTED["maxtext"] | {"warmup": warmup, "beta1": 0.9, "optimizer": "adamw"}


def test_nanogpt_s_own_length_of_a_sequence_is_taken_where_the_log_shows_none_and_remarked(tmp_path):
    log = log_of(tmp_path / "a.log", PRINTINGS["nanogpt"].text(RUN).replace(f"block_size = {RUN.length}", "width = 1"))
    assert log.settings["batch_size"] == RUN.batch * RUN.length / 1024
    assert log.remarks == ("sequences of 1024 tokens, which is nanoGPT's own: the log overrides it nowhere",)


def test_the_bar_of_hugging_face_s_training_is_told_by_most_of_its_rows_where_no_header_is(tmp_path):
    """Bars of evaluations, of other lengths, do not count; nor do dictionaries after the last bar have a step."""
    text = PRINTINGS["hugging face"].text(RUN)
    bare = "".join(line for line in text.splitlines(keepends=True) if "Total optimization" not in line)
    log = log_of(tmp_path / "a.log", bare + "{'loss': 1.0, 'learning_rate': 0.1, 'epoch': 3.9}\n")
    assert log.series("loss")[0].tolist() == RUN.steps.tolist()
    assert log.series("evaluation_loss")[0].tolist() == list(RUN.evaluated)
    assert "num_steps" not in log.settings


def test_evaluations_beside_levanter_s_bar_are_of_its_last_step_and_the_bar_is_remarked(tmp_path):
    lines = PRINTINGS["levanter's bar"].text(RUN).splitlines(keepends=True)
    evaluation = "INFO :: eval loss: {}\n"
    log = log_of(tmp_path / "a.log", evaluation.format(9.5) + "".join(lines[:3]) + evaluation.format(3.25))
    assert [each.tolist() for each in log.series("evaluation_loss")] == [[RUN.steps[2]], [3.25]]
    assert log.remarks == (
        "steps and losses are the progress bar's, of three digits: log with the tracker json_logger",
    )
    tracked = log_of(tmp_path / "a.log", PRINTINGS["levanter"].text(RUN).replace("\n", ".\n"))  # words may follow
    assert (tracked.series("loss")[0].tolist(), tracked.remarks) == (RUN.steps.tolist(), ())


def test_megatron_s_own_length_counts_where_sequences_are_shorter_at_first(tmp_path):
    tokens = [f"consumed tokens: {step * RUN.batch * 128} | elapsed" for step in RUN.steps]
    first, *rest = PRINTINGS["megatron"].text(RUN).split("elapsed")
    text = first + "".join(word + part for word, part in zip(tokens, rest, strict=True))
    log = log_of(tmp_path / "a.log", text)
    assert log.settings["sequence_length"] == RUN.length
    assert log.series("tokens")[1].tolist() == (RUN.steps * RUN.batch * 128).tolist()


def test_units_of_a_thousand_and_more():
    found = [number(f"2{unit}") for unit in "kKMGBTPE"]
    assert found == [2e3, 2e3, 2e6, 2e9, 2e9, 2e12, 2e15, 2e18]
