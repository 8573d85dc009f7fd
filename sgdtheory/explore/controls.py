"""The widgets: sliders of the numbers, and for each algorithm lists of its parts with their settings."""

# pyright: reportArgumentType=false, reportAttributeAccessIssue=false, reportCallIssue=false, reportIndexIssue=false
# Bokeh's properties take more types than they declare.

from collections.abc import Callable, Sequence
from typing import Any

from bokeh.models import (
    Checkbox,
    Column,
    CustomJSTickFormatter,
    Select,
    Slider,
    TextInput,
    UIElement,
)

from sgdtheory.algorithms import (
    KINDS,
    Algorithm,
    algorithm_settings,
    algorithm_text,
    make_algorithm,
    parameters,
    settings_of_kind,
)
from sgdtheory.explore import layout
from sgdtheory.explore.appearance import number
from sgdtheory.explore.state import NUMBERS, SLOTS, WITHOUT, Number, State

Changed = Callable[[str, Any], None]

STYLE = """
:host { color: var(--ink); font-size: var(--size); width: auto; }
.bk-slider-title, label, .bk-label { font-size: var(--size); color: var(--ink); }
.bk-slider-title { white-space: normal; }
.bk-input, .bk-btn { background-color: var(--field); color: var(--ink); border-color: var(--line);
  font-size: var(--size); }
.bk-btn:hover { background-color: var(--field); border-color: var(--accent); }
.noUi-target[disabled] { opacity: .35; }
option { background-color: var(--field); color: var(--ink); }
.noUi-target { background: var(--line); border-color: var(--line); }
.noUi-handle:focus-visible, .bk-input:focus-visible, .bk-btn:focus-visible, input:focus-visible {
  outline: 3px solid var(--accent); }
:host(.label-x) { text-align: center; }
""" + layout.part("texts.css")
NOTHING = "(none)"
# A slider of γ that no algorithm uses says this, because the other slider sets γ.
ELSEWHERE = {"learning_rate": "set below, as a multiple of the best", "rate_factor": "set above"}
UNITS = {"learning_rate": " in units of the weights", "rate_factor": " (1/λ)"}  # A grey slider shows γ in these units.
PARTS = {
    "method": "method",
    "schedule": "schedule of the learning rate",
    "batch_schedule": "schedule of the batch size",
    "average": "averaging of the iterates",
}


class NumberSlider:
    """A slider of a number of the state, with a checkbox where the number may be left out.

    The slider is grey, and says which value is used, while the checkbox is set or no algorithm has such a number.
    """

    def __init__(self, name: str, number: Number, changed: Changed, without: str = "") -> None:
        self.name, self.number, self.changed = name, number, changed
        self.quiet = False
        self.meant = True
        self.now = ""
        # A new formatter at each move would have Bokeh look through all models.
        told = WITHOUT.get(name, ""), ELSEWHERE.get(name, "")
        self.formats = [_format(number), *(CustomJSTickFormatter(code=f"return '{words}'") for words in told)]
        self.slider = Slider(
            start=number.low,
            end=number.high,
            step=number.step,
            value=number.low,
            title=number.label,
            format=self.formats[0],
            sizing_mode="stretch_width",
            css_classes=[f"control-{name}"],
            stylesheets=[STYLE],
        )
        self.slider.on_change("value", lambda attr, old, new: self._moved())
        self.box = Checkbox(label=without, css_classes=[f"without-{name}"], stylesheets=[STYLE]) if without else None
        if self.box:
            self.box.on_change("active", lambda attr, old, new: self._moved())

    @property
    def widgets(self) -> list[UIElement]:
        """The slider, and its checkbox."""
        return [self.slider, *([self.box] if self.box else [])]

    def _moved(self) -> None:
        if self.quiet:
            return
        self._say(self.without)
        value = None if self.without else self.number.value(self.slider.value)
        self.changed(self.name, int(value) if value is not None and self.number.digits == 0 else value)

    def _say(self, without: bool) -> None:
        """Write the value, or what is used in its place."""
        kind = 2 if not self.meant else int(without)
        self.slider.update(disabled=kind > 0, format=self.formats[kind])
        now = f", now {self.now}" if kind and self.now else ""
        # Bokeh writes the number again when the title changes, but not when its format does: hence spaces of no width.
        self.slider.title = self.number.label + now + "\u200b" * kind

    @property
    def without(self) -> bool:
        """Return whether the number is left out."""
        return self.box is not None and bool(self.box.active)

    def offer(self, meant: bool) -> None:
        """Be active, or grey where no algorithm has such a number."""
        if meant != self.meant:
            self.meant = meant
            if self.box:
                self.box.disabled = not meant
            self._say(self.without)

    def tell(self, rates: Sequence[float]) -> None:
        """Say which γ are used while the slider is grey, and move to the first; an empty list if they are not known."""
        now = " and ".join(dict.fromkeys(number(each) for each in rates))
        now += UNITS[self.name] if now and not self.meant else ""
        if now == self.now:
            return
        self.now = now
        if not self.slider.disabled:
            return
        self._say(self.without)
        if rates and self.meant:
            self.quiet = True
            self.slider.value = min(max(self.number.place(rates[0]), self.number.low), self.number.high)
            self.quiet = False

    def show(self, value: float | None, otherwise: float) -> None:
        """Move to a value, or to another one where it is left out."""
        self.quiet = True
        place = self.number.place(otherwise if value is None else value)
        self.slider.update(value=min(max(place, self.number.low), self.number.high))
        self._say(value is None)
        if self.box:
            self.box.active = value is None
        self.quiet = False


def _format(number: Number) -> CustomJSTickFormatter:
    """Return a formatter that writes the slider's value as the page writes numbers."""
    value = f"Math.pow({number.base}, tick)" if number.base else "tick"
    return CustomJSTickFormatter(code=f"return written({f'Math.round({value})' if number.digits == 0 else value});")


Setting = Slider | TextInput | Select  # a number, a text, or one of several words


class AlgorithmControls:
    """Lists of the parts of an algorithm, and a widget for each setting of these."""

    def __init__(self, slot: str, changed: Changed) -> None:
        self.slot, self.changed, self.quiet = slot, changed, False
        self.of_all: dict[str, Any] = {}  # Settings beside those of the parts: a link may have them, no widget does.
        self.selects = {}
        for part, label in PARTS.items():
            names = list(KINDS[part])
            if part == "method" and slot == SLOTS[1]:
                names = [NOTHING, *names]
            select = Select(title=label, options=list(names), value=names[0], **self._dress(part))
            select.on_change("value", lambda attr, old, new: self._chosen())
            self.selects[part] = select
        self.column = Column(sizing_mode="stretch_width", css_classes=[f"algorithm-{slot}"])
        self.settings: dict[str, Setting] = {}
        self.kept: dict[str, Any] = {}  # Settings of the chosen parts that a link has and no widget.

    def _dress(self, name: str) -> dict[str, Any]:
        return {
            "css_classes": [f"control-{self.slot}-{name}"],
            "stylesheets": [STYLE],
            "sizing_mode": "stretch_width",
        }

    def show(self, text: str) -> None:
        """Show an algorithm that is given in words."""
        self.quiet = True
        given = algorithm_settings(text) if text else {"method": NOTHING}
        self.of_all = {name: value for name, value in given.items() if name in parameters(Algorithm)}
        for part, select in self.selects.items():
            select.value = given.get(part, next(iter(KINDS[part])))
        self._lay_out(given)
        self.quiet = False

    def _lay_out(self, given: dict[str, Any]) -> None:
        """Make the widgets of the chosen parts, at the given values or their defaults."""
        children: list[UIElement] = [self.selects["method"]]
        self.settings, self.kept = {}, {}
        if self.selects["method"].value != NOTHING:
            for part, select in self.selects.items():
                children += [] if part == "method" else [select]
                children += self._settings_of(part, KINDS[part][str(select.value)], given)
        self.column.children = children

    def _settings_of(self, part: str, kind: Any, given: dict[str, Any]) -> list[Setting]:
        """Return the widgets of one part; a number without a slider has none."""
        found: dict[str, Setting] = {}
        of_batch = part == "batch_schedule"
        for name, field in settings_of_kind(part, kind).items():
            said = parameters(kind)[field]
            if name == "average_window" and "average_decay" in given:
                continue  # An average has one of the two, and the decay has no slider.
            if said.examples:
                value = given.get(name, said.examples[of_batch])
                found[name] = self._widget(TextInput, name, title="stages, as share:value", value=value)
            elif said.choice:
                words = list(said.choice.words)
                value = given.get(name, words[0])
                found[name] = self._widget(Select, name, title=said.choice.label, options=words, value=value)
            elif said.slider:
                range_ = (said.of_batch if of_batch else None) or said.slider
                value, ends = given.get(name, range_.first), (range_.low, max(range_.high, given.get(name, 0.0)))
                how = {"start": ends[0], "end": ends[1], "step": range_.step, "format": "0[.]000"}
                found[name] = self._widget(Slider, name, title=range_.label, value=value, **how)
            elif name in given:
                self.kept[name] = given[name]
        self.settings |= found
        return list(found.values())

    def _widget(self, kind: Any, name: str, **how: Any) -> Setting:
        """Return a widget that changes the algorithm."""
        widget = kind(**how, **self._dress(name))
        widget.on_change("value", lambda attr, old, new: self._set())
        return widget

    def _chosen(self) -> None:
        """Show the settings of a part that has been chosen; those that stay keep their values."""
        if self.quiet:
            return
        self._lay_out({name: widget.value for name, widget in self.settings.items()} | self.kept)
        self._set()

    def _set(self) -> None:
        if self.quiet:
            return
        if self.selects["method"].value == NOTHING:
            self.changed(self.slot, "")
            return
        settings = {part: str(select.value) for part, select in self.selects.items()}
        settings |= {name: widget.value for name, widget in self.settings.items()}
        settings |= self.kept | self.of_all
        try:
            text = algorithm_text(make_algorithm(settings))
        except ValueError as error:
            self.changed(self.slot, error)
            return
        self.changed(self.slot, text)


class Controls:
    """All widgets of the sidebar.

    Args:
        changed: called with the name of a part of the state and its new value, or the error if it has none.
    """

    def __init__(self, changed: Changed) -> None:
        without = {"num_features": "all features (M → ∞)", "learning_rate": "best γ of each algorithm"}
        self.numbers = {
            name: NumberSlider(name, each, changed, without.get(name, "")) for name, each in NUMBERS.items()
        }
        self.algorithms = {slot: AlgorithmControls(slot, changed) for slot in SLOTS}

    def column(self, *names: str) -> Column:
        """Return the sliders of these numbers, one below the other."""
        widgets = [widget for name in names for widget in self.numbers[name].widgets]
        return Column(*widgets, sizing_mode="stretch_width")

    def offer(self, state: State) -> None:
        """Grey the slider of γ that no algorithm uses."""
        linear = [algorithm.linear for algorithm in state.algorithms]
        self.numbers["learning_rate"].offer(any(linear))
        self.numbers["rate_factor"].offer(not all(linear))

    def tell_rates(self, rates: Sequence[float]) -> None:
        """Say beside each grey slider which γ are used, as far as they are known."""
        for name in ELSEWHERE:
            self.numbers[name].tell(rates)

    def show(self, state: State) -> None:
        """Move all widgets to a state."""
        otherwise = {"num_features": 64.0, "learning_rate": 0.1}
        for name, slider in self.numbers.items():
            slider.show(getattr(state, name), otherwise.get(name, 1.0))
        for slot, controls in self.algorithms.items():
            controls.show(getattr(state, slot))
