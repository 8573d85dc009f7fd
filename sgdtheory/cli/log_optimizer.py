"""The optimizer of runs, by one rule for all commands: the flag, else the log's word, else Adam where its marks show.

A log is Adam's if it is a language model's, has a weight decay, or has Adam's own settings. A log without a name and
without a mark is refused, since a wrong optimizer changes B* by a factor of two and more.
"""

from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Any, NamedTuple

from sgdtheory.logs import TrainingLog

NAMES = {  # The first key that is part of a trainer's name gives the optimizer.
    "muon": "muon",
    "lion": "lion",
    "signum": "signum",
    "signsgd": "sign",
    "adamw": "adamw",
    "adam": "adam",
    "momentum": "momentum",
    "sgd": "sgd",
}
FOLLOW_GRADIENTS = "sgd", "momentum"  # These take steps in proportion to gradients; others divide by their size.
LANGUAGE_MODELS = {  # Programs with these formats of logs train language models and little else.
    *("Megatron-LM", "NeMo", "nanoGPT", "modded-nanogpt", "torchtitan", "OLMo", "MaxText", "llm.c", "fairseq"),
    *("LitGPT", "Levanter"),
}
USUAL = {"modded-nanogpt": "muon"}  # A program with this format of logs trains with this optimizer by default.
ADAMS_OWN = "beta2", "adam_eps", "adam_beta"  # Names of settings with one of these parts belong to Adam alone.
OF_TEXT = "ppl", "perplexity", "lm_loss"  # Numbers whose names have one of these parts belong to language models.
GIVE = "give --optimizer, for example --optimizer adam"


class UnknownOptimizerError(ValueError):
    """Neither flags nor logs say which optimizer took the steps."""


class TakenOptimizer(NamedTuple):
    """An optimizer, what the logs say about it, and a sentence on what is in doubt; both may be empty."""

    optimizer: str
    said: str
    doubt: str

    @property
    def notes(self) -> list[str]:
        """Sentences that are not empty."""
        return [each for each in (self.said, self.doubt) if each]


def optimizer_named(name: str) -> str | None:
    """Return the advice's optimizer for a trainer's name: `adamw_torch_fused`, `adam_pax`, `DistributedMuon`; or None.

    >>> [optimizer_named(name) for name in ("adamw_torch_fused", "paged_lion_8bit", "SGD", "dist_muon", "adafactor")]
    ['adamw', 'lion', 'sgd', 'muon', None]
    """
    return next((known for among, known in NAMES.items() if among in name.lower()), None)


def optimizer_of_curves(name: str) -> str | None:
    """Return the optimizer of the law of loss curves: adam for all that divide gradients by their size.

    >>> [optimizer_of_curves(name) for name in ("adamw_torch_fused", "paged_lion_8bit", "sgd", "adafactor")]
    ['adam', 'adam', 'sgd', None]
    """
    known = optimizer_named(name)
    return known if known is None else "sgd" if known in FOLLOW_GRADIENTS else "adam"


def taken_optimizer(
    flag: str | None,
    logs: Sequence[TrainingLog],
    kind: Callable[[str], str | None],
    flags: Mapping[str, Any] | None = None,
) -> TakenOptimizer:
    """Return the optimizer of runs by the rule of every command.

    Args:
        flag: what the user gave; it overrides.
        logs: of the runs; none where flags alone describe a run.
        kind: `optimizer_named` or `optimizer_of_curves`, which maps a trainer's name to the command's own.
        flags: other flags that count as if the log had them, by the names of a log's settings.

    Raises:
        UnknownOptimizerError: there is no flag, no name that is known, and no mark of Adam.
    """
    named = {str(log.settings["optimizer"]) for log in logs if log.settings.get("optimizer")}
    usual = {log.format for log in logs if log.format in USUAL and not log.settings.get("optimizer")}
    names = sorted(named | {USUAL[program] for program in usual})
    kinds = {kind(name) for name in names}
    words = " and ".join(names)
    if flag is not None:
        doubt = (
            f"the log names the optimizer {words}, but --optimizer {flag} overrides it"
            if named and kinds != {flag}
            else ""
        )
        return TakenOptimizer(flag, "", doubt)
    known = kinds.pop() if len(kinds) == 1 else None
    if known is not None:
        as_what = "" if words == known else f", treated as {known}"
        if usual:
            doubt = f"{' and '.join(sorted(usual))} trains with {words} by default{as_what}; --optimizer names another"
            return TakenOptimizer(known, "", doubt)
        return TakenOptimizer(known, f"optimizer, from the log: {words}{as_what}", "")
    if len(kinds) > 1:
        raise UnknownOptimizerError(f"the logs name several optimizers, {words}: {GIVE}, or fit their runs apart")
    said = f"the log's optimizer {words} is not known here" if names else "the optimizer is not named"
    mark = next(_marks(logs, flags or {}), None)
    if mark is None:
        raise UnknownOptimizerError(f"{said}: {GIVE}")
    return TakenOptimizer("adam", "", f"{said}; Adam is assumed, since {mark}; --optimizer names another")


def _marks(logs: Sequence[TrainingLog], flags: Mapping[str, Any]) -> Iterator[str]:
    """Yield the marks of Adam that flags and logs have, as parts of a sentence."""
    if flags.get("weight_decay"):
        yield f"the weight decay is {flags['weight_decay']:g}"
    if flags.get("beta2") is not None:
        yield "β₂ is given"
    for log in logs:
        decay = log.settings.get("weight_decay")
        others = [name.lower().replace(" ", "_") for name in (*log.columns.values(), *log.unused)]
        if decay:
            yield f"the log has a weight decay, {float(decay):g}"
        if log.settings.get("beta2") is not None or any(part in name for name in others for part in ADAMS_OWN):
            yield "the log has settings of Adam"
        if log.format in LANGUAGE_MODELS:
            yield f"{log.format} trains language models"
        if log.has("tokens") or log.has("batch_tokens") or log.settings.get("sequence_length"):
            yield "the log counts tokens, as those of language models do"
        if any(part in name for name in others for part in OF_TEXT):
            yield "the log has numbers of a language model"
    if flags.get("sequence_length") is not None:
        yield "the run is of sequences of tokens"
