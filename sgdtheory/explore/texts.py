"""Texts of the page in HTML: the numbers of the setting, and what a visitor should know."""

import html
from collections.abc import Collection, Mapping, Sequence

from sgdtheory._common.sheets import Sheet, as_html
from sgdtheory.explore.appearance import number
from sgdtheory.explore.formulas import typeset
from sgdtheory.explore.legends import symbol
from sgdtheory.explore.spec import Glyph
from sgdtheory.explore.state import SLOTS, State

Marks = Mapping[tuple[str, int], Mapping[str, float]]

READINGS = {  # Both pages describe a mark of an answer by these words.
    ("path", "total"): "risk $Δ$",
    ("path", "bias"): "bias",
    ("path", "variance"): "variance",
    ("path", "theorem7"): "bound of Theorem 7",
    ("path", "missed"): "approximation error",
    ("path", "num_steps"): "steps $n$",
    ("path", "learning_rate"): "learning rate $γ$",
    ("path", "edge"): "stability limit",
    ("samples", "batch_size"): "$B^*$",
    ("samples", "smallest_batch_size"): "least useful $B$",
    ("samples", "num_steps"): "steps at $B^*$",
    ("samples", "optimal_risk"): "$R_{opt}(D)$",
    ("samples", "optimal_batch_size"): "best $B$",
}


def note(sentences: Sequence[str]) -> str:
    """Return sentences in a box that stands out; nothing if there are none."""
    return f"<div class='note'>{'<br>'.join(dict.fromkeys(map(html.escape, sentences)))}</div>" if sentences else ""


def waiting(late: Mapping[str, float], running: bool) -> str:
    """Return the text of what is being computed, and for how many seconds."""
    told = [f"{what} ({seconds:.0f} s)" for what, seconds in late.items()]
    return f"Computing: {', '.join(told)}" if told else "Computing" if running else "Ready"


def replicas(marks: Marks) -> str:
    """Return the text on the number of runs that simulated points are means of."""
    finished = [marks.get(("simulated", slot), {}).get("replicas") for slot in range(len(SLOTS))]
    told = [f"{each:.0f}" for each in finished if each]
    return f"Means of {' and '.join(told)} simulated runs" if told else ""


def rates(state: State, marks: Marks, pale: Collection[tuple[str, int]]) -> list[float]:
    """Return the known γ of the algorithms that have it in units of 1/λ, or of all algorithms where none has."""
    linear = [slot for slot, algorithm in enumerate(state.algorithms) if algorithm.linear]
    known = [slot for slot in linear or range(len(state.algorithms)) if ("path", slot) in marks]
    return [marks["path", slot]["learning_rate"] for slot in known if ("path", slot) not in pale]


def readings(
    names: Sequence[str],
    marks: Marks,
    pale: Collection[tuple[str, int]] = (),
    before: Marks = {},  # noqa: B006 (only read)
) -> str:
    """Return the numbers of the setting that are known and not 0, each with a value for every algorithm.

    Args:
        names: of the algorithms.
        marks: (answer, algorithm's place) → its numbers.
        pale: answers that were computed for an earlier position of a slider.
        before: the numbers before the last move of a control: those that differ from them are marked.
    """
    several = len(names) > 1
    dots = [symbol(Glyph("", "circle", ""), slot, room=12) if several else "" for slot in range(len(names))]
    listed = []
    for (answer, name), words in READINGS.items():
        if not any(marks.get((answer, slot), {}).get(name) for slot in range(len(names))):
            continue
        values = []
        for slot, dot in enumerate(dots):
            value, old = marks.get((answer, slot), {}).get(name), before.get((answer, slot), {}).get(name)
            key = f"{answer}-{name}-{slot}"
            values.append(f"<dd>{dot} {'–' if value is None else _value(key, value, (answer, slot) in pale, old)}</dd>")
        listed.append(f"<div><dt>{typeset(words)}</dt>{''.join(values)}</div>")
    named = "\u2003".join(f"{dot} {html.escape(name)}" for dot, name in zip(dots, names, strict=True) if dot)
    return f"<div>{named}</div><dl class='listed'>{''.join(listed)}</dl>" if listed else ""


def results(
    names: Sequence[str], sheets: Mapping[tuple[str, int], Sequence[Sheet]], pale: Collection[tuple[str, int]] = ()
) -> str:
    """Return the tables of the results, under the name of each algorithm.

    Args:
        names: of the algorithms.
        sheets: (answer, algorithm's place) → the sheets of its results.
        pale: answers that were computed for an earlier position of a slider, which are left out.
    """
    parts = []
    for slot, name in enumerate(names):
        own = [subject for subject in sheets if subject[1] == slot and subject not in pale]
        tables = [as_html(sheet) for answer in sorted(own) for sheet in sheets[answer]]
        parts += [f"<div><h3>{html.escape(name)}</h3>{''.join(tables)}</div>"] if tables else []
    return f"<div class='side'>{''.join(parts)}</div>" if parts else ""


def _value(key: str, value: float, pale: bool, old: float | None) -> str:
    """Return a number with all its digits as an attribute, for programs."""
    text = number(value, 4)
    if pale:
        return f'<span class="old" data-old="{key}" title="of the previous setting">{text}</span>'
    changed = ' class="changed"' if old not in (None, value) else ""
    return f'<span{changed} data-name="{key}" data-value="{value!r}" title="{value!r}">{text}</span>'
