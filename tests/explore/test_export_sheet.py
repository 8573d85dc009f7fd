"""What the page in one file takes from the library: random settings, sliders, examples and panels."""

import json
import re

import numpy as np
import pytest

import sgdtheory as st
from sgdtheory.explore import export
from sgdtheory.explore.formulas import typeset
from sgdtheory.explore.layout import heights
from sgdtheory.explore.presets import PRESETS
from sgdtheory.explore.registry import SPECS, TITLES
from sgdtheory.explore.spec import INK
from sgdtheory.explore.state import NUMBERS, SENTENCES, State

DRAWN = {  # number → its least and largest value in random settings
    "num_samples": (1e2, 1e9),
    "capacity": (1.1, 3.5),
    "source": (1.1, 7.0),
    "noise_variance": (10**-2.0, 10**1.5),
    "num_features": (2, 2**14),
    "overhead": (0.05, 1.0),
}


def test_random_settings_are_spread_over_what_the_sliders_offer():
    """The ends are those of the draws: of a thousand none is beyond them, and some are within 3% of each."""
    states = export.random_states(1000)
    assert states[:5] == export.random_states(5), "the same ones every time"
    assert all(state.checked() is state and state.quick(0) for state in states)
    for name, (low, high) in DRAWN.items():
        values = np.array([getattr(state, name) for state in states if getattr(state, name) is not None], dtype=float)
        assert NUMBERS[name].ends[0] <= low
        assert high <= NUMBERS[name].ends[1]
        scale = np.log if NUMBERS[name].base else np.asarray
        places = (scale(values) - scale(low)) / (scale(high) - scale(low))
        assert -1e-9 <= places.min() < 0.03
        assert 0.97 < places.max() <= 1 + 1e-9
    assert np.mean([state.num_features is None for state in states]) == pytest.approx(0.7, abs=0.06)
    shares = [np.log(state.batch_size) / np.log(state.num_samples) for state in states]
    assert min(shares) == 0.0
    assert 0.75 < max(shares) <= 0.8


def test_a_reference_is_beside_the_best_learning_rate():
    state = State(num_samples=100.0, batch_size=4)
    found = export.reference(state)
    setting = {"batch_size": 4, "num_samples": 100}
    best = float(st.optimal_learning_rate(state.problem, **setting).learning_rate)
    assert found["rate"] == pytest.approx(best / 2, rel=1e-12)
    risk = st.excess_risk(state.problem, **setting, learning_rate=best / 2)
    assert found["total"] == pytest.approx(float(risk.total), rel=1e-12)
    critical = st.critical_batch_size(state.problem, num_samples=100, curve=False)
    assert (found["least"], found["critical"]) == (critical.optimal_risk, critical.batch_size)
    assert found["state"]["num_features"] is None


@pytest.fixture
def exported(monkeypatch, tmp_path):
    """`exported(checked=)`: the numbers told on the way, and what the page has of the library."""

    def write(**options):
        told = []
        path = export.export_page(tmp_path / "new" / "page.html", progress=told.append, **options)
        (sheet,) = re.findall(
            r'<script type="application/json"[^>]*>(.*?)</script>', path.read_text("utf-8"), re.DOTALL
        )
        return told, json.loads(sheet)

    monkeypatch.setattr(export, "reference", lambda state: {"state": {}})
    return write


@pytest.mark.parametrize("checked", [1, None, 1000])
def test_a_page_has_as_many_references_as_asked_for(checked, exported):
    """By default 24, as the guide says."""
    told, sheet = exported(**{} if checked is None else {"checked": checked})
    assert len(sheet["references"]) == (checked or 24)
    assert told == list(range(1, len(sheet["references"]) + 1))


@pytest.mark.parametrize("checked", [0, 1001])
def test_no_more_than_a_thousand_references(checked, exported):
    with pytest.raises(ValueError, match=f"checked must be from 1 to 1000, got {checked}"):
        exported(checked=checked)


def test_sliders_examples_and_panels_of_the_page(exported):
    """It has no preconditioner, no method but averaged SGD, and nothing that only a server computes."""
    sheet = exported(checked=1)[1]
    names = set(NUMBERS) - {"precondition", "rate_factor"}
    assert set(sheet["numbers"]) == set(sheet["start"]) == names
    for name in names:
        number, own = NUMBERS[name], sheet["numbers"][name]
        assert (own["low"], own["high"], own["step"], own["base"]) == (
            number.low,
            number.high,
            number.step,
            number.base,
        )
        assert [float(end) for end in own["ends"]] == pytest.approx(number.ends, rel=1e-5)
        assert sheet["start"][name] == getattr(State(), name)
    assert {name: each["none"] for name, each in sheet["numbers"].items() if each["none"]} == {
        "num_features": "all",
        "learning_rate": "best",
    }
    averaged = [preset for preset in PRESETS if preset.state.first == "sgd" and not preset.state.second]
    assert [(each["name"], each["state"]["source"]) for each in sheet["presets"]] == [
        (preset.name, preset.state.source) for preset in averaged
    ]
    assert {tuple(key) for *key, _ in sheet["readings"]} >= {("path", "total"), ("samples", "batch_size")}
    assert not {"theorem7", "smallest_batch_size"} & {name for _, name, _ in sheet["readings"]}
    assert set(sheet["sentences"]) == {*SENTENCES, "unstable"}
    assert list(sheet["panels"]) == list(TITLES)
    for name, panel in sheet["panels"].items():
        drawn = {
            glyph.name: glyph for glyph in SPECS[name].glyphs if glyph.name not in ("iterate", "simulated", "errors")
        }
        assert [glyph["name"] for glyph in panel["glyphs"]] == list(drawn)
        assert [glyph["ink"] for glyph in panel["glyphs"]] == [each.slots == (INK,) for each in drawn.values()]
        assert panel["answers"] == sorted({each.answer for each in drawn.values()})


def test_panels_of_the_page_have_labels_and_a_legend():
    """Loss curves have the label of the x axis that stands beneath them on the other page, and no last iterate."""
    text = export.page_text([])
    sections = {name: text.partition(f'<section id="panel-{name}"')[2].partition("</section>")[0] for name in TITLES}
    for name, section in sections.items():
        x, y = SPECS[name].labels
        assert f'<div class="label-y">{typeset(y)}</div>' in section
        if name != "rate":  # whose label has the units of methods that this page does not have
            assert f'<div class="label-x">{typeset(x or "samples $D$")}</div>' in section
        assert "averaged" in section
    assert "units of the weights" not in text
    assert typeset("$(1 + ω) D$") in sections["samples"]
    assert "iterate" not in sections["path"]


def test_figures_beneath_one_another_share_the_height_of_their_panel():
    found = heights()
    assert {name: found[name][0] for name in SPECS} == {name: spec.height for name, spec in SPECS.items()}
    shares = {name: sum(found[each][1] for each in SPECS if name in (each, SPECS[each].beneath)) for name in TITLES}
    assert shares == pytest.approx(dict.fromkeys(TITLES, 1.0))
    assert found["path"][1] > 0.5 > found["path_rates"][1]
