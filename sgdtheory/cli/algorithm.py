"""The flags of an algorithm, for every command that runs one, made of the registry."""

import dataclasses
from dataclasses import dataclass
from typing import Any, Literal

from sgdtheory.algorithms import (
    DEFAULT,
    KINDS,
    Algorithm,
    algorithm_text,
    make_algorithm,
    parameters,
    settings_of_kind,
    settings_of_part,
)

PARTS = {
    "method": "What a step does.",
    "schedule": "What the learning rate does along the run; γ is its peak.",
    "batch_schedule": "What the batch size does along the run; B is what it is a multiple of.",
    "average": "What the run returns: an average of the iterates, or the last of them.",
}
HEADINGS = {
    "method": "method",
    "schedule": "schedule",
    "batch_schedule": "schedule of the batch size",
    "average": "average",
}
MOST_NAMED = 3  # kinds that a flag's help lists; of more it says which do not have it


def _text(part: str, setting: str) -> str:
    """What a flag means, for which kinds, and what it is unless given."""
    settings = {name: settings_of_kind(part, kind) for name, kind in KINDS[part].items()}
    homes = [name for name, own in settings.items() if setting in own]
    kind: Any = KINDS[part][homes[0]]
    field = settings[homes[0]][setting]
    said = parameters(kind)[field]
    if part == "batch_schedule":
        flag = f"--{setting.removeprefix('batch_').replace('_', '-')}"
        return f"As {flag}; {said.batch_note}" if said.batch_note else f"As {flag}."
    others = [name for name in settings if name not in homes]
    names = f"All but {', '.join(others)}" if len(homes) > MOST_NAMED else ", ".join(homes)
    default = {each.name: each.default for each in dataclasses.fields(kind)}.get(field)
    if default in (None, dataclasses.MISSING):
        return f"{names}: {said.text}"
    return f"{names}: {said.text.removesuffix('.')}; {default:g} unless given."


def _fields() -> list[tuple[str, Any, Any]]:
    """Name, type and default of every flag."""
    found = []
    for part, kinds in KINDS.items():
        found.append((part, Literal[tuple(kinds)], dataclasses.field(default=next(iter(kinds)))))
        for setting in settings_of_part(part):
            kind = next(each for each in kinds.values() if setting in settings_of_kind(part, each))
            said = parameters(kind)[settings_of_kind(part, kind)[setting]]
            kept = str if said.examples else float
            found.append((setting, kept | None, dataclasses.field(default=None)))
    return found


ALGORITHM_GROUPS = {HEADINGS[part]: (part, *settings_of_part(part)) for part in KINDS}  # of flags, in help
_FLAGS = _fields()
_TEXTS = PARTS | {name: _text(part, name) for part in KINDS for name in settings_of_part(part)}
_Flags: Any = dataclasses.make_dataclass("_Flags", _FLAGS, namespace={"FLAG_TEXTS": _TEXTS}, frozen=True, kw_only=True)


@dataclass(frozen=True, kw_only=True)
class AlgorithmCommand(_Flags):
    """A command on an algorithm, which its flags describe."""

    @property
    def algorithm(self) -> Algorithm:
        """The algorithm that the flags describe."""
        values = {name: getattr(self, name) for name, *_ in _FLAGS}
        return make_algorithm({name: value for name, value in values.items() if value is not None})

    @property
    def algorithm_argument(self) -> dict[str, Any]:
        """`algorithm`, for functions that take one."""
        return {"algorithm": self.algorithm}

    @property
    def algorithm_title(self) -> str:
        """What a title says of the algorithm: nothing of the default."""
        return "" if self.algorithm == DEFAULT else f"; {algorithm_text(self.algorithm)}"

    @property
    def algorithm_in_json(self) -> dict[str, str]:
        """What JSON says of the algorithm: nothing of the default."""
        return {} if self.algorithm == DEFAULT else {"algorithm": algorithm_text(self.algorithm)}
