"""Pictures of the page, for the guide: nothing that should be seen on them is missing.

`SGDTHEORY_SCREENSHOTS=docs/pictures pytest -m "slow or not slow" tests/explore/test_screenshots.py` makes the guide's.
"""

import io
import os
import time
from pathlib import Path

import numpy as np
import pytest
from matplotlib.colors import to_rgb
from PIL import Image

from sgdtheory.explore import TITLES
from tests.explore.conftest import PATIENCE

FOLDER = os.environ.get("SGDTHEORY_SCREENSHOTS")  # where the guide's pictures are; None: look at them alone
LIGHT, DARK = ("#0072B2",), ("#56B4E9", "#E69F00")  # what the algorithms are drawn in
BOTH = *LIGHT, "#D55E00"
QUICK = {"path", "rate"}  # panels that a second algorithm fills at once
NEAR = 12  # of 255: a colour on the screen
LEAST_PIXELS = 150  # of a line in its colour
WAIT = 0.1  # seconds between two looks


def pixels(shot):
    """(height, width, 3) numbers from 0 to 255 of a PNG."""
    return np.asarray(Image.open(io.BytesIO(shot)).convert("RGB"), dtype=int)


def number_of(colour, picture):
    """Pixels of a picture in this colour."""
    return int((np.abs(picture - 255 * np.array(to_rgb(colour))).max(-1) <= NEAR).sum())


def drawn(visit, panel):
    """A panel's figure as it is on the screen, without the links beneath."""
    return pixels(visit.page.locator(f"#panel-{panel} .bk-Figure").first.screenshot())


def wait_for_lines(visit, panel, colours):
    """Until lines in these colours are on the screen; the picture."""
    end = time.monotonic() + PATIENCE / 1000
    while True:
        picture = drawn(visit, panel)
        missing = [colour for colour in colours if number_of(colour, picture) < LEAST_PIXELS]
        if not missing:
            return picture
        assert time.monotonic() < end, f"{panel}: no line in {missing}"
        time.sleep(WAIT)


def wait_until_ready(visit):
    """Nothing is computed any more: waited for only where a picture is kept, for it can take a minute."""
    visit.page.locator(".status .bk-clearfix", has_text="Ready").wait_for(timeout=10 * PATIENCE)


@pytest.fixture
def keep(tmp_path):
    """`keep(visit, name, down_to)`: the page from its top to the end of an element, as a PNG of few colours."""

    def keep_picture(visit, name, down_to="main"):
        visit.page.mouse.move(0, 0)
        visit.page.evaluate("scrollTo(0, 0)")
        box = visit.page.locator(down_to).bounding_box()
        width, height = visit.page.viewport_size["width"], box["y"] + box["height"]
        shot = visit.page.screenshot(full_page=True, clip={"x": 0, "y": 0, "width": width, "height": height})
        folder = Path(FOLDER) if FOLDER else tmp_path
        folder.mkdir(parents=True, exist_ok=True)
        small = Image.open(io.BytesIO(shot)).convert("RGB").quantize(128, dither=Image.Dither.NONE)
        small.save(folder / f"{name}.png", optimize=True)
        assert len(np.unique(pixels((folder / f"{name}.png").read_bytes()).reshape(-1, 3), axis=0)) > 20

    return keep_picture


@pytest.mark.slow
def test_all_panels_of_one_algorithm(visit, keep):
    page = visit()
    assert page.number("samples-batch_size-0") == 228
    for panel in TITLES:
        picture = wait_for_lines(page, panel, LIGHT)
        assert len(np.unique(picture.reshape(-1, 3), axis=0)) > 20  # and words, and grey grids
    wait_until_ready(page)
    keep(page, "explorer")
    keep(page, "explorer_top", "#panel-samples")


@pytest.mark.slow
def test_two_algorithms_in_the_dark(visit, keep):
    page = visit("D=10000&second=linear+last&colours=dark")
    for panel in TITLES:
        wait_for_lines(page, panel, DARK if panel in QUICK else DARK[:1])
        assert drawn(page, panel).mean() < 64
    if FOLDER:
        wait_until_ready(page)
        for panel in TITLES:
            wait_for_lines(page, panel, DARK)
        keep(page, "explorer_two")


@pytest.mark.slow
def test_a_method_that_is_not_linear(visit, keep):
    page = visit("a=1.5&b=2&D=10000&first=sign+linear+last&second=linear+last")
    for panel in QUICK:
        wait_for_lines(page, panel, BOTH)
    if FOLDER:
        wait_until_ready(page)
        for panel in TITLES:
            wait_for_lines(page, panel, BOTH)
        keep(page, "explorer_sign")


@pytest.mark.slow  # ten seconds
def test_a_refused_state(visit, keep):
    """The message is on the screen without scrolling, and nothing is drawn."""
    page = visit("a=0.9")
    page.wait_for_text("words", "move a up")
    box = page.page.locator(".words").bounding_box()
    assert box["y"] + box["height"] < page.page.viewport_size["height"]
    for panel in TITLES:
        assert number_of(LIGHT[0], drawn(page, panel)) == 0
    keep(page, "explorer_refused", "#panel-samples")
