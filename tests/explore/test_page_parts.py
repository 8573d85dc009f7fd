"""The parts of a page: which panels it has, light or dark, and where it says what is wrong."""

import pytest
from bokeh.document import Document

import sgdtheory as st
from sgdtheory.explore.appearance import DARK, LIGHT
from sgdtheory.explore.page import Page
from sgdtheory.explore.registry import TITLES
from sgdtheory.explore.spec import Answer
from sgdtheory.explore.state import State
from sgdtheory.explore.worker import Message
from tests.explore.silent_workers import SilentWorkers


@pytest.fixture
def page():
    return Page(Document(), SilentWorkers(), State(), [])


def test_every_panel_is_on_the_page_with_what_stands_beneath_it(page):
    """They come in the order of the guide's table."""
    roots = {root.name: root for root in page.document.roots}
    assert [name for name in roots if name in TITLES] == ["risk", "samples", "growth", "path", "rate"]
    for name in TITLES:
        figures = [part.name for part in roots[name].children if (part.name or "").startswith("figure-")]
        beneath = ["figure-path_rates", "figure-path_batches"] if name == "path" else []
        assert figures == [f"figure-{name}", *beneath]
        assert roots[name].children[0].css_classes == ["caption"]
        assert roots[name].children[-1].css_classes == ["key"]
    assert {"problem", "setting", "first", "second", "presets", "status", "words", "simulation"} <= set(roots)
    assert [name for name in page.signals if page.signals[name].visible] == [], "no visitor sees them"


@pytest.mark.parametrize("slot", [0, 1])
def test_dark_or_light_is_as_the_visitor_chooses_or_as_the_system_is(page, slot):
    """One of two colours of the system, and each choice of the visitor."""
    system = bool(slot)
    page.signals["prefers_dark"].active = system
    for colours, dark in (("system", system), ("dark", True), ("light", False), ("system", system)):
        page.colours.value = colours
        assert page.state.colours == colours
        assert page.signals["look"].value == f"{'dark' if dark else 'light'} normal"
        axis = page.panels["risk"].figure.xaxis[0]
        assert axis.major_label_text_color == (DARK if dark else LIGHT).ink
        assert page.panels["risk"].glyphs["risk", slot].line_color == (DARK if dark else LIGHT).slots[slot]


def test_a_refused_state_is_all_that_a_page_shows(page):
    """There is a line for sentences only while there are any; numbers and tables go with the figures."""
    page.text.value = "large"
    assert not page.words.visible
    risk = st.excess_risk(page.state.problem, batch_size=8, num_samples=1000, learning_rate=0.1)
    marks = {"total": float(risk.total), "learning_rate": 0.1}
    answer = Answer("path", {}, marks, ("a remark",), (risk.sheet(),))
    page.take(("run", 0), Message(page.ledger.newest["run", 0], "answer", answer))
    assert "a remark" in page.words.text
    assert page.words.visible
    assert f'data-value="{float(risk.total)!r}"' in page.readings.text
    assert risk._repr_html_() in page.results.text
    for value, refused in ((0.9, True), (2.0, False)):
        page.changed("capacity", value)
        page.refresh()
        assert ("move a up" in page.words.text) == refused
        assert page.words.visible == refused
        assert page.signals["look"].value == f"light large{' refused' if refused else ''}"
        assert page.readings.text == page.results.text == ""
        assert page.panels["risk"].key.text.count("sgd, averaged") == (not refused)
