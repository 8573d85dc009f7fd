"""The flags of an algorithm, for every command that runs one, made of the registry."""

import dataclasses
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from functools import cached_property
from typing import Any, ClassVar, Literal

from sgdtheory import algorithms
from sgdtheory.risk import checked_for_risk

PARTS = {
    "method": "What a step does.",
    "schedule": "What the learning rate does along the run; γ is its peak.",
    "batch_schedule": "What the batch size does along the run; B is what it is a multiple of.",
    "average": "What the run returns: an average of the iterates, or the last of them.",
}
HEADINGS = {"batch_schedule": "schedule of the batch size"}  # Help has this heading in place of a part's name.
COUNTS = "delay", "num_workers", "local_steps", "newton_schulz"  # These settings are whole numbers.
MOST_NAMED = 3  # A flag's help lists up to this many kinds; beyond, it lists those that do not have the flag.


def _text(part: str, setting: str) -> str:
    """Return the help text of a flag: its meaning, the kinds that it belongs to, and its defaults.

    A flag that means one thing with some kinds and another with others has a text for each meaning.
    """
    settings = {name: algorithms.settings_of_kind(part, kind) for name, kind in algorithms.KINDS[part].items()}
    meanings: dict[str, list[str]] = {}
    for name, kind in algorithms.KINDS[part].items():
        if setting in settings[name]:
            said = algorithms.parameters(kind)[settings[name][setting]]
            meanings.setdefault(said.text, []).append(name)
    return " ".join(_meaning(part, setting, settings, homes) for homes in meanings.values())


def _meaning(part: str, setting: str, settings: Mapping[str, Mapping[str, str]], homes: list[str]) -> str:
    """Return the help text of a flag with the kinds `homes`, with which it means the same."""
    kinds: Any = algorithms.KINDS[part]
    field = settings[homes[0]][setting]
    said = algorithms.parameters(kinds[homes[0]])[field]
    if part == "batch_schedule":
        flag = f"--{setting.removeprefix('batch_').replace('_', '-')}"
        return f"As {flag}; {said.batch_note}" if said.batch_note else f"As {flag}."
    others = [name for name in settings if name not in homes]
    fewer = len(homes) > max(MOST_NAMED, len(others))
    names = f"All but {', '.join(others)}" if fewer else ", ".join(homes)
    defaults: dict[str, list[str]] = {}  # as help shows it → the names of the kinds that have it
    for name in homes:
        default = {each.name: each.default for each in dataclasses.fields(kinds[name])}.get(field)
        if default not in (None, dataclasses.MISSING):
            choice = algorithms.parameters(kinds[name])[field].choice
            defaults.setdefault(choice.word(default) if choice else f"{default:g}", []).append(name)
    if not defaults:
        return f"{names}: {said.text}"
    each = [f"{default} with {', '.join(those)}" for default, those in defaults.items()]
    shown = next(iter(defaults)) if [*defaults.values()] == [homes] else ", ".join(each)
    return f"{names}: {said.text.removesuffix('.')} (default: {shown})."


def _flags(parts: Iterable[str]) -> Any:
    """Return the dataclass of the flags of some parts."""
    fields: list[tuple[str, Any, Any]] = []
    texts = {}
    for part in parts:
        kinds = algorithms.KINDS[part]
        fields.append((part, Literal[tuple(kinds)], dataclasses.field(default=next(iter(kinds)))))
        texts[part] = PARTS[part]
        for setting in algorithms.settings_of_part(part):
            kind = next(each for each in kinds.values() if setting in algorithms.settings_of_kind(part, each))
            said = algorithms.parameters(kind)[algorithms.settings_of_kind(part, kind)[setting]]
            plain = str if said.examples else int if setting in COUNTS else float
            hint: Any = Literal[said.choice.words] if said.choice else plain
            fields.append((setting, hint | None, dataclasses.field(default=None)))
            texts[setting] = _text(part, setting)
    return dataclasses.make_dataclass("_Flags", fields, namespace={"FLAG_TEXTS": texts}, frozen=True, kw_only=True)


def _made_of(flags: Any) -> algorithms.Algorithm:
    """The algorithm of those flags that are given."""
    values = {field.name: getattr(flags, field.name) for field in dataclasses.fields(flags)}
    return algorithms.make_algorithm({name: value for name, value in values.items() if value is not None})


EQUIVALENT = "risks of a nonlinear method are those of a deterministic equivalent for many directions, not exact"
OF_ALL = algorithms.parameters(algorithms.Algorithm)  # An algorithm has these parameters beside its parts.
ALGORITHM_GROUPS = {  # Help shows the flags of an algorithm in these groups.
    HEADINGS.get(part, part): (part, *algorithms.settings_of_part(part), *(OF_ALL if part == "method" else ()))
    for part in algorithms.KINDS
}


@dataclass(frozen=True, kw_only=True)
class MethodFlags(_flags(["method"])):
    """The flags of a method alone."""

    @property
    def made(self) -> Any:
        """Return the method that the flags describe."""
        return _made_of(self).method


@dataclass(frozen=True, kw_only=True)
class AlgorithmFlags(_flags(algorithms.KINDS)):
    """The flags of an algorithm."""

    @cached_property
    def made(self) -> algorithms.Algorithm:
        """Return the algorithm that the flags describe."""
        return _made_of(self)

    @property
    def title(self) -> str:
        """Return the end of a title, which names any algorithm but the default."""
        return "" if self.made == algorithms.DEFAULT else f"; {algorithms.algorithm_text(self.made)}"

    @property
    def in_json(self) -> dict[str, str]:
        """Return the text of any algorithm but the default, under its key."""
        return {} if self.made == algorithms.DEFAULT else {"algorithm": algorithms.algorithm_text(self.made)}

    @property
    def remark(self) -> str:
        """Return how far risks of a nonlinear method are known."""
        return "" if self.made.linear else EQUIVALENT


@dataclass(frozen=True, kw_only=True)
class SimulatedAlgorithmFlags(AlgorithmFlags):
    """The flags of an algorithm that is simulated, some of which have no theory."""

    FLAG_TEXTS: ClassVar[dict[str, str]] = {name: f"All: {said.text}" for name, said in OF_ALL.items()}

    clip_norm: float | None = None


def has_risk(algorithm: algorithms.Algorithm) -> bool:
    """Return whether theory knows the algorithm's risk."""
    try:
        checked_for_risk(algorithm)
    except ValueError:
        return False
    return True


def with_risk(algorithm: algorithms.Algorithm) -> algorithms.Algorithm:
    """Return an algorithm, if there is a way to its risk; a ValueError says that it can be simulated only."""
    if not has_risk(algorithm):
        raise ValueError(
            f"no risk of {algorithms.algorithm_text(algorithm)!r} is known in theory; sgdtheory simulate runs it"
        )
    return algorithm
