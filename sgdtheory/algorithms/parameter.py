"""Descriptions of an algorithm's parameters for flags, help and sliders, as annotations of the fields."""

import dataclasses
import functools
import typing
from typing import Any, NamedTuple


class Slider(NamedTuple):
    """A slider for a number: its label, ends, step and initial position."""

    label: str
    low: float
    high: float
    step: float
    first: float


class Choice(NamedTuple):
    """A choice between words: its label, the words with the default first, and their values if these are not words."""

    label: str
    words: tuple[str, ...]
    values: tuple[Any, ...] = ()

    def value(self, word: Any) -> Any:
        """Return the value of a word; anything else is returned unchanged, for the field's own check."""
        return dict(zip(self.words, self.values, strict=False)).get(word, word)

    def word(self, value: Any) -> str:
        """Return the word for a value."""
        return self.words[self.values.index(value)] if self.values else value


class Parameter(NamedTuple):
    """The description of a field, as in `momentum: Annotated[float, Parameter("momentum β.", Slider(…))]`.

    Attributes:
        text: meaning of the parameter, for help.
        slider: slider of the parameter; None if it has none.
        setting: name of the parameter in flat settings; empty: the name of the field.
        of_batch: slider of the parameter in a batch-size schedule, if it differs.
        batch_note: additional help for a batch-size schedule.
        examples: for a parameter that is a text, an example for the learning rate and one for the batch size.
        choice: for a parameter that is one of several words, the choice.
    """

    text: str
    slider: Slider | None = None
    setting: str = ""
    of_batch: Slider | None = None
    batch_note: str = ""
    examples: tuple[str, str] | None = None
    choice: Choice | None = None


@functools.cache
def parameters(kind: type) -> dict[str, Parameter]:
    """Return the descriptions of the annotated fields by name; a kind that is written as one text has only that one.

    >>> from sgdtheory.algorithms import HeavyBall, parameters
    >>> parameters(HeavyBall)["momentum"].text
    'momentum β.'
    """
    if written := getattr(kind, "written", None):
        return {written.setting: written}
    hints = typing.get_type_hints(kind, include_extras=True)
    descriptions = {}
    for field in dataclasses.fields(kind):
        own = [each for each in getattr(hints[field.name], "__metadata__", ()) if isinstance(each, Parameter)]
        if own:
            descriptions[field.name] = own[0]
    return descriptions
