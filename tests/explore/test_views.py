"""One panel at a time: on a phone with the controls beneath it, in a lecture large; nothing old beside a new name."""

import pytest

from sgdtheory.explore.registry import TITLES
from tests.explore.test_page_look import POOR

WAITING = "section => [...document.querySelectorAll('section[data-waiting]')].map((each) => each.dataset.waiting)"


def sections(page):
    return [each for each in page.page.locator("main > section").all() if each.is_visible()]


@pytest.mark.slow
@pytest.mark.parametrize("colours", ["light", "dark"])
@pytest.mark.parametrize("width", [390, 1280, 1920])
def test_layout(visit, width, colours):
    height = 844 if width == 390 else 900
    page = visit(f"D=500&B=8&colours={colours}", width=width, height=height)
    page.number("samples-batch_size-0")
    page.page.wait_for_function(f"document.documentElement.dataset.look.startsWith({colours!r})")
    page.wait_for_text("status", "Ready")
    assert page.page.evaluate(POOR) == []
    assert page.page.evaluate("document.documentElement.scrollWidth - innerWidth") <= 0
    assert len(sections(page)) == (1 if width == 390 else len(TITLES))
    assert page.page.evaluate("document.querySelectorAll('section h2 math').length") == len(TITLES)
    if width == 390:
        slider = page.page.locator(".control-batch_size .noUi-handle")
        slider.scroll_into_view_if_needed()
        page.page.locator("[data-panel=growth]").evaluate("(button) => button.click()")
        shown = page.page.locator("#panel-growth .bk-Figure").first
        for box in (shown.bounding_box(), slider.bounding_box()):
            assert 0 <= box["y"] < box["y"] + box["height"] <= height


@pytest.mark.slow
def test_large_letters_stay_in_their_panel(visit):
    page = visit("D=500&B=8&text=large", width=1024, height=768)
    page.number("samples-batch_size-0")
    for heading in page.page.locator("section h2").all():
        assert heading.evaluate("(title) => title.scrollWidth - title.clientWidth") <= 0


@pytest.mark.slow
@pytest.mark.parametrize(("width", "height"), [(1280, 720), (1280, 900), (1920, 1080)])
def test_long_numbers_of_a_lecture_are_on_the_screen(visit, width, height):
    page = visit("b=6&noise=1e-4&D=1e9&M=9000&second=last", width=width, height=height)
    page.number("samples-batch_size-1")
    page.wait_for_text("status", "Ready")
    page.page.keyboard.press("l")
    for key in "12345":
        page.page.keyboard.press(key)
        page.page.wait_for_function("Bokeh.documents[0].get_model_by_name('figure-risk').height !== 280")
        page.page.wait_for_function(f"document.getElementById('numbers').getBoundingClientRect().bottom <= {height}")
    numbers = page.page.locator("#numbers").bounding_box()
    for cell in page.page.locator("#numbers dd").all():
        box = cell.bounding_box()
        assert numbers["x"] <= box["x"]
        assert box["x"] + box["width"] <= numbers["x"] + numbers["width"] + 1
    for handle in page.page.locator("aside .noUi-handle").all():
        assert handle.bounding_box()["x"] + handle.bounding_box()["width"] <= width


@pytest.mark.slow
def test_a_lecture(visit):
    page = visit("D=500&B=8")
    page.number("samples-batch_size-0")
    page.page.keyboard.press("l")
    page.page.keyboard.press("3")
    assert [each.get_attribute("id") for each in sections(page)] == ["panel-growth"]
    page.page.wait_for_function("document.documentElement.dataset.look.includes('large')")
    figure = page.page.locator("#panel-growth .bk-Figure")
    page.page.wait_for_function("Bokeh.documents[0].get_model_by_name('figure-growth').height > 500")
    box = figure.bounding_box()
    assert box["height"] > 500
    assert box["y"] + box["height"] <= 900
    old = page.number("path-total-0")
    for _ in range(2):
        page.page.keyboard.press("]")
    page.page.keyboard.press("ArrowRight")  # the second slider: b
    page.wait_for_query("b", "3.05")
    assert page.number_after("path-total-0", old) != old
    page.page.keyboard.press("Escape")
    page.page.wait_for_function("!document.documentElement.dataset.look.includes('large')")
    assert len(sections(page)) == len(TITLES)


@pytest.mark.slow
def test_what_has_not_come_is_greyed_and_what_changed_is_marked(visit):
    """signSGD, whose B* takes seconds: until it has come, no line of the state before looks like one of this state."""
    page = visit("a=1.5&b=2&D=4000&first=sign+linear+last")
    page.wait_for_states("samples", "empty")  # from the first moment on
    page.number("path-total-0")
    page.wait_for_text("status", "Ready")
    assert page.page.evaluate(WAITING) == []
    assert "now" not in page.page.locator(".control-learning_rate").inner_text()
    page.page.evaluate("waited.length = 0")
    page.press("noise_variance")
    page.wait_for_states("samples", "stale", "empty")  # taken away
    page.wait_for_text("status", "Ready")
    assert page.page.evaluate(WAITING) == []
    page.page.locator(".changed[data-name=path-total-0]").wait_for()
    other = visit("D=500&B=8")
    rate = other.number("path-learning_rate-0")
    other.page.locator(".control-learning_rate .bk-slider-title", has_text=f"now {rate:.3g}").wait_for()
