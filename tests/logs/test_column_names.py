"""Names of columns in the known programs, and names that are not guessed."""

import pytest

from sgdtheory.logs import ColumnNames

KNOWN = {  # program → what it calls: step, loss, evaluation loss, learning rate, tokens
    "Hugging Face under W&B": ("train/global_step", "train/loss", "eval/loss", "train/learning_rate", None),
    "Lightning": ("trainer/global_step", "train_loss", "val_loss", "lr-AdamW", None),
    "Lightning's logger of steps": ("step", "train_loss_step", "val_loss", "lr-AdamW/pg1", None),
    "torchtitan": ("step", "loss_metrics/global_avg_loss", "validation_metrics/loss", "lr", "n_tokens_seen"),
    "OLMo": ("_step", "train/CrossEntropyLoss", None, "optim/learning_rate_group0", "throughput/total_tokens"),
    "OLMo-core": ("_step", "train/CE loss", None, "optim/LR (group 0)", "throughput/total tokens"),
    "Levanter": ("_step", "train/loss", "eval/loss", "optim/learning_rate", "throughput/total_tokens"),
    "Megatron-LM": ("iteration", "lm loss", "lm loss validation", "learning-rate", None),
    "nanoGPT": ("iter", "train/loss", "val/loss", "lr", None),
    "by hand": ("Step", "Loss", "Validation Loss", "Learning Rate", "Tokens"),
    "another": ("steps", "my_nll", "dev_nll", "opt_lr", "tokens seen"),
}
OTHERS = ["epoch", "_runtime", "grad_norm", "train/z_loss", "loss_scale", "aux_loss", "train/perplexity", "max_loss"]


@pytest.mark.parametrize("program", KNOWN)
def test_known_programs(program):
    """The columns are in any order, and among others."""
    attributes = "step", "loss", "evaluation_loss", "learning_rate", "tokens"
    wanted = {key: name for key, name in zip(attributes, KNOWN[program], strict=True) if name is not None}
    for present in ([*wanted.values(), *OTHERS], [*OTHERS, *reversed(wanted.values())]):
        assert ColumnNames().understand(present) == wanted


def test_the_counter_of_optimizer_steps_is_preferred():
    """To W&B's, which counts calls of log()."""
    assert ColumnNames().understand(["_step", "train/global_step"]) == {"step": "train/global_step"}
    assert ColumnNames().understand(["step", "iteration"])["step"] == "iteration"


def test_what_is_ambiguous_is_not_guessed():
    """But of learning rates of groups of parameters, the first."""
    assert ColumnNames().understand(["a_loss", "b_loss"]) == {}
    assert ColumnNames().understand(["val/a_loss", "val/b_loss", "train_a_loss"]) == {"loss": "train_a_loss"}
    assert ColumnNames().understand(["lr-AdamW/pg1", "lr-AdamW/pg2"]) == {"learning_rate": "lr-AdamW/pg1"}


def test_names_that_are_given_count():
    present = ["step", "loss", "mine", "t"]
    assert ColumnNames(loss="mine", step="t").understand(present) == {"step": "t", "loss": "mine"}
    assert ColumnNames(loss="theirs").understand(present) == {"step": "step"}
    assert ColumnNames(group="mine").understand(present)["group"] == "mine"
    assert ColumnNames(loss="mine").given == {"loss": "mine"}


def test_names_among_numbers():
    """A loss is a kind, or a name and a kind at once; a rate or a batch size a name or a number."""
    names, others = ColumnNames.among(
        {"loss": "eval", "learning_rate": "lr", "batch_size": 8, "step": "t", "warmup": 5}
    )
    assert names == ColumnNames(learning_rate="lr", step="t")
    assert others == {"loss": "eval", "batch_size": 8, "warmup": 5}
    names, others = ColumnNames.among({"loss": "nll", "batch_size": "B"})
    assert names == ColumnNames(loss="nll", batch_size="B")
    assert others == {"loss": "nll", "learning_rate": None}


def test_a_batch_size_in_tokens_is_a_number():
    """It is a number of sequences if their length is given, too."""
    options = {"loss": "train", "learning_rate": None, "batch_size": "5.12e5 tokens"}
    names, others = ColumnNames.among(options)
    assert names == ColumnNames()
    assert others == {"loss": "train", "learning_rate": None, "batch_tokens": 512_000}
    names, others = ColumnNames.among(options | {"sequence_length": 1000})
    assert names == ColumnNames()
    assert others == {"loss": "train", "learning_rate": None, "sequence_length": 1000, "batch_size": 512}


def test_a_learning_rate_is_told_by_its_two_words():
    for name in ("learning.rate", "my.learning.rate"):
        assert ColumnNames().understand([name, "rate", "learning"]) == {"learning_rate": name}
