"""How the page writes numbers, names of algorithms, symbols and titles."""

import math
import re

import pytest

import sgdtheory as st
from sgdtheory.explore.appearance import number
from sgdtheory.explore.legends import caption, legend, symbol
from sgdtheory.explore.spec import INK, Glyph
from sgdtheory.explore.state import State
from sgdtheory.explore.texts import note, readings, replicas, results, waiting


@pytest.mark.parametrize(
    ("value", "text"),
    [
        (0.0, "0"),
        (1.0, "1"),
        (0.5, "0.5"),
        (-0.25, "−0.25"),
        (0.0012345, "0.00123"),
        (0.001, "0.001"),
        (0.00099999, "10⁻³"),
        (0.00098765, "9.88 × 10⁻⁴"),
        (3.14159, "3.14"),
        (228.0, "228"),
        (228.7, "229"),
        (12345.0, "12345"),
        (99999.0, "99999"),
        (1234.5, "1230"),
        (12345.6, "12300"),
        (99999.5, "100000"),
        (1e5, "10⁵"),
        (123456.0, "1.23 × 10⁵"),
        (-2e-10, "−2 × 10⁻¹⁰"),
        (math.inf, "∞"),
        (-math.inf, "−∞"),
        (math.nan, "–"),
    ],
)
def test_a_number_has_three_digits_or_is_whole(value, text):
    assert number(value) == text


def test_a_number_has_as_many_digits_as_asked_for():
    assert [number(math.pi * 10**power, 5) for power in (-5, 0, 3, 6)] == [
        "3.1416 × 10⁻⁵",
        "3.1416",
        "3141.6",
        "3.1416 × 10⁶",
    ]


MARKS = {
    ("path", 0): {"total": 1.23456, "bias": 0.5, "missed": 0.0},
    ("path", 1): {"total": 2.0, "variance": 0.75, "missed": 0.0},
}


def cells(text):
    """Return the words of each row and its values as the reader sees them."""
    rows = re.findall("<div><dt>(.*?)</dt>(.*?)</div>", text)
    values = [[re.sub("<[^>]*>", "", cell).strip() for cell in re.findall("<dd>(.*?)</dd>", row)] for _, row in rows]
    return dict(zip([re.sub("<[^>]*>", "", words) for words, _ in rows], values, strict=True))


def test_readings_of_two_algorithms_are_side_by_side():
    """A number that neither has is left out, as is one that is 0 for both; all digits are beneath the four shown."""
    text = readings(["sgd", "a < b"], MARKS)
    assert cells(text) == {"risk Δ": ["1.235", "2"], "bias": ["0.5", "–"], "variance": ["–", "0.75"]}
    assert 'data-value="1.23456" title="1.23456"' in text
    assert text.count("<svg") == 2 * (1 + 3), "a dot beside each name and each number"
    assert "a &lt; b" in text
    assert text.count("var(--first)") == text.count("var(--second)")


def test_readings_of_one_algorithm_need_no_name():
    text = readings(["sgd"], MARKS)
    assert cells(text) == {"risk Δ": ["1.235"], "bias": ["0.5"]}
    assert "<svg" not in text
    assert "sgd" not in text
    assert readings(["sgd"], {}) == ""


def test_tables_are_under_the_names_of_their_algorithms():
    """Those of an earlier position of a slider are left out."""
    risks = [st.excess_risk(State().problem, batch_size=8, num_samples=100, learning_rate=rate) for rate in (0.1, 0.2)]
    sheets = {("path", slot): (risk.sheet(),) for slot, risk in enumerate(risks)}
    first, second = (f"<div><h3>{name}</h3>{risk._repr_html_()}</div>" for name, risk in zip("ab", risks, strict=True))
    assert results("ab", sheets) == f"<div class='side'>{first}{second}</div>"
    assert results("ab", sheets, pale=[("path", 0)]) == f"<div class='side'>{second}</div>"
    assert results("ab", {}) == ""


def test_sentences():
    assert note([]) == ""
    assert note(["a < b", "once", "once"]) == "<div class='note'>a &lt; b<br>once</div>"
    assert [waiting({}, running) for running in (False, True)] == ["Ready", "Computing"]
    assert waiting({"B*": 1.4, "loss curve": 2.6}, True) == "Computing: B* (1 s), loss curve (3 s)"
    assert replicas({("simulated", 1): {"replicas": 12.0}}) == "Means of 12 simulated runs"
    assert replicas({("simulated", 0): {"share": 0.5}}) == ""


def test_a_legend_names_lines_in_their_colours():
    glyphs = [
        Glyph("line", "line", "risk", words=""),
        Glyph("star", "star", "risk", words="least $R$"),
        Glyph("level", "level", "risk", words="allowed", slots=(INK,), dash="dotted"),
        Glyph("points", "circle", "risk"),
    ]
    entries = re.findall("<span class='entry'>(.*?)</span>", legend(glyphs, ["a<b", "last"]))
    assert [re.sub("<[^>]*>", "", each).strip() for each in entries] == ["a&lt;b", "last", "least R", "allowed"]
    assert [re.search(r"var\(--(\w+)\)", each)[1] for each in entries] == ["first", "second", "first", "ink"]
    assert ["stroke-dasharray='2 4'" in each for each in entries] == [False, False, False, True]
    assert ["fill='var" in each for each in entries] == [False, False, True, False]


def test_a_symbol_is_as_wide_as_its_room():
    for room in (16, 34):
        drawn = symbol(Glyph("line", "line", "risk"), 0, room)
        assert f"viewBox='0 0 {room} 16' width='{room / 16:g}em'" in drawn
        assert f"M1,8 H{room - 1}" in drawn
        assert f"translate({room / 2:g},8)" in symbol(Glyph("star", "star", "risk"), 0, room)


def test_the_first_title_with_known_numbers_is_shown():
    titles = "$B$ = [batch] at [overhead%], [slope]", "[batch] at [overhead%]"
    known = {"batch": 228.0, "overhead": 0.2}
    assert caption(titles, known) == "228 at 20%"
    assert re.sub("<[^>]*>", "", caption(titles, known | {"slope": 0.3333})) == "B = 228 at 20%, 0.333"
    assert caption(titles, {"batch": 1.0}) == ""
