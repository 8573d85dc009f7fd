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
    assert "now 0.491 and 0.2" in str(slider.title)
    assert told == []
    assert box is not None
    setattr(box, "active", False)  # noqa: B010 (Bokeh declares fewer types)
    assert told == [("learning_rate", 0.491)]
    assert not slider.disabled
