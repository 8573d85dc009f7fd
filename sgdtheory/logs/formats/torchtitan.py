"""torchtitan's console."""

import re
from collections.abc import Iterator, Sequence
from typing import Any

from sgdtheory.logs.formats.lines import NUMBER, AbstractTextFormat, Entry, number, setting

STEP = re.compile(rf"(validate )?step: +(\d+)  loss: +({NUMBER})  (?:grad_norm: +\S+  )?memory:")
SETUP = re.compile(r"Trainer is initialized with ([^\n]+)")
SETTINGS = {
    "batch_size": r"global batch size (\d+)",
    "micro_batch": r"local batch size (\d+)",
    "tokens_per_step": r"(?<!\d)(\d+) tokens per train step",
    "accumulation": r"gradient accumulation steps (\d+)",
    "sequence_length": r"(?:sequence|maximum context) length (\d+)",
    "num_steps": r"total steps (\d+)",
    "warmup": r"\(warmup (\d+)\)",
}
CONFIG = re.compile(r'\s+"(lr|beta1|beta2|weight_decay)": ([\d.eE+-]+),?')
CONFIGS = {"lr": "learning_rate", "beta1": "beta1", "beta2": "beta2", "weight_decay": "weight_decay"}


class Torchtitan(AbstractTextFormat):
    """`[titan] … step: 10  loss:  8.12345  grad_norm:  1.2345  memory: … tps: … tflops: … mfu: …`, in colours or not.

    Printing code seen: pytorch/torchtitan b5bcd76c (2026-08-21) `torchtitan/components/metrics.py`, `trainer.py` and
    `tools/logging.py`; 53f66422 (2025-07-15), since when validations are printed; 1ec2ece5 (2024) `train.py`, with wps
    for tps and no norm. All ranks print the same loss, that of all of them. The learning rate is not printed; its peak
    is where the run prints its configuration.
    """

    name = "torchtitan"
    programs = ("torchtitan",)
    mark = re.compile(rf"{STEP.pattern}|^\[titan\] \d{{4}}-", re.MULTILINE)

    def entries(self, lines: Iterator[str]) -> Iterator[Entry]:
        """Of steps, validations and the set-up."""
        for line in lines:
            if found := STEP.search(line):
                name = "evaluation_loss" if found[1] else "loss"
                yield Entry(name, number(found[3]), float(found[2]), f"{found[1] or ''}loss")
            elif found := SETUP.search(line):
                for name, pattern in SETTINGS.items():
                    if value := re.search(pattern, found[1]):
                        yield setting(name, value[1])
            elif found := CONFIG.fullmatch(line):
                yield setting(CONFIGS[found[1]], found[2])

    def finish(self, settings: dict[str, Any], columns: dict[str, str]) -> Sequence[str]:  # noqa: ARG002
        """What is given in tokens a step becomes sequences."""
        tokens = settings.pop("tokens_per_step", None)
        if tokens and settings.get("sequence_length"):
            settings["batch_size"] = tokens / settings["sequence_length"]
            return ("B is the tokens of a step over the longest sequence",)
        return ()
