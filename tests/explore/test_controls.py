"""A method's settings as widgets: what they show and what they say."""

import pytest

from sgdtheory.explore.controls import AlgorithmControls, Controls
from sgdtheory.explore.state import State


def test_a_setting_of_yes_and_no_is_a_list():
    told = []
    controls = AlgorithmControls("first", lambda slot, text: told.append((slot, text)))
    controls.show("muon nesterov=yes newton-schulz=5")
    assert {name: controls.settings[name].value for name in ("momentum", "nesterov", "newton_schulz")} == {
        "momentum": 0.95,
        "nesterov": "yes",
        "newton_schulz": 5,
    }
    setattr(controls.settings["nesterov"], "value", "no")  # noqa: B010 (Bokeh declares fewer types)
    assert told == [("first", "muon newton-schulz=5")]
    controls.show("sgd")
    controls.selects["method"].value = "muon"
    assert told[1:] == [("first", "muon")]


@pytest.mark.parametrize(
    ("first", "second", "grey", "told"),
    [
        ("sgd", "", "rate_factor", "now 0.491 (1/λ)"),
        ("sign linear last", "", "learning_rate", "now 0.491 in units of the weights"),
        ("sgd", "sign linear last", "", ""),
    ],
)
def test_a_slider_of_no_algorithm_is_grey_and_says_what_is_in_force(first, second, grey, told):
    state = State(first=first, second=second, learning_rate=0.1)
    controls = Controls(lambda name, value: None)
    controls.show(state)
    controls.offer(state)
    controls.tell_rates([0.491])
    sliders = {name: controls.numbers[name].slider for name in ("learning_rate", "rate_factor")}
    assert all(each.visible for each in sliders.values())
    assert [name for name, each in sliders.items() if each.disabled] == [grey] * bool(grey)
    if grey:
        assert told in str(sliders[grey].title)
    box = controls.numbers["learning_rate"].box
    assert box is not None
    assert box.disabled == (grey == "learning_rate")
    controls.offer(State(first="sgd", second="sign linear last", learning_rate=0.1))
    assert not any(each.disabled for each in sliders.values())
    assert not any("now" in str(each.title) for each in sliders.values())


def test_the_slider_stands_at_the_best_rate_and_goes_on_from_there():
    told = []
    controls = Controls(lambda name, value: told.append((name, value)))
    controls.show(State())
    controls.tell_rates([0.491, 0.2])
    slider, box = controls.numbers["learning_rate"].slider, controls.numbers["learning_rate"].box
    assert slider.disabled
    assert str(slider.title).rstrip("\u200b").endswith(", now 0.491 and 0.2")
    assert told == []
    assert box is not None
    setattr(box, "active", False)  # noqa: B010 (Bokeh declares fewer types)
    assert told == [("learning_rate", 0.491)]
    assert not slider.disabled


@pytest.fixture
def algorithm():
    """`algorithm(slot)`: the controls of an algorithm, and what they have told."""

    def made(slot):
        told = []
        return AlgorithmControls(slot, lambda slot, text: told.append((slot, text))), told

    return made


def choose(widget, value):
    """Choose a value as a visitor does."""
    widget.value = value


def shown(controls):
    """Return the values of the widgets on the page by the class that names them, in their order."""
    return {widget.css_classes[0]: widget.value for widget in controls.column.children}


def test_only_the_second_algorithm_may_be_none(algorithm):
    (first, _), (second, told) = algorithm("first"), algorithm("second")
    assert (first.selects["method"].options[0], second.selects["method"].options[:2]) == ("sgd", ["(none)", "sgd"])
    assert "(none)" not in second.selects["average"].options
    second.show("")
    assert shown(second) == {"control-second-method": "(none)"}
    choose(second.selects["method"], "sgd")
    choose(second.selects["average"], "tail")
    choose(second.selects["method"], "(none)")
    assert told == [("second", "sgd"), ("second", "tail"), ("second", "")]
    assert shown(second) == {"control-second-method": "(none)"}


def test_parts_of_an_algorithm_are_above_their_settings(algorithm):
    """The settings have the values of the link, or those that a part begins with."""
    controls, told = algorithm("first")
    controls.show("heavy-ball momentum=0.5 cosine batch-schedule=linear batch-final=4 tail")
    assert shown(controls) == {
        "control-first-method": "heavy-ball",
        "control-first-momentum": 0.5,
        "control-first-schedule": "cosine",
        "control-first-final": 0.0,
        "control-first-warmup": 0.0,
        "control-first-batch_schedule": "linear",
        "control-first-batch_final": 4.0,
        "control-first-batch_warmup": 0.0,
        "control-first-average": "tail",
        "control-first-tail_fraction": 0.5,
    }
    assert told == []
    assert controls.settings["momentum"].end == 0.99
    choose(controls.settings["final"], 0.25)
    choose(controls.selects["method"], "nesterov")
    assert told == [
        ("first", f"{method} momentum=0.5 cosine final=0.25 batch-schedule=linear batch-final=4 tail")
        for method in ("heavy-ball", "nesterov")
    ]
    choose(controls.selects["batch_schedule"], "stages")
    assert controls.settings["final"].value == 0.25, "those of the other parts stay"


def test_a_setting_without_a_widget_stays_with_its_part(algorithm):
    controls, told = algorithm("first")
    controls.show("exponential average-decay=0.9")
    assert "average_window" not in controls.settings
    choose(controls.selects["method"], "nesterov")
    choose(controls.selects["average"], "uniform")
    choose(controls.selects["average"], "exponential")
    texts = [text for _, text in told]
    assert texts[0].endswith("exponential average-decay=0.9")
    assert "average-decay" not in texts[1]
    assert texts[2].endswith("exponential average-window=0.2")


def test_settings_of_a_batch_size_have_ends_of_their_own(algorithm):
    """A learning rate decays, and a batch size grows."""
    controls, told = algorithm("first")
    controls.show("linear batch-schedule=linear")
    ends = {name: (controls.settings[name].start, controls.settings[name].end) for name in ("final", "batch_final")}
    assert ends == {"final": (0.0, 1.0), "batch_final": (0.0, 64.0)}
    assert controls.settings["batch_final"].value == 8.0
    controls.show("stages batch-schedule=stages")
    values = [controls.settings[name].value for name in ("stages", "batch_stages")]
    assert [[part.split(":")[1] for part in value.split(",")] for value in values] == [["1", "0.3"], ["1", "4"]]


def test_a_link_may_say_more_than_the_widgets_can(algorithm):
    """A value beyond the end of a slider moves its end, and a setting without a widget stays as it is."""
    controls, told = algorithm("first")
    controls.show("delayed delay=100 clip-norm=2")
    slider = controls.settings["delay"]
    assert (slider.value, slider.end) == (100, 100)
    choose(slider, 8)
    choose(controls.selects["average"], "last")
    assert told == [("first", "delayed delay=8 clip-norm=2"), ("first", "delayed delay=8 last clip-norm=2")]
    controls.show("delayed delay=8")
    choose(controls.settings["delay"], 9)
    assert (controls.settings["delay"].end, told[-1]) == (32, ("first", "delayed delay=9"))


def test_what_no_algorithm_has_is_told_with_its_reason(algorithm):
    controls, told = algorithm("first")
    controls.show("stages")
    choose(controls.settings["stages"], "0:1,half:2")
    ((slot, error),) = told
    assert slot == "first"
    assert isinstance(error, ValueError)
    assert "half" in str(error)


def test_a_slider_stays_where_it_is_beyond_its_ends():
    """A link may have a number between two steps, and a best γ may lie beyond the slider's ends."""
    told = []
    controls = Controls(lambda name, value: told.append(name))
    controls.show(State(noise_variance=1.05))
    slider = controls.numbers["noise_variance"].slider
    assert 0 < slider.value < slider.step
    rate = controls.numbers["learning_rate"].slider
    for best, place in ((1e-9, rate.start), (1e9, rate.end), (0.01, -2.0)):
        controls.tell_rates([best])
        assert rate.value == pytest.approx(place)
    controls.tell_rates([])
    assert rate.value == pytest.approx(-2.0)
    assert "now" not in rate.title
    assert told == []
