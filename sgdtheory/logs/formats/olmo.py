"""OLMo's and OLMo-core's consoles."""

import re
from collections.abc import Iterator

from sgdtheory.logs.formats.lines import AbstractTextFormat, Entry, number

STEP = re.compile(r"\[step=(\d+)/([\d,]+|\?\?\?),epoch=\d+")
METRIC = re.compile(r"    ([^\s=][^=]*)=(\S+)")
COLUMNS = {
    "train/CrossEntropyLoss": "loss",
    "train/CE loss": "loss",
    "throughput/total_tokens": "tokens",
    "throughput/total tokens": "tokens",
    "optim/learning_rate_group0": "learning_rate",
    "optim/LR (group 0)": "learning_rate",
}
EVALUATION = re.compile(r"(?:eval/)?(.+)/(?:CrossEntropyLoss|CE loss)")


class OLMo(AbstractTextFormat):
    """Blocks, `[step=100/1000,epoch=0]` and below it `    train/CrossEntropyLoss=3.123`, a metric a line.

    Printing code seen: allenai/OLMo 59a53e3f (2025-09-04) `olmo/train.py`, `log_metrics_to_console`, and
    `olmo/eval/evaluator.py`; allenai/OLMo-core fa6c5014 (2026-06-22)
    `src/olmo_core/train/callbacks/console_logger.py`, `evaluator_callback.py`, `speed_monitor.py` and
    `utils.py`, `format_float`. Losses have four digits there, and tokens from 10⁹ on. Batch sizes are not printed, they
    follow from the tokens and the length of a sequence; OLMo prints no learning rate, OLMo-core that of its groups, of
    which the first counts. Of several evaluations the first in the log counts, at the step printed before it.
    """

    name = "OLMo"
    programs = "OLMo", "OLMo-core"
    mark = re.compile(r"\[step=\d+/(?:[\d,]+|\?\?\?),epoch=\d+")

    def entries(self, lines: Iterator[str]) -> Iterator[Entry]:
        """Of the blocks."""
        step = None
        evaluated = ""
        for line in lines:
            if found := STEP.search(line):
                step = float(found[1])
                if (planned := number(found[2])) is not None:
                    yield Entry("num_steps", planned)
                continue
            found = METRIC.fullmatch(line)
            value = number(found[2]) if found else None
            if found is None or value is None or step is None:
                continue
            if found[1] in COLUMNS:
                yield Entry(COLUMNS[found[1]], value, step, found[1])
            elif (names := EVALUATION.fullmatch(found[1])) and not found[1].startswith("train/"):
                evaluated = evaluated or names[1]
                if names[1] == evaluated:
                    yield Entry("evaluation_loss", value, step, found[1])
