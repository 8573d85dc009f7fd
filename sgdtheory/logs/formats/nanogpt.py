"""nanoGPT's text log."""

import re
from collections.abc import Iterator, Sequence
from typing import Any

from sgdtheory.logs.formats.lines import NUMBER, AbstractTextFormat, Entry, number, setting

STEP = re.compile(rf"\biter (\d+): loss ({NUMBER}), time")
EVALUATION = re.compile(rf"\bstep (\d+): train loss ({NUMBER}), val loss ({NUMBER})")
TOKENS = re.compile(r"tokens per iteration will be: ([\d,]+)")
OVERRIDE = re.compile(r"(?:Overriding: )?(\w+) = ([^#]+)(?:#.*)?")
OVERRIDES = {
    "block_size": "sequence_length",
    "batch_size": "micro_batch",
    "max_iters": "num_steps",
    "warmup_iters": "warmup",
    "weight_decay": "weight_decay",
    "beta1": "beta1",
    "beta2": "beta2",
    "learning_rate": "learning_rate",
}
BLOCK_SIZE = 1024.0  # of train.py, unless it is overridden, which is printed


class NanoGPT(AbstractTextFormat):
    """`iter 100: loss 3.1234, time 90.00ms, mfu 40.00%`, `step 1000: train loss 3.1234, val loss 3.2345`.

    Printing code seen: karpathy/nanoGPT 3adf61e1 (2025-11-12) `train.py`, `configurator.py`. `iter` is the loss of one
    micro batch before that step; the learning rate is not printed. B is the tokens of an iteration over `block_size`,
    which is train.py's own where the log shows no other.
    """

    name = "nanoGPT"
    programs = ("nanoGPT",)
    mark = re.compile(f"{STEP.pattern}|{EVALUATION.pattern}")

    def entries(self, lines: Iterator[str]) -> Iterator[Entry]:
        """Of iterations, evaluations, and what is overridden."""
        for line in lines:
            if found := STEP.search(line):
                yield Entry("loss", number(found[2]), float(found[1]), "loss")
            elif found := EVALUATION.search(line):
                yield Entry("evaluation_loss", number(found[3]), float(found[1]), "val loss")
            elif found := TOKENS.search(line):
                yield setting("tokens_per_step", found[1])
            elif (found := OVERRIDE.fullmatch(line)) and found[1] in OVERRIDES:
                yield setting(OVERRIDES[found[1]], found[2])

    def finish(self, settings: dict[str, Any], columns: dict[str, str]) -> Sequence[str]:  # noqa: ARG002
        """Where the sequence length is nanoGPT's own; B is computed."""
        tokens = settings.pop("tokens_per_step", None)
        if not tokens:
            return ()
        known = "sequence_length" in settings
        length = settings.setdefault("sequence_length", BLOCK_SIZE)
        settings["batch_size"] = tokens / length
        return (
            () if known else (f"sequences of {length:g} tokens, which is nanoGPT's own: the log overrides it nowhere",)
        )
