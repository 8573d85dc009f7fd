"""Conversion between configs and their flat fields, `{"model": "mlp", "depth": 2, …}`, for flags, TOML and JSON.

Only this module knows where a flat field lives in the nested config, and to which kinds it belongs.
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
# 0.1.0 did not have these fields. At their defaults they are not written, so that files and fingerprints stay the same.
LATER = (
    *("final", "power", "num_samples", "num_workers", "local_steps", "outer_learning_rate", "outer_momentum"),
    *("weight_decay", "attention_kernel"),
)
# The same holds for these fields of one schedule, where another kind had the name before, with another default.
LATER_OF_SCHEDULES = {"power": ("decay",)}
REPLACED = {ScheduleFree: ("momentum", "beta1")}  # A schedule replaces these fields of an optimizer by its own.

Place = tuple[str, str]  # ("model", "depth"): a field of the config, and a field of the object that it holds.


def spelling(kind: type, field: str) -> str:
    """Return the flat name of a kind's field."""
    return SPELLINGS.get((kind, field), field)


def names_of(kind: type) -> dict[str, str]:
    """Return a kind's fields by flat name, with the warm-up first."""
    if kind is Stages:
        return {"stages": "text"}  # One text replaces two lists.
    if kind is Custom:
        return {"entry_point": "place"}  # Functions have no flat spelling.
    fields = sorted(dataclasses.fields(kind), key=lambda field: field.name != "warmup")
    return {spelling(kind, field.name): field.name for field in fields}


NESTED = tuple(dict.fromkeys(name for kinds in KINDS.values() for kind in kinds.values() for name in names_of(kind)))


def all_names(own: Iterable[str]) -> tuple[str, ...]:
    """Return all flat names: the config's own fields, each followed by the fields of the kinds that it can choose."""
    names: list[str] = []
    for field in own:
        names += [field, *(name for kind in KINDS.get(field, {}).values() for name in names_of(kind))]
    return tuple(dict.fromkeys(names))


def homes_of(name: str) -> dict[str, tuple[type, str]]:
    """Return the class and its field for each kind that a flat field belongs to, by the kind's name."""
    kinds = [(each, kind) for known in KINDS.values() for each, kind in known.items()]
    return {each: (kind, names_of(kind)[name]) for each, kind in kinds if name in names_of(kind)}


def defaults_of(kind: type) -> dict[str, Any]:
    """Return the defaults of a kind's fields by flat name; None if there is none, as for the path of a token file."""
    defaults = {field.name: field.default for field in dataclasses.fields(kind)}
    flat = {name: defaults.get(field, dataclasses.MISSING) for name, field in names_of(kind).items()}
    return {name: None if default is dataclasses.MISSING else default for name, default in flat.items()}


def default_values() -> dict[str, Any]:
    """Return the default of every nested field by its flat name, from the first kind that has it."""
    defaults: dict[str, Any] = {}
    for kind in (kind for kinds in KINDS.values() for kind in kinds.values()):
        defaults = defaults_of(kind) | defaults
    return defaults


def later_defaults(fields: Mapping[str, Any]) -> dict[str, Any]:
    """Return the defaults of the later fields whose name another kind had before, for runs with these flat fields."""
    name = fields.get("schedule", DEFAULT_KINDS["schedule"])
    return {field: defaults_of(SHAPES[name])[field] for field in LATER_OF_SCHEDULES.get(name, ())}


def kind_name(place: str, value: Any) -> str:
    """Return the name of the kind that a field of the config holds.

    Raises:
        ValueError: if it holds none of the known kinds.
    """
    if (name := _name(place, type(value))) is not None:
        return name
    known = " or ".join(f"{kind.__name__}(…)" for kind in KINDS[place].values())
    raise ValueError(f"{place} must be {known}, got {value!r}; TrainConfig.from_fields takes names")


def places_of(kinds: Mapping[str, type]) -> dict[str, Place]:
    """Return the nested field of each flat name that belongs to these kinds."""
    places: dict[str, Place] = {}
    for place, kind in kinds.items():
        for name in REPLACED.get(kind, ()):
            places.pop(name, None)
        places |= {name: (place, field) for name, field in names_of(kind).items()}
    return places


def flattened(config: Any) -> dict[str, Any]:
    """Return the fields of a config that belong to its kinds, by their flat names, in the order of the flags."""
    kinds = {place: getattr(config, place) for place in KINDS}
    nested = places_of({place: KINDS[place][kind_name(place, value)] for place, value in kinds.items()})
    flat = {}
    for field in dataclasses.fields(config):
        place = field.name
        if place not in KINDS:
            flat[place] = getattr(config, place)
            continue
        flat[place] = kind_name(place, kinds[place])
        own = {name: inner for name, (where, inner) in nested.items() if where == place}
        flat |= {name: getattr(kinds[place], inner) for name, inner in own.items()}
    return flat


def from_flat(fields: Mapping[str, Any], known: Iterable[str]) -> dict[str, Any]:
    """Convert flat fields to the arguments of the config.

    Args:
        fields: values by flat name.
        known: names of the config's own fields.

    Raises:
        ValueError: if a name is unknown, or a field does not belong to the chosen kinds.
    """
    for name in fields:
        checked_name("a field of the config", name, (*known, *NESTED))
    kinds = kinds_of(fields)
    places = places_of(kinds)
    values: dict[str, dict[str, Any]] = {place: {} for place in KINDS}
    arguments = {name: value for name, value in fields.items() if name not in NESTED and name not in KINDS}
    for name, value in fields.items():
        if name in places and name not in KINDS:
            place, inner = places[name]
            values[place][inner] = value
        elif name in NESTED:
            raise ValueError(_refusal(name, value, kinds))
    return arguments | {place: _construct(kind, values[place]) for place, kind in kinds.items()}


def _construct(kind: type, values: Mapping[str, Any]) -> Any:
    """Construct a kind from its fields; a required field that is missing becomes None, which the kind refuses."""
    if kind is Stages:
        return Stages.from_text(values.get("text"))
    if kind is Custom:
        return NamedModel.of(values.get("place"))
    needed = {field.name: None for field in dataclasses.fields(kind) if field.default is dataclasses.MISSING}
    return kind(**needed | dict(values))


def kinds_of(fields: Mapping[str, Any]) -> dict[str, type]:
    """Return the kind that flat fields choose for each field of `KINDS`."""
    chosen = {place: fields.get(place, DEFAULT_KINDS[place]) for place in KINDS}
    return {place: KINDS[place][checked_name(place, name, KINDS[place])] for place, name in chosen.items()}


def belonging(fields: Mapping[str, Any]) -> dict[str, Any]:
    """Return the flat fields that belong to the kinds that they choose."""
    own = places_of(kinds_of(fields))
    return {name: value for name, value in fields.items() if name not in NESTED or name in own or name in KINDS}


def overlaid(fields: Mapping[str, Any], changes: Mapping[str, Any]) -> dict[str, Any]:
    """Merge changes into flat fields; if a change chooses another kind, the old kind's own fields are dropped."""
    merged = {**fields, **changes}
    if all(fields.get(place, DEFAULT_KINDS[place]) == merged.get(place, DEFAULT_KINDS[place]) for place in KINDS):
        return merged
    kept = {name: value for name, value in merged.items() if name in KINDS or name not in changes}
    return belonging(kept) | dict(changes)


def _refusal(name: str, value: Any, kinds: Mapping[str, type]) -> str:
    """Return the error text for a field that does not belong to the chosen kinds, with the kinds that it belongs to."""
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
    """Return the name of a kind; None if the config's field cannot hold it."""
    kind = Custom if kind is NamedModel else kind
    return next((name for name, each in KINDS[place].items() if each is kind), None)
