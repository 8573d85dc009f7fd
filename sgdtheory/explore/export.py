"""The explorer as one file: the exact risk of averaged SGD and its B*, computed by the browser that opens the page."""

import html
import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np

from sgdtheory._common.files import write_atomically
from sgdtheory._common.version import version
from sgdtheory.critical import critical_batch_size, optimal_learning_rate
from sgdtheory.explore.formulas import formula, typeset
from sgdtheory.explore.layout import LAW, part, tabs
from sgdtheory.explore.legends import raised
from sgdtheory.explore.presets import PRESETS
from sgdtheory.explore.registry import SPECS, TITLES
from sgdtheory.explore.state import NUMBERS, WITHOUT, State
from sgdtheory.risk import excess_risk

COMPUTED = "theory.js", "search.js", "worker.js"  # what the worker's thread runs
CONTROLS = (
    "capacity",
    "source",
    "noise_variance",
    "num_features",
    "num_samples",
    "batch_size",
    "learning_rate",
    "overhead",
)
BOXES = {"num_features": "all features ($M → ∞$)", "learning_rate": "the best $γ$"}
READINGS = {
    "path-total": "risk $Δ$",
    "path-bias": "bias",
    "path-variance": "variance",
    "path-steps": "steps $n$",
    "path-rate": "learning rate $γ$",
    "path-edge": "stability edge",
    "critical-batch": "$B^*$",
    "critical-steps": "steps at $B^*$",
    "critical-least": "$R_{opt}(D)$",
    "critical-bestBatch": "$B$ of $R_{opt}$",
}
CHECKED = 24  # random settings by which a page says how accurate it is


def export_page(path: str | Path, *, checked: int = CHECKED, progress: Callable[[int], None] | None = None) -> Path:
    """Write the page: one HTML file that needs neither a server nor Python nor a network.

    It has averaged SGD on power laws: sliders of a, b, σ², M, D, B, γ and ω, panels of R(D, B), B*, its growth, loss
    curves and γ. It computes them itself, and shows how far from Python it is at `checked` random settings.

    Args:
        path: of the file; its folder is made.
        checked: number of random settings, 1 to 1000.
        progress: called with how many of these have been computed.

    Returns:
        The path.

    Raises:
        ValueError: `path` ends in something else than .html, or `checked` is out of range.
        OSError: the file cannot be written.
    """
    target = Path(path)
    if target.suffix.lower() not in (".html", ".htm"):
        raise ValueError(f"path must end in .html, got {str(path)!r}; a browser opens it by that")
    if target.is_dir():
        raise ValueError(f"path must be a file, got the folder {str(path)!r}; name a file in it")
    if not 1 <= checked <= 1000:
        raise ValueError(f"checked must be from 1 to 1000, got {checked}; {CHECKED} take seconds")
    references = []
    for state in random_states(checked):
        references.append(reference(state))
        if progress:
            progress(len(references))
    return write_atomically(target, page_text(references))


def random_states(count: int) -> list[State]:
    """States on no grid, the same ones every time."""
    rng = np.random.default_rng(20241)
    found = []
    for _ in range(count):
        samples = 10 ** rng.uniform(2.0, 9.0)
        found.append(
            State(
                capacity=rng.uniform(1.1, 3.5),
                source=rng.uniform(1.1, 7.0),
                noise_variance=10 ** rng.uniform(-2.0, 1.5),
                num_samples=samples,
                num_features=None if rng.uniform() < 0.7 else int(2 ** rng.uniform(1.0, 14.0)),
                batch_size=int(samples ** rng.uniform(0.0, 0.8)),
                overhead=rng.uniform(0.05, 1.0),
            )
        )
    return found


def reference(state: State) -> dict[str, Any]:
    """What Python says of a state: the risk at half the best γ, R_opt and B*."""
    setting: Any = {"batch_size": state.batch_size, "num_samples": state.num_samples}
    best = optimal_learning_rate(state.problem, **setting)
    rate = 0.5 * float(best.learning_rate)  # off the minimum, where an error shows
    critical = critical_batch_size(state.problem, num_samples=state.num_samples, overhead=state.overhead, curve=False)
    return {
        "state": {name: getattr(state, name) for name in CONTROLS},
        "rate": rate,
        "total": float(excess_risk(state.problem, **setting, learning_rate=rate).total),
        "least": float(critical.optimal_risk),
        "critical": float(critical.batch_size),
    }


def page_text(references: list[dict[str, Any]]) -> str:
    """The HTML of the page."""
    filled = {name: part(name) for name in ("page.css", "view.css", "chart.js", "view.js", "page.js")}
    filled |= {
        "worker": "\n".join(part(name) for name in COMPUTED),
        "tabs": tabs(),
        "sections": "\n".join(_section(name) for name in TITLES),
        "law": LAW,
        "version": html.escape(version()),
        "sheet": json.dumps(_sheet(references), ensure_ascii=False).replace("</", "<\\/"),
    }
    text = part("page.html")
    for name, content in filled.items():
        text = text.replace(f"@@{name}@@", content)
    return text


def _sheet(references: list[dict[str, Any]]) -> dict[str, Any]:
    """What the page takes from the library: names, ranges, words, presets."""
    start = State()
    numbers = {}
    for name in CONTROLS:
        number = NUMBERS[name]
        numbers[name] = number._asdict() | {
            "words": typeset(number.words),
            "none": WITHOUT.get(name, ""),
            "without": typeset(BOXES.get(name, "")),
        }
    plain = State(**{name: getattr(start, name) for name in CONTROLS})
    presets = [
        {
            "name": each.name,
            "sentence": raised(each.sentence),
            "state": {name: getattr(each.state, name) for name in CONTROLS},
        }
        for each in PRESETS
        if (each.state.first, each.state.second) == (plain.first, plain.second)
    ]
    return {
        "numbers": numbers,
        "start": {name: getattr(start, name) for name in CONTROLS},
        "presets": presets,
        "readings": {name: typeset(words) for name, words in READINGS.items()},
        "panels": TITLES,
        "labels": {name: (SPECS[name].labels[0] or "samples D", SPECS[name].labels[1]) for name in TITLES},
        "references": references,
    }


def _section(name: str) -> str:
    """A panel, empty."""
    return f"""<section id="panel-{name}" aria-label="{html.escape(TITLES[name])}">
    <h2><span>{html.escape(TITLES[name])}</span> {formula(SPECS[name].formula) if SPECS[name].formula else ""}</h2>
    <div class="caption"></div>
    <div class="figure"><div class="chart"></div><div class="computing" role="status">computing …</div></div>
    <div class="key">{KEYS.get(name, "")}</div>
  </section>"""


KEYS = {
    "risk": "— risk, – – bias, ··· variance; ★ " + formula("R_{opt}(D)") + ", the least",
    "samples": "★ " + formula("B^*") + ", the largest within the dotted line",
    "growth": "– – Corollary 8's slope, through the last",
    "rate": "— risk, – – bias, ··· variance; ● the γ of the loss curve; dotted: the stability edge",
}
