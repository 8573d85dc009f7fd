"""The text log of the modded-nanogpt records."""

import re
from collections.abc import Iterator
from math import prod

from sgdtheory.logs.formats.lines import NUMBER, AbstractTextFormat, Entry, number

STEP = re.compile(rf"^step:(\d+)/(\d+) (train|val)_loss:({NUMBER}) ")
ARGUMENT = re.compile(r"\s+(\w+) *: *(?:int|float) *= *+([\d.e*+-][\d.e*+ -]*)(?:#.*)?")
ARGUMENTS = {
    "batch_size": "batch_size",
    "sequence_length": "sequence_length",
    "num_iterations": "num_steps",
    "warmup_iters": "warmup",
    "weight_decay": "weight_decay",
    "learning_rate": "learning_rate",
}


class ModdedNanoGPT(AbstractTextFormat):
    """`step:100/5100 train_loss:4.1234 train_time:12345ms step_avg:130.00ms`, `step:125/5100 val_loss:4.2345 …`.

    Printing code seen: KellerJordan/modded-nanogpt f411b3d3 (2026-08-01) `train_gpt.py`, and that in the logs of
    `records/track_1_short/2024-10-29_Optimizers`, which begin with the program: its hyperparameters are read there
    while the batch size is in sequences. Records of 2025 and later print validation losses alone.
    """

    name = "modded-nanogpt"
    programs = ("modded-nanogpt",)
    mark = re.compile(
        r"^step:\d+/\d+ (?:(?:train|val)_loss:|train_time:)"
        r"|\Aimport os\nimport sys\n(?:\n?#.*\n)*with open\(sys\.argv\[0\]",  # the program, printed first
        re.MULTILINE,
    )

    def entries(self, lines: Iterator[str]) -> Iterator[Entry]:
        """Of steps, and of the program that stands before them."""
        for line in lines:
            if found := STEP.search(line):
                name = "loss" if found[3] == "train" else "evaluation_loss"
                yield Entry("num_steps", float(found[2]))
                yield Entry(name, number(found[4]), float(found[1]), f"{found[3]}_loss")
            elif (found := ARGUMENT.fullmatch(line)) and found[1] in ARGUMENTS:
                factors = [value for each in found[2].split("*") if (value := number(each)) is not None]
                if factors:
                    yield Entry(ARGUMENTS[found[1]], prod(factors))
