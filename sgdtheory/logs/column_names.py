"""Names of columns, keys and tags of a log: given by the user, or guessed."""

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, fields
from typing import Any, NamedTuple

from sgdtheory._common.arguments import is_number
from sgdtheory.logs.training_log import KINDS

GUESSES: dict[str, tuple[str, ...]] = {  # Names are looked for in this order, with spaces and hyphens as underscores.
    "step": (
        "train/global_step",  # Hugging Face under W&B, whose own _step counts calls of log()
        "trainer/global_step",  # Lightning
        "global_step",
        "iteration",
        "iter",
        "step",
        "steps",
        "current_steps",  # LLaMA-Factory
        "train/step",
        "train/iter",
        "_step",
    ),
    "loss": (
        "train/loss",
        "train_loss",
        "training/loss",
        "training_loss",
        "loss/train",
        "train/loss_step",
        "train_loss_step",
        "loss_metrics/global_avg_loss",  # torchtitan
        "train/crossentropyloss",  # OLMo
        "train/ce_loss",  # OLMo-core
        "lm_loss",  # Megatron-LM
        "lm_loss_training/lm_loss",
        "loss",
        "batch_loss",  # Keras
        "epoch_loss",  # Keras
    ),
    "evaluation_loss": (
        "eval/loss",
        "eval_loss",
        "val/loss",
        "val_loss",
        "valid/loss",
        "valid_loss",
        "validation/loss",
        "validation_loss",
        "validation_metrics/loss",  # torchtitan
        "lm_loss_validation",  # Megatron-LM
        "loss/eval",
        "loss/val",
        "loss/validation",
        "evaluation_loss_vs_iterations",  # Keras
    ),
    "learning_rate": (
        "train/learning_rate",
        "learning_rate",
        "train/lr",
        "lr",
        "optim/learning_rate",  # Levanter
        "optim/learning_rate_group0",  # OLMo
        "optim/lr_(group_0)",  # OLMo-core
        "lr/group_0",
    ),
    "batch_size": ("global_batch_size", "train/global_batch_size", "batch_size", "train/batch_size"),
    "batch_tokens": (
        "batch_size_tokens",
        "batch_size_in_tokens",
        "global_batch_size_tokens",
        "global_batch_size_in_tokens",
        "train/batch_size_tokens",
        "tokens_per_step",
        "tokens_per_batch",
        "tokens_per_iteration",
        "tokens_per_iter",
        "train/tokens_per_step",
        "train/tokens_per_batch",
    ),
    "tokens": (
        "train/num_input_tokens_seen",
        "num_input_tokens_seen",
        "throughput/total_tokens",  # OLMo, Levanter
        "total_tokens",
        "tokens_seen",
        "n_tokens_seen",  # torchtitan
        "num_tokens_seen",
        "consumed_tokens",
        "train/tokens_seen",
        "train/tokens",
        "tokens",
    ),
    "run": ("run", "run_name", "run_id"),
    "group": (),
}
LABELS = "name", "display_name", "id", "trial", "trial_id", "exp_name", "experiment"  # These columns split runs too.
SEEDS = "seed", "random_seed", "config/seed", "config.seed", "train/seed"
EPOCHS = "epoch", "epochs", "train/epoch", "trainer/epoch", "current_epoch"
MODES = "mode", "split", "phase", "stage"  # These columns say whether a row is of training or of validation.
EVALUATION = {"eval", "evaluation", "val", "valid", "validation", "test", "dev"}
IN_TOKENS = re.compile(r"([\d.]+(?:e\d+)?) ?tok(?:en)?s?")  # The pattern matches a batch size in tokens.
FACTOR = re.compile(r"(.+)\*\s*([\d.]+(?:e\d+)?)")  # The pattern matches a column times a number, as `epoch*391`.
LOSS = {"loss", "nll", "crossentropyloss"}
NO_LOSS = {"z", "aux", "load", "scale", "min", "max", "ppl", "scaler"}  # A name with one of these is no loss of data.


@dataclass(frozen=True, kw_only=True)
class ColumnNames:
    """Names that the user gave; None: to be guessed.

    Attributes:
        step: the column that counts optimizer steps, or a sum such as `Step*200` or `iter+epoch*5000` (epochs from 0).
        loss, learning_rate, batch_size, tokens: the columns with these numbers.
        run: the column that separates the runs of a file.
        group: the column that separates what is to be fitted on its own.
    """

    step: str | None = None
    loss: str | None = None
    learning_rate: str | None = None
    batch_size: str | None = None
    tokens: str | None = None
    run: str | None = None
    group: str | None = None

    @classmethod
    def among(cls, options: Mapping[str, Any]) -> tuple["ColumnNames", dict[str, Any]]:
        """Return the names among keywords of `read_training_log` and its like, and the others: numbers, and which loss.

        A learning rate or a batch size is a name where it is text, else the number itself; "524288 tokens" is a number
        too, `batch_tokens`. A loss is among the others too; it names a column unless it is "train" or "eval".
        """
        names = {field.name: options.get(field.name) for field in fields(cls)}
        others = {key: value for key, value in options.items() if key not in names}
        for name in ("learning_rate", "batch_size"):
            if not isinstance(names[name], str):
                others[name] = names.pop(name)
        batch = names.get("batch_size")
        if isinstance(batch, str) and (found := IN_TOKENS.fullmatch(batch)):
            tokens = float(found[1])
            length = others.get("sequence_length")
            others |= {"batch_tokens": tokens} if length is None else {"batch_size": tokens / float(length)}
            del names["batch_size"]
        others["loss"] = names["loss"]
        if names["loss"] in KINDS:
            names["loss"] = None
        return cls(**names), others

    @property
    def given(self) -> dict[str, str]:
        """Return attribute → name of those that are not None."""
        return {field.name: value for field in fields(self) if (value := getattr(self, field.name)) is not None}

    def understand(self, present: Sequence[str]) -> dict[str, str]:
        """Return attribute → the column that holds it, of those present; `evaluation_loss` is always guessed."""
        given = self.given
        found = {}
        for attribute, guesses in GUESSES.items():
            if attribute == "step":
                name = next(iter(self.counters(present)), None)
            elif attribute in given:
                name = given[attribute] if given[attribute] in present else None
            else:
                name = next(iter(_among(guesses, present)), None) or _by_words(attribute, present)
            if name is not None:
                found[attribute] = name
        return found

    def counters(self, present: Sequence[str]) -> list[str]:
        """Return the columns that may count optimizer steps, the likeliest first; the one given if there is one."""
        if self.step is None:
            return _among(GUESSES["step"], present)
        return [self.step] if self.terms(self.step, present) else []

    @staticmethod
    def terms(text: str, present: Sequence[str] | None = None) -> list[tuple[str, float]]:
        """Return (column, factor) of each term of `column`, or of a sum such as `iter+epoch*5000`; constants have "".

        Args:
            text: column, or sum.
            present: columns there are; none is returned if a term names another. None: not known.
        """
        if text in (present or ()) or "+" not in text and "*" not in text:
            return [(text, 1.0)] if present is None or text in present else []
        found = []
        for part in map(str.strip, text.split("+")):
            if is_number(part):
                found.append(("", float(part)))
                continue
            scaled = None if part in (present or ()) else FACTOR.fullmatch(part)
            column, factor = (scaled[1].strip(), float(scaled[2])) if scaled else (part, 1.0)
            if present is not None and column not in present:
                return []
            found.append((column, factor))
        return found if any(column for column, _ in found) else []

    def epoch(self, present: Sequence[str]) -> list[str]:
        """Return the column that counts epochs, as a list of one or none."""
        return _among(EPOCHS, present)[:1]

    def modes(self, present: Sequence[str]) -> list[str]:
        """Return the column that says what a row is of, as a list of one or none."""
        return _among(MODES, present)[:1]

    def run_labels(self, present: Sequence[str]) -> "RunLabels":
        """Return the columns that may separate the runs of a table."""
        seed = tuple(_among(SEEDS, present)[:1])
        if self.run is not None:
            return RunLabels(((self.run,) if self.run in present else (),), seed)
        usual = tuple(_among(GUESSES["run"], present)[:1])
        others = ((each,) for each in _among((*GUESSES["run"], *LABELS), present))
        return RunLabels((usual, *(each for each in others if each != usual)), seed)


class RunLabels(NamedTuple):
    """Columns that may separate the runs of a table.

    Attributes:
        single: tuples of one column or none, the usual one first.
        seed: the column of the seed, as a tuple of one or none.
    """

    single: tuple[tuple[str, ...], ...]
    seed: tuple[str, ...]

    @property
    def candidates(self) -> list[tuple[str, ...]]:
        """Return tuples of columns in the order in which they are tried."""
        return [*self.single, *((*each, *self.seed) for each in (self.single[0], ()) if self.seed)]

    @property
    def columns(self) -> list[str]:
        """Return all columns."""
        return list(dict.fromkeys(column for each in self.candidates for column in each))

    def name(self, columns: Sequence[str], cells: Mapping[str, str], table: str) -> str:
        """Return the name of a run with these cells in the columns that separate runs."""
        name = next((cells[column] for column in columns if column not in self.seed), "") or table
        return f"{name}, seed {cells[self.seed[0]]}" if self.seed and self.seed[0] in columns else name


def candidates(attribute: str, present: Sequence[str]) -> list[str]:
    """Return the columns whose words say that they may hold an attribute."""
    found = []
    for name in present:
        words = set(re.split(r"[^a-z0-9]+", name.lower()))
        evaluates = bool(words & EVALUATION)
        if attribute in ("loss", "evaluation_loss"):
            fits = bool(words & LOSS) and not words & NO_LOSS and evaluates == (attribute == "evaluation_loss")
        else:
            fits = attribute == "learning_rate" and ("lr" in words or {"learning", "rate"} <= words)
        if fits:
            found.append(name)
    return found


def _by_words(attribute: str, present: Sequence[str]) -> str | None:
    """Return the only column that may hold an attribute; of learning rates of groups of parameters, the first."""
    found = candidates(attribute, present)
    if len(found) == 1 or (found and attribute == "learning_rate"):
        return found[0]
    return None


def _among(guesses: Sequence[str], present: Sequence[str]) -> list[str]:
    """Return the columns that are guessed, in the order of the guesses."""
    plain = {_plain(name): name for name in reversed(present)}
    return [plain[guess] for guess in guesses if guess in plain]


def _plain(name: str) -> str:
    """Return a name in small letters, its words separated by underscores."""
    return re.sub(r"[\s_-]+", "_", name.strip().lower()).removeprefix("_") if name != "_step" else name
