import dataclasses
import re

import numpy as np
import pytest

from experiments._lib.registry import EXPERIMENTS
from experiments._lib.report import write_report
from experiments._lib.results import Verdict
from sgdtheory._common.files import json_text, write_atomically

VERDICTS = {
    "theorem7": [Verdict("Theorem 7, total", "risk ≍ |bound|", "bounded", "0.1 … 2", (0.1, 2.0), "holds", 3.0)],
    "why": [
        Verdict("cheap up to B*", "at every B ≤ B*", 1.0, 1.25, (1.1, 1.4), "fails"),
        Verdict("γ ≍ 1", "once", 2.0, 1.23456, (1.0, np.inf), "inconclusive"),
    ],
}


@pytest.fixture
def report(tmp_path):
    for name, verdicts in VERDICTS.items():
        write_atomically(tmp_path / name / "verdicts.json", json_text([dataclasses.asdict(each) for each in verdicts]))
        (tmp_path / name / "figure.png").write_bytes(b"")
    return write_report(tmp_path).read_text()


def test_the_summary_is_on_top(report):
    """Every claim with its verdict, number and interval, before anything else."""
    summary = report[: report.index("## Contents")]
    assert summary.startswith("# Results\n\n## Summary\n\n3 claims, checked by 2 experiments:")
    assert "| [theorem7](#theorem7) | Theorem 7, total | **holds** | 0.1 … 2 | 0.1 … 2 |" in summary
    assert r"| [why](#why) | cheap up to B\* | **fails** | 1.25 | 1.1 … 1.4 |" in summary
    assert "| [why](#why) | γ ≍ 1 | **inconclusive** | 1.235 | 1 … not finite |" in summary
    assert "- 1 × **fails**: it should hold and does not" in summary
    assert "imprecise" not in summary  # nothing is


def test_contents_words_experiments_figures(report):
    places = [report.index(part) for part in ("## Contents", "## Words", "## why", "![figure](why/", "## theorem7")]
    assert places == sorted(places)
    anchors = set(re.findall(r"\]\(#([\w-]+)\)", report))
    headings = {line[3:].lower() for line in report.splitlines() if line.startswith("## ")}
    assert anchors <= headings
    assert r"risk ≍ \|bound\|" in report


@pytest.mark.parametrize("word", ["Excess risk", "Critical batch size", "Exponent", "Score", "s.e.", "µP", "Kurtosis"])
def test_words_are_explained(report, word):
    assert word in report[report.index("## Words") : report.index("## why")]


@pytest.mark.parametrize("name", EXPERIMENTS)
def test_every_experiment_says_what_it_asks(name):
    assert 20 < len(EXPERIMENTS[name].question) < 160


def test_nothing_found_yet(tmp_path):
    assert write_report(tmp_path).read_text() == "# Results\n"
