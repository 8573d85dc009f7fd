"""The explorer as one file: the browser that opens it computes the exact risk of averaged SGD and its B*."""

import html
import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np

from sgdtheory._common.files import write_atomically
from sgdtheory._common.version import version
from sgdtheory.critical import critical_batch_size, optimal_learning_rate
from sgdtheory.explore.formulas import typeset
from sgdtheory.explore.layout import LAW, heading, part, style, tabs
from sgdtheory.explore.legends import DASHES, MARKS, legend
from sgdtheory.explore.panels.path import UNSTABLE
from sgdtheory.explore.panels.rate import OTHER_UNITS
from sgdtheory.explore.presets import PRESETS
from sgdtheory.explore.registry import SPECS, TITLES
from sgdtheory.explore.spec import INK
from sgdtheory.explore.state import NUMBERS, SENTENCES, WITHOUT, State
from sgdtheory.explore.texts import READINGS
from sgdtheory.risk import excess_risk

COMPUTED = "theory.js", "search.js", "worker.js"  # The thread that computes runs these files.
CONTROLS = [name for name in NUMBERS if name not in ("precondition", "rate_factor")]
BOXES = {"num_features": "all features ($M → ∞$)", "learning_rate": "the best $γ$"}
NOT_COMPUTED = "iterate", "simulated", "errors", "theorem7", "smallest_batch_size"  # Only the server has such marks.
CHECKED = 24  # A page measures its accuracy at this many random settings.


def export_page(path: str | Path, *, checked: int = CHECKED, progress: Callable[[int], None] | None = None) -> Path:
    """Write the explorer as one HTML file that needs neither a server nor Python nor a network.

    It is about averaged SGD on power laws, with sliders of a, b, σ², M, D, B, γ and ω and all panels. The browser
    computes them, and shows how far its numbers are from those of Python at `checked` random settings.

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
    """Compute Python's answers for a state: the risk at half the best γ, R_opt and B*."""
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
    """Return the HTML of the page."""
    filled = {name: part(name) for name in ("numbers.js", "chart.js", "view.js", "page.js")}
    filled |= {
        "style": style(),
        "worker": "\n".join(part(name) for name in COMPUTED),
        "tabs": tabs(),
        "sections": "\n".join(_section(name) for name in TITLES),
        "law": LAW,
        "licence": part("math-font-licence.txt"),
        "version": html.escape(version()),
        "sheet": json.dumps(_sheet(references), ensure_ascii=False).replace("</", "<\\/"),
    }
    text = part("page.html")
    for name, content in filled.items():
        text = text.replace(f"@@{name}@@", content)
    return text


def _sheet(references: list[dict[str, Any]]) -> dict[str, Any]:
    """Return what the page takes from the library: names, ranges, texts, presets."""
    start = {name: getattr(State(), name) for name in CONTROLS}
    numbers = {}
    for name in CONTROLS:
        texts = {"words": NUMBERS[name].words, "without": BOXES.get(name, "")}
        numbers[name] = NUMBERS[name]._asdict() | {key: typeset(words) for key, words in texts.items()}
        numbers[name] |= {"none": WITHOUT.get(name, ""), "ends": [f"{end:g}" for end in NUMBERS[name].ends]}
    presets = [
        {
            "name": each.name,
            "sentence": typeset(each.sentence),
            "state": {name: getattr(each.state, name) for name in CONTROLS},
        }
        for each in PRESETS
        if (each.state.first, each.state.second) == (State().first, State().second)
    ]
    return {
        "numbers": numbers,
        "start": start,
        "presets": presets,
        "readings": [(*key, typeset(words)) for key, words in READINGS.items() if key[1] not in NOT_COMPUTED],
        "panels": {name: _panel(name) for name in TITLES},
        "sentences": SENTENCES | {"unstable": UNSTABLE},
        "references": references,
    }


def _panel(name: str) -> dict[str, Any]:
    """Return what a panel draws and says, for `chart.js` and `page.js`."""
    spec = SPECS[name]
    glyphs = [
        {
            **glyph._asdict(),
            "dash": DASHES[glyph.dash],
            "mark": MARKS.get(glyph.kind, ""),
            "ink": glyph.first == INK,
        }
        for glyph in spec.glyphs
        if glyph.name not in NOT_COMPUTED
    ]
    return {
        "title": TITLES[name],
        "captions": [typeset(each) for each in spec.captions],
        "toldBy": spec.told_by,
        "answers": sorted({glyph["answer"] for glyph in glyphs}),
        "glyphs": glyphs,
        "below": spec.below,
        "capped": spec.capped,
        "yRange": spec.y_range,
        "yTicks": spec.y_ticks,
    }


def _section(name: str) -> str:
    """Return a panel without its figure."""
    spec = SPECS[name]
    x, y = (typeset(label) for label in ((spec.labels[0] or "samples $D$").replace(OTHER_UNITS, ""), spec.labels[1]))
    key = legend([glyph for glyph in spec.glyphs if glyph.name not in NOT_COMPUTED], State().names)
    return f"""<section id="panel-{name}" aria-label="{html.escape(TITLES[name])}">
    {heading(name)}
    <div class="caption"></div>
    <div class="label-y">{y}</div><div class="chart"></div><div class="label-x">{x}</div>
    <div class="key">{key}</div>
  </section>"""
