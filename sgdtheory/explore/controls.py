"""The widgets: sliders of the numbers, and for each algorithm what it is made of, with the settings of that."""

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
    Choice,
    Parameter,
    algorithm_settings,
    algorithm_text,
    make_algorithm,
    parameters,
    settings_of_kind,
)
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
"""
NOTHING = "(none)"
# What is in force in the place of a number that none of the algorithms has: the other way to say γ.
ELSEWHERE = {"learning_rate": "set below, as a multiple of the best", "rate_factor": "set above"}
UNITS = {"learning_rate": " in units of the weights", "rate_factor": " (1/λ)"}  # of the γ that is in force there

PARTS = {
    "method": "method",
    "schedule": "learning rate",
    "batch_schedule": "batch size",
    "average": "average",
}


class NumberSlider:
    """A slider of a number of the state; with a checkbox where it may be without a value.

    One that is not in force is grey, and says what is: the checkbox is set, or no algorithm has such a number.
    """

    def __init__(self, name: str, number: Number, changed: Changed, without: str = "") -> None:
        self.name, self.number, self.changed = name, number, changed
        self.quiet = False
        self.meant = True
        self.now = ""
        # Kept, as another one would have Bokeh look through all models at each move.
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
        """A slider that is not in force has no number."""
        kind = 2 if not self.meant else int(without)
        self.slider.update(disabled=kind > 0, format=self.formats[kind])
        now = f", now {self.now}" if kind and self.now else ""
        # Bokeh writes the number anew when the title changes, and not when its format does: spaces of no width.
        self.slider.title = self.number.label + now + "\u200b" * kind

    @property
    def without(self) -> bool:
        """Whether it is to be without a value."""
        return self.box is not None and bool(self.box.active)

    def offer(self, meant: bool) -> None:
        """Be in force, or not where no algorithm has such a number."""
        if meant != self.meant:
            self.meant = meant
            if self.box:
                self.box.disabled = not meant
            self._say(self.without)

    def tell(self, rates: Sequence[float]) -> None:
        """Say the γ that are in force while the slider is not, and stand at the first; none: they are not known."""
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
        """Stand at a value; where there is none, at what would be otherwise."""
        self.quiet = True
        place = self.number.place(otherwise if value is None else value)
        self.slider.update(value=min(max(place, self.number.low), self.number.high))
        self._say(value is None)
        if self.box:
            self.box.active = value is None
        self.quiet = False


def _format(number: Number) -> CustomJSTickFormatter:
    """How the slider writes its value: as the page does."""
    value = f"Math.pow({number.base}, tick)" if number.base else "tick"
    if number.digits == 0:
        value = f"Math.round({value})"
    code = f"""
        const v = {value}, s = Number(v.toPrecision(3));
        if (s === 0 || (s >= 1e-3 && s < 1e5)) return String({"v" if number.digits == 0 else "s"});
        const [mantissa, exponent] = s.toExponential().split("e");
        const raised = String(Number(exponent)).replace(/./g, (sign) => "⁻⁰¹²³⁴⁵⁶⁷⁸⁹"["-0123456789".indexOf(sign)]);
        return (mantissa === "1" ? "" : mantissa + " × ") + "10" + raised;
    """
    return CustomJSTickFormatter(code=code)


Setting = Slider | TextInput | Select  # a number, a text, or one of several words


class AlgorithmControls:
    """What an algorithm is made of, and a widget for each number and word that its parts have."""

    def __init__(self, slot: str, changed: Changed) -> None:
        self.slot, self.changed, self.quiet = slot, changed, False
        self.of_all: dict[str, Any] = {}  # what an algorithm has beside its parts: a link may say it, no widget does
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

    def _dress(self, name: str) -> dict[str, Any]:
        return {
            "css_classes": [f"control-{self.slot}-{name}"],
            "stylesheets": [STYLE],
            "sizing_mode": "stretch_width",
        }

    def show(self, text: str) -> None:
        """Stand at an algorithm in words."""
        self.quiet = True
        given = algorithm_settings(text) if text else {"method": NOTHING}
        self.of_all = {name: value for name, value in given.items() if name in parameters(Algorithm)}
        for part, select in self.selects.items():
            select.value = given.get(part, next(iter(KINDS[part])))
        self._lay_out(given)
        self.quiet = False

    def _lay_out(self, given: dict[str, Any]) -> None:
        """The widgets of the kinds that are chosen, at what is given or where they stand at first."""
        children: list[UIElement] = [self.selects["method"]]
        self.settings = {}
        if self.selects["method"].value != NOTHING:
            for part, select in self.selects.items():
                children += [] if part == "method" else [select]
                children += self._settings_of(part, KINDS[part][str(select.value)], given)
        self.column.children = children

    def _settings_of(self, part: str, kind: Any, given: dict[str, Any]) -> list[Setting]:
        """The widgets of one kind; a number without a slider has none."""
        found = {}
        of_batch = part == "batch_schedule"
        for name, field in settings_of_kind(part, kind).items():
            said = parameters(kind)[field]
            if said.examples:
                found[name] = self._text(name, given.get(name, said.examples[of_batch]))
            elif said.choice:
                found[name] = self._choice(name, said.choice, given)
            elif said.slider:
                found[name] = self._slider(name, said, of_batch, given)
        self.settings |= found
        return list(found.values())

    def _text(self, name: str, value: str) -> TextInput:
        field = TextInput(title="stages, share:value", value=value, **self._dress(name))
        field.on_change("value", lambda attr, old, new: self._set())
        return field

    def _choice(self, name: str, choice: Choice, given: dict[str, Any]) -> Select:
        words = list(choice.words)
        select = Select(title=choice.label, options=words, value=given.get(name, words[0]), **self._dress(name))
        select.on_change("value", lambda attr, old, new: self._set())
        return select

    def _slider(self, name: str, said: Parameter, of_batch: bool, given: dict[str, Any]) -> Slider:
        range_ = (said.of_batch if of_batch else None) or said.slider
        assert range_ is not None, "asked for by the caller"
        slider = Slider(
            start=range_.low,
            end=max(range_.high, given.get(name, 0.0)),
            step=range_.step,
            value=given.get(name, range_.first),
            title=range_.label,
            format="0[.]000",
            **self._dress(name),
        )
        slider.on_change("value", lambda attr, old, new: self._set())
        return slider

    def _chosen(self) -> None:
        """A part has been chosen: its settings come, others go; those that stay keep their values."""
        if self.quiet:
            return
        self._lay_out({name: widget.value for name, widget in self.settings.items()})
        self._set()

    def _set(self) -> None:
        if self.quiet:
            return
        if self.selects["method"].value == NOTHING:
            self.changed(self.slot, "")
            return
        settings = {part: str(select.value) for part, select in self.selects.items()}
        settings |= {name: widget.value for name, widget in self.settings.items()} | self.of_all
        try:
            text = algorithm_text(make_algorithm(settings))
        except ValueError as error:
            self.changed(self.slot, error)
            return
        self.changed(self.slot, text)


class Controls:
    """All widgets of the sidebar.

    Args:
        changed: is called with the name of a part of the state and its new value, or the error that there is none.
    """

    def __init__(self, changed: Changed) -> None:
        without = {"num_features": "all features (M → ∞)", "learning_rate": "best γ of each algorithm"}
        self.numbers = {
            name: NumberSlider(name, each, changed, without.get(name, "")) for name, each in NUMBERS.items()
        }
        self.algorithms = {slot: AlgorithmControls(slot, changed) for slot in SLOTS}

    def column(self, *names: str) -> Column:
        """Sliders of these numbers, one below the other."""
        widgets = [widget for name in names for widget in self.numbers[name].widgets]
        return Column(*widgets, sizing_mode="stretch_width")

    def offer(self, state: State) -> None:
        """Grey the slider of γ that no algorithm takes."""
        linear = [algorithm.linear for algorithm in state.algorithms]
        self.numbers["learning_rate"].offer(any(linear))
        self.numbers["rate_factor"].offer(not all(linear))

    def tell_rates(self, rates: Sequence[float]) -> None:
        """Say the γ in force, those that are known, beside each slider that is not."""
        for name in ELSEWHERE:
            self.numbers[name].tell(rates)

    def show(self, state: State) -> None:
        """Stand at a state."""
        otherwise = {"num_features": 64.0, "learning_rate": 0.1}
        for name, slider in self.numbers.items():
            slider.show(getattr(state, name), otherwise.get(name, 1.0))
        for slot, controls in self.algorithms.items():
            controls.show(getattr(state, slot))
