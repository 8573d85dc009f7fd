"""The flat spelling of a run, `{"model": "mlp", "depth": 2, …}`: flags, TOML files, tables and JSON; and the way back.

The one place that knows where a flat field lives in the nested config, and to which kinds it belongs.
"""

import dataclasses
from collections.abc import Iterable, Mapping
from typing import Any

from sgdtheory._common.arguments import checked_name
from sgdtheory.training.custom_model import Custom
from sgdtheory.training.data import Arrays, Digits, StandardLibrary, Teacher, Tokens
from sgdtheory.training.models import MLP, ConvNet, GatedRecurrent, ResidualMLP, Transformer
from sgdtheory.training.named_model import NamedModel
from sgdtheory.training.optimizers import SGD, Adam, Muon, SignSGD
from sgdtheory.training.schedules import SHAPES, ScheduleFree, Stages

KINDS: dict[str, dict[str, type]] = {
    "model": {
        "mlp": MLP,
        "residual": ResidualMLP,
        "conv": ConvNet,
        "transformer": Transformer,
        "recurrent": GatedRecurrent,
        "custom": Custom,
    },
    "data": {"teacher": Teacher, "digits": Digits, "arrays": Arrays, "stdlib": StandardLibrary, "tokens": Tokens},
    "optimizer": {"sgd": SGD, "adam": Adam, "sign": SignSGD, "muon": Muon},
    "schedule": {name.replace("-", "_"): kind for name, kind in SHAPES.items()} | {"schedule_free": ScheduleFree},
}
DEFAULT_KINDS = {"model": "mlp", "data": "teacher", "optimizer": "adam", "schedule": "constant"}
SPELLINGS: dict[tuple[type, str], str] = {(Tokens, "path"): "tokens", (ScheduleFree, "interpolation"): "beta1"}
# Fields that 0.1.0 did not have: at their default they are not written, so that files stay the same.
LATER = "final", "num_samples", "num_workers", "local_steps", "outer_learning_rate", "outer_momentum"
REPLACED = {ScheduleFree: ("momentum", "beta1")}  # fields of an optimizer in whose place a schedule has its own

Place = tuple[str, str]  # ("model", "depth"): a field of the config, and a field of what it holds


def spelling(kind: type, field: str) -> str:
    """The flat name of a field of a kind."""
    return SPELLINGS.get((kind, field), field)


def names_of(kind: type) -> dict[str, str]:
    """Flat name → field of a kind."""
    if kind is Stages:
        return {"stages": "text"}  # in the place of two lists
    if kind is Custom:
        return {"entry_point": "place"}  # functions have no flat spelling
    fields = sorted(dataclasses.fields(kind), key=lambda field: field.name != "warmup")  # first, as it comes first
    return {spelling(kind, field.name): field.name for field in fields}


NESTED = tuple(dict.fromkeys(name for kinds in KINDS.values() for kind in kinds.values() for name in names_of(kind)))


def all_names(own: Iterable[str]) -> tuple[str, ...]:
    """All flat names: the config's own fields, each kind's after the field that chooses it."""
    found: list[str] = []
    for place in own:
        found += [place, *(name for kind in KINDS.get(place, {}).values() for name in names_of(kind))]
    return tuple(dict.fromkeys(found))


def homes_of(name: str) -> dict[str, tuple[type, str]]:
    """Kind's name → class and its field, for the kinds that a flat field belongs to."""
    kinds = [(each, kind) for known in KINDS.values() for each, kind in known.items()]
    return {each: (kind, names_of(kind)[name]) for each, kind in kinds if name in names_of(kind)}


def defaults_of(kind: type) -> dict[str, Any]:
    """Flat name → default of a kind's fields; None where there is none, as for the path of a token file."""
    defaults = {field.name: field.default for field in dataclasses.fields(kind)}
    found = {name: defaults.get(field, dataclasses.MISSING) for name, field in names_of(kind).items()}
    return {name: None if default is dataclasses.MISSING else default for name, default in found.items()}


def default_values() -> dict[str, Any]:
    """The default of every nested field by its flat name, in the first of the kinds that have it."""
    found: dict[str, Any] = {}
    for kind in (kind for kinds in KINDS.values() for kind in kinds.values()):
        found = defaults_of(kind) | found
    return found


def kind_name(place: str, value: Any) -> str:
    """The name of the kind that a field of the config holds.

    Raises:
        ValueError: it holds none of them.
    """
    if (name := _name(place, type(value))) is not None:
        return name
    known = " or ".join(f"{kind.__name__}(…)" for kind in KINDS[place].values())
    raise ValueError(f"{place} must be {known}, got {value!r}; TrainConfig.from_fields takes names")


def places_of(kinds: Mapping[str, type]) -> dict[str, Place]:
    """Flat name → where it lives, for the nested fields that belong to these kinds."""
    found: dict[str, Place] = {}
    for place, kind in kinds.items():
        for name in REPLACED.get(kind, ()):
            found.pop(name, None)
        found |= {name: (place, field) for name, field in names_of(kind).items()}
    return found


def flattened(config: Any) -> dict[str, Any]:
    """The fields of a config that belong to its kinds, by their flat names, in the order of the flags."""
    kinds = {place: getattr(config, place) for place in KINDS}
    nested = places_of({place: KINDS[place][kind_name(place, value)] for place, value in kinds.items()})
    found = {}
    for field in dataclasses.fields(config):
        place = field.name
        if place not in KINDS:
            found[place] = getattr(config, place)
            continue
        found[place] = kind_name(place, kinds[place])
        own = {name: inner for name, (where, inner) in nested.items() if where == place}
        found |= {name: getattr(kinds[place], inner) for name, inner in own.items()}
    return found


def from_flat(fields: Mapping[str, Any], known: Iterable[str]) -> dict[str, Any]:
    """Arguments of the config for flat fields.

    Args:
        fields: flat.
        known: names of the config's own fields.

    Raises:
        ValueError: a name that is none, or a field that does not belong to its kinds.
    """
    for name in fields:
        checked_name("a field of the config", name, (*known, *NESTED))
    kinds = kinds_of(fields)
    places = places_of(kinds)
    values: dict[str, dict[str, Any]] = {place: {} for place in KINDS}
    found = {name: value for name, value in fields.items() if name not in NESTED and name not in KINDS}
    for name, value in fields.items():
        if name in places and name not in KINDS:
            place, inner = places[name]
            values[place][inner] = value
        elif name in NESTED:
            raise ValueError(_refusal(name, value, kinds))
    return found | {place: _made(kind, values[place]) for place, kind in kinds.items()}


def _made(kind: type, values: Mapping[str, Any]) -> Any:
    """A kind of these fields; None, which it refuses, for one that it needs and that is not given."""
    if kind is Stages:
        return Stages.from_text(values.get("text"))
    if kind is Custom:
        return NamedModel.of(values.get("place"))
    needed = {field.name: None for field in dataclasses.fields(kind) if field.default is dataclasses.MISSING}
    return kind(**needed | dict(values))


def kinds_of(fields: Mapping[str, Any]) -> dict[str, type]:
    """Place → kind that flat fields choose."""
    chosen = {place: fields.get(place, DEFAULT_KINDS[place]) for place in KINDS}
    return {place: KINDS[place][checked_name(place, name, KINDS[place])] for place, name in chosen.items()}


def belonging(fields: Mapping[str, Any]) -> dict[str, Any]:
    """Return the flat fields that belong to the kinds that they choose."""
    own = places_of(kinds_of(fields))
    return {name: value for name, value in fields.items() if name not in NESTED or name in own or name in KINDS}


def overlaid(fields: Mapping[str, Any], changes: Mapping[str, Any]) -> dict[str, Any]:
    """Flat fields with changes; where a change takes another kind, the old kind's own fields go with it."""
    merged = {**fields, **changes}
    if all(fields.get(place, DEFAULT_KINDS[place]) == merged.get(place, DEFAULT_KINDS[place]) for place in KINDS):
        return merged
    kept = {name: value for name, value in merged.items() if name in KINDS or name not in changes}
    return belonging(kept) | dict(changes)


def _refusal(name: str, value: Any, kinds: Mapping[str, type]) -> str:
    """Why a field does not belong, and to which kinds it does."""
    homes = [(place, each) for place, known in KINDS.items() for each, kind in known.items() if name in names_of(kind)]
    places = {place for place, _ in homes}
    given = any(name in names_of(kinds[place]) for place in places)
    replacing = [place for place, kind in kinds.items() if given and name in REPLACED.get(kind, ())]
    chosen = {place: _name(place, kinds[place]) for place in (*replacing, *places)}
    other = [f"{place} {each}" for place, each in homes if chosen[place] != each]
    if replacing:
        other = [f"another {place}" for place in replacing]
    without = " and ".join(f"{place} {each}" for place, each in chosen.items() if not replacing or place in replacing)
    return f"{name} = {value} does not matter with {without}: leave it out, or take {' or '.join(other)}"


def _name(place: str, kind: type) -> str | None:
    """The name of a kind, None if it is none of the place's."""
    kind = Custom if kind is NamedModel else kind
    return next((name for name, each in KINDS[place].items() if each is kind), None)
