"""The optimizer that a command on logs assumes: its flag's, else the one that logs name, else the command's default."""

from collections.abc import Callable, Iterable, Mapping
from typing import Any, NamedTuple

NAMES = {  # part of a trainer's name → optimizer; the first that is there counts
    "muon": "muon",
    "lion": "lion",
    "signum": "signum",
    "signsgd": "sign",
    "adamw": "adamw",
    "adam": "adam",
    "momentum": "momentum",
    "sgd": "sgd",
}
FOLLOW_GRADIENTS = "sgd", "momentum"  # whose steps are in proportion to gradients; others divide by their size


class TakenOptimizer(NamedTuple):
    """An assumed optimizer, what the logs say about it, and a sentence on what is in doubt; both may be empty."""

    optimizer: str
    said: str
    doubt: str

    @property
    def notes(self) -> list[str]:
        """Sentences that are not empty."""
        return [each for each in (self.said, self.doubt) if each]


def optimizer_named(name: str) -> str | None:
    """Return the advice's optimizer for a trainer's name: `adamw_torch_fused`, `adam_pax`, `DistributedMuon`; or None.

    >>> [optimizer_named(name) for name in ("adamw_torch_fused", "paged_lion_8bit", "sgd", "adafactor")]
    ['adamw', 'lion', 'sgd', None]
    """
    return next((known for among, known in NAMES.items() if among in name.lower()), None)


def optimizer_of_curves(name: str) -> str | None:
    """Return the optimizer of the law of loss curves: adam for all that divide gradients by their size.

    >>> [optimizer_of_curves(name) for name in ("adamw_torch_fused", "paged_lion_8bit", "sgd", "adafactor")]
    ['adam', 'adam', 'sgd', None]
    """
    known = optimizer_named(name)
    return known if known is None else "sgd" if known in FOLLOW_GRADIENTS else "adam"


def names_in(settings: Iterable[Mapping[str, Any]]) -> list[str]:
    """The optimizers that the settings of logs name, each once; logs that name none say nothing."""
    return sorted({str(each["optimizer"]) for each in settings if each.get("optimizer")})


def taken_optimizer(
    flag: str | None, names: list[str], default: str, kind: Callable[[str], str | None]
) -> TakenOptimizer:
    """The convention of every command.

    Args:
        flag: what the user gave; it overrides.
        names: of `names_in`.
        default: of the command, where logs name none, several, or one that is not known.
        kind: of `optimizer_named` and `optimizer_of_curves`: which of the command's own a name is.
    """
    kinds = {kind(name) for name in names}
    words = " and ".join(names)
    if flag is not None:
        doubt = (
            f"the log names the optimizer {words}, but --optimizer {flag} overrides it"
            if names and kinds != {flag}
            else ""
        )
        return TakenOptimizer(flag, "", doubt)
    if not names:
        doubt = f"the logs name no optimizer, so {default} is assumed; give --optimizer if it is another"
        return TakenOptimizer(default, "", doubt)
    known = kinds.pop() if len(kinds) == 1 else None
    if known is None:
        doubt = (
            f"the log's optimizer {words} is not known here and treated as {default}; give --optimizer if that is wrong"
        )
        return TakenOptimizer(default, "", doubt)
    as_what = "" if words == known else f", treated as {known}"
    return TakenOptimizer(known, f"optimizer, from the log: {words}{as_what}", "")
