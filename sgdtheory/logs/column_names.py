"""Which column, key or tag of a log is what: named by the user, or guessed."""

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, fields
from typing import Any

from sgdtheory.logs.training_log import KINDS

GUESSES: dict[str, tuple[str, ...]] = {  # in the order in which they are looked for; spaces and hyphens as underscores
    "step": (
        "train/global_step",  # Hugging Face under W&B, whose own _step counts calls of log()
        "trainer/global_step",  # Lightning
        "global_step",
        "iteration",
        "iter",
        "step",
        "steps",
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
EVALUATION = {"eval", "evaluation", "val", "valid", "validation", "test", "dev"}
IN_TOKENS = re.compile(r"([\d.]+(?:e\d+)?) ?tok(?:en)?s?")  # a batch size
LOSS = {"loss", "nll", "crossentropyloss"}
NO_LOSS = {"z", "aux", "load", "scale", "min", "max", "ppl", "scaler"}  # words of names that are no loss of the data


@dataclass(frozen=True, kw_only=True)
class ColumnNames:
    """Names that the user gave; None: to be guessed.

    Attributes:
        step, loss, learning_rate, batch_size, tokens: the columns with these numbers.
        run: the column that tells the runs of a file apart.
        group: the column that tells apart what is to be fitted on its own.
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
        """The names among keywords of `read_training_log` and its like, and the others: numbers, and which loss.

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
        """Attribute → name of those that are not None."""
        return {field.name: value for field in fields(self) if (value := getattr(self, field.name)) is not None}

    def understand(self, present: Sequence[str]) -> dict[str, str]:
        """Attribute of a log → the column that holds it, of those there are; `evaluation_loss` is always guessed."""
        plain = {_plain(name): name for name in reversed(present)}
        given = self.given
        found = {}
        for attribute, guesses in GUESSES.items():
            if attribute in given:
                name = given[attribute] if given[attribute] in present else None
            else:
                name = next((plain[guess] for guess in guesses if guess in plain), None)
                name = name or _by_words(attribute, present)
            if name is not None:
                found[attribute] = name
        return found


def candidates(attribute: str, present: Sequence[str]) -> list[str]:
    """Columns whose words say that they may be it."""
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
    """The only one that may be it; of learning rates, of groups of parameters, the first."""
    found = candidates(attribute, present)
    if len(found) == 1 or (found and attribute == "learning_rate"):
        return found[0]
    return None


def _plain(name: str) -> str:
    """In small letters, words separated by underscores."""
    return re.sub(r"[\s_-]+", "_", name.strip().lower()).removeprefix("_") if name != "_step" else name
