"""NeMo's progress printer."""

import re
from collections.abc import Iterator

from sgdtheory.logs.formats.lines import AbstractTextFormat, Entry, numbers_of_cells

STEP = re.compile(r"\bTraining epoch (\d+), iteration (\d+)/(\d+) \|(.*)")
COLUMNS = {"lr": "learning_rate", "global_batch_size": "batch_size", "reduced_train_loss": "loss"}
VALIDATION = "val_loss"


class Nemo(AbstractTextFormat):
    """`Training epoch 0, iteration 99/999 | lr: 0.0003 | global_batch_size: 256 | reduced_train_loss: 3.142 | …`.

    Printing code seen: NVIDIA/NeMo 8cfedd72 (2025-09-20) `nemo/lightning/pytorch/callbacks/progress_printer.py`,
    `MegatronProgressPrinter`; numbers have four digits there. `val_loss` stands in every line after a validation: it
    counts where it is new.
    """

    name = "NeMo"
    programs = ("NeMo",)
    mark = re.compile(r"\bTraining epoch \d+, iteration \d+/\d+ \|")

    def entries(self, lines: Iterator[str]) -> Iterator[Entry]:
        """Of the steps."""
        last = None
        for line in lines:
            if not (found := STEP.search(line)):
                continue
            values = numbers_of_cells(found[4])
            step = values.get("global_step", float(found[2]))
            yield Entry("num_steps", float(found[3]) + 1)
            for called, name in COLUMNS.items():
                if called in values:
                    yield Entry(name, values[called], step, called)
            if VALIDATION in values and values[VALIDATION] != last:
                last = values[VALIDATION]
                yield Entry("evaluation_loss", last, step, VALIDATION)
