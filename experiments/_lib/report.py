"""results/report.md: what was found on top, then every experiment's verdicts and figures, on one page."""

import json
from collections import Counter
from pathlib import Path
from typing import Any

from experiments._lib.registry import EXPERIMENTS
from sgdtheory._common.files import write_atomically

WORDS = """## Words

- **Batch size B, learning rate γ, samples D, steps n**: SGD takes n = ⌊D/B⌋ steps, each on B new samples.
- **Excess risk**: expected squared error on new data, beyond that of the best weights. Its **bias** is what is left of
  the start, its **variance** what label noise adds.
- **Exact risk**: the excess risk computed in closed form, without a simulation.
- **a and b, λ_i and s_i**: direction i of the inputs has the variance λ_i = i^−a (a: capacity), and at the start it
  holds the excess risk s_i = i^−b (b: source). σ² is the variance of the label noise, H has the eigenvalues λ_i.
- **Bound**: what Theorem 7 says the risk is, up to constants. It holds if exact risk over bound stays between two
  constants; the **ratio** in the tables is this quotient.
- **Effective dimension k\\***: the number of directions that SGD has had the time to learn.
- **Critical batch size B\\***: the largest batch size that reaches the best risk with at most 20% more samples than the
  best batch size needs. Below it a larger batch saves steps nearly for free. The 20% are the **overhead**.
- **Exponent**: c in B\\* ∝ D^c, a straight line's slope in logarithms. "D → ∞" means extrapolated: over a finite range
  the slope is not yet the final one.
- **Interval**: the range of what was measured, or where the number lies with the stated confidence.
- **Standard error (s.e.)**: how far a measured mean typically is from the true one by chance alone.
- **Score**: (measured − expected) / standard error, made normally distributed. Beyond 5 or so it is no chance.
- **Replica**: one of many independent repetitions of a simulated run. **Seed**: the number that fixes its chance.
- **Law** (of steps): steps to a target loss = a + b/B; its B\\* is read off the fit.
- **µP, standard**: two rules for how initial weights and learning rates depend on the **width** of a network, the
  number of units in a layer.
- **Kurtosis**: fourth moment over squared variance; 3 for Gaussian data, more for heavier tails.
"""
MEANINGS = {
    "holds": "measured within the tolerance or interval stated with it",
    "fails": "it should hold and does not",
    "inconclusive": "the measurement cannot tell",
    "imprecise in the paper": "what is printed is not what is true as stated; mostly without effect on the rates",
}


def write_report(folder: Path) -> Path:
    """Gather what `folder` holds, of this run or an earlier one: summary, contents, words, experiments."""
    found = {
        name: json.loads((folder / name / "verdicts.json").read_text())
        for name in EXPERIMENTS
        if (folder / name / "verdicts.json").exists()
    }
    lines = ["# Results", ""]
    if found:
        lines += [*_summary(found), *_contents(found), WORDS]
    for name, verdicts in found.items():
        lines += _section(folder, name, verdicts)
    return write_atomically(folder / "report.md", "\n".join(lines))


def _summary(found: dict[str, list[dict[str, Any]]]) -> list[str]:
    """Return lines with the number of claims that hold, the meaning of the verdicts, and one row a claim."""
    counts = Counter(row["verdict"] for verdicts in found.values() for row in verdicts)
    lines = ["## Summary", "", f"{sum(counts.values())} claims, checked by {len(found)} experiments:", ""]
    lines += [f"- {counts[name]} × **{name}**: {meaning}" for name, meaning in MEANINGS.items() if counts[name]]
    lines += ["", *_header("experiment", "claim", "verdict", "measured", "interval")]
    for name, verdicts in found.items():
        for row in verdicts:
            claim, verdict, measured = _cell(row["claim"]), f"**{row['verdict']}**", _cell(row["measured"])
            lines.append(_row(f"[{name}](#{name})", claim, verdict, measured, _interval(row)))
    return [*lines, ""]


def _contents(found: dict[str, list[dict[str, Any]]]) -> list[str]:
    lines = [f"- [{name}](#{name}): {_cell(EXPERIMENTS[name].question)}" for name in found]
    return ["## Contents", "", "- [Words](#words): what the terms mean", *lines, ""]


def _section(folder: Path, name: str, verdicts: list[dict[str, Any]]) -> list[str]:
    """One experiment: its question, its claims in a table and in sentences, its figures."""
    lines = [f"## {name}", "", _cell(EXPERIMENTS[name].question), ""]
    lines += _header("claim", "predicted", "measured", "interval", "verdict", "seconds")
    for row in verdicts:
        claim, predicted, measured, seconds = (_cell(row[key]) for key in ("claim", "predicted", "measured", "seconds"))
        lines.append(_row(claim, predicted, measured, _interval(row), f"**{row['verdict']}**", seconds))
    lines += ["", *(f"- {_cell(row['claim'])}: {_cell(row['statement'])}." for row in verdicts), ""]
    for figure in sorted((folder / name).glob("*.png")):
        lines += [f"![{figure.stem}]({name}/{figure.name})", ""]
    data = f"Data: [{name}/data.csv]({name}/data.csv), columns and units in columns.json, settings in config.json."
    return [*lines, data, ""]


def _interval(row: dict[str, Any]) -> str:
    return " … ".join(map(_cell, row["interval"] or ()))


def _header(*cells: str) -> list[str]:
    return [_row(*cells), _row(*["---"] * len(cells))]


def _row(*cells: str) -> str:
    return "| " + " | ".join(cells) + " |"


def _cell(value: Any) -> str:
    """A value as text that Markdown shows as it is."""
    text = "not finite" if value is None else f"{value:.4g}" if isinstance(value, float) else str(value)
    return text.replace("|", "\\|").replace("*", "\\*")
