"""What the sliders offer: where each begins and ends, the steps between, and where it stands on a new page."""

from typing import NamedTuple

import pytest

from sgdtheory.explore.controls import Controls
from sgdtheory.explore.state import State


class Offered(NamedTuple):
    """A slider: its values, the number of its steps, and the value of a new page as a link writes it."""

    query: str
    first: float
    last: float
    steps: int
    start: str
    logarithmic: bool = True
    digits: int | None = 3  # significant ones; None: whole numbers


SLIDERS = {
    "capacity": Offered("a", 0.8, 4.0, 64, "2", logarithmic=False),
    "source": Offered("b", 0.8, 9.0, 164, "3", logarithmic=False),
    "noise_variance": Offered("noise", 1e-4, 1e3, 7 * 20, "1"),
    "precondition": Offered("theta", 0.0, 0.9, 18, "0", logarithmic=False),
    "num_features": Offered("M", 2, 2**14, 13 * 4, "all", digits=None),
    "num_samples": Offered("D", 1e2, 1e12, 10 * 20, "1e+06"),
    "batch_size": Offered("B", 1, 2**24, 24 * 4, "32", digits=None),
    "learning_rate": Offered("rate", 1e-5, 10, 6 * 50, "best"),
    "overhead": Offered("overhead", 0.05, 1.0, 19, "0.2", logarithmic=False),
    "rate_factor": Offered("factor", 0.01, 100, 4 * 50, "1"),
}


@pytest.fixture(scope="module")
def controls():
    """All widgets, and what they have told."""
    told = []
    made = Controls(lambda name, value: told.append((name, value)))
    made.show(State(num_features=64, learning_rate=0.1))
    return made, told


def value(offered, step):
    """The value after so many steps from the first one."""
    share = step / offered.steps
    if not offered.logarithmic:
        return round(offered.first + share * (offered.last - offered.first), 6)
    exact = offered.first * (offered.last / offered.first) ** share
    return round(exact) if offered.digits is None else float(f"{exact:.{offered.digits}g}")


@pytest.mark.parametrize("name", SLIDERS)
def test_values_of_a_slider(name, controls):
    """Equal steps of the number or of its logarithm, from the first value to the last one; none is missing."""
    made, told = controls
    offered, slider = SLIDERS[name], made.numbers[name].slider
    assert (slider.end - slider.start) / slider.step == pytest.approx(offered.steps)
    for step in (1, 0, offered.steps // 2, offered.steps - 1, offered.steps):
        slider.value = slider.start + step * slider.step
        assert told[-1] == (name, pytest.approx(value(offered, step), rel=1e-12))
        assert isinstance(told[-1][1], int) == (offered.digits is None)


def test_every_number_of_the_page_is_in_the_table(controls):
    assert {name: slider.number.query for name, slider in controls[0].numbers.items()} == {
        name: offered.query for name, offered in SLIDERS.items()
    }


@pytest.mark.parametrize("name", SLIDERS)
def test_a_link_takes_what_the_slider_offers_and_says_what_it_takes(name):
    offered = SLIDERS[name]
    for end in (offered.first, offered.last):
        state, sentences = State.from_query({offered.query: repr(end)})
        assert (getattr(state, name), sentences) == (end, [])
    also = " or best" if name == "learning_rate" else " or all" if name == "num_features" else ""
    for text in (repr(offered.first - 0.001), repr(1.001 * offered.last), "many"):
        assert State.from_query({offered.query: text})[1] == [
            f"{offered.query} must be a number from {offered.first:g} to {offered.last:g}{also}, got {text!r}; "
            f"it is {offered.start} now"
        ]


def test_a_link_says_more_digits_than_a_slider_has_but_no_half_samples():
    state, sentences = State.from_query(
        {"a": "1.23456789", "D": "12345.678", "noise": "0.12345", "B": "8.6", "M": "9.4"}
    )
    assert sentences == []
    assert (state.capacity, state.num_samples, state.noise_variance) == (1.23456789, 12345.678, 0.12345)
    assert (state.batch_size, state.num_features) == (9, 9)
    assert isinstance(state.batch_size, int)


def test_what_was_left_out_begins_in_the_middle():
    """Unticking “all features” or “best γ” goes to a number that is not at the end of the slider."""
    told = []
    made = Controls(lambda name, value: told.append((name, value)))
    made.show(State())
    for name in ("num_features", "learning_rate"):
        box = made.numbers[name].box
        assert box is not None
        setattr(box, "active", False)  # noqa: B010 (Bokeh declares fewer types)
    assert told == [("num_features", 64), ("learning_rate", 0.1)]
