"""Formulas as MathML: what is set is what was written."""

import xml.etree.ElementTree as ElementTree

import pytest

from sgdtheory.explore.formulas import PLACEHOLDER, formula, plain, typeset
from sgdtheory.explore.presets import PRESETS
from sgdtheory.explore.registry import SPECS, TITLES
from sgdtheory.explore.state import NUMBERS
from sgdtheory.explore.texts import READINGS


def text_of(markup):
    return "".join(ElementTree.fromstring(f"<p>{markup}</p>").itertext())


@pytest.mark.parametrize(
    ("text", "markup"),
    [
        ("x_i", "<msub><mi>x</mi><mi>i</mi></msub>"),
        ("2a", "<mn>2</mn><mi>a</mi>"),
        ("D^{1 − a}", "<msup><mi>D</mi><mrow><mn>1</mn><mo>−</mo><mi>a</mi></mrow></msup>"),
        ("min_γ Δ", '<munder><mo lspace="0" rspace=".2em">min</mo><mi>γ</mi></munder><mi>Δ</mi>'),
        ("R_{opt}", '<msub><mi>R</mi><mrow><mi mathvariant="normal">opt</mi></mrow></msub>'),
        ("a < b", "<mi>a</mi><mo>&lt;</mo><mi>b</mi>"),
        ("D^{[slope]}", "<msup><mi>D</mi><mrow><mn>[slope]</mn></mrow></msup>"),
        ("(x)", '<mo stretchy="false">(</mo><mi>x</mi><mo stretchy="false">)</mo>'),
    ],
)
def test_markup(text, markup):
    assert formula(text) == f"<math>{markup}</math>"


@pytest.mark.parametrize("text", ["x}", "{x", "_x", "x^"])
def test_bad_formulas(text):
    with pytest.raises(ValueError, match="text must have"):
        formula(text)


def test_every_formula_of_the_page_is_set():
    """Nothing but braces and signs of place is lost, and all of it is well formed."""
    words = [f"${SPECS[name].formula}$" for name in TITLES]
    words += [number.words for number in NUMBERS.values()]
    words += [*READINGS.values(), *(each.sentence for each in PRESETS)]
    words += [text for spec in SPECS.values() for text in (*spec.labels, *spec.captions, spec.short)]
    words += [glyph.words for spec in SPECS.values() for glyph in spec.glyphs if glyph.words]
    for text in (PLACEHOLDER.sub("1", text) for text in words):
        expected = "".join(each for each in text if each not in "${}_^")
        if text.startswith("$") and text.endswith("$"):
            expected = expected.replace(" ", "")
        shown = text_of(typeset(text))
        assert shown.replace(" ", "").replace("\u2003", "") == expected.replace(" ", "").replace("\u2003", "")
    assert all(SPECS[name].formula for name in TITLES)


def test_labels_in_plain_text_have_no_markup():
    labels = [number.words for number in NUMBERS.values()] + [each for spec in SPECS.values() for each in spec.labels]
    for label in labels:
        assert not set("${}_") & set(plain(label))
