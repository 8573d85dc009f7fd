"""A method's settings as widgets: what they show and what they say."""

from sgdtheory.explore.controls import AlgorithmControls


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
