"""The page in a real browser can be read, and is reached by keys alone."""

from urllib.parse import quote

import numpy as np
import pytest

from sgdtheory.explore.drawing import TICKS
from sgdtheory.explore.state import NUMBERS

LONG = "heavy-ball momentum=0.9 cosine final=0.05 warmup=0.1 tail"


@pytest.mark.slow
def test_nothing_is_cut_in_large_text(visit):
    """Numbers, titles and legends lie within their panels: what has no room goes to the next line."""
    page = visit(f"D=300&B=4&text=large&second={quote(LONG)}&M=16")
    page.number("path-total-1")
    page.number("samples-batch_size-0")
    assert LONG in page.page.locator("#panel-samples .key .bk-clearfix").inner_text()
    assert page.page.evaluate(CUT) == []


CUT = """() => {
    const cut = [];
    const visit = (root, room) => {
        for (const each of root.querySelectorAll("*")) {
            if (each.shadowRoot) visit(each.shadowRoot, room);
            const box = each.getBoundingClientRect();
            if (box.width && (box.right > room.right + 1 || box.left < room.left - 1))
                cut.push(`${each.tagName} ${each.textContent.slice(0, 40)}: ${box.left} … ${box.right}`);
        }
    };
    for (const each of document.querySelectorAll("#numbers, main section .caption, main section .key"))
        visit(each.shadowRoot || each, each.getBoundingClientRect());
    for (const section of document.querySelectorAll("main section"))
        for (const column of section.querySelectorAll(".bk-Column"))
            for (const each of column.shadowRoot.querySelectorAll(".caption, .key"))
                visit(each.shadowRoot, section.getBoundingClientRect());
    return cut;
}"""


@pytest.mark.slow
def test_ticks_of_a_logarithmic_axis(visit):
    """An axis of any range has two to nine numbers, none so close to another that they collide."""
    page = visit("D=300&B=4").page
    rng = np.random.default_rng(0)
    starts = 10 ** rng.uniform(-20, 15, 2000)
    ends = starts * 10**10 ** rng.uniform(-2, 1.4, starts.size)
    found = page.evaluate(
        "([code, ranges]) => ranges.map(([start, end]) => new Function('cb_data', code)({range: {start, end}}))",
        [TICKS, list(zip(starts.tolist(), ends.tolist(), strict=True))],
    )
    for start, end, ticks in zip(starts, ends, found, strict=True):
        assert 2 <= len(ticks) <= 9, (start, end, ticks)
        places = np.log(np.array(ticks, dtype=float) / start) / np.log(end / start)
        assert -0.01 <= places[0] <= places[-1] <= 1.01
        assert np.diff(places).min() > 0.09, (start, end, ticks)


@pytest.mark.slow
@pytest.mark.parametrize(("colours", "text"), [("light", "normal"), ("dark", "normal"), ("light", "large")])
def test_it_can_be_read(visit, colours, text):
    """Contrast of at least 4.5 everywhere, and nothing beside a page of 1280 px."""
    page = visit("D=500&B=8")
    page.number("path-total-0")
    page.choose("colours", colours)
    page.choose("text", text)
    page.page.wait_for_function(f"document.documentElement.dataset.look === '{colours} {text}'")
    page.page.wait_for_function("location.search.includes('colours')")
    poor = page.page.evaluate(POOR)
    assert poor == []
    assert page.page.evaluate("document.documentElement.scrollWidth - innerWidth") <= 0
    assert page.page.evaluate("getComputedStyle(document.documentElement).getPropertyValue('--size')").strip() == (
        "19px" if text == "large" else "14px"
    )


POOR = """() => {
    const parse = (text) => (text.match(/[\\d.]+/g) || []).map(Number);
    const light = ([r, g, b]) => [r, g, b].map((v) => v / 255)
        .map((v) => v <= 0.03928 ? v / 12.92 : ((v + 0.055) / 1.055) ** 2.4)
        .reduce((sum, v, place) => sum + v * [0.2126, 0.7152, 0.0722][place], 0);
    const ground = (element) => {
        for (let each = element; each; each = each.assignedSlot || each.parentNode || each.host) {
            if (each instanceof ShadowRoot) continue;
            if (!(each instanceof Element)) break;
            const colour = parse(getComputedStyle(each).backgroundColor);
            if (colour.length === 3 || colour[3] > 0.5) return colour;
        }
        return parse(getComputedStyle(document.body).backgroundColor);
    };
    const poor = [];
    const visit = (root) => {
        for (const each of root.querySelectorAll("*")) {
            if (each.shadowRoot) visit(each.shadowRoot);
            const own = [...each.childNodes].some((node) => node.nodeType === 3 && node.data.trim());
            if (!(own || each.tagName === "SELECT") || !(each.tagName === "OPTION" || each.getClientRects().length))
                continue;
            if (["STYLE", "SCRIPT", "NOSCRIPT"].includes(each.tagName)) continue;
            const style = getComputedStyle(each), ink = parse(style.color);
            const [high, low] = [light(ink), light(ground(each))].sort((a, b) => b - a);
            if ((high + 0.05) / (low + 0.05) < 4.5)
                poor.push(`${each.tagName} ${each.textContent.slice(0, 30)}: ${style.color} on ${ground(each)}`);
        }
    };
    visit(document);
    return poor;
}"""


@pytest.mark.slow  # ten seconds
def test_keys_alone_reach_every_control(visit):
    page = visit("D=500&B=8&rate=0.05&M=16&second=sign")  # both sliders of γ
    page.number("path-total-1")
    reached = set()
    for _ in range(150):
        page.page.keyboard.press("Tab")
        reached.add(page.page.evaluate(FOCUSED))
    wanted = [f"control-{name}" for name in NUMBERS] + ["without-num_features", "without-learning_rate"]
    wanted += ["control-preset", "control-colours", "control-text", "control-simulate"]
    wanted += ["control-first-method", "control-first-average", "control-second-method", "control-second-basis"]
    missing = [name for name in wanted if not any(name in each for each in reached)]
    assert missing == []
    assert {"Python", "PDF", "PNG", "CSV"} <= {each.rpartition("|")[2] for each in reached}


FOCUSED = """() => {
    let element = document.activeElement, classes = "";
    while (element) {
        classes += " " + element.className;
        if (!element.shadowRoot) break;
        element = element.shadowRoot.activeElement;
    }
    return classes + "|" + (element ? element.textContent.trim().slice(0, 20) : "");
}"""
