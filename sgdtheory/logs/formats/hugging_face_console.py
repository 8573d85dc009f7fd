"""The console of Hugging Face's Trainer: a dictionary a logged step, without its step."""

import re
import sys
from collections import Counter
from collections.abc import Iterator, Sequence
from typing import NamedTuple

import numpy as np

from sgdtheory.logs.formats.lines import NUMBER, AbstractTextFormat, Entry, number

LOSS, EPOCH, RUNTIME = r"'(?:eval_)?loss': ", "'epoch': ", "'train_runtime': "
# Each key is looked for once: `[^{}]*` before it would try every place of it, for every place of the key before.
DICTIONARY = (
    rf"\{{(?![^{{}}]*'(?:global_)?step')(?:(?!{LOSS})[^{{}}])*+{LOSS}(?:(?!{EPOCH})[^{{}}])*+{EPOCH}[^{{}}]*+\}}"
)
BAR = re.compile(r"^\s*\d+%\|[^|]*\| (\d+)/(\d+) \[")
HEADER = re.compile(r"(Num Epochs|Total train batch size \([^()]*\)|Total optimization steps) = ([\d,]+)")
SUMMARY = re.compile(rf"\{{(?:(?!{RUNTIME})[^{{}}])*+{RUNTIME}[^{{}}]*+\}}")
COLUMNS = {
    "loss": "loss",
    "eval_loss": "evaluation_loss",
    "learning_rate": "learning_rate",
    "num_input_tokens_seen": "tokens",
    "num_tokens": "tokens",  # TRL
}
KEYS = "|".join((*COLUMNS, "epoch", "train_runtime", "train_steps_per_second"))
PAIR = re.compile(rf"'({KEYS})': '?({NUMBER})'?(?=[,}}])")
ROUNDED = 0.006  # Printed epochs are off by this much at most: older versions print two decimals.


class _Row(NamedTuple):
    """A dictionary: its numbers, and its place among the bars."""

    pairs: dict[str, float]
    place: int


class _Printed(NamedTuple):
    """Dictionaries of a console, (step, of how many) of each bar, and the numbers of the header and the summary."""

    rows: list[_Row]
    bars: list[tuple[int, int]]
    said: dict[str, float]


class HuggingFaceConsole(AbstractTextFormat):
    """`{'loss': 2.3105, 'grad_norm': 1.2, 'learning_rate': 4.9e-05, 'epoch': 0.12}`, numbers in quotes or not.

    Printing code seen: `ProgressCallback` and `PrinterCallback` of huggingface/transformers 4.40 … 4.56
    (`src/transformers/trainer_callback.py`), `tqdm.write` of tqdm, which draws the bar anew after each line, and the
    lines of `Running training` that a Trainer logs. A dictionary has no step: it is that of the training's bar after
    it; without a bar it follows from its epoch, where the header or the summary at the end tells the steps of one.
    """

    name = "Hugging Face console"
    programs = ("Hugging Face Trainer's console, TRL's",)
    mark = re.compile(DICTIONARY)

    def entries(self, lines: Iterator[str]) -> Iterator[Entry]:
        """Yield the entries of all dictionaries, once their steps are known."""
        printed = _printed(lines)
        steps = _steps(printed)
        for row, step in zip(printed.rows, steps, strict=True):
            for called, column in COLUMNS.items():
                if called in row.pairs and step is not None:
                    yield Entry(column, row.pairs[called], float(step), called)
        for name in ("batch_size", "num_steps"):
            if name in printed.said:
                yield Entry(name, printed.said[name])


def _printed(lines: Iterator[str]) -> _Printed:
    rows: list[_Row] = []
    bars: list[tuple[int, int]] = []
    said: dict[str, float] = {}
    words = {"Num": "epochs", "Total train": "batch_size", "Total optimization": "num_steps"}
    for line in lines:
        if "{" in line:
            rows += [_Row(_pairs(found[0]), len(bars)) for found in HuggingFaceConsole.mark.finditer(line)]
        if RUNTIME in line and (summary := SUMMARY.search(line)):
            pairs = _pairs(summary[0])
            if {"train_runtime", "train_steps_per_second", "epoch"} <= pairs.keys():
                said.setdefault("num_steps", round(pairs["train_runtime"] * pairs["train_steps_per_second"]))
                said.setdefault("epochs", pairs["epoch"])
        if "%|" in line and (found := BAR.search(line)):
            bars.append((int(found[1]), int(found[2])))
        if " = " in line and (found := HEADER.search(line)):
            name = next(name for word, name in words.items() if found[1].startswith(word))
            said[name] = number(found[2]) or 0.0
    return _Printed(rows, bars, said)


def _pairs(text: str) -> dict[str, float]:
    return {sys.intern(key): value for key, word in PAIR.findall(text) if (value := number(word)) is not None}


def _steps(printed: _Printed) -> Sequence[float | None]:
    """Return the step of each dictionary; None where the log ends before the bar that has it.

    Raises:
        ValueError: nothing tells them.
    """
    trained = [row for row in printed.rows if "loss" in row.pairs] or printed.rows
    following = [printed.bars[row.place] for row in trained if row.place < len(printed.bars)]
    if following:  # evaluation and data have bars of their own, of other lengths
        length = printed.said.get("num_steps") or Counter(total for _, total in following).most_common(1)[0][0]
        next_step: list[float | None] = [None]  # of the training's bars, from the end of the log backwards
        for step, total in reversed(printed.bars):
            next_step.append(step if total == length else next_step[-1])
        next_step.reverse()
        return [next_step[row.place] for row in printed.rows]
    if {"num_steps", "epochs"} <= printed.said.keys() and all("epoch" in row.pairs for row in printed.rows):
        return _of_epochs(printed)
    raise ValueError(
        "the Trainer's dictionaries have no steps, and neither its progress bar nor its line 'Total optimization "
        "steps' stands beside them; give trainer_state.json of its output folder"
    )


def _of_epochs(printed: _Printed) -> Sequence[float]:
    """Return whole steps of rounded epochs: multiples of one distance, where rows are that far apart."""
    epochs = np.array([row.pairs["epoch"] for row in printed.rows])
    of_epoch = printed.said["num_steps"] / printed.said["epochs"]
    trained = np.array(["loss" in row.pairs for row in printed.rows])
    about = epochs * of_epoch
    count = np.cumsum(trained)
    apart = np.round(about[trained][-1] / count[-1]) if count[-1] else 0.0
    even = apart * count
    if apart and (np.abs(even - about)[trained] <= ROUNDED * of_epoch + 1).all():
        about = np.where(trained, even, about)
    return np.round(about).tolist()
