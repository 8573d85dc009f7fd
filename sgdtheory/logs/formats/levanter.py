"""Levanter's JSON tracker and its progress bar."""

import json
import re
from collections.abc import Iterator, Sequence
from typing import Any

from sgdtheory._common.files import json_data
from sgdtheory.logs.formats.lines import NUMBER, AbstractTextFormat, Entry, number

TRACKED = re.compile(r'\{"tracker": "json_logger", "event": "(?:log|hparams)"')
BAR = re.compile(rf"Progress on:train ({NUMBER})it/(?:(?!Progress on:train).)*?\bpostfix:loss=({NUMBER})")
TERMINAL = re.compile(rf"\btrain: +\d+%\|[^|]*\| ([\d.]+[kM]?)/(?:(?!\btrain: ).)*?\bloss=({NUMBER})\]")
EVALUATION = re.compile(rf":: eval loss: ({NUMBER})")
COLUMNS = {
    "train/loss": "loss",
    "eval/loss": "evaluation_loss",
    "optim/learning_rate": "learning_rate",
    "throughput/total_tokens": "tokens",
}
SETTINGS = {
    ("trainer", "train_batch_size"): "batch_size",
    ("trainer", "num_train_steps"): "num_steps",
    ("model", "seq_len"): "sequence_length",
    ("train_seq_len",): "sequence_length",
    ("optimizer", "weight_decay"): "weight_decay",
    ("optimizer", "beta1"): "beta1",
    ("optimizer", "beta2"): "beta2",
    ("optimizer", "learning_rate"): "learning_rate",
    ("optimizer", "type"): "optimizer",
}


class Levanter(AbstractTextFormat):
    """`{"tracker": "json_logger", "event": "log", "step": 100, "metrics": {"train/loss": 3.1234, …}}`, or the bar.

    Printing code seen: stanford-crfm/levanter 9263f81e (2025-09-26) `src/levanter/tracker/json_logger.py`,
    `callbacks/_metrics.py`, `eval.py`, `utils/logging.py`; tradingstrategy-ai/tqdm-loggable 5083a123
    `tqdm_loggable/tqdm_logging.py`, `Progress on:train 100it/1.00kit rate:… postfix:loss=3.12`. Where the tracker
    logs, the bar does not count. The bar's numbers have three digits.
    """

    name = "Levanter"
    programs = ("Levanter", "Marin")
    mark = re.compile(f"{TRACKED.pattern}|{BAR.pattern}|{TERMINAL.pattern}")

    def entries(self, lines: Iterator[str]) -> Iterator[Entry]:
        """Yield the entries of the tracker, or of the bar where no tracker logs."""
        tracked = False
        bar: list[Entry] = []
        for line in lines:
            if found := TRACKED.search(line):
                tracked = True
                yield from _of_tracker(line[found.start() : line.rfind("}") + 1])
            elif found := BAR.search(line) or TERMINAL.search(line):
                bar.append(Entry("loss", number(found[2]), float(round(number(found[1]) or 0)), "loss of the bar"))
            elif bar and (found := EVALUATION.search(line)):
                bar.append(Entry("evaluation_loss", number(found[1]), bar[-1].step, "eval loss"))
        if not tracked:
            yield from bar

    def finish(self, settings: dict[str, Any], columns: dict[str, str]) -> Sequence[str]:  # noqa: ARG002
        """Return the remark on numbers of the bar; there are no settings to compute."""
        if columns.get("loss") == "loss of the bar":
            return ("steps and losses are the progress bar's, of three digits: log with the tracker json_logger",)
        return ()


def _of_tracker(text: str) -> Iterator[Entry]:
    try:
        record = json_data(text)
    except json.JSONDecodeError:
        return
    for path, name in SETTINGS.items():
        value = record.get("hparams", {})
        for key in path:
            value = value.get(key) if isinstance(value, dict) else None
        if isinstance(value, int | float | str):
            yield Entry(name, value)
    step, metrics = record.get("step"), record.get("metrics", {})
    for called, name in COLUMNS.items():
        value = metrics.get(called) if isinstance(metrics, dict) else None
        if isinstance(value, int | float) and isinstance(step, int | float):
            yield Entry(name, value, step, called)
