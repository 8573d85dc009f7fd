"""The flags of a training run, which commands on networks share: its flat fields, and presets of them."""

import dataclasses
import typing
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, ClassVar, Literal

from sgdtheory._common.arguments import checked_name
from sgdtheory.algorithms import parameters
from sgdtheory.cli.flags import field_texts
from sgdtheory.training import KINDS, PARAMETRIZATIONS, PRESETS, FlatField, TrainConfig, defaults_of, flat_fields

TEXTS = {  # These texts replace a field's own; those of shapes are clearer in terms of schedule_steps.
    "entry_point": "custom: module:name of a Custom model, as mynets:net of mynets.py in this folder.",
    "warmup": "Fraction of schedule_steps in which the learning rate grows linearly from 0; of all but stages.",
    "final": "cosine, linear: learning rate at schedule_steps, over its peak.",
    "decay": "Last fraction of schedule_steps, in which the learning rate falls to 0: 0.2 with wsd, 1 with power.",
    "power": "wsd: power q of its decay 1 − x^q, x from 0 to 1; 1 is linear, 0.5 is 1 − √x.",
    "exponent": "power: p of (1 − x)^p, x from 0 to 1 in the decay.",
    "stages": "stages: FRACTION:VALUE pairs; 0:1,0.5:0.3 is γ up to half of schedule_steps, and 0.3 γ from there on.",
}


def _type(field: FlatField) -> Any:
    """Type of the flag."""
    if field.name in ("stages", "entry_point"):
        return str | None
    if field.choices:
        return Literal[field.choices]
    if field.name == "parametrization":
        return Literal[tuple(PARAMETRIZATIONS)]
    kind, name = next(iter(field.homes.values()))
    hint = typing.get_type_hints(kind)[name]
    return hint | None if field.default is None else hint


def _text(field: FlatField) -> str:
    """Return the help text of a flag, one for each kind that it belongs to where these differ."""
    if field.name in TEXTS:
        return TEXTS[field.name]
    # A kind has the text of a field in its docstring, and a shape in the annotation of its parameter.
    texts = {
        each: parameters(kind)[name].text if name in parameters(kind) else field_texts(kind)[name]
        for each, (kind, name) in field.homes.items()
    }
    if "" in texts or len(texts) > 1 and len(set(texts.values())) == 1:
        return next(iter(texts.values()))
    defaults = {each: defaults_of(kind)[field.name] for each, (kind, _) in field.homes.items()}
    if len(set(defaults.values())) > 1:
        texts = {each: f"{text[:-1]} ({defaults[each]:g})." for each, text in texts.items()}
    return " ".join(f"{each}: {text[0].lower()}{text[1:]}" for each, text in texts.items())


def _of_kinds(part: str) -> list[str]:
    """Return the settings of the kinds of a part; one that several parts have belongs to the first of them."""
    return [field.name for field in _FIELDS if next(iter(field.homes)) in KINDS[part]]


_FIELDS = flat_fields()
_Flags: Any = dataclasses.make_dataclass(
    "_Flags",
    [(field.name, _type(field), dataclasses.field(default=field.default)) for field in _FIELDS],
    namespace={"FLAG_TEXTS": {field.name: _text(field) for field in _FIELDS}},
    frozen=True,
    kw_only=True,
)


@dataclass(frozen=True, kw_only=True)
class NetworkFlags(_Flags):
    """The flags of a training run: its flat fields, or a preset of them."""

    FLAG_GROUPS: ClassVar[dict[str, tuple[str, ...]]] = {
        "run": ("preset", "directory", "checkpoint_seconds", "widths", "steps", "seeds"),
        "check": ("tolerance", "zero_output"),
        "model": ("model", "width", "parametrization", "base_width", "precision", "seed", *_of_kinds("model")),
        "data": ("data", "holdout_size", "data_seed", *_of_kinds("data")),
        "optimizer": (
            *("optimizer", "learning_rate", "batch_size", "micro_batch", "clip_norm", "trained"),
            *("num_workers", "local_steps", "outer_learning_rate", "outer_momentum", *_of_kinds("optimizer")),
        ),
        "duration and schedule": ("max_steps", "target_loss", "schedule", "schedule_steps", *_of_kinds("schedule")),
        "averages and evaluation": ("averages", "uniform_average", "eval_every"),
    }
    given: ClassVar[frozenset[str]] = frozenset()
    """Names of the flags that were written; the parser says so."""

    preset: str | None = None
    """Preset by name, whose fields the other flags change; an unknown name lists them."""

    @property
    def config(self) -> TrainConfig:
        """The run that the flags describe: the preset's fields, changed by what was written."""
        fields = {field.name: getattr(self, field.name) for field in _FIELDS if field.name in self.given}
        return TrainConfig.from_fields(fields, _preset_fields(self.preset))

    @classmethod
    def defaults_from(cls, words: Sequence[str]) -> dict[str, Any]:
        """Flags that the preset named among the words of the command line sets, with its name; empty if none is."""
        for place, word in enumerate(words):
            flag, equals, value = word.partition("=")
            if flag == "--preset" and (equals or place + 1 < len(words)):
                name = value if equals else words[place + 1]
                return _preset_fields(name) | {"preset": name}
        return {}


def _preset_fields(name: str | None) -> dict[str, Any]:
    """Flat fields of a preset."""
    if name is None:
        return {}
    fields = PRESETS[checked_name("preset", name, PRESETS)]
    return fields | ({"tokens": "(give --tokens FILE)"} if fields.get("data") == "tokens" else {})
