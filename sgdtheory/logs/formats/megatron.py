"""Megatron-LM's text log, and those of its kind."""

import re
from collections.abc import Iterator, Sequence
from typing import Any

from sgdtheory.logs.formats.lines import AbstractTextFormat, Entry, numbers_of_cells, setting, warm_up_in_steps

STEP = re.compile(r"\biteration +(\d+)/ *(\d+) \|(.*)")
VALIDATION = re.compile(
    r"(?<![\w-])validation(-\S+)? loss at (?:iteration (\d++)|the end of \w++ for (\w++))((?:(?! loss at )[^|])*)\|(.*)"
)
ARGUMENT = re.compile(r"\s+(\w+) \.{2,} (.+)")
ARGUMENTS = {
    "seq_length": "sequence_length",
    "global_batch_size": "batch_size",
    "micro_batch_size": "micro_batch",
    "world_size": "world_size",
    "weight_decay": "weight_decay",
    "adam_beta1": "beta1",
    "adam_beta2": "beta2",
    "optimizer": "optimizer",
    "lr": "learning_rate",
    "lr_decay_style": "schedule",
    "lr_wsd_decay_style": "decay_style",
    "train_iters": "num_steps",
    "lr_warmup_iters": "warmup",
    "lr_warmup_samples": "warmup_samples",
    "lr_warmup_fraction": "warmup_fraction",
    "lr_decay_iters": "decay_steps",
}
NO_LOSS = "loss scale"


class Megatron(AbstractTextFormat):
    """A line a logging interval, ` iteration  100/ 1000 | consumed samples: 25600 | … | lm loss: 3.1E+00 | …`.

    Printing code seen: NVIDIA/Megatron-LM d98e8a64 (2026-08-22) `megatron/training/training.py`, `training_log` and
    `evaluate_and_print_results`, `megatron/training/arguments.py`, `_print_args`; the same of de593298 (2022) and
    dfb907fe (2020, no consumed samples, no clock in front); NVIDIA-NeMo/Megatron-Bridge 067f987d (2026-08-22)
    `src/megatron/bridge/training/utils/train_utils.py`, which prints the same. BigScience's and others' printings with
    seconds for milliseconds are read by the same words; their code was not seen, their lines were.

    A loss is the mean since the last line. It is not printed where it is nan, and 0 where every step of the interval
    was skipped, as at the start with a loss scale that is too large: a line without the loss and without a skipped step
    is the run's end. The batch size is that of the line, so a ramp is read too.
    """

    name = "Megatron-LM"
    programs = "Megatron-LM", "Megatron-Bridge", "Megatron-DeepSpeed"
    mark = re.compile(
        r"\biteration +\d+/ *\d+ \|(?:(?!\biteration +\d).)*?elapsed time per iteration \(m?s\)|^-+ arguments -+$",
        re.MULTILINE,
    )

    def entries(self, lines: Iterator[str]) -> Iterator[Entry]:
        """Yield the entries of steps, validations and arguments."""
        step = 0.0
        loss = ""
        validation = None
        length = None
        for line in lines:
            if found := STEP.search(line):
                step = float(found[1])
                yield setting("num_steps", found[2])
                values = numbers_of_cells(found[3])
                loss = loss or _loss_name(values)
                yield from _row(step, values, loss, length)
            elif (found := VALIDATION.search(line)) and "test" not in (found[3] or found[4]):
                validation = found[1] if validation is None else validation
                cells = {key.removesuffix(" value"): value for key, value in numbers_of_cells(found[5]).items()}
                name = loss if loss in cells else _loss_name(cells)
                if found[1] == validation and name:
                    yield Entry("evaluation_loss", cells[name], float(found[2] or step), f"{name}, validation")
            elif (found := ARGUMENT.fullmatch(line)) and found[1] in ARGUMENTS and found[2] != "None":
                entry = setting(ARGUMENTS[found[1]], found[2])
                length = entry.value if entry.name == "sequence_length" else length
                yield entry

    def finish(self, settings: dict[str, Any], columns: dict[str, str]) -> Sequence[str]:  # noqa: ARG002
        """Compute the warm-up in steps; there are no remarks."""
        warm_up_in_steps(settings)
        return ()


def _row(step: float, values: dict[str, float], loss: str, length: Any) -> Iterator[Entry]:
    skipped = values.get("number of skipped iterations", 0)
    if loss in values:
        if values[loss] != 0:
            yield Entry("loss", values[loss], step, loss)
    elif loss and not skipped:
        yield Entry("loss", float("nan"), step, loss)
    for name, called in (("learning_rate", "learning rate"), ("batch_size", "global batch size")):
        if called in values:
            yield Entry(name, values[called], step, called)
    samples, tokens = values.get("consumed samples", 0), values.get("consumed tokens")
    if tokens is not None:  # of Megatron-DeepSpeed, whose sequences may be shorter at first
        yield Entry("tokens", tokens, step, "consumed tokens")
        if not length and samples:
            yield Entry("sequence_length", tokens / samples)
    elif length and samples:
        yield Entry("tokens", samples * length, step, "consumed samples × seq_length")


def _loss_name(values: dict[str, float]) -> str:
    """`lm loss`, or the first that is called a loss; "" where there is none."""
    losses = [name for name in values if name.endswith("loss") and name != NO_LOSS]
    return "lm loss" if "lm loss" in losses else next(iter(losses), "")
