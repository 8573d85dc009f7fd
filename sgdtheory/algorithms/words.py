"""Text forms of an algorithm: flat settings, or a short text such as "heavy-ball momentum=0.9 wsd last"."""

import dataclasses
import re
from collections.abc import Mapping
from typing import Any

from sgdtheory._common.arguments import checked_name
from sgdtheory.algorithms.algorithm import Algorithm
from sgdtheory.algorithms.parameter import parameters
from sgdtheory.algorithms.registry import KINDS

ALONE = "method", "schedule", "average"  # A text names kinds of these parts without NAME=.


def make_algorithm(settings: Mapping[str, Any]) -> Algorithm:
    """Make an algorithm from flat settings: names of the parts that are not the default, and their parameters.

    >>> make_algorithm({"schedule": "wsd", "decay": 0.1}).schedule
    WSD(decay=0.1, warmup=0.0, power=1.0)

    Raises:
        ValueError: if a name is unknown, or a setting does not matter, is missing or is out of range.
    """
    names = {part: settings.get(part, next(iter(kinds))) for part, kinds in KINDS.items()}
    for part, name in names.items():
        checked_name(_dashed(part), name, KINDS[part])
    homes = {part: settings_of_kind(part, KINDS[part][name]) for part, name in names.items()}
    whole = {name: settings[name] for name in parameters(Algorithm) if name in settings}
    for name, value in settings.items():
        if name not in KINDS and name not in whole and not any(name in own for own in homes.values()):
            raise ValueError(_refusal(name, value, names))
    return Algorithm(**{part: _made(part, names[part], homes[part], settings) for part in KINDS}, **whole)


def algorithm_settings(text: str, also: tuple[str, ...] = ()) -> dict[str, Any]:
    """Parse the flat settings that a text describes.

    >>> algorithm_settings("heavy-ball momentum=0.9 last")
    {'method': 'heavy-ball', 'momentum': 0.9, 'average': 'last'}

    Args:
        text: names of a method, a schedule and an average, and NAME=VALUE options, named like the flags.
        also: names of further settings that the text may have.

    Raises:
        ValueError: if a word is unknown, a name occurs twice, or a value is not a number.
    """
    of_parts = dict.fromkeys(name for part in KINDS for name in (part, *settings_of_part(part)))
    known = [*of_parts, *parameters(Algorithm), *also]
    words = _word_settings()
    settings = {}
    for word in text.split():
        name, equals, value = word.partition("=")
        if not equals:
            name, value = _part_of(word), word
        name = name.replace("-", "_")
        checked_name("a setting of an algorithm", _dashed(name), map(_dashed, known))
        if name in settings:
            raise ValueError(f"algorithm must say {_dashed(name)} once, got {text!r}")
        settings[name] = value if name in words else _number(name, value)
    return settings


def algorithm_text(algorithm: Algorithm) -> str:
    """Return the text of an algorithm: all settings that are not the default, to the last digit.

    >>> algorithm_text(Algorithm(schedule=Cosine(), average=TailAverage(0.25)))
    'cosine tail tail-fraction=0.25'
    """
    words = []
    for part, kinds in KINDS.items():
        value = getattr(algorithm, part)
        if value == getattr(Algorithm(), part):
            continue
        name = next(name for name, kind in kinds.items() if type(value) is kind)
        words.append(name if part in ALONE else f"{_dashed(part)}={name}")
        defaults = {field.name: field.default for field in dataclasses.fields(value)}
        for setting, argument in settings_of_kind(part, type(value)).items():
            own = value.text if _written(type(value)) else getattr(value, argument)
            if own != defaults.get(argument):
                choice = parameters(type(value))[argument].choice if not _written(type(value)) else None
                words.append(f"{_dashed(setting)}={_shown(choice.word(own) if choice else own)}")
    for setting in parameters(Algorithm):
        own = getattr(algorithm, setting)
        if own != getattr(Algorithm(), setting):
            words.append(f"{_dashed(setting)}={_shown(own)}")
    return " ".join(words) or next(iter(KINDS["method"]))


def settings_of_kind(part: str, kind: Any) -> dict[str, str]:
    """Return the argument of each setting of a kind (a class in `KINDS`) as a part of an algorithm.

    A kind that is written as one text has only that setting.

    >>> settings_of_kind("average", TailAverage)
    {'tail_fraction': 'fraction'}
    """
    names = {parameter.setting or field: field for field, parameter in parameters(kind).items()}
    return {f"batch_{name}": field for name, field in names.items()} if part == "batch_schedule" else names


def _word_settings() -> set[str]:
    """Return the settings whose values are words or texts instead of numbers."""
    kinds = [(part, kind) for part in KINDS for kind in KINDS[part].values()]
    described = [
        (name, parameters(kind)[field]) for part, kind in kinds for name, field in settings_of_kind(part, kind).items()
    ]
    return {*KINDS, *(name for name, parameter in described if parameter.examples or parameter.choice)}


def _written(kind: Any) -> bool:
    """Return whether a kind is written as one text, as stages are."""
    return hasattr(kind, "written")


def settings_of_part(part: str) -> list[str]:
    """Return the settings of all kinds of a part, each once.

    >>> settings_of_part("average")
    ['tail_fraction', 'average_decay', 'average_window']
    """
    return list(dict.fromkeys(name for kind in KINDS[part].values() for name in settings_of_kind(part, kind)))


def _made(part: str, name: str, own: Mapping[str, str], settings: Mapping[str, Any]) -> Any:
    """Construct a part of an algorithm from its own settings."""
    kind: Any = KINDS[part][name]
    given = {argument: settings[setting] for setting, argument in own.items() if setting in settings}
    choices = {argument: parameters(kind)[argument].choice for argument in given if not _written(kind)}
    arguments = {name: choice.value(value) if (choice := choices.get(name)) else value for name, value in given.items()}
    needed = list(own.values()) if _written(kind) else _without_default(kind)
    missing = [
        _dashed(setting) for setting, argument in own.items() if argument in needed and argument not in arguments
    ]
    if own and not arguments and _one_of_several(kind):
        missing = [" or ".join(map(_dashed, own))]
    if missing:
        raise ValueError(f"{_dashed(part)} {name} needs {', '.join(missing)} too")
    try:
        return kind.from_text(*arguments.values()) if _written(kind) else kind(**arguments)
    except ValueError as error:
        message = str(error)
        for setting, argument in own.items():
            message = re.sub(rf"\b{argument}\b", _dashed(setting), message, count=1)
        raise ValueError(f"{_dashed(part)} {name}: {message}") from None


def _without_default(kind: type) -> list[str]:
    return [field.name for field in dataclasses.fields(kind) if field.default is dataclasses.MISSING]


def _one_of_several(kind: type) -> bool:
    """Return whether all arguments of a kind default to None, so that one of them must be given."""
    return all(field.default is None for field in dataclasses.fields(kind))


def _refusal(name: str, value: Any, names: Mapping[str, str]) -> str:
    """Return the error text for a setting that does not belong to the chosen kinds, with those that it belongs to."""
    part = next(part for part in KINDS if name in settings_of_part(part))
    others = [other for other, kind in KINDS[part].items() if name in settings_of_kind(part, kind)]
    shown, where = f"{_dashed(name)} = {_shown(value)}", _dashed(part)
    listed = " or ".join(filter(None, (", ".join(others[:-1]), others[-1])))
    return f"{shown} does not matter with {where} {names[part]}: leave it out, or take {where} {listed}"


def _part_of(word: str) -> str:
    """Return the part of an algorithm that a name without NAME= stands for."""
    names = {name: part for part in ALONE for name in KINDS[part]}
    checked_name("a word of an algorithm without =", word, names)
    return names[word]


def _number(name: str, value: str) -> float:
    try:
        return float(value)
    except ValueError:
        raise ValueError(f"{_dashed(name)} of an algorithm must be a number, got {value!r}") from None


def _shown(value: Any) -> str:
    return repr(value).removesuffix(".0") if isinstance(value, float) else str(value)


def _dashed(name: str) -> str:
    return name.replace("_", "-")
