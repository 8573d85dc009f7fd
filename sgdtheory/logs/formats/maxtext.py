"""MaxText's console."""

import re
from collections.abc import Iterator

from sgdtheory.logs.formats.lines import NUMBER, AbstractTextFormat, Entry, number, setting

STEP = re.compile(
    rf"\bcompleted (?:profiler activation/deactivation )?step: (\d+), (?:(?!\bcompleted ).)*?\bloss: ({NUMBER})"
)
EVALUATION = re.compile(
    rf"(?:Completed eval after train step|eval metrics after step:) (\d+), (?:avg_)?loss=({NUMBER})"
)
PARAMETER = re.compile(r"\bConfig param (\w+): (.+)")
PARAMETERS = {
    "global_batch_size_to_train_on": "batch_size",
    "max_target_length": "sequence_length",
    "gradient_accumulation_steps": "accumulation",
    "steps": "num_steps",
    "learning_rate": "learning_rate",
    "opt_type": "optimizer",
    "adam_b1": "beta1",
    "adam_b2": "beta2",
    "adam_weight_decay": "weight_decay",
}


class MaxText(AbstractTextFormat):
    """`completed step: 100, seconds: 0.912, TFLOP/s/device: …, Tokens/s/device: …, total_weights: …, loss: 3.123, …`.

    Printing code seen: AI-Hypercomputer/maxtext e591f30c (2026-08-22) `src/maxtext/common/metric_logger.py` and
    `src/maxtext/configs/pyconfig.py`, which prints every parameter. Older printings of evaluations, `eval metrics after
    step:`, are read too; their code was not seen. Losses have three digits after the point; the learning rate is not
    printed (it is in the `metrics_file`, a file of JSON lines). The batch size of a ramp is not printed either.
    """

    name = "MaxText"
    programs = ("MaxText",)
    mark = re.compile(r"\bcompleted step: \d+, seconds: |\bConfig param \w+: ")

    def entries(self, lines: Iterator[str]) -> Iterator[Entry]:
        """Of steps, evaluations and parameters."""
        for line in lines:
            if found := STEP.search(line):
                yield Entry("loss", number(found[2]), float(found[1]), "loss")
            elif found := EVALUATION.search(line):
                yield Entry("evaluation_loss", number(found[2]), float(found[1]), "eval loss")
            elif (found := PARAMETER.search(line)) and found[1] in PARAMETERS:
                yield setting(PARAMETERS[found[1]], found[2])
