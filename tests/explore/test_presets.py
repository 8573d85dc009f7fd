"""Examples: what each sets, and that the page goes to it and says what to look at."""

from urllib.parse import parse_qsl

import pytest
from bokeh.document import Document

from sgdtheory.explore.page import NO_PRESET, Page
from sgdtheory.explore.presets import PRESETS
from sgdtheory.explore.state import State
from tests.explore.silent_workers import SilentWorkers

LINKS = {
    "b ≤ a: B* does not grow": "a=3&b=2&D=1e6",
    "a < b ≤ 2a + 1: B* grows": "a=2&b=3&D=1e6",
    "b > 2a + 1: saturation": "a=1.5&b=6&D=1e6",
    "Tail averaging": "a=1.5&b=6&D=1e5&second=tail",
    "Resonance": "a=1.2&b=8&D=1e4&B=2500",
    "Model size": "a=2&b=3&D=1e6&M=16",
    "Decay against ramp": "D=1e5&first=linear last&second=batch-schedule=linear batch-final=8 last",
    "signSGD: U-shaped risk": "a=1.5&b=2&D=1e4&first=sign linear last&second=linear last",
}


def test_every_example_sets_what_its_sentence_is_about():
    opened = {name: State.from_query(dict(parse_qsl(query))) for name, query in LINKS.items()}
    assert {preset.name: (preset.state, []) for preset in PRESETS} == opened


@pytest.fixture
def page():
    return Page(Document(), SilentWorkers(), State(colours="dark", text="large"), ["a sentence on the link"])


def test_the_page_goes_to_an_example_and_stays_as_dark_and_large_as_it_was(page):
    """It names the example as long as no control has moved since."""
    assert page.presets.value == PRESETS[1].name, "a new page"
    assert "a sentence on the link" in page.words.text
    for preset in (*PRESETS[2:], *PRESETS[:2]):
        page.presets.value = preset.name
        assert page.state == preset.state.looking_like(State(colours="dark", text="large"))
        assert page.workers.jobs[-1].state == page.state
        assert page.controls.numbers["source"].slider.value == preset.state.source
        assert page.sentence.visible
        asked = len(page.workers.jobs)
        page.refresh()
        assert page.presets.value == preset.name
        assert len(page.workers.jobs) == asked
    assert "a sentence on the link" not in page.words.text
    page.controls.numbers["source"].slider.value = 3.05
    page.refresh()
    assert (page.presets.value, page.sentence.text, page.sentence.visible) == (NO_PRESET, "", False)
    assert page.state.source == 3.05
