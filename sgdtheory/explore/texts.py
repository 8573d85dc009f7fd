"""Texts of the page in HTML: the numbers of the setting, and what a visitor should know."""

import html
from collections.abc import Mapping, Sequence

from sgdtheory.explore.appearance import about, number

READINGS = {  # (answer, mark) → its words on the page
    ("path", "total"): "risk",
    ("path", "bias"): "bias",
    ("path", "variance"): "variance",
    ("path", "num_steps"): "steps\u00a0n",
    ("path", "learning_rate"): "learning rate\u00a0γ",
    ("path", "edge"): "stability edge",
    ("samples", "batch_size"): "B*",
    ("samples", "num_steps"): "steps at\u00a0B*",
    ("samples", "optimal_risk"): "R_opt(D)",
    ("samples", "optimal_batch_size"): "B of R_opt",
    ("path", "theorem7"): "Theorem 7's bound",
    ("path", "missed"): "what M features miss",
}
TABLE_STYLE = """<style>table { border-collapse: collapse; }
th, td { font-weight: normal; text-align: right; vertical-align: bottom; padding: 0 .9em .1em 0; white-space: nowrap; }
th[scope=row] { white-space: normal; min-width: 9em; }
th[scope=col] { white-space: normal; opacity: .75; } td { font-weight: bold; }</style>"""
NOTE_STYLE = "background: var(--note); padding: .5em .8em; border-left: 4px solid var(--accent)"


def note(sentences: Sequence[str]) -> str:
    """Sentences that stand out; nothing if there are none."""
    told = [html.escape(each[:1].upper() + each[1:] if each[1:2].isalpha() else each) for each in sentences]
    return f"<div style='{NOTE_STYLE}'>{'<br>'.join(dict.fromkeys(told))}</div>" if told else ""


def readings(names: Sequence[str], marks: Mapping[tuple[str, int], Mapping[str, float]]) -> str:
    """The numbers of the setting, a row an algorithm, a column a number that one of them has and is not 0.

    Args:
        names: of the algorithms.
        marks: (answer, algorithm's place) → its numbers.
    """
    rows = []
    told = [key for key in READINGS if any(marks.get((key[0], slot), {}).get(key[1]) for slot in range(len(names)))]
    if not told:
        return ""
    for slot, name in enumerate(names):
        cells = (_cell(key, slot, marks.get((key[0], slot), {})) for key in told)
        rows.append(f"<tr><th scope='row'>{html.escape(name)}</th>{''.join(cells)}</tr>")
    head = "".join(f"<th scope='col'>{READINGS[key]}</th>" for key in told)
    return f"{TABLE_STYLE}<table><tr><th></th>{head}</tr>{''.join(rows)}</table>"


def _cell(key: tuple[str, str], slot: int, marks: Mapping[str, float]) -> str:
    """A number, with all of its digits for programs that read the page; one to some 1% has no more than it is worth."""
    value, name = marks.get(key[1]), f"{'-'.join(key)}-{slot}"
    if value is None:
        return "<td></td>"
    if "approximate" in marks:
        return f'<td data-about="{name}" data-value="{value!r}" title="to some 1%">{about(value)}</td>'
    return f'<td data-name="{name}" data-value="{value!r}" title="{value!r}">{number(value, 4)}</td>'
