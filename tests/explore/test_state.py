"""Links to states: every state survives its link, and invalid parts are reported and change nothing."""

from dataclasses import fields, replace
from urllib.parse import parse_qsl

import numpy as np
import pytest
from hypothesis import example, given
from hypothesis import strategies as some

from sgdtheory.algorithms import algorithm_settings, algorithm_text, make_algorithm
from sgdtheory.explore.presets import PRESETS
from sgdtheory.explore.registry import JOBS
from sgdtheory.explore.state import COLOURS, NUMBERS, SIZES, WITHOUT, State, digits

ALGORITHMS = (
    "sgd",
    "last",
    "tail tail-fraction=0.1",
    "heavy-ball momentum=0.9 cosine warmup=0.1 last",
    "stages stages=0:1,0.5:0.3 exponential average-window=0.2",
    "linear batch-schedule=stages batch-stages=0:1,0.5:4 last",
    "schedule-free interpolation=0.7 wsd decay=0.3",
    "sign momentum=0.9 basis=random cosine last",
    "adam beta2=0.95 epsilon=0.01 clip-norm=2",
)
SHORT = [number.query for number in NUMBERS.values()]


def numbers(name):
    number = NUMBERS[name]
    low, high = number.ends
    values = some.integers(int(low), int(high)) if number.digits == 0 else some.floats(low, high)
    return values | some.none() if name in WITHOUT else values


STATES = some.builds(
    State,
    **{name: numbers(name) for name in NUMBERS},
    first=some.sampled_from(ALGORITHMS),
    second=some.sampled_from(("", *ALGORITHMS)),
    colours=some.sampled_from(COLOURS),
    text=some.sampled_from(SIZES),
)


def opened(query):
    return State.from_query(dict(parse_qsl(query, keep_blank_values=True, strict_parsing=bool(query))))


@given(STATES)
def test_a_link_says_all_of_a_state(state):
    assert opened(state.query) == (state, [])


@pytest.mark.parametrize("preset", PRESETS, ids=lambda preset: preset.name)
def test_a_preset_can_be_shown_and_linked(preset):
    assert opened(preset.state.query) == (preset.state.checked(), [])


def test_a_link_to_the_default_is_short():
    assert State().query == ""
    assert replace(State(), capacity=1.5).query == "a=1.5"


def test_algorithms_of_a_link_are_written_as_everywhere():
    state, sentences = opened("first=uniform+sgd&second=momentum%3D0.9+heavy-ball")
    assert (state.first, state.second, sentences) == ("sgd", "heavy-ball momentum=0.9", [])
    assert opened("first=&second=") == (State(), []), "the default, and no second one"


PARTS = [field.name for field in fields(State)]
INSIDE = ["problem", "algorithms", "names", "query", "bare", "checked", "from_query", "__class__", "__dict__", ""]
TEXT = some.text(max_size=30)


@given(some.dictionaries(some.sampled_from([*SHORT, *PARTS, *INSIDE]) | TEXT, TEXT, max_size=4))
@example({"a": "\0"})
def test_what_a_link_says_wrongly_is_told_and_the_rest_can_be_used(query):
    state, sentences = State.from_query(query)
    assert len(sentences) <= len(query)
    assert all(sentence == " ".join(sentence.split("\n")) for sentence in sentences)
    assert opened(state.query) == (state, [])
    for name, number in NUMBERS.items():
        value, (low, high) = getattr(state, name), number.ends
        assert low <= value <= high if value is not None else name in WITHOUT


@pytest.mark.parametrize(
    ("query", "part"),
    [
        ("a=0.5", "a must be a number from 0.8 to 4, got '0.5'; it is 2 now"),
        ("a=nan", "got 'nan'"),
        ("D=inf", "D must be a number from 100 to 1e+12, got 'inf'; it is 1e+06 now"),
        ("D=", "got ''"),
        ("B=many", "it is 32 now"),
        ("M=0", "or all, got '0'; it is all now"),
        ("rate=-1", "or best, got '-1'; it is best now"),
        ("first=sophia", "first: "),
        ("first=sophia", "; it is sgd now"),
        ("second=sophia", "; it is none now"),
        ("second=last+last", "second: "),
        ("first=tail+tail-fraction%3D7", "first: "),
        ("colours=red", "colours must be system or light or dark, got 'red'; it is system now"),
        ("text=huge", "text must be normal or large, got 'huge'; it is normal now"),
        ("problem=1", "'problem' is not part of a link to this page; remove it"),
        ("x" * 500 + "=1", f"'{'x' * 20}' is not part"),
        ("a=" + "7" * 500, f"got '{'7' * 20}';"),
    ],
)
def test_sentences(query, part):
    state, sentences = opened(query)
    assert state == State()
    assert len(sentences) == 1
    assert part in sentences[0]
    assert len(sentences[0]) < 400


@pytest.mark.parametrize("name", NUMBERS)
def test_a_slider_stands_where_its_value_is(name):
    number = NUMBERS[name]
    for place in np.arange(number.low, number.high + number.step / 2, number.step):
        value = number.value(place)
        assert number.low - 1e-9 <= number.place(value) <= number.high + 1e-9
        if number.digits:
            assert number.value(number.place(value)) == value
            assert abs(number.place(value) - place) < number.step / 2
        else:
            assert value == int(value)
            assert abs(value - number.base**place) <= 0.5
        assert State.from_query({number.query: digits(value)})[1] == []


@pytest.mark.parametrize(
    ("change", "part"),
    [
        ({"capacity": 1.0}, "a = 1, but"),
        ({"source": 0.9}, "b = 0.9, but"),
        ({"precondition": 0.6}, r"a \(1 − θ\) = 0.8, but"),
        ({"precondition": 0.5}, r"a \(1 − θ\) = 1, but"),
        ({"batch_size": 1000, "num_samples": 500.0}, "B = 1000 is more than D = 500"),
    ],
)
def test_states_of_which_nothing_can_be_shown(change, part):
    state = replace(State(), **change)
    with pytest.raises(ValueError, match=part):
        state.checked()
    assert opened(state.query) == (state, [])


def test_one_step_with_all_data_can_be_shown():
    state = State(batch_size=500, num_samples=500.0)
    assert state.checked() is state


@pytest.mark.parametrize("text", ALGORITHMS)
def test_names_differ(text):
    text = algorithm_text(make_algorithm(algorithm_settings(text)))
    names = replace(State(), first=text, second=text).names
    assert len(set(names)) == 2


@pytest.mark.parametrize(
    ("first", "known"),
    [
        ("sgd", True),
        ("sign", True),
        ("normalized", True),
        ("normalized momentum=0.5", False),
        ("muon", False),
        ("clip-norm=1", False),
    ],
)
def test_an_algorithm_without_a_risk_is_named(first, known):
    """Nothing that follows from a risk is computed of it."""
    state = replace(State(), first=first, second="last")
    assert [state.has_risk(slot) for slot in range(2)] == [known, True]
    assert [words.partition(": there is no theory of its risk")[0] for words in state.unknown] == (
        [] if known else [first]
    )
    assert ["normalized SGD" in words for words in state.unknown] == ([] if known else [first == "muon"])
    computed = {name for name, job in JOBS.items() if job.lane(state, 0)}
    assert computed == ({*JOBS} if known else {"simulated"})
    assert {name for name, job in JOBS.items() if job.lane(state, 1)} == {*JOBS}


@pytest.mark.parametrize("slot", [0, 1])
def test_an_algorithm_in_random_coordinates_is_simulated_alone(slot):
    """Its risk takes minutes, which the command line has."""
    state = State(first="sign basis=random", second="adam basis=random")
    assert not state.has_risk(slot)
    assert state.unknown[slot].startswith(
        f"{state.names[slot]}: its risk in these coordinates takes minutes (sgdtheory risk computes it); “Simulate"
    )
    assert [name for name, job in JOBS.items() if job.lane(state, slot)] == ["simulated"]
