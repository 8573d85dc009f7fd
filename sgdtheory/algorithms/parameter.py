"""What flags, help and sliders say of a number or a word of an algorithm's part: it stands with its field."""

import dataclasses
import functools
import typing
from typing import Any, NamedTuple


class Slider(NamedTuple):
    """How a number is set by hand: a label, the ends, the step, and where it stands at first."""

    label: str
    low: float
    high: float
    step: float
    first: float


class Choice(NamedTuple):
    """How a word is chosen by hand: a label, what it may be, the default first, and what that means, if not itself."""

    label: str
    words: tuple[str, ...]
    values: tuple[Any, ...] = ()

    def value(self, word: Any) -> Any:
        """What a word means; what is none of them is left for the field's own check."""
        return dict(zip(self.words, self.values, strict=False)).get(word, word)

    def word(self, value: Any) -> str:
        """The word that means it."""
        return self.words[self.values.index(value)] if self.values else value


class Parameter(NamedTuple):
    """Of a field: `momentum: Annotated[float, Parameter("momentum β.", Slider(…))]`.

    Attributes:
        text: what it means, for help.
        slider: None if it is not set by hand.
        setting: its name where an algorithm is written flat; that of the field unless given.
        of_batch: the slider where it is a schedule's of the batch size, if that is another.
        batch_note: what help says of it there.
        examples: of what is no number but a text: one of the learning rate, one of the batch size.
        choice: of what is no number but one of several words.
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
    """Field → what is said of it, of the fields that are annotated; of a kind that is written as one text, of that.

    >>> from sgdtheory.algorithms import HeavyBall, parameters
    >>> parameters(HeavyBall)["momentum"].text
    'momentum β.'
    """
    if written := getattr(kind, "written", None):
        return {written.setting: written}
    hints = typing.get_type_hints(kind, include_extras=True)
    found = {}
    for field in dataclasses.fields(kind):
        said = [each for each in getattr(hints[field.name], "__metadata__", ()) if isinstance(each, Parameter)]
        if said:
            found[field.name] = said[0]
    return found
