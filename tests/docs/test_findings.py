"""The findings: every recorded number, claim and verdict, one figure a page, and tables that are made, not typed."""

import json
import re

import pytest

from experiments._lib import findings
from experiments._lib.finding_text import claims, short, table_of_verdicts, tidy
from experiments._lib.redraw import FOLDER
from tests.docs.blocks import FINDINGS, ROOT, _same

INDEX = (ROOT / "FINDINGS.md").read_text()
TEXTS = {page.stem: page.read_text() for page in FINDINGS}
RECORDED = sorted(path.parent.name for path in FOLDER.glob("*/verdicts.json"))
NUMBER = re.compile(r"(?<![\w.])−?\d[\d.,]*\d|(?<![\w.])−?\d")
INTERVAL = re.compile(r"[+−]?[\d.]+ \(−?[\d.]+ … −?[\d.]+\)")
FIGURE = re.compile(r"^!\[[^]]+\]\(\.\./\.\./experiments/recorded/(\w+)\.png\)$", re.M)
SECTIONS = ["How sure", "What it does not say", "How to reproduce"]


def prose(page):
    """A page without what is made from recorded results."""
    return findings.MARK.sub("", page)


def named(text):
    return set(findings.NAMED.findall(text))


# ---------------------------------------------------------------- the pages and the index


def test_the_index_is_short_and_has_one_line_a_page():
    assert len(INDEX.splitlines()) <= 150
    assert sorted(found["page"] for found in findings.LINE.finditer(INDEX)) == sorted(TEXTS)


@pytest.mark.parametrize("page", TEXTS)
def test_a_page_begins_with_its_claim_and_its_number(page):
    """The claim as a heading, the number in bold, at most one figure, and the sections in order."""
    heading, _, first, *_ = TEXTS[page].splitlines()
    assert re.match(r"# .*(\d|Fourteen)", heading)
    assert re.match(r"\*\*.*\d.*?\*\*", first)
    assert len(FIGURE.findall(TEXTS[page])) == TEXTS[page].count("![") <= 1
    assert re.findall("^## (.*)$", TEXTS[page], re.M) == SECTIONS
    assert TEXTS[page].endswith("\n[All findings](../../FINDINGS.md)\n")
    commands = TEXTS[page].split("## How to reproduce")[1]
    assert re.search(r"`(python -m experiments .*--only \w+|python -m benchmarks.gpu|pytest .+?)`", commands)


@pytest.mark.parametrize("page", TEXTS)
def test_a_line_of_the_index_says_what_its_page_says(page):
    """Its numbers stand on the page, and those of the page's heading below it, rounded; verdicts are the page's."""
    (line,) = [found for found in findings.LINE.finditer(INDEX) if found["page"] == page]
    claim = line["line"].partition("): ")[2]
    assert set(NUMBER.findall(claim)) <= set(NUMBER.findall(TEXTS[page]))
    heading, _, below = TEXTS[page].partition("\n")
    exact = set(NUMBER.findall(below))
    assert [number for number in NUMBER.findall(heading) if not any(_same(number, each) for each in exact)] == []
    assert line["verdicts"] == findings.verdicts_of(TEXTS[page])


def test_every_figure_of_the_findings_has_its_page():
    """None on two pages; recorded figures that no page has belong to the README or to a guide."""
    shown = [name for text in TEXTS.values() for name in FIGURE.findall(text)]
    assert len(set(shown)) == len(shown)
    assert {path.stem for path in FOLDER.glob("*.png")} - set(shown) == {"why", "gpu_speed"}


# ---------------------------------------------------------------- made from what was recorded


@pytest.mark.parametrize("page", TEXTS)
def test_tables_are_those_of_the_recorded_results(page):
    """`python -m experiments --findings` writes the same tables."""
    assert findings.with_tables(TEXTS[page]) == TEXTS[page]


def test_the_verdicts_of_the_index_are_those_of_the_pages():
    assert findings.with_verdicts(INDEX, TEXTS) == INDEX


def test_every_made_table_is_shown():
    asked = [found["what"] for text in TEXTS.values() for found in findings.MARK.finditer(text)]
    assert {what for what in asked if not what.startswith("verdicts ")} == set(findings.MADE)


@pytest.mark.parametrize("experiment", RECORDED)
def test_every_recorded_claim_is_shown(experiment):
    """On the pages of its experiment, with its verdict."""
    asked = re.compile(rf"--only {experiment}`|made: verdicts {experiment}\b")
    shown = "".join(text for text in TEXTS.values() if asked.search(text))
    for row in table_of_verdicts(experiment).splitlines()[2:]:
        assert f"{row}\n" in shown


@pytest.mark.parametrize("page", [page for page, text in TEXTS.items() if "made: verdicts" in text])
def test_a_page_names_the_verdicts_of_its_claims_in_words(page):
    """Outside of its tables: nothing that fails or is inconclusive is said more quietly than the rest."""
    asked = [findings.VERDICTS.fullmatch(found["what"]) for found in findings.MARK.finditer(TEXTS[page])]
    mine = {each["verdict"] for found in asked if found for each in claims(*findings._chosen(found))}
    assert mine <= named(prose(TEXTS[page]))


def test_a_typed_number_is_noticed():
    """Control: a digit changed in a table, a verdict in the index; and what is not there is refused."""
    page = TEXTS["momentum"]
    typed = page.replace("4.4 (β = 0.8)", "4.5 (β = 0.8)")
    assert typed != page
    assert findings.with_tables(typed) == page
    louder = INDEX.replace("**fails** 1\n", "**holds** 1\n")
    assert louder != INDEX
    assert findings.with_verdicts(louder, TEXTS) == INDEX
    with pytest.raises(ValueError, match=r"made must be verdicts EXPERIMENT or one of .*averages.*, got nothing"):
        findings.made("nothing")
    with pytest.raises(ValueError, match="no recorded claim of momentum has 'no such' in it"):
        findings.made("verdicts momentum: raises; no such")


def test_a_new_page_and_a_new_line_are_filled_in(tmp_path, monkeypatch):
    """By the command, which changes nothing the second time."""
    (tmp_path / "pages").mkdir()
    index = tmp_path / "FINDINGS.md"
    page = tmp_path / "pages" / "new.md"
    index.write_text("# Findings\n\n- [New](docs/findings/new.md): it is 4.4 … 29.\n")
    page.write_text("# New\n\n<!-- made: verdicts momentum: raises B* -->\n<!-- end -->\n")
    monkeypatch.setattr(findings, "PAGES", page.parent)
    monkeypatch.setattr(findings, "INDEX", index)
    assert findings.update() == [page, index]
    assert index.read_text().endswith("it is 4.4 … 29. · **holds** 2\n")
    assert "| momentum raises B\\*: a = 2, b = 3 | above 1 |" in page.read_text()
    assert findings.update() == []


def test_numbers_are_written_as_readers_read_them():
    assert tidy("D = 1e+08: -0.05 ± 0.01, 3.1e-06 (B* | -1)") == "D = 10⁸: −0.05 ± 0.01, 3.1·10⁻⁶ (B\\* \\| −1)"
    assert tidy("γ^-1, 10^{4}, 1990-1995") == "γ^−1, 10⁴, 1990-1995"
    assert [short(each) for each in (0.0004401, 12749.4, -0.15, 0, None, "at most 1")] == [
        *("4.4·10⁻⁴", "12,700", "−0.150", "0", "∞", "at most 1")
    ]


# ---------------------------------------------------------------- sentences against what was recorded


def recorded(experiment):
    """The pages of an experiment, and the verdicts that they are about."""
    pages = [text for text in TEXTS.values() if re.search(rf"(--only|made: verdicts) {experiment}\b", text)]
    return "\n".join(pages).replace("−", "-"), json.loads((FOLDER / experiment / "verdicts.json").read_text())


@pytest.mark.parametrize(
    "experiment",
    [
        *("width_invariance", "width_limit", "precision", "accumulation", "ablations", "optimizers_networks"),
        *("learning_rate_transfer", "averaging"),
    ],
)
def test_findings_have_the_recorded_numbers(experiment):
    """Estimate and interval of every recorded verdict, rounded as the page rounds them."""
    text, verdicts = recorded(experiment)
    for verdict in verdicts:
        value, (low, high) = verdict["measured"], verdict["interval"]
        digits = 2 if max(abs(value - low), abs(value - high)) > 0.01 else 3
        shown = f"{value:+.2f} ({low:.2f} … {high:.2f}) **{verdict['verdict']}**"
        ratio = f"{value:.{digits}f} ({low:.{digits}f} … {high:.{digits}f})"
        whole = f"by {value:.3f} on both"
        assert shown in text or ratio in text or whole in text, verdict["claim"]


@pytest.mark.parametrize("data", ["teacher", "text"])
def test_findings_have_the_recorded_growth_with_data(data):
    text, verdicts = recorded("data_scaling")
    fixed = [each["measured"] for each in verdicts if f"({data}, at width" in each["claim"]]
    (together,) = [each for each in verdicts if f"({data}, width and data" in each["claim"]]
    low, high = together["interval"]
    assert f"D^{min(fixed):.2f} … D^{max(fixed):.2f}" in text
    assert f"{together['measured']:.2f} ({low:.2f} … {high:.2f})" in text


def test_findings_have_the_recorded_theory_against_network():
    text, (ratio, slope, risk) = recorded("theory_meets_network")
    assert ratio["measured"] in text
    assert f"{ratio['interval'][0]:.2f} … {ratio['interval'][1]:.2f}" in text
    low, high = slope["interval"]
    assert f"D^{slope['measured']:.2f} (99%: {low:.2f} … {high:.2f}), against {slope['predicted']:.2f}" in text
    assert f"{risk['measured'] - 1:.1%}" in text


def test_findings_have_the_recorded_signs_on_features():
    """Every batch size of every verdict, and the interval, in one row; of signs in eigenvectors the extremes."""
    text, verdicts = recorded("sign_features")
    for verdict in verdicts:
        low, high = verdict["interval"]
        if "eigenvectors" in verdict["claim"]:
            assert f"{verdict['measured']} (" in text
            continue
        cells = re.findall(r"B = \d+: ([\d.]+(?: … [\d.]+)?) \(", verdict["statement"])
        assert len(cells) == 4
        assert f"| {' | '.join(cells)} | {low:.2f} … {high:.2f} | **{verdict['verdict']}** |" in text


def test_findings_have_the_recorded_exponents_of_networks():
    """Slope and interval of every line, with its verdict in the same row."""
    text, verdicts = recorded("data_law")
    for verdict in verdicts:
        (slope,) = re.findall(r"errors in both: (\S+ \(.*?\)) \(95%\)", verdict["statement"])
        rows = [row for row in text.splitlines() if f"| {slope.replace(chr(0x2212), chr(45))} |" in row]
        assert any(row.endswith(f"**{verdict['verdict']}** |") for row in rows), verdict["claim"]


@pytest.mark.parametrize("experiment", [name for name in RECORDED if name not in ("accumulation", "precision")])
def test_findings_have_the_recorded_verdicts(experiment):
    """Every kind that was recorded is named on the pages of the experiment, and no other, in tables and in words."""
    text, verdicts = recorded(experiment)
    assert {each["verdict"] for each in verdicts} == named(text) == named(prose(text))


def test_findings_have_the_recorded_slopes_of_averages():
    text, verdicts = recorded("averages")
    for verdict in verdicts:
        slopes = re.findall(r"b = [\d.]+: (-?[\d.]+ ± [\d.]+) \(predicted", verdict["statement"])
        assert slopes
        assert all(slope in text for slope in slopes)


def intervals(verdict):
    """An estimate with its interval as a sentence may round it."""
    value, (low, high) = verdict["measured"], verdict["interval"]
    for digits in (2, 3):
        for sign in "", "+":
            yield f"{value:{sign}.{digits}f} ({low:.{digits}f} … {high:.{digits}f})".replace("-", "−")


@pytest.mark.parametrize(
    "page",
    [
        *("width_invariance", "width_invariance_text", "width_invariance_gpu", "width_limit"),
        *("learning_rate_transfer", "precision", "averaging", "optimizers_networks", "optimizers_text"),
    ],
)
def test_first_paragraphs_have_recorded_intervals_alone(page):
    """The text before a page's figure, and its line in the index, give estimates of its own claims."""
    asked = [findings.VERDICTS.fullmatch(found["what"]) for found in findings.MARK.finditer(TEXTS[page])]
    mine = [each for found in asked if found for each in claims(*findings._chosen(found))]
    allowed = {text for each in mine for text in intervals(each)}
    (line,) = [found["line"] for found in findings.LINE.finditer(INDEX) if found["page"] == page]
    first = TEXTS[page].split("## How sure")[0]
    said = INTERVAL.findall(prose(first) + line)
    assert said
    # 90% intervals decide within a margin, and stand in the statement
    statements = "".join(each["statement"] for each in mine)
    assert [text for text in said if text not in allowed and text.split("(")[1].rstrip(")") not in statements] == []
